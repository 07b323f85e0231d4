"""Soft verdicts: labels that count by their probabilities, read from a real provider's log-probabilities."""

import json

import pytest

import provider as play
from judge_replies import judge, model_at, reply, sample
from provider import Provider
from ragassay.judges.soft import label_scores
from ragassay.metrics import Chunk, parse

UNSURE = {
    "supported": {"supported": 0.6, "partly": 0.2, "not": 0.2},
    "agrees": {"agrees": 0.9, "a": 0.05, "conflicts": 0.05},
    "yes": {"yes": 0.5, "no": 0.5},
}


def score(name, given, judgement):
    return parse(name).score(Chunk([given], [judgement]))[0].value


def soft(behave, **options):
    with Provider(then=behave) as provider:
        (judgement,) = judge(model_at(provider), [sample()], soft=True, **options)
    return judgement, provider.log


def test_a_label_counts_by_the_probabilities_of_the_words_that_might_have_stood_there():
    judgement, (seen,) = soft(play.hesitates(UNSURE, play.says(json.dumps(reply()))))
    first, fact = judgement.verdict.sentences[0], judgement.verdict.facts[0]
    assert (seen.body["logprobs"], seen.body["top_logprobs"]) == (True, 10)
    assert (first.support, first.truth, fact.covered) == ("supported", "agrees", "yes")
    assert first.support_score == pytest.approx(0.6 + 0.5 * 0.2)
    assert first.truth_score == pytest.approx(0.95)  # "a" may begin agrees and absent: it goes with what was written
    assert fact.covered_score == pytest.approx(0.5)
    assert score("faithfulness", sample(), judgement) == pytest.approx(0.7)
    assert score("completeness", sample(), judgement) == pytest.approx(0.5)
    assert score("correctness", sample(), judgement) == pytest.approx(2 * 0.95 * 0.5 / (0.95 + 0.5))


def test_what_the_judge_is_certain_of_counts_as_its_label_does():
    certain, _ = soft(play.hesitates({}, play.says(json.dumps(reply(A1={"support": "partly"})))))
    with Provider(then=play.says(json.dumps(reply(A1={"support": "partly"})))) as provider:
        (plain,) = judge(model_at(provider), [sample()])
    for name in ("faithfulness", "completeness", "correctness"):
        assert score(name, sample(), certain) == score(name, sample(), plain)
    assert plain.verdict.sentences[0].support_score is None


def test_a_provider_without_log_probabilities_gives_labels_and_the_report_says_so():
    judgement, log = soft(play.refuses("logprobs", play.says(json.dumps(reply()))))
    assert len(log) == 2
    assert judgement.verdict.sentences[0].support_score is None
    assert {"logprobs", "top_logprobs"} <= set(judgement.left_out)
    assert score("faithfulness", sample(), judgement) == 1.0


def test_support_that_is_withdrawn_for_want_of_evidence_has_no_score():
    said = reply(A1={"evidence": []})
    judgement, _ = soft(play.hesitates(UNSURE, play.says(json.dumps(said))))
    first = judgement.verdict.sentences[0]
    assert (first.support, first.support_score) == ("not_found", None)
    assert score("faithfulness", sample(), judgement) == pytest.approx((0 + 0.7 + 0.7) / 3)


def test_a_label_inside_of_a_reason_is_no_label():
    said = reply(A1={"why": 'it says {"id": "A1", "support": "not_found"'})
    text = json.dumps(said)
    assert label_scores(text, ())["A1", "support"] == 1.0


def test_a_unit_that_comes_twice_has_no_score():
    said = reply()
    said["answer"].append({**said["answer"][0], "support": "not_found"})
    assert ("A1", "support") not in label_scores(json.dumps(said), ())


def test_the_schema_asks_for_the_exact_number_of_entries_and_a_repair_for_those_that_lack():
    with Provider([play.missing("A2", "G1")]) as provider:
        judge(model_at(provider), [sample()])
    first, second = (seen.body["response_format"]["json_schema"]["schema"]["properties"] for seen in provider.log)
    counts = [
        (part[name]["minItems"], part[name]["maxItems"]) for part in (first, second) for name in ("answer", "facts")
    ]
    assert counts == [(3, 3), (2, 2), (1, 1), (1, 1)]


@pytest.mark.parametrize("keyword", ["minItems", "maxItems"])
def test_a_provider_that_does_not_take_numbers_of_entries_gets_the_schema_without_them(keyword):
    def behave(seen):
        if keyword in json.dumps(seen.body):
            told = (
                f"Invalid schema for response_format 'verdict': In context=('answer',), '{keyword}' is not permitted."
            )
            return play.Answer(status=400, message=told)
        return play.good(seen)

    with Provider(then=behave) as provider:
        judgements = judge(model_at(provider, concurrency=1), [sample("q1"), sample("q2", query="And now?")])
    assert [seen.status for seen in provider.log] == [400, 200, 200]
    assert "minItems" not in json.dumps(provider.log[-1].body)
    assert provider.log[-1].body["response_format"]["type"] == "json_schema"
    assert all(judgement.verdict for judgement in judgements)
    assert "minItems" in judgements[0].left_out
