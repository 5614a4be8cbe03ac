"""A real headless browser for the tests of the report."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--virtual-time-budget=2000", "--force-device-scale-factor=1", "--hide-scrollbars",
)  # fmt: skip


def _browser() -> str:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium here")
    return found


def _run(page: Path, *options: str) -> str:
    profile = page.with_suffix(".profile")
    command = [_browser(), *OPTIONS, f"--user-data-dir={profile}", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)
    return done.stdout


def dom(page: Path) -> str:
    """The page as the browser understood it, after everything on it has run."""
    return _run(page, "--dump-dom")


def screenshot(page: Path, width: int, height: int) -> Path:
    """A picture of the page as a person sees it."""
    picture = page.with_suffix(".png")
    _run(page, f"--window-size={width},{height}", f"--screenshot={picture}")
    return picture
