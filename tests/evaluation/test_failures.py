"""One cause for each answer that is not accurate, and what accuracy would be if each cause were gone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade_reports import make_report
from ragassay.core.models import FactVerdict, Result, Score, SentenceVerdict, Verdict
from ragassay.metrics.failures import attribute
from ragassay.reporting.objects import Report


def row(
    number=1, *, accurate=0.0, rank=1, relevant=2, answerable=True, refusal=False, relevance="full",
    support=("supported",), truth=("agrees",), covered=("yes",), held=(True,), judged=True, contexts=True, query="?",
):  # fmt: skip
    """A row whose answer has a sentence per entry of ``support`` and a fact per entry of ``covered``."""
    scores = {"accurate": Score(value=accurate) if accurate is not None else Score.absent("no answer", "no_input")}
    sentences = enumerate(zip(support, truth, strict=True), 1)
    facts = enumerate(zip(covered, held, strict=True), 1)
    verdict = Verdict(
        judge="t", has_contexts=contexts, has_truth=True, refusal=refusal, relevance=relevance,
        sentences=tuple(SentenceVerdict(id=f"A{n}", text="a", support=s, truth=t) for n, (s, t) in sentences),
        facts=tuple(
            FactVerdict(id=f"F{n}", text="f", covered=c, evidence=("C1.1",) if h else ()) for n, (c, h) in facts
        ),
    )  # fmt: skip
    return Result(
        query_id=f"q{number}", system="s", query=query, answerable=answerable, relevant=relevant,
        relevant_ranks=None if rank is None else (rank,) if rank else (), scores=scores, verdict=verdict if judged else None,
    )  # fmt: skip


NO_FACT, NO_JUDGMENTS = {"covered": ["no"], "held": [False]}, {"rank": None, "relevant": None}
NOTHING = {**NO_JUDGMENTS, "contexts": False, "answerable": None}
HALF_HELD = {"covered": ["yes", "no"], "held": [True, False]}
HALF_COVERED = {"covered": ["yes", "no"], "held": [True, True]}
QUARTER_COVERED = {"covered": ["partly", "no"], "held": [True, True]}
CONFLICT = {"support": ["supported"] * 2, "truth": ["agrees", "conflicts"], **NO_FACT}
DENIED = {"support": ["contradicted"], "relevance": "barely", "covered": ["no"]}
THREE_QUARTERS = {"support": ["supported", "partly"], "truth": ["agrees", "absent"]}
CAUSES = {
    "answered what can't be": ({"answerable": False, "rank": 0}, "answered_the_unanswerable", "the unanswerable"),
    "left what can't be answered empty": ({"answerable": False, "support": (), "truth": ()}, None, "is empty"),
    "nothing relevant retrieved": ({"rank": 0, "support": ["not_found"]}, "retrieval_miss", "none of 2 relevant"),
    "no judgments, no fact held": ({**NO_JUDGMENTS, **NO_FACT}, "retrieval_miss", "no fact"),
    "refused with the facts at hand": ({"refusal": True, "covered": ["no"]}, "wrong_refusal", "hold 100% of the facts"),
    "refused, nothing known": ({"refusal": True, **NOTHING}, "wrong_refusal", "as far as is known"),
    "refused without a fact": ({"refusal": True, **NO_FACT}, "wrong_refusal", "refusal: the contexts hold 0% of the"),
    "refused, nothing relevant": ({"refusal": True, "rank": 0}, "retrieval_miss", "refused: none of 2 relevant"),
    "supported and conflicting": (CONFLICT, "gold_suspect", "the contexts support A2"),
    "relevant too low": ({"rank": 4, "covered": ["no"]}, "ranking_miss", "rank 4"),
    "facts not in the contexts": (HALF_HELD, "ranking_miss", "hold 50% of the facts"),  # 1 of 2
    "contradicted and off topic": (DENIED, "unfaithful", "A1 is contradicted by the contexts"),
    "off topic": ({"relevance": "barely", "covered": ["no"]}, "off_topic", "0.25"),
    "unfaithful": (THREE_QUARTERS, "unfaithful", "faithfulness is 0.75"),  # (1 + 0.5) / 2 < 0.8
    "contexts unused": (QUARTER_COVERED, "contexts_unused", "the answer covers 25%"),  # (0.5 + 0) / 2 < 0.5
    "incomplete": (HALF_COVERED, "incomplete", "covers 50%"),  # (1 + 0) / 2
    "all fine": ({}, None, "only the accuracy rule"),
    "not judged": ({"judged": False}, None, "no verdict"),
}


@pytest.mark.parametrize(("fields", "cause", "says"), CAUSES.values(), ids=CAUSES)
def test_the_cause_is_the_first_that_holds(fields, cause, says):
    attribution = attribute(row(**fields))
    assert attribution.cause == cause
    assert says in attribution.why


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


@given(st.lists(ROWS, min_size=1, max_size=12))
def test_every_row_is_counted_exactly_once(rows):
    rows = [one.model_copy(update={"query_id": f"q{n}"}) for n, one in enumerate(rows, 1)]
    report, accuracy = make_report(rows), [one.scores["accurate"].value for one in rows]
    found, by_cause = report.systems["default"].fix_first, Report(**dict(report)).failures["default"]
    assert sum(map(len, by_cause.values())) == accuracy.count(0.0)
    if found is None:
        assert not by_cause
        return
    counts = {fix.cause: fix.rows for fix in found.causes} | {"not_attributed": found.unattributed}
    assert {cause: n for cause, n in counts.items() if n} == {cause: len(of) for cause, of in by_cause.items()}
    assert found.unknown == accuracy.count(None)


# --- what to fix first ----------------------------------------------------------------------------------------------

MISSED, LOW, RIGHT = {"rank": 0}, {"rank": 9}, {"accurate": 1.0}


def fix_first(*rows):
    """What to fix first on rows that are each about a question of their own, unless they say another one."""
    made = [row(n, **{"query": f"{n}?", **fields}) for n, fields in enumerate(rows)]
    return make_report(made).systems["default"].fix_first


def test_each_cause_alone_and_one_after_the_other():
    found = fix_first(*[RIGHT] * 4, *[MISSED] * 2, *[LOW] * 3, {}, {"accurate": None})
    assert (found.accurate.value, found.accurate.n, found.unattributed, found.unknown) == (0.4, 10, 1, 1)
    first, second = found.causes
    assert [(one.cause, one.rows) for one in (first, second)] == [("ranking_miss", 3), ("retrieval_miss", 2)]
    # 4 of 10 are accurate; (4 + 3) / 10, then (4 + 2) / 10; both: (4 + 3 + 2) / 10, as no cause is known of one row
    assert [one.alone.value for one in (first, second)] == pytest.approx([0.7, 0.6])
    assert [one.gain.value for one in (first, second)] == pytest.approx([0.3, 0.2])
    assert [one.cumulative.value for one in (first, second)] == pytest.approx([0.7, 0.9])
    assert first.alone.interval.low < 0.7 < first.alone.interval.high
    assert (first.leads, second.leads) == (False, None), "three rows against two show nothing"


def test_a_cause_leads_if_the_rows_show_that_it_costs_more():
    assert [one.leads for one in fix_first(*[LOW] * 5, *[MISSED] * 55).causes] == [True, None]


def test_several_answers_to_a_question_are_averaged_first():
    found = fix_first(*({**LOW, "accurate": float(n < 4), "query": f"{n // 2}?"} for n in range(20)))
    # two of ten questions are answered accurately, each by both of its answers
    assert (found.accurate.value, found.accurate.n, found.accurate.interval.method) == (0.2, 20, "wilson")
    [alone] = [one.alone for one in found.causes]
    assert (alone.value, alone.interval.low) == (1.0, pytest.approx(0.722, abs=0.001))  # Wilson's of 10 of 10


def test_failures_without_a_known_cause_are_counted_and_without_a_failure_there_is_nothing_to_fix():
    found = fix_first(RIGHT, {})
    assert (found.causes, found.unattributed, found.accurate.value) == ((), 1, 0.5)
    assert fix_first(RIGHT, {"accurate": None}) is None
