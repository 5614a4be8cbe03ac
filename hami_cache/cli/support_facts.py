"""What a support bundle says of the program and of its machine, also where it cannot read."""

from __future__ import annotations

import hashlib
import locale
import os
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from hami_cache.cli.version import version_facts
from hami_cache.spec import registry

Document = dict[str, Any]

VARIABLES = (
    "HAMI_CACHE_BUILD_DATE", "HAMI_CACHE_LAYOUTS", "HAMI_CACHE_REVISION", "HAMI_RESYNC_INTERVAL",
    "HOOK_PATH", "KUBECONFIG", "MOCK_NVML_CONFIG", "MOCK_NVML_OVERRIDES",
    "MOCK_NVML_PODRESOURCES_SOCKET", "NODE_NAME", "NO_COLOR",
)  # fmt: skip
"""Environment variables that change what this program does; those of docs/cli.md."""


def versions() -> Document:
    """Of this program, of Python, and of those packages it may use that are installed."""
    found = {name: _version(name) for name in _packages()}
    installed = {name: number for name, number in found.items() if number is not None}
    return {**version_facts(), "packages": installed}


def environment() -> Document:
    """The machine, and which of our variables are set; not to what."""
    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "byteorder": sys.byteorder,
        "page_size": os.sysconf("SC_PAGE_SIZE"),
        "libc": " ".join(platform.libc_ver()),
        "encoding": locale.getpreferredencoding(False),
        "cgroup_v2": Path("/sys/fs/cgroup/cgroup.controllers").exists(),
        "root": os.geteuid() == 0,
        "variables": {name: name in os.environ for name in VARIABLES},
    }


def layouts(folder: Path | None) -> list[Document]:
    """Every known layout, with a digest that tells whether it is the one we know.

    Raises:
        LayoutError: the folder or one of its files cannot be used.
    """
    builtin = registry.builtin_folder()
    return [
        {
            "name": layout.name,
            "sizeof": layout.sizeof,
            "built_in": layout.path.parent == builtin,
            "sha256": hashlib.sha256(layout.path.read_bytes()).hexdigest(),
        }
        for layout in registry.layouts(folder).values()
    ]


def _packages() -> list[str]:
    try:
        wanted = requires("hami-cache") or []
    except PackageNotFoundError:
        return []
    names = {found[0].lower() for text in wanted if (found := re.match(r"[\w.-]+", text))}
    return sorted(names - {"hami-cache"})


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
