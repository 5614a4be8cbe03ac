"""The numpy twin of the native reader, for bytes that nobody writes any more.

It gives the same verdicts as native/reader.c does at rest, so that the one can be checked against
the other.
"""

from __future__ import annotations

import numpy as np

from hami_cache.read.region import Region
from hami_cache.read.seqlock import STATUS_NOT_INITIALISED, STATUS_READ, VERDICTS, Bytes, RegionCopy
from hami_cache.spec.layout import Layout

_CODE = {name: code for code, name in enumerate(VERDICTS)}


def copy(layout: Layout, data: Bytes) -> RegionCopy[Bytes]:
    """A region's bytes with a verdict for every slot below proc_num; a view is not copied.

    Args:
        layout: how to read them.
        data: at least `layout.sizeof` bytes.
    """
    region = Region(layout, data, b"")
    below = min(max(region.required("proc_num"), 0), len(region.slots))
    verdicts = np.zeros(len(region.slots), np.uint8)
    verdicts[:below] = _verdicts(region, below)
    magic = region.required(layout.identity.magic_field)
    status = STATUS_READ if magic == layout.identity.magic else STATUS_NOT_INITIALISED
    return RegionCopy(data[: layout.sizeof], verdicts.tobytes(), status, 0)


def _verdicts(region: Region, below: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    total, context, module, data = (
        region.slot_column(f"used.{name}")[:below]
        for name in ("total", "context", "module", "data")
    )
    balanced = (total == context + module + data).all(axis=1)  # unsigned: wraps as the writer does
    seqlock = region.column("seqlock")
    if seqlock is None:
        return np.where(balanced, _CODE["unprotected"], _CODE["unbalanced"]).astype(np.uint8)
    at_rest = np.where(balanced, _CODE["stable"], _CODE["unbalanced"])
    return np.where(seqlock[:below] % 2 == 1, _CODE["stuck"], at_rest).astype(np.uint8)
