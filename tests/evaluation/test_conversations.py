"""Turns of one conversation are no independent observations; what a report, its pages and exports show of them."""

import numpy as np
import pytest

import ragassay
from browsing import browsing
from handmade_reports import make_report, row
from ragassay.evaluation.groups import numbered, question_key

BEFORE = [{"role": "user", "content": "What does Free cost?"}, {"role": "assistant", "content": "Free costs nothing."}]


def turns(scores, conversation, **more):
    """Rows of one conversation, each with a score."""
    return [
        row(0, query=f"{conversation}-{n}", mrr=score, **more).model_copy(
            update={"query_id": f"{conversation}-{n}", "conversation_id": conversation}
        )
        for n, score in enumerate(scores)
    ]


def alone(rows):
    return [one.model_copy(update={"conversation_id": None}) for one in rows]


CHATS = [(0.1, 0.2, 0.1), (0.9, 0.8, 0.9), (0.4, 0.5, 0.4), (0.7, 0.6, 0.7), (0.2, 0.3, 0.2)]
ROWS = [one for n, scores in enumerate(CHATS) for one in turns(scores, f"c{n}")]


def test_an_interval_is_that_of_the_means_of_conversations():
    means = [row(n, mrr=float(np.mean(scores))) for n, scores in enumerate(CHATS)]
    of_turns, of_means = (make_report(rows).systems["default"].metrics["mrr"] for rows in (ROWS, means))
    assert of_turns.value == pytest.approx(of_means.value)
    assert (of_turns.interval.low, of_turns.interval.high) == pytest.approx(
        (of_means.interval.low, of_means.interval.high)
    )
    narrow = make_report(alone(ROWS)).systems["default"].metrics["mrr"].interval
    assert narrow.high - narrow.low < of_turns.interval.high - of_turns.interval.low


def test_questions_are_numbered_by_conversation_else_by_words_and_earlier_turns():
    assert numbered([question_key("Summarise.", ())] * 3) is None  # an instruction
    assert numbered([question_key(text, (), (), "c") for text in "ab"]).tolist() == [0, 0]
    assert numbered([question_key("And Plus?", (), (turn,)) for turn in "aba"]).tolist() == [0, 1, 0]


@pytest.fixture
def report(tmp_path, monkeypatch):
    monkeypatch.setenv("RAGASSAY_HOME", str(tmp_path))
    asked = {"query": "And Plus?", "contexts": ["Plus costs USD 6 a month."], "ground_truth_answer": "USD 6."}
    answer = "Plus costs USD 6 a month. Free costs nothing."
    given = [{**asked, "answer": answer, "history": BEFORE, "session_id": f"s{n // 2}"} for n in range(8)]
    return ragassay.evaluate(given, metrics=["faithfulness", "context_faithfulness"])


def test_a_report_has_slices_by_conversation_and_exports_have_its_turns(report):
    slices = report.systems["default"].slices["conversation_id"]
    assert {name: one.n for name, one in slices.items()} == {"s0": 2, "s1": 2, "s2": 2, "s3": 2}
    assert (report.metrics["faithfulness"].value, report.metrics["context_faithfulness"].value) == (1.0, 0.5)
    first = next(iter(report.rows))
    assert (first["conversation_id"], first["history"]) == (
        "s0",
        "user: What does Free cost?\nassistant: Free costs nothing.",
    )


def test_the_pages_of_a_row_and_of_its_labels_show_earlier_turns(report):
    with browsing() as http:
        row = http.get(f"/ui/runs/{report.run.id}/row?id=q_0").text
        label = http.get(f"/ui/runs/{report.run.id}/label?metric=faithfulness").text
    for page in (row, label):
        assert '<p class="text" id="H2"><sup>H2</sup> assistant: Free costs nothing. </p>' in page
