"""The archive of a support bundle: a few JSON files, and a text that says what they are."""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hami_cache.errors import ConfigError

FOLDER = "hami-cache-support"

ABOUT: Mapping[str, str] = {
    "versions.json": "this program, Python, and the packages it uses",
    "environment.json": "the machine; which environment variables are set, not to what",
    "layouts.json": "every known layout and its digest",
    "node.json": "directories and files by state, the driver and its cards",
    "containers.json": "every container by number: state, layout, anomalies, counts",
    "caches.json": "every cache file by number: evidence, verdict, what doctor finds and where",
}
"""Every document by name, and what is in it."""

NODE = ("node.json", "containers.json", "caches.json")
"""Those that need the native reader."""

WITHOUT = (
    "No tenants' data: names, uuids, pids, memory figures and the texts that quote them are left "
    "out."
)
WITH = "TENANTS' DATA IS INSIDE: paths with pod UIDs and container names, uuids, pids, details."


def write(target: Path, documents: Mapping[str, Any], *, tenants: bool) -> dict[str, int]:
    """Write the archive, for its owner only.

    Args:
        target: a new file.
        documents: by the names in `ABOUT`.
        tenants: whether tenants' data is in them.

    Returns:
        What is inside, and how large that is in bytes.

    Raises:
        ConfigError: the file exists, or cannot be written.
    """
    members = {"README.txt": _readme(tenants).encode()}
    for name in ABOUT:
        members[name] = (json.dumps(documents[name], indent=1) + "\n").encode()
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(
            f"cannot be made: {error.strerror}", path=target, hint="give another --output"
        ) from None
    now = time.time()
    with (
        os.fdopen(descriptor, "wb") as file,
        tarfile.open(fileobj=file, mode="w:gz") as archive,
    ):
        for name, content in members.items():
            member = tarfile.TarInfo(f"{FOLDER}/{name}")
            member.size, member.mtime = len(content), int(now)
            archive.addfile(member, io.BytesIO(content))
    return {name: len(content) for name, content in members.items()}


def _readme(tenants: bool) -> str:
    files = "\n".join(f"{name}: {text}" for name, text in ABOUT.items())
    return f"A support bundle of hami-cache.\n\n{WITH if tenants else WITHOUT}\n\n{files}\n"
