"""What changed between two JSON documents, and the newer one from the older and that.

A change of a number or text is its new value. A change of an object, or of a list that kept its
length, names what changed inside; any other change is ``{"=": <the new value>}``.
"""

from __future__ import annotations

from typing import Any, Final

WHOLE: Final = "="
"""Marks a value that is there as a whole."""


class Unchanged:
    """There is no change; its only instance is UNCHANGED."""


UNCHANGED: Final = Unchanged()


def diff(old: Any, new: Any) -> Any:
    """What `apply` needs to make `new` of `old`, or UNCHANGED."""
    if type(old) is not type(new):
        return _whole(new)
    if isinstance(new, dict):
        if old.keys() != new.keys() or WHOLE in new:
            return _whole(new)
        changes = {key: diff(old[key], new[key]) for key in new}
    elif isinstance(new, list):
        if len(old) != len(new):
            return _whole(new)
        pairs = zip(old, new, strict=True)
        changes = {str(index): diff(*pair) for index, pair in enumerate(pairs)}
    else:
        return UNCHANGED if old == new else new
    return {key: change for key, change in changes.items() if change is not UNCHANGED} or UNCHANGED


def apply(old: Any, change: Any) -> Any:
    """The newer document.

    Args:
        old: the older one; it stays as it is.
        change: a result of `diff`, but not UNCHANGED.

    Raises:
        ValueError, KeyError, IndexError: the change does not fit.
    """
    if not isinstance(change, dict):
        return change
    if WHOLE in change:
        return change[WHOLE]
    if isinstance(old, dict):
        return {**old, **{key: apply(old[key], part) for key, part in change.items()}}
    if not isinstance(old, list):
        raise ValueError(f"nothing inside {type(old).__name__} can change")
    new = list(old)
    for key, part in change.items():
        new[int(key)] = apply(new[int(key)], part)
    return new


def _whole(value: Any) -> Any:
    return {WHOLE: value} if isinstance(value, dict | list) else value
