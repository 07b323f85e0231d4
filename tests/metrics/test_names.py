"""Names of other tools for metrics."""

import re
from pathlib import Path

import pytest

from ragassay.metrics.metric import METRICS, parse
from ragassay.metrics.names import SPELLINGS

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("answer_relevancy", "relevance"),
        ("AnswerRelevancyMetric", "relevance"),
        ("ResponseRelevancy", "relevance"),
        ("answer_correctness", "correctness"),
        ("contextual_recall", "context_recall"),
        ("ContextualPrecisionMetric", "context_precision"),
        ("LLMContextRecall", "context_recall"),
        ("llm_context_recall", "context_recall"),
        ("context-recall", "context_recall"),
        ("FaithfulnessMetric", "faithfulness"),
        ("rouge_score", "rougeL"),
        ("answer_similarity", "semantic_similarity"),
    ],
)
def test_names_of_ragas_and_deepeval_mean_ours(theirs, ours):
    assert parse(theirs).name == ours


def test_every_other_name_is_one_of_a_metric_that_there_is():
    assert all(ours.lower() in METRICS for ours in SPELLINGS.values())


def test_the_page_shows_them_all():
    shown = set(re.findall(r"`([\w@]+)`", PAGE.partition("### Names of RAGAS and DeepEval")[2].partition("## Time")[0]))
    theirs = list(SPELLINGS)[list(SPELLINGS).index("bertscore") :]
    assert {*theirs} <= shown
