"""Metrics made of others: weighted means and expressions, their bounds, which way is better, and what is missing."""

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offline_runs import fake_tools, sample
from ragassay.engine import evaluate
from ragassay.errors import BadInput, BadSettings, UnknownName
from ragassay.metrics import Chunk, parse
from ragassay.metrics.accuracy import AccuracyRule
from ragassay.metrics.base import Metric
from ragassay.metrics.composites import composite_metric
from ragassay.metrics.own import check_own, own_metrics
from ragassay.models import Score
from ragassay.runs.plan import choose_metrics, plan
from ragassay.specification import JobSpec
from ragassay.strategies.recorded import Recorded


def made(definition, **bounds):
    """A composite of metrics of 0 to 1, or with the given bounds; a name that begins with low_ is better lower."""

    def find(name):
        better = "lower" if name.startswith("low_") else "higher"
        return Metric(family=name, function=len, better=better, bounds=bounds.get(name, (0.0, 1.0)))

    return composite_metric("own", definition, find)


def value(definition, **values):
    chunk = Chunk([sample()], scores={name: [Score(value=one)] for name, one in values.items()})
    (score,) = made(definition).score(chunk)
    return score.value


@pytest.mark.parametrize(
    ("definition", "values", "expected"),
    [
        ({"a": 2, "b": 1}, {"a": 0.9, "b": 0.6}, 0.8),  # (2 * 0.9 + 0.6) / 3
        ({"a": 5}, {"a": 0.3}, 0.3),
        ("1 - a", {"a": 0.25}, 0.75),
        ("2 * a * b / (a + b), higher is better", {"a": 0.5, "b": 1.0}, 2 / 3),
        ("harmonic_mean(a, b)", {"a": 0.5, "b": 1.0}, 2 / 3),
        ("harmonic_mean(a, b)", {"a": 0.0, "b": 1.0}, 0.0),
        ("min(a, max(b, 0.5)) - -.25", {"a": 0.75, "b": 0.0}, 0.75),
        ("a - b - 0.5, higher is better", {"a": 1.0, "b": 0.25}, 0.25),  # from the left: (1 - 0.25) - 0.5
        ("a / b / 2, higher is better", {"a": 1.0, "b": 0.5}, 1.0),
        ("-(a + b) * 1e1", {"a": 0.1, "b": 0.2}, -3.0),
        ("ndcg@10 * 2 - mrr, higher is better", {"ndcg@10": 0.5, "mrr": 0.25}, 0.75),
        ("rbp@0.8 + 1", {"rbp@0.8": 0.5}, 1.5),
    ],
)
def test_the_arithmetic_is_that_of_school(definition, values, expected):
    assert value(definition, **values) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("definition", "bounds", "better"),
    [
        ({"a": 2, "b": 1}, (0, 1), "higher"),
        ({"low_a": 2, "low_b": 1}, (0, 1), "lower"),
        ("1 - a", (0, 1), "lower"),
        ("1 - low_a", (0, 1), "higher"),
        ("a * b * 100", (0, 100), "higher"),
        ("a + 1 - low_a", (0, 2), "higher"),
        ("a / (1 + low_a)", (0, 1), "higher"),
        ("low_a / (1 + a)", (0, 1), "lower"),
        ("a / low_a", None, "higher"),
        ("min(a, b) - max(low_a, low_b)", (-1, 1), "higher"),
        ("harmonic_mean(a, b)", (0, 1), "higher"),
        ("1 / (a - 2)", (-1, -0.5), "lower"),
        ("2 * a * b / (a + b), higher is better", None, "higher"),
        ("a - b, lower is better", (-1, 1), "lower"),
    ],
)
def test_bounds_and_which_way_is_better_follow_from_the_definition(definition, bounds, better):
    metric = made(definition)
    assert (metric.bounds, metric.better) == (bounds, better)


@pytest.mark.parametrize(
    ("definition", "says"),
    [
        ("1 - ", "ends where a metric or a number should follow"),
        ("a b", "can't read 'b'"),
        ("(a", "a parenthesis is not closed"),
        ("a)", "can't read ')'"),
        ("a; import os", "can't read '; import os'"),
        ("__import__('os').system('true')", "can't read"),
        ("a ** 2", "can't read '* 2'"),
        ("a if b else 1", "can't read 'if b else 1'"),
        ("min()", "can't read ')'"),
        ("", "ends where"),
        ("1 + 2", "names no metric"),
        ("0 * a", "is always 0"),
        ("a / 0", "divides by 0, which is always 0"),
        ("a - b", "does not follow from it: a, b pull in different ways"),
        ("2 * a * b / (a + b)", "it may rise and fall with a"),
        ("harmonic_mean(a - 1, b)", "is of what is never negative"),
        ({"a": 1, "low_b": 1}, "is a mean of metrics of which higher is better and low_b, of which lower is"),
        ({"a": 0}, "the weight of a should lie above 0"),
        ({"a": -1}, "the weight of a should lie above 0"),
        ({"a": 1, "A": 1}, "is named twice"),
        ("(" * 30 + "a" + ")" * 30, "nested more than 20 levels deep"),
    ],
)
def test_what_cant_be_meant_is_refused_with_the_part_that_cant_be_read(definition, says):
    names = {"A": "a"}
    with pytest.raises(BadSettings) as refused:
        composite_metric(
            "own",
            definition,
            lambda name: (
                made({"a": 1})
                .parts[0]
                .__class__(
                    family=names.get(name, name),
                    function=len,
                    better="lower" if name.startswith("low_") else "higher",
                    bounds=(0.0, 1.0),
                )
            ),
        )
    assert says in str(refused.value)


def test_a_long_row_of_signs_is_no_matter():
    assert value("-" * 499 + "a", a=0.5) == -0.5


OPERATIONS = st.recursive(
    st.sampled_from(["a", "b", "0.5", "2"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        inner.map(lambda t: f"-{t}"),
    ),
    max_leaves=6,
)


@given(OPERATIONS, st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_every_value_lies_in_the_bounds_and_moves_the_way_that_is_said(text, a, b, other):
    try:
        metric = made(text)
    except BadSettings:
        return
    low, high = metric.bounds or (-math.inf, math.inf)
    oracle = {"__builtins__": {}, "min": min, "max": max}

    def at(a):
        try:
            return eval(text, oracle, {"a": a, "b": b})
        except ZeroDivisionError:
            return None

    chunk = Chunk([sample()], scores={name: [Score(value=one)] for name, one in (("a", a), ("b", b))})
    (score,) = metric.score(chunk)
    if (expected := at(a)) is None:
        assert score.missing == "undefined"
        assert "nothing can be divided by it" in score.reason
    elif abs(expected) <= 1e100:
        assert score.value == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert low - 1e-9 <= expected <= high + 1e-9
        if metric.bounds and (elsewhere := at(other)) is not None:
            rises = (elsewhere - expected) * (other - a) * (1 if metric.better == "higher" else -1)
            assert rises >= -1e-9


# --- in a run -------------------------------------------------------------------------------------------------------

SPEC = JobSpec(
    metrics=("mrr", "quality"),
    composites={"quality": {"faithfulness": 2, "relevance": 1}, "grounded_hit": "faithfulness * hit@1"},
)


def evaluated(spec, rows, judge=None):
    metrics = choose_metrics(spec, {"default": rows})
    strategy = Recorded("default", {row.query_id: row.response for row in rows if row.response})
    return asyncio.run(evaluate(rows, strategy, plan(spec, metrics), fake_tools(judge)))


def test_a_run_computes_the_parts_first_and_reports_what_was_asked_for_and_its_own():
    (row,) = evaluated(SPEC, [sample()])
    assert list(row.scores) == ["mrr", "quality", "grounded_hit"]
    assert row.scores["quality"].value == 1.0
    assert row.scores["quality"].details == {"parts": {"faithfulness": 1.0, "relevance": 1.0}}


def test_without_metrics_composites_come_with_the_usual_ones():
    (row,) = evaluated(SPEC.model_copy(update={"metrics": None}), [sample()])
    assert {"accurate", "quality", "grounded_hit"} <= row.scores.keys()


def test_a_row_that_lacks_a_part_is_missing_with_the_reason_that_names_the_part():
    rows = evaluated(SPEC, [sample(1), sample(2, contexts=None), sample(3, relevant_doc_ids=None)])
    assert rows[0].scores["grounded_hit"].value == 1.0
    assert rows[1].scores["quality"] == Score.absent("faithfulness: the response has no contexts", "no_input")
    assert rows[2].scores["grounded_hit"] == Score.absent("hit@1: the query has no relevance judgments", "no_input")


def test_a_failed_part_is_a_failed_composite():
    from offline_runs import ScriptedJudge
    from ragassay.models import Judgement

    (row,) = evaluated(SPEC, [sample()], ScriptedJudge(q1=Judgement(reason="the judge failed: it is down")))
    score = row.scores["quality"]
    assert (score.value, score.missing) == (None, "failed")
    assert score.reason == "faithfulness: the judge failed: it is down; relevance: the judge failed: it is down"


def test_composites_stand_in_composites_in_the_rule_and_with_criteria():
    spec = JobSpec(
        metrics=("accurate",),
        criteria={"polite": "It is polite."},
        composites={"both": "(quality + polite) / 2", "quality": {"faithfulness": 1}, "error": "1 - accurate"},
        accurate="quality >= 0.9",
    )
    (row,) = evaluated(spec, [sample()])
    assert (row.scores["accurate"].value, row.scores["error"].value) == (1.0, 0.0)
    assert row.scores["both"].reason.startswith("polite: the judge scripted can't judge criteria")
    assert own_metrics(spec)["error"].better == "lower"


def test_no_response_counts_as_nothing_retrieved_where_every_part_says_so():
    spec = JobSpec(metrics=("ranking",), composites={"ranking": {"mrr": 1, "hit@1": 1}})
    rows = evaluated(spec, [sample(1), sample(2).model_copy(update={"response": None})])
    assert [row.scores["ranking"].value for row in rows] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("spec", "where", "says"),
    [
        ({"composites": {"a": "1 - b", "b": "1 - a"}}, "composites.a", "goes in a circle: a -> b -> a"),
        ({"composites": {"a": "1 - a"}}, "composites.a", "goes in a circle: a -> a"),
        (
            {"composites": {"own": "1 - relevence"}},
            "composites.own",
            "unknown metric 'relevence'; did you mean relevance?",
        ),
        ({"composites": {"own": "1 - ndcg"}}, "composites.own", "needs a value after @"),
        ({"composites": {"mrr": "1 - recall@5"}}, "composites.mrr", "would hide the metric of that name"),
        ({"composites": {"rr": "1 - recall@5"}}, "composites.rr", "would hide the metric of that name"),
        ({"composites": {"query": "1 - mrr"}}, "composites.query", "would have the name of something else in a report"),
        ({"composites": {"Own": "1 - mrr"}}, "composites.Own", "can't be the name of a composite"),
        ({"composites": {"a": "1 - mrr"}, "criteria": {"a": "Is it?"}}, "composites.a", "has the name of a criterion"),
    ],
)
def test_names_and_circles_are_checked_with_their_place(spec, where, says):
    with pytest.raises(BadInput) as refused:
        check_own(JobSpec(**spec))
    assert refused.value.where == where
    assert says in str(refused.value)


def test_the_rule_cant_read_accurate_through_a_composite():
    own = own_metrics(JobSpec(composites={"error": "1 - accurate", "more": "error + mrr, higher is better"}))
    with pytest.raises(BadSettings, match="accurate can't depend on itself"):
        AccuracyRule.parse("more >= 0.5", own)


def test_a_name_without_a_definition_is_unknown():
    with pytest.raises(UnknownName):
        parse("quality")
