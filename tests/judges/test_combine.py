"""What several ratings of a row make together, and how far judges agree; each expected number has its arithmetic."""

import pytest

from ragassay.core.models import CriterionVerdict, FactVerdict, Rating, SentenceVerdict, Usage, Verdict
from ragassay.judges.combine import combine, spread, voted


def verdict(support=None, truth=None, covered=None, *, evidence=(), held=(), **changes):
    sentence = {"support": support, "truth": truth, "evidence": evidence, "why": f"{support} by {evidence}"}
    return Verdict(
        judge="one",
        sentences=(SentenceVerdict(id="A1", text="So.", **{**sentence, **changes.pop("scores", {})}),),
        facts=(FactVerdict(id="G1", text="So.", covered=covered, evidence=held),),
        **{"has_contexts": True, "has_truth": True, **changes},
    )


def vote(*verdicts, judge_count=None):
    return voted(verdicts, judge_count or len(verdicts), "jury")


@pytest.mark.parametrize(
    ("given", "elected"),
    [
        (("supported", "supported", "contradicted"), "supported"),
        (("supported", "not_found"), "not_found"),
        (("not_found", "contradicted"), "contradicted"),
        (("supported", "partly", "not_found"), "not_found"),
        (("supported", "supported", "contradicted", "contradicted", "partly"), "contradicted"),
        (("supported", None, None), None),  # 1 of 3 said anything
        (("supported", None), "supported"),
    ],
)
def test_the_label_that_most_gave_wins_and_at_a_tie_the_more_sceptical(given, elected):
    assert vote(*(verdict(support) for support in given)).sentences[0].support == elected


def test_evidence_is_that_of_all_who_gave_the_label_that_won():
    found = vote(
        verdict("supported", evidence=("C1.1", "C1.2")),
        verdict("supported", evidence=("C2.1", "C1.1")),
        verdict("partly", evidence=("C9.9",)),
    ).sentences[0]
    assert found.evidence == ("C1.1", "C1.2", "C2.1")
    assert found.why == "supported by ('C1.1', 'C1.2')"


def test_whether_the_contexts_hold_a_fact_is_a_vote_of_its_own():
    one = vote(verdict(covered="yes", held=("C1.1",)), verdict(covered="yes"), verdict(covered="yes"))
    two = vote(verdict(covered="yes", held=("C1.1",)), verdict(covered="yes"), verdict(covered="no", held=("C2.1",)))
    tie = vote(verdict(covered="yes", held=("C1.1",)), verdict(covered="yes"))
    assert (one.facts[0].evidence, two.facts[0].evidence, tie.facts[0].evidence) == ((), ("C1.1", "C2.1"), ())


def test_steps_are_the_median_and_of_two_in_the_middle_the_lower():
    def criterion(step):
        return (CriterionVerdict(id="K1", name="polite", step=step, why=str(step)),)

    three = vote(*(verdict(relevance=s, criteria=criterion(s)) for s in ("full", "none", "mostly")))
    four = vote(*(verdict(relevance=s, criteria=criterion(s)) for s in ("full", "none", "mostly", "barely")))
    assert (three.relevance, three.criteria[0].step, three.criteria[0].why) == ("mostly", "mostly", "mostly")
    assert (four.relevance, four.criteria[0].step) == ("barely", "barely")
    assert vote(verdict(relevance="full"), verdict(), verdict()).relevance is None


@pytest.mark.parametrize(("answerable", "refusal"), [(True, True), (False, False)])
def test_a_jury_split_over_a_refusal_says_what_is_worse_for_the_answer(answerable, refusal):
    two = [verdict(refusal=said, answerable=answerable) for said in (True, False)]
    assert vote(*two).refusal is refusal
    assert vote(*two, verdict(refusal=not refusal, answerable=answerable)).refusal is not refusal


def ratings(**by_rater):
    return [one.model_copy(update={"rater": name}) for name, one in by_rater.items()]


def judged(*labels, **changes):
    return Rating(verdict=verdict(*labels, **changes), usage=Usage(calls=1, cost_usd=0.25))


def test_what_any_judge_marks_is_marked():
    a = judged(suspicious=("Q", "A1"))
    whole = combine(ratings(a=a, b=judged(suspicious=("A1", "C1.1")))).verdict
    assert whole.suspicious == ("Q", "A1", "C1.1")


def test_a_tie_of_one_judges_samples_goes_to_the_first():
    def samples(*supports):
        return [judged(one).model_copy(update={"rater": "a", "sample": n}) for n, one in enumerate(supports, 1)]

    def elected(*supports):
        return combine(samples(*supports)).verdict.sentences[0].support

    assert elected("supported", "not_found") == "supported"
    assert elected("not_found", "supported") == "not_found"
    assert elected("supported", "not_found", "not_found", "not_found") == "not_found"


def test_samples_of_one_judge_are_one_vote_among_judges():
    samples = [judged("supported").model_copy(update={"rater": "a", "sample": n}) for n in (1, 2, 3)]
    whole = combine([*samples, *ratings(b=judged("not_found"), c=judged("not_found"))])
    assert whole.verdict.sentences[0].support == "not_found"  # of five ratings two, of three judges two
    assert (whole.verdict.judge, whole.usage.calls) == ("jury of a, b, c", 5)
    assert combine(samples).verdict.judge == "a"


def test_rating_of_one_judge_stays_as_it_is_and_a_reference_judge_has_no_vote():
    one = judged("supported", scores={"support_score": 0.8})
    assert combine([one]) is one
    reference = judged("not_found", suspicious=("A1",)).model_copy(update={"rater": "r", "role": "reference"})
    whole = combine([*ratings(a=one), reference])
    assert (whole.verdict.sentences, whole.verdict.suspicious) == (one.verdict.sentences, ("A1",))
    assert whole.usage.calls == 2


def test_too_few_verdicts_make_none_and_say_why():
    failed = Rating(reason="it failed")
    assert combine(ratings(a=judged("partly"), b=failed)).verdict
    assert combine(ratings(a=judged("partly"), b=failed, c=failed)).reason == (
        "2 of 3 judges gave no verdict: b: it failed; c: it failed"
    )


def test_spread_is_pooled_over_groups():
    # squares 0.5 x 0.5 x 2 = 0.5 with 1 degree of freedom, and 0 with 2: sqrt(0.5 / 3)
    assert spread([(0.0, 1.0), (1.0, 1.0, 1.0), (0.3,)]) == pytest.approx((0.5 / 3) ** 0.5)
    assert spread([(0.3,)]) is None
