"""``hami-cache allocwatch``: the node's GPU allocation becomes the readings of a simulated NVML."""

from __future__ import annotations

import contextlib
import logging
import threading
from pathlib import Path

import click

from hami_cache.absent import Absent
from hami_cache.allocwatch.claims import GPU_RESOURCE
from hami_cache.allocwatch.profile import DEFAULT_PROFILE, load_profile
from hami_cache.allocwatch.reconcile import (
    Device,
    FractionPolicy,
    MeasuredPolicy,
    Policy,
    Reading,
)
from hami_cache.allocwatch.watch import Watcher
from hami_cache.cli.pods import open_pods, pods_option
from hami_cache.cli.repeating import ended_by_signals, parse_interval
from hami_cache.errors import ConfigError
from hami_cache.node.podresources import DEFAULT_SOCKET, PodResources
from hami_cache.node.pods import NoPods, PodSource

log = logging.getLogger("hami_cache.allocwatch")

_FILE = click.Path(path_type=Path)
_POD_LIST_WAIT = 10.0


@click.command()
@click.option(
    "--profile",
    "--config",
    "profile",
    type=_FILE,
    default=DEFAULT_PROFILE,
    show_default=True,
    envvar="MOCK_NVML_CONFIG",
    show_envvar=True,
    help="The simulated NVML's config.yaml, which lists the cards.",
)
@click.option(
    "--overrides",
    type=_FILE,
    envvar="MOCK_NVML_OVERRIDES",
    show_envvar=True,
    help="The override file to write.  [default: overrides.yaml beside the profile]",
)
@click.option(
    "--socket",
    type=_FILE,
    default=DEFAULT_SOCKET,
    show_default=True,
    envvar="MOCK_NVML_PODRESOURCES_SOCKET",
    show_envvar=True,
    help="The kubelet's pod-resources socket.",
)
@click.option(
    "--resource-name", default=GPU_RESOURCE, show_default=True, help="The resource that counts."
)
@click.option(
    "--policy",
    default="fraction=0.5",
    show_default=True,
    metavar="POLICY",
    help="What a claim holds: fraction=F of its card's usable memory, 0 < F <= 1, or what its "
    "container's cache measured (measured; needs --hook-path and --pods).",
)
@click.option(
    "--hook-path",
    type=_FILE,
    envvar="HOOK_PATH",
    show_envvar=True,
    help="HAMi's directory with the containers' caches, for --policy measured.",
)
@pods_option("none")
@click.option("--once", is_flag=True, help="Poll once, print the readings, and end.")
@click.option(
    "--interval", default="2s", show_default=True, metavar="DURATION", help="Between polls."
)
@click.option(
    "--max-message-mib",
    type=click.IntRange(1, 1024),
    default=16,
    show_default=True,
    help="The largest list that is accepted from the kubelet.",
)
def allocwatch(
    profile: Path,
    overrides: Path | None,
    socket: Path,
    resource_name: str,
    policy: str,
    hook_path: Path | None,
    pods_spec: str,
    once: bool,
    interval: str,
    max_message_mib: int,
) -> None:
    """Turn the node's GPU allocation into readings.

    Asks the kubelet which containers hold which cards and writes the memory that each card should
    report into the override file of a simulated NVML, beside what others keep there. SIGTERM and
    Ctrl-C end it cleanly.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    seconds = parse_interval(interval)
    devices = load_profile(profile)
    target = overrides or profile.with_name("overrides.yaml")
    with ended_by_signals(), contextlib.ExitStack() as opened:
        pods = open_pods(pods_spec, wait=_POD_LIST_WAIT if once else 0.0)
        opened.callback(pods.close)
        held = _policy(policy, hook_path, pods)
        kubelet = PodResources(socket, max_message_bytes=max_message_mib << 20)
        opened.callback(kubelet.close)
        watcher = Watcher(kubelet.list, devices, held, target, resource=resource_name, pods=pods)
        if once:
            _print(devices, watcher.poll())
        else:
            log.info("%d cards, %s every %s -> %s", len(devices), socket, interval, target)
            watcher.run(seconds, threading.Event())


def _policy(text: str, hook_path: Path | None, pods: PodSource) -> Policy:
    if text == "measured":
        if hook_path is None or isinstance(pods, NoPods):
            raise ConfigError(
                "measured needs to know where the caches are, and whose",
                field="--policy",
                hint="give --hook-path and --pods",
            )
        from hami_cache.allocwatch.measured import measured_memory

        return MeasuredPolicy(measured_memory(hook_path, pods))
    name, _, fraction = text.partition("=")
    with contextlib.suppress(ValueError):
        if name == "fraction" and 0 < float(fraction) <= 1:
            return FractionPolicy(float(fraction))
    raise ConfigError(
        f"{text!r} is no policy", field="--policy", hint="fraction=F with 0 < F <= 1, or measured"
    )


def _print(devices: list[Device], readings: list[Reading]) -> None:
    for device, reading in zip(devices, readings, strict=True):
        memory = reading.memory
        if isinstance(memory, Absent):
            figures = f"not published: {memory.reason}"
        else:
            figures = f"used {memory.used_bytes} free {memory.free_bytes}"
        click.echo(f"{device.index} {device.uuid or '-'} {figures}")
