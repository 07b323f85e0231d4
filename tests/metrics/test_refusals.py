"""Refusals: right where the query can't be answered, wrong elsewhere; and an invention is never a win."""

import pytest

from gate_checks import check_gate
from offline_runs import ScriptedJudge, evaluated, new_run, results_of, sample
from ragassay.analysis.comparison import compare
from ragassay.core.eval_config import DEFAULTS
from ragassay.core.models import Rating, Verdict
from ragassay.core.text import is_answerable
from ragassay.judges.local import LocalJudge
from ragassay.judges.verdict import number_units
from ragassay.metrics.failures import attribute
from ragassay.stats.intervals import wilson_interval

NAMES = ("faithfulness", "completeness", "relevance", "correctness", "context_precision", "context_recall", "accurate")
REFUSES, INVENTS = "I don't know.", "Paris is the capital of France. It opened in 1806."
RIGHT = "a right refusal: the query can't be answered"
UNANSWERABLE = {"answerable": False, "ground_truth_answer": ()}
REFUSED_TRUTH = {"ground_truth_answer": "The documents do not say when it opened."}


def scored(given, *, judge=None, names=NAMES, rule=DEFAULTS.accurate):
    """The result of one sample."""
    (result,) = results_of([given], *names, judge=judge or LocalJudge(), accurate=rule)
    return result


@pytest.mark.parametrize(
    ("fields", "answerable"),
    [
        (UNANSWERABLE, False),
        (REFUSED_TRUTH, False),
        ({"ground_truth_answer": ("Not answerable.", "No answer present.")}, False),
        ({"ground_truth_answer": ("Not answerable.", "Paris.")}, None),
        ({"ground_truth_answer": "None."}, None),  # it may be the answer
        ({"ground_truth_answer": " "}, None),
        ({**REFUSED_TRUTH, "answerable": True}, True),  # what is labelled wins
        ({**REFUSED_TRUTH, "key_facts": ("It opened in 1806.",)}, None),
        ({"key_facts": ("The documents do not say when it opened.",)}, False),
    ],
)
def test_a_query_is_unanswerable_by_its_label_or_because_its_ground_truth_refuses(fields, answerable):
    given = sample(**fields)
    assert is_answerable(given) is answerable
    assert scored(given).answerable is answerable
    assert number_units(given).answerable is (answerable is not False)


@pytest.mark.parametrize("fields", [UNANSWERABLE, REFUSED_TRUTH, {**UNANSWERABLE, **REFUSED_TRUTH}])
def test_a_right_refusal_is_accurate_and_has_no_other_judged_score(fields):
    result = scored(sample(answer=REFUSES, **fields))
    assert (result.scores["accurate"].value, result.scores["accurate"].reason) == (1.0, RIGHT)
    others = {name: result.scores[name] for name in NAMES if name != "accurate"}
    assert {(s.value, s.reason, s.missing) for s in others.values()} == {(None, RIGHT, "undefined")}
    assert attribute(result) is None


@pytest.mark.parametrize("fields", [UNANSWERABLE, REFUSED_TRUTH])
def test_an_answer_to_what_can_not_be_answered_is_not_accurate_and_has_no_score_that_needs_a_truth(fields):
    result = scored(sample(answer=INVENTS, **fields))
    assert (result.scores["accurate"].value, result.scores["accurate"].reason) == (0.0, "answered the unanswerable")
    assert result.scores["faithfulness"].value == 0.5  # one of two sentences is in the contexts
    assert result.scores["relevance"].value is not None
    for name in ("completeness", "correctness", "context_precision", "context_recall"):
        assert (result.scores[name].value, result.scores[name].reason) == (None, "the query can't be answered")
    assert attribute(result).cause == "answered_the_unanswerable"


@pytest.mark.parametrize("rule", [DEFAULTS.accurate, "faithfulness >= 0"])
def test_a_refusal_of_what_can_be_answered_is_not_accurate_whatever_the_rule(rule):
    result = scored(sample(answer=REFUSES), rule=rule)
    accurate = result.scores["accurate"]
    assert (accurate.value, accurate.reason.partition(":")[0]) == (0.0, "wrong refusal")
    assert result.scores["relevance"].value == 0.0
    failed = attribute(result)
    assert (failed.cause, failed.why) == ("wrong_refusal", "wrong refusal: the contexts hold 100% of the facts")


def test_the_judge_is_asked_about_the_unanswerable_even_where_the_rule_needs_none():
    judge = ScriptedJudge()
    names, rule = ("rouge1", "accurate"), "rouge1 >= 0.1"
    assert scored(sample(), judge=judge, names=names, rule=rule).scores["accurate"].value == 1.0
    assert judge.asked == []
    assert scored(sample(**UNANSWERABLE), judge=judge, names=names, rule=rule).scores["accurate"].value == 0.0
    assert judge.asked == ["q1"]
    scored(sample(**UNANSWERABLE), judge=judge, names=("rouge1",), rule=rule)
    assert judge.asked == ["q1"]


def test_where_no_verdict_says_whether_the_answer_refuses_nothing_is_decided():
    given = sample(**UNANSWERABLE)
    for rating in (Rating(reason="the judge failed: 503"), Rating(verdict=Verdict(judge="t", answerable=False))):
        accurate = scored(given, judge=ScriptedJudge(q1=rating)).scores["accurate"]
        assert (accurate.value, accurate.missing) == (None, "failed")
        assert accurate.reason.startswith("whether the answer refuses is not known: ")


# 2 right and 1 wrong refusal, 1 invention, 1 answer: precision 2 / 3, recall 2 / 3
ROWS = [
    sample(1, answer=REFUSES, **UNANSWERABLE),
    sample(2, answer=REFUSES, **UNANSWERABLE),
    sample(3, answer=INVENTS, **UNANSWERABLE),
    sample(4, answer=REFUSES),
    sample(5),
]


def test_refusal_precision_and_recall_stand_in_reports_and_gates(tmp_path):
    report = evaluated(new_run(tmp_path, ROWS), LocalJudge())
    found = report.systems["default"].refusals
    assert (found.refused, found.unanswerable, found.on_unanswerable, found.on_answerable) == (3, 3, 2, 1)
    for share in (found.precision, found.recall):
        assert (share.value, share.n, share.interval) == (2 / 3, 3, wilson_interval(2, 3, level=0.95))
    passed = check_gate(report, {"refusal_recall": ">= 0.6"})
    assert (passed.passed, passed.reason) == (True, "refusal_recall is 0.667, >= 0.600 (n=3)")
    held = check_gate(report, {"metric": "refusal_recall", "max_drop": 0.1}, report)
    assert (held.passed, held.baseline, held.drop) == (True, 2 / 3, 0.0)


def test_a_right_refusal_does_not_count_against_the_coverage_of_a_gate(tmp_path):
    refused, invented = (
        evaluated(new_run(tmp_path / name, [sample(1, answer=answer, **UNANSWERABLE), sample(2)]), LocalJudge())
        for name, answer in (("refused", REFUSES), ("invented", INVENTS))
    )
    assert check_gate(refused, {"faithfulness": ">= 0.5"}).coverage == 1.0
    for before in (refused, invented):
        held = check_gate(refused, {"metric": "faithfulness", "max_drop": 0.1}, before)
        assert (held.passed, held.n, held.rows) == (True, 1, 1)


def test_an_invention_is_no_win_over_a_right_refusal(tmp_path):
    def made(name, answer):
        asked = [f"What did visitor {n} say?" for n in range(1, 17)]
        rows = [sample(n, query=text, answer=answer, **UNANSWERABLE) for n, text in enumerate(asked, 1)] + [sample(17)]
        return evaluated(new_run(tmp_path / name, rows), LocalJudge())

    compared = compare([(made("honest", REFUSES), None), (made("inventing", INVENTS), None)])
    (pair,) = compared.pairs
    metrics = pair.metrics
    assert (metrics["accurate"].delta, metrics["accurate"].outcome) == (-16 / 17, "worse")
    assert [name for name, delta in metrics.items() if delta.wins] == []
    assert {metrics[name].n for name in ("faithfulness", "completeness", "relevance", "correctness")} == {1}
    causes = compared.sides[pair.b].fix_first.causes
    assert [(one.cause, one.rows) for one in causes] == [("answered_the_unanswerable", 16)]
