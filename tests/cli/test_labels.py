"""Labels by people on a part of the rows, as a user types them: ``evaluate --labels``, ``compare``, ``gate``."""

import csv
import json
import random

import pytest

from offline_runs import write_jsonl

CONTEXT = "Books may be kept for {n} days. The reading room opens at nine."
SAID = {True: "Books may be kept for {n} days.", False: "Every reader is given a blue umbrella."}


def rows(kind, count=120, wrong=0.3):
    """Answers, of which ``wrong`` invent; the judge sees it, and people call a fifth of the others wrong as well."""
    draw = random.Random(kind)
    made = []
    for n in range(count):
        right = draw.random() >= wrong
        made.append(
            {
                "query_id": f"q{n}",
                "query": f"How long may book {n} be kept?",
                "category": "ab"[n % 2],
                "contexts": [CONTEXT.format(n=n)],
                "answer": SAID[right].format(n=n),
                "people": float(right and draw.random() >= 0.2),
            }
        )
    return made


def write_labels(path, made, *, metric="faithfulness", system=None):
    with path.open("w") as file:
        writer = csv.writer(file)
        writer.writerow(["query_id", *(["system"] if system else []), metric, "note"])
        for row in made:
            writer.writerow([row["query_id"], *([system] if system else []), row["people"], "read twice"])
    return path


def write_rows(path, made):
    return write_jsonl(path, [{key: value for key, value in row.items() if key != "people"} for row in made])


@pytest.fixture
def report(cli, tmp_path):
    """Evaluates 120 answers with labels on the first 40 of a random order."""
    made = rows("a")
    write_rows(tmp_path / "rows.jsonl", made)
    write_labels(tmp_path / "labels.csv", random.Random(0).sample(made, 40))
    code, out, err = cli("evaluate", "rows.jsonl", "--metrics", "faithfulness", "--set", "labels=labels.csv", "--json")
    assert code == 0, err
    return made, json.loads(out)


def test_the_mean_is_corrected_towards_what_people_say(report, cli):
    made, document = report
    mean = document["systems"]["default"]["metrics"]["faithfulness"]
    found, people = mean["corrected"], sum(row["people"] for row in made) / len(made)
    assert (found["labels"], found["rows"]) == (40, 120)
    assert found["judged"] == pytest.approx(mean["value"])
    assert abs(found["mean"] - people) < abs(mean["value"] - people)
    assert found["interval"]["low"] <= people <= found["interval"]["high"]
    assert 0 < found["weight"] <= 1
    assert found["interval"]["high"] - found["interval"]["low"] < found["alone"]["high"] - found["alone"]["low"]
    labelled = [row for row in document["results"]["default"] if row["ratings"]]
    assert len(labelled) == 40
    code, shown, _ = cli("show", "last")
    assert code == 0
    assert "faithfulness, corrected" in shown
    assert "40 labels" in shown


BAD = {
    "an unknown query": ([["q999", 1]], "faithfulness", "row 1: default has no response to 'q999'"),
    "a label twice": ([["q1", 1], ["q1", 0]], "faithfulness", "row 2: 'q1' is labelled twice"),
    "a label beyond 1": ([["q1", 5]], "faithfulness", "row 1: faithfulness should lie between 0 and 1, is "),
    "no query": ([["", 1]], "faithfulness", "row 1: has no query_id"),
    "no metric": ([["q1", 1]], "quality", "no column is a judged metric: quality"),
    "a metric that nobody judges": ([["q1", 1]], "mrr", "no column is a judged metric: mrr"),
}


@pytest.mark.parametrize(("lines", "metric", "message"), BAD.values(), ids=BAD)
def test_labels_that_are_about_nothing_are_errors_with_their_row(cli, tmp_path, lines, metric, message):
    write_rows(tmp_path / "rows.jsonl", rows("a", 3))
    with (tmp_path / "labels.csv").open("w") as file:
        csv.writer(file).writerows([["query_id", metric], *lines])
    code, _, err = cli("evaluate", "rows.jsonl", "--metrics", "faithfulness", "--set", "labels=labels.csv")
    assert (code, message in err) == (2, True), err


def test_evaluate_takes_a_label_column_if_one_judged_metric_is_computed(cli, tmp_path):
    made = rows("a", 20)
    write_rows(tmp_path / "rows.jsonl", made)
    write_labels(tmp_path / "labels.csv", made, metric="label")
    given = ("evaluate", "rows.jsonl", "--set", "labels=labels.csv", "--json")
    code, out, err = cli(*given, "--metrics", "faithfulness")
    assert code == 0, err
    assert json.loads(out)["systems"]["default"]["metrics"]["faithfulness"]["corrected"]["labels"] == 20
    code, _, err = cli(*given, "--metrics", "faithfulness,relevance")
    assert (code, "rename it to that metric" in err) == (2, True), err


def test_agreement_takes_the_labels_that_evaluate_takes(cli, tmp_path):
    made = rows("a", 40)
    write_jsonl(tmp_path / "labelled.jsonl", [{**row, "faithfulness": row.pop("people")} for row in made])
    code, out, err = cli("judge", "agreement", "labelled.jsonl", "--json")
    assert code == 0, err
    assert (json.loads(out)["metric"], json.loads(out)["n"]) == ("faithfulness", 40)
