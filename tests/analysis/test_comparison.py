"""From reports to a comparison, with the arithmetic beside it."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handmade_reports import make_report, row
from handmade_reports import rows as made
from ragassay.analysis.comparison import compare, compare_datasets
from ragassay.analysis.describe import frontier
from ragassay.analysis.gates import Gate, check
from ragassay.analysis.rows import SystemRows, match
from ragassay.analysis.sides import Side, labelled
from ragassay.core.errors import BadInput, BadSettings, UnknownName
from ragassay.core.models import Result, Score
from ragassay.core.statistics import ParetoFront
from ragassay.reporting.comparison import of_comparison
from ragassay.reporting.text import as_text
from ragassay.stats.intervals import difference_interval
from ragassay.stats.tests import cohens_d, correct, randomisation, t_test, welch

A = [0.1, 0.4, 0.5, 0.2, 0.9, 0.3, 0.6, 0.7, 0.2, 0.5]
B = [0.6, 0.8, 0.7, 0.7, 1.0, 0.9, 0.8, 0.9, 0.1, 0.9]


def rows(system, scores, *, name="mrr", ids=None, also=(), **more):
    """One row per score; None is a row without one. Further columns are lists or values for all rows."""
    results = []
    for n, value in enumerate(scores):
        score = Score.absent("the response has no answer", "no_input") if value is None else Score(value=value)
        fields = {"query": f"question {ids[n] if ids else n}", "scores": {name: score, **dict(also)}}
        fields |= {key: column[n] if isinstance(column, list) else column for key, column in more.items()}
        results.append(Result(query_id=ids[n] if ids else f"q{n}", system=system, **fields))
    return results


def report(*, run="run-1", digest="0" * 64, judge=None, spec=(), **systems):
    """A report on systems given as lists of rows; ``spec``: options of the configuration."""
    return make_report(systems, run=run, digest=digest, judge=judge, **dict(spec))


def compared(*given, **options):
    return compare([(one, None) for one in given], **options)


def test_p_values_and_effects_are_those_of_stats_on_the_same_vectors():
    delta = compared(report(a=rows("a", A), b=rows("b", B))).pairs[0].metrics["mrr"]
    changes = np.array(B) - A
    assert (delta.t_test, delta.cohens_d) == (t_test(changes), cohens_d(changes))
    assert delta.sd == pytest.approx(changes.std(ddof=1))
    assert delta.bootstrap.contains(0.3)
    assert (delta.p, delta.interval) == (randomisation(changes), difference_interval(A, B, bounds=(0.0, 1.0)))
    # 4.4 / 10 and 7.4 / 10
    assert (delta.mean_a, delta.mean_b, delta.delta) == pytest.approx((0.44, 0.74, 0.3))
    assert (delta.n, delta.wins, delta.losses, delta.ties) == (10, 9, 1, 0)
    # gains of 3.1 and a loss of 0.1. As far from 0 are three of the 2 ** 10 signs on either side: as it is, with the
    # loss turned (3.2), and with the gain of 0.1 turned too (3.0)
    assert delta.p_adjusted == delta.p == 6 / 1024
    assert (delta.outcome, delta.stars) == ("better", "**")


def test_the_correction_counts_all_metrics_and_all_systems():
    more = {"also": {"map@10": Score(value=0.5)}}
    given = report(a=rows("a", A, **more), b=rows("b", B, **more), c=rows("c", A, **more))
    comparison = compared(given)
    deltas = [pair.metrics[name] for pair in comparison.pairs for name in comparison.metrics]
    assert comparison.family == 4
    assert [d.p_adjusted for d in deltas] == correct([d.p for d in deltas], "holm")
    bonferroni = compared(given, correction="bonferroni")
    # b against a on mrr, the only p below 1: four times as large
    assert bonferroni.pairs[0].metrics["mrr"].p_adjusted == pytest.approx(4 * deltas[0].p)
    assert compared(given, correction="none").pairs[0].metrics["mrr"].p_adjusted == deltas[0].p


def test_verdict_on_many_systems_speaks_first_of_the_one_that_is_better():
    same = {name: rows(name, A) for name in "bcd"}
    made = compared(report(a=rows("a", A), **same, e=rows("e", [min(1.0, one + 0.5) for one in A])))
    assert made.verdict[0].startswith("e is better than a on mrr")
    assert [pair.b for pair in made.pairs] == ["b", "c", "d", "e"]


def test_rows_without_a_score_are_counted_with_their_reasons():
    given = report(a=rows("a", [None, *A[1:]]), b=rows("b", [None, None, *B[2:]]))
    delta = compared(given).pairs[0].metrics["mrr"]
    assert (delta.n, delta.n_a, delta.n_b) == (8, 9, 8)
    assert (delta.missing_a, delta.missing_b) == ({"the response has no answer": 1}, {"the response has no answer": 2})


@pytest.mark.parametrize(
    ("n", "outcome", "says"),
    [
        (1, "can't tell", "1 pair shows no spread"),
        (5, "can't tell", "5 pairs: p can't be below 0.0625"),  # 2 / 2 ** 5
        (6, "better", None),  # 2 / 2 ** 6 = 0.03
    ],
)
def test_too_few_pairs_can_not_tell(n, outcome, says):
    delta = compared(report(a=rows("a", [0.0] * n), b=rows("b", [1.0] * n))).pairs[0].metrics["mrr"]
    assert (delta.outcome, delta.reason) == (outcome, says)


def test_runs_are_matched_on_id_and_text_and_the_rest_is_counted():
    a = rows("a", A, ids=[f"q{n}" for n in range(10)])
    asked = [*(f"question q{n}" for n in range(2, 11)), "other"]
    b = rows("b", B, ids=[f"q{n}" for n in range(2, 12)], query=asked)
    b[0] = b[0].model_copy(update={"query": "something else"})
    b[1] = b[1].model_copy(update={"query": " question\nq3 ", "ground_truth_answer": ("new",)})
    comparison = compared(report(a=a), report(run="run-2", digest="1" * 64, b=b))
    matching = comparison.pairs[0].matching
    # q2..q9 on both sides, q2 with another text; q0, q1 here only, q10, q11 there only
    assert (matching.method, matching.same_dataset, matching.paired) == ("paired", False, 7)
    assert (matching.only_a, matching.only_b, matching.different_text, matching.different_truth) == (2, 2, 1, 1)
    found, changes = comparison.pairs[0].metrics["mrr"], np.array(B[1:8]) - A[3:]
    assert (found.p, found.t_test) == (randomisation(changes), t_test(changes))
    assert found.interval == difference_interval(A[3:], B[1:8], bounds=(0.0, 1.0))
    assert any("not the same dataset" in warning for warning in comparison.warnings)


def test_without_a_common_query_the_rows_are_two_groups():
    second = report(run="run-2", b=rows("b", B, ids=list("klmnopqrst"), cost_usd=0.3))
    comparison = compared(report(a=rows("a", A, cost_usd=0.1)), second)
    delta = comparison.pairs[0].metrics["mrr"]
    p, interval = welch(A, B, bounds=(0.0, 1.0))
    assert (delta.t_test, delta.p, delta.interval, delta.wins) == (p, p, interval, None)
    assert (delta.n, delta.n_a, delta.n_b, delta.outcome, delta.stars) == (0, 10, 10, "can't tell", "")
    assert " is better than " not in " ".join(comparison.verdict)
    assert "dominated" not in " ".join(comparison.verdict)
    assert comparison.pareto.unplaced == {"b": "it shares no question with a"}
    assert "share no question" in comparison.verdict[0]
    assert "two independent groups" in comparison.verdict[1]
    assert comparison.pairs[0].slices == {}
    assert comparison.pairs[0].measured["cost_usd"].delta == pytest.approx(0.2)
    assert re.search(r"cost_usd +0.1 USD +0.3 USD +3x .* 10\+10\n", as_text(of_comparison(comparison)))
    few = compared(report(a=rows("a", [0.5])), report(run="run-2", b=rows("b", [0.7], ids=["x"])))
    assert few.pairs[0].metrics["mrr"].reason == "each side needs two rows, there are 1 and 1"


def test_what_was_not_measured_alike_is_a_warning_and_in_the_verdict():
    first = report(a=rows("a", A))
    for changed, says in (
        ({"judge": {"name": "llm:x"}}, "not the same judge: local and llm:x"),
        ({"spec": {"accurate": "mrr > 0"}}, "not the same accuracy rule"),
        ({"spec": {"max_grade": 2}}, "not the same greatest grade: 3.0 and 2.0"),
    ):
        comparison = compared(first, report(run="r2", b=rows("b", B), **changed))
        assert says in comparison.warnings[0]
        assert says in comparison.verdict[-1]
    assert compared(report(a=rows("a", A), b=rows("b", B))).warnings == ()


def test_a_composite_whose_parts_are_written_in_another_order_is_the_same():
    one, other = (
        report(run=f"of {name}", spec={"composites": {"mine": weights}}, **{name: rows(name, A)})
        for name, weights in (("a", {"mrr": 2, "map@10": 1}), ("b", {"map@10": 1, "mrr": 2}))
    )
    assert compared(one, other).warnings == ()
    another = report(run="of c", spec={"composites": {"mine": {"mrr": 2, "map@10": 2}}}, c=rows("c", A))
    says = "not the same mine: weighted mean of mrr 2, map@10 1 and weighted mean of mrr 2, map@10 2"
    assert compared(one, another).warnings == (f"a and c: {says}",)


def test_a_metric_that_only_one_of_two_datasets_has_is_compared_there_without_a_warning():
    more = {"also": {"map@10": Score(value=0.5)}}
    given = {
        "faq": report(a=rows("a", A, **more), b=rows("b", B, **more)),
        "manual": report(a=rows("a", A), b=rows("b", B)),
    }
    comparison = compare_datasets(given, "a")
    assert [list(pair.metrics) for pair in comparison.pairs] == [["mrr", "map@10"], ["mrr"]]
    assert comparison.warnings == ()


def test_slices_are_exploratory_and_carry_their_n():
    given = report(
        a=rows("a", A, category=["x", "y"] * 5, metadata=[{"t": n < 5} for n in range(10)]),
        b=rows("b", B, category=["x", "y"] * 5, metadata=[{"t": n < 5} for n in range(10)]),
    )
    slices = compared(given).pairs[0].slices
    part = slices["category"]["x"]["mrr"]
    # (0.5 + 0.2 + 0.1 + 0.2 - 0.1) / 5
    assert (part.n, part.delta) == (5, pytest.approx(0.18))
    assert {value: metrics["mrr"].n for value, metrics in slices["metadata.t"].items()} == {"True": 5, "False": 5}


def accurate(system, values, cost, latency):
    return rows(system, values, name="accurate", cost_usd=cost, latency_ms=latency)


def test_cost_latency_and_the_price_of_one_more_accurate_answer():
    a, b = [0.0] * 6 + [1.0] * 4, [1.0] * 10
    given = report(a=accurate("a", a, 0.01, 100.0), b=accurate("b", b, 0.03, 250.0))
    pair = compared(given).pairs[0]
    # 10 * 0.02 more for 6 more accurate answers
    assert pair.incremental_cost.value == pytest.approx(0.2 / 6)
    assert pair.measured["cost_usd"].ratio == pytest.approx(3.0)
    assert (pair.measured["latency_ms"].metric, pair.measured["latency_ms"].delta) == ("latency_ms", 150.0)
    said = "b costs 3x per query and takes 2.5x as long; one more accurate answer costs 0.033 USD"
    assert said in " ".join(pair.verdict)
    assert set(pair.measured) == {"cost_usd", "latency_ms"}


def test_time_and_cost_are_means_of_the_queries_that_both_have():
    a, b = rows("a", A, cost_usd=[0.1] * 5 + [0.9] * 5), rows("b", B[:5], cost_usd=0.2)
    text = as_text(of_comparison(compared(report(a=a), report(run="run-2", b=b))))
    assert re.search(r"cost_usd +0.1 USD +0.2 USD +2x .* 5\n", text)


def test_costs_that_are_all_0_are_no_yes_or_no():
    pair = compared(report(a=accurate("a", A, 0.0, 1.0), b=accurate("b", B, 0.0, 0.0))).pairs[0]
    for name, delta in (("cost_usd", 0.0), ("latency_ms", -1.0)):
        found = pair.measured[name]
        assert (found.delta, str(found.interval)) == (
            delta,
            "no interval (all 10 values are equal: the spread is unknown)",
        )


def test_a_gain_that_may_be_chance_among_three_tests_has_no_price():
    """Six won and none lost: p is 0.03, and 0.09 among three tests."""
    a, b = (
        accurate(name, [low] * 6 + [1.0] * 6, cost, 1.0) for name, low, cost in (("a", 0.0, 0.01), ("b", 1.0, 0.03))
    )
    assert "one more accurate answer costs" in compared(report(a=a, b=b)).verdict[-1]
    for side in (a, b):
        for place, one in enumerate(side):
            others = {name: Score(value=place % 2) for name in ("mrr", "hit@1")}
            side[place] = one.model_copy(update={"scores": {**one.scores, **others}})
    comparison = compared(report(a=a, b=b), metrics=("accurate", "mrr", "hit@1"))
    assert comparison.pairs[0].metrics["accurate"].outcome == "can't tell"
    assert comparison.verdict[-1] == "b costs 3x per query."


def test_the_pareto_front_names_who_beats_whom_and_who_can_not_be_placed():
    good, bad = [1.0] * 8 + [0.0] * 2, [1.0] * 4 + [0.0] * 6
    given = report(
        a=accurate("a", bad, 0.02, 100.0), b=accurate("b", good, 0.01, 90.0),
        c=accurate("c", good, None, 90.0),
    )  # fmt: skip
    comparison = compared(given)
    assert comparison.pareto.axes == ("accuracy", "cost_usd", "latency_p50_ms")
    assert (comparison.pareto.front, comparison.pareto.dominated) == (("b",), {"a": "b"})
    assert comparison.pareto.unplaced == {"c": "cost_usd is unknown"}


def test_frontier_names_three_dominated_systems_and_counts_the_others():
    dominated, unplaced = dict.fromkeys("abcde", "best"), {"f": "unknown"}
    axes = ("accuracy", "cost_usd")
    said = frontier(ParetoFront(axes=axes, front=("best",), dominated=dominated, unplaced=unplaced))
    assert "c is dominated by best; and 2 more are dominated; f can't be placed" in said
    assert "d is dominated" not in said


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"chosen": ["a"]}, BadInput, "needs two systems, there is only 'a'"),
        ({"chosen": ["a", "a"]}, BadInput, "run-1#a is chosen twice"),
        ({"chosen": ["z"]}, UnknownName, "unknown system 'z'"),
        ({"baseline": "z"}, UnknownName, "unknown baseline 'z'"),
        ({"metrics": ["nDCG@10"]}, BadInput, "a has no ndcg@10"),
        ({"alpha": 1.0}, BadSettings, "alpha"),
        ({"correction": "luck"}, BadSettings, "unknown correction"),
        ({"other": True}, BadInput, "no metric in common"),
    ],
)
def test_what_can_not_be_compared_is_refused(options, error, says):
    two = report(a=rows("a", A), b=rows("b", B))
    chosen = [(two, system) for system in options.pop("chosen", [None])]
    if options.pop("other", False):
        chosen.append((report(run="r2", c=rows("c", A, name="map@10")), None))
    with pytest.raises(error, match=says):
        compare(chosen, **options)


def test_regressions_are_of_every_metric_that_moved_and_have_both_answers():
    why = [("map@10", Score(value=0.25, reason="found late"))]
    was, (old, new, asked) = (
        [("map@10", Score(value=0.5))],
        ([f"{of}{n}" for n in range(10)] for of in ("q_", "x", "Q")),
    )
    a = rows("a", A, also=was, answer="Old.", ids=old, query=asked)
    b = rows("b", A, also=why, answer="New.", ids=new, query=asked)
    both = compared(report(a=a), report(run="r2", b=b))
    first = both.pairs[0].regressions[0]
    assert (first.query_id, first.query_id_b) == ("q_0", "x0")
    assert first.scores == {"map@10": (0.5, 0.25)}  # mrr stayed as it was
    assert (first.answer_a, first.answer_b, first.why) == ("Old.", "New.", "found late")


def test_a_row_that_became_accurate_is_no_regression():
    right, wrong, low, high = Score(value=1.0), Score(value=0.0), Score(value=0.4), Score(value=0.8)
    a = rows("a", A, also={"accurate": wrong, "map@10": high})
    b = rows("b", A, also={"accurate": right, "map@10": low})
    assert compared(report(a=a, b=b)).pairs[0].regressions == ()
    assert compared(report(a=a, b=b), metrics=["map@10"]).pairs[0].regressions  # accuracy is not looked at


SCORES = st.lists(
    st.tuples(
        *[st.none() | st.sampled_from([0.0, 0.25, 0.5, 1.0])] * 2, *[st.none() | st.sampled_from([0.01, 0.02])] * 2
    ),
    min_size=1,
    max_size=14,
)


@settings(max_examples=25, deadline=None)
@given(SCORES, st.sampled_from(["mrr", "latency_ms", "accurate"]))
def test_swapping_the_systems_flips_every_sign(table, name):
    a = rows("a", [t[0] for t in table], name=name, cost_usd=[t[2] for t in table], category="x")
    b = rows("b", [t[1] for t in table], name=name, cost_usd=[t[3] for t in table], category="x")
    given = report(a=a, b=b)
    there, back = compared(given).pairs[0], compared(given, baseline="b").pairs[0]
    one, other = there.metrics[name], back.metrics[name]
    turned = {"better": "worse", "worse": "better"}
    assert other.outcome == turned.get(one.outcome, one.outcome)
    for same in ("p", "p_adjusted", "stars", "mde"):
        assert getattr(other, same) == getattr(one, same)
    assert one.outcome != "no difference shown" or one.interval.contains(0.0)
    assert (other.wins, other.losses, other.ties) == (one.losses, one.wins, one.ties)
    assert (other.mean_a, other.mean_b) == (one.mean_b, one.mean_a)
    pairs = [(one.delta, other.delta), (one.interval.low, other.interval.high), (one.interval.high, other.interval.low)]
    pairs += [(there.measured[m].delta, back.measured[m].delta) for m in there.measured]
    if there.slices:
        pairs += [(side.slices["category"]["x"][name].delta for side in (there, back))]
    for left, right in pairs:
        assert left is right is None or left == pytest.approx(-right, abs=1e-12)
    assert len(compared(given, metrics=[name], examples=99).pairs[0].regressions) == one.losses


def test_compare_corrects_the_primary_metrics_and_marks_the_rest_exploratory():
    also = {"ndcg@5": Score(value=0.5), "accurate": Score(value=1.0)}
    comparison = compared(report(a=rows("a", A, also=also), b=rows("b", B, also=also)))
    metrics = comparison.pairs[0].metrics
    assert (comparison.primary, comparison.family) == (("accurate",), 1)
    assert {name for name, one in metrics.items() if one.exploratory} == {"mrr", "ndcg@5"}
    # 6 / 1024, as if nothing else had been tested: the interval without 0 and the outcome agree
    assert (metrics["mrr"].p, metrics["mrr"].p_adjusted, metrics["mrr"].outcome) == (6 / 1024, None, "better")
    assert not metrics["mrr"].interval.contains(0.0)


def test_compare_averages_several_answers_to_one_question_first():
    ids = [f"q{n}-{k}" for n in range(10) for k in range(3)]
    asked = [f"question {n}" for n in range(10) for _ in range(3)]
    thrice = [[value for value in column for _ in range(3)] for column in (A, B)]
    once = compared(report(a=rows("a", A), b=rows("b", B))).pairs[0].metrics["mrr"]
    three = report(a=rows("a", thrice[0], ids=ids, query=asked), b=rows("b", thrice[1], ids=ids, query=asked))
    delta = compared(three).pairs[0].metrics["mrr"]
    assert (delta.n, delta.questions) == (30, 10)
    assert (delta.p, delta.interval, delta.wins) == (once.p, once.interval, once.wins)


# --- the same query ---


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


BEFORE = [0.1, 0.4, 0.5, 0.2, 0.9, 0.3, 0.6, 0.7, 0.2, 0.5, None, 0.4]
NOW = [0.2, 0.1, 0.7, 0.1, 0.8, 0.4, 0.3, 0.9, 0.1, 0.2, 0.5, None]


@pytest.mark.parametrize(("metric", "sign"), [("mrr", -1), ("latency_ms", 1)])
def test_a_comparison_and_a_gate_give_the_same_interval_of_one_pair_of_runs(metric, sign):
    before, now = make_report(made(BEFORE, metric), run="old"), make_report(made(NOW, metric), run="new")
    delta = compare([(before, None), (now, None)]).pairs[0].metrics[metric]
    (result,) = check(now, [Gate(metric=metric, coverage=0.5, max_drop=1.0)], before).results
    shown = (delta.interval.low, delta.interval.high)
    # a drop is what got worse: b - a where lower is better, a - b where higher is
    assert (result.interval.low, result.interval.high) == (shown if sign == 1 else (-shown[1], -shown[0]))
    assert (result.n, result.drop) == (delta.n, pytest.approx(sign * delta.delta))


# --- names of the sides ---


def run(number, *systems, dataset="france", name=None, hour=14):
    """A report with a run's usual id."""
    found = {system: made([1.0], system=system) for system in systems or ("default",)}
    created = f"2026-01-31T{hour}:05:0{number}.000+00:00"
    run = f"20260131-{hour}050{number}-france-000{number}"
    return make_report(found, run=run, created=created, dataset=dataset, name=name)


@pytest.mark.parametrize(
    ("sides", "names"),
    [
        ([Side(run(1, "old", "new"))], ["old", "new"]),
        # what stands in the data has no name of its own: that of the run, of the dataset
        ([Side(run(1, name="release")), Side(run(2, dataset="v2"))], ["release", "v2"]),
        # two runs of one system
        ([Side(run(1, "ours", name="r1")), Side(run(2, "ours", name="r2"))], ["ours of r1", "ours of r2"]),
        (
            [Side(run(1, "ours")), Side(run(2, "ours", hour=15))],
            ["ours of 2026-01-31 14:05", "ours of 2026-01-31 15:05"],
        ),
        ([Side(run(1)), Side(run(2, hour=15))], ["france of 2026-01-31 14:05", "france of 2026-01-31 15:05"]),
        # within a minute
        ([Side(run(1)), Side(run(2))], ["20260131-140501-france-0001", "20260131-140502-france-0002"]),
        # a system that is called as another's file
        ([Side(run(1), name="v1"), Side(run(2, "v1"))], ["v1", "v1 of france"]),
    ],
)
def test_each_side_has_a_name_that_its_reader_knows_and_no_other_has(sides, names):
    assert [one.label for one in labelled(sides)] == names
