"""The short form of ``make endings``, and that what it looks for is found."""

import pytest

from service.endings_run import Endings


@pytest.fixture(scope="module")
def endings():
    with Endings(seed=2) as running:
        yield running


def test_after_a_cancel_only_reserved_calls_are_made_and_a_budget_is_never_overspent(endings):
    endings.run(cancels=3, caps=2)
    assert endings.breaches == []
    assert (endings.seen["cancelled"] + endings.seen["had ended before"], endings.seen["paused by their budget"]) == (
        3,
        2,
    )
    assert endings.seen["looks at their caps"] > 10


def test_a_call_that_is_paid_and_not_counted_is_found(endings):
    endings.bills["capped9"] += 0.001
    endings.cap(9, endings.whole_usd / 2)
    assert any("the provider's bill is" in breach for breach in endings.breaches)
    assert any("USD spent, of" in breach for breach in endings.breaches)
    endings.breaches.clear()
