"""What every test gets: nobody's logging survives him."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Commands that run in this process configure logging; the next test must not notice."""
    root = logging.getLogger()
    handlers, level, disabled = root.handlers[:], root.level, root.manager.disable
    children = {
        name: logger.level
        for name, logger in root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger)
    }
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.disable(disabled)
    for name, before in children.items():
        logging.getLogger(name).setLevel(before)
