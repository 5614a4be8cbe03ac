"""Every decode test runs through both engines: the native reader on a mapping, numpy on bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast, get_args

import pytest

from hami_cache.model import Snapshot
from hami_cache.read.cache import Engine, open_cache

Read = Callable[..., Snapshot]
"""A file's path (or its bytes) and the options of `open_cache`, in; a snapshot, out."""


@pytest.fixture(params=get_args(Engine))
def engine(request: pytest.FixtureRequest) -> Engine:
    return cast(Engine, request.param)


@pytest.fixture
def read(engine: Engine, tmp_path: Path) -> Read:
    def read(source: Path | bytes, **options: Any) -> Snapshot:
        path = source if isinstance(source, Path) else tmp_path / "read.cache"
        if isinstance(source, bytes):
            path.write_bytes(source)
        with open_cache(path, engine=engine, **options) as cache:
            return cache.snapshot()

    return read
