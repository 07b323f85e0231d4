"""Units and their verdict: every unit is numbered, every claim is checked, nothing vanishes from a denominator."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragassay.core.models import FactVerdict, Response, Sample, SentenceVerdict, Verdict
from ragassay.judges.verdict import check_verdict, number_units


def sample(answer="It rains. We stay.", contexts=("It rains. It pours.", "We stay."), truths=("It rains.",), facts=()):
    response = Response(answer=answer, contexts=contexts)
    return Sample(query_id="q", query="Is it?", ground_truth_answer=truths, key_facts=facts, response=response)


def claim(label, support="supported", evidence=("C1.1",), **rest):
    return SentenceVerdict(id=label, text="what the judge repeated", support=support, evidence=evidence, **rest)


def test_units_are_numbered_from_one_in_the_order_of_the_text():
    asked = number_units(sample())
    assert asked.answer == {"A1": "It rains.", "A2": "We stay."}
    assert asked.facts == {"G1": "It rains."}
    assert asked.contexts == {"C1.1": "It rains.", "C1.2": "It pours.", "C2.1": "We stay."}
    assert asked.ids == ("A1", "A2", "G1")
    assert asked.has_contexts
    assert asked.has_truth


def test_key_facts_go_before_the_sentences_of_the_ground_truth():
    assert number_units(sample(facts=("  It pours ", " ", "Hard"))).facts == {"G1": "It pours", "G2": "Hard"}
    assert number_units(sample(facts=(" ",))).facts == {"G1": "It rains."}


def test_what_is_not_there_is_not_asked():
    asked = number_units(Sample(query_id="q", query="Is it?"))
    assert (asked.ids, asked.has_contexts, asked.has_truth) == ((), False, False)
    assert number_units(sample(contexts=())).has_contexts
    assert not number_units(sample(truths=("", "..."))).has_truth


def test_evidence_that_points_nowhere_is_dropped_and_counted():
    raw = Verdict(
        judge="",
        sentences=(claim("A1", evidence=("C1.1", "C9.1", "A2")),),
        facts=(FactVerdict(id="G1", text="", covered="yes", evidence=("C1.9",)),),
    )
    verdict = check_verdict(raw, number_units(sample()), "test")
    assert verdict.sentences[0].evidence == ("C1.1",)
    assert verdict.facts[0].evidence == ()
    assert verdict.evidence_dropped == 3


def test_support_without_evidence_is_withdrawn_and_counted():
    raw = Verdict(judge="", sentences=(claim("A1", evidence=("C9.1",)), claim("A2", "partly", (), why="half")))
    verdict = check_verdict(raw, number_units(sample()), "test")
    assert [(s.support, s.why) for s in verdict.sentences] == [
        ("not_found", "the judge named no sentence that supports it"),
        ("not_found", "half"),
    ]
    assert verdict.support_withdrawn == 2


def test_a_contradiction_needs_no_evidence():
    verdict = check_verdict(
        Verdict(judge="", sentences=(claim("A1", "contradicted", ()),)), number_units(sample()), "test"
    )
    assert (verdict.sentences[0].support, verdict.support_withdrawn) == ("contradicted", 0)


def test_what_was_not_asked_is_none_whatever_the_judge_claims():
    raw = Verdict(judge="", sentences=(claim("A1", truth="agrees"),))
    verdict = check_verdict(raw, number_units(sample(contexts=None, truths=())), "test")
    assert (verdict.sentences[0].support, verdict.sentences[0].evidence, verdict.sentences[0].truth) == (None, (), None)
    assert (verdict.has_contexts, verdict.has_truth, verdict.support_withdrawn) == (False, False, 0)


LABELS = st.sampled_from(["A1", "A2", "A3", "G1", "G2", "C1.1", "C2.1", "C7.7", "x"])


@given(
    st.dictionaries(
        LABELS, st.tuples(st.sampled_from(["supported", "partly", "not_found"]), st.lists(LABELS, max_size=3))
    ),
)
def test_a_verdict_has_every_unit_once_and_only_evidence_that_exists(claimed):
    asked = number_units(sample())
    raw = Verdict(
        judge="", sentences=tuple(claim(i, support, tuple(evidence)) for i, (support, evidence) in claimed.items())
    )
    verdict = check_verdict(raw, asked, "test")
    assert [s.id for s in verdict.sentences] == list(asked.answer)
    assert [f.id for f in verdict.facts] == list(asked.facts)
    for sentence in verdict.sentences:
        assert set(sentence.evidence) <= set(asked.contexts)
        assert sentence.evidence or sentence.support not in ("supported", "partly")
