"""Rows as JSON lines, CSV and Parquet: one line a file, and absent is never 0."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from hami_cache.absent import Absent
from hami_cache.errors import ConfigError
from hami_cache.forensics import extras, scan_parquet
from hami_cache.forensics.extras import needed
from hami_cache.forensics.scan_output import written
from hami_cache.forensics.scan_parquet import NOTHING, write_file, write_partitions
from hami_cache.forensics.scan_row import DeviceUse, Row, document, unopened
from hami_cache.forensics.scan_write import write_csv, write_jsonl

pq = needed("pyarrow.parquet", "parquet")

LARGEST = (1 << 64) - 1
FINE = DeviceUse("GPU-1", 5, LARGEST)
BROKEN = DeviceUse(Absent("uuid_unreadable"), Absent("counter_underflow"), 0)
ROWS = (
    Row("a.cache", 9, "v1.2", "identified", 1.0, 1, (FINE, FINE), {}),
    Row("b.cache", 9, "v0", "ambiguous", 0.5, 2, (FINE, BROKEN), {"over_limit": 2, "lock_held": 1}),
    Row('evil\n\x1b[2J\udc80,".cache', 0, None, "unknown", 0.0, None, None, {"truncated": 1}),
    unopened("=cmd|'/c calc'!A1.cache", "is a FIFO"),
)


def csv_of(rows: Sequence[Row]) -> list[dict[str, str]]:
    out = io.StringIO(newline="")
    write_csv(rows, out, 3)
    assert len(out.getvalue().splitlines()) == len(rows) + 1
    return list(csv.DictReader(io.StringIO(out.getvalue())))


def test_json_lines() -> None:
    out = io.StringIO()
    write_jsonl(ROWS, out)
    lines = out.getvalue().splitlines()
    assert out.getvalue().isascii()
    assert [json.loads(line) for line in lines] == [document(row) for row in ROWS]


def test_csv_figures_are_empty_with_a_reason_and_never_0() -> None:
    first, second, third, last = csv_of(ROWS)
    assert (first["used"], first["absent"], first["used_1"]) == ("10", "", "5")
    assert (second["used"], second["absent"]) == ("", "counter_underflow")
    assert (second["used_0"], second["used_1"], second["absent_1"]) == (
        "5",
        "",
        "counter_underflow",
    )
    assert {second[f"{name}_2"] for name in ("used", "absent")} == {""}
    assert second["anomalies"] == "lock_held:1 over_limit:2"
    assert (third["devices"], third["processes"], third["used"]) == ("", "", "")
    assert last["error"] == "is a FIFO"


def test_csv_names_forge_no_line_and_no_formula() -> None:
    names = [row["file"] for row in csv_of(ROWS)]
    assert names[2] == 'evil\\n\\x1b[2J\\udc80,".cache'
    assert names[3] == "./=cmd|'/c calc'!A1.cache"


def records(path: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = pq.read_table(path, partitioning=None).to_pylist()
    return found


def test_parquet_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    with path.open("wb") as out:
        write_file(ROWS, out)
    first, second, third, last = records(path)
    good = {"uuid": "GPU-1", "uuid_absent": None, "used": 5, "used_absent": None, "limit": LARGEST}
    bad = {
        "uuid": None, "uuid_absent": "uuid_unreadable", "used": None,
        "used_absent": "counter_underflow", "limit": 0,
    }  # fmt: skip
    assert first["devices"] == [good, good] and first["used"] == 10
    assert second["devices"] == [good, bad] and second["used"] is None
    assert second["used_absent"] == "counter_underflow"
    assert second["anomalies"] == [("lock_held", 1), ("over_limit", 2)]
    assert third["layout"] is None and third["devices"] is None
    assert third["file"] == 'evil\\n\\x1b[2J\\udc80,".cache'
    assert last["error"] == "is a FIFO" and last["size"] is None


def test_parquet_is_written_as_the_rows_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_parquet, "GROUP", 3)
    path = tmp_path / "rows.parquet"
    with path.open("wb") as out:
        write_file(ROWS * 5, out)
    assert pq.ParquetFile(path).metadata.num_row_groups == 7
    assert len(records(path)) == 20


def test_partitions_as_hive_names_them(tmp_path: Path) -> None:
    for _ in range(2):  # a second scan adds to the first
        write_partitions(ROWS, ["layout", "verdict"], lambda name: written(str(tmp_path / name)))
    folders = {str(p.parent.relative_to(tmp_path)) for p in tmp_path.rglob("*.parquet")}
    assert folders == {
        "layout=v1.2/verdict=identified",
        "layout=v0/verdict=ambiguous",
        f"layout={NOTHING}/verdict=unknown",
    }
    table = pq.read_table(tmp_path)
    assert table.num_rows == 8
    assert sorted(set(table["verdict"].to_pylist())) == ["ambiguous", "identified", "unknown"]
    assert table["layout"].to_pylist().count(None) == 4


def test_a_missing_extra_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name, name="pyarrow")

    monkeypatch.setattr(extras, "import_module", missing)
    with pytest.raises(
        ConfigError, match=r"this needs pyarrow; pip install 'hami-cache\[parquet\]'"
    ):
        write_file(ROWS, io.BytesIO())


@contextmanager
def interrupted(target: Path) -> Iterator[IO[bytes]]:
    with pytest.raises(KeyboardInterrupt), written(str(target)) as file:
        yield file
        raise KeyboardInterrupt


def test_a_file_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "rows.csv"
    with interrupted(target) as file:
        file.write(b"half")
    assert os.listdir(target.parent) == []
    with written(str(target)) as file:
        file.write(b"whole")
        assert not target.exists()
    assert os.listdir(target.parent) == ["rows.csv"] and target.read_bytes() == b"whole"


def test_what_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot write"), written(str(tmp_path / "file" / "x")):
        pass


def test_a_device_is_written_to_directly() -> None:
    with written("/dev/null") as file:
        file.write(b"x")
    assert not os.path.isfile("/dev/null")
