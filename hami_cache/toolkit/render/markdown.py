"""A layout as tables for people."""

from __future__ import annotations

from hami_cache.spec.layout import Layout
from hami_cache.toolkit import markdown
from hami_cache.toolkit.render.common import provenance


def render(layout: Layout) -> str:
    """A page about one layout: the section of docs/layouts.md under a heading of its own."""
    title = f"# {layout.region.name}, layout {layout.name}"
    comment = "\n".join(["<!--", *provenance(layout), "-->"])
    return "\n".join([title, "", comment, "", *markdown.section(layout)])
