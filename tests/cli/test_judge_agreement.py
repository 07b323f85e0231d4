"""``ragassay judge agreement`` as a user types it, on rows of our own."""

import json

import pytest

from offline_runs import write_jsonl
from provider import Answer, Provider

CONTEXT = "Books may be kept for 21 days. Films may be kept for 7 days. The reading room opens at nine."
SAID = {  # what is said, and whether the context says so
    "Books may be kept for 21 days.": 1,
    "Films may be kept for 7 days.": 1,
    "The reading room opens at nine.": 1,
    "Every reader is given a blue umbrella and a bicycle.": 0,
    "The architect of the building won a medal in Paris.": 0,
    "Music lessons are offered to grandparents in winter.": 0,
}
LABELLED = [
    {"id": f"r{n}", "group": f"g{n}", "query": None, "contexts": [CONTEXT], "answer": text, "label": label}
    for n, (text, label) in enumerate(SAID.items())
] + [
    {
        "id": f"s{n}",
        "group": f"h{n}",
        "query": "What may be kept?",
        "contexts": [CONTEXT],
        "answer": text,
        "label": label,
    }
    for n, (text, label) in enumerate(SAID.items())
]


@pytest.fixture
def labelled(cli, tmp_path):
    """Writes rows to a file and gives what the command prints of them as JSON."""

    def run(rows, *options, code=0):
        write_jsonl(tmp_path / "labelled.jsonl", rows)
        found, out, err = cli("judge", "agreement", "labelled.jsonl", "--json", *options)
        assert found == code, err
        return json.loads(out) if out else err

    return run


def test_the_local_judge_tells_what_the_context_says_from_what_it_does_not(labelled):
    found = labelled(LABELLED)
    assert (found["metric"], found["rows"], found["n"], found["groups"]) == ("faithfulness", 12, 12, 12)
    assert [found[name] for name in ("accuracy", "balanced_accuracy", "kappa", "auc")] == [1.0] * 4
    assert set(found["intervals"]) == {"accuracy", "balanced_accuracy", "kappa", "auc", "ece"}
    assert (found["missing"], found["reasons"]) == (0, {})
    assert found["judge"]["name"].startswith("local")


def test_the_metric_follows_from_what_the_rows_have(labelled):
    truth = [
        {
            "id": f"t{n}",
            "query": "How long may a book be kept?",
            "ground_truth_answer": ["21 days"],
            "answer": a,
            "label": y,
        }
        for n, (a, y) in enumerate([("21 days.", 1), ("For a year.", 0)] * 5)
    ]
    assert labelled(truth)["metric"] == "correctness"
    assert labelled(truth, "--metric", "relevance")["metric"] == "relevance"
    alone = [{k: v for k, v in row.items() if k != "ground_truth_answer"} | {"contexts": []} for row in truth]
    assert labelled(alone)["metric"] == "relevance"


def test_what_a_model_leaves_without_a_score_is_counted_and_fails_the_command(labelled):
    with Provider(then=lambda _: Answer("no verdict at all")) as provider:
        found = labelled(LABELLED[:2], "--judge", "openai/tiny", "--set", f"api_base={provider.url}", code=5)
    assert "the judge gave no score" in found


BAD = {
    "no label": ([{**LABELLED[0], "label": None}], "labelled.jsonl: row 1: has no label"),
    "a word": ([{**LABELLED[0], "label": "yes"}], "row 1: label should lie between 0 and 1, is 'yes'"),
    "too large": ([LABELLED[0], {**LABELLED[1], "label_binary": 2}], "row 2: label_binary should lie between 0 and 1"),
}


@pytest.mark.parametrize(("rows", "message"), BAD.values(), ids=BAD)
def test_a_label_that_is_none_is_an_error_with_its_row(labelled, rows, message):
    assert message in labelled(rows, code=2)


def test_a_metric_that_no_judge_has_a_part_in_is_refused(labelled):
    assert "--metric: rouge1 is not judged" in labelled(LABELLED, "--metric", "rouge1", code=2)


def test_last_and_trend_leave_out_runs_that_measure_a_judge(cli, tmp_path):
    write_jsonl(
        tmp_path / "rows.jsonl",
        [{"query": "What?", "answer": row["answer"], "contexts": [CONTEXT]} for row in LABELLED],
    )
    write_jsonl(tmp_path / "labelled.jsonl", LABELLED)
    assert cli("evaluate", "rows.jsonl", "--metrics", "faithfulness")[0] == 0
    assert cli("judge", "agreement", "labelled.jsonl")[0] == 0
    assert json.loads(cli("show", "last", "--json")[1])["provenance"]["dataset"]["name"] == "rows"
    trend = json.loads(cli("trend", "faithfulness", "--json")[1])
    assert (trend["dataset"], len(trend["systems"]["default"]["points"])) == ("rows", 1)
