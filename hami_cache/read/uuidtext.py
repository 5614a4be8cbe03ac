"""A uuid field as text: what may be shown as a card's name, and why the rest may not."""

from __future__ import annotations

from hami_cache.absent import Absent


def uuid_text(raw: bytes, index: int) -> str | Absent:
    """A device's uuid: text up to the first NUL, if it is not empty, UTF-8 and printable.

    Args:
        raw: the field's bytes.
        index: of the device, for the reason.
    """
    head = raw.partition(b"\0")[0]
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError:
        return Absent("uuid_unreadable", f"uuids[{index}] is not UTF-8: {head[:16].hex()}")
    if not text:
        return Absent("uuid_unreadable", f"uuids[{index}] is empty")
    if not text.isprintable():
        detail = f"uuids[{index}] has control characters: {head[:16].hex()}"
        return Absent("uuid_unreadable", detail)
    return text
