"""``hexdump``: names beside bytes, one field alone, and a file while it is written."""

from __future__ import annotations

import itertools
import json
import mmap
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hami_cache.cli.main import main
from hami_cache.spec import registry
from hami_cache.testing import CacheBuilder

Output = pytest.CaptureFixture[str]
RUN = [sys.executable, "-c", "import sys; from hami_cache.cli.main import main; sys.exit(main())"]


@pytest.fixture
def path(tmp_path: Path) -> str:
    builder = CacheBuilder("v1.2").process(7, 4711, memory=[0x1234])
    return str(builder.write(tmp_path / "x.cache"))


def test_rows_have_offset_bytes_text_name_and_value(path: str, capsys: Output) -> None:
    assert main(["hexdump", path]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == f"{path}: 2008953 bytes, v1.2, identified"
    assert rows[1] == "00000000  4e f7 2f 01              N./.      initialized_flag = 19920718"
    assert "00000740  07 00 00 00              ....      procs[0].pid = 7" in rows
    assert "00000768  34 12 00 00 00 00 00 00  4.......  procs[0].used[0].total = 4660" in rows
    assert "00000ecc  00 00 00 00              ....      (gap)" in rows
    assert (
        "00000770  00 x 24                           procs[0].used[0].unused[0..2] (padding)"
        in rows
    )
    assert rows[-1] == "001ea778  00                       .         (beyond the region)"
    assert len(rows) < 100


def test_one_field(path: str, capsys: Output) -> None:
    assert main(["hexdump", "--field", "procs[0].used[0].total", path]) == 0
    _, row = capsys.readouterr().out.splitlines()
    assert row.endswith("procs[0].used[0].total = 4660")


def test_json(path: str, capsys: Output) -> None:
    assert main(["hexdump", "--json", "--field", "procs[0].used[0].total", path]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "file": path,
        "size": 2_008_953,
        "layout": "v1.2",
        "pieces": [
            {
                "offset": 0x768,
                "size": 8,
                "name": "procs[0].used[0].total",
                "last": None,
                "kind": "field",
                "value": 4660,
                "hex": "3412000000000000",
            }
        ],
    }


def test_a_file_of_no_layout_is_shown_without_names(tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "x.cache"
    file.write_bytes(b"something" + bytes(100) + b"else")
    assert main(["hexdump", str(file)]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].endswith("113 bytes, no layout, unknown")
    assert rows[1] == (
        "00000000  73 6f 6d 65 74 68 69 6e 67 00 00 00 00 00 00 00  something......."
    )
    assert rows[2].startswith("00000010  00 x 80")
    assert rows[3].startswith("00000060  00 00 00 00 00 00 00 00 00 00 00 00 00 65 6c 73")
    assert json_layout(file, capsys) is None


def json_layout(file: Path, capsys: Output) -> object:
    main(["hexdump", "--json", str(file)])
    return json.loads(capsys.readouterr().out)["layout"]


@pytest.mark.parametrize(
    "arguments", [["--field", "nope"], ["--json", "--live"], ["--layout", "v9"]]
)
def test_what_makes_no_sense_is_told_in_one_line(
    arguments: list[str], path: str, capsys: Output
) -> None:
    assert main(["hexdump", *arguments, path]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_live_shows_what_changes_until_interrupted(path: str) -> None:
    """A real reader of a file that a real mapping writes to."""
    offset = registry.layout("v1.2").field("procs[0].used[0].total").offset
    command = [*RUN, "hexdump", "--live", "--interval", "0.01", "--field", "procs[0].used", path]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    seen = threading.Event()

    def write() -> None:
        with Path(path).open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            for number in itertools.count():  # the reader may have missed the first ones
                memory[offset : offset + 8] = (0x5000 + number % 2).to_bytes(8, "little")
                if seen.wait(0.02):
                    return

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as dump:
        assert dump.stdout is not None
        first = list(iter(dump.stdout.readline, last_row(path)))
        writer = threading.Thread(target=write)
        writer.start()
        row = next(row for row in dump.stdout if "total" in row)
        seen.set()
        writer.join()
        dump.send_signal(signal.SIGINT)
        dump.stdout.read()
    assert any(row.endswith("procs[0].used[0].total = 4660\n") for row in first)
    assert row.rstrip().endswith(("total = 20480", "total = 20481"))
    assert dump.returncode == 0


def last_row(path: str) -> str:
    """The row with which the dump of `procs[0].used` ends."""
    size = registry.layout("v1.2").field("procs[0].used[1]").size * 15
    return f"{0x788:08x}  {f'00 x {size}'.ljust(34)}procs[0].used[1..15]\n"


def test_live_ends_in_one_line_when_the_file_goes(path: str) -> None:
    command = [*RUN, "hexdump", "--live", "--interval", "0.01", "--field", "limit", path]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as dump:
        assert dump.stdout is not None
        next(row for row in dump.stdout if "limit[1..15]" in row)
        Path(path).unlink()
        _, error = dump.communicate()
    assert (dump.returncode, len(error.splitlines())) == (2, 1)
