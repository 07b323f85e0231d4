"""Answers that are judged several times by a model that wavers with its seed: what is asked, counted, kept and said."""

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


def evaluate(cli, provider, *options, metrics="faithfulness", status=0):
    given = ("--judge", "openai/tiny", "--api-base", provider.url, "--metrics", metrics, "--json")
    code, out, err = cli("evaluate", "rows.jsonl", *given, *options)
    assert code == status, err
    return system_of(out) if status == 0 else err


def system_of(out):
    """The figures of the one system of a report, with its rows."""
    report = json.loads(out)
    return {**report["systems"]["default"], "results": report["results"]["default"]}


def test_each_answer_is_judged_by_calls_and_seeds_of_its_own_and_scores_are_means(cli, data):
    with Provider(then=wavers) as provider:
        system = evaluate(cli, provider, "--repeat", "3", "--seed", "7")
        seeds = [seen.body["seed"] for seen in provider.log]
    assert sorted(seeds) == sorted([7, 8, 9] * ROWS)
    assert (system["evaluation"]["usage"]["calls"], system["evaluation"]["usage"]["cache_hits"]) == (3 * ROWS, 0)
    scores = [row["scores"]["faithfulness"] for row in system["results"]]
    assert all(len(score["details"]["judgings"]) == 3 for score in scores)
    assert [score["value"] for score in scores] == [
        pytest.approx(sum(score["details"]["judgings"]) / 3) for score in scores
    ]
    assert {0.0, 1.0} < {round(score["value"], 3) for score in scores}  # and such as lie between
    within = statistics.fmean(statistics.variance(score["details"]["judgings"]) for score in scores)
    assert system["metrics"]["faithfulness"]["judge_sd"] == pytest.approx(within**0.5)


def test_the_first_judging_is_that_of_a_run_without_repeat_whichever_came_first(cli, data):
    with Provider(then=wavers) as provider:
        once = evaluate(cli, provider)
        asked = len(provider.log)
        thrice = evaluate(cli, provider, "--repeat", "3")
        assert (asked, len(provider.log)) == (ROWS, 3 * ROWS)
        again = evaluate(cli, provider, "--repeat", "3")
        fewer = evaluate(cli, provider, "--repeat", "2")
        assert len(provider.log) == 3 * ROWS  # all of it is known
        evaluate(cli, provider, "--seed", "1")
        assert len(provider.log) == 4 * ROWS  # another seed is another judge, not the second judging of this one
    first = [row["scores"]["faithfulness"]["value"] for row in once["results"]]
    for system, judgings in ((thrice, 3), (again, 3), (fewer, 2)):
        kept = [row["scores"]["faithfulness"]["details"]["judgings"] for row in system["results"]]
        assert [one[0] for one in kept] == first
        assert {len(one) for one in kept} == {judgings}
    assert [row["scores"] for row in thrice["results"]] == [row["scores"] for row in again["results"]]
    assert once["metrics"]["faithfulness"]["judge_sd"] is None


def test_a_budget_that_ends_between_judgings_is_resumed_without_paying_twice(cli, data):
    with Provider(then=wavers) as provider:
        err = evaluate(cli, provider, "--repeat", "2", "--budget-tokens", "12000", "-j", "2", status=4)
        asked = len(provider.log)
        assert 0 < asked < 2 * ROWS, err
        code, out, err = cli("evaluate", "--resume", "last", "--budget-tokens", "10000000", "--json")
        assert (code, len(provider.log)) == (0, 2 * ROWS), err
    system = system_of(out)
    assert system["evaluation"]["usage"]["calls"] == 2 * ROWS
    assert {len(row["scores"]["faithfulness"]["details"]["judgings"]) for row in system["results"]} == {2}


@pytest.mark.parametrize(
    ("options", "calls"),
    [((), 3), (("--judge-mode", "probe"), 3 * 3)],
    ids=["verdict", "probe"],
)
def test_the_estimate_counts_the_calls_that_are_made_in_each_mode(cli, data, options, calls):
    def answers(seen):
        return wavers(seen) if "faithful" not in seen.user and "[A1]" in seen.user else Answer("yes")

    given = ("--judge", "openai/tiny", "--metrics", "faithfulness", "--repeat", "3", "--limit", "4", *options)
    with Provider(then=answers if "probe" not in options else lambda _: Answer("yes")) as provider:
        code, out, err = cli("evaluate", "rows.jsonl", "--api-base", provider.url, *given, "--dry-run")
        assert code == 0, err
        assert not provider.log
        code, _, err = cli("evaluate", "rows.jsonl", "--api-base", provider.url, *given)
        assert code == 0, err
        assert f"{len(provider.log)} judge calls" in out
        assert len(provider.log) % 3 == 0
        assert len(provider.log) >= 4 * calls


def test_a_judging_that_fails_is_missing_from_the_mean_and_a_row_has_a_score_from_those_that_are_left(cli, data):
    def at_times(seen):
        n, seed = int(seen.user.partition("may book ")[2].split()[0]), seen.body["seed"]
        return Answer("no verdict at all") if seed == n % 4 else wavers(seen)

    with Provider(then=at_times) as provider:
        system = evaluate(cli, provider, "--repeat", "3")
    by_id = {row["query_id"]: row["scores"]["faithfulness"] for row in system["results"]}
    # seeds 0 to 2 fail for the rows of which n % 4 is 0 to 2
    assert {len(by_id[f"q{n}"]["details"]["judgings"]) for n in range(ROWS) if n % 4 != 3} == {2}
    assert {len(by_id[f"q{n}"]["details"]["judgings"]) for n in range(ROWS) if n % 4 == 3} == {3}
    assert system["metrics"]["faithfulness"]["n"] == ROWS


def test_accurate_is_what_most_judgings_say_and_of_two_halves_the_first(cli, data):
    with Provider(then=wavers) as provider:
        system = evaluate(cli, provider, "--repeat", "3", metrics="correctness,accurate")
        halves = evaluate(cli, provider, "--repeat", "2", metrics="correctness,accurate")
    for row in system["results"]:
        correctness, accurate = (row["scores"][name] for name in ("correctness", "accurate"))
        said = [float(one >= 0.5) for one in correctness["details"]["judgings"]]
        assert (accurate["details"]["judgings"], accurate["value"]) == (said, float(sum(said) >= 2))
    for row in halves["results"]:
        assert row["scores"]["accurate"]["value"] == row["scores"]["accurate"]["details"]["judgings"][0]


def test_report_has_the_judges_sd_on_the_terminal_in_markdown_and_by_row(cli, data, tmp_path):
    with Provider(then=wavers) as provider:
        evaluate(cli, provider, "--repeat", "3", "-o", "report.md", "-o", "rows.csv")
    _, shown, _ = cli("report", "last")
    for text in (shown, (tmp_path / "report.md").read_text()):
        assert "faithfulness, judge sd" in text
    with (tmp_path / "rows.csv").open() as file:
        spread = [row["faithfulness_sd"] for row in csv.DictReader(file)]
    assert {round(float(one), 3) for one in spread} == {0.0, 0.577}


def test_repeat_and_judge_share_together_are_refused(cli, data):
    with Provider(then=wavers) as provider:
        err = evaluate(cli, provider, "--repeat", "2", "--judge-share", "0.5", status=2)
    assert "repeat" in err
