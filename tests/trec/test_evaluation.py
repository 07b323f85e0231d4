"""Dicts in, means and values per query out."""

import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from ragassay import retrieval
from ragassay.core.errors import BadInput, BadSettings, NothingToEvaluate, UnknownName

QRELS = {"q1": {"a": 1, "b": 2}, "q2": {"c": 1}, "q3": {"d": 0}, "q4": {}}
RUN = {"q1": {"a": 1.0, "b": 2.0}, "q2": ["x", "c"], "q3": ["d"], "q9": {"a": 1.0}}


def test_means_are_over_judged_queries_and_everything_left_out_is_counted():
    evaluation = retrieval(QRELS, RUN, ["MRR", "P@1"])
    assert evaluation.per_query == {
        "q1": {"mrr": 1.0, "precision@1": 1.0},
        "q2": {"mrr": 0.5, "precision@1": 0.0},
        "q3": {"mrr": 0.0, "precision@1": 0.0},
        "q4": {"mrr": 0.0, "precision@1": 0.0},
    }
    assert evaluation.means == {"mrr": 1.5 / 4, "precision@1": 1 / 4}
    assert (evaluation.unjudged, evaluation.missing_from_run, evaluation.without_relevant, evaluation.without_hit) == (
        1,
        1,
        2,
        0,
    )


def test_what_is_undefined_is_none_and_not_in_the_mean():
    evaluation = retrieval({"q": {"a": 1}, "r": {}}, {"q": ["a", "b"], "r": ["a", "b"]}, ["kendall_tau"])
    assert evaluation.per_query == {"q": {"kendall_tau": 1.0}, "r": {"kendall_tau": None}}
    assert evaluation.means == {"kendall_tau": 1.0}
    assert retrieval({"r": {}}, {}, ["kendall_tau"]).means == {"kendall_tau": None}


@pytest.mark.parametrize(
    ("qrels", "run", "says"),
    [
        ({"q": {"a": 1}}, {"q": {"a": float("nan")}}, "scores of query 'q': document 'a' has nan"),
        ({"q": {"a": 1}}, {"q": {"b": 1.0, "a": "high"}}, "scores of query 'q': document 'a' has 'high'"),
        ({"q": {"a": float("inf")}}, {}, "grades of query 'q': document 'a' has inf"),
        ({"q": {"a": 1}}, {"q": ["a", "a"]}, "run of query 'q': should be a list that names each document once"),
        ({"q": {"a": 1}}, {"q": "ab"}, "run of query 'q': should be a list"),
        ({"q": {"a": 1}}, {"q": {"a", "b"}}, "run of query 'q': should be a list .* best first"),
        ({"q": "ab"}, {}, "qrels of query 'q': should be {document: grade}, or a list or set"),
    ],
)
def test_what_can_not_be_ranked_is_an_error_that_names_the_query(qrels, run, says):
    with pytest.raises(BadInput, match=says):
        retrieval(qrels, run)


def test_only_metrics_of_ids_and_grades_can_be_asked_for():
    with pytest.raises(BadSettings, match="'faithfulness' needs more than ids and grades"):
        retrieval(QRELS, RUN, ["faithfulness"])
    with pytest.raises(UnknownName, match="did you mean ndcg"):
        retrieval(QRELS, RUN, ["ngcd@3"])
    with pytest.raises(NothingToEvaluate, match="no query is judged"):
        retrieval({}, RUN)


SCORES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 30).map(lambda n: n / 8), min_size=1)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from("123456"), SCORES, min_size=1), st.data())
def test_it_is_what_trec_eval_says_ties_included(run, data):
    grades = st.dictionaries(st.sampled_from("abcdefghij"), st.integers(0, 3), min_size=1)
    qrels = {q: data.draw(grades) for q in run}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"map", "ndcg_cut.3"}).evaluate(run)
    ours = retrieval(qrels, run, ["map", "ndcg_cut_3"]).per_query
    for query, values in theirs.items():
        assert list(ours[query].values()) == pytest.approx([values["map"], values["ndcg_cut_3"]], abs=1e-9)
