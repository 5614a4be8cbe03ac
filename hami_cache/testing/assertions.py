"""What other projects' tests can say about the struct that they share with us."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hami_cache.spec import registry
from hami_cache.toolkit.check import check
from hami_cache.toolkit.header import read_header
from hami_cache.toolkit.shape import REGION


def assert_layout_matches_header(
    header: Path | str,
    layout: str | None = None,
    *,
    layouts: Path | str | None = None,
    struct: str = REGION,
    cc: str | None = None,
    folders: Sequence[Path] = (),
    defines: Mapping[str, str] | None = None,
) -> None:
    """Assert that a C header declares a known layout, its version included.

    Args:
        header: the header's path.
        layout: the layout that it must be; None for any known one.
        layouts: a folder of layout files searched before the built-in ones.
        struct: the region's typedef or tag.
        cc: the C compiler to ask; None for ``$CC`` or the usual names, ``"none"`` for our own
            arithmetic.
        folders: where the header's includes are looked for.
        defines: macros from outside.

    Raises:
        AssertionError: it differs; the message has one line for each field that does.
        HamiCacheError: the header cannot be read, or the layout is not known.
    """
    path = Path(header)
    shape = read_header(path, struct=struct, cc=cc, folders=folders, defines=defines)
    report = check(shape, registry.layouts(layouts), layout)
    if not report.passed:
        fields = [f"{change.path}: {change.detail}" for change in report.comparison.breaking]
        lines = [*report.findings, *fields, *report.remarks]
        raise AssertionError("\n  ".join([f"{path} is not {report.layout.name}:", *lines]))
