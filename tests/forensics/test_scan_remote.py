"""The same scan behind URLs: a real web server, the file system by URL, a store in memory."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hami_cache.errors import ConfigError, SourceError
from hami_cache.forensics import scan_remote
from hami_cache.forensics.extras import needed
from hami_cache.forensics.scan_examine import Settings
from hami_cache.forensics.scan_inputs import Choice
from hami_cache.forensics.scan_output import written
from hami_cache.forensics.scan_parquet import write_partitions
from hami_cache.forensics.scan_row import Row, unopened
from hami_cache.forensics.scan_run import find, scan
from hami_cache.testing import CacheBuilder
from tests.forensics.archives import gz, packed, tar
from tests.forensics.helpers import AFTERWARDS

SETTINGS = Settings(AFTERWARDS)


class Simple(SimpleHTTPRequestHandler):
    """Gives whole files only."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Ranges(Simple):
    """Gives parts of files too, as stores do."""

    def do_GET(self) -> None:
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        path = Path(self.translate_path(self.path))
        if wanted is None or not path.is_file():
            super().do_GET()
            return
        start, stop = int(wanted[1]), int(wanted[2]) + 1
        data = path.read_bytes()
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data[start:stop])))
        self.end_headers()
        self.wfile.write(data[start:stop])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("store")
    for index, layout in enumerate(("v0", "v1.2")):
        builder = CacheBuilder(layout).process(index + 1, memory=[1 << 30])
        builder.write(root / f"{index}_main" / "x.cache")
    caches = {f"n/{p.parent.name}/x.cache": p.read_bytes() for p in root.glob("*/x.cache")}
    (root / "node.tar.gz").write_bytes(gz(tar(caches)))
    (root / "node.zip").write_bytes(packed(caches))
    (root / "notes.txt").touch()
    return root


@contextmanager
def serving(folder: Path, handler: type[Simple]) -> Iterator[str]:
    made = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}"
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    with serving(folder, Ranges) as url:
        yield url


def rows(*inputs: str) -> list[Row]:
    return list(scan(find(inputs, SETTINGS.choice), SETTINGS, 1))


def short(found: list[Row], prefix: str) -> set[str]:
    assert all(row.file.startswith(prefix) for row in found)
    return {repr(replace(row, file=row.file.removeprefix(prefix))) for row in found}


def test_a_web_server_says_what_the_disk_says(server: str, folder: Path) -> None:
    local = short(rows(str(folder)), str(folder))
    assert len(local) == 6
    assert short(rows(f"{server}/"), server) == local


def test_a_server_that_gives_only_whole_files(folder: Path) -> None:
    with serving(folder, Simple) as url:
        found = rows(f"{url}/0_main/x.cache", f"{url}/node.tar.gz", f"{url}/node.zip")
    assert [row.verdict for row in found] == ["identified"] * 3 + ["unknown"]
    assert found[-1].error is not None and "range requests" in found[-1].error


def test_one_file_behind_a_url_with_a_signature(server: str, folder: Path) -> None:
    (row,) = rows(f"{server}/0_main/x.cache?signature=1")
    (same,) = rows(str(folder / "0_main" / "x.cache"))
    assert replace(row, file=same.file) == same
    assert len(rows(f"{server}/node.tar.gz?signature=1")) == 2


def test_file_urls_are_paths(folder: Path, tmp_path: Path) -> None:
    for name in ("", "/*/*.cache", "/node.zip"):
        assert rows(f"file://{folder}{name}") == rows(f"{folder}{name}")
    os.mkfifo(tmp_path / "a pipe.cache")  # opened without care, it would be waited for for ever
    (row,) = rows(f"file://{tmp_path}/a%20pipe.cache")
    assert row.error == "is a FIFO, not a regular file"
    with written(f"file://{tmp_path}/out.csv") as file:
        file.write(b"whole")
        assert not (tmp_path / "out.csv").exists()
    assert (tmp_path / "out.csv").read_bytes() == b"whole"


def test_a_store_in_memory(folder: Path) -> None:
    system = needed("fsspec", "remote").filesystem("memory")
    system.put(str(folder), "/store", recursive=True)
    assert short(rows("memory://store"), "memory:///store") == short(rows(str(folder)), str(folder))
    found = rows("memory://store/*/*.cache")
    assert short(found, "memory:///store") == short(rows(f"{folder}/*/*.cache"), str(folder))


def test_what_is_not_there_has_its_line(server: str) -> None:
    found = rows(f"{server}/nothing.cache", "memory://no/*.cache", "http://127.0.0.1:1/x")
    assert all(row.error for row in found)
    assert [row.error for row in found if row.error][1] == "there is no cache"


def test_a_file_that_is_no_cache_by_its_size() -> None:
    system = needed("fsspec", "remote").filesystem("memory")
    system.pipe("/huge.bin", bytes((16 << 20) + 1))
    (row,) = rows("memory://huge.bin")
    assert row.error == "16777217 bytes: no cache is larger than 16777216"


def test_an_unknown_kind_of_url_is_told_at_once() -> None:
    with pytest.raises(ConfigError, match="nosuch"):
        rows("nosuch://bucket/x")


def test_a_missing_driver_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    known = needed("fsspec.registry", "remote").known_implementations
    rare = {"class": "rarefs.Rare", "err": "Install rarefs to access Rare"}
    monkeypatch.setitem(known, "rare", rare)
    with pytest.raises(ConfigError, match="Install rarefs"):
        list(scan_remote.find("rare://bucket/x", Choice()))


def test_a_file_is_written_when_it_is_whole() -> None:
    url = "memory://out/rows.csv"
    with written(url) as file:
        file.write(b"whole")
    system = needed("fsspec", "remote").filesystem("memory")
    assert system.cat("/out/rows.csv") == b"whole"
    with pytest.raises(KeyboardInterrupt), written("memory://out/other.csv") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert not system.exists("/out/other.csv")


def test_partitions_appear_together() -> None:
    system = needed("fsspec", "remote").filesystem("memory")
    found = [replace(unopened(f"{n}.cache", "gone"), layout=f"v{n}") for n in range(3)]
    write_partitions(found, ["layout"], lambda name: written(f"memory://all/{name}"))
    assert len(system.glob("/all/layout=v*/*.parquet")) == 3

    def interrupted() -> Iterator[Row]:
        yield from found
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_partitions(interrupted(), ["layout"], lambda name: written(f"memory://none/{name}"))
    assert system.glob("/none/*/*.parquet") == []


def test_a_store_that_cannot_be_written_is_one_line(server: str) -> None:
    with pytest.raises(SourceError, match="cannot write"), written(f"{server}/rows.csv") as file:
        file.write(b"x")
