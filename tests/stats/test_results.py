import pytest
from pydantic import ValidationError

from ragassay.core.statistics import Interval, Significance


def test_what_an_interval_leaves_possible():
    found = Interval(low=0.2, high=0.4, level=0.95, method="t")
    assert [found.contains(x) for x in (0.1, 0.2, 0.3, 0.4, 0.5)] == [False, True, True, True, False]
    open_end = Interval(low=2.0, level=0.95, method="bootstrap", unbounded=True)
    assert [open_end.contains(x) for x in (1.0, 2.0, 1e9)] == [False, True, True]
    assert Interval.absent("there is 1 row", 0.95, "t").contains(7.0)


@pytest.mark.parametrize(
    "ends",
    [
        {},
        {"low": 0.1},
        {"high": 0.1, "reason": "why"},
        {"low": 0.1, "high": 0.2, "unbounded": True},
        {"unbounded": True, "reason": "why"},
        {"low": 0.3, "high": 0.2},
        {"low": float("nan"), "high": 0.2},
        {"low": 0.1, "high": float("inf")},
    ],
)
def test_an_interval_that_contradicts_itself_can_not_be_made(ends):
    with pytest.raises(ValidationError):
        Interval(level=0.95, method="t", **ends)


def test_significance_follows_from_p_and_alpha_whatever_is_claimed():
    assert Significance(name="t", method="t", alpha=0.05, p=0.05).significant is True
    assert Significance(name="t", method="t", alpha=0.05, p=0.06, significant=True).significant is False
    assert Significance(name="t", method="t", alpha=0.05, reason="why").significant is None
