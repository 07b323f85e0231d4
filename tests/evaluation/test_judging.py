"""A jury, several samples of a judge, and reference judges, over a provider that plays each: votes, calls, failures, money."""

import csv
import hashlib
import json
import math
import statistics
from pathlib import Path

import pytest

import provider as play
from offline_runs import write_jsonl
from provider import Answer, Provider, verdicts
from ragassay.judges.panel import is_chosen

ROWS = 15
JURY = ("openai/a", "openai/b", "openai/c")


def row(n, **changes):
    kept = f"Book {n} may be kept for {n} days."
    return {
        "query_id": f"q{n}",
        "query": f"How long may book {n} be kept?",
        "contexts": [kept],
        "answer": kept,
        **changes,
    }


def with_truth(count, answer="Book {} may be kept for {} days."):
    return [row(n, answer=answer.format(n, n), ground_truth_answer=f"For {n} days.") for n in range(count)]


def options_of(*judges):
    return [option for judge in judges for option in ("--judge", judge)]


@pytest.fixture
def evaluate(cli, tmp_path):
    """Evaluates rows with judges; the report, or what is written to stderr where it ends with another code."""

    def run(provider, rows, judges, *options, metrics="faithfulness", code=0):
        write_jsonl(tmp_path / "rows.jsonl", rows)
        given = (*options_of(*judges), "--set", f"api_base={provider.url}", "--metrics", metrics, "--json")
        status, out, err = cli("evaluate", "rows.jsonl", *given, *options)
        assert status == code, err
        return json.loads(out) if code in (0, 3) else err

    return run


def system_of(report):
    return report["systems"]["default"]


def rows_of(report, system="default"):
    return report["results"][system]


def values(report, metric="faithfulness"):
    return [row["scores"][metric].get("value") for row in rows_of(report)]


def shown_by(cli, *options):
    code, shown, err = cli("show", "last", *options)
    assert code == 0, err
    return " ".join(shown.split())


def labelled(seen, support="supported", truth="agrees", covered="yes", relevance="full"):
    """A verdict that gives all units the same labels."""
    reply = verdicts(seen)
    evidence = ["C1.1"] if support in ("supported", "partly") else []
    for entry in reply["answer"]:
        entry |= {"support": support, "evidence": evidence, "truth": truth, "why": f"{seen.body['model']} saw it"}
    for entry in reply["facts"]:
        entry |= {"covered": covered, "evidence": ["C1.1"]}
    return Answer(json.dumps({**reply, "relevance": relevance, "refusal": False}))


def says(*labels, **more):
    return lambda seen: labelled(seen, *labels, **more)


def models(**behaviours):
    """A provider that answers as the model that is asked for would."""
    return lambda seen: behaviours[seen.body["model"].rpartition("/")[2]](seen)


def book(seen):
    return int(seen.user.partition("may book ")[2].split()[0])


# --- a jury ---------------------------------------------------------------------------------------------------------

OF_JURY = with_truth(6, "For {} days. The shelf is blue.")


def test_a_jury_votes_by_unit_and_rows_and_report_show_where_judges_differ(evaluate, cli):
    play_all = models(a=says(), b=says("not_found", "absent", "no", "none"), c=says(relevance="partly"))
    with Provider(then=play_all) as provider:
        metrics = "faithfulness,correctness,relevance"
        report = evaluate(provider, OF_JURY, JURY, "-o", "rows.csv", metrics=metrics)
        assert len(provider.log) == 18
    assert [values(report, metric) for metric in metrics.split(",")] == [[1.0] * 6, [1.0] * 6, [0.5] * 6]
    row = rows_of(report)[0]
    assert row["verdict"]["judge"] == "jury of llm:openai/a, llm:openai/b, llm:openai/c"
    second = row["ratings"][1]
    assert (second["rater"], second["verdict"]["sentences"][0]["support"]) == ("llm:openai/b", "not_found")
    assert second["scores"] == {"faithfulness": 0.0, "correctness": 0.0, "relevance": 0.0}
    assert row["evaluation"]["calls"] == 3
    with Path("rows.csv").open(encoding="utf-8-sig") as file:
        assert next(csv.DictReader(file))["disagreement"].startswith("A1 support: supported 2, not_found 1; A1 truth: ")
    assert "A2 support: supported 2, not_found 1" in shown_by(cli, "--query", "q1")
    jury = system_of(report)["jury"]
    assert (jury["rows"], jury["disagreement"], jury["without_verdict"]) == (6, 6, 0)
    assert [(one["judged"], one["failed"], one["usage"]["calls"]) for one in jury["judges"]] == [(6, 0, 6)] * 3
    # of each row 2 sentences with support and truth, 1 fact, relevance, refusal: b agrees on the refusal alone
    assert [(one["labels"], one["agreed"]) for one in jury["judges"]] == [(42, 36), (42, 6), (42, 42)]
    assert "judged 6; 14.3 % of 42 labels as the jury; 6 calls" in shown_by(cli)


def test_a_judge_that_fails_is_left_out_of_the_vote_and_counted(evaluate, cli):
    with Provider(then=models(a=says(), b=says("partly"), c=play.says("no verdict"))) as provider:
        report = evaluate(provider, OF_JURY, JURY)
    assert values(report) == [0.5] * 6  # supported and partly: the more sceptical one
    judge = system_of(report)["jury"]["judges"][2]
    assert (judge["judged"], judge["failed"]) == (0, 6)
    assert "llm:openai/c has no vote on 6 of 6 rows (the judge's reply could not be read" in shown_by(cli)


def test_one_key_is_not_sent_to_several_providers(cli, tmp_path, monkeypatch):
    write_jsonl(tmp_path / "rows.jsonl", OF_JURY)
    monkeypatch.setenv("RAGASSAY_API_KEY", "sk-of-one-of-them")
    code, _, err = cli("evaluate", "rows.jsonl", *options_of("gpt-4o", "anthropic/claude-3-5-haiku-20241022"))
    assert (code, "RAGASSAY_API_KEY would be sent to several providers" in err) == (2, True)
    assert "OPENAI_API_KEY, ANTHROPIC_API_KEY" in err


REFERENCE = "openai/tiny,role=reference,on=0.3"
REFUSED = {
    "other spelling": (("openai/gpt-4o", "gpt-4o"), (), "are the same model"),
    "local": (("local", "openai/a"), (), "the local judge takes no part in a jury"),
    "reference alone": ((REFERENCE,), (), "no judge judges all rows"),
    "other shares": (("local", REFERENCE, "openai/b,role=reference,on=0.2"), (), "judge the same rows"),
    "share of no reference": (("openai/a,on=0.3",), (), "'on' is for a judge with role: reference"),
    "criteria": (("local", REFERENCE), ("criteria.a=Is it?",), "criteria can't be judged by the local judge"),
    "labels": (("local", REFERENCE), ("labels=labels.csv",), "labels and a reference judge both"),
}


@pytest.mark.parametrize(("judges", "settings", "message"), REFUSED.values(), ids=REFUSED)
def test_judges_that_make_no_sense_together_are_refused(evaluate, tmp_path, judges, settings, message):
    (tmp_path / "labels.csv").write_text("query_id,faithfulness\nq1,1\n")
    with Provider() as provider:
        given = (option for setting in settings for option in ("--set", setting))
        assert message in evaluate(provider, OF_JURY, judges, *given, code=2)
        assert provider.log == []


# --- samples of one judge -------------------------------------------------------------------------------------------


def wavers(seen):
    """Supports an answer with a chance of its own for each question, drawn by question and seed."""
    drawn = hashlib.sha256(f"{book(seen)} {seen.body.get('seed')}".encode()).digest()[0] / 256
    good = drawn < (0.9, 0.5, 0.1)[book(seen) % 3]
    return labelled(seen) if good else labelled(seen, "not_found", "conflicts", "no", "partly")


def by_sample(row):
    return [rating["scores"]["faithfulness"] for rating in row["ratings"] if "faithfulness" in rating["scores"]]


def drawn(samples):
    return [f"openai/tiny,samples={samples}"]


def test_each_sample_has_calls_and_a_seed_of_its_own_and_the_row_scores_by_their_vote(evaluate):
    with Provider(then=wavers) as provider:
        report = evaluate(provider, with_truth(ROWS), drawn(3), "--seed", "7")
        seeds = [seen.body["seed"] for seen in provider.log]
    system, rows = system_of(report), rows_of(report)
    assert sorted(seeds) == sorted([7, 8, 9] * ROWS)
    assert (system["evaluation"]["usage"]["calls"], system["evaluation"]["usage"]["cache_hits"]) == (3 * ROWS, 0)
    assert all([one["sample"] for one in row["ratings"]] == [1, 2, 3] for row in rows)
    assert values(report) == [float(sum(by_sample(row)) >= 2) for row in rows]
    within = statistics.fmean(statistics.variance(by_sample(row)) for row in rows)
    assert 0 < system["metrics"]["faithfulness"]["judge_sd"] == pytest.approx(within**0.5)


def test_the_first_sample_is_the_verdict_of_a_run_with_one_whichever_came_first(evaluate):
    with Provider(then=wavers) as provider:
        reports, asked = [], []
        for samples in (1, 3, 2):
            reports.append(evaluate(provider, with_truth(ROWS), drawn(samples)))
            asked.append(len(provider.log))
        assert asked == [ROWS, 3 * ROWS, 3 * ROWS]
        evaluate(provider, with_truth(ROWS), drawn(1), "--seed", "1")
        assert len(provider.log) == 4 * ROWS  # another seed is another judge, not the second sample of this one
    once, *others = reports
    for report, samples in zip(others, (3, 2), strict=True):
        assert [by_sample(row)[0] for row in rows_of(report)] == values(once)
        assert {len(row["ratings"]) for row in rows_of(report)} == {samples}
    assert (system_of(once)["metrics"]["faithfulness"]["judge_sd"], rows_of(once)[0]["ratings"]) == (None, [])


def test_a_budget_that_ends_between_samples_is_resumed_without_paying_twice(evaluate, cli):
    with Provider(then=wavers) as provider:
        evaluate(provider, with_truth(ROWS), drawn(2), "--set", "budget.tokens=12000", "-j", "2", code=4)
        assert 0 < len(provider.log) < 2 * ROWS
        code, out, err = cli("evaluate", "--resume", "last", "--set", "budget.tokens=10000000", "--json")
        assert (code, len(provider.log)) == (0, 2 * ROWS), err
    report = json.loads(out)
    assert system_of(report)["evaluation"]["usage"]["calls"] == 2 * ROWS


@pytest.mark.parametrize(("judges", "mode", "calls"), [(drawn(3), "probe", 30), (JURY, "verdict", 6)])
def test_the_estimate_counts_the_calls_that_are_made(evaluate, cli, judges, mode, calls):
    with Provider(then=wavers if mode == "verdict" else play.says("yes")) as provider:
        given = (*options_of(*judges), "--set", f"api_base={provider.url}", "--set", f"judge_mode={mode}")
        evaluate(provider, with_truth(2), judges, "--set", f"judge_mode={mode}")
        assert len(provider.log) == calls
        code, out, err = cli("evaluate", "rows.jsonl", *given, "--metrics", "faithfulness", "--dry-run")
        assert (code, len(provider.log)) == (0, calls), err
    assert f"{calls} judge calls" in out


# --- a reference judge on a share -----------------------------------------------------------------------------------

INVENTED = "A blue umbrella is given to every reader."
OF_REFERENCE = [row(n) if n % 5 else row(n, answer=INVENTED) for n in range(80)]


def strict(seen):
    """Says what the words say, and denies every fourth row."""
    return labelled(seen, "supported" if book(seen) % 5 and book(seen) % 4 else "not_found")


def with_reference(share):
    return ["local", f"openai/tiny,role=reference,on={share}"]


def test_a_reference_judge_is_asked_about_a_share_and_corrects_the_local_judge(evaluate, cli):
    with Provider(then=strict) as provider:
        report = evaluate(provider, OF_REFERENCE, with_reference(0.5))
        asked = len(provider.log)
    mean = system_of(report)["metrics"]["faithfulness"]
    assert abs(asked - 40) <= 3 * math.sqrt(80 / 4)
    assert (mean["corrected"]["corrected_by"], mean["corrected"]["n"]) == (asked, 80)
    assert system_of(report)["evaluation"]["usage"]["calls"] == asked
    # of 80 rows, 16 invent and 16 more are denied: the model would say 0.6, the local judge says 0.8
    assert mean["value"] == pytest.approx(0.8)
    assert mean["corrected"]["interval"]["low"] <= 0.6 <= mean["corrected"]["interval"]["high"] < 0.8
    assert f"{asked} rows by openai/tiny" in shown_by(cli)


def test_a_reference_judge_that_fails_corrects_no_mean_and_no_difference_and_ends_with_3(evaluate, cli):
    def refuses_some(seen):
        return play.status(400, message="content filter")(seen) if seen.n % 4 == 0 else strict(seen)

    with Provider(then=refuses_some) as provider:
        report = evaluate(provider, OF_REFERENCE, with_reference(0.5), "-j", "1", code=3)
        lenient = evaluate(provider, OF_REFERENCE, with_reference(0.5), "-j", "1", "--set", "max_failed_share=0.5")
    chosen = sum(is_chosen(row["query_id"], 0.5, 0) for row in rows_of(report))
    reference = system_of(report)["evaluation"]["reference"]
    mean = system_of(report)["metrics"]["faithfulness"]["corrected"]
    assert (reference["asked"], reference["failed"]) == (chosen, chosen // 4)
    assert (mean["value"], "content filter" in mean["reason"]) == (None, True)
    assert report["cautions"][0].startswith(f"default: the reference judge failed on {chosen // 4} of {chosen} rows")

    def compared(a, b):
        code, out, err = cli("compare", a["run"]["id"], b["run"]["id"], "--json")
        assert code == 0, err
        return json.loads(out)["pairs"][0]["metrics"]["faithfulness"]

    uncorrected = compared(report, lenient)  # the first of the two says how many may fail
    assert uncorrected["corrected_by"] is None
    assert "not corrected: the reference judge failed" in uncorrected["interval"]["reason"]
    assert compared(lenient, report)["corrected_by"] > 0


def test_the_same_seed_asks_about_the_same_rows_and_another_about_others():
    def chosen(seed):
        return [n for n in range(80) if is_chosen(f"q{n}", 0.3, seed)]

    assert chosen(0) == chosen(0) != chosen(1)


# --- what is paid ---------------------------------------------------------------------------------------------------

PAID, ONE = with_truth(4), ["gpt-4o-mini"]


def test_two_systems_with_the_same_answers_are_judged_once_and_get_the_same_verdicts(evaluate, tmp_path):
    options = ["--set", "performance.cache=false"]
    for name in ("a", "b"):
        answers = [{key: row[key] for key in ("query_id", "answer", "contexts")} for row in PAID]
        options += ["--system", f"{name}={write_jsonl(tmp_path / f'{name}.jsonl', answers)}"]
    queries = [{key: row[key] for key in ("query_id", "query", "ground_truth_answer")} for row in PAID]
    with Provider(latency_s=0.05) as provider:
        report = evaluate(provider, queries, ONE, *options)
        assert len(provider.log) == len(PAID)
    assert [row["scores"] for row in rows_of(report, "a")] == [row["scores"] for row in rows_of(report, "b")]
    usages = [report["systems"][name]["evaluation"]["usage"] for name in ("a", "b")]
    assert sum(each["calls"] for each in usages) == sum(each["cache_hits"] for each in usages) == len(PAID)


def test_a_reply_that_could_not_be_read_is_asked_for_again_by_the_next_run_and_by_resume(evaluate, cli):
    def garbled(seen):
        return play.says('{"what": 1}')(seen) if "book 1 " in seen.user else play.good(seen)

    def failed(report):
        return [row["query_id"] for row in rows_of(report) if row["scores"]["faithfulness"].get("value") is None]

    with Provider(then=garbled) as provider:
        assert failed(evaluate(provider, PAID, ONE, code=3)) == ["q1"]
        assert len(provider.log) == 3 + 2  # it is asked twice for one row
        assert cli("evaluate", "--resume", "last", "--json")[0] == 3
        assert len(provider.log) == 3 + 2 + 2
        provider.then = play.good
        code, out, err = cli("evaluate", "--resume", "last", "--json")
        assert failed(evaluate(provider, PAID, ONE)) == []
        assert len(provider.log) == 3 + 2 + 2 + 1  # nothing but the reply that was read is kept for the next run
    report = json.loads(out)
    assert (code, failed(report)) == (0, []), err
    spent = system_of(report)["evaluation"]
    assert (spent["usage"]["calls"], spent["waste"]["calls"]) == (4, 4)
