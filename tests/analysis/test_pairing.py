"""What "the same query" is, and that every place that compares two runs tells the same interval of their difference."""

import pytest

from handmade_reports import make_report, row, rows
from ragassay.analysis.comparison import compare
from ragassay.analysis.gates import Gate, check
from ragassay.analysis.rows import SystemRows, match
from ragassay.evaluation.groups import slice_value


def asked(*queries):
    """Rows by id and text."""
    return [row(0, query=text, mrr=0.5).model_copy(update={"query_id": query_id}) for query_id, text in queries]


def matched(a, b):
    """Ids of the rows that belong together."""
    of_a, of_b = (SystemRows(asked(*rows), ()) for rows in (a, b))
    return [(of_a.ids[place], of_b.ids[other]) for place, other in zip(*match(of_a, of_b), strict=True)]


@pytest.mark.parametrize(
    ("a", "b", "pairs"),
    [
        ([("x", "Why?"), ("y", "Who?")], [("y", "Who?"), ("x", "Why?")], [("x", "x"), ("y", "y")]),
        ([("x", "Why  me?")], [("x", " Why\nme? ")], [("x", "x")]),
        ([("x", "Why?")], [("x", "Why not?")], []),  # the id has another question now
        ([("x", "Why?")], [("y", "Why?")], []),  # ids of their own say that these are two queries
        # one row was put in front of a dataset without ids: each id names another row
        ([("q_0", "Why?"), ("q_1", "Who?")], [("q_0", "How?"), ("q_1", "Why?"), ("q_2", "Who?")], [("q_0", "q_1"), ("q_1", "q_2")]),
        ([("q_0", "Why?")], [("why", "why? ".title())], [("q_0", "why")]),  # ids were added later
        # which of two rows with one text is meant can't be told
        ([("q_0", "Why?")], [("q_3", "Why?"), ("q_4", "Why?")], []),
        # equal ids and texts come first; then one row on either side is left
        ([("q_0", "Why?"), ("q_1", "Why?")], [("q_1", "Why?"), ("q_2", "Why?")], [("q_0", "q_2"), ("q_1", "q_1")]),
        ([], [("x", "Why?")], []),
    ],
)  # fmt: skip
def test_rows_match_on_their_own_ids_and_else_on_text(a, b, pairs):
    assert matched(a, b) == pairs
    assert sorted(matched(b, a)) == sorted((other, one) for one, other in pairs)


@pytest.mark.parametrize(
    ("name", "value"), [("category", "x"), ("difficulty", None), ("metadata.n", "1"), ("metadata.list", None)]
)
def test_a_slice_takes_text_numbers_and_truth_values(name, value):
    assert slice_value(row(1, category="x", metadata={"n": 1, "list": [1]}, mrr=1.0), name) == value


BEFORE = [0.1, 0.4, 0.5, 0.2, 0.9, 0.3, 0.6, 0.7, 0.2, 0.5, None, 0.4]
NOW = [0.2, 0.1, 0.7, 0.1, 0.8, 0.4, 0.3, 0.9, 0.1, 0.2, 0.5, None]


@pytest.mark.parametrize(("metric", "sign"), [("mrr", -1), ("latency_ms", 1)])
def test_a_comparison_and_a_gate_give_the_same_interval_of_one_pair_of_runs(metric, sign):
    before, now = make_report(rows(BEFORE, metric), run="old"), make_report(rows(NOW, metric), run="new")
    delta = compare([(before, None), (now, None)]).pairs[0].metrics[metric]
    (result,) = check(now, [Gate(metric=metric, coverage=0.5, max_drop=1.0)], before).results
    shown = (delta.interval.low, delta.interval.high)
    # a drop is what got worse: b - a where lower is better, a - b where higher is
    assert (result.interval.low, result.interval.high) == (shown if sign == 1 else (-shown[1], -shown[0]))
    assert (result.n, result.drop) == (delta.n, pytest.approx(sign * delta.delta))


def test_rows_without_ids_are_compared_with_the_baseline_although_one_was_put_in_front():
    before = asked(*((f"q_{n}", f"question {n}") for n in range(8)))
    now = asked(("q_0", "a new one"), *((f"q_{n + 1}", f"question {n}") for n in range(8)))
    (result,) = check(make_report(now), [Gate(metric="mrr", max_drop=0.1)], make_report(before)).results
    assert (result.passed, result.n, result.rows) == (True, 8, 8)
