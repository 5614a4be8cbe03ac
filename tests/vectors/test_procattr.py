"""Attribution against the answers of GPUStack's own resolver."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from hami_cache.node.attribution import (
    Attribution,
    Attributor,
    IndexedPod,
    PodIndex,
    ProcRead,
)
from hami_cache.node.cgroups import parse_cgroup
from tests.vectors.loader import cases


@pytest.mark.parametrize("case", cases("procattr-cgroup"))
def test_cgroup(case: dict[str, Any]) -> None:
    found = parse_cgroup(case["input"]["content"])
    want = case["want"]
    assert (found.pod_uid, found.container_id, found.reason) == (
        want["podUID"],
        want["containerID"],
        want["reason"],
    )


@pytest.mark.parametrize("case", cases("procattr-resolve"))
def test_resolve(case: dict[str, Any]) -> None:
    given = case["input"]
    index = PodIndex(
        {
            uid: IndexedPod(pod["instance"], frozenset(pod["containers"] or ()))
            for uid, pod in given["pods"].items()
        }
    )
    answers = Attributor(index, scripted_proc(given["proc"])).resolve(given["pids"])
    assert {str(pid): as_json(answer) for pid, answer in answers.items()} == case["want"]


def scripted_proc(files: dict[str, Any]) -> ProcRead:
    """Texts, names of errors, or a list of these: one for each read, the last repeating."""
    scripts = {path: list(v) if isinstance(v, list) else [v] for path, v in files.items()}

    def read(pid: int, name: str) -> str:
        script = scripts.get(f"{pid}/{name}", ["ENOENT"])
        answer: str = script.pop(0) if len(script) > 1 else script[0]
        if answer in errno.errorcode.values():
            number = getattr(errno, answer)
            raise OSError(number, os.strerror(number))
        return answer

    return read


def as_json(answer: Attribution) -> dict[str, str]:
    return {
        "outcome": answer.outcome,
        "podUID": answer.pod_uid,
        "containerID": answer.container_id,
        "reason": answer.reason,
    }
