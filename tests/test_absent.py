"""An absent figure is no number: whatever arithmetic is tried with it raises or stays absent."""

from __future__ import annotations

import copy
import math
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_cache.absent import Absent, AbsentValueError, or_else, total

reasons = st.text(min_size=1, max_size=20)
absences = st.builds(Absent, reasons, st.text(max_size=20))
numbers = st.one_of(st.integers(), st.floats(), st.booleans())
figures = st.one_of(st.integers(0, 2**64), absences)

BINARY: list[Callable[[Any, Any], Any]] = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    divmod, operator.pow, operator.lt, operator.le, operator.gt, operator.ge, operator.and_,
    operator.or_, operator.xor, operator.lshift, operator.rshift, max, min,
]  # fmt: skip

UNARY: list[Callable[[Any], Any]] = [
    bool, int, float, complex, operator.index, operator.neg, operator.pos, abs, operator.invert,
    round, math.trunc, math.floor, math.ceil, math.isnan, len, iter, list, range, bytes, hex,
    np.float64, np.uint64, operator.not_,
]  # fmt: skip


@pytest.mark.parametrize("operation", BINARY)
@settings(max_examples=20)
@given(absent=absences, number=numbers)
def test_no_arithmetic_with_a_number(
    operation: Callable[[Any, Any], Any], absent: Absent, number: float
) -> None:
    for left, right in ((absent, number), (number, absent), (absent, absent)):
        with pytest.raises(TypeError):
            operation(left, right)


@pytest.mark.parametrize("operation", UNARY)
@settings(max_examples=5)
@given(absent=absences)
def test_no_use_as_a_number(operation: Callable[[Any], Any], absent: Absent) -> None:
    with pytest.raises(TypeError):
        operation(absent)


@given(absences)
def test_the_error_says_which_figure_is_missing(absent: Absent) -> None:
    with pytest.raises(AbsentValueError) as caught:
        _ = absent + 1
    assert absent.reason in str(caught.value)


@pytest.mark.parametrize("wrong", [0, None, False, "", math.nan, "torn", ()])
def test_it_equals_no_stand_in(wrong: object) -> None:
    assert Absent("torn") != wrong
    assert wrong != Absent("torn")


@given(reasons, st.text(), st.text())
def test_equality_is_that_of_the_reason(reason: str, one: str, other: str) -> None:
    assert Absent(reason, one) == Absent(reason, other)
    assert hash(Absent(reason, one)) == hash(Absent(reason, other))
    assert Absent(reason) != Absent(reason + "x")


@given(absences)
def test_copies_and_pickles_keep_reason_and_detail(absent: Absent) -> None:
    for twin in (copy.deepcopy(absent), pickle.loads(pickle.dumps(absent))):
        assert (twin.reason, twin.detail) == (absent.reason, absent.detail)


def test_an_absence_without_a_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="reason"):
        Absent("")


@given(st.lists(figures))
def test_a_sum_is_exact_or_absent_for_its_first_reason(terms: list[int | Absent]) -> None:
    result = total(iter(terms))
    missing = [term for term in terms if isinstance(term, Absent)]
    if missing:
        assert result is missing[0]
    else:
        assert result == sum(term for term in terms if isinstance(term, int))


@given(st.lists(figures), st.lists(figures))
def test_sums_of_sums_lose_no_absence(one: list[int | Absent], other: list[int | Absent]) -> None:
    assert total([total(one), total(other)]) == total([*one, *other])


@given(figures, st.integers())
def test_or_else_replaces_only_what_is_absent(figure: int | Absent, default: int) -> None:
    assert or_else(figure, default) == (default if isinstance(figure, Absent) else figure)
