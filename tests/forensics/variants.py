"""Layouts that differ from v1.2 in what a conversion or a comparison has to cope with."""

from __future__ import annotations

from pathlib import Path

from hami_cache.spec import registry, specfile
from hami_cache.spec.layout import Layout

UUID, SLOTS, PRIORITY, UNUSED = (
    '{ name = "uuids", type = "uuid", count = 16, offset = 64 }',
    '{ name = "procs", type = "shrreg_proc_slot_t", count = 1024, offset = 1856 }',
    '{ name = "priority", type = "int", offset = 2008908 }',
    '{ name = "unused", type = "uint64_t", count = 2, offset = 1944, padding = true }',
)


def variant(folder: Path, name: str, changes: dict[str, str]) -> Layout:
    """v1.2 with some fields declared otherwise, every other one in its place."""
    folder.mkdir(exist_ok=True)
    text = (registry.builtin_folder() / "v1.2.toml").read_text()
    for old, new in {'name = "v1.2"\n': f'name = "{name}"\n', **changes}.items():
        assert old in text
        text = text.replace(old, new)
    (folder / f"{name}.toml").write_text(text)
    return specfile.load(folder / f"{name}.toml")


def narrow_variant(folder: Path) -> Layout:
    """Texts of 88 bytes, 1023 slots, no priority below zero."""
    return variant(
        folder,
        "narrow",
        {
            "uuid = { size = 96,": "uuid = { size = 88,",
            UUID: f'{UUID},\n{{ name = "a", type = "uint64_t", count = 16, offset = 1472 }}',
            SLOTS: f"{SLOTS.replace('1024', '1023')},\n"
            '{ name = "b", type = "uint64_t", count = 245, offset = 2006936 }',
            PRIORITY: PRIORITY.replace("int", "unsigned int"),
        },
    )


def note_variants(folder: Path) -> tuple[Layout, Layout]:
    """A `procs.note` that is a single field in the one, an array in the other."""
    rest = '{ name = "unused", type = "uint64_t", offset = 1952, padding = true }'
    one, many = (
        variant(
            folder,
            name,
            {UNUSED: f'{{ name = "note", type = "uint64_t", {count}offset = 1944 }},\n{rest}'},
        )
        for name, count in (("one", ""), ("many", "count = 1, "))
    )
    return one, many
