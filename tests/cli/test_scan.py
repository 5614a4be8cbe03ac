"""``scan``: every format, the counts, the exit code; and what a person sees on a terminal."""

from __future__ import annotations

import csv
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from hami_cache.cli.main import main
from hami_cache.forensics.extras import needed
from hami_cache.testing import CacheBuilder
from tests.forensics.archives import gz, hole, tar
from tests.forensics.dask_cluster import Cluster

Output = pytest.CaptureFixture[str]
PROGRAM = "import sys; from hami_cache.cli.main import main; sys.exit(main())"
NOW = ("--now", "2027-01-01")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "caches"
    CacheBuilder("v0").process(1, memory=[1 << 30]).write(root / "a_main" / "x.cache")
    CacheBuilder("v1.2").process(1, 0, memory=[3 << 30]).write(root / "b_main" / "x.cache")
    data = CacheBuilder("v1-sem").build()
    (root / "c.tar.gz").write_bytes(gz(tar({"c_main/x.cache": data})))
    return root


def test_a_table_and_the_counts(folder: Path, capsys: Output) -> None:
    assert main(["scan", str(folder), *NOW]) == 0
    out, err = capsys.readouterr()
    head, *lines = out.splitlines()
    assert " ".join(head.split()) == "verdict layout sure devices processes used file and anomalies"
    assert lines[0].split()[:4] == ["identified", "v1-sem", "100%", "1"]
    assert lines[0].endswith(f"{folder}/c.tar.gz::c_main/x.cache")
    assert lines[2].split()[4:7] == ["1", "3.00", "GiB"]
    assert lines[2].endswith("b_main/x.cache  [hostpid_unknown, utilization_not_measured]")
    assert lines[3:] == [
        "3 files",
        "  layout   v1-sem 1, v0 1, v1.2 1",
        "  verdict  identified 3",
        "  anomaly  utilization_not_measured 2, hostpid_unknown 1",
    ]
    assert err == ""


def test_json_is_an_object_a_file_and_nothing_else(folder: Path, capsys: Output) -> None:
    assert main(["scan", "--json", str(folder)]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line)["layout"] for line in out.splitlines()] == ["v1-sem", "v0", "v1.2"]
    assert err.startswith("3 files\n")


def test_the_ending_of_the_output_says_its_format(folder: Path, tmp_path: Path) -> None:
    for ending in ("csv", "jsonl", "parquet", "txt"):
        assert main(["scan", str(folder), "--out", str(tmp_path / f"out.{ending}")]) == 0
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["layout"] for row in rows] == ["v1-sem", "v0", "v1.2"]
    assert rows[2]["used_0"] == str(3 << 30) and "used_15" in rows[2]
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert json.loads(lines[2])["used"] == 3 << 30
    table = needed("pyarrow.parquet", "parquet").read_table(tmp_path / "out.parquet")
    assert table["used"].to_pylist() == [0, 1 << 30, 3 << 30]
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 4


def test_a_partitioned_directory(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "fleet"
    assert main(["scan", str(folder), "--out", str(out), "--partition", "layout"]) == 0
    assert sorted(os.listdir(out)) == ["layout=v0", "layout=v1-sem", "layout=v1.2"]


def test_what_could_not_be_opened_makes_the_exit_code(folder: Path, capsys: Output) -> None:
    assert main(["scan", str(folder / "a_main"), str(folder / "nothing")]) == 2
    out, err = capsys.readouterr()
    assert "unreadable" in out and "nothing: cannot open: No such file or directory" in out
    assert err == "hami-cache: 1 could not be opened: see there\n"


def test_names_forge_no_lines(tmp_path: Path, capsys: Output) -> None:
    name = tmp_path / "evil\nidentified v9 \x1b[31m\udc80.cache"
    CacheBuilder("v0").write(os.fsdecode(os.fsencode(name)))
    for form in ("table", "csv", "jsonl"):
        assert main(["scan", str(tmp_path), "--format", form]) == 0
        out = capsys.readouterr().out
        assert "\x1b" not in out and "evil\nid" not in out


def test_patterns_and_links(folder: Path, capsys: Output) -> None:
    (folder / "d.cache").symlink_to(folder / "a_main" / "x.cache")
    assert main(["scan", "--json", str(folder / "*.cache")]) == 2
    assert main(["scan", "--json", str(folder / "*.cache"), "--follow"]) == 0
    assert main(["scan", "--json", str(folder), "--match", "*.nothing"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["error"] for line in lines] == ["is a symbolic link", None]


def test_an_archive_beyond_its_limit(tmp_path: Path, capsys: Output) -> None:
    data = hole(16 << 20) * 65 + bytes(1024)
    (tmp_path / "bomb.tar.gz").write_bytes(gz(data))
    assert main(["scan", "--json", str(tmp_path), "--jobs", "1"]) == 0
    assert main(["scan", "--json", str(tmp_path), "--jobs", "1", "--archive-gib", "1"]) == 2
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["error"] == f"expands to more than {1 << 30} bytes; the rest was not read"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--json", "--format", "csv"], "--json and --format exclude each other"),
        (["--format", "parquet"], "Parquet needs --out"),
        (["--partition", "layout", "--out", "x", "--format", "csv"], "--partition needs Parquet"),
        (["--jobs", "0"], "not in the range"),
        (["--out", "/proc/nothing/x.csv"], "cannot write"),
        (["--out", "nosuch://bucket/x.csv"], "nosuch"),
        (["--layouts", "/nowhere"], "cannot list the folder of layouts"),
        (["--dask", "tcp://127.0.0.1:1"], "no Dask scheduler answers"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    folder: Path, capsys: Output, options: list[str], reason: str
) -> None:
    assert main(["scan", str(folder), *options]) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1 and reason in err


def test_on_a_cluster(folder: Path, tmp_path: Path, capsys: Output) -> None:
    assert main(["scan", "--json", str(folder), *NOW]) == 0
    local = capsys.readouterr().out
    with Cluster(tmp_path, workers=1) as cluster:
        assert main(["scan", "--json", str(folder), *NOW, "--dask", cluster.address]) == 0
    assert capsys.readouterr().out == local


def on_a_terminal(*argv: str) -> str:
    """What appears on the terminal of ``hami-cache scan``."""
    master, slave = pty.openpty()
    program = [sys.executable, "-c", PROGRAM, *argv]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(program, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        shown = b""
        try:
            while piece := os.read(master, 65536):
                shown += piece
        except OSError:  # the terminal's other side is closed
            pass
        os.close(master)
    assert process.returncode == 0
    return shown.decode()


def test_a_bar_on_a_terminal(folder: Path, tmp_path: Path) -> None:
    shown = on_a_terminal("scan", str(folder / "a_main"), str(folder / "b_main"))
    assert "scanning" in shown and "0/2" in shown
    assert shown.count("identified      v") == 2
    written = on_a_terminal("scan", str(folder), "--out", str(tmp_path / "x.csv"))
    assert "scanning" in written and "0/?" in written and "identified      v" not in written
