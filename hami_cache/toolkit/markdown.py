"""docs/layouts.md, from the layout files: ``python -m hami_cache.toolkit.markdown [--check]``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

from hami_cache.spec import registry
from hami_cache.spec.layout import Layout, Probe, Struct
from hami_cache.toolkit import generated

"""Where the page lies in a checkout."""

_INTRO = """\
# The layouts

<!-- Generated from layouts/*.toml by `python -m hami_cache.toolkit.markdown`: do not edit. -->

HAMi-core's libvgpu.so maps one `shared_region_t` for each container, in a file. These are all its
layouts known here, oldest first. Each is described by one file under `layouts/`
([how to add one](add-a-layout.md)); this page is generated from them. Offsets and sizes are bytes,
from the start of each struct. What the writers do with the fields is in [reading](reading.md).
"""


def page(layouts: Iterable[Layout]) -> str:
    """The whole page about some layouts."""
    known = list(layouts)
    return "\n".join([_INTRO, *_overview(known), *(line for lo in known for line in section(lo))])


def _overview(layouts: Sequence[Layout]) -> Iterator[str]:
    yield from _table(
        ("layout", "struct", "file", "header says", "commits", "releases", "what changed"),
        (
            (
                f"[`{lo.name}`](#{_anchor(lo)})",
                lo.sizeof,
                lo.file_sizes[-1],
                lo.identity.version or "no version",
                _commits(lo),
                ", ".join(lo.upstream.releases) or "-",
                lo.upstream.changes,
            )
            for lo in layouts
        ),
    )


def section(lo: Layout) -> Iterator[str]:
    """The part of the page about one layout, line by line."""
    yield f'## <a id="{_anchor(lo)}"></a>{lo.name}\n'
    yield f"{lo.summary}\n"
    yield f"- Source: {lo.upstream.project}, {_commits(lo)}; built and checked: " + (
        f"{', '.join(f'`{c}`' for c in lo.upstream.commits)}."
    )
    yield f"- Size: {lo.sizeof} bytes; a file has {lo.identity.trailing} more."
    yield f"- ABI: {lo.abi.data_model}, {lo.abi.byte_order}-endian, " + (
        f"on {' and '.join(lo.abi.architectures)}; {lo.abi.witness}."
    )
    yield f"- Magic: {lo.identity.magic} in `{lo.identity.magic_field}`."
    yield f"- Version in the header: {lo.identity.version or 'none'}."
    yield f"- Seqlock: {_seqlock(lo)}\n"
    yield "What its content must look like, with the weight of each answer in log-odds"
    yield "([identification](identification.md)):\n"
    yield from _table(
        ("probe", "field", "expects", "weight"),
        ((p.kind, _code(p.field), _expects(p), f"{p.weight:g}") for p in lo.identity.probes),
    )
    for struct in lo.structs.values():
        yield from _struct(struct)


def _struct(struct: Struct) -> Iterator[str]:
    yield f"### {struct.name}: {struct.sizeof} bytes, aligned to {struct.alignof}\n"
    yield from _table(("offset", "size", "field", "type", "called here"), _fields(struct))


def _fields(struct: Struct) -> Iterator[Sequence[object]]:
    end = 0
    for field in struct.fields:
        if field.offset > end:
            yield end, field.offset - end, "", "", "the compiler's padding"
        array = f"[{field.count}]" if field.array else ""
        called = "padding" if field.padding else f"`{field.logical}`"
        yield field.offset, field.size, f"`{field.name}`", f"`{field.type}{array}`", called
        end = field.end
    if struct.sizeof > end:
        yield end, struct.sizeof - end, "", "", "the compiler's padding"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield _row(head)
    yield _row(["---"] * len(head))
    yield from map(_row, rows)
    yield ""


def _row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |"


def _anchor(lo: Layout) -> str:
    return f"layout-{lo.name.replace('.', '-')}"


def _commits(lo: Layout) -> str:
    before = f"before `{lo.upstream.before}`" if lo.upstream.before else "today"
    return f"`{lo.upstream.since}` to {before}"


def _seqlock(lo: Layout) -> str:
    if lo.seqlock is None:
        return "none; nothing protects a slot."
    covers = ", ".join(f"`{path}`" for path in lo.seqlock.covers)
    return f"`{lo.seqlock.field}`, protecting {covers}."


def _expects(probe: Probe) -> str:
    return ", ".join(f"{key} {_value(value)}" for key, value in probe.params.items())


def _value(value: object) -> str:
    return ", ".join(map(_value, value)) if isinstance(value, list) else _code(str(value))


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with ``--check`` say whether it is fresh; 1 when it is not."""
    return generated.main(
        "hami_cache.toolkit.markdown",
        "layouts.md",
        lambda: page(registry.layouts().values()),
        arguments,
    )


if __name__ == "__main__":
    sys.exit(main())
