"""The canary panel of a run: what it tells of the judge, what it costs, and what it can't tell."""

import json
import random

import pytest

from offline_runs import write_jsonl
from provider import Answer, Provider, verdicts
from ragassay.runs.canary import FEWEST_ROWS

ROWS = [
    {
        "id": f"p{n}",
        "query": f"How long may book {n} be kept?",
        "contexts": [f"Book {n} may be kept for {n} days."],
        "answer": f"For {n} days. The shelf is blue.",
        "ground_truth_answer": f"{n} days.",
    }
    for n in range(26)
]
ONE = [{**ROWS[0], "id": "q", "query": "May I keep it?"}]
FLIPS = {
    "supported": "not_found",
    "not_found": "supported",
    "agrees": "absent",
    "absent": "agrees",
    "yes": "no",
    "no": "yes",
}


class Moody:
    """A judge that gives each label otherwise with a chance of ``noise``, and from the night ``sours`` on denies more."""

    def __init__(self, noise=0.03):
        self.noise, self.soured, self.random, self.version = noise, 0.0, random.Random(7), "fp_1"

    def __call__(self, seen):
        reply = verdicts(seen)
        for entry in (*reply["answer"], *reply["facts"]):
            for key in ("support", "truth", "covered"):
                if key in entry and self.random.random() < self.noise:
                    entry[key] = FLIPS[entry[key]]
                if entry.get(key) in ("supported", "agrees", "yes") and self.random.random() < self.soured:
                    entry[key] = FLIPS[entry[key]]
            if entry.get("support") == "supported":
                entry["evidence"] = ["C1.1"]
        return Answer(
            raw=json.dumps(
                {
                    "id": "1",
                    "object": "chat.completion",
                    "created": 1,
                    "model": "tiny-2026",
                    "system_fingerprint": self.version,
                    "choices": [{"index": 0, "message": {"role": "assistant", "content": json.dumps(reply)}}],
                    "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
                }
            ).encode()
        )


@pytest.fixture
def night(cli, tmp_path):
    """Runs ``evaluate`` once more along with the panel, and gives the report."""
    write_jsonl(tmp_path / "panel.jsonl", ROWS)
    write_jsonl(tmp_path / "one.jsonl", ONE)

    def run(provider, *options):
        judge = ("--judge", "openai/tiny", "--api-base", provider.url)
        code, out, err = cli("evaluate", "one.jsonl", *judge, "--canary", "panel.jsonl", "--json", *options)
        assert code == 0, err
        return json.loads(out)

    return run


def test_a_judge_that_changes_is_caught_and_one_with_noise_is_not(night, cli):
    judge = Moody()
    with Provider(then=judge) as provider:
        first = night(provider)["drift"]
        assert (first["status"], first["rows"], first["usage"]["calls"]) == ("baseline", 26, 52)
        for _ in range(2):
            report = night(provider)
            assert (report["drift"]["status"], report["drift"]["usage"]["calls"]) == ("unchanged", 26)
            assert report["drift"]["baseline_run"] == first["baseline_run"]
            assert not any("drift" in caution for caution in report["cautions"])
        judge.soured, judge.version = 0.5, "fp_2"
        report = night(provider)
    drift = report["drift"]
    assert drift["status"] == "drifted"
    assert drift["p"] <= drift["false_alarms"] == 1 / 200
    assert drift["scores"]["faithfulness"]["now"] < drift["scores"]["faithfulness"]["baseline"]
    gap = drift["scores"]["faithfulness"]["baseline"] - drift["scores"]["faithfulness"]["now"]
    assert gap >= drift["scores"]["faithfulness"]["threshold"]
    support = drift["labels"]["support"]
    assert support["n"] == 52
    assert support["up"] < support["changed"] / 2
    assert support["p"] < 0.05
    assert (drift["baseline_models"], drift["models"]) == (["tiny-2026 fp_1"], ["tiny-2026 fp_2"])
    assert any("has drifted since" in caution for caution in report["cautions"])
    code, shown, _ = cli("report", "last")
    assert code == 0
    assert "the judge has drifted from the baseline" in " ".join(shown.split())


def test_the_panel_is_asked_anew_though_the_rows_are_cached(night):
    with Provider(then=Moody(0.0)) as provider:
        night(provider)
        asked = len(provider.log)
        report = night(provider)
        assert len(provider.log) - asked == 26  # the row of the run itself came from the cache
    assert report["systems"]["default"]["evaluation"]["usage"]["cache_hits"] == 1


def test_another_prompt_or_seed_has_a_baseline_of_its_own(night):
    with Provider(then=Moody(0.0)) as provider:
        keys = {night(provider, *more)["drift"]["judge"] for more in ((), ("--seed", "1"))}
        assert len(keys) == 2
        assert night(provider)["drift"]["status"] == "unchanged"


def test_a_panel_that_could_not_be_judged_is_no_baseline(cli, tmp_path):
    write_jsonl(tmp_path / "panel.jsonl", ROWS)
    write_jsonl(tmp_path / "one.jsonl", ONE)
    with Provider(then=lambda _: Answer("no verdict")) as provider:
        judge = ("--judge", "openai/tiny", "--api-base", provider.url)
        code, out, _ = cli("evaluate", "one.jsonl", *judge, "--canary", "panel.jsonl", "--json", "--max-missing", "1")
    drift = json.loads(out)["drift"]
    assert (code, drift["status"], drift["missing"]) == (0, "not compared", 26)
    assert "26 of 26 rows of the panel have no verdict" in drift["reason"]


def test_a_budget_counts_the_panel_and_a_dry_run_tells_it(cli, tmp_path):
    write_jsonl(tmp_path / "panel.jsonl", ROWS)
    write_jsonl(tmp_path / "one.jsonl", ONE)
    with Provider(then=Moody(0.0)) as provider:
        judge = ("--judge", "openai/tiny", "--api-base", provider.url, "--canary", "panel.jsonl")
        _, told, _ = cli("evaluate", "one.jsonl", *judge, "--dry-run")
        code, _, err = cli("evaluate", "one.jsonl", *judge, "--budget-tokens", "4000")
        assert len(provider.log) < 52
        assert code == 4, err
        code, out, err = cli(
            "evaluate", "--resume", "last", "--budget-tokens", "900000", "--json", "--api-base", provider.url
        )
        assert code == 0, err
        assert len(provider.log) <= 54  # what was settled before is not paid again
    assert "27 judge calls" in told
    assert json.loads(out)["drift"]["status"] == "baseline"


def test_the_shipped_panel_is_judged_by_name(cli, tmp_path):
    write_jsonl(tmp_path / "one.jsonl", ONE)
    code, out, err = cli("evaluate", "one.jsonl", "--canary", "shipped", "--json")
    assert code == 0, err
    drift = json.loads(out)["drift"]
    assert (drift["panel"], drift["status"], drift["missing"]) == ("shipped", "baseline", 0)
    assert drift["rows"] >= 60


BAD = {
    "too few": (ROWS[: FEWEST_ROWS - 1], "a panel has 20 to 500 rows, each with an answer; 19 of 19 have one"),
    "no answers": ([{"id": r["id"], "query": r["query"]} for r in ROWS], "0 of 26 have one"),
}


@pytest.mark.parametrize(("rows", "message"), BAD.values(), ids=BAD)
def test_a_panel_that_can_tell_nothing_is_refused(cli, tmp_path, rows, message):
    write_jsonl(tmp_path / "panel.jsonl", rows)
    write_jsonl(tmp_path / "one.jsonl", ONE)
    code, _, err = cli("evaluate", "one.jsonl", "--canary", "panel.jsonl")
    assert (code, message in err) == (2, True)
