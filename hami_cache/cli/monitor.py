"""``hami-cache monitor``: in vGPUmonitor's place, by changing the image only."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import click

from hami_cache.cli.options import hook_path_option, layouts_option
from hami_cache.cli.pods import pods_option
from hami_cache.durations import parse_duration
from hami_cache.errors import ConfigError

log = logging.getLogger(__name__)

RESYNC_VARIABLE = "HAMI_RESYNC_INTERVAL"
DEFAULT_RESYNC = "5m"
_DIRECTORY = click.Path(path_type=Path)


@click.command()
@click.option(
    "--metrics-bind-address",
    "address",
    default=":9394",
    show_default=True,
    help="Where to listen, as Go writes it: :9394, 127.0.0.1:9394, [::1]:9394.",
)
@click.option("--once", is_flag=True, help="Print one scrape and end.")
@hook_path_option
@pods_option("auto")
@click.option(
    "--legacy-metrics",
    "legacy",
    is_flag=False,
    flag_value="true",
    type=bool,
    default=False,
    help="Export upstream's old metric names too; some carry changing values in their labels.",
)
@click.option("--read-only", is_flag=True, help="Never write into a cache and remove nothing.")
@click.option("--no-feedback", is_flag=True, help="Do not run the feedback loop.")
@click.option("--no-gc", is_flag=True, help="Do not remove the directories of pods that are gone.")
@click.option("--gc-dry-run", is_flag=True, help="Only log what would be removed.")
@click.option(
    "--host-proc",
    type=_DIRECTORY,
    help="The host's /proc: leave slots of dead processes out of the sums.",
)
@click.option("--no-nvml", is_flag=True, help="Do not ask the driver about the host's cards.")
@click.option("--board-readings", "board", is_flag=True, help="Temperature, power, memory errors.")
@click.option("--release-nvml", is_flag=True, help="Hold NVML only while a scrape reads it.")
@click.option(
    "--device-type-vendor-once",
    "vendor_once",
    is_flag=True,
    help="Label device_type NVIDIA-A100 instead of upstream's NVIDIA-NVIDIA A100.",
)
@click.option(
    "--web-config",
    "--web.config.file",
    "web_config",
    type=_DIRECTORY,
    help="TLS and basic auth, in the exporter toolkit's web configuration file.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
)
@layouts_option
def monitor(
    address: str,
    once: bool,
    hook_path: Path | None,
    pods_spec: str,
    legacy: bool,
    read_only: bool,
    no_feedback: bool,
    no_gc: bool,
    gc_dry_run: bool,
    host_proc: Path | None,
    no_nvml: bool,
    board: bool,
    release_nvml: bool,
    vendor_once: bool,
    web_config: Path | None,
    log_format: str,
    log_level: str,
    layouts: Path | None,
) -> int:
    """Serve the node's GPU metrics, keep the feedback loop, clean up after pods.

    Takes vGPUmonitor's place: the same environment (HOOK_PATH, NODE_NAME, HAMI_RESYNC_INTERVAL,
    KUBECONFIG), the same metrics. SIGTERM ends it within two seconds.
    """
    from hami_cache.monitor.logs import setup_logging

    setup_logging(log_format, log_level)
    if hook_path is None:
        hint = "set HOOK_PATH, or give --hook-path"
        raise ConfigError("nobody said where the caches are", field="HOOK_PATH", hint=hint)
    from hami_cache.cli.assembly import MonitorOptions, run_monitor

    options = MonitorOptions(
        address=address,
        hook_path=hook_path,
        once=once,
        pods=pods_spec,
        resync=resync_seconds(),
        layouts=layouts,
        legacy=legacy,
        read_only=read_only,
        feedback=not (no_feedback or read_only or once),
        gc=not (no_gc or read_only or once),
        gc_dry_run=gc_dry_run,
        host_proc=host_proc,
        nvml=not no_nvml,
        board=board,
        release_nvml=release_nvml,
        vendor_once=vendor_once,
        web_config=web_config,
    )
    return run_monitor(options)


def resync_seconds() -> float:
    """``HAMI_RESYNC_INTERVAL`` in seconds; a value that is no duration is warned about."""
    text = os.environ.get(RESYNC_VARIABLE) or DEFAULT_RESYNC
    try:
        seconds = parse_duration(text)
        if seconds <= 0:
            raise ConfigError("must be positive")
    except ConfigError:
        log.warning(
            "%s is %r, which is no duration: taking %s", RESYNC_VARIABLE, text, DEFAULT_RESYNC
        )
        return parse_duration(DEFAULT_RESYNC)
    return seconds
