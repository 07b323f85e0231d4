"""Criteria in the user's words: judged in the same call, in five steps; never guessed."""

import json
import re

import pytest

import provider as play
from fakes import FakeLLM, score_chunk
from judge_replies import judge, model_at, reply, sample
from offline_runs import GOOD, write_jsonl
from provider import Provider
from ragassay.core.eval_config import RunConfig
from ragassay.llm.journal import CallScope, MemoryJournal
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.composite import custom_metrics
from ragassay.metrics.metric import parse

POLITE = "The answer is polite and addresses the reader directly."
CRITERIA = {"polite": POLITE, "short": "It is one sentence."}


def judged(*entries):
    return {**reply(), "criteria": [dict(zip(("id", "step", "why"), (*entry, ""), strict=False)) for entry in entries]}


def scores(rating, name="polite", given=None):
    (score,) = score_chunk(
        parse(name, custom_metrics(RunConfig(criteria={name: POLITE}))), Chunk([given or sample()], [rating])
    )
    return score


def test_criteria_are_asked_in_the_same_call_as_instructions_and_the_sample_stays_data():
    with Provider() as provider:
        (rating,) = judge(model_at(provider), [sample()], criteria=CRITERIA)
    (seen,) = provider.log
    assert f"[K1] {POLITE}\n[K2] It is one sentence." in seen.system
    assert POLITE not in seen.user
    assert seen.user.endswith("Give one entry for each of A1 to A3 and G1 to G2 and K1 to K2.")
    assert [(c.id, c.name) for c in rating.verdict.criteria] == [("K1", "polite"), ("K2", "short")]
    assert rating.usage.calls == 1


def test_a_criterion_has_five_steps_and_a_reason():
    for step, value in {"none": 0, "barely": 0.25, "partly": 0.5, "mostly": 0.75, "full": 1}.items():
        (rating,) = judge(FakeLLM([judged(("K1", step, "it says you"))]), [sample()], criteria={"polite": POLITE})
        score = scores(rating)
        assert (score.value, score.reason, score.details) == (value, "it says you", {"step": step})


def test_a_criterion_that_a_reply_leaves_out_is_asked_once_more_and_then_missing():
    with Provider(then=play.missing("K2")) as provider:
        (rating,) = judge(model_at(provider), [sample()], criteria=CRITERIA)
    assert len(provider.log) == 2
    assert provider.log[1].user.endswith("Give entries for these labels only: K2. Leave the others out.")
    assert scores(rating).value is not None
    left = scores(rating, "short")
    assert (left.value, left.missing, left.reason) == (None, "failed", "the judge left the criterion short unanswered")


@pytest.mark.parametrize("entries", [[("K1", 0.9)], [("K1", "full"), ("K1", "none")], [("K9", "full")]])
def test_a_free_number_an_unknown_step_two_answers_or_another_label_is_no_answer(entries):
    (rating,) = judge(FakeLLM(lambda _: judged(*entries)), [sample()], criteria={"polite": POLITE})
    assert scores(rating).missing == "failed"


def test_a_verdict_is_cached_by_the_text_of_its_criteria():
    with Provider() as provider:

        def content(**options):
            calls = []
            journal = CallScope(MemoryJournal(), answered=calls.append)
            judge(model_at(provider), [sample()], journal, **options)
            return calls[0].content

        plain, polite = content(), content(criteria={"polite": POLITE})
        assert polite == content(criteria={"courteous": POLITE})  # the name is ours, the text is what was asked
        assert len({plain, polite, content(criteria={"polite": "It is polite."}), content(criteria=CRITERIA)}) == 4


CRITERION = ("--set", f"criteria.polite={POLITE}")


@pytest.fixture
def data(tmp_path):
    rows = [{**GOOD, "query_id": f"q{n}", "query": f"Well, {n}?"} for n in range(4)]
    return write_jsonl(tmp_path / "data.jsonl", rows)


def test_gates_compare_trend_csv_and_rules_know_a_criterion_by_its_name(cli, data, tmp_path):
    with Provider() as provider:
        (tmp_path / "ragassay.yaml").write_text(
            f"data: {data.name}\njudge: gpt-4o-mini\napi_base: {provider.url}\ncriteria: {{polite: {POLITE}}}\n"
            "accurate: polite >= 0.5\ngates: [{metric: polite, min: 0.5}, {metric: polite, max: 0.4}]\n"
        )
        code, _, err = cli("evaluate", "--config", "ragassay.yaml", "-o", "a.json", "-o", "a.csv")
        assert (code, len(provider.log)) == (0, 4), err
        code, gated, err = cli("gate", "ragassay.yaml")
        assert code == 1, err
        model = ("--judge", "gpt-4o-mini", "--set", f"api_base={provider.url}")
        code, _, err = cli("evaluate", data, *CRITERION, *model, "-o", "b.json")
        assert (code, len(provider.log)) == (0, 4), err  # the same text: the same calls
    assert re.search(r"^default: polite >= 0\.500 +passed", gated, re.MULTILINE)
    assert re.search(r"^default: polite <= 0\.400 +MISSED", gated, re.MULTILINE)
    metrics = json.loads((tmp_path / "a.json").read_text())["systems"]["default"]["metrics"]
    assert (metrics["polite"]["n"], metrics["accurate"]["value"]) == (4, 1.0)
    assert "polite" in (tmp_path / "a.csv").read_text().splitlines()[0].split(",")
    code, out, _ = cli("compare", "a.json", "b.json", "--metrics", "polite", "--json")
    assert (code, json.loads(out)["pairs"][0]["metrics"]["polite"]["n"]) == (0, 4)
    assert "polite on data, judge gpt-4o-mini (higher is better)" in cli("trend", "polite")[1]


def test_without_a_model_criteria_are_warned_of_at_the_start_and_missing_with_that_reason(cli, data):
    code, out, err = cli("evaluate", data, *CRITERION)
    assert code == 0
    assert err.startswith("warning: the judge local can't judge criteria (polite); a model can\n")
    assert "polite: 4 of 4 without a score (the judge local can't judge criteria" in " ".join(out.split())
