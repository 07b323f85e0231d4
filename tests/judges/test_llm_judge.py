"""A language model as the judge: one call about all units of a sample, what it leaves out, and what goes wrong."""

import asyncio
import json
import re

import pytest

import provider as play
from fakes import FakeLLM
from judge_replies import ASKED, LABELS, judge, model_at, reply, sample, supports
from provider import Provider
from ragassay.core.errors import BadInput, BadSettings, BudgetReached, ProviderDown, RateLimited
from ragassay.core.models import Usage
from ragassay.core.prompts import load
from ragassay.core.protocols import Reply
from ragassay.judges.llm import LLMJudge
from ragassay.judges.reply import CriteriaForm, schema_of
from ragassay.judges.verdict import number_units
from ragassay.llm import LLM, client
from ragassay.llm.capabilities import without_bounds
from ragassay.llm.journal import CallScope, MemoryJournal
from ragassay.metrics.judged import completeness, faithfulness


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(client, "backoff", lambda tries: 0.0)


def test_one_call_answers_every_unit_exactly_once():
    with Provider() as provider:
        (rating,) = judge(model_at(provider), [sample()])
    (seen,) = provider.log
    assert seen.labels == LABELS
    assert [one.id for one in (*rating.verdict.sentences, *rating.verdict.facts)] == ASKED
    assert None not in supports(rating).values()
    assert rating.verdict.judge == "llm:gpt-4o-mini"
    assert (rating.usage.calls, rating.usage.cost_usd > 0, rating.waste) == (1, True, Usage())


def test_the_first_request_leaves_before_the_last_prompt_is_made(monkeypatch):
    events = []

    class Slow(FakeLLM):
        async def complete(self, *_, **__):
            for _ in range(3):  # what a request takes before it leaves
                await asyncio.sleep(0)
            events.append("sent")
            raise BadInput("no")

    def number(*asked):
        events.append("made")
        return number_units(*asked)

    monkeypatch.setattr("ragassay.judges.llm.number_units", number)
    judge(Slow([]), [sample(f"q{n}") for n in range(20)])
    assert (events.index("sent") < 10, len(events)) == (True, 40)


def test_instructions_and_schema_are_the_same_for_every_sample_and_sample_text_is_never_among_them():
    with Provider() as provider:
        judge(model_at(provider), [sample("q1"), sample("q2", answer="Zebras.", contexts=None, ground_truth_answer=())])
    first, second = provider.log
    assert first.system == second.system == load("judge/verdict").text
    sent = [seen.body["response_format"]["json_schema"] for seen in (first, second)]
    assert without_bounds(sent[0]) == without_bounds(sent[1])  # apart from the numbers of entries
    assert [m["role"] for m in first.messages] == ["system", "user"]


def test_the_schema_holds_literals_only_and_evidence_comes_before_its_label():
    schema = schema_of(CriteriaForm)
    orders = [list(schema["properties"][part]["items"]["properties"]) for part in ("answer", "facts", "criteria")]
    assert orders == [  # who names the label first has not looked yet
        ["id", "evidence", "support", "truth"],
        ["id", "evidence", "covered"],
        ["id", "why", "step"],
    ]
    assert not re.search(r"minimum|maximum|minItems|maxLength|pattern|anyOf|null", json.dumps(schema))


def test_a_finished_call_is_never_paid_again():
    journal, samples = MemoryJournal(), [sample("q1"), sample("q2", query="And now?")]
    with Provider([play.missing("A2"), play.malformed]) as provider:
        first = judge(model_at(provider, concurrency=1), samples, journal)
        requests = len(provider.log)
        again = judge(model_at(provider, concurrency=1), samples, journal)
    assert requests == len(provider.log) == 4
    assert again == first


def test_the_content_of_a_call_changes_with_all_that_determines_the_reply_and_with_nothing_else(monkeypatch):
    with Provider() as provider, Provider() as elsewhere:

        def content(changed=None, api_base=provider.url, **options):
            calls = []
            llm = LLM(options.pop("model", "m"), api_base=api_base, **options)
            judge(llm, [changed or sample()], CallScope(MemoryJournal(), answered=calls.append))
            return calls[0].content

        first = content()
        assert first == content()
        assert first == content(api_base=f"{provider.url}/")
        changes = [{"api_base": elsewhere.url}, {"model": "other"}, {"seed": 1}, {"parameters": {"top_p": 0.5}}]
        others = [*(content(**one) for one in changes), content(sample(query="Else?"))]
        prompt = load("judge/verdict")
        newer = type(prompt)(prompt.name, "0" * 12, prompt.text)
        monkeypatch.setattr("ragassay.judges.prompt.load", lambda name: newer if name == prompt.name else load(name))
        assert len({first, *others, content()}) == 7


@pytest.mark.parametrize("answer", ["", "\u200b", "how do REFUNDS work"])
def test_an_answer_that_says_nothing_or_repeats_the_question_costs_no_call(answer):
    (rating,) = judge(FakeLLM([]), [sample(answer=answer, contexts=())])
    assert (rating.usage, rating.verdict.relevance, rating.verdict.refusal) == (Usage(), "none", False)
    assert {fact.covered for fact in rating.verdict.facts} == {"no"}


def test_facts_are_looked_for_in_the_contexts_even_when_the_answer_is_empty():
    with Provider() as provider:
        (rating,) = judge(model_at(provider), [sample(answer="")])
    assert provider.log[0].labels == ["C1.1", "C1.2", "C2.1", "G1", "G2"]
    assert len(rating.verdict.facts) == 2


def test_of_several_ground_truths_the_others_are_shown_as_accepted_too():
    with Provider() as provider:
        judge(model_at(provider), [sample(ground_truth_answer=("Two weeks.", "14 days [O2]", "A fortnight"))])
    user = provider.log[0].user
    assert "\n[G1] Two weeks.\nOther accepted answers:\n[O1] 14 days (O2]\n[O2] A fortnight\n</sample" in user
    assert user.endswith("An answer that says what an O says covers and agrees with the G as well.")


def test_the_judge_says_all_that_determines_its_verdicts_and_no_secret():
    llm = LLM("gpt-4o-mini", api_base="http://somewhere:1234/v1", api_key="sk-something-secret", seed=4)
    asked = LLMJudge(llm)
    assert not re.search("secret|somewhere", json.dumps(dict(asked.settings)))
    assert asked.settings["parameters"] == {"temperature": 0, "seed": 4}
    assert asked.settings["prompts"]["judge/verdict"] == load("judge/verdict").version


def test_a_provider_that_does_not_take_numbers_of_entries_gets_the_schema_without_them():
    def behave(seen):
        if "maxItems" in json.dumps(seen.body):
            told = "Invalid schema for response_format 'verdict': In context=('answer',), 'maxItems' is not permitted."
            return play.Answer(status=400, message=told)
        return play.good(seen)

    with Provider(then=behave) as provider:
        ratings = judge(model_at(provider, concurrency=1), [sample("q1"), sample("q2", query="And now?")])
    assert [seen.status for seen in provider.log] == [400, 200, 200]
    assert "minItems" not in json.dumps(provider.log[-1].body)
    assert all(rating.verdict for rating in ratings)
    assert "minItems" in ratings[0].left_out


# --- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "asked_again"),
    [
        (reply(G1=None, A3=None), "A3, G1"),
        (reply(A1={"support": "maybe"}), "A1"),
        (reply(G2={"covered": 1}), "G2"),
        (reply(A1={"id": "A9"}), "A1"),
        (reply(relevance="very"), "none"),
        ({**reply(), "answer": "nonsense"}, "A1, A2, A3"),
        ({**reply(), "facts": [3, {"id": 7}]}, "G1, G2"),
    ],
)
def test_what_is_missing_is_asked_for_and_only_that(first, asked_again):
    fake = FakeLLM([first, reply()])
    (rating,) = judge(fake, [sample()])
    assert fake.calls[1].messages[1]["content"].endswith(f"labels only: {asked_again}. Leave the others out.")
    assert fake.calls[1].call.purpose == "repair"
    assert set(supports(rating).values()) == {"supported"}
    assert (rating.verdict.relevance, rating.verdict.refusal) == ("full", False)


def test_an_id_with_two_different_verdicts_is_asked_for_again_and_one_that_is_repeated_is_not():
    with Provider([play.repeated("A1")]) as provider:
        judge(model_at(provider), [sample()])
    assert provider.log[1].user.endswith("labels only: A1. Leave the others out.")
    same = reply()
    same["answer"].append(same["answer"][0])
    (rating,) = judge(FakeLLM([same]), [sample()])
    assert [s.id for s in rating.verdict.sentences] == ["A1", "A2", "A3"]


def test_what_is_still_missing_after_one_repair_makes_the_metric_missing_and_shrinks_nothing():
    fake = FakeLLM([reply(A2=None), reply(A2=None, A1={"support": "contradicted"})])
    (rating,) = judge(fake, [sample()])
    assert len(fake.calls) == 2
    assert supports(rating) == {"A1": "supported", "A2": None, "A3": "supported"}
    assert (faithfulness(rating.verdict).value, completeness(rating.verdict).value) == (None, 1.0)


@pytest.mark.parametrize("repair", [RateLimited("slow down"), "no JSON at all"])
def test_a_repair_that_fails_leaves_the_first_reply_as_it_is(repair):
    (rating,) = judge(FakeLLM([reply(A2=None), repair]), [sample()])
    assert supports(rating) == {"A1": "supported", "A2": None, "A3": "supported"}
    assert rating.usage.calls == 1
    assert rating.waste.calls == (1 if isinstance(repair, str) else 0)


def test_a_key_that_is_revoked_before_the_repair_stops_the_run():
    with pytest.raises(BadSettings, match="revoked"):
        judge(FakeLLM([reply(A2=None), BadSettings("revoked")]), [sample()])


def test_malformed_json_is_asked_for_again_and_its_price_is_waste():
    with Provider([play.malformed]) as provider:
        (rating,) = judge(model_at(provider), [sample()])
    assert len(provider.log) == 2
    assert provider.log[1].user == f"{provider.log[0].user}\n{load('judge/again').text}"
    assert None not in supports(rating).values()
    assert (rating.usage.calls, rating.waste.calls) == (1, 1)
    assert rating.waste.cost_usd > 0


def test_a_reply_that_was_cut_off_gets_twice_the_room():
    with Provider([play.truncated]) as provider:
        (rating,) = judge(model_at(provider), [sample()], max_tokens=300)
    assert [seen.body["max_tokens"] for seen in provider.log] == [300, 600]
    assert rating.verdict
    assert rating.waste.calls == 1


def test_what_a_content_filter_withheld_is_not_asked_for_again():
    fake = FakeLLM([Reply(text="", finish_reason="content_filter", usage=Usage(calls=1))])
    (rating,) = judge(fake, [sample()])
    assert rating.reason == "the provider's content filter withheld the judge's reply"
    assert rating.waste.calls == 1


def test_a_failing_provider_is_a_reason_for_that_sample_alone():
    def behave(seen):
        return play.Answer(status=500) if "zebra" in seen.user else play.good(seen)

    with Provider(then=behave) as provider:
        journal = MemoryJournal()
        model = model_at(provider, attempts=2)
        (fine,) = judge(model, [sample("q2")], journal)
        spent = journal.account.spent
        (bad,) = judge(model, [sample("q1", query="zebra")], journal)
    assert bad.reason == "the judge failed: gpt-4o-mini: the provider failed (500): the provider's own words"
    assert (bad.waste, journal.account.spent) == (Usage(retries=1), spent)
    assert fine.verdict


def test_a_provider_that_is_down_stops_the_judging():
    with pytest.raises(ProviderDown, match="away"):
        judge(FakeLLM(lambda messages: ProviderDown("away")), [sample(f"q{n}") for n in range(30)])


def test_a_reached_budget_passes_through_and_what_was_answered_stays_settled():
    class Budget(MemoryJournal):
        async def reserve(self, call, most):
            if len(self.settled) == 2:
                raise BudgetReached("2 calls are the limit")
            return await super().reserve(call, most)

    journal = Budget()
    with Provider() as provider, pytest.raises(BudgetReached):
        judge(model_at(provider, concurrency=1), [sample(f"q{n}") for n in range(5)], journal)
    assert (len(provider.log), len(journal.settled)) == (2, 2)
