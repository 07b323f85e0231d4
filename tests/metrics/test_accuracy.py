"""The rule that calls an answer accurate: how it is read, what it decides, and when it can't."""

from __future__ import annotations

import pytest

from ragassay.core.errors import BadSettings
from ragassay.core.eval_config import DEFAULTS
from ragassay.core.models import Score
from ragassay.metrics.accuracy import AccuracyRule

FAILED = Score.absent("the judge failed", "failed")
NO_INPUT = Score.absent("no embedding model", "no_input")
UNDEFINED = Score.absent("the answer is empty")


def decide(rule=DEFAULTS.accurate, **scores):
    given = {name: value if isinstance(value, Score) else Score(value=value) for name, value in scores.items()}
    return AccuracyRule.parse(rule).decide(given)


def test_where_correctness_is_missing_semantic_similarity_decides():
    for absent in (NO_INPUT, UNDEFINED):
        assert decide(correctness=absent, semantic_similarity=0.8).value == 1.0
        assert decide(correctness=absent, semantic_similarity=0.79).value == 0.0


@pytest.mark.parametrize(
    ("correctness", "similarity", "cause", "reason"),
    [
        (FAILED, NO_INPUT, "failed", "correctness: the judge failed; semantic_similarity: no embedding model"),
        (NO_INPUT, NO_INPUT, "no_input", "correctness: no embedding model; semantic_similarity: no embedding model"),
        (UNDEFINED, NO_INPUT, "no_input", "correctness: the answer is empty; semantic_similarity: no embedding model"),
        (
            UNDEFINED,
            UNDEFINED,
            "undefined",
            "correctness: the answer is empty; semantic_similarity: the answer is empty",
        ),
    ],
)
def test_where_nothing_can_decide_every_reason_is_given(correctness, similarity, cause, reason):
    decision = decide(correctness=correctness, semantic_similarity=similarity)
    assert (decision.value, decision.missing, decision.reason) == (None, cause, reason)


def test_all_conditions_joined_by_and_must_hold():
    rule = "faithfulness >= 0.8 and correctness > 0.5"
    assert decide(rule, faithfulness=0.8, correctness=0.6).value == 1.0
    decision = decide(rule, faithfulness=0.7, correctness=0.5)
    assert (decision.value, decision.reason) == (0.0, "faithfulness is 0.7, not >= 0.8; correctness is 0.5, not > 0.5")


def test_one_failing_condition_decides_though_another_is_missing():
    rule = "faithfulness >= 0.8 and correctness > 0.5 else relevance >= 0.5"
    assert decide(rule, faithfulness=0.1, correctness=FAILED, relevance=1.0).value == 0.0
    assert decide(rule, faithfulness=0.9, correctness=NO_INPUT, relevance=1.0).value == 1.0


def test_a_rule_prints_as_it_parses_and_names_its_metrics_once():
    text = "faithfulness >= 0.8 and correctness > 0.5 else ndcg@10 >= 0.7 and correctness > 0.5"
    rule = AccuracyRule.parse(text)
    assert str(rule) == text
    assert rule.metrics == ("faithfulness", "correctness", "ndcg@10")
    assert AccuracyRule.parse(str(rule)) == rule


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("", "can't read ''"),
        ("correctness = 0.5", "can't read 'correctness = 0.5'"),
        ("correctness >= 0.5 else", "can't read 'correctness >= 0.5 else'"),
        ("correctness >= half", "'half' is not a number"),
        ("correctness >= nan", "'nan' is not a number"),
        ("accurate >= 1", "accurate can't depend on itself"),
    ],
)
def test_a_rule_that_cant_be_read_is_one_clear_error(rule, message):
    with pytest.raises(BadSettings) as caught:
        AccuracyRule.parse(rule)
    assert str(caught.value).startswith(f"accuracy rule {rule!r}: {message}")
    assert str(caught.value).endswith(f"write, for example, {DEFAULTS.accurate}")


def test_where_a_judge_failed_nothing_is_decided_by_another_rule():
    undecided = decide(correctness=FAILED, semantic_similarity=0.9)
    assert (undecided.value, undecided.missing) == (None, "failed")
