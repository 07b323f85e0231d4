"""``ragassay.analysis``: two evaluations side by side in one call."""

import pytest

from offline_runs import write_jsonl
from ragassay import compare, evaluate
from ragassay.core.errors import BadSettings

HOW = {"metrics": ["faithfulness", "correctness", "accurate"]}


@pytest.fixture
def better(rows):
    return [{**row, "answer": row["ground_truth"]} for row in rows]


def _intervals(comparison):
    [pair] = comparison.pairs
    return {name: (one.delta, one.interval, one.p_adjusted) for name, one in pair.metrics.items()}


def test_rows_files_and_saved_runs_can_be_named_instead(rows, better, tmp_path, monkeypatch):
    monkeypatch.setenv("RAGASSAY_HOME", str(tmp_path / "home"))
    whole = compare(rows, better, **HOW)
    v1, v2 = write_jsonl(tmp_path / "v1.jsonl", rows), write_jsonl(tmp_path / "v2.jsonl", better[::-1])
    today = evaluate(better, name="today", **HOW)
    evaluate(rows, name="yesterday", **HOW)
    for found, names in ((compare("last", today), ["yesterday", "today"]), (compare(v1, str(v2), **HOW), ["v1", "v2"])):
        assert list(found.sides) == names
        assert _intervals(found) == _intervals(whole)


def test_it_prints_its_verdict_and_tables_and_shows_them_in_a_notebook(rows, better):
    result = compare(better, rows, metrics="correctness")
    assert str(result).startswith(result.verdict[0])
    assert repr(result) == f"<Comparison: {' '.join(result.verdict)}>"
    assert "Where is the &lt;b&gt;log&lt;/b&gt;?" in result._repr_html_()
    assert "<b>log" not in result._repr_html_()


@pytest.mark.parametrize("wrong", [{"alpha": 1.5}, {"correction": "luck"}, {"examples": -1}])
def test_what_a_comparison_refuses_is_refused_before_anything_is_evaluated(wrong, rows, better, tmp_path, monkeypatch):
    monkeypatch.setenv("RAGASSAY_HOME", str(tmp_path / "home"))
    with pytest.raises(BadSettings, match=next(iter(wrong))):
        compare(rows, better, metrics="correctness", **wrong)
    assert not (tmp_path / "home").exists()
