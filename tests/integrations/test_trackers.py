"""What trackers of experiments are told; the trackers themselves are in ``real_*.py``, which make peers runs."""

import sys

import pytest

from handmade_reports import make_report, row
from ragassay.core.errors import MissingExtra
from ragassay.integrations import mlflow, tracking, wandb
from ragassay.integrations.mlflow import legal


def test_figures_are_those_that_have_a_value_by_the_names_of_gates():
    report = make_report([row(1, mrr=1.0, latency=10.0, cost=0.5), row(2, mrr=None, latency=30.0), row(3, mrr=0.5)])
    found = tracking.figures(report, "default")
    assert {name: found[name] for name in ("mrr", "mrr.n", "mrr.missing", "latency_ms.p50", "cost_usd.total")} == {
        "mrr": 0.75,
        "mrr.n": 2,
        "mrr.missing": 1,
        "latency_ms.p50": 20.0,
        "cost_usd.total": 0.5,
    }
    assert found["mrr.low"] < 0.75 < found["mrr.high"]
    assert "cost_per_accurate_answer" not in found  # no answer was judged
    assert None not in found.values()


def test_names_that_mlflow_refuses_are_replaced_and_stay_different():
    assert legal(["ndcg@10", "ndcg@10.low", "latency_ms.p95", "own(b)", "own(b).n"]) == [
        "ndcg_at_10",
        "ndcg_at_10.low",
        "latency_ms.p95",
        "own_b",
        "own_b.n",
    ]
    assert legal(["a(b)", "a_b", "a[b]", "../x", "/"]) == ["a_b", "a_b_2", "a_b_3", "x", "metric"]


@pytest.mark.parametrize(("tracker", "extra"), [(mlflow, "mlflow"), (wandb, "wandb")])
def test_without_the_package_the_error_says_how_to_install_it(tracker, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, extra, None)  # as where it is not installed
    with pytest.raises(
        MissingExtra, match=rf"needs the extra '{extra}'; install it: pip install 'ragassay\[{extra}\]'"
    ):
        tracker.log(make_report([row(1, mrr=1.0)]))
