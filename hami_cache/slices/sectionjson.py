"""The section as JSON: the bytes Go's json.Marshal would write, and back.

`usages` and `devices` are always there and null when empty, `partitions` only when there are any; a
figure is left out where it is absent and written where it is zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from hami_cache.absent import Absent
from hami_cache.node.gojson import Array, Flag, Integer, Optional, Struct, Text, decode, quote
from hami_cache.slices.section import (
    BOUNDED,
    MAX_JSON_BYTES,
    NOT_MEASURED,
    Device,
    Figure,
    Partition,
    Section,
    Usage,
    device_key,
)

_ENVELOPE_BYTES = 128
"""More than the names of the section's own members take."""

_UINT32 = Integer(0, 2**32 - 1)
_UINT64 = Integer(0, 2**64 - 1)
_KEY = {"manufacturer": Text(), "podUID": Text(), "container": Text(), "deviceID": Text()}
_COUNTS = {
    "rowsReturned": "rows_returned",
    "rowsAttributed": "rows_attributed",
    "rowsNonInstance": "rows_non_instance",
    "rowsUnreadable": "rows_unreadable",
    "rowsAmbiguous": "rows_ambiguous",
    "readsTruncated": "reads_truncated",
}
_SECTION = Struct(
    {
        "schemaVersion": Integer(-(2**63), 2**63 - 1),
        "truncated": Flag(),
        "usages": Array(
            Struct(
                {
                    **_KEY,
                    "memoryUsedMiB": Optional(_UINT64),
                    "coresUtilizationPercent": Optional(_UINT32),
                }
            )
        ),
        "devices": Array(
            Struct(
                {
                    "manufacturer": Text(),
                    "deviceID": Text(),
                    "memoryReason": Text(),
                    "coresReason": Text(),
                    **dict.fromkeys(_COUNTS, _UINT32),
                }
            )
        ),
        "partitions": Array(
            Struct(
                {
                    **_KEY,
                    "id": Text(),
                    "memoryTotalMiB": Optional(_UINT64),
                    "memoryUsedMiB": Optional(_UINT64),
                    "coresPercent": Optional(_UINT32),
                    "memoryReason": Text(),
                    "coresReason": Text(),
                }
            )
        ),
    }
)


class _Quoted(dict[str, str]):
    """Strings and their JSON: a section repeats each of its few names hundreds of times."""

    def __missing__(self, text: str) -> str:
        quoted = self[text] = quote(text)
        return quoted


def to_json(section: Section) -> bytes:
    """The section, compact, in at most `MAX_JSON_BYTES`.

    What does not fit is left out as the bounds demand: a card's shares all together, its reasons
    then being ``bounded``, or the card with them; partitions from the end; and it says so.
    """
    document = _document(section)
    return document if len(document) <= MAX_JSON_BYTES else _document(_shrunk(section))


def from_json(text: str) -> Section:
    """Read a section as its Go reader does; missing figures are absent, unknown members ignored.

    Raises:
        GoJsonError: not JSON of that shape.
    """
    document = decode(text, _SECTION)
    return Section(
        usages=tuple(
            Usage(
                *_key_of(usage),
                memory_used_mib=_present(usage["memoryUsedMiB"]),
                cores_percent=_present(usage["coresUtilizationPercent"]),
            )
            for usage in document["usages"]
        ),
        devices=tuple(
            Device(
                device["manufacturer"],
                device["deviceID"],
                device["memoryReason"],
                device["coresReason"],
                **{attribute: device[name] for name, attribute in _COUNTS.items()},
            )
            for device in document["devices"]
        ),
        partitions=tuple(
            Partition(
                *_key_of(partition),
                id=partition["id"],
                memory_total_mib=_present(partition["memoryTotalMiB"]),
                memory_used_mib=_present(partition["memoryUsedMiB"]),
                cores_percent=_present(partition["coresPercent"]),
                memory_reason=partition["memoryReason"],
                cores_reason=partition["coresReason"],
            )
            for partition in document["partitions"]
        ),
        truncated=document["truncated"],
        schema_version=document["schemaVersion"],
    )


def _key_of(record: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return record["manufacturer"], record["podUID"], record["container"], record["deviceID"]


def _present(value: int | None) -> Figure:
    return NOT_MEASURED if value is None else value


def _shrunk(section: Section) -> Section:
    """The same section without what would pass `MAX_JSON_BYTES`.

    First every card gets room for its account, so that a card without shares says why; then cards
    get their shares as long as there is room, then partitions.
    """
    quoted = _Quoted()
    room = MAX_JSON_BYTES - _ENVELOPE_BYTES
    shares: dict[str, list[Usage]] = {}
    for usage in section.usages:
        shares.setdefault(device_key(usage), []).append(usage)
    accounts = {key: list(entries) for key, entries in groupby(section.devices, device_key)}
    cards: dict[str, list[Device]] = {}
    for key, entries in accounts.items():
        bounded = [replace(e, memory_reason=BOUNDED, cores_reason=BOUNDED) for e in entries]
        size = _size(_device(e, quoted) for e in bounded)
        if size <= room:
            room -= size
            cards[key] = bounded
    usages: list[Usage] = []
    for key, bounded in cards.items():
        whole, own = accounts[key], shares.get(key, [])
        size = _size(_device(e, quoted) for e in whole) + _size(_usage(u, quoted) for u in own)
        size -= _size(_device(e, quoted) for e in bounded)
        if size <= room:
            room -= size
            cards[key] = whole
            usages += own
    partitions: list[Partition] = []
    for partition in section.partitions:
        room -= _size([_partition(partition, quoted)])
        if room < 0:
            break
        partitions.append(partition)
    return replace(
        section,
        usages=tuple(usages),
        devices=tuple(entry for entries in cards.values() for entry in entries),
        partitions=tuple(partitions),
        truncated=True,
    )


def _size(texts: Iterable[str]) -> int:
    """Bytes of the records, commas included."""
    return sum(len(text.encode()) + 1 for text in texts)


def _document(section: Section) -> bytes:
    quoted = _Quoted()
    usages = [_usage(usage, quoted) for usage in section.usages]
    devices = [_device(device, quoted) for device in section.devices]
    partitions = [_partition(partition, quoted) for partition in section.partitions]
    truncated = ',"truncated":true' if section.truncated else ""
    tail = f',"partitions":{_list(partitions)}' if partitions else ""
    return (
        f'{{"schemaVersion":{section.schema_version}{truncated}'
        f',"usages":{_list(usages)},"devices":{_list(devices)}{tail}}}'
    ).encode()


def _list(texts: list[str]) -> str:
    return f"[{','.join(texts)}]" if texts else "null"


def _key(record: Usage | Partition, quoted: _Quoted) -> str:
    return (
        f'"manufacturer":{quoted[record.manufacturer]},"podUID":{quoted[record.pod_uid]}'
        f',"container":{quoted[record.container]},"deviceID":{quoted[record.device_id]}'
    )


def _usage(usage: Usage, quoted: _Quoted) -> str:
    memory = _figure("memoryUsedMiB", usage.memory_used_mib)
    cores = _figure("coresUtilizationPercent", usage.cores_percent)
    return f"{{{_key(usage, quoted)}{memory}{cores}}}"


def _device(device: Device, quoted: _Quoted) -> str:
    memory = _text("memoryReason", device.memory_reason, quoted)
    cores = _text("coresReason", device.cores_reason, quoted)
    return (
        f'{{"manufacturer":{quoted[device.manufacturer]},"deviceID":{quoted[device.device_id]}'
        f'{memory}{cores},"rowsReturned":{device.rows_returned}'
        f',"rowsAttributed":{device.rows_attributed},"rowsNonInstance":{device.rows_non_instance}'
        f',"rowsUnreadable":{device.rows_unreadable},"rowsAmbiguous":{device.rows_ambiguous}'
        f',"readsTruncated":{device.reads_truncated}}}'
    )


def _partition(partition: Partition, quoted: _Quoted) -> str:
    return "".join(
        (
            "{",
            _key(partition, quoted),
            _text("id", partition.id, quoted),
            _figure("memoryTotalMiB", partition.memory_total_mib),
            _figure("memoryUsedMiB", partition.memory_used_mib),
            _figure("coresPercent", partition.cores_percent),
            _text("memoryReason", partition.memory_reason, quoted),
            _text("coresReason", partition.cores_reason, quoted),
            "}",
        )
    )


def _figure(name: str, figure: Figure) -> str:
    return "" if isinstance(figure, Absent) else f',"{name}":{figure}'


def _text(name: str, text: str, quoted: _Quoted) -> str:
    return f',"{name}":{quoted[text]}' if text else ""
