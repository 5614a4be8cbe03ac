"""Absence as a type.

A figure that could not be measured is not zero, not NaN and not None: it is `Absent`, with the
reason. Using one as if it were a number raises, so a missing term can never turn into a smaller sum
by accident.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NoReturn, TypeVar

T = TypeVar("T")


class AbsentValueError(TypeError):
    """An absent figure was used as if it had been measured."""


class Absent:
    """A figure that is not there, and why.

    Args:
        reason: one word of the vocabulary (``counter_underflow``, ``torn``, ``unsupported`` ...),
            never empty.
        detail: free text for people.

    Two absences are equal when their reasons are. Arithmetic, ordering, truth tests and conversions
    raise `AbsentValueError`; test with ``isinstance(value, Absent)``.
    """

    __slots__ = ("detail", "reason")

    reason: Final[str]
    detail: Final[str]

    def __init__(self, reason: str, detail: str = "") -> None:
        if not reason:
            raise ValueError("an absence needs a reason")
        self.reason = reason
        self.detail = detail

    def __repr__(self) -> str:
        return f"Absent({self.reason!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Absent) and other.reason == self.reason

    def __hash__(self) -> int:
        return hash((Absent, self.reason))

    def _refuse(self, *_: object) -> NoReturn:
        raise AbsentValueError(
            f"this figure is absent ({self.reason}) and cannot be used as a number"
        )

    __bool__ = __int__ = __float__ = __index__ = __complex__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refuse
    __divmod__ = __rdivmod__ = __pow__ = __rpow__ = __neg__ = __pos__ = __abs__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __round__ = __trunc__ = __floor__ = __ceil__ = _refuse
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = _refuse
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _refuse
    __len__ = __iter__ = _refuse


def total(values: Iterable[int | Absent]) -> int | Absent:
    """Sum figures; the sum is absent, for the first reason met, as soon as one term is."""
    result = 0
    for value in values:
        if isinstance(value, Absent):
            return value
        result += value
    return result


def or_else(value: T | Absent, default: T) -> T:
    """The value, or `default` where it is absent: to sort and to paint, never to reckon."""
    return default if isinstance(value, Absent) else value
