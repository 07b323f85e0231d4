import asyncio
import json
import math
import re

import pytest

import provider as play
from provider import Provider
from ragassay.errors import BadInput, BadSettings, BudgetReached, RateLimited, Unavailable
from ragassay.judges.llm import FAILED_IN_A_ROW, LLMJudge
from ragassay.judges.replies import SCHEMA
from ragassay.ledger import MemoryLedger
from ragassay.llm import LLM, FakeLLM, model
from ragassay.metrics.judged import completeness, faithfulness
from ragassay.models import Judge, Reply, Response, Sample, Usage
from ragassay.prompts import load


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(model, "backoff", lambda tries: 0.0)


def sample(query_id="q1", **changes):
    given = {
        "answer": "Refunds take 14 days. They go to the card that paid. Support is free.",
        "contexts": ("Refunds take 14 days. Weekends count.", "Money goes back to the card that paid."),
        "ground_truth_answer": "Refunds take 14 days. The money goes to the card.",
        "query": "How do refunds work?",
        **changes,
    }
    response = Response(answer=given.pop("answer"), contexts=given.pop("contexts"))
    return Sample(query_id=query_id, response=response, **given)


ASKED = ["A1", "A2", "A3", "G1", "G2"]
LABELS = ["C1.1", "C1.2", "C2.1", *ASKED]


def judge(llm, samples, ledger=None, **options):
    return asyncio.run(LLMJudge(llm, **options).judge(samples, ledger or MemoryLedger()))


def at(provider, **options):
    return LLM("gpt-4o-mini", api_base=provider.url, **{"timeout_s": 10, **options})


def reply(**changes):
    """A verdict on ``sample()`` in which all is well. Changes: A1={...}, relevance=...; A1=None leaves it out."""
    answer = {
        i: {"id": i, "support": "supported", "evidence": ["C1.1"], "truth": "agrees", "why": ""} for i in ASKED[:3]
    }
    facts = {i: {"id": i, "covered": "yes", "evidence": ["C1.1"], "why": ""} for i in ASKED[3:]}
    whole = {"relevance": "full", "refusal": False, "why": ""}
    for key, change in changes.items():
        held = answer if key in answer else facts if key in facts else whole
        held[key] = {**held[key], **change} if isinstance(change, dict) else change
    entries = {"answer": [e for e in answer.values() if e], "facts": [e for e in facts.values() if e]}
    return {**entries, **whole}


def supports(judgement):
    return {s.id: s.support for s in judgement.verdict.sentences}


def test_one_call_answers_every_unit_exactly_once():
    with Provider() as provider:
        (judgement,) = judge(at(provider), [sample()])

    (seen,) = provider.log
    verdict = judgement.verdict
    assert seen.labels == LABELS
    assert [s.id for s in verdict.sentences] + [f.id for f in verdict.facts] == ASKED
    assert None not in supports(judgement).values()
    assert verdict.judge == "llm:gpt-4o-mini"
    assert judgement.usage.calls == 1
    assert judgement.usage.cost_usd > 0
    assert judgement.waste == Usage()


def test_instructions_and_schema_are_the_same_for_every_sample_and_sample_text_is_never_among_them():
    with Provider() as provider:
        judge(at(provider), [sample("q1"), sample("q2", answer="Zebras.", contexts=None, ground_truth_answer=())])

    first, second = provider.log
    assert first.system == second.system == load("judge/verdict").text
    assert first.body["response_format"] == second.body["response_format"]
    assert [m["role"] for m in first.messages] == ["system", "user"]


def test_instructions_and_schema_leave_room_for_the_sample():
    # tokens are counted as characters / 4; a sample of 1,120 tokens, numbered, is to fit into 2,000 with them
    assert math.ceil((len(load("judge/verdict").text) + len(json.dumps(SCHEMA))) / 4) <= 620


def test_the_schema_holds_literals_only_and_every_object_is_closed():
    def objects(node):
        if isinstance(node, dict):
            if node.get("type") == "object":
                yield node
            for child in node.values():
                yield from objects(child)

    found = list(objects(SCHEMA))
    assert len(found) == 3
    for node in found:
        assert node["additionalProperties"] is False
        assert node["required"] == list(node["properties"])
    assert not re.search(r"minimum|maximum|minItems|maxLength|pattern|anyOf|null", json.dumps(SCHEMA))


def test_an_id_that_was_left_out_is_asked_for_once_more_and_alone():
    with Provider([play.missing("A2", "G1")]) as provider:
        (judgement,) = judge(at(provider), [sample()])

    first, second = provider.log
    assert second.user == f"{first.user}\nGive entries for these labels only: A2, G1. Leave the others out."
    assert None not in supports(judgement).values()
    assert [f.covered is None for f in judgement.verdict.facts] == [False, False]
    assert judgement.usage.calls == 2
    assert judgement.waste == Usage()


@pytest.mark.parametrize(
    ("first", "asked_again"),
    [
        (reply(A2=None), "A2"),
        (reply(G1=None, A3=None), "A3, G1"),
        (reply(A1={"support": "maybe"}), "A1"),
        (reply(A1={"truth": "perhaps"}), "A1"),
        (reply(G2={"covered": 1}), "G2"),
        (reply(A1={"id": "A9"}), "A1"),
        (reply(relevance="very"), "none"),
        (reply(refusal=None), "none"),
        ({**reply(), "answer": "nonsense"}, "A1, A2, A3"),
        ({**reply(), "facts": [3, {"id": 7}]}, "G1, G2"),
    ],
)
def test_what_is_missing_is_asked_for_and_only_that(first, asked_again):
    fake = FakeLLM([first, reply()])
    (judgement,) = judge(fake, [sample()])

    assert fake.calls[1].messages[1]["content"].endswith(f"labels only: {asked_again}. Leave the others out.")
    assert fake.calls[1].call.purpose == "repair"
    assert set(supports(judgement).values()) == {"supported"}
    assert (judgement.verdict.relevance, judgement.verdict.refusal) == ("full", False)


def test_an_id_with_two_different_verdicts_is_asked_for_again_and_one_that_is_repeated_is_not():
    with Provider([play.repeated("A1")]) as provider:
        judge(at(provider), [sample()])
    assert provider.log[1].user.endswith("labels only: A1. Leave the others out.")

    same = reply()
    same["answer"].append(same["answer"][0])
    (judgement,) = judge(FakeLLM([same]), [sample()])
    assert [s.id for s in judgement.verdict.sentences] == ["A1", "A2", "A3"]


def test_an_unknown_id_is_asked_for_under_its_right_name():
    with Provider([play.unknown("A17")]) as provider:
        (judgement,) = judge(at(provider), [sample()])

    assert len(provider.log) == 2
    assert list(supports(judgement)) == ["A1", "A2", "A3"]


def test_what_is_still_missing_after_one_repair_makes_the_metric_missing_and_shrinks_nothing():
    fake = FakeLLM([reply(A2=None), reply(A2=None, A1={"support": "contradicted"})])
    (judgement,) = judge(fake, [sample()])

    assert len(fake.calls) == 2
    assert supports(judgement) == {"A1": "supported", "A2": None, "A3": "supported"}
    assert faithfulness(judgement.verdict).value is None
    assert faithfulness(judgement.verdict).reason == "the judge left A2 unanswered"
    assert completeness(judgement.verdict).value == 1.0


def test_half_a_claim_is_kept_where_the_repair_has_no_better_one():
    fake = FakeLLM([reply(A1={"truth": "?"}), reply(A1={"truth": "?", "support": "partly"}, relevance=None)])
    (judgement,) = judge(fake, [sample()])

    assert judgement.verdict.sentences[0].support == "supported"
    assert judgement.verdict.sentences[0].truth is None
    assert judgement.verdict.relevance == "full"


@pytest.mark.parametrize("repair", [RateLimited("slow down"), BadInput("refused"), "no JSON at all"])
def test_a_repair_that_fails_leaves_the_first_reply_as_it_is(repair):
    (judgement,) = judge(FakeLLM([reply(A2=None), repair]), [sample()])

    assert supports(judgement) == {"A1": "supported", "A2": None, "A3": "supported"}
    assert judgement.usage.calls == 1
    assert judgement.waste.calls == (1 if isinstance(repair, str) else 0)


def test_a_key_that_is_revoked_before_the_repair_stops_the_run():
    with pytest.raises(BadSettings, match="revoked"):
        judge(FakeLLM([reply(A2=None), BadSettings("revoked")]), [sample()])


def test_malformed_json_is_asked_for_again_and_its_price_is_waste():
    with Provider([play.malformed]) as provider:
        (judgement,) = judge(at(provider), [sample()])

    assert len(provider.log) == 2
    assert provider.log[1].user == f"{provider.log[0].user}\n{load('judge/again').text}"
    assert None not in supports(judgement).values()
    assert (judgement.usage.calls, judgement.waste.calls) == (1, 1)
    assert judgement.waste.cost_usd > 0


def test_malformed_json_twice_is_a_reason():
    with Provider(then=play.malformed) as provider:
        (judgement,) = judge(at(provider), [sample()])

    assert len(provider.log) == 2
    assert judgement.verdict is None
    assert judgement.reason == "the judge's reply could not be read as a verdict, twice"
    assert (judgement.usage.calls, judgement.waste.calls) == (0, 2)


def test_a_reply_that_was_cut_off_gets_twice_the_room():
    with Provider([play.truncated]) as provider:
        (judgement,) = judge(at(provider), [sample()], max_tokens=300)

    assert [seen.body["max_tokens"] for seen in provider.log] == [300, 600]
    assert provider.log[0].user == provider.log[1].user
    assert judgement.verdict
    assert judgement.waste.calls == 1


def test_a_reply_that_is_cut_off_twice_is_a_reason():
    with Provider(then=play.truncated) as provider:
        (judgement,) = judge(at(provider), [sample()], max_tokens=300)

    assert len(provider.log) == 2
    assert judgement.reason == "the judge's reply was cut off at 600 tokens"


def test_room_for_the_reply_grows_with_the_units():
    fake = FakeLLM([reply()])
    judge(fake, [sample()])
    assert fake.calls[0].max_tokens == 600 + 5 * 90


def test_what_a_content_filter_withheld_is_not_asked_for_again():
    fake = FakeLLM([Reply(text="", finish_reason="content_filter", usage=Usage(calls=1))])
    (judgement,) = judge(fake, [sample()])

    assert judgement.reason == "the provider's content filter withheld the judge's reply"
    assert judgement.waste.calls == 1


def test_a_failing_provider_is_a_reason_for_that_sample_alone():
    def behave(seen):
        return play.Answer(status=500) if "zebra" in seen.user else play.good(seen)

    with Provider(then=behave) as provider:
        ledger = MemoryLedger()
        bad, fine = judge(at(provider, attempts=2), [sample("q1", query="zebra"), sample("q2")], ledger)

    assert len(provider.log) == 3
    assert bad.verdict is None
    assert bad.reason == "the judge failed: gpt-4o-mini: the provider failed (500): the provider's own words"
    assert bad.waste == ledger.lost == Usage(retries=1)
    assert fine.verdict


def test_a_hang_is_a_reason_and_may_have_been_paid():
    with Provider(then=play.hang) as provider:
        (judgement,) = judge(at(provider, timeout_s=0.3, attempts=1), [sample()])

    assert "no answer within 0.3 s" in judgement.reason
    assert judgement.waste == Usage(uncertain_calls=1)
    assert len(provider.log) == 1


def test_a_wrong_key_stops_the_run_after_the_first_request():
    with Provider(then=play.status(401)) as provider, pytest.raises(BadSettings, match="refused the key"):
        judge(at(provider, concurrency=1), [sample(f"q{n}") for n in range(30)])
    assert len(provider.log) == 1


def test_an_unknown_model_stops_the_run_with_no_more_requests_than_slots():
    with Provider(then=play.status(404)) as provider, pytest.raises(BadSettings, match="knows no such model"):
        judge(at(provider, concurrency=4), [sample(f"q{n}") for n in range(30)])
    assert len(provider.log) <= 4


def test_so_many_failures_in_a_row_that_nobody_seems_to_be_there_stop_the_run():
    samples = [sample(f"q{n}") for n in range(FAILED_IN_A_ROW)]
    found = judge(FakeLLM(lambda messages: Unavailable("away")), samples[1:])
    assert {judgement.reason for judgement in found} == {"the judge failed: away"}

    with pytest.raises(Unavailable, match="away"):
        judge(FakeLLM(lambda messages: Unavailable("away")), samples)


def test_one_answer_in_between_shows_that_somebody_is_there():
    half = FAILED_IN_A_ROW // 2
    fake = FakeLLM([*[Unavailable("away")] * half, reply(), *[Unavailable("away")] * half])
    found = judge(fake, [sample(f"q{n}") for n in range(FAILED_IN_A_ROW + 1)])
    assert sum(judgement.verdict is not None for judgement in found) == 1


def test_a_reached_budget_passes_through_and_what_was_answered_stays_settled():
    class Budget(MemoryLedger):
        async def reserve(self, call, estimate):
            if len(self.settled) == 2:
                raise BudgetReached("2 calls are the limit")
            return await super().reserve(call, estimate)

    ledger = Budget()
    with Provider() as provider, pytest.raises(BudgetReached):
        judge(at(provider, concurrency=1), [sample(f"q{n}") for n in range(5)], ledger)
    assert (len(provider.log), len(ledger.settled)) == (2, 2)


def test_cancellation_passes_through_and_open_calls_are_booked_as_uncertain():
    ledger = MemoryLedger()

    async def cancel():
        asked = LLMJudge(at(provider, concurrency=2)).judge([sample(f"q{n}") for n in range(3)], ledger)
        task = asyncio.create_task(asked)
        while len(provider.log) < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with Provider(then=play.hang) as provider:
        asyncio.run(cancel())
    assert ledger.lost == Usage(uncertain_calls=2)


def test_a_finished_call_is_never_paid_again():
    ledger, samples = MemoryLedger(), [sample("q1"), sample("q2", query="And now?")]
    with Provider([play.missing("A2"), play.malformed]) as provider:
        first = judge(at(provider, concurrency=1), samples, ledger)
        requests = len(provider.log)
        again = judge(at(provider, concurrency=1), samples, ledger)

    assert requests == len(provider.log) == 4
    assert again == first


def test_the_same_question_twice_has_two_places_and_one_content():
    fake = FakeLLM(lambda messages: reply())
    judge(fake, [sample("q1"), sample("q2")])

    one, two = (asked.call for asked in fake.calls)
    assert one.id != two.id
    assert one.content == two.content


def test_the_content_of_a_call_changes_with_all_that_determines_the_reply_and_with_nothing_else(monkeypatch):
    def content(changed=None, **options):
        ledger = MemoryLedger()
        with Provider() as provider:
            llm = LLM(options.pop("model", "m"), api_base=provider.url, **options)
            judge(llm, [changed or sample()], ledger)
        return ledger.calls[0].content

    first = content()
    assert first == content()  # another port, so another api_base
    others = [
        content(model="other"),
        content(seed=1),
        content(parameters={"top_p": 0.5}),
        content(sample(query="Else?")),
    ]
    prompt = load("judge/verdict")
    newer = type(prompt)(prompt.name, "0" * 12, prompt.text, prompt.meta)
    monkeypatch.setattr("ragassay.judges.llm.load", lambda name: newer if name == prompt.name else load(name))
    assert len({first, *others, content()}) == 6


def test_two_passes_ask_about_support_without_the_ground_truth():
    blind = reply(A1={"support": "partly"}, relevance="barely")
    informed = reply(A1={"support": "not_found", "truth": "conflicts", "why": "it differs"}, relevance="full")
    fake = FakeLLM(lambda messages: informed if "[G1]" in messages[1]["content"] else {**blind, "facts": []})
    (judgement,) = judge(fake, [sample()], passes=2)

    assert len(fake.calls) == 2
    assert sum("The money goes" in asked.messages[1]["content"] for asked in fake.calls) == 1
    first = judgement.verdict.sentences[0]
    assert (first.support, first.truth, first.why) == ("partly", "conflicts", "it differs")
    assert judgement.verdict.relevance == "barely"
    assert [f.covered for f in judgement.verdict.facts] == ["yes", "yes"]
    assert judgement.usage.calls == 2


def test_two_passes_are_one_where_there_is_no_ground_truth():
    with Provider() as provider:
        judge(at(provider), [sample(ground_truth_answer=())], passes=2)
    assert len(provider.log) == 1


def test_in_two_passes_what_one_left_out_stays_missing():
    blind, informed = reply(A1=None), reply(A2={"truth": "?"})
    fake = FakeLLM(lambda messages: informed if "[G1]" in messages[1]["content"] else {**blind, "facts": []})
    (judgement,) = judge(fake, [sample()], passes=2)

    first, second, third = judgement.verdict.sentences
    assert (first.support, first.truth, first.evidence) == (None, "agrees", ())
    assert (second.support, second.truth) == ("supported", None)
    assert (third.support, third.truth) == ("supported", "agrees")


def test_one_failing_pass_fails_the_sample_and_both_are_accounted():
    fake = FakeLLM(lambda messages: RateLimited("slow") if "[G1]" in messages[1]["content"] else reply())
    (judgement,) = judge(fake, [sample()], passes=2)

    assert judgement.reason == "the judge failed: slow"
    assert judgement.usage.calls == 1


@pytest.mark.parametrize("contexts", [None, ()])
@pytest.mark.parametrize("answer", ["", " \n", "...", None])
def test_an_empty_answer_without_contexts_costs_no_call(answer, contexts):
    (judgement,) = judge(FakeLLM([]), [sample(answer=answer, contexts=contexts)])

    assert judgement.usage == Usage()
    assert [f.covered for f in judgement.verdict.facts] == ["no", "no"]
    assert (judgement.verdict.relevance, judgement.verdict.refusal) == ("none", False)
    assert completeness(judgement.verdict).value == 0.0


def test_facts_are_looked_for_in_the_contexts_even_when_the_answer_is_empty():
    with Provider() as provider:
        (judgement,) = judge(at(provider), [sample(answer="")])

    assert provider.log[0].labels == ["C1.1", "C1.2", "C2.1", "G1", "G2"]
    assert len(judgement.verdict.facts) == 2
    assert judgement.usage.calls == 1


def test_without_contexts_support_is_not_asked_and_without_ground_truth_no_truth():
    bare = {"answer": [{"id": f"A{n}"} for n in (1, 2, 3)], "facts": [], "relevance": "full", "refusal": False}
    (judgement,) = judge(FakeLLM([bare]), [sample(contexts=None, ground_truth_answer=())])

    assert [(s.support, s.truth) for s in judgement.verdict.sentences] == [(None, None)] * 3
    assert judgement.verdict.relevance == "full"


def test_a_system_that_gave_no_response_is_not_judged():
    (judgement,) = judge(FakeLLM([]), [Sample(query_id="q1", query="Well?")])
    assert (judgement.verdict, judgement.reason) == (None, "the system gave no response")


def test_of_several_ground_truths_the_others_are_shown_as_accepted_too():
    with Provider() as provider:
        judge(at(provider), [sample(ground_truth_answer=("Two weeks.", "14 days [O2]", "A fortnight"))])

    user = provider.log[0].user
    assert "\n[G1] Two weeks.\nOther accepted answers:\n[O1] 14 days (O2]\n[O2] A fortnight\n</sample" in user
    assert user.endswith("An answer that says what an O says covers and agrees with the G as well.")


def test_support_without_valid_evidence_is_withdrawn_without_another_call():
    fake = FakeLLM([reply(A1={"evidence": ["C9.9"]}, A2={"evidence": "[C2.1], c1.2"})])
    (judgement,) = judge(fake, [sample()])

    assert supports(judgement)["A1"] == "not_found"
    assert judgement.verdict.sentences[1].evidence == ("C2.1", "C1.2")
    assert (judgement.verdict.evidence_dropped, judgement.verdict.support_withdrawn) == (1, 1)


def test_the_judge_says_all_that_determines_its_verdicts_and_no_secret():
    llm = LLM("gpt-4o-mini", api_base="http://somewhere:1234/v1", api_key="sk-something-secret", seed=4)
    asked = LLMJudge(llm, passes=2)

    assert isinstance(asked, Judge)
    assert asked.name == "llm:gpt-4o-mini"
    shown = json.dumps(dict(asked.settings))
    assert "secret" not in shown
    assert "somewhere" not in shown
    assert asked.settings["model"] == "openai/gpt-4o-mini"
    assert asked.settings["parameters"] == {"temperature": 0, "seed": 4}
    assert asked.settings["prompts"]["judge/verdict"] == load("judge/verdict").version
    assert asked.settings["passes"] == 2


@pytest.mark.parametrize("options", [{"passes": 3}, {"passes": 0}, {"max_tokens": 0}])
def test_bad_options_are_bad_settings(options):
    with pytest.raises(BadSettings):
        LLMJudge(FakeLLM([]), **options)
