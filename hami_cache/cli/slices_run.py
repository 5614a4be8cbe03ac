"""How ``hami-cache slices`` opens its sources and takes its passes."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import click

from hami_cache.cli.repeating import ended_by_signals
from hami_cache.cli.slices_output import Remarks, answer
from hami_cache.errors import ConfigError
from hami_cache.node.containers import ContainerTree
from hami_cache.node.liveness import HostLiveness
from hami_cache.node.nvml_session import Nvml
from hami_cache.node.pods import PodSource, PodView
from hami_cache.node.usage import UsageReader
from hami_cache.slices.collect import Collected
from hami_cache.slices.live import LiveSlices
from hami_cache.slices.sectionjson import to_json

DEFAULT_PROC = Path("/proc")


@contextlib.contextmanager
def open_live(
    pods: PodSource,
    hook_path: Path | None,
    host_proc: Path | None,
    *,
    nvml: bool,
    layouts: Path | None,
) -> Iterator[LiveSlices]:
    """Open what a pass needs, and close it at the end.

    Args:
        pods: who runs here.
        hook_path: where the caches are; None leaves them out.
        host_proc: the host's /proc. Not given, it is ours that tells whose the driver's processes
            are: one that is not the host's shows itself there. A missing process would not: it
            would pass for a dead one, so none is asked for the caches.
        nvml: ask the driver.
        layouts: a folder of layout files.

    Raises:
        ConfigError: `host_proc` is no directory.
    """
    with contextlib.ExitStack() as opened:
        reader = driver = None
        if hook_path is not None:
            tree = ContainerTree(hook_path, layouts=layouts)
            opened.callback(tree.close)
            liveness = None if host_proc is None else HostLiveness(host_proc)
            reader = UsageReader(tree, liveness=liveness)
        if nvml:
            opened.enter_context(_quiet("hami_cache.node.nvml_session"))
            driver = opened.enter_context(Nvml())
        yield LiveSlices(pods, nvml=driver, reader=reader, host_proc=host_proc or DEFAULT_PROC)


class Passes:
    """Takes passes and prints them.

    Args:
        live: takes them.
        pods: names for people.
        asked: pod, container and card to answer for; None prints the section.
        explain: say why figures are missing.
    """

    def __init__(
        self,
        live: LiveSlices,
        pods: PodSource,
        *,
        asked: tuple[str, str, str] | None,
        explain: bool,
    ) -> None:
        self._live = live
        self._pods = pods
        self._asked = asked
        self._remarks = Remarks(explain=explain)

    def take(self) -> int:
        """Take and print one; returns the exit code.

        Raises:
            ConfigError: nobody knows the pod that was asked for.
        """
        collected = self._live.collect(complete=True)
        view = self._pods.view()
        self._remarks.make(collected, view)
        return _section(collected) if self._asked is None else _answer(collected, view, self._asked)

    def repeat(self, seconds: float) -> None:
        """Take one after the other until told to stop, whatever comes of them."""
        with ended_by_signals():
            while True:
                self.take()
                time.sleep(seconds)


@contextlib.contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Keep a logger from saying what the pass itself reports."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _section(collected: Collected) -> int:
    """Print the section; 2 where there is none although there was something to measure."""
    section = collected.section
    click.echo(b"null" if section is None else to_json(section))
    return 2 if section is None and (collected.problems or collected.charges) else 0


def _answer(collected: Collected, view: PodView, asked: tuple[str, str, str]) -> int:
    """Print one container's figures on one card; 1 where both are absent."""
    pod, container, device = asked
    document = answer(collected, _uid(pod, view), container, device)
    click.echo(json.dumps(document))
    figures = (document["memoryUsedMiB"], document["coresUtilizationPercent"])
    return 0 if any(isinstance(figure, int) for figure in figures) else 1


def _uid(pod: str, view: PodView) -> str:
    """The UID of a pod named by it or by NAMESPACE/NAME."""
    if "/" not in pod:
        return pod
    for known in view.pods.values():
        if f"{known.namespace}/{known.name}" == pod:
            return known.uid
    raise ConfigError(f"there is no pod {pod} on this node", field="--figures")
