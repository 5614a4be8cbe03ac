"""New layouts: a copy of a known one to start from, or what a header or a library declares.

A declaration says where the fields lie. What they mean (logical names), how a file is recognised
(probes) and what the seqlock covers is taken over from the known layouts, the nearest first, field
by field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hami_cache.errors import LayoutError
from hami_cache.spec import checks
from hami_cache.spec.layout import (
    Abi,
    Field,
    Identity,
    Layout,
    Probe,
    Seqlock,
    Struct,
    Upstream,
    Version,
)  # fmt: skip
from hami_cache.toolkit.compare import Comparison, compare
from hami_cache.toolkit.shape import Shape, of_layout

UNRELEASED = "unreleased"

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_PROBE_KEY = re.compile(r"identity\.probes\[(\d+)\]")


def copy(base: Layout, name: str, known: Mapping[str, Layout]) -> Layout:
    """A layout like `base` under a new name; a name such as ``v1.3`` gives it that version too.

    Raises:
        LayoutError: the name is taken or no name for a file.
    """
    version = _version_in(name) or base.identity.version
    return replace(
        base,
        name=_free(name, known),
        order=_next_order(known),
        summary=f"Started from {base.name}; not described yet.",
        upstream=_upstream(base, f"not described yet; started from {base.name}"),
        identity=replace(base.identity, version=version if base.identity.version else None),
        path=Path(f"{name}.toml"),
    )


def from_shape(shape: Shape, base: Layout, name: str, known: Mapping[str, Layout]) -> Layout:
    """The layout that a shape declares; what it means comes from `base`, then from the newest.

    Raises:
        LayoutError: the name is taken or no name for a file.
    """
    models = [base, *sorted((k for k in known.values() if k is not base), key=lambda k: -k.order)]
    comparisons = [compare(of_layout(model), shape) for model in models]
    structs = _with_meaning(shape, comparisons)
    draft = Layout(
        name=_free(name, known),
        order=_next_order(known),
        summary=f"Taken from {shape.name}; not described yet.",
        upstream=_upstream(base, _summary(comparisons[0], base)),
        abi=Abi("little", "LP64", shape.machines, f"{shape.judge}, from {shape.name}"),
        identity=Identity(
            magic_field=base.identity.magic_field,
            magic=base.identity.magic if shape.magic is None else shape.magic,
            version=_version(shape, base),
            trailing=base.identity.trailing,
            probes=(*base.identity.probes, *_further_probes(base, models)),
        ),
        seqlock=None,
        region=structs[shape.region.name],
        structs=structs,
        path=Path(f"{name}.toml"),
    )
    draft = replace(draft, seqlock=_seqlock(draft, models))
    return _without_stray_probes(draft)


def _free(name: str, known: Mapping[str, Layout]) -> str:
    if not _NAME.fullmatch(name):
        raise LayoutError(f"{name!r} is no name for a layout", hint="write it like v1.3")
    if name in known:
        taken = known[name].path
        raise LayoutError(f"a layout is called {name} already", path=taken, hint="choose a name")
    return name


def _next_order(known: Mapping[str, Layout]) -> int:
    return max(layout.order for layout in known.values()) + 1


def _version_in(name: str) -> Version | None:
    match = re.fullmatch(r"v(\d{1,4})\.(\d{1,4})", name)
    return Version(int(match[1]), int(match[2])) if match else None


def _upstream(base: Layout, changes: str) -> Upstream:
    return Upstream(base.upstream.project, UNRELEASED, "", (), (), changes)


def _version(shape: Shape, base: Layout) -> Version | None:
    names = {field.name for field in shape.region.fields}
    return (shape.version or base.identity.version) if "major_version" in names else None


def _summary(comparison: Comparison, base: Layout) -> str:
    """One line on what changed since the base."""
    told = [f"{c.path} {c.detail}" for c in comparison.breaking if c.kinds != ("moved",)]
    moved = sum(c.kinds == ("moved",) for c in comparison.breaking)
    told += [f"{moved} fields moved"] if moved else []
    return f"since {base.name}: {'; '.join(told) or 'nothing'}"


def _with_meaning(shape: Shape, comparisons: Sequence[Comparison]) -> dict[str, Struct]:
    """The structs with logical names: each field's from the first model that has the field."""
    meaning: dict[tuple[str, str], Field] = {}
    for comparison in comparisons:
        for pair in comparison.structs:
            for before, after in pair.fields:
                if pair.after is not None and before is not None and after is not None:
                    meaning.setdefault((pair.after.name, after.name), before)
    structs = {}
    for name, struct in shape.structs.items():
        fields = []
        for field in struct.fields:
            model = meaning.get((name, field.name))
            logical = model.logical if model else field.name
            padding = model.padding if model else field.padding
            fields.append(replace(field, logical=logical, padding=padding))
        structs[name] = replace(struct, fields=tuple(fields))
    return structs


def _further_probes(base: Layout, models: Sequence[Layout]) -> Iterator[Probe]:
    """Questions about fields that the base lacks, in the words of the first model that asks."""
    asked = set()
    for probe in (probe for model in models for probe in model.identity.probes):
        key = (probe.kind, probe.field)
        if probe.field and not base.has(probe.field) and key not in asked:
            asked.add(key)
            yield probe


def _seqlock(draft: Layout, models: Sequence[Layout]) -> Seqlock | None:
    for model in models:
        lock = model.seqlock
        if lock and all(draft.has(path) for path in (lock.field, *lock.covers)):
            return lock
    return None


def _without_stray_probes(draft: Layout) -> Layout:
    """The draft without the questions that its fields cannot answer."""
    keys = (_PROBE_KEY.fullmatch(key) for key, _ in checks.problems(draft))
    stray = {int(key[1]) for key in keys if key}
    kept = tuple(p for i, p in enumerate(draft.identity.probes) if i not in stray)
    return replace(draft, identity=replace(draft.identity, probes=kept))
