"""The metrics of the node's cards, from NVML, with upstream's names."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Metric

from hami_cache.absent import Absent
from hami_cache.monitor.exposition import Family
from hami_cache.monitor.labels import ZONE, LabelCache
from hami_cache.node.nvml_host import device_type
from hami_cache.node.nvml_status import HostReport

NODE = ("zone", "node", "device_index", "device_uuid", "device_type")
CONTROLLER = ("zone", "device_index", "device_uuid", "device_type")
LEGACY = ("zone", "nodeid", "deviceidx", "deviceuuid", "devicetype")
UP = ("node", "device_index")


def host_families(
    report: HostReport, node: str, labels: LabelCache, *, vendor_once: bool = False
) -> Iterable[Metric]:
    """The host's families; a reading that failed has no sample, the card's others do.

    Args:
        report: one pass over the cards.
        node: the label ``node``.
        labels: keeps label sets between scrapes.
        vendor_once: spell ``device_type`` with the vendor once.
    """
    memory = Family("hami_host_gpu_memory_used_bytes", "Memory used on the card.")
    utilization = Family(
        "hami_host_gpu_utilization_ratio", "GPU utilization of the card in percent, 0 to 100."
    )
    controller = Family(
        "hami_host_gpu_memory_controller_utilization_ratio",
        "Memory controller utilization of the card in percent, 0 to 100.",
    )
    up = Family("hami_cache_host_gpu_up", "Whether the card could be read at all: 1 or 0.")
    for device in report.devices:
        card = (str(device.index), device.uuid, device_type(device.name, vendor_once=vendor_once))
        its = labels.get(NODE, (ZONE, node, *card))
        if not isinstance(device.memory_used, Absent):
            memory.add(its, device.memory_used)
        if not isinstance(device.gpu_utilization, Absent):
            utilization.add(its, device.gpu_utilization)
        if not isinstance(device.memory_utilization, Absent):
            controller.add(labels.get(CONTROLLER, (ZONE, *card)), device.memory_utilization)
        up.add(labels.get(UP, (node, str(device.index))), 1)
    for bad in report.bad:
        up.add(labels.get(UP, (node, str(bad.index))), 0)
    yield from (memory, utilization, controller, up)


def legacy_host_families(report: HostReport, node: str, labels: LabelCache) -> Iterable[Metric]:
    """Upstream's old names of the host's metrics; only with ``--legacy-metrics``."""
    memory = Family("HostGPUMemoryUsage", "GPU device memory usage.")
    cores = Family("HostCoreUtilization", "GPU core utilization.")
    for device in report.devices:
        values = (ZONE, node, str(device.index), device.uuid, device_type(device.name))
        its = labels.get(LEGACY, values)
        if not isinstance(device.memory_used, Absent):
            memory.add(its, device.memory_used)
        if not isinstance(device.gpu_utilization, Absent):
            cores.add(its, device.gpu_utilization)
    yield from (memory, cores)


def board_families(report: HostReport, node: str, labels: LabelCache) -> Iterable[Metric]:
    """Temperature, power and memory errors, where the card tells; with ``--board-readings``."""
    temperature = Family("hami_cache_host_gpu_temperature_celsius", "Temperature of the card.")
    power = Family("hami_cache_host_gpu_power_watts", "Power draw of the card.")
    errors = Family(
        "hami_cache_host_gpu_ecc_errors", "Uncorrected memory errors since the driver was loaded."
    )
    for device in report.devices:
        its = labels.get(
            ("node", "device_index", "device_uuid"), (node, str(device.index), device.uuid)
        )
        if not isinstance(device.temperature, Absent):
            temperature.add(its, device.temperature)
        if not isinstance(device.power, Absent):
            power.add(its, device.power / 1000)
        if not isinstance(device.ecc_errors, Absent):
            errors.add(its, device.ecc_errors)
    yield from (temperature, power, errors)
