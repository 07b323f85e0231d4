import pytest

import provider as play
from fakes import FakeLLM
from judge_replies import judge, model_at, reply, sample, supports
from provider import Provider
from ragassay.core.errors import BadInput, BadSettings, BudgetReached, ProviderDown, RateLimited, Unavailable
from ragassay.core.models import Usage
from ragassay.core.prompts import load
from ragassay.core.protocols import Reply
from ragassay.llm import client
from ragassay.llm.journal import MemoryJournal
from ragassay.metrics.judged import completeness, faithfulness


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(client, "backoff", lambda tries: 0.0)


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
    assert faithfulness(rating.verdict).value is None
    assert faithfulness(rating.verdict).reason == "the judge left A2 unanswered"
    assert completeness(rating.verdict).value == 1.0


@pytest.mark.parametrize("repair", [RateLimited("slow down"), BadInput("refused"), "no JSON at all"])
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
    assert provider.log[0].user == provider.log[1].user
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

    assert len(provider.log) == 3
    assert bad.verdict is None
    assert bad.reason == "the judge failed: gpt-4o-mini: the provider failed (500): the provider's own words"
    assert (bad.waste, journal.account.spent) == (Usage(retries=1), spent)
    assert fine.verdict


def test_a_provider_that_is_down_stops_the_judging_and_one_failing_call_does_not():
    samples = [sample(f"q{n}") for n in range(30)]
    found = judge(FakeLLM(lambda messages: Unavailable("away")), samples)
    assert {rating.reason for rating in found} == {"the judge failed: away"}
    with pytest.raises(ProviderDown, match="away"):
        judge(FakeLLM(lambda messages: ProviderDown("away")), samples)


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
