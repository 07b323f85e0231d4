"""Random rankings, with tied scores, against trec_eval, ir_measures, scipy and plain definitions, equal to 1e-9."""

from __future__ import annotations

import math

import ir_measures
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ragassay import Ranked, retrieval
from ragassay.metrics.metric import parse

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


def values(name, queries, **options):
    """The metric's value for each (ranking, grades), all in one batch."""
    metric = parse(name)
    return metric.function(Ranked.build(*zip(*queries, strict=True), **options), **metric.arguments).tolist()


# scores of few values, so that many documents of a run are tied
QUERIES = st.lists(
    st.tuples(st.dictionaries(st.sampled_from(DOCS), st.sampled_from([0.5, 1.0, 2.0]), min_size=1), GRADES), min_size=1
)


@settings(max_examples=300, deadline=None)
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


@settings(max_examples=300, deadline=None)
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


@settings(max_examples=200, deadline=None)
@given(RANKING, st.dictionaries(st.sampled_from(DOCS), st.floats(0, 3), max_size=8))
def test_scipy_gives_the_same_order_correlations(ranking, grades):
    gains = [grades.get(doc, 0.0) for doc in ranking]
    tau, rho = values("kendall_tau", [(ranking, grades)])[0], values("spearman_rho", [(ranking, grades)])[0]
    if len(set(gains)) < 2:
        assert math.isnan(tau)
        assert math.isnan(rho)
    else:
        positions = [-n for n in range(len(gains))]
        assert tau == pytest.approx(stats.kendalltau(positions, gains).statistic, abs=1e-9)
        assert rho == pytest.approx(stats.spearmanr(positions, gains).statistic, abs=1e-9)


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


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(RANKING, GRADES), min_size=1, max_size=12), st.integers(1, 10))
def test_q_measure_follows_its_definition_and_is_average_precision_for_binary_grades(queries, k):
    expected = [q_by_definition(ranking, grades, k) for ranking, grades in queries]
    assert values(f"q_measure@{k}", queries) == pytest.approx(expected, abs=1e-9)
    # for grades 0 and 1 and a relevant document at rank r <= R: (C + C) / (r + r), the precision at r
    many = [(r, {"d0": 1, "d1": 1, "d2": 1, **dict.fromkeys((f"u{n}" for n in range(8)), 1)}) for r, _ in queries]
    assert values("q_measure", many) == pytest.approx(values("map", many), abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(RANKING, GRADES), min_size=1, max_size=12),
    st.sampled_from(
        [
            "bpref",
            "q_measure@3",
            "judged@3",
            "kendall_tau",
            "spearman_rho",
            "err@5",
            "rbp@0.8",
        ]
    ),
)
def test_a_query_scores_alone_what_it_scores_in_a_batch(queries, name):
    metric = parse(name)
    batch = metric.function(Ranked.build(*zip(*queries, strict=True)), **metric.arguments).tolist()
    alone = [metric.function(Ranked.build([r], [g]), **metric.arguments).tolist()[0] for r, g in queries]
    assert batch == pytest.approx(alone, abs=1e-12, nan_ok=True)
