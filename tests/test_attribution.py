"""One cause for each answer that is not accurate, and none for the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragassay.core.models import FactVerdict, Result, Score, SentenceVerdict, Verdict
from ragassay.metrics.failures import attribute, failures


def row(
    number=1, *, accurate=0.0, rank=1, relevant=2, answerable=True, refusal=False, relevance="full",
    support=("supported",), truth=("agrees",), covered=("yes",), held=(True,), judged=True, contexts=True,
):  # fmt: skip
    """A row whose answer has a sentence per entry of ``support`` and a fact per entry of ``covered``."""
    scores = {"accurate": Score(value=accurate) if accurate is not None else Score.absent("no answer", "no_input")}
    verdict = Verdict(
        judge="t",
        has_contexts=contexts,
        has_truth=True,
        refusal=refusal,
        relevance=relevance,
        sentences=tuple(
            SentenceVerdict(id=f"A{n}", text="a", support=s, truth=t)
            for n, (s, t) in enumerate(zip(support, truth, strict=True), 1)
        ),
        facts=tuple(
            FactVerdict(id=f"F{n}", text="f", covered=c, evidence=("C1.1",) if h else ())
            for n, (c, h) in enumerate(zip(covered, held, strict=True), 1)
        ),
    )
    return Result(
        query_id=f"q{number}", system="s", query="?", answerable=answerable, relevant=relevant,
        relevant_ranks=None if rank is None else (rank,) if rank else (), scores=scores, verdict=verdict if judged else None,
    )  # fmt: skip


CAUSES = {
    "answered what can't be": (
        {"answerable": False, "rank": 0},
        "answered_the_unanswerable",
        "answered the unanswerable",
    ),
    "left what can't be answered empty": ({"answerable": False, "support": (), "truth": ()}, None, "is empty"),
    "nothing relevant retrieved": ({"rank": 0, "support": ["not_found"]}, "retrieval_miss", "none of 2 relevant"),
    "no judgments, no fact held": (
        {"rank": None, "relevant": None, "covered": ["no"], "held": [False]},
        "retrieval_miss",
        "no fact",
    ),
    "refused with the facts at hand": ({"refusal": True, "covered": ["no"]}, "wrong_refusal", "hold 100% of the facts"),
    "refused, contexts unknown": ({"refusal": True, "contexts": False}, "wrong_refusal", "at rank 1"),
    "refused, nothing known": (
        {"refusal": True, "contexts": False, "rank": None, "relevant": None, "answerable": None},
        "wrong_refusal",
        "as far as is known",
    ),
    "refused without a fact at hand": (
        {"refusal": True, "covered": ["no"], "held": [False]},
        "wrong_refusal",
        "wrong refusal: the contexts hold 0% of the facts",
    ),
    "refused with nothing relevant at hand": (
        {"refusal": True, "rank": 0},
        "retrieval_miss",
        "the system refused: none of 2 relevant documents was retrieved",
    ),
    "refused with no fact at hand, no judgments": (
        {"refusal": True, "rank": None, "relevant": None, "covered": ["no"], "held": [False]},
        "retrieval_miss",
        "the system refused: the contexts hold 0% of the facts",
    ),
    "supported and conflicting": (
        {"support": ["supported", "supported"], "truth": ["agrees", "conflicts"], "covered": ["no"], "held": [False]},
        "gold_suspect",
        "the contexts support A2",
    ),
    "relevant too low": ({"rank": 4, "covered": ["no"]}, "ranking_miss", "rank 4"),
    # 1 of 2 facts is in the contexts
    "facts not in the contexts": (
        {"covered": ["yes", "no"], "held": [True, False]},
        "ranking_miss",
        "hold 50% of the facts",
    ),
    "contradicted and off topic": (
        {"support": ["contradicted"], "relevance": "barely", "covered": ["no"]},
        "unfaithful",
        "A1 is contradicted by the contexts",
    ),
    "off topic": ({"relevance": "barely", "covered": ["no"]}, "off_topic", "0.25"),
    # (1 + 0.5) / 2 = 0.75 < 0.8
    "unfaithful": (
        {"support": ["supported", "partly"], "truth": ["agrees", "absent"]},
        "unfaithful",
        "faithfulness is 0.75",
    ),
    # (0.5 + 0) / 2 = 0.25 < 0.5
    "contexts unused": (
        {"covered": ["partly", "no"], "held": [True, True]},
        "contexts_unused",
        "the answer covers 25%",
    ),
    # (1 + 0) / 2 = 0.5
    "incomplete": ({"covered": ["yes", "no"], "held": [True, True]}, "incomplete", "covers 50%"),
    "all fine": ({}, None, "only the accuracy rule"),
    "not judged": ({"judged": False}, None, "no verdict"),
    "nothing relevant exists": ({"relevant": 0, "rank": 0}, None, "only the accuracy rule"),
}


@pytest.mark.parametrize("case", CAUSES, ids=lambda name: name.replace(" ", "-"))
def test_the_cause_is_the_first_that_holds(case):
    fields, cause, says = CAUSES[case]
    attribution = attribute(row(**fields))
    assert attribution.cause == cause
    assert says in attribution.why


def test_an_accurate_row_and_one_of_unknown_accuracy_have_no_failure():
    assert attribute(row(accurate=1.0, rank=0)) is None
    assert attribute(row(accurate=None, rank=0)) is None
    assert attribute(Result(query_id="q", system="s", query="?")) is None


def test_an_earlier_cause_hides_a_later_one():
    everything = {"rank": 0, "support": ["not_found"], "covered": ["no"], "held": [False], "relevance": "none"}
    assert attribute(row(**everything)).cause == "retrieval_miss"
    assert attribute(row(**{**everything, "rank": 5})).cause == "ranking_miss"
    assert attribute(row(**{**everything, "rank": 1, "held": [True]})).cause == "off_topic"
    better = {**everything, "rank": 1, "held": [True], "relevance": "full"}
    assert attribute(row(**better)).cause == "unfaithful"
    assert attribute(row(**{**better, "support": ["supported"]})).cause == "contexts_unused"


def test_attribute_does_not_depend_on_the_metrics_of_the_run():
    missed = row(rank=0, support=["not_found"])
    assert set(missed.scores) == {"accurate"}
    assert attribute(missed).cause == "retrieval_miss"


def test_counts_add_up_and_examples_are_the_first_rows():
    rows = [row(n, rank=0) for n in range(1, 5)]
    rows += [row(5), row(6, accurate=1.0), row(7, accurate=None), Result(query_id="q8", system="s", query="?")]
    summary = failures(rows, examples=2)
    # 8 rows: 1 accurate, 4 + 1 not, 2 unknown
    assert (summary.rows, summary.accurate, summary.inaccurate, summary.unknown) == (8, 1, 5, 2)
    assert {cause: counted.n for cause, counted in summary.causes.items()} == {"retrieval_miss": 4}
    assert [example.query_id for example in summary.causes["retrieval_miss"].examples] == ["q1", "q2"]
    assert summary.unattributed == {"every part that was checked is fine, only the accuracy rule is not met": 1}
    assert summary.unknown_reasons == {"accurate was not computed": 1, "no answer": 1}


ROWS = st.builds(
    row,
    accurate=st.sampled_from([0.0, 1.0, None]),
    rank=st.sampled_from([None, 0, 1, 3, 4]),
    relevant=st.sampled_from([None, 0, 2]),
    answerable=st.sampled_from([None, True, False]),
    refusal=st.sampled_from([None, True, False]),
    relevance=st.sampled_from([None, "none", "barely", "full"]),
    support=st.sampled_from([(s,) for s in (None, "supported", "partly", "contradicted", "not_found")]),
    truth=st.sampled_from([(None,), ("agrees",), ("conflicts",), ("absent",)]),
    covered=st.sampled_from([(None,), ("yes",), ("partly",), ("no",)]),
    held=st.sampled_from([(True,), (False,)]),
    judged=st.booleans(),
    contexts=st.booleans(),
)


@given(st.lists(ROWS, max_size=12))
def test_every_row_is_counted_exactly_once(rows):
    summary = failures(rows)
    assert summary.accurate + summary.inaccurate + summary.unknown == summary.rows == len(rows)
    assert sum(c.n for c in summary.causes.values()) + sum(summary.unattributed.values()) == summary.inaccurate
    assert sum(summary.unknown_reasons.values()) == summary.unknown
    assert summary.accurate == sum(r.scores["accurate"].value == 1.0 for r in rows)
