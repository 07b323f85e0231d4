"""``ragassay judge calibrate`` and ``evaluate --calibration`` as a user types them."""

import json

import pytest

from offline_runs import write_jsonl
from ragassay.judges.calibration import chance
from ragassay.specification import Calibration

CONTEXT = "Books may be kept for 21 days. Films may be kept for {n} days. The reading room opens at nine."
SAID = ["Books may be kept for 21 days.", "Every reader is given a blue umbrella.", "Films may be kept for long."]


def labelled(count=60):
    """Every ninth label is another than the words of the answer would make one think."""
    return [
        {
            "id": f"r{n}",
            "query": None,
            "contexts": [CONTEXT.format(n=n)],
            "answer": f"{SAID[n % 3]} ({n})",
            "label": int(n % 3 == 0) ^ (n % 9 == 0),
        }
        for n in range(count)
    ]


@pytest.fixture
def fitted(cli, tmp_path):
    """A calibration of the local judge, as written and as printed."""
    write_jsonl(tmp_path / "labelled.jsonl", labelled())
    code, out, err = cli("judge", "calibrate", "labelled.jsonl", "-o", "map.json", "--json")
    assert code == 0, err
    assert json.loads(out) == json.loads((tmp_path / "map.json").read_text())
    return json.loads(out)


def test_it_is_written_with_what_it_is_worth_and_then_applied(cli, tmp_path, fitted):
    assert (fitted["n"], fitted["missing"], fitted["calibration"]["metric"]) == (60, 0, "faithfulness")
    assert set(fitted["measures"]) == {"brier", "log_loss", "ece", "auc", "balanced_accuracy"}
    code, out, err = cli("evaluate", "labelled.jsonl", "--metrics", "faithfulness", "--map", "query=id", "--json")
    assert code == 0, err
    raw = json.loads(out)["systems"]["default"]["results"]
    code, out, err = cli(
        *("evaluate", "labelled.jsonl", "--metrics", "faithfulness,accurate", "--map", "query=id", "--json"),
        *("--accurate", "faithfulness >= 0.5", "--calibration", "map.json"),
    )
    assert code == 0, err
    report = json.loads(out)
    used = Calibration.model_validate(report["provenance"]["configuration"]["calibration"][0])
    assert used == Calibration.model_validate(fitted["calibration"])
    for before, after in zip(raw, report["systems"]["default"]["results"], strict=True):
        score = after["scores"]["faithfulness"]
        certain = after["verdict"]["probability"]["faithfulness"]
        assert score["value"] == pytest.approx(chance(used, certain))
        assert score["details"]["uncalibrated"] == before["scores"]["faithfulness"]["value"]
        assert after["scores"]["accurate"]["value"] == float(score["value"] >= 0.5)
    code, out, _ = cli("compare", "last", "labelled.jsonl", "--metrics", "faithfulness", "--map", "query=id", "--json")
    warnings = json.loads(out)["warnings"]
    assert any("not the same calibration of faithfulness" in one for one in warnings)


def test_what_is_printed_has_before_after_and_change(cli, tmp_path):
    write_jsonl(tmp_path / "labelled.jsonl", labelled())
    code, out, _ = cli("judge", "calibrate", "labelled.jsonl", "-o", "map.json")
    assert code == 0
    assert out.startswith("judge local, faithfulness on labelled: ")
    assert "fitted on 60 items, 60 groups" in out
    assert all(name in out for name in ("Brier", "log loss", "ECE", "AUC", "change"))
    assert out.rstrip().endswith("evaluate DATA --calibration map.json")


def test_another_judge_or_another_prompt_is_refused(cli, tmp_path, fitted):
    row = {**labelled(1)[0], "query": "May I?"}
    write_jsonl(tmp_path / "rows.jsonl", [{key: value for key, value in row.items() if key != "label"}])
    given = ("evaluate", "rows.jsonl", "--metrics", "faithfulness", "--calibration", "map.json")
    code, _, err = cli(*given, "--judge", "openai/tiny", "--api-base", "http://127.0.0.1:9/v1")
    assert code == 2
    assert "the calibration of faithfulness does not fit" in err
    assert "llm:openai/tiny" in err
    changed = {**fitted, "calibration": {**fitted["calibration"], "judge": "0" * 16}}
    (tmp_path / "map.json").write_text(json.dumps(changed))
    assert cli(*given)[0] == 2


def test_a_calibration_of_a_metric_that_is_not_scored_is_refused(cli, tmp_path, fitted):
    row = {"query": "May I?", "answer": "Yes.", "ground_truth_answer": "Yes."}
    write_jsonl(tmp_path / "rows.jsonl", [row])
    code, _, err = cli("evaluate", "rows.jsonl", "--metrics", "relevance", "--calibration", "map.json")
    assert (code, "the calibration of faithfulness is of no use" in err) == (2, True)


def test_too_few_labels_are_an_error_and_nothing_is_written(cli, tmp_path):
    write_jsonl(tmp_path / "labelled.jsonl", labelled(30))
    code, _, err = cli("judge", "calibrate", "labelled.jsonl", "-o", "map.json")
    assert code == 2
    assert "50 labelled items are needed" in err
    assert "label at least 20 more" in err
    assert not (tmp_path / "map.json").exists()


BAD = {"no file": (None, "there is no such file"), "no map": ("{}", "map.json: "), "no JSON": ("#", "map.json: ")}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_a_file_that_is_no_calibration_is_named(cli, tmp_path, text, message):
    write_jsonl(tmp_path / "rows.jsonl", [{"query": "May I?", "answer": "Yes.", "contexts": ["Yes."]}])
    if text is not None:
        (tmp_path / "map.json").write_text(text)
    code, _, err = cli("evaluate", "rows.jsonl", "--calibration", "map.json")
    assert (code, message in err) == (2, True)


def test_two_maps_of_one_metric_are_refused(cli, tmp_path, fitted):
    (tmp_path / "second.json").write_text((tmp_path / "map.json").read_text())
    code, _, err = cli("evaluate", "labelled.jsonl", "--calibration", "map.json", "--calibration", "second.json")
    assert (code, "are both about faithfulness" in err) == (2, True)
