"""The vote of a jury, unit by unit, and how far its members agree; the arithmetic stands beside the expected number."""

import pytest

from ragassay.core.models import CriterionVerdict, FactVerdict, Judgement, Result, SentenceVerdict, Usage, Verdict
from ragassay.judges.jury import voted
from ragassay.judges.jury_agreement import JuryCount, divided, kappa


def verdict(support=None, truth=None, covered=None, *, evidence=(), held=(), **changes):
    sentence = {"support": support, "truth": truth, "evidence": evidence, "why": f"{support} by {evidence}"}
    return Verdict(
        judge="one",
        sentences=(SentenceVerdict(id="A1", text="So.", **{**sentence, **changes.pop("scores", {})}),),
        facts=(FactVerdict(id="G1", text="So.", covered=covered, evidence=held),),
        **{"has_contexts": True, "has_truth": True, **changes},
    )


def vote(*verdicts, members=None):
    return voted(verdicts, members or len(verdicts), "jury")


@pytest.mark.parametrize(
    ("given", "elected"),
    [
        (("supported", "supported", "contradicted"), "supported"),
        (("supported", "partly"), "partly"),
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


def test_truth_and_cover_are_voted_on_apart():
    found = vote(verdict("supported", "agrees", "yes"), verdict("supported", "absent", "partly"))
    assert (found.sentences[0].truth, found.facts[0].covered) == ("absent", "partly")
    found = vote(verdict(truth="absent", covered="partly"), verdict(truth="conflicts", covered="no"))
    assert (found.sentences[0].truth, found.facts[0].covered) == ("conflicts", "no")


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


def test_a_jury_votes_on_labels_and_has_no_probe_scores():
    found = vote(
        verdict("supported", scores={"support_score": 0.8}, probability={"faithfulness": 0.9}),
        verdict("supported", scores={"support_score": 0.6}, probability={"faithfulness": 0.5}),
        verdict("not_found", "absent"),
    )
    assert (found.sentences[0].support, found.sentences[0].support_score) == ("supported", None)
    assert found.probability == {"faithfulness": pytest.approx(0.7)}


def test_what_any_member_marks_is_marked_and_what_was_dropped_is_added_up():
    found = vote(
        verdict(suspicious=("Q", "A1"), evidence_dropped=2), verdict(suspicious=("A1", "C1.1"), support_withdrawn=1)
    )
    assert found.suspicious == ("Q", "A1", "C1.1")
    assert (found.evidence_dropped, found.support_withdrawn) == (2, 1)


def row(**members):
    return Result(query_id="q", system="s", query="?", members=members)


def judged(*labels, **changes):
    return Judgement(verdict=verdict(*labels, **changes), usage=Usage(calls=1, cost_usd=0.25))


def test_a_row_tells_where_its_members_differ():
    members = {
        "a": judged("supported", "agrees", "yes"),
        "b": judged("partly", "agrees", "no"),
        "c": judged("partly", "agrees"),
        "d": Judgement(reason="it failed"),
    }
    assert list(divided(members)) == ["A1 support: partly 2, supported 1", "G1 covered: yes 1, no 1"]


def test_the_count_of_a_jury_says_who_failed_and_who_is_with_the_others():
    rows = [
        row(a=judged("supported"), b=judged("supported"), c=judged("not_found")),
        row(a=judged("supported"), b=judged("not_found"), c=Judgement(reason="it failed")),
        row(a=judged("supported"), b=Judgement(reason="it failed"), c=Judgement(reason="so did it")),
    ]
    count = JuryCount()
    for one in rows:
        count.add(one)
    jury = count.jury
    a, b, c = jury.members
    assert (jury.rows, jury.divided, jury.without_verdict) == (3, 2, 1)
    assert [(one.judged, one.failed) for one in (a, b, c)] == [(3, 0), (2, 1), (1, 2)]
    assert (c.reasons, a.usage.cost_usd) == ({"it failed": 1, "so did it": 1}, 0.75)
    # the jury says supported, then not_found (a tie); of the third row it says nothing
    assert [(one.labels["support"].n, one.labels["support"].agreed) for one in (a, b, c)] == [(2, 1), (2, 2), (1, 0)]
    assert [(one.a, one.b, one.labels.n, one.labels.agreed) for one in jury.pairs] == [
        ("a", "b", 2, 1),
        ("a", "c", 1, 0),
        ("b", "c", 1, 0),
    ]
    assert JuryCount().jury is None


def test_kappa_is_what_is_agreed_on_beyond_chance():
    table = {("yes", "yes"): 20, ("yes", "no"): 5, ("no", "yes"): 10, ("no", "no"): 15}
    # alike (20 + 15) / 50 = 0.7; by chance 25/50 x 30/50 + 25/50 x 20/50 = 0.5
    assert kappa([table]) == pytest.approx((0.7 - 0.5) / (1 - 0.5))
    # of another kind all 50 are alike, and by chance all would be: nothing to agree on beyond it
    assert kappa([{("full", "full"): 50}]) is None
    assert kappa([table, {("full", "full"): 50}]) == pytest.approx((85 - 75) / (100 - 75))
    assert kappa([]) is None
