"""Is a struct one of the known layouts? If not: where does it differ, does its version say so?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hami_cache.errors import LayoutError
from hami_cache.spec.layout import Layout
from hami_cache.toolkit.compare import Comparison, compare
from hami_cache.toolkit.shape import Shape, of_layout


@dataclass(frozen=True, eq=False)
class Report:
    """What a check found.

    Attributes:
        shape: the struct that was checked.
        layout: the layout it was held against: the one asked for, or the nearest.
        comparison: the layout before, the struct after.
        same_as: every known layout whose fields lie exactly so.
        findings: what is wrong, in words; empty when all is well.
        remarks: what is worth knowing though nothing is wrong.
    """

    shape: Shape
    layout: Layout
    comparison: Comparison
    same_as: tuple[str, ...]
    findings: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Equal to the layout it was held against, and its version and magic say the same."""
        return not self.findings

    @property
    def version_bumped(self) -> bool | None:
        """Whether the source's version is newer than the layout's; None if one has none."""
        old, new = self.layout.identity.version, self.shape.version
        if old is None or new is None:
            return None
        return (new.major, new.minor) > (old.major, old.minor)


def check(shape: Shape, known: Mapping[str, Layout], against: str | None = None) -> Report:
    """Hold a struct against the known layouts.

    Args:
        shape: what a header, an ELF file or a mirror declares.
        known: the layouts, oldest first.
        against: the layout that it should be; None for the nearest.

    Raises:
        LayoutError: `against` is not among the known layouts.
    """
    if against is not None and against not in known:
        raise LayoutError(f"no layout is called {against!r}", hint=f"known: {', '.join(known)}")
    comparisons = {name: compare(of_layout(layout), shape) for name, layout in known.items()}
    name = against or min(known, key=lambda n: _distance(shape, known[n], comparisons[n]))
    same_as = tuple(n for n, c in comparisons.items() if c.equal)
    layout, comparison = known[name], comparisons[name]
    return Report(
        shape=shape,
        layout=layout,
        comparison=comparison,
        same_as=same_as,
        findings=tuple(_findings(shape, layout, comparison, _others(shape, known, same_as))),
        remarks=tuple(_remarks(shape, layout, comparison, same_as, known)),
    )


def _distance(shape: Shape, layout: Layout, comparison: Comparison) -> tuple[bool, bool, int, int]:
    """How far a layout is from a struct; a change most likely started at the same version."""
    other_version = shape.version is not None and shape.version != layout.identity.version
    return not comparison.equal, other_version, len(comparison.breaking), -layout.order


def _others(shape: Shape, known: Mapping[str, Layout], same_as: Sequence[str]) -> list[Layout]:
    """The layouts that carry the struct's version and are not the struct."""
    return [
        layout
        for name, layout in known.items()
        if name not in same_as
        and shape.version is not None
        and layout.identity.version == shape.version
    ]


def _findings(
    shape: Shape, layout: Layout, comparison: Comparison, others: Sequence[Layout]
) -> Sequence[str]:
    found = []
    if breaking := comparison.breaking:
        fields = "1 field differs" if len(breaking) == 1 else f"{len(breaking)} fields differ"
        found.append(f"{fields} from {layout.name}")
    if shape.region.sizeof != layout.sizeof:
        found.append(f"the size is {shape.region.sizeof}, that of {layout.name} is {layout.sizeof}")
    if shape.magic is not None and shape.magic != layout.identity.magic:
        found.append(
            f"the magic is {shape.magic}, that of {layout.name} is {layout.identity.magic}"
        )
    if comparison.equal:
        return [*found, *_wrong_version(shape, layout)]
    return [*found, *_version_not_bumped(shape, others)]


def _wrong_version(shape: Shape, layout: Layout) -> Iterator[str]:
    version, expected = shape.version, layout.identity.version
    if version is not None and layout.has("major_version") and version != expected:
        yield f"the version is {version}, that of {layout.name} is {expected}"


def _version_not_bumped(shape: Shape, others: Sequence[Layout]) -> Iterator[str]:
    if not others:
        return
    names = " and ".join(other.name for other in others)
    tell = "no reader can tell them apart by the header"
    if all(other.sizeof != shape.region.sizeof for other in others):
        tell = "only the file's size tells them apart"
    yield f"THE VERSION WAS NOT BUMPED: it is still {shape.version}, that of {names}; {tell}"


def _remarks(
    shape: Shape, layout: Layout, comparison: Comparison, same_as: tuple[str, ...],
    known: Mapping[str, Layout],
) -> Sequence[str]:  # fmt: skip
    found = list(comparison.notes)
    if not comparison.equal and same_as:
        found.append(f"it is {' and '.join(same_as)} instead")
    if comparison.equal and layout.upstream.before:
        current = [n for n, other in known.items() if not other.upstream.before]
        found.append(
            f"{layout.name} is not the current layout ({', '.join(current)}): "
            f"hold it against that one with --against if it should be"
        )
    if shape.version is None and layout.identity.version is not None and not shape.mirror:
        found.append("the source does not say its version, so that was not checked")
    return found
