"""The local judge: what it says of plain cases, with and without an embedding model, and that it always says the same."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fakes import FakeEmbedder
from ragassay.core.errors import Unavailable
from ragassay.core.models import Response, Sample
from ragassay.core.text import content, refuses, sentences
from ragassay.embeddings import LocalEmbedder
from ragassay.judges.local import LocalJudge
from ragassay.metrics.judged import (
    completeness,
    context_precision,
    context_recall,
    correctness,
    faithfulness,
    relevance,
)

CONTEXTS = (
    "Gift cards never expire. They can be used in every shop.",
    "Refunds are paid within 14 days. The money goes back to the card that was charged.",
    "Support is open from Monday to Friday. Anna Berg leads the team.",
)
QUERY = "How long do refunds take?"


class Away:
    name = "away"

    def embed(self, texts):
        raise Unavailable("the embedding server is away")


class Alike:
    """Every text is as near to every other as ``cosine`` says."""

    name = "alike"

    def __init__(self, cosine):
        self.cosine = cosine

    def embed(self, texts):
        shared, own = np.sqrt(self.cosine), np.sqrt(1 - self.cosine)
        return np.hstack([np.full((len(texts), 1), shared), own * np.eye(len(texts))]).astype(np.float32)


def sample(answer, contexts=CONTEXTS, query=QUERY, truths=("Refunds take 14 days.",), facts=(), number=0):
    response = None if answer == "no response" else Response(answer=answer, contexts=contexts)
    return Sample(query_id=f"q{number}", query=query, ground_truth_answer=truths, key_facts=facts, response=response)


def judge(*samples, by=None):
    return asyncio.run((by or LocalJudge()).judge(samples, journal=None))


def verdict(answer, by=None, **rest):
    (rating,) = judge(sample(answer, **rest), by=by)
    return rating.verdict


def said(found):
    return [(s.support, s.evidence, s.why) for s in found.sentences]


@pytest.fixture(params=["words alone", "with embeddings"])
def either(request):
    return LocalJudge(FakeEmbedder() if request.param == "with embeddings" else None)


def test_a_sentence_of_the_contexts_is_supported_by_it(either):
    found = verdict("Refunds are paid within 14 days.", either)
    assert said(found) == [("supported", ("C2.1",), "")]
    assert found.sentences[0].truth == "agrees"
    assert (found.has_contexts, found.has_truth, found.judge) == (True, True, either.name)


def test_an_invented_sentence_is_not_found(either):
    answer = "Every customer receives a voucher and a handwritten letter."
    assert said(verdict(answer, either)) == [("not_found", (), "no context supports it")]


@pytest.mark.parametrize("by", [LocalJudge(), LocalJudge(Alike(0.9))])
def test_a_sentence_that_is_half_there_is_partly_supported_and_says_what_lacks(by):
    answer, contexts = "Refunds are paid in cash with a handwritten letter inside.", ("Refunds are paid in cash.",)
    assert said(verdict(answer, by, contexts=contexts)) == [
        ("partly", ("C1.1",), "not in the contexts: handwritten, letter, inside")
    ]


def test_another_number_is_a_contradiction(either):
    assert said(verdict("Refunds are paid within 30 days.", either)) == [
        ("contradicted", ("C2.1",), "contradicted by C2.1")
    ]


def test_similarity_of_meaning_can_decide_what_is_covered_and_never_alone():
    truths = ("Customers receive refunds weekly by bank.",)
    claim = "Customers receive refunds promptly and gladly."  # 3 of the fact's 5 stems: 0.48, and 0.2 x cosine
    far = verdict(claim, LocalJudge(Alike(0.0)), query="Money?", truths=truths).facts[0].covered
    near = verdict(claim, LocalJudge(Alike(1.0)), query="Money?", truths=truths).facts[0].covered
    assert (far, near) == ("partly", "yes")
    assert verdict("Money back.", LocalJudge(Alike(1.0)), query="Money?", truths=truths).facts[0].covered == "no"


def test_meaning_has_no_part_in_support():
    contexts = ("Customers receive refunds within a week by bank.",)
    judges = LocalJudge(), LocalJudge(Alike(0.0)), LocalJudge(Alike(1.0))
    found = [verdict("Customers receive refunds promptly.", by, contexts=contexts, truths=()) for by in judges]
    assert len({(v.sentences, v.probability["faithfulness"]) for v in found}) == 1


def test_a_lead_in_is_judged_like_the_sentence_after_it(either):
    found = verdict("The main points are as follows. In short:\n- Refunds are paid within 14 days.", either)
    assert said(found) == [("supported", ("C2.1",), "")] * 3
    assert [(s.id, s.text, s.truth) for s in found.sentences] == [
        ("A1", "The main points are as follows.", "agrees"),
        ("A2", "In short:", "agrees"),
        ("A3", "Refunds are paid within 14 days.", "agrees"),
    ]
    assert said(verdict("In short:", either)) == [("not_found", (), "no context supports it")]


def test_facts_are_covered_partly_covered_or_not(either):
    facts = ("Refunds are paid within 14 days", "The money goes back to the charged card", "Support opens on Monday")
    found = verdict("Refunds are paid within 14 days. The money goes back.", either, facts=facts)
    assert [f.covered for f in found.facts] == ["yes", "partly", "no"]
    assert [f.evidence for f in found.facts] == [("C2.1",), ("C2.2",), ("C3.1",)]
    assert [f.why for f in found.facts] == [
        "",
        "the answer lacks: charged, card",
        "the answer lacks: support, opens, monday",
    ]


def test_a_short_answer_covers_what_the_query_did_not_say(either):
    found = verdict("14 days.", either)
    assert (found.facts[0].covered, found.sentences[0].truth) == ("yes", "agrees")
    assert correctness(found).value == 1.0


def test_an_answer_that_denies_a_fact_does_not_cover_it(either):
    found = verdict("Refunds take 30 days.", either)
    assert (found.facts[0].covered, found.facts[0].why) == ("no", "the answer contradicts it")
    assert found.sentences[0].truth == "conflicts"


def test_a_sentence_beside_the_ground_truth_is_absent_from_it(either):
    found = verdict("Refunds take 14 days. Anna Berg leads the team.", either)
    assert [s.truth for s in found.sentences] == ["agrees", "absent"]
    assert correctness(found).value == pytest.approx(2 / 3)  # P 1/2, R 1


def test_of_several_ground_truths_one_is_enough(either):
    truths = ("Refunds last a fortnight.", "After 20 days the money is there. It arrives by card.", "Two weeks.")
    whole = verdict("Two weeks.", either, truths=truths)
    assert (whole.facts[0].covered, whole.sentences[0].truth) == ("yes", "agrees")
    half = verdict("The money is there after 20 days.", either, truths=truths)
    assert (half.facts[0].covered, half.sentences[0].truth) == ("partly", "agrees")
    none = verdict("Never mind.", either, truths=truths)
    assert (none.facts[0].covered, none.sentences[0].truth) == ("no", "absent")


def test_an_empty_answer_covers_nothing_and_is_no_refusal(either):
    found = verdict("", either)
    assert (found.sentences, found.relevance, found.refusal) == ((), "none", False)
    assert (found.facts[0].covered, found.facts[0].why) == ("no", "the answer is empty")
    assert found.facts[0].evidence == ("C2.1",)
    assert (faithfulness(found).value, correctness(found).value, context_recall(found).value) == (None, 0.0, 1.0)


def test_a_refusal_is_marked_and_addresses_nothing(either):
    found = verdict("I'm sorry, but the context does not mention refunds.", either)
    assert (found.refusal, found.relevance, found.why) == (True, "none", "the answer refuses")
    assert relevance(found).value == 0.0


def test_without_contexts_nothing_is_said_of_support(either):
    found = verdict("Refunds take 14 days.", either, contexts=None)
    assert said(found) == [(None, (), "")]
    assert found.facts[0].evidence == ()
    assert faithfulness(found).missing == "no_input"


def test_with_an_empty_list_of_contexts_nothing_is_supported(either):
    found = verdict("Refunds take 14 days.", either, contexts=())
    assert [s.support for s in found.sentences] == ["not_found"]
    assert faithfulness(found).value == 0.0


def test_without_ground_truth_nothing_is_said_of_truth(either):
    found = verdict("Refunds are paid within 14 days.", either, truths=())
    assert (found.sentences[0].truth, found.facts, found.has_truth) == (None, (), False)
    assert context_precision(found).value == 1 / 2


def test_an_answer_to_the_query_is_more_relevant_than_another():
    on = verdict("Refunds take about two weeks, so how long it takes depends on the bank.", truths=())
    off = verdict("Our shops sell apples, pears and plums of every kind.", truths=())
    assert relevance(on).value >= 0.75
    assert (relevance(off).value, off.why) == (0.0, "it shares little with the query")


@pytest.mark.parametrize("answer", ["14 days.", "Refunds are paid within 14 days.", "The team likes bicycles."])
def test_local_judge_relevance_is_independent_of_the_ground_truth(either, answer):
    relevances = {verdict(answer, either, truths=truths).relevance for truths in ((), ("Refunds take 14 days.",))}
    assert len(relevances) == 1


@pytest.mark.parametrize(
    ("context", "answer"),
    [
        ("The shop is open from 08:00 to 18:00 on weekdays.", "The shop is open from 10:00 to 18:00 on weekdays."),
        ("The shop is open from 08:00 to 18:00.", "It opens at 10:00."),
        ("You can return an item within 30 days of delivery.", "You can return an item within 60 days of delivery."),
        ("You can return an item within 30 days of delivery.", "60 days."),
        ("Pro has 5 seats. Support is free on all plans, by phone and mail.", "Pro has 5 seats and 3 phones."),
    ],
)
def test_local_judge_never_supports_a_number_that_the_evidence_lacks(either, context, answer):
    (sentence,) = verdict(answer, either, contexts=(context,), truths=()).sentences
    assert sentence.support != "supported"


@pytest.mark.parametrize(
    ("context", "answer"), [("We close at 18:00.", "We close at 6 pm."), ("It is 8:30 a.m.", "At 08:30.")]
)
def test_local_judge_reads_times_in_either_spelling(either, context, answer):
    (sentence,) = verdict(answer, either, contexts=(context,), truths=()).sentences
    assert sentence.support == "supported"


@pytest.mark.parametrize(
    "answer",
    [
        "The money is back in two weeks.",
        "In two weeks.",
        "Refunds take 14 days and come with a free bicycle, a golden medal and a trip to the moon.",
    ],
)
def test_local_judge_never_calls_an_answer_complete_and_wrong(either, answer):
    found = verdict(answer, either, contexts=("Shipping is free. Boxes are blue.",), truths=("14 days",))
    assert completeness(found).value < 1 or correctness(found).value > 0


def test_a_short_answer_is_as_relevant_as_what_it_rests_on(either):
    grounded = verdict("Anna Berg.", either, query="Who leads the support team?", truths=())
    assert grounded.relevance in ("partly", "mostly", "full")
    floating = verdict("Olaf Lund.", either, query="Who leads the support team?", truths=())
    assert (floating.relevance, floating.why) == ("partly", "too short to tell")


def test_a_chunk_is_embedded_in_one_call_of_distinct_texts_in_a_fixed_order():
    fakes = FakeEmbedder(), FakeEmbedder()
    rows = [sample("Refunds are slow.", number=1), sample("Support leads. Cards rest.", number=2), sample("", number=3)]
    judge(*rows, by=LocalJudge(fakes[0]))
    judge(*reversed(rows), by=LocalJudge(fakes[1]))
    (texts,) = fakes[0].calls
    assert fakes[1].calls == [texts]
    assert len(set(texts)) == len(texts)
    assert list(texts) == sorted(texts, key=lambda text: (len(text), text))


def test_what_words_decide_is_not_embedded():
    fake = FakeEmbedder()
    judge(sample("Refunds are paid within 14 days.", truths=()), by=LocalJudge(fake))
    assert fake.calls == [(QUERY, "Refunds are paid within 14 days.")]


def test_the_least_supported_sentence_decides_how_likely_the_whole_answer_is_supported(either):
    supported, invented = "Refunds are paid within 14 days.", "Every customer receives a voucher and a letter."
    alone = verdict(supported, either).probability["faithfulness"]
    none = verdict(invented, either).probability["faithfulness"]
    both = verdict(f"{supported} {invented}", either).probability["faithfulness"]
    assert alone > 0.8
    assert none < 0.2
    assert none / 2 < both <= none


def test_how_likely_an_answer_is_correct_is_said_only_where_a_ground_truth_is_given(either):
    right = verdict("It takes 14 days.", either).probability
    wrong = verdict("It takes a fortnight and a half.", either).probability
    assert right["correctness"] > 0.5 > wrong["correctness"]
    assert set(verdict("14 days.", either, truths=(), contexts=None).probability) == set()
    assert set(verdict("14 days.", either, facts=("14 days",)).probability) == {"faithfulness"}
    assert verdict("", either).probability == {}


def test_what_is_added_beside_the_truth_and_no_context_holds_does_not_agree(either):
    added = "Refunds take 14 days and come with a free bicycle, a golden medal and a trip to the moon."
    assert verdict(added, either).sentences[0].truth == "absent"
    assert verdict(added, either, contexts=None).sentences[0].truth == "agrees"  # it may be true: nobody can tell
    foreign = "Rückerstattungen dauern 14 Tage."
    assert verdict(foreign, either).sentences[0].truth == "agrees"


def test_a_yes_where_the_truth_is_a_no_conflicts(either):
    truths = ("No, a reserved item can't be renewed.",)
    found = verdict("Yes, of course you may renew it.", either, query="May I?", truths=truths)
    assert (found.sentences[0].truth, found.facts[0].covered) == ("conflicts", "no")
    assert correctness(found).value == 0.0


def test_a_model_that_is_away_is_a_reason_and_not_a_crash():
    found = judge(sample("Refunds take 14 days."), sample("x"), by=LocalJudge(Away()))
    assert [(j.verdict, j.reason) for j in found] == [(None, "the embedding server is away")] * 2


@pytest.fixture(scope="module")
def minilm():
    return LocalJudge(LocalEmbedder())


def test_with_the_bundled_model_verdicts_repeat_and_do_not_depend_on_the_order_of_rows(minilm):
    answers = ["Refunds are paid in two weeks.", "Gift cards last forever.", "Support works on Monday.", "Olaf Lund."]
    rows = [sample(answer, number=n) for n, answer in enumerate(answers)]
    first, again = judge(*rows, by=minilm), judge(*rows, by=minilm)
    assert first == again
    assert judge(*reversed(rows), by=minilm) == first[::-1]


@example(["0:A"], [], "A")  # a stop word alone
@given(st.lists(st.text(max_size=30), max_size=3), st.lists(st.text(max_size=30), max_size=3), st.text(max_size=40))
def test_every_unit_is_answered_whatever_the_text(contexts, truths, answer):
    found = verdict(answer, contexts=tuple(contexts), truths=tuple(truths), by=LocalJudge(FakeEmbedder()))
    assert [s.text for s in found.sentences] == sentences(answer)
    assert all(s.support for s in found.sentences)
    assert all(f.covered for f in found.facts)
    assert all((s.truth is not None) == found.has_truth for s in found.sentences)
    assert (found.evidence_dropped, found.support_withdrawn) == (0, 0)
    assert found.relevance is not None
    assert found.refusal is not None
    assert all(len(s.why.split()) <= 12 for s in (*found.sentences, *found.facts))


@given(st.text(max_size=60).filter(lambda text: sentences(text) and not refuses(sentences(text))))
def test_an_answer_that_repeats_its_context_and_its_truth_is_faithful_and_correct(text):
    found = verdict(text, contexts=("Something else.", text), truths=(text,))
    if all(content(piece) for piece in sentences(text)):
        assert faithfulness(found).value == 1.0
        assert context_recall(found).value == 1.0
        assert correctness(found).value == 1.0


def test_fifty_samples_of_650_words_take_a_moment_by_words_alone():
    filler = tuple(f"{' '.join(f'word{n}{m}{k}' for k in range(12))}. " * 10 for n in range(5) for m in range(1))
    rows = [
        sample(" ".join(CONTEXTS[n % 3] for n in range(3)), contexts=(*filler, *CONTEXTS), number=n) for n in range(50)
    ]
    judge(*rows[:1])
    began = time.process_time()
    judge(*rows)
    assert time.process_time() - began < 3.0


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"answer": "x" * 100_001}, "the answer has more than 100,000 characters"),
        ({"answer": "Yes.", "truths": ("x" * 100_001,)}, "the ground truth has more than 100,000 characters"),
        ({"answer": "Yes.", "contexts": ("x" * 1_000_001,)}, "the contexts have more than 1,000,000 characters"),
        (
            {"answer": "It is so. " * 800, "contexts": ("It is so. " * 800,)},
            "the row has more than 500,000 pairs of sentences",
        ),
    ],
)
def test_local_judge_gives_a_reason_for_too_much_text(row, what):
    (rating,) = judge(sample(**{"truths": ("Yes.",), **row}))
    assert rating.verdict is None
    assert rating.reason.startswith(what)
