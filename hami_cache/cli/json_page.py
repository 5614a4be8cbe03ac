"""docs/json-reference.md, generated: ``python -m hami_cache.cli.json_page [--check]``.

The commands run on made-up files, and the page has the shape of what they print: keys and types,
no values.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hami_cache.cli.main import main as run
from hami_cache.testing import CacheBuilder, Memory, container_tree
from hami_cache.toolkit import generated

COMMANDS: Sequence[tuple[str, ...]] = (
    ("identify", "--json", "a.cache"),
    ("inspect", "--json", "a.cache"),
    ("hexdump", "--json", "a.cache"),
    ("doctor", "--json", "b.cache"),
    ("diff", "--json", "a.cache", "b.cache"),
    ("layout", "list", "--json"),
    ("layout", "show", "v1.2", "--json"),
    ("layout", "diff", "v1", "v1.2", "--json"),
    ("layout", "check", "--header", "region.h", "--cc", "none", "--json"),
    ("scan", "--json", "node/containers"),
    ("replay", "recording", "--json"),
    ("slices", "--source", "cache", "--hook-path", "node", "--pods", "file:node/pods.json"),
    ("feedback", "node", "--passes", "1", "--dry-run", "--json"),
    ("gc", "node", "--pods", "file:node/pods.json", "--dry-run", "--json"),
    ("top", "--once", "--json", "--hook-path", "node", "--pods", "file:node/pods.json"),
)

INTRODUCTION = """# JSON reference

<!-- Generated from the code: python -m hami_cache.cli.json_page -->

The keys and types of what each command prints, taken from running it. What they mean is in
[json.md](json.md) and on each command's page. `number` is a whole number up to 2^64 - 1 unless a
page says otherwise; `a | b` is one or the other; `{"absent": text}` is a figure that is not
there, with the reason.
"""


def page() -> str:
    """The whole page."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), _alone():
        _lay_out(Path())
        return "".join([INTRODUCTION, *(_section(command) for command in COMMANDS)])


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Nothing of this machine's environment in the page, and no log lines beside it."""
    kept = dict(os.environ)
    for name in ("HOOK_PATH", "NODE_NAME", "KUBECONFIG", "HAMI_CACHE_LAYOUTS"):
        os.environ.pop(name, None)
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        os.environ.update(kept)


def _lay_out(folder: Path) -> None:
    """Files with something in every member: a counter below zero, an exited slot, a live one."""
    whole = CacheBuilder("v1.2").device("GPU-a", sm_limit=50).device("GPU-b")
    whole.process(7, memory=[Memory(context=3, data=9), 5], sm_util=[4, 5], monitorused=[6, 7])
    whole.process(8, status=0, memory=[1])
    whole.write(folder / "a.cache")
    whole.set("procs[0].used[0].total", 2**64 - 5).write(folder / "b.cache")
    tree = container_tree(folder / "node")
    pod = tree.add("trainer", "main", folder.joinpath("a.cache").read_bytes())
    assert pod.exists()
    tree.pods["trainer"].annotations["hami.io/vgpu-devices-allocated"] = "GPU-a,NVIDIA,1,50:;"
    tree.save()
    folder.joinpath("region.h").write_text("typedef struct { int initialized; } shared_region_t;")
    _run(("record", "node", "--out", "recording", "--samples", "1"))


def _section(command: Sequence[str]) -> str:
    shapes = [shape(value) for value in _documents(command)]
    text = json.dumps(merged(shapes), indent=2)
    return f"\n## {' '.join(command)}\n\n```json\n{text}\n```\n"


def _documents(command: Sequence[str]) -> Iterator[Any]:
    """What a command prints: one document, or one a line."""
    text = _run(command)
    try:
        yield json.loads(text)
    except json.JSONDecodeError:
        yield from (json.loads(line) for line in text.splitlines())


def _run(command: Sequence[str]) -> str:
    written = io.BytesIO()
    out = io.TextIOWrapper(written, encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        run(command)
    return written.getvalue().decode()


def shape(value: Any) -> Any:
    """A document with its values replaced by their types, and lists by one element for all."""
    if isinstance(value, dict):
        return {key: shape(member) for key, member in value.items()}
    if isinstance(value, list):
        return [merged([shape(element) for element in value])] if value else []
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true or false"
    return "text" if isinstance(value, str) else "number"


def merged(shapes: Sequence[Any]) -> Any:
    """One shape that all of these fit."""
    distinct = [s for i, s in enumerate(shapes) if s not in shapes[:i]]
    if len(distinct) == 1:
        return distinct[0]
    if all(isinstance(s, dict) and "absent" not in s for s in distinct):
        keys = dict.fromkeys(key for s in distinct for key in s)
        return {key: merged([s[key] for s in distinct if key in s]) for key in keys}
    if all(isinstance(s, list) for s in distinct):
        elements = [element for s in distinct for element in s]
        return [merged(elements)] if elements else []
    return " | ".join(s if isinstance(s, str) else json.dumps(s) for s in distinct)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with ``--check`` say whether it is fresh; 1 when it is not."""
    return generated.main("hami_cache.cli.json_page", "json-reference.md", page, arguments)


if __name__ == "__main__":
    sys.exit(main())
