"""Files of machines that this library does not read: known well enough to be refused by name."""

from __future__ import annotations

from functools import lru_cache

from hami_cache.spec.layout import CType, Field, Layout, Struct, align_up, bare_type

WORDS = ("size_t", "long", "unsigned long")
"""C types that have 4 bytes on a 32-bit machine."""

SEMAPHORE_BYTES = 16
"""glibc's ``sem_t`` on a 32-bit machine."""

ALIGNMENTS = ((4, 4), (4, 8), (8, 8))
"""Of 64-bit integers there, plain and atomic: 386 with an old and a new compiler, and ARM."""


@lru_cache(maxsize=64)
def sizes_on_32_bits(layout: Layout) -> frozenset[int]:
    """The lengths a file of this layout would have if a 32-bit program had written it, in bytes."""
    regions = {_Arithmetic(layout, *aligned).sizeof(layout.region) for aligned in ALIGNMENTS}
    return frozenset(size + i for size in regions for i in range(layout.identity.trailing + 1))


class _Arithmetic:
    """C's arithmetic of sizes under ILP32."""

    def __init__(self, layout: Layout, plain: int, atomic: int) -> None:
        self._layout = layout
        self._plain = plain
        self._atomic = atomic

    def sizeof(self, struct: Struct) -> int:
        return self._measure(struct)[0]

    def _measure(self, struct: Struct) -> tuple[int, int]:
        end, widest = 0, 1
        for field in struct.fields:
            size, align = self._element(field, field.ctype)
            end = align_up(end, align) + size * field.count
            widest = max(widest, align)
        return align_up(end, widest), widest

    def _element(self, field: Field, ctype: CType) -> tuple[int, int]:
        if ctype.kind == "struct":
            return self._measure(self._layout.struct_of(field))
        if ctype.kind == "semaphore":
            return SEMAPHORE_BYTES, 4
        if bare_type(field.type) in WORDS:
            return 4, 4
        if ctype.kind in ("signed", "unsigned") and ctype.size == 8:
            return 8, self._atomic if "_Atomic" in field.type else self._plain
        return ctype.size, ctype.align
