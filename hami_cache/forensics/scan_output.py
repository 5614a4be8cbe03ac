"""Where the rows of a scan go: a stream, a file that appears when it is whole, or a URL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from hami_cache.errors import ConfigError
from hami_cache.forensics.scan_inputs import is_url, local


@contextmanager
def written(target: str) -> Iterator[IO[bytes]]:
    """A file to write.

    A local one is written beside its name and takes its place at the end, so that nobody finds half
    a file; its folder is made if need be.

    Args:
        target: a path or a URL.

    Raises:
        ConfigError: it cannot be written.
    """
    target = local(target)
    if is_url(target):
        from hami_cache.forensics import scan_remote

        with scan_remote.written(target) as file:
            yield file
        return
    path = Path(target)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():  # a FIFO, a terminal
            with path.open("wb") as file:
                yield file
            return
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        with ExitStack() as stack:
            file = stack.enter_context(part.open("xb"))
            stack.callback(part.unlink, missing_ok=True)
            yield file
            file.close()
            part.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write: {error.strerror}", path=target) from None
