"""The reader of PromQL that the other tests stand on."""

from __future__ import annotations

import pytest

from tests.deploy.promql import Named, named


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("up", Named({"up": set()})),
        ('a{b="c",d=~"e|f"} > 0.5', Named({"a": {"b", "d"}}, {"b": {"c"}, "d": {"e", "f"}})),
        (
            "sum by (x, y) (rate(a_total[5m])) / on (z) group_left (w) b",
            Named({"a_total": set(), "b": set()}, {}, {"x", "y", "z", "w"}),
        ),
        ("max without (reason) (a) == 0 or vector(0)", Named({"a": set()}, {}, {"reason"})),
        (
            'label_replace(a{b="c"}, "made", "of, this", "d", ".*") unless up offset 5',
            Named({"a": {"b"}, "up": set()}, {"b": {"c"}}, made={"made"}),
        ),
        (
            "histogram_quantile(0.9, sum(rate(a_bucket[$__rate_interval])) by (le))",
            Named({"a_bucket": set()}, {}, {"le"}),
        ),
        ("time() - level:a:sum", Named({"level:a:sum": set()})),
    ],
)
def test_what_an_expression_names(expression: str, expected: Named) -> None:
    assert named(expression) == expected


@pytest.mark.parametrize("expression", ["a{b~c}", "a @ end() ;", 'a{b>"c"}'])
def test_what_is_not_understood_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"not understood|no matcher"):
        named(expression)
