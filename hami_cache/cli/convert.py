"""``hami-cache convert``: a cache file in another layout."""

from __future__ import annotations

from pathlib import Path

import click

from hami_cache.cli.kinds import FILE, LAYOUT
from hami_cache.cli.options import follow_option, layouts_option


@click.command()
@click.argument("source", type=FILE)
@click.argument("target", type=FILE)
@click.option("--to", required=True, type=LAYOUT, metavar="LAYOUT", help="The layout to write.")
@click.option(
    "--layout", type=LAYOUT, help="Read the source with this layout, whatever the evidence says."
)
@click.option(
    "--drop",
    multiple=True,
    metavar="FIELD",
    help="Leave out a field that the other layout lacks, such as procs.seqlock. Repeatable.",
)
@layouts_option
@follow_option
def convert(
    source: str,
    target: str,
    to: str,
    layout: str | None,
    drop: tuple[str, ...],
    layouts: Path | None,
    follow: bool,
) -> None:
    """Write SOURCE to the new file TARGET in another layout, field by logical name.

    Nothing is lost in silence: what the other layout has no place for is refused by name, unless
    --drop names it. TARGET must not exist. The result is read back and compared before it is
    written.
    """
    from hami_cache.forensics import convert as conversion
    from hami_cache.forensics.image import load
    from hami_cache.spec import registry

    chosen = registry.layout(to, layouts)
    image = load(source, layout=layout, layouts=layouts, follow=follow)
    data = conversion.convert(image, chosen, drop)
    conversion.write_new(target, data)
    print(f"{target}: {len(data)} bytes, {image.layout.name} -> {chosen.name}")
