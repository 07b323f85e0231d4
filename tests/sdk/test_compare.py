"""``ragassay.analysis``: two evaluations side by side in one call."""

import json

import pytest

import ragassay
from offline_runs import write_jsonl
from ragassay import compare, evaluate
from ragassay.core.errors import BadInput, BadSettings, NotFound

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
    v1, v2 = write_jsonl(tmp_path / "v1.jsonl", rows), write_jsonl(tmp_path / "v2.json", better[::-1])
    v2.write_text(json.dumps(better[::-1]))
    of_files = compare(v1, str(v2), **HOW)
    assert list(of_files.sides) == ["v1", "v2"]
    assert _intervals(of_files) == _intervals(whole)
    today = evaluate(better, name="today", **HOW)
    evaluate(rows, name="yesterday", **HOW)
    of_run = compare("last", today)
    assert list(of_run.sides) == ["yesterday", "today"]
    assert _intervals(of_run) == _intervals(whole)


def test_it_prints_its_verdict_and_tables_and_shows_them_in_a_notebook(rows, better, tmp_path):
    result = compare(rows, better, metrics="correctness", examples=1)
    assert isinstance(result, ragassay.Comparison)
    assert str(result).startswith(result.verdict[0])
    assert "b against a" in str(result)
    assert repr(result).startswith("<Comparison: ")
    assert "\n" not in repr(result)
    worse = compare(better, rows, metrics="correctness")
    assert "Where is the &lt;b&gt;log&lt;/b&gt;?" in worse._repr_html_()
    assert "<b>log" not in worse._repr_html_()
    result.save("comparison.md")
    assert (tmp_path / "comparison.md").read_text().startswith("<!-- ragassay comparison -->\n# Comparison")


def test_each_of_two_files_is_evaluated_with_its_own_responses_whatever_systems_a_configuration_has(
    rows, better, tmp_path
):
    v1, v2 = write_jsonl(tmp_path / "v1.jsonl", rows), write_jsonl(tmp_path / "v2.jsonl", better)
    (tmp_path / "own.yaml").write_text("data: v1.jsonl\nsystems: {other: v2.jsonl}\nmetrics: [correctness]\n")
    result = compare(v1, v2, config="own.yaml")
    assert list(result.sides) == ["v1", "v2"]
    assert result.pairs[0].metrics["correctness"].wins == 2
    report = evaluate(rows, metrics="correctness", name="before")
    assert list(compare(report, v2, systems={"new": v1}).sides) == ["before", "new"]
    with pytest.raises(BadSettings, match=r"systems: each of the two brings its own responses; .*compare\(data, sys"):
        compare(v1, v2, systems={"new": v2})


@pytest.mark.parametrize("wrong", [{"alpha": 1.5}, {"correction": "luck"}, {"examples": -1}])
def test_what_a_comparison_refuses_is_refused_before_anything_is_evaluated(wrong, rows, better, tmp_path, monkeypatch):
    monkeypatch.setenv("RAGASSAY_HOME", str(tmp_path / "home"))
    with pytest.raises(BadSettings, match=next(iter(wrong))):
        compare(rows, better, metrics="correctness", **wrong)
    assert not (tmp_path / "home").exists()
    assert compare(rows, better, metrics="correctness", correction="bh").correction == "benjamini_hochberg"


def test_what_can_not_be_compared_is_one_error(rows):
    report = evaluate(rows, **HOW)
    with pytest.raises(BadSettings, match="seed: all that is compared is evaluated already; leave it out"):
        compare(report, report, seed=1)
    with pytest.raises(BadInput, match="a comparison needs two systems"):
        compare(report)
    with pytest.raises(NotFound, match="there is no run 'nightly'"):
        compare(report, "nightly")
