"""``ragassay trec``: what it prints and what it refuses."""

import json
import sys

import pytest

QRELS = "q1 0 a 1\nq1 0 b 2\nq2 0 a 0\nq3 0 c 1\n"
RUN = "q1 Q0 b 1 2.5 t\nq1 Q0 x 2 1.5 t\nq1 Q0 a 3 0.5 t\nq2 Q0 a 1 9 t\nq9 Q0 a 1 9 t\n"


@pytest.fixture
def trec(cli, tmp_path):
    (tmp_path / "qrels").write_text(QRELS)
    (tmp_path / "run").write_text(RUN)
    return lambda *arguments: cli("trec", "qrels", "run", *arguments)


def test_means_are_printed_as_ir_measures_prints_them(trec):
    # q1: ranks 1 and 3 of 2 relevant ones: AP = (1/1 + 2/3) / 2 = 5/6; q2 and q3 score 0; mean 5/18
    code, out, err = trec("P@1", "AP", "RR@10")
    assert (code, out) == (0, "P@1\t0.3333\nAP\t0.2778\nRR@10\t0.3333\n")
    assert err == "queries of run without judgments, left out: 1\njudged queries that run lacks, scored 0: 1\n"


def test_json_has_full_precision_and_the_names_as_given(trec):
    document = json.loads(trec("--json", "AP", "ndcg_cut_1")[1])
    assert document["means"] == {"AP": pytest.approx(5 / 18, abs=1e-15), "ndcg_cut_1": pytest.approx(1 / 3, abs=1e-15)}
    assert document["n_queries"] == 3
    assert set(document["seconds"]) == {"load", "compute"}
    assert "per_query" not in document
    queries = json.loads(trec("AP", "--json", "-q")[1])["per_query"]
    assert queries == {"q1": {"AP": pytest.approx(5 / 6, abs=1e-15)}, "q2": {"AP": 0.0}, "q3": {"AP": 0.0}}


def test_a_metric_that_is_undefined_for_a_query_is_left_out_of_its_mean_and_counted(trec):
    # tau needs two grades in a list: q1 has 2, 0, 1: of three pairs one is in the wrong order, (2 - 1) / 3
    _, out, err = trec("kendall_tau", "-q")
    assert out.splitlines()[1:] == [
        "q2\tkendall_tau\tundefined",
        "q3\tkendall_tau\tundefined",
        "all\tkendall_tau\t0.3333",
    ]
    assert "queries left out of kendall_tau, undefined there: 2\n" in err
    assert json.loads(trec("kendall_tau", "-q", "--json")[1])["per_query"]["q2"] == {"kendall_tau": None}


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["nDCGG@10"], "unknown metric 'nDCGG@10'; did you mean ndcg"),
        (["P@0"], "metric 'P@0': the cutoff must be a whole number from 1 to 1,000,000, not '0'"),
        (["P"], "metric 'P' needs a value after @"),
        ([], "Missing argument 'METRIC'"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(trec, arguments, what):
    code, out, err = trec(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {what}")


def test_trec_without_polars_names_the_extra(trec, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    code, _, err = trec("AP")
    assert (code != 0, "pip install 'ragassay[trec]'" in err) == (True, True)
