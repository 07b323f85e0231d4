"""docs/migrate.md: rows in the shapes of other tools give the report that ours give, and the examples there run."""

import doctest
from pathlib import Path

import pytest

import ragassay

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "migrate.md"
TEXTS = [
    ("When do backups start?", "Backups start at 04:00 UTC.", "Backups start at 02:00 UTC.", "At 02:00 UTC."),
    ("Who may restore one?", "Only owners may restore a backup.", "Only owners may restore a backup.", "Owners."),
]
SHAPES = {
    "RAGAS": lambda q, a, c, g: {
        "user_input": q, "retrieved_contexts": [c], "reference_contexts": None, "retrieved_context_ids": ["d"],
        "reference_context_ids": ["d"], "response": a, "multi_responses": None, "reference": g, "rubrics": None,
        "persona_name": None, "query_style": None, "query_length": None,
    },
    "DeepEval": lambda q, a, c, g: {
        "input": q, "actual_output": a, "expected_output": g, "context": None, "retrieval_context": [c],
        "metadata": None, "tools_called": None, "comments": None, "expected_tools": None, "token_cost": 0.5,
        "input_token_count": 7, "output_token_count": None, "completion_time": 1.5, "name": None, "tags": None,
    },
    "MLflow": lambda q, a, c, g: {
        "inputs": {"question": q}, "outputs": a, "expectations": {"expected_response": g}, "contexts": [c],
    },
}  # fmt: skip
BESIDE = {
    "RAGAS": {"retrieved_doc_ids": ["d"], "relevant_doc_ids": ["d"]},
    "DeepEval": {"cost_usd": 0.5, "input_tokens": 7, "latency_ms": 1500},
    "MLflow": {},
}


@pytest.mark.filterwarnings("ignore:data. completion_time is read as seconds")
@pytest.mark.parametrize("tool", SHAPES)
def test_rows_of_another_tool_give_the_report_of_ours(tool):
    ours = [
        {"query": q, "answer": a, "contexts": [c], "ground_truth_answer": g, **BESIDE[tool]} for q, a, c, g in TEXTS
    ]
    metrics = [
        "faithfulness",
        "relevance",
        "correctness",
        "context_recall",
        "token_f1",
        *BESIDE[tool].keys() & {"cost_usd"},
    ]
    expected, found = (
        ragassay.evaluate(rows, metrics=metrics) for rows in (ours, [SHAPES[tool](*texts) for texts in TEXTS])
    )
    assert found.rows == expected.rows
    assert found["faithfulness"] == [0.0, 1.0]


def test_migrate_page_python_gives_what_it_shows():
    test = doctest.DocTestParser().get_doctest(PAGE.read_text("utf-8"), {}, PAGE.name, str(PAGE), 0)
    assert doctest.DocTestRunner().run(test).failed == 0
