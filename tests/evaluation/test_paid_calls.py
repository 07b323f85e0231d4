"""What a run pays for: equal answers once, and no row for the odd reply to another."""

import json

import pytest

import provider as play
from provider import Answer, Provider

ROWS = [
    {
        "query_id": f"q{n}",
        "query": f"How long is refund {n}?",
        "answer": f"Refund {n} takes 14 days.",
        "contexts": [f"Refund {n} takes 14 days.", "Weekends count."],
        "ground_truth_answer": f"It takes 14 days, refund {n}.",
    }
    for n in range(4)
]


@pytest.fixture
def evaluate(cli, tmp_path):
    """Evaluate these rows; the exit code and the report."""

    def run(provider, rows, *options):
        file = tmp_path / "rows.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        given = ("--judge", "gpt-4o-mini", "--set", f"api_base={provider.url}", "--metrics", "faithfulness", "--json")
        code, out, err = cli("evaluate", file, *given, *options)
        assert code in (0, 3), err
        return code, json.loads(out)

    return run


def failed(report):
    """Ids of the rows without a score."""
    rows = report["results"]["default"]
    return [row["query_id"] for row in rows if row["scores"]["faithfulness"].get("value") is None]


def test_two_systems_with_the_same_answers_are_judged_once_and_get_the_same_verdicts(evaluate, tmp_path):
    systems = []
    for name in ("a", "b"):
        file = tmp_path / f"{name}.jsonl"
        rows = [{key: row[key] for key in ("query_id", "answer", "contexts")} for row in ROWS]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        systems += ["--system", f"{name}={file}"]
    queries = [{key: row[key] for key in ("query_id", "query", "ground_truth_answer")} for row in ROWS]
    with Provider(latency_s=0.05) as provider:
        _, report = evaluate(provider, queries, *systems, "--set", "performance.cache=false")
        assert len(provider.log) == len(ROWS)
    a, b = (report["systems"][name] for name in ("a", "b"))
    assert [row["scores"] for row in report["results"]["a"]] == [row["scores"] for row in report["results"]["b"]]
    calls = [system["evaluation"]["usage"] for system in (a, b)]
    assert sum(each["calls"] for each in calls) == sum(each["cache_hits"] for each in calls) == len(ROWS)


def test_half_a_surrogate_pair_in_a_verdict_costs_no_other_row_and_is_billed(evaluate):
    def odd(seen):
        verdict = json.dumps(play.verdicts(seen)).replace('"why": ""', r'"why": "half \ud800"', 1)
        return Answer(verdict) if "refund 2?" in seen.user else play.good(seen)

    with Provider(then=odd) as provider:
        code, report = evaluate(provider, ROWS)
    assert (code, failed(report)) == (0, [])
    assert report["systems"]["default"]["evaluation"]["usage"]["calls"] == 4


def test_a_reply_that_could_not_be_read_is_asked_for_again_by_the_next_run(evaluate):
    with Provider(then=play.says("garbage")) as provider:
        assert evaluate(provider, ROWS)[0] == 3
        provider.then = play.good
        before = len(provider.log)
        assert evaluate(provider, ROWS)[0] == 0
        assert len(provider.log) - before == len(ROWS)
        assert evaluate(provider, ROWS)[0] == 0
        assert len(provider.log) - before == len(ROWS)


def test_resume_asks_again_for_replies_that_could_not_be_read_and_counts_all(evaluate, cli):
    def garbled(seen):
        return play.says('{"what": 1}')(seen) if "refund 1?" in seen.user else play.good(seen)

    with Provider(then=garbled) as provider:
        assert failed(evaluate(provider, ROWS)[1]) == ["q1"]
        assert len(provider.log) == 3 + 2  # it is asked twice for one row
        assert cli("evaluate", "--resume", "last", "--json")[0] == 3
        assert len(provider.log) == 3 + 2 + 2
        provider.then = play.good
        code, out, err = cli("evaluate", "--resume", "last", "--json")
        assert len(provider.log) == 3 + 2 + 2 + 1
    report = json.loads(out)
    assert (code, failed(report)) == (0, []), err
    spent = report["systems"]["default"]["evaluation"]
    assert (spent["usage"]["calls"], spent["waste"]["calls"]) == (4, 4)
