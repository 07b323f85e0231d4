"""Several models as one judge, over a real provider that plays each: the vote, who fails, what it costs, what is told."""

import csv
import json
from pathlib import Path

import pytest

import provider as play
from offline_runs import write_jsonl
from provider import Answer, Provider, verdicts

ROWS = [
    {
        "query_id": f"q{n}",
        "query": f"How long may book {n} be kept?",
        "contexts": [f"Book {n} may be kept for {n} days."],
        "answer": f"For {n} days. The shelf is blue.",
        "ground_truth_answer": f"{n} days.",
    }
    for n in range(6)
]
JURY = ("--judge", "openai/a", "--judge", "openai/b", "--judge", "openai/c")


@pytest.fixture
def data(tmp_path):
    return write_jsonl(tmp_path / "rows.jsonl", ROWS)


def says(support="supported", truth="agrees", covered="yes", relevance="full", refusal=False):
    """A verdict that gives all units the same labels."""

    def behave(seen):
        reply = verdicts(seen)
        evidence = ["C1.1"] if support in ("supported", "partly") else []
        for entry in reply["answer"]:
            entry |= {"support": support, "evidence": evidence, "truth": truth, "why": f"{seen.body['model']} saw it"}
        for entry in reply["facts"]:
            entry |= {"covered": covered, "evidence": ["C1.1"]}
        return Answer(json.dumps({**reply, "relevance": relevance, "refusal": refusal}))

    return behave


def models(**behaviours):
    """A provider that answers as the model that is asked for would."""
    return lambda seen: behaviours[seen.body["model"].rpartition("/")[2]](seen)


@pytest.fixture
def evaluate(cli, data):
    def run(provider, *options, jury=JURY, code=0):
        given = (
            *jury,
            "--set",
            f"api_base={provider.url}",
            "--json",
            "--metrics",
            "faithfulness,correctness,relevance",
        )
        status, out, err = cli("evaluate", "rows.jsonl", *given, *options)
        assert status == code, err
        return json.loads(out) if code in (0, 3) else err

    return run


def scores(report):
    return [{name: one["value"] for name, one in row["scores"].items()} for row in rows_of(report)]


def rows_of(report):
    return report["results"]["default"]


def test_what_most_members_say_counts_and_rows_show_where_they_differ(evaluate, cli):
    play_all = models(a=says(), b=says("not_found", "absent", "no", "none"), c=says(relevance="partly"))
    with Provider(then=play_all) as provider:
        report = evaluate(provider, "-o", "rows.csv")
        assert {seen.body["model"] for seen in provider.log} == {"a", "b", "c"}
        assert len(provider.log) == 18
    assert scores(report) == [{"faithfulness": 1.0, "correctness": 1.0, "relevance": 0.5}] * 6
    row = rows_of(report)[0]
    assert row["verdict"]["judge"] == "jury of llm:openai/a, llm:openai/b, llm:openai/c"
    assert row["verdict"]["sentences"][0]["evidence"] == ["C1.1"]
    assert row["verdict"]["sentences"][0]["why"] == "a saw it"
    second = row["ratings"][1]
    assert (second["rater"], second["verdict"]["sentences"][0]["support"]) == ("llm:openai/b", "not_found")
    assert second["scores"] == {"faithfulness": 0.0, "correctness": 0.0, "relevance": 0.0}
    assert row["evaluation"]["calls"] == 3
    with Path("rows.csv").open(encoding="utf-8-sig") as file:
        assert next(csv.DictReader(file))["divided"].startswith("A1 support: supported 2, not_found 1; A1 truth: ")
    code, shown, _ = cli("show", "last", "--query", "q1")
    assert (code, "A2 support: supported 2, not_found 1" in shown) == (0, True)


def test_the_report_tells_what_each_member_did_and_how_they_agree(evaluate, cli):
    play_all = models(a=says(), b=says("not_found", "absent", "no", "none"), c=says(relevance="partly"))
    with Provider(then=play_all) as provider:
        jury = evaluate(provider)["systems"]["default"]["jury"]
    a, b, c = jury["members"]
    assert (jury["rows"], jury["divided"], jury["without_verdict"]) == (6, 6, 0)
    assert [(one["judged"], one["failed"], one["usage"]["calls"]) for one in (a, b, c)] == [(6, 0, 6)] * 3
    assert a["usage"]["input_tokens"] > 0
    # of each row 2 sentences with support and truth, 1 fact, relevance, refusal: b agrees on the refusal alone
    assert (b["labels"]["n"], b["labels"]["agreed"]) == (42, 6)
    assert [(one["a"][-1], one["b"][-1], one["labels"]["n"], one["labels"]["agreed"]) for one in jury["pairs"]] == [
        ("a", "b", 42, 6),
        ("a", "c", 42, 36),
        ("b", "c", 42, 6),
    ]
    code, shown, _ = cli("show", "last")
    assert code == 0
    assert "judged 6; 14.3 % of 42 labels as the jury; 6 calls" in " ".join(shown.split())
    assert "rows on which they differ" in shown


def test_a_member_that_fails_is_left_out_of_the_vote_and_counted(evaluate, cli):
    with Provider(then=models(a=says(), b=says("partly"), c=play.says("no verdict"))) as provider:
        report = evaluate(provider)
    assert scores(report)[0]["faithfulness"] == 0.5  # supported and partly: the more sceptical one
    member = report["systems"]["default"]["jury"]["members"][2]
    assert (member["judged"], member["failed"]) == (0, 6)
    assert list(member["reasons"]) == ["the judge's reply could not be read as a verdict, twice"]
    assert member["waste"]["calls"] >= 12  # other forms of a reply were tried as well
    _, shown, _ = cli("show", "last")
    assert "llm:openai/c has no vote on 6 of 6 rows (the judge's reply could not be read" in " ".join(shown.split())


def test_fewer_than_half_of_the_members_make_no_verdict(evaluate):
    with Provider(then=models(a=says(), b=play.says("?"), c=play.says("no verdict"))) as provider:
        report = evaluate(provider, "--set", "max_failed_share=1")
    (reason,) = report["systems"]["default"]["metrics"]["faithfulness"]["missing"]
    assert reason.startswith("2 of 3 judges gave no verdict: llm:openai/b: the judge's reply could")
    assert report["systems"]["default"]["jury"]["without_verdict"] == 6


def test_where_too_few_are_left_the_run_waits_and_gives_up(evaluate):
    with Provider(then=models(a=says(), b=play.status(503), c=play.status(503))) as provider:
        report = evaluate(provider, "--set", "performance.provider_outage_timeout_s=1", code=3)
    reasons = report["systems"]["default"]["metrics"]["faithfulness"]["missing"]
    assert all("2 of 3 judges gave no verdict" in reason and "given up" in reason for reason in reasons)


def test_a_second_run_makes_no_call_and_another_member_makes_only_its_own(evaluate):
    with Provider(then=models(a=says(), b=says(), c=says(), d=says())) as provider:
        evaluate(provider)
        usage = evaluate(provider)["systems"]["default"]["evaluation"]["usage"]
        assert (len(provider.log), usage["calls"], usage["cache_hits"]) == (18, 0, 18)
        evaluate(provider, jury=(*JURY, "--judge", "openai/d"))
        assert len(provider.log) == 24


def test_a_dry_run_counts_the_calls_of_all_members_and_a_budget_holds_for_all(evaluate, cli, data):
    with Provider(then=models(a=says(), b=says(), c=says())) as provider:
        code, told, err = cli("evaluate", "rows.jsonl", *JURY, "--set", f"api_base={provider.url}", "--dry-run")
        assert (code, provider.log) == (0, []), err
        assert "18 judge calls" in told
        evaluate(provider, "--set", "budget.tokens=9000", code=4)
        asked = len(provider.log)
        assert 0 < asked < 18
        code, _, err = cli("evaluate", "--resume", "last", "--set", "budget.tokens=900000")
        assert code == 0, err
        assert len(provider.log) == 18


def test_several_reference_judges_label_a_row_with_the_mean_of_its_scores_by_each(evaluate):
    references = [option for name in "abc" for option in ("--judge", f"openai/{name},role=reference,on=0.5")]
    with Provider(then=models(a=says(), b=says("not_found"), c=says("not_found"))) as provider:
        report = evaluate(provider, jury=("--judge", "local", *references))
        asked = len(provider.log)
    chosen = [row for row in rows_of(report) if len(row["ratings"]) > 1]
    assert chosen
    assert asked == 3 * len(chosen)
    scores = {tuple(one["scores"]["faithfulness"] for one in row["ratings"][1:]) for row in chosen}
    assert scores == {(1.0, 0.0, 0.0)}
    assert report["systems"]["default"]["jury"] is None


REFUSED = {
    "twice": (("--judge", "openai/a", "--judge", "openai/a"), "openai/a is named twice"),
    "other spelling": (("--judge", "openai/gpt-4o", "--judge", "gpt-4o"), "are the same model"),
    "local": (("--judge", "local", "--judge", "openai/a"), "the local judge takes no part in a jury"),
}


@pytest.mark.parametrize(("jury", "message"), REFUSED.values(), ids=REFUSED)
def test_a_jury_with_the_same_model_twice_or_the_local_judge_is_refused(evaluate, jury, message):
    with Provider() as provider:
        assert message in evaluate(provider, jury=jury, code=2)
        assert provider.log == []


def test_one_key_is_not_sent_to_several_providers(cli, data, monkeypatch):
    monkeypatch.setenv("RAGASSAY_API_KEY", "sk-of-one-of-them")
    code, _, err = cli("evaluate", "rows.jsonl", "--judge", "gpt-4o", "--judge", "anthropic/claude-3-5-haiku-20241022")
    assert (code, "RAGASSAY_API_KEY would be sent to several providers" in err) == (2, True)
    assert "OPENAI_API_KEY, ANTHROPIC_API_KEY" in err
