"""What ``--version`` says: enough to know which program somebody runs."""

from __future__ import annotations

import json
import platform
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec

from hami_cache.monitor.buildinfo import build_info

UNKNOWN = "unknown"


def version_text() -> str:
    """Lines of ``name: value``, after the one with the version."""
    facts = version_facts()
    number = facts.pop("hami-cache")
    return "\n".join((f"hami-cache {number}", *(f"{name}: {facts[name]}" for name in facts)))


def version_facts() -> dict[str, str]:
    """What this program is, by name."""
    build = build_info()
    return {
        "hami-cache": build.version or UNKNOWN,
        "revision": build.revision or _installed_revision() or UNKNOWN,
        "built": build.date or UNKNOWN,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "native reader": native_reader(),
    }


def native_reader() -> str:
    """Where the compiled reader is, or why there is none."""
    found = find_spec("hami_cache._reader")
    if found is None or found.origin is None:
        return "missing: reinstall hami-cache with a C compiler at hand, or from a wheel"
    try:
        import_module("hami_cache.read.seqlock")
    except ImportError as error:
        return f"cannot be loaded: {error}"
    return found.origin


def _installed_revision() -> str:
    """The commit that pip installed from, where it did (PEP 610); "" else."""
    try:
        text = distribution("hami-cache").read_text("direct_url.json")
    except PackageNotFoundError:
        return ""
    document = json.loads(text or "{}")
    return str(document.get("vcs_info", {}).get("commit_id", ""))
