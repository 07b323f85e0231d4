"""Retrieval metrics: worked values, and random rankings with tied scores against trec_eval, ir_measures and scipy."""

from __future__ import annotations

import json
import math
from pathlib import Path

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats

from fakes import score_chunk
from ragassay import Ranked, retrieval
from ragassay.core.errors import BadInput, BadSettings, NothingToEvaluate, UnknownName
from ragassay.core.models import Response, Sample
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.metric import METRICS, parse
from ragassay.metrics.names import SPELLINGS

CASES = json.loads((Path(__file__).parents[1] / "vectors" / "retrieval.json").read_text())["cases"]
DOCS = [f"d{n}" for n in range(8)]
RANKING = st.permutations(DOCS).flatmap(lambda docs: st.integers(0, len(docs)).map(lambda n: docs[:n]))
GRADES = st.dictionaries(st.sampled_from([*DOCS, "never", "seen"]), st.integers(-2, 3), max_size=10)
TREC = {
    "precision@3": "P_3", "recall@5": "recall_5", "hit@1": "success_1", "mrr": "recip_rank", "ndcg@5": "ndcg_cut_5",
    "map": "map", "map@3": "map_cut_3", "r_precision": "Rprec", "bpref": "bpref",
}  # fmt: skip

MEASURES = {
    "map@5": "AP@5", "ndcg_exp@5": "nDCG(gains={2:3,3:7})@5", "hit@5": "Success@5",
    "recall@5": "R@5", "bpref": "Bpref",
}  # fmt: skip


def sample(retrieved, judgments, **more):
    return Sample(
        query_id="q", query="what?", relevance_scores=judgments, response=Response(retrieved_doc_ids=retrieved), **more
    )


def score(name, *samples, **options):
    """The scores of these samples."""
    return score_chunk(parse(name), Chunk(list(samples), **options))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_worked_values_are_met_to_1e_9(case):
    def row():
        return sample(case["retrieved"], case["judgments"], **case.get("sample", {}))

    if "error" in case:
        with pytest.raises(ValidationError, match=case["error"]):
            row()
        return
    assert {name: score(name, row())[0].value for name in case["expected"]} == pytest.approx(case["expected"], abs=1e-9)
    if "run" in case:
        evaluation = retrieval({"q": case["judgments"]}, {"q": case["run"]}, case["expected"])
        assert evaluation.per_query["q"] == pytest.approx(case["expected"], abs=1e-9)


def test_details_tell_how_a_score_came_about():
    # ranks: x (0), a (2), b (1); dcg@2 = 2 / log2(3); ideal = 2 / log2(2) + 1 / log2(3)
    (scored,) = score("ndcg@2", sample(["x", "a", "b"], {"a": 2, "b": 1}))
    found, gains = {"k": 2, "relevant_in_k": 1, "relevant": 2, "first_relevant_rank": 2}, (1.2618595071, 2.6309297535)
    assert scored.details == {**found, "dcg": pytest.approx(gains[0]), "idcg": pytest.approx(gains[1])}


def test_a_query_without_judgments_is_missing_and_one_with_nothing_relevant_is_zero():
    response = Response(retrieved_doc_ids=["a"])
    unjudged = Sample(query_id="q1", query="?", response=response)
    nothing_relevant = Sample(query_id="q2", query="?", relevant_doc_ids=[], response=response)
    failed = Sample(query_id="q3", query="?", relevant_doc_ids=["a"], response=Response(error="no reply: refused"))
    first, second, third = score("recall@5", unjudged, nothing_relevant, failed)
    assert (first.value, first.missing) == (None, "no_input")
    assert "no relevance judgments" in first.reason
    assert second.value == 0.0
    assert third.reason == "the system failed: no reply: refused"


@pytest.mark.parametrize("name", ["bpref", "q_measure@3", "judged@3", "err@3", "rbp@0.8"])
def test_an_empty_list_and_a_missing_response_score_zero(name):
    silent = Sample(query_id="q", query="?", relevance_scores={"a": 1})
    empty, missing = score(name, sample([], {"a": 1}), silent)
    assert (empty.value, missing.value) == (0.0, 0.0)
    assert missing.reason == "the system gave no response, which counts as nothing retrieved"


# --- names ---


@pytest.mark.parametrize(
    "bad", ["ndcg@0", "ndcg@-1", "ndcg@1.5", "ndcg@x", "precision", "rbp@1", "rbp@0", "faithfulness@3"]
)
def test_a_bad_cutoff_is_an_error_that_names_the_metric(bad):
    with pytest.raises(BadSettings, match=bad.split("@")[0]):
        parse(bad)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("answer_relevancy", "relevance"),
        ("ContextualPrecisionMetric", "context_precision"),
        ("context-recall", "context_recall"),
        ("answer_accuracy", "semantic_similarity"),
    ],
)
def test_names_of_ragas_and_deepeval_mean_ours(theirs, ours):
    assert parse(theirs).name == ours
    assert all(ours.lower() in METRICS for ours in SPELLINGS.values())


@pytest.mark.parametrize("name", ["ndcg@1000000", "recall@10", "rbp@0.8", "rbp@0.1234567"])
def test_a_name_prints_back_as_it_is(name):
    assert parse(name).name == name


# --- against other libraries ---


def values(name, queries):
    """The metric's value for each (ranking, grades), all in one batch."""
    metric = parse(name)
    return metric.function(Ranked.build(*zip(*queries, strict=True)), **metric.arguments).tolist()


# scores of few values, so that many documents of a run are tied; 60 times 5 rankings or more
RUNS = st.dictionaries(st.sampled_from(DOCS), st.sampled_from([0.5, 1.0, 2.0]), min_size=1)
QUERIES = st.lists(st.tuples(RUNS, GRADES), min_size=5, max_size=10)


@settings(max_examples=60, deadline=None)
@given(QUERIES, st.sampled_from([1, 2]))
def test_trec_eval_gives_the_same_with_tied_scores(queries, bar):
    # trec_eval leaves a query without a judgment out and crashes on one whose grades are all negative; we score them
    queries = [(run, grades) for run, grades in queries if max(grades.values(), default=-1) >= 0]
    run, qrels = ({f"q{n}": pair[side] for n, pair in enumerate(queries)} for side in (0, 1))
    asked = {"P.3", "recall.5", "success.1", "recip_rank", "ndcg_cut.5", "map", "map_cut.3", "Rprec", "bpref"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, asked, relevance_level=bar).evaluate(run)
    ours = retrieval(qrels, run, TREC, relevant_from=float(bar)).per_query if queries else {}
    for query, scores in ours.items():
        assert scores == pytest.approx({name: theirs[query][TREC[name]] for name in TREC}, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(QUERIES)
def test_ir_measures_gives_the_same_with_tied_scores(queries):
    # it counts a negative grade as judged, and passes over what trec_eval passes over
    queries = [(run, {doc: max(g, 0) for doc, g in grades.items()}) for run, grades in queries if grades]
    run, qrels = ({f"q{n}": pair[side] for n, pair in enumerate(queries)} for side in (0, 1))
    measures = {name: ir_measures.parse_measure(text) for name, text in MEASURES.items()}
    ours = retrieval(qrels, run, MEASURES).per_query if queries else {}
    theirs = {(m.query_id, m.measure): m.value for m in ir_measures.iter_calc(measures.values(), qrels, run)}
    for query, scores in ours.items():
        assert scores == pytest.approx({name: theirs[query, one] for name, one in measures.items()}, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(RANKING, st.dictionaries(st.sampled_from(DOCS), st.floats(0, 3), max_size=8))
def test_scipy_gives_the_same_order_correlations(ranking, grades):
    gains = [grades.get(doc, 0.0) for doc in ranking]
    positions = [-n for n in range(len(gains))]
    for name, theirs in (("kendall_tau", stats.kendalltau), ("spearman_rho", stats.spearmanr)):
        expected = theirs(positions, gains).statistic if len(set(gains)) > 1 else math.nan
        assert values(name, [(ranking, grades)]) == pytest.approx([expected], abs=1e-9, nan_ok=True)


def q_by_definition(ranking, grades, k):
    """Sakai's Q-measure, word by word."""
    ideal = sorted((g for g in grades.values() if g > 0), reverse=True)
    total = hits = gained = 0
    for rank, doc in enumerate(ranking[:k], 1):
        gain = max(grades.get(doc, 0), 0)
        hits, gained = hits + (gain > 0), gained + gain
        if gain > 0:
            total += (hits + gained) / (rank + sum(ideal[:rank]))
    return total / min(k, len(ideal)) if ideal else 0.0


BATCH = st.lists(st.tuples(RANKING, GRADES), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(BATCH, st.integers(1, 10))
def test_q_measure_follows_its_definition_and_is_average_precision_for_binary_grades(queries, k):
    expected = [q_by_definition(ranking, grades, k) for ranking, grades in queries]
    assert values(f"q_measure@{k}", queries) == pytest.approx(expected, abs=1e-9)
    # for grades 0 and 1 and a relevant document at rank r <= R: (C + C) / (r + r), the precision at r
    many = [(r, {"d0": 1, "d1": 1, "d2": 1, **dict.fromkeys((f"u{n}" for n in range(8)), 1)}) for r, _ in queries]
    assert values("q_measure", many) == pytest.approx(values("map", many), abs=1e-9)


# --- retrieval() on dicts ---

QRELS = {"q1": {"a": 1, "b": 2}, "q2": {"c": 1}, "q3": {"d": 0}, "q4": {}}
RUN = {"q1": {"a": 1.0, "b": 2.0}, "q2": ["x", "c"], "q3": ["d"], "q9": {"a": 1.0}}


def test_retrieval_means_are_over_judged_queries_and_everything_left_out_is_counted():
    found = retrieval(QRELS, RUN, ["MRR", "P@1"])
    assert found.per_query == {
        "q1": {"mrr": 1.0, "precision@1": 1.0},
        "q2": {"mrr": 0.5, "precision@1": 0.0},
        "q3": {"mrr": 0.0, "precision@1": 0.0},
        "q4": {"mrr": 0.0, "precision@1": 0.0},
    }
    assert found.means == {"mrr": 1.5 / 4, "precision@1": 1 / 4}
    assert (found.unjudged, found.missing_from_run, found.without_relevant, found.without_hit) == (1, 1, 2, 0)
    undefined = retrieval({"q": {"a": 1}, "r": {}}, {"q": ["a", "b"], "r": ["a", "b"]}, ["kendall_tau"])
    assert undefined.per_query == {"q": {"kendall_tau": 1.0}, "r": {"kendall_tau": None}}
    assert undefined.means == {"kendall_tau": 1.0}


def test_retrieval_compares_scores_as_far_apart_as_numbers_can_be():
    run = {"q": {"a": -1.7e308, "b": 1.7e308, "c": 1.7e308}}
    assert retrieval({"q": {"b": 1}}, run, ["MRR"]).means == {"mrr": 1 / 2}


@pytest.mark.parametrize(
    ("qrels", "run", "names", "error", "says"),
    [
        ({"q": {"a": 1}}, {"q": {"a": math.nan}}, None, BadInput, "scores of query 'q': document 'a' has nan"),
        ({"q": {"a": math.inf}}, {}, None, BadInput, "grades of query 'q': document 'a' has inf"),
        ({"q": {"a": 1}}, {"q": {"a": 10**400}}, None, BadInput, "document 'a' has 1000*, which is no finite number"),
        ({"q": {"a": 1}}, {"q": {"a": np.float32(1), "b": None}}, None, BadInput, "document 'b' has None, which is no"),
        ({"q": {"a": 5000}}, {}, None, BadInput, "document 'a' has 5000, which is no number from -1000 to 1000"),
        ({"q": {"a": 1}}, {"q": ["a", "a"]}, None, BadInput, "run of query 'q': .* names each document once"),
        ({"q": {"a": 1}}, {"q": "ab"}, None, BadInput, "run of query 'q': should be a list"),
        ({"q": "ab"}, {}, None, BadInput, "qrels of query 'q': should be {document: grade}, or a list or set"),
        (QRELS, RUN, ["faithfulness"], BadSettings, "'faithfulness' needs more than ids and grades"),
        (QRELS, RUN, ["ngcd@3"], UnknownName, "unknown metric 'ngcd@3'; did you mean ndcg"),
        ({}, RUN, None, NothingToEvaluate, "no query is judged"),
        (QRELS, None, None, BadInput, "run: should be a dict by query, is NoneType; ragassay trec reads TREC files"),
        (
            {"q": {"a": 4}},
            {"q": ["a"]},
            ["err@1"],
            BadSettings,
            "err: a document has grade 4, above max_grade, which is 3",
        ),
    ],
)
def test_retrieval_names_what_can_not_be_ranked(qrels, run, names, error, says):
    with pytest.raises(error, match=says):
        retrieval(qrels, run, *([names] if names else []))


@pytest.mark.parametrize("grade", [0, -1, math.nan, 1001])
@pytest.mark.parametrize("name", ["relevant_from", "max_grade"])
def test_retrieval_refuses_a_grade_that_no_document_can_have(name, grade):
    with pytest.raises(BadSettings, match=f"{name} is {grade!r}"):
        retrieval(QRELS, RUN, ["err@3"], **{name: grade})
