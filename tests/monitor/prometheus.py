"""A real Prometheus, started for a test."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest


def program(name: str) -> str:
    """A program of Prometheus'; .ci/run installs it, elsewhere the test may be passed over."""
    found = shutil.which(name)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(f"{name} is not installed")
        pytest.skip(f"{name} is not installed: apt-get install prometheus")
    return found


class Prometheus:
    """A running Prometheus, asked over its API."""

    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}/api/v1"

    def get(self, path: str, **parameters: str) -> Any:
        url = f"{self._base}/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return found

    def until(self, expression: str) -> list[dict[str, Any]]:
        """Ask until there is an answer."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if found := self.query(expression):
                    return found
            except OSError:
                pass  # it is still starting
            time.sleep(0.1)
        raise AssertionError(f"no answer to {expression}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def prometheus_with(config: Mapping[str, object], folder: Path) -> Iterator[Prometheus]:
    """A real one that scrapes and evaluates every second, with what else the configuration says."""
    every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    (folder / "prometheus.yml").write_text(json.dumps({"global": every, **config}))  # JSON is YAML
    port = free_port()
    command = [
        program("prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait(20)
