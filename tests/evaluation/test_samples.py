"""A judge that gives several samples of its verdict and wavers with its seed: calls, votes, spread, and the report."""

import csv
import hashlib
import json
import statistics

import pytest

from offline_runs import write_jsonl
from provider import Answer, Provider, verdicts

ROWS = 24


@pytest.fixture
def data(tmp_path):
    return write_jsonl(tmp_path / "rows.jsonl", rows())


def rows(count=ROWS):
    return [
        {
            "query_id": f"q{n}",
            "query": f"How long may book {n} be kept?",
            "contexts": [f"Book {n} may be kept for {n} days."],
            "answer": f"Book {n} may be kept for {n} days.",
            "ground_truth_answer": f"For {n} days.",
        }
        for n in range(count)
    ]


def wavers(seen, seed=None):
    """Supports an answer with a chance of its own for each question, drawn by question and seed."""
    reply, n = verdicts(seen), int(seen.user.partition("may book ")[2].split()[0])
    drawn = hashlib.sha256(f"{n} {seen.body.get('seed') if seed is None else seed}".encode()).digest()[0] / 256
    good = drawn < (0.9, 0.5, 0.1)[n % 3]
    for entry in reply["answer"]:
        entry |= {"support": "supported" if good else "not_found", "evidence": ["C1.1"] if good else []}
        entry["truth"] = "agrees" if good else "conflicts"
    for entry in reply["facts"]:
        entry |= {"covered": "yes" if good else "no", "evidence": ["C1.1"]}
    return Answer(json.dumps({**reply, "relevance": "full" if good else "partly", "refusal": False}))


def evaluate(cli, provider, *options, samples=1, metrics="faithfulness", status=0):
    given = (
        "--judge",
        f"openai/tiny,samples={samples}",
        "--set",
        f"api_base={provider.url}",
        "--metrics",
        metrics,
        "--json",
    )
    code, out, err = cli("evaluate", "rows.jsonl", *given, *options)
    assert code == status, err
    return system_of(out) if status == 0 else err


def system_of(out):
    """The figures of the one system of a report, with its rows."""
    report = json.loads(out)
    return {**report["systems"]["default"], "results": report["results"]["default"]}


def by_sample(row, metric="faithfulness"):
    return [rating["scores"][metric] for rating in row["ratings"] if metric in rating["scores"]]


def test_each_sample_has_calls_and_a_seed_of_its_own_and_the_row_scores_by_their_vote(cli, data):
    with Provider(then=wavers) as provider:
        system = evaluate(cli, provider, "--seed", "7", samples=3)
        seeds = [seen.body["seed"] for seen in provider.log]
    assert sorted(seeds) == sorted([7, 8, 9] * ROWS)
    assert (system["evaluation"]["usage"]["calls"], system["evaluation"]["usage"]["cache_hits"]) == (3 * ROWS, 0)
    rows = system["results"]
    assert all([one["sample"] for one in row["ratings"]] == [1, 2, 3] for row in rows)
    assert [row["scores"]["faithfulness"]["value"] for row in rows] == [float(sum(by_sample(row)) >= 2) for row in rows]
    within = statistics.fmean(statistics.variance(by_sample(row)) for row in rows)
    assert 0 < system["metrics"]["faithfulness"]["judge_sd"] == pytest.approx(within**0.5)


def test_the_first_sample_is_the_verdict_of_a_run_with_one_whichever_came_first(cli, data):
    with Provider(then=wavers) as provider:
        once = evaluate(cli, provider)
        asked = len(provider.log)
        thrice = evaluate(cli, provider, samples=3)
        assert (asked, len(provider.log)) == (ROWS, 3 * ROWS)
        again = evaluate(cli, provider, samples=3)
        fewer = evaluate(cli, provider, samples=2)
        assert len(provider.log) == 3 * ROWS  # all of it is known
        evaluate(cli, provider, "--seed", "1")
        assert len(provider.log) == 4 * ROWS  # another seed is another judge, not the second sample of this one
    first = [row["scores"]["faithfulness"]["value"] for row in once["results"]]
    for system, samples in ((thrice, 3), (again, 3), (fewer, 2)):
        assert [by_sample(row)[0] for row in system["results"]] == first
        assert {len(row["ratings"]) for row in system["results"]} == {samples}
    assert [row["scores"] for row in thrice["results"]] == [row["scores"] for row in again["results"]]
    assert (once["metrics"]["faithfulness"]["judge_sd"], once["results"][0]["ratings"]) == (None, [])


def test_a_budget_that_ends_between_samples_is_resumed_without_paying_twice(cli, data):
    with Provider(then=wavers) as provider:
        err = evaluate(cli, provider, "--set", "budget.tokens=12000", "-j", "2", samples=2, status=4)
        asked = len(provider.log)
        assert 0 < asked < 2 * ROWS, err
        code, out, err = cli("evaluate", "--resume", "last", "--set", "budget.tokens=10000000", "--json")
        assert (code, len(provider.log)) == (0, 2 * ROWS), err
    system = system_of(out)
    assert system["evaluation"]["usage"]["calls"] == 2 * ROWS
    assert {len(by_sample(row)) for row in system["results"]} == {2}


@pytest.mark.parametrize(
    ("options", "calls"),
    [((), 3), (("--set", "judge_mode=probe"), 3 * 3)],
    ids=["verdict", "probe"],
)
def test_the_estimate_counts_the_calls_that_are_made_in_each_mode(cli, data, options, calls):
    def answers(seen):
        return wavers(seen) if "faithful" not in seen.user and "[A1]" in seen.user else Answer("yes")

    given = ("--judge", "openai/tiny,samples=3", "--metrics", "faithfulness", "--limit", "4", *options)
    with Provider(then=answers if "probe" not in options else lambda _: Answer("yes")) as provider:
        code, out, err = cli("evaluate", "rows.jsonl", "--set", f"api_base={provider.url}", *given, "--dry-run")
        assert code == 0, err
        assert not provider.log
        code, _, err = cli("evaluate", "rows.jsonl", "--set", f"api_base={provider.url}", *given)
        assert code == 0, err
        assert f"{len(provider.log)} judge calls" in out
        assert len(provider.log) % 3 == 0
        assert len(provider.log) >= 4 * calls


def test_a_sample_that_fails_is_kept_with_its_reason_and_the_others_vote(cli, data):
    def at_times(seen):
        n, seed = int(seen.user.partition("may book ")[2].split()[0]), seen.body["seed"]
        return Answer("no verdict at all") if seed == n % 4 else wavers(seen)

    with Provider(then=at_times) as provider:
        system = evaluate(cli, provider, samples=3)
    # seeds 0 to 2 fail for the rows of which n % 4 is 0 to 2
    for row in system["results"]:
        failed = [one for one in row["ratings"] if one["verdict"] is None]
        assert len(failed) == (int(row["query_id"][1:]) % 4 != 3)
        assert all("could not be read" in one["reason"] for one in failed)
        assert len(by_sample(row)) == 3 - len(failed)
    assert system["metrics"]["faithfulness"]["n"] == ROWS


def test_report_has_the_judges_sd_on_the_terminal_in_markdown_and_by_row(cli, data, tmp_path):
    with Provider(then=wavers) as provider:
        evaluate(cli, provider, "-o", "report.md", "-o", "rows.csv", samples=3)
    _, shown, _ = cli("show", "last")
    for text in (shown, (tmp_path / "report.md").read_text()):
        assert "faithfulness, judge sd" in text
    with (tmp_path / "rows.csv").open() as file:
        spread = [row["faithfulness_sd"] for row in csv.DictReader(file)]
    assert {round(float(one), 3) for one in spread} == {0.0, 0.577}
