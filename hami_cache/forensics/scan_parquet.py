"""Rows as Parquet, in one file or in a partitioned directory. Needs the extra ``parquet``."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import IO, Any
from urllib.parse import quote

from hami_cache.absent import Absent
from hami_cache.errors import one_line
from hami_cache.forensics.extras import needed
from hami_cache.forensics.scan_row import DeviceUse, Row

GROUP = 4096
"""Rows of one row group: as many are kept in memory for every file that is being written."""

PARTITIONS = ("layout", "verdict")
"""Columns that a directory can be partitioned by."""

NOTHING = "__HIVE_DEFAULT_PARTITION__"
"""What Hive and its followers call the partition of rows without a value."""

Opener = Callable[[str], AbstractContextManager[IO[bytes]]]


def write_file(rows: Iterable[Row], out: IO[bytes]) -> None:
    """All rows into one file.

    Raises:
        ConfigError: pyarrow is missing.
    """
    with _File(out) as file:
        for row in rows:
            file.add(row)


def write_partitions(rows: Iterable[Row], by: Sequence[str], opened: Opener) -> None:
    """One file for every combination of values, in directories as Hive names them.

    The files' names are new every time, so that many scans can fill one directory.

    Args:
        rows: to write.
        by: columns of PARTITIONS; they are in the directories' names and not in the files.
        opened: opens a file by its path below the directory.

    Raises:
        ConfigError: pyarrow is missing.
    """
    name = f"scan-{secrets.token_hex(8)}.parquet"
    files: dict[str, _File] = {}
    with ExitStack() as stack:
        for row in rows:
            values = ((column, getattr(row, column)) for column in by)
            folder = "/".join(f"{c}={NOTHING if v is None else quote(v)}" for c, v in values)
            if folder not in files:
                out = stack.enter_context(opened(f"{folder}/{name}"))
                files[folder] = stack.enter_context(_File(out, without=by))
            files[folder].add(row)


class _File:
    """A Parquet file being written."""

    def __init__(self, out: IO[bytes], without: Sequence[str] = ()) -> None:
        self._arrow = needed("pyarrow", "parquet")
        self._schema = _schema(self._arrow, without)
        self._writer = needed("pyarrow.parquet", "parquet").ParquetWriter(out, self._schema)
        self._waiting: list[dict[str, Any]] = []

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._writer.close()

    def add(self, row: Row) -> None:
        self._waiting.append(_record(row))
        if len(self._waiting) == GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(self._arrow.Table.from_pylist(self._waiting, self._schema))
            self._waiting.clear()


def _schema(arrow: Any, without: Sequence[str]) -> Any:
    text, number = arrow.string(), arrow.uint64()
    device = arrow.struct(
        [
            ("uuid", text),
            ("uuid_absent", text),
            ("used", number),
            ("used_absent", text),
            ("limit", number),
        ]
    )
    columns = [
        ("file", text),
        ("size", number),
        ("layout", text),
        ("verdict", text),
        ("confidence", arrow.float64()),
        ("processes", arrow.uint32()),
        ("used", number),
        ("used_absent", text),
        ("devices", arrow.list_(device)),
        ("anomalies", arrow.map_(text, arrow.uint32())),
        ("error", text),
    ]
    return arrow.schema([column for column in columns if column[0] not in without])


def _record(row: Row) -> dict[str, Any]:
    devices = None if row.devices is None else [_device(device) for device in row.devices]
    return {
        "file": one_line(row.file),
        "size": row.size,
        "layout": row.layout,
        "verdict": row.verdict,
        "confidence": row.confidence,
        "processes": row.processes,
        "used": _value(row.used),
        "used_absent": _reason(row.used),
        "devices": devices,
        "anomalies": sorted(row.anomalies.items()),
        "error": None if row.error is None else one_line(row.error),
    }


def _device(device: DeviceUse) -> dict[str, Any]:
    return {
        "uuid": _value(device.uuid),
        "uuid_absent": _reason(device.uuid),
        "used": _value(device.used),
        "used_absent": _reason(device.used),
        "limit": device.limit,
    }


def _value(value: Any) -> Any:
    return None if isinstance(value, Absent) else value


def _reason(value: Any) -> str | None:
    return value.reason if isinstance(value, Absent) else None
