"""What a report tells in Python."""

import csv
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from ragassay import evaluate
from ragassay.core.errors import BadSettings, UnknownName

METRICS = ["faithfulness", "correctness", "accurate"]


@pytest.fixture
def report(rows):
    return evaluate(rows, metrics=METRICS)


def test_a_row_has_scores_reasons_tokens_cost_time_and_the_users_own_fields(report):
    first, second, _ = report.rows
    assert (first["accurate"], first["latency_ms"], first["cost_usd"], first["input_tokens"]) == (1.0, 10.0, 0.001, 5)
    assert (second["query"], second["metadata.team"]) == ("Where is the <b>log</b>?", "red")
    assert second["correctness_reason"] == "G1: the answer lacks: var"
    assert report["faithfulness"] == [row["faithfulness"] for row in report.rows]


def test_the_worst_rows_come_with_why(report):
    worst = report.worst(2)
    assert {row["query_id"] for row in worst if row["why"]} == {"q_1", "q_2"}
    assert report.worst(1, metric="correctness")[0]["correctness"] == min(report["correctness"])
    with pytest.raises(UnknownName, match="did you mean faithfulness"):
        report.worst(metric="faithfulnes")


def test_with_several_systems_each_is_named(rows):
    report = evaluate(rows, metrics=METRICS, systems=dict.fromkeys(("old", "new"), rows))
    assert [row["system"] for row in report.rows] == ["old"] * 3 + ["new"] * 3
    assert report.metrics["old"]["accurate"] == report.metrics["new"]["accurate"]
    assert report.worst(1, system="new")[0]["system"] == "new"
    with pytest.raises(BadSettings, match="several systems; name one: old, new"):
        report.worst()


def test_it_becomes_a_data_frame_and_the_rows_of_its_csv_are_the_same(report):
    frame = report.to_pandas()
    assert list(frame["query_id"]) == ["q_0", "q_1", "q_2"]
    assert frame["accurate"].mean() == pytest.approx(report.metrics["accurate"].value)
    report.save("rows.csv")
    with Path("rows.csv").open() as file:
        saved = list(csv.DictReader(file))
    assert [list(row) for row in saved] == [list(row) for row in report.rows]
    assert isinstance(frame, pd.DataFrame)


def test_a_notebook_shows_the_table_and_no_text_from_data_is_markup(rows):
    hostile = {"question": "?", "error": "<script>alert(1)</script>\x1b[2J", "answer": None}
    report = evaluate([*rows, hostile], metrics=METRICS)
    html = report._repr_html_()
    assert ">faithfulness</th>" in html
    assert f"[{report.metrics['accurate'].interval.low:.2f}, " in html
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "\x1b" not in html + str(report)


def test_nothing_of_it_needs_pandas_and_no_line_is_printed_for_a_query_without_a_relevant_result():
    row = {"query": "When?", "answer": "At two.", "relevant_doc_ids": ["a"], "retrieved_doc_ids": ["b"]}
    code = (
        "import sys; sys.modules['pandas'] = sys.modules['polars'] = sys.modules['sentence_transformers'] = None\n"
        "import ragassay.evaluation.runtime; ragassay.evaluation.runtime.embedder = lambda *_: (None, 'not needed')\n"
        f"import ragassay; r = ragassay.evaluate([{row!r}], metrics='mrr'); print(len(r.rows))\n"
        "try: r.to_pandas()\nexcept ragassay.AssayError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("1\nto_pandas needs pandas; pip install pandas\n", "")
