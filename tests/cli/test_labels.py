"""Labels by people: on a part of the rows they correct a mean, and ``judge agreement`` measures a judge against them."""

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
    {"id": f"{n}{query}", "query": query, "contexts": [CONTEXT], "answer": text, "label": label}
    for query in (None, "What may be kept?")
    for n, (text, label) in enumerate(SAID.items())
]


@pytest.fixture
def agreement(cli, tmp_path):
    """Writes rows to a file and gives what the command prints of them as JSON."""

    def run(rows, *options, code=0):
        write_jsonl(tmp_path / "labelled.jsonl", rows)
        found, out, err = cli("judge", "agreement", "labelled.jsonl", "--json", *options)
        assert found == code, err
        return json.loads(out) if out else err

    return run


def test_the_local_judge_tells_what_the_context_says_from_what_it_does_not(agreement):
    found = agreement(LABELLED)
    assert (found["metric"], found["rows"], found["accuracy"]["n"], found["groups"]) == ("faithfulness", 12, 12, 12)
    assert [found[name]["value"] for name in ("accuracy", "balanced_accuracy", "kappa", "auc")] == [1.0] * 4
    assert agreement([{**row, "group": n // 4} for n, row in enumerate(LABELLED)])["groups"] == 3
    booleans = [{**row, "label": bool(row["label"])} for row in LABELLED]
    assert agreement(booleans)["kappa"]["value"] == 1.0


def test_the_metric_follows_from_what_the_rows_have_and_from_a_column(agreement):
    truth = [{**row, "contexts": [], "ground_truth_answer": ["21 days"]} for row in LABELLED]
    alone = [{**row, "contexts": []} for row in LABELLED[6:]]
    named = [{**row, "faithfulness": row["label"], "label": None} for row in LABELLED]
    for rows, metric in ((truth, "correctness"), (alone, "relevance"), (named, "faithfulness")):
        assert agreement(rows)["metric"] == metric
    assert agreement(truth, "--metric", "relevance")["metric"] == "relevance"


def test_what_a_model_leaves_without_a_score_is_counted_and_fails_the_command(agreement):
    with Provider(then=lambda _: Answer("no verdict at all")) as provider:
        found = agreement(LABELLED[:2], "--judge", "openai/tiny", "--set", f"api_base={provider.url}", code=5)
    assert "the judge gave no score" in found


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{**LABELLED[0], "label": None}], (), "labelled.jsonl:1: has no label"),
        (
            [LABELLED[0], {**LABELLED[1], "label_binary": 2}],
            (),
            "labelled.jsonl:2: label_binary should lie between 0 and 1",
        ),
        (
            LABELLED,
            ("--metric", "rouge1"),
            "error: rouge1 is not judged; name one that is, such as --metric faithfulness",
        ),
    ],
)
def test_agreement_names_the_row_whose_label_is_none(agreement, rows, options, message):
    assert message in agreement(rows, *options, code=2)


def test_last_and_trend_leave_out_runs_that_measure_a_judge(agreement, cli, tmp_path):
    write_jsonl(tmp_path / "rows.jsonl", [{"query": "What?", "answer": text, "contexts": [CONTEXT]} for text in SAID])
    assert cli("evaluate", "rows.jsonl", "--metrics", "faithfulness")[0] == 0
    agreement(LABELLED)
    assert json.loads(cli("show", "last", "--json")[1])["provenance"]["dataset"]["name"] == "rows"
    trend = json.loads(cli("trend", "faithfulness", "--json")[1])
    assert (trend["dataset"], len(trend["systems"]["default"]["points"])) == ("rows", 1)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("query_id,faithfulness\nq999,1\n", "labels.csv:2: default has no response to 'q999'"),
        ("query_id,faithfulness\nq1,5\n", "labels.csv:2: faithfulness should lie between 0 and 1, is "),
        ("query_id,faithfulness\nq1,1\n,1\n", "labels.csv:3: query_id: is missing"),
        ("query_id,mrr\nq1,1\n", "no column is a judged metric: mrr"),
    ],
)
def test_labels_that_are_about_nothing_are_errors_with_their_row(cli, tmp_path, labels, message):
    write_jsonl(tmp_path / "rows.jsonl", [{"query_id": "q1", "query": "?", "answer": "Yes.", "contexts": ["Yes."]}])
    (tmp_path / "labels.csv").write_text(labels)
    assert message in cli.refused("evaluate", "rows.jsonl", "--metrics", "faithfulness", "--set", "labels=labels.csv")
