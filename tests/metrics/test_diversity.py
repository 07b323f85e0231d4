"""Novelty, diversity of texts, and freshness."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ragassay.core.errors import Unavailable
from ragassay.core.models import Response, Sample, seconds
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.metric import parse
from ragassay.metrics.scoring import score_chunk

DAY = 86_400


class Axes:
    """Embeds a text as the axis that it names."""

    name = "axes"

    def embed(self, texts):
        return np.array([np.eye(3)["xyz".index(text)] for text in texts], np.float32)


class Away(Axes):
    def embed(self, texts):
        raise Unavailable("the model is away")


def spread(*lists, embedder=None, k=10):
    samples = [
        Sample(query_id=f"q{n}", query="?", response=Response(contexts=contexts)) for n, contexts in enumerate(lists)
    ]
    return score_chunk(parse(f"intra_list_diversity@{k}"), Chunk(samples, embedder=embedder or Axes()))


def test_diversity_of_a_list_is_the_mean_distance_of_its_pairs():
    # x y: 1, x x: 0, y x: 1
    both, cut, same = spread(["x", "y", "x"], ["x", "x", "y"], ["z", "z"])
    assert (both.value, both.details) == (pytest.approx(2 / 3, abs=1e-6), {"pairs": 3})
    assert (cut.value, same.value) == (pytest.approx(2 / 3, abs=1e-6), 0.0)
    assert spread(["x", "x", "y"], k=2)[0].value == 0.0


def test_one_context_has_no_diversity():
    one, none = spread(["x"], [])
    assert (one.value, one.missing, none.missing) == (None, "undefined", "undefined")


def test_without_an_embedder_diversity_is_missing_with_the_reason():
    sample = Sample(query_id="q", query="?", response=Response(contexts=["x", "y"]))
    score = score_chunk(parse("intra_list_diversity@5"), Chunk([sample], no_embedder="install the extra models"))[0]
    assert (score.value, score.missing, score.reason) == (None, "no_input", "install the extra models")


def test_an_embedder_that_fails_is_a_failed_score():
    assert spread(["x", "y"], embedder=Away())[0].missing == "failed"


def novelty(retrieved, subtopics, k=3):
    response = None if retrieved is None else Response(retrieved_doc_ids=retrieved)
    sample = Sample(query_id="q", query="?", subtopics=subtopics, response=response)
    return score_chunk(parse(f"alpha_ndcg@{k}"), Chunk([sample]))[0]


def test_ndeval_gives_the_same_novelty():
    cases = json.loads((Path(__file__).parents[1] / "vectors" / "alpha_ndcg.json").read_text())["cases"]
    for case in cases:
        got = {name: novelty(case["retrieved"], case["subtopics"], int(name[11:])).value for name in case["expected"]}
        assert got == pytest.approx(case["expected"], abs=1e-6), case


def test_novelty_of_nothing_is_zero_and_of_no_labels_missing():
    assert novelty([], {"a": ["1"]}).value == 0.0
    assert novelty(["a"], {}).value == 0.0
    assert novelty(None, {"a": ["1"]}).value == 0.0
    assert novelty(["a"], None).reason == "the query has no subtopics"


def fresh(retrieved, judgments, timestamps, k=3):
    response = Response(retrieved_doc_ids=retrieved)
    sample = Sample(query_id="q", query="?", relevance_scores=judgments, doc_timestamps=timestamps, response=response)
    return score_chunk(parse(f"time_decayed_ndcg@{k}"), Chunk([sample]))[0]


def test_time_decayed_ndcg_halves_the_gain_after_365_days():
    discount = 0.6309297536
    score = fresh(["old", "new"], {"old": 1, "new": 1}, {"old": 0, "new": 365 * DAY})
    assert score.value == pytest.approx((0.5 + discount) / (1 + 0.5 * discount))


def test_a_relevant_document_without_a_timestamp_makes_the_score_missing():
    score = fresh(["a"], {"a": 1, "n": 0}, {"b": 0})
    assert (score.missing, score.reason) == ("no_input", "relevant document 'a' has no timestamp")
    assert fresh(["n", "a"], {"a": 1, "n": 0}, {"a": 0}).value == pytest.approx(0.6309297536)


def test_nothing_relevant_is_zero():
    assert fresh(["n"], {"n": 0}, {}).value == 0.0


TIMES = st.fixed_dictionaries(dict.fromkeys("abc", st.integers(0, 4000)))


@given(TIMES, st.integers(0, 10_000))
def test_only_the_differences_of_age_count(days, later):
    judgments = {"a": 1, "b": 2, "c": 3}
    now, then = ({d: (t + shift) * DAY for d, t in days.items()} for shift in (0, later))
    assert fresh(list("abc"), judgments, now).value == pytest.approx(fresh(list("abc"), judgments, then).value)


def test_timestamps_are_seconds_or_iso_dates_in_utc_and_anything_else_is_a_bad_row():
    assert seconds("1970-01-02") == seconds("1970-01-02T01:00:00+01:00") == seconds(DAY) == DAY
    with pytest.raises(ValidationError, match="'yesterday' is neither an ISO 8601 date nor seconds since 1970"):
        Sample(query_id="q", query="?", doc_timestamps={"a": "yesterday"})


def test_a_blank_context_is_left_out_and_ends_nothing():
    class Strict(Axes):
        def embed(self, texts):
            assert all(text.strip() for text in texts)
            return super().embed(texts)

    blank, spoken = spread(["x", " ", "y"], embedder=Strict()), spread(["x", "y"])
    assert [score.value for score in blank] == [score.value for score in spoken]


def test_alpha_ndcg_of_too_many_documents_has_a_reason():
    subtopics = {f"d{n}": ["a", "b"] for n in range(2000)}  # 2,000 x 4,000 gains
    sample = Sample(query_id="q", query="?", subtopics=subtopics, response=Response(retrieved_doc_ids=list(subtopics)))
    found = score_chunk(parse("alpha_ndcg@2000"), Chunk([sample]))[0]
    assert (found.value, "too many documents" in found.reason) == (None, True)
    assert score_chunk(parse("alpha_ndcg@10"), Chunk([sample]))[0].value is not None
