"""The slices against the answers of GPUStack's own aggregator.

Two of upstream's oddities are not copied, because each publishes a number that is known to be
wrong: a row for which the resolver gives no reason does not poison its card there, and sums wrap at
    64 bits. Cases that contain one are held
to a weaker promise: the same accounts, and every figure either upstream's or absent
(`only_withholds`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import pytest

from hami_cache.absent import Absent
from hami_cache.errors import HamiCacheError
from hami_cache.node.allocations import (
    GPUSTACK_ANNOTATION,
    Allocation,
    Mode,
    carved_cards,
)
from hami_cache.node.attribution import Attribution, Outcome, PodIndex
from hami_cache.node.pods import Pod
from hami_cache.node.rows import (
    DeviceRows,
    PartitionReader,
    PartitionRow,
    PartitionTarget,
    Placement,
    ProcessReader,
    ProcessRow,
)
from hami_cache.slices.aggregate import aggregate
from hami_cache.slices.collect import Sources, collect, holdings
from hami_cache.slices.figures import Figures, figures
from hami_cache.slices.partitions import Claim, claims, read_claimed, with_partitions
from hami_cache.slices.section import Section
from hami_cache.slices.sectionjson import from_json, to_json
from tests.vectors.loader import cases
from tests.vectors.test_procattr import scripted_proc


@pytest.mark.parametrize("case", cases("slices-aggregate"))
def test_aggregate(case: dict[str, Any]) -> None:
    given, want = case["input"], case["want"]
    if "recipe" in given:
        assert digest_of(aggregated_recipe(given["recipe"]), want["digest"]) == want["digest"]
        return
    section = aggregated(given)
    if is_unsafe_upstream(given):
        only_withholds(as_document(section), want)
    else:
        assert as_text(section) == go_text(want)


@pytest.mark.parametrize("case", cases("slices-figures"))
def test_figures(case: dict[str, Any]) -> None:
    given = case["input"]
    section = None if given["section"] is None else from_json(json.dumps(given["section"]))
    answers = [
        as_answer(figures(section, q["manufacturer"], q["podUID"], q["container"], q["deviceID"]))
        for q in given["queries"]
    ]
    assert answers == case["want"]["answers"]


@pytest.mark.parametrize("case", cases("slices-partitions"))
def test_partitions(case: dict[str, Any]) -> None:
    given, want = case["input"], case["want"]
    if "recipe" in given:
        section, count = partitioned_recipe(given["recipe"])
        assert {**digest_of(section, want["digest"]), "rows": count} == want["digest"]
        return
    held = holdings([pod_of(pod) for pod in given["pods"]], [])
    claimed = claims(held)
    rows = read_claimed(claimed, partition_readers(given["answers"]), [])
    given_section = given["section"] and from_json(json.dumps(given["section"]))
    section = with_partitions(given_section, rows, capacities_of(given["metrics"]))
    cards = carved_cards(allocation for _, allocation in held)
    assert {manufacturer: sorted(ids) for manufacturer, ids in cards.items()} == want["carved"]
    assert {m: as_targets(found) for m, found in claimed.items()} == want["targets"]
    assert len(rows) == want["rows"]
    assert as_text(section) == go_text(want["section"])


@pytest.mark.parametrize("case", cases("slices-collect"))
def test_collect(case: dict[str, Any]) -> None:
    given, want = case["input"], case["want"]
    pods = [pod_of(pod) for pod in given.get("pods") or ()]
    index = PodIndex.of(pods)
    assert as_index(index) == (want["index"], want["names"])
    unknown = given.get("podListError") or given.get("noPodLister")
    sources = Sources(
        processes=process_readers(given.get("processes") or {}),
        partitions=partition_readers(given.get("partitions") or {}),
        proc=None if given.get("noResolver") else scripted_proc(given.get("proc") or {}),
        capacities=capacities_of(given.get("metrics") or ()),
    )
    collected = collect(None if unknown else pods, sources)
    assert as_text(collected.section) == go_text(want["section"])


def is_unsafe_upstream(given: Mapping[str, Any]) -> bool:
    """Whether upstream publishes a figure here that this library refuses; see the module's text."""
    return any(
        sum(row["memoryBytes"] or 0 for row in card["processes"]) >= 2**64
        or any(unexplained(card["attribution"].get(str(r["pid"]))) for r in card["processes"])
        for group in given["processGroups"]
        for card in group["accelerators"]
    )


def unexplained(result: Mapping[str, str] | None) -> bool:
    return result is None or (result["outcome"] == "unattributed" and not result.get("reason"))


def only_withholds(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Every figure is theirs, or absent beside a reason; every count is theirs."""
    shares = {usage_id(usage): usage for usage in ours["usages"] or ()}
    devices = {device["deviceID"]: device for device in ours["devices"]}
    for usage in theirs["usages"] or ():
        share = shares.pop(usage_id(usage), {})
        for figure, reason in REASON_OF.items():
            withheld = figure in usage and figure not in share
            assert withheld or share.get(figure) == usage.get(figure)
            assert not withheld or devices[usage["deviceID"]][reason]
    assert not shares
    assert [counts_of(device) for device in ours["devices"]] == [
        counts_of(device) for device in theirs["devices"]
    ]


REASON_OF = {"memoryUsedMiB": "memoryReason", "coresUtilizationPercent": "coresReason"}


def counts_of(device: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in device.items() if not name.endswith("Reason")}


def usage_id(usage: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(usage[name] for name in ("manufacturer", "podUID", "container", "deviceID"))


def aggregated(given: Mapping[str, Any]) -> Section | None:
    names = given["containerNames"]
    cards = [card for group in given["processGroups"] for card in group["accelerators"]]
    answers: Iterator[dict[int, Attribution]] = iter(
        [
            {int(pid): attribution_of(result) for pid, result in card["attribution"].items()}
            for card in cards
        ]
    )
    return aggregate(
        [(g["manufacturer"], map(device_rows, g["accelerators"])) for g in given["processGroups"]],
        capacities=capacities_of(given["metrics"]),
        resolve=lambda pids: next(answers),
        name_of=lambda a: names.get(a.pod_uid, {}).get(a.container_id, ""),
    )


def aggregated_recipe(recipe: Mapping[str, Any]) -> Section | None:
    cards = [
        DeviceRows(
            f"GPU-{i:05d}",
            rows=tuple(
                ProcessRow(i * 100_000 + j + 1, recipe["memoryBytes"], recipe["coresPercent"])
                for j in range(count)
            ),
        )
        for i, count in enumerate(recipe["containers"])
    ]
    return aggregate(
        [(recipe["manufacturer"], cards)],
        capacities={},
        resolve=lambda pids: {
            pid: Attribution(
                "attributed", f"pod-{pid % 100_000 - 1:05d}", f"ctr-{pid % 100_000 - 1:05d}"
            )
            for pid in pids
        },
        name_of=lambda attribution: "main",
    )


def partitioned_recipe(recipe: Mapping[str, Any]) -> tuple[Section | None, int]:
    """The recipe's section, and how many rows were read for it."""
    held = [
        (
            f"pod-{i:05d}",
            Allocation(
                "main",
                recipe["manufacturer"],
                f"GPU-{i // 7:05d}",
                Mode.PARTITIONED,
                "1g.10gb",
                (Placement(i % 7, 1),),
                f"MIG-{i:05d}",
            ),
        )
        for i in range(recipe["partitions"])
    ]
    answers = {
        "partitions": [
            {
                "deviceID": allocation.device_id,
                "profile": allocation.profile,
                "placements": [{"start": i % 7, "length": 1}],
                "id": allocation.partition_id,
                "memoryTotalBytes": 9856 << 20,
                "memoryUsedBytes": i << 20,
                "coresPercent": None,
                "memoryReason": "",
                "coresReason": "unsupported",
            }
            for i, (_, allocation) in enumerate(held)
        ]
    }
    rows = read_claimed(claims(held), partition_readers({recipe["manufacturer"]: answers}), [])
    return with_partitions(None, rows, {}), len(rows)


def digest_of(section: Section | None, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a digest that are asked for."""
    assert section is not None
    text = to_json(section)
    bounded = [d.device_id for d in section.devices if d.memory_reason == "bounded"]
    digest = {
        "sha256": hashlib.sha256(text).hexdigest(),
        "bytes": len(text),
        "truncated": section.truncated,
        "usages": len(section.usages),
        "devices": len(section.devices),
        "partitions": len(section.partitions),
        "boundedDevices": bounded or None,
    }
    return {name: value for name, value in digest.items() if name in wanted}


def capacities_of(metrics: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], int]:
    return {
        (group["manufacturer"], card["id"]): card["memory"]
        for group in metrics
        for card in group["accelerators"]
    }


def attribution_of(result: Mapping[str, str]) -> Attribution:
    return Attribution(
        cast(Outcome, result["outcome"]),
        result.get("podUID", ""),
        result.get("containerID", ""),
        result.get("reason", ""),
    )


def device_rows(card: Mapping[str, Any]) -> DeviceRows:
    return DeviceRows(
        card["id"],
        card["memoryReason"],
        card["coresReason"],
        tuple(
            ProcessRow(row["pid"], row["memoryBytes"], row["coresPercent"])
            for row in card["processes"]
        ),
    )


def placements_of(value: Iterable[Mapping[str, int]]) -> tuple[Placement, ...]:
    return tuple(Placement(run["start"], run["length"]) for run in value)


class AnsweringReader:
    """A card reader that answers as a vector says."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self._answer = answer

    def processes(self, device_ids: Sequence[str]) -> list[DeviceRows]:
        self._fail_if_told()
        return [device_rows(c) for c in self._answer["accelerators"] if c["id"] in device_ids]

    def partitions(self, targets: Sequence[PartitionTarget]) -> list[PartitionRow]:
        self._fail_if_told()
        return [
            PartitionRow(
                row["deviceID"],
                row["profile"],
                placements_of(row["placements"]),
                row["id"],
                row["memoryTotalBytes"],
                row["memoryUsedBytes"],
                row["coresPercent"],
                row["memoryReason"],
                row["coresReason"],
            )
            for row in self._answer["partitions"]
        ]

    def _fail_if_told(self) -> None:
        if self._answer.get("error"):
            raise HamiCacheError("the driver answers nothing")


def process_readers(answers: Mapping[str, Any]) -> dict[str, ProcessReader]:
    return {manufacturer: AnsweringReader(answer) for manufacturer, answer in answers.items()}


def partition_readers(answers: Mapping[str, Any]) -> dict[str, PartitionReader]:
    return {manufacturer: AnsweringReader(answer) for manufacturer, answer in answers.items()}


def pod_of(given: Mapping[str, Any]) -> Pod:
    """A vector's pod by way of the API's JSON; its spec has the containers its status names."""
    lists = {
        "initContainers": "initContainerStatuses",
        "containers": "containerStatuses",
        "ephemeralContainers": "ephemeralContainerStatuses",
    }
    annotation = given.get("annotation")
    return Pod.from_json(
        {
            "metadata": {
                "uid": given["uid"],
                "name": given["name"],
                "namespace": given["namespace"],
                "labels": given.get("labels") or {},
                "annotations": {} if annotation is None else {GPUSTACK_ANNOTATION: annotation},
                "ownerReferences": given.get("ownerReferences") or [],
            },
            "spec": {
                spec: [{"name": status["name"]} for status in given.get(statuses) or ()]
                for spec, statuses in lists.items()
            },
            "status": {statuses: given.get(statuses) or [] for statuses in lists.values()},
        }
    )


def as_text(section: Section | None) -> str:
    return "null" if section is None else to_json(section).decode()


def as_document(section: Section | None) -> Any:
    return json.loads(as_text(section))


def go_text(document: Any) -> str:
    """The text Go wrote: the vectors keep its order of members, but not its escapes."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def as_answer(answer: Figures | Absent) -> dict[str, Any]:
    if isinstance(answer, Absent):
        return {
            "ok": False,
            "memoryUsedMiB": None,
            "coresUtilizationPercent": None,
            "id": "",
            "memoryTotalMiB": None,
        }
    return {
        "ok": True,
        "memoryUsedMiB": none_if_absent(answer.memory_used_mib),
        "coresUtilizationPercent": none_if_absent(answer.cores_percent),
        "id": answer.id,
        "memoryTotalMiB": none_if_absent(answer.memory_total_mib),
    }


def none_if_absent(figure: int | Absent) -> int | None:
    return None if isinstance(figure, Absent) else figure


def as_targets(found: Iterable[Claim]) -> list[dict[str, Any]]:
    ordered = sorted(
        found,
        key=lambda claim: (
            claim.target.device_id,
            claim.target.profile,
            [(run.start, run.length) for run in claim.target.placements],
            claim.pod_uid,
            claim.container,
            claim.target.id,
        ),
    )
    return [
        {
            "podUID": claim.pod_uid,
            "container": claim.container,
            "deviceID": claim.target.device_id,
            "id": claim.target.id,
            "profile": claim.target.profile,
            "placements": [
                {"start": run.start, "length": run.length} for run in claim.target.placements
            ],
        }
        for claim in ordered
    ]


def as_index(index: PodIndex) -> tuple[dict[str, Any], dict[str, Any]]:
    pods = {
        uid: {"containers": sorted(pod.containers), "instance": pod.instance}
        for uid, pod in index.pods.items()
    }
    return pods, {uid: dict(names) for uid, names in index.names.items()}
