import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragassay.stats.ratio import incremental_cost, pareto_front

rng = np.random.default_rng(21)
N = 200
COST_A, COST_B = rng.lognormal(-4, 0.4, N), rng.lognormal(-3.7, 0.4, N)
RIGHT_A = rng.random(N) < 0.5
RIGHT_B = RIGHT_A | (rng.random(N) < 0.5)


def test_the_cost_of_one_more_accurate_answer():
    found = incremental_cost(COST_A, RIGHT_A, COST_B, RIGHT_B)
    gained = int(RIGHT_B.sum()) - int(RIGHT_A.sum())
    assert found.extra_accurate == gained
    assert found.extra_cost == pytest.approx(COST_B.sum() - COST_A.sum())
    assert found.value == pytest.approx((COST_B.sum() - COST_A.sum()) / gained)
    assert found.interval.low < found.value < found.interval.high
    assert found.reason is None


@pytest.mark.parametrize("right_b", [RIGHT_A, RIGHT_A & (rng.random(N) < 0.8)])
def test_without_more_accurate_answers_there_is_no_price_for_one(right_b):
    found = incremental_cost(COST_A, RIGHT_A, COST_B, right_b)
    assert found.value is None
    assert found.reason == found.interval.reason == "B gives no more accurate answers than A"
    assert incremental_cost([], [], [], []).reason == "no query has a known cost and accuracy in both"


def test_incremental_cost_of_more_answers_for_less_money_is_said_in_words():
    found = incremental_cost(COST_B, RIGHT_A, COST_A, RIGHT_B, names=("old", "new"))
    assert (found.value, found.interval.low) == (None, None)
    assert found.reason == found.interval.reason == "new is cheaper and better"


AXES = ("higher", "lower", "lower")


def test_the_front_holds_who_is_beaten_by_nobody():
    front = pareto_front(
        {
            "bm25": (0.70, 0.001, 80.0),
            "hybrid": (0.80, 0.002, 120.0),
            "reranked": (0.82, 0.004, 300.0),
            "slow": (0.80, 0.003, 150.0),
            "worst": (0.60, 0.005, 400.0),
            "unpriced": (0.90, None, 90.0),
        },
        AXES,
    )
    assert front.front == ("bm25", "hybrid", "reranked")
    assert front.dominated == {"slow": "hybrid", "worst": "reranked"}
    assert front.unplaced == {"unpriced": "axis 2 is unknown"}


coordinates = st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=12)


@given(coordinates)
def test_nobody_on_the_front_is_beaten_and_everybody_else_is_by_one_on_it(points):
    named = {str(i): point for i, point in enumerate(points)}
    front = pareto_front(named, AXES)
    signed = {name: (a, -b, -c) for name, (a, b, c) in named.items()}

    def beats(x, y):
        return signed[x] != signed[y] and all(p >= q for p, q in zip(signed[x], signed[y], strict=True))

    assert front.front
    assert not any(beats(x, y) for x in named for y in front.front)
    assert all(winner in front.front and beats(winner, loser) for loser, winner in front.dominated.items())
    assert set(front.front) | set(front.dominated) == set(named)
