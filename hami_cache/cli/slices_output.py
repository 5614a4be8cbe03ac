"""What ``hami-cache slices`` prints besides the section itself."""

from __future__ import annotations

from typing import Any

import click

from hami_cache.absent import Absent
from hami_cache.errors import one_line
from hami_cache.node.pods import PodView
from hami_cache.node.rows import MANUFACTURER_NVIDIA
from hami_cache.slices.collect import Collected
from hami_cache.slices.figures import Answers, Figures
from hami_cache.slices.findings import Finding
from hami_cache.slices.gaps import figure_of, gaps
from hami_cache.slices.merge import share_of
from hami_cache.slices.section import Figure, Usage

_UNITS = {"memory": "MiB", "cores": "percent"}
_NO_CACHE = Absent("no_cache")


class Remarks:
    """What went wrong in a pass and where the sources disagree, on stderr, when it is news.

    Args:
        explain: also why figures are missing; of a pass that measured nothing that is always said.
    """

    def __init__(self, *, explain: bool) -> None:
        self._explain = explain
        self._said: frozenset[str] = frozenset()

    def make(self, collected: Collected, view: PodView) -> None:
        """Print those of this pass that the last one did not have."""
        explain = self._explain or collected.section is None
        found = [*collected.findings, *(gaps(collected) if explain else ())]
        lines = [str(problem) for problem in collected.problems]
        lines += [_line(finding, view) for finding in found]
        for line in dict.fromkeys(lines):
            if line not in self._said:
                click.echo(line, err=True)
        self._said = frozenset(lines)


def answer(collected: Collected, pod_uid: str, container: str, device_id: str) -> dict[str, Any]:
    """One container's figures on one card as JSON, and what either source had to say."""
    key = (MANUFACTURER_NVIDIA, pod_uid, container, device_id)
    published = Answers(collected.section).of(*key)
    whole = published if isinstance(published, Figures) else Figures(published, published)
    of_caches = {(c.pod_uid, c.container, c.device_id): c for c in reversed(collected.charges)}
    charge = of_caches.get(key[1:])
    return {
        "manufacturer": MANUFACTURER_NVIDIA,
        "podUID": pod_uid,
        "container": container,
        "deviceID": device_id,
        "id": whole.id,
        "memoryTotalMiB": _value(whole.memory_total_mib),
        **_values(whole),
        "sources": {
            "driver": _values(Answers(collected.driver).of(*key)),
            "cache": _values(_NO_CACHE if charge is None else share_of(charge)),
        },
    }


def _values(found: Figures | Usage | Absent) -> dict[str, Any]:
    return {
        "memoryUsedMiB": _value(figure_of(found, "memory")),
        "coresUtilizationPercent": _value(figure_of(found, "cores")),
    }


def _value(figure: Figure) -> int | dict[str, str]:
    return {"absent": figure.reason} if isinstance(figure, Absent) else figure


def _line(finding: Finding, view: PodView) -> str:
    pod = view.pods.get(finding.pod_uid)
    name = f"{pod.namespace}/{pod.name}" if pod else finding.pod_uid
    unit = _UNITS[finding.figure]
    return one_line(
        f"{finding.kind}: pod {name} container {finding.container} device {finding.device_id} "
        f"{finding.figure}: driver {_words(finding.driver, unit)}, "
        f"cache {_words(finding.cache, unit)}"
    )


def _words(figure: Figure, unit: str) -> str:
    if isinstance(figure, Absent):
        return f"{figure.reason} ({figure.detail})" if figure.detail else figure.reason
    return f"{figure} {unit}"
