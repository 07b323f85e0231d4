"""Metrics of one's own: functions, classes and objects, with whatever they may do wrong."""

import asyncio
import math
import time

import numpy as np
import pytest

from offline_runs import results_of, sample
from ragassay.core.errors import BadSettings, UnknownName
from ragassay.core.models import Sample, Score
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.metric import METRICS, metric, name_of
from ragassay.metrics.ranked import Ranked

pytestmark = pytest.mark.usefixtures("own_things")


def scores(name, samples, **options):
    """The scores that an evaluation gives, which never raises here."""
    return [row.scores[name] for row in results_of(samples, name, accurate="exact_match >= 1", **options)]


def second_is(value):
    """A metric that gives 1, and for the second query what ``value()`` gives."""

    @metric(better="higher", bounds=(0, 1))
    def own(row: Sample):
        return value() if row.query_id == "q2" else 1.0


def raises(error):
    raise error


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (lambda: raises(ValueError("no such river")), "own raised ValueError: no such river"),
        (lambda: math.nan, "own returned nan"),
        (lambda: "good", "own returned 'good', not a number"),
        (lambda: np.array([0.5, 0.1]), "own returned a ndarray, not a number"),
        (lambda: 1.5, "own returned 1.5, outside its bounds 0 to 1"),
        (lambda: Score(value=1, details={"a": object()}), "own returned details that JSON can't hold"),
    ],
)
def test_what_a_metric_does_wrong_costs_that_score_alone(value, reason):
    second_is(value)
    first, second, third = scores("own", [sample(1), sample(2), sample(3)])
    assert (first.value, third.value) == (1.0, 1.0)
    assert second == Score.absent(reason, "failed")


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (lambda: [0.5], "whole returned 1 values for 2 rows"),
        (lambda: np.zeros((2, 2)), "whole returned a list, not a number"),
    ],
)
@pytest.mark.parametrize("seen", [Chunk, Ranked])
def test_a_metric_of_a_whole_chunk_that_breaks_costs_its_own_scores(seen, returned, reason):
    def whole(chunk):
        return returned()

    whole.__annotations__["chunk"] = seen
    metric(better="higher")(whole)
    assert scores("whole", [sample(1), sample(2)]) == [Score.absent(reason, "failed")] * 2
    assert [score.value for score in scores("mrr", [sample(1), sample(2)])] == [1.0, 1.0]


def test_an_async_metric_that_hangs_is_given_up_and_one_that_cancels_itself_fails():
    @metric(better="higher")
    async def stuck(row: Sample) -> float:
        if row.query_id == "q1":
            raise asyncio.CancelledError
        await asyncio.sleep(3600 if row.query_id == "q2" else 0)
        return 1.0

    began = time.monotonic()
    first, second, third = scores("stuck", [sample(1), sample(2), sample(3)], performance={"timeout_s": 0.5})
    assert time.monotonic() - began < 30
    assert first.reason == "stuck raised CancelledError: CancelledError"
    assert second.reason == "stuck gave no score within 0.5 s"
    assert third.value == 1.0


class Found:
    name = "found"

    def compute(self, retrieved_ids, relevant_ids, k=2):
        return relevant_ids.index(next(one for one in retrieved_ids[:k] if one in relevant_ids)) + len(relevant_ids)


class FoundLater:
    better, bounds = "lower", (0, 5)

    async def compute(self, relevant_ids, retrieved_ids):
        await asyncio.sleep(0)
        return retrieved_ids.index(relevant_ids[-1])


def test_an_object_with_compute_of_ids_is_given_the_retrieved_and_the_relevant_ones():
    grades = {"d1": 1.0, "d2": 2.0, "d3": 0.0, "d4": -1.0}
    rows = [
        sample(1, relevant_doc_ids=None, relevance_scores=grades, retrieved_doc_ids=["d3", "d2", "d1"]),
        sample(2, relevant_doc_ids=None, relevance_scores=grades, retrieved_doc_ids=[]),
        sample(3, relevant_doc_ids=None, retrieved_doc_ids=["d1"]),
    ]
    names = [name_of(Found()), "found@1", name_of(FoundLater)]
    assert names[2] == "FoundLater"
    values = [[score.value for score in scores(name, rows)] for name in names]
    assert values == [[1 + 2, None, None], [None] * 3, [1.0, None, None]]  # d2 is the second of two; of d3 nothing
    assert scores("found", rows)[1].reason == "found raised StopIteration: StopIteration"
    assert scores("found", rows)[2].reason == "the query has no relevance judgments"
    assert [score.value for score in scores("found", rows[:1], relevant_from=2.0)] == [0 + 1]
    assert [(METRICS.get(name).better, METRICS.get(name).kind) for name in ("found", "FoundLater")] == [
        ("higher", "retrieval"),
        ("lower", "retrieval"),
    ]


def declared(**options):
    return metric(**{"better": "higher", "name": "own", **options})(lambda row: 1.0)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: declared(name="faithfulness"), "is one of ours"),
        (lambda: declared(name="answer_relevancy"), "means relevance"),
        (lambda: declared(name="a@5"), "letters, digits"),
        (lambda: declared(better="up"), "higher or lower"),
        (lambda: declared(needs="ground_thruth"), "unknown input 'ground_thruth'"),
        (lambda: metric(better="higher", name="own")(lambda row, other: 1.0), "other.* call the two retrieved_ids and"),
        (lambda: metric(better="higher", name="own")(lambda retrieved_ids, relevant_ids, other: 1.0), "other"),
        (lambda: metric(better="higher")(type("Own", (), {})), "compute"),
    ],
)
def test_a_declaration_that_cannot_be_meant_is_refused_at_once(make, error):
    with pytest.raises((BadSettings, UnknownName), match=error):
        make()
