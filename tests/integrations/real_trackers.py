"""MLflow with its database and Weights & Biases offline, as they are installed by make peers."""

import json
from pathlib import Path

import pytest

import ragassay
from ragassay.integrations import mlflow as to_mlflow
from ragassay.integrations import wandb as to_wandb

QUERIES = [{"id": "a", "question": "Who pays?", "qrels": ["d1"]}, {"id": "b", "question": "When?", "qrels": ["d2"]}]
BM25 = [{"id": "a", "retrieved_doc_ids": ["d1", "d2"]}, {"id": "b", "retrieved_doc_ids": ["d1", "d2"], "latency_ms": 5}]
DENSE = [{"id": "a", "retrieved_doc_ids": ["d1"]}, {"id": "b", "retrieved_doc_ids": ["d2"]}]


@pytest.fixture
def two():
    return ragassay.evaluate(
        QUERIES, systems={"bm25": BM25, "dense": DENSE}, metrics=["ndcg@10", "mrr"], name="nightly"
    )


@pytest.fixture
def one():
    return ragassay.evaluate(QUERIES, systems={"bm25": BM25}, metrics=["ndcg@10", "mrr"])


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory):
    import mlflow

    folder = tmp_path_factory.mktemp("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.create_experiment("rag", artifact_location=folder.as_uri())
    return mlflow


def test_each_system_is_a_run_of_mlflow_with_metrics_parameters_rows_and_files(mlflow, two):
    ids = to_mlflow.log(two, experiment="rag")
    assert len(ids) == 2
    runs = {run.info.run_id: run for run in mlflow.search_runs(experiment_names=["rag"], output_format="list")}
    assert len(runs) == 3  # the two are nested in one that has the report's files
    bm25, dense = (runs[each] for each in ids)
    assert (bm25.data.metrics["mrr"], dense.data.metrics["mrr"]) == (0.75, 1.0)
    assert bm25.data.metrics["ndcg_at_10"] == pytest.approx(two.metrics["bm25"]["ndcg@10"].value)
    assert (bm25.data.metrics["latency_ms.p50"], bm25.data.metrics["mrr.n"]) == (5.0, 2.0)
    assert (bm25.data.params["system"], bm25.data.params["queries"]) == ("bm25", "2")
    table = mlflow.load_table("ragassay/rows.json", run_ids=[ids[0]])
    assert list(table["query_id"]) == ["a", "b"]
    assert list(table["mrr"]) == [1.0, 0.5]
    (parent,) = (run for run in runs.values() if run.info.run_id not in ids)
    assert parent.info.run_name == "nightly"
    assert bm25.data.tags["mlflow.parentRunId"] == parent.info.run_id
    path = mlflow.artifacts.download_artifacts(run_id=parent.info.run_id, artifact_path="ragassay/report.json")
    assert json.loads(Path(path).read_text())["run"]["id"] == two.run.id


def test_an_active_run_of_mlflow_is_used(mlflow, one):
    with mlflow.start_run() as run:
        assert to_mlflow.log(one) == [run.info.run_id]
        assert mlflow.active_run().info.run_id == run.info.run_id
    assert mlflow.get_run(run.info.run_id).data.metrics["mrr"] == 0.75


def test_each_system_is_a_run_of_wandb_offline_and_an_active_run_is_used(one, two, tmp_path, monkeypatch):
    import wandb

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_SILENT", "true")
    ids = to_wandb.log(two, mode="offline")
    with wandb.init(project="own", mode="offline") as run:
        assert to_wandb.log(one) == [run.id]
        assert run.summary["mrr"] == 0.75
        assert run.summary["ndcg@10"] == pytest.approx(one.metrics["ndcg@10"].value)
        assert run.config["judge"] == one.provenance.judge["name"]
    assert wandb.run is None
    written = {path.parent.name.rpartition("-")[2]: path for path in tmp_path.glob("wandb/offline-run-*/run-*.wandb")}
    assert set(written) == {*ids, run.id}
    assert len(list(tmp_path.glob("wandb/offline-run-*/files/media/table/rows_*.table.json"))) == 3
