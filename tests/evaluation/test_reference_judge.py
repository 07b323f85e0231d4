"""A reference judge on a share of the rows and the local judge on all: calls, corrected means, failures."""

import json
import math

import pytest

from offline_runs import write_jsonl
from provider import Answer, Provider, status, verdicts
from ragassay.judges.panel import is_chosen

DENIED = range(0, 80, 4)  # of rows whose answer copies its context, a model that knows more denies every fourth


@pytest.fixture
def data(tmp_path):
    rows = [
        {
            "query_id": f"q{n}",
            "query": f"How long may book {n} be kept?",
            "contexts": [f"Book {n} may be kept for {n} days."],
            "answer": f"Book {n} may be kept for {n} days." if n % 5 else "A blue umbrella is given to every reader.",
        }
        for n in range(80)
    ]
    return write_jsonl(tmp_path / "rows.jsonl", rows)


def strict(seen):
    """Says what the words say, and denies every fourth row."""
    reply, n = verdicts(seen), int(seen.user.partition("may book ")[2].split()[0])
    good = n % 5 != 0 and n not in DENIED
    for entry in reply["answer"]:
        entry |= {"support": "supported" if good else "not_found", "evidence": ["C1.1"] if good else []}
    return Answer(json.dumps(reply))


def judges(share):
    return ("--judge", "local", "--judge", f"openai/tiny,role=reference,on={share}")


def evaluate(cli, provider, share, *options):
    given = (*judges(share), "--set", f"api_base={provider.url}", "--metrics", "faithfulness", "--json")
    code, out, err = cli("evaluate", "rows.jsonl", *given, *options)
    assert code == 0, err
    return json.loads(out)


def test_the_model_is_asked_about_a_share_and_corrects_the_local_judge(cli, data):
    with Provider(then=strict) as provider:
        report = evaluate(cli, provider, 0.5)
        asked = len(provider.log)
    system = report["systems"]["default"]
    mean = system["metrics"]["faithfulness"]
    assert abs(asked - 40) <= 3 * math.sqrt(80 / 4)
    assert (mean["corrected"]["labels"], mean["corrected"]["rows"]) == (asked, 80)
    assert system["evaluation"]["usage"]["calls"] == asked
    # of 80 rows, 16 invent and 16 more are denied: the model would say 0.6, the local judge says 0.8
    assert mean["value"] == pytest.approx(0.8)
    assert mean["corrected"]["interval"]["low"] <= 0.6 <= mean["corrected"]["interval"]["high"] < 0.8
    assert "reference llm:openai/tiny on 50%" in report["provenance"]["judge"]["name"]
    code, shown, _ = cli("show", "last")
    assert (code, f"{asked} rows by openai/tiny" in shown) == (0, True)


def test_reference_judge_that_fails_corrects_no_mean_and_ends_with_3(cli, data):
    def refuses_some(seen):
        return status(400, message="content filter")(seen) if seen.n % 4 == 0 else strict(seen)

    given = ("rows.jsonl", *judges(0.5), "--metrics", "faithfulness", "-j", "1")
    with Provider(then=refuses_some) as provider:
        code, out, _ = cli("evaluate", *given, "--set", f"api_base={provider.url}", "--json")
        lenient, _, _ = cli(
            "evaluate", *given, "--set", f"api_base={provider.url}", "--set", "max_failed_share=0.5", "--json"
        )
    report = json.loads(out)
    system = report["systems"]["default"]
    chosen = sum(is_chosen(row["query_id"], 0.5, 0) for row in report["results"]["default"])
    reference, mean = system["evaluation"]["reference"], system["metrics"]["faithfulness"]["corrected"]
    assert (code, lenient) == (3, 0)
    assert (reference["asked"], reference["failed"]) == (chosen, chosen // 4)
    rows = report["results"]["default"]
    failures = [one["reason"] for row in rows for one in row["ratings"][1:] if not one["verdict"]]
    assert sum("content filter" in reason for reason in failures) == chosen // 4
    assert (mean["mean"], "content filter" in mean["reason"]) == (None, True)
    failed, triage = report["cautions"]
    assert failed.startswith(f"default: the reference judge failed on {chosen // 4} of {chosen} rows")
    assert triage.startswith("judge local is a triage")
    code, shown, _ = cli("show", "last")
    assert "the reference judge has no verdict on" in " ".join(shown.split())


def test_the_same_seed_asks_about_the_same_rows_and_another_about_others(cli, data):
    def chosen(*options):
        with Provider(then=strict) as provider:
            report = evaluate(cli, provider, 0.3, "--set", "performance.cache=false", *options)
        rows = report["results"]["default"]
        return [row["query_id"] for row in rows if row["ratings"]]

    assert chosen() == chosen("--limit", "80") != chosen("--seed", "1")


REFERENCE = "openai/tiny,role=reference,on=0.3"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--judge", "local,role=reference,on=0.3", "--judge", "openai/tiny"), "the local judge is no reference"),
        (("--judge", REFERENCE), "no judge judges all rows"),
        (("--judge", "openai/tiny,role=reference", "--judge", "local"), "a reference judge needs 'on'"),
        (("--judge", "openai/tiny,on=0.3"), "'on' is for a judge with role: reference"),
        (
            ("--judge", "local", "--judge", REFERENCE, "--set", "criteria.polite=It is polite."),
            "criteria can't be judged by the local judge",
        ),
        (("--judge", "local", "--judge", REFERENCE, "--set", "labels=labels.csv"), "labels and a reference judge both"),
    ],
)
def test_a_reference_that_makes_no_sense_is_refused(cli, data, tmp_path, options, message):
    (tmp_path / "labels.csv").write_text("query_id,faithfulness\nq1,1\n")
    code, _, err = cli("evaluate", "rows.jsonl", "--set", "api_base=http://127.0.0.1:9/v1", *options)
    assert (code, message in err) == (2, True), err


def test_probes_may_be_asked_about_the_share(cli, data):
    with Provider(then=lambda _: Answer("yes")) as provider:
        report = evaluate(cli, provider, 0.2, "--set", "judge_mode=probe")
        asked = len(provider.log)
    system = report["systems"]["default"]
    labelled = [row for row in report["results"]["default"] if row["ratings"]]
    assert (system["evaluation"]["usage"]["calls"], asked) == (2 * len(labelled), 2 * len(labelled))
    assert labelled
    for row in labelled:  # a yes without a sentence that shares a word with the answer is no support
        assert row["ratings"][1]["scores"] == {"faithfulness": float("umbrella" not in row["answer"])}
