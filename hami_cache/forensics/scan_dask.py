"""The same scan on an existing Dask cluster.

Needs the extra ``dask`` here and hami-cache on the workers.

The scheduler is Dask's: it gives a job that was lost with its worker to another one. A file is read
by the worker that examines it, so a path must lead to the same file everywhere; a URL does.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from hami_cache.errors import ConfigError, HamiCacheError
from hami_cache.forensics.extras import needed
from hami_cache.forensics.scan_examine import Examiner, Settings
from hami_cache.forensics.scan_inputs import Place
from hami_cache.forensics.scan_row import Row

FILES = 64
"""Files in one job; an archive is a job of its own."""

AHEAD = 4
"""Jobs under way for every thread of the cluster."""

CONNECT_S = 10
"""Seconds after which a scheduler that does not answer is given up."""


def scan(places: Iterable[Place], settings: Settings, address: str) -> Generator[Row, None, None]:
    """Examine files on a cluster; the rows come in the order of the places.

    Args:
        places: as `scan_run.find` gives them.
        settings: what to go by.
        address: of the scheduler, such as ``tcp://10.0.0.1:8786``.

    Raises:
        ConfigError: distributed is missing, no scheduler answers, or it has no workers.
        HamiCacheError: the cluster gave a job up.
    """
    distributed = needed("distributed", "dask")
    _knock(address)
    with distributed.Client(address, timeout=CONNECT_S, set_as_default=False) as client:
        threads = sum(client.nthreads().values())
        if not threads:
            raise ConfigError("the Dask cluster has no workers", path=address)
        running: deque[Any] = deque()
        for job in _jobs(places):
            running.append(client.submit(examine, job, settings, pure=False))
            if len(running) >= AHEAD * threads:
                yield from _result(running.popleft())
        while running:
            yield from _result(running.popleft())


def examine(places: tuple[Place, ...], settings: Settings) -> list[Row]:
    """One job: the rows of some places. Runs on a worker, several at a time in one process."""
    examiner = Examiner(settings)
    return [row for place in places for row in examiner.rows(place)]


def _knock(address: str) -> None:
    """See whether anything listens: a Dask client that cannot connect leaves a mess behind."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    try:
        if parts.hostname is None or parts.port is None:
            raise ConfigError("is not an address", path=address, hint="tcp://HOST:PORT")
        socket.create_connection((parts.hostname, parts.port), CONNECT_S).close()
    except (OSError, ValueError) as error:
        raise ConfigError(f"no Dask scheduler answers: {error}", path=address) from None


def _jobs(places: Iterable[Place]) -> Iterator[tuple[Place, ...]]:
    files: list[Place] = []
    for place in places:
        alone = place.kind == "archive"
        if files and (alone or len(files) == FILES):
            yield tuple(files)
            files.clear()
        if alone:
            yield (place,)
        else:
            files.append(place)
    if files:
        yield tuple(files)


def _result(future: Any) -> list[Row]:
    try:
        rows: list[Row] = future.result()
    except HamiCacheError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise HamiCacheError(
            f"the Dask cluster gave a job up: {reason}",
            hint="every worker needs hami-cache, of the same version",
        ) from None
    return rows
