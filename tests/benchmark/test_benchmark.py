"""``ragassay evaluate``: systems on datasets against a baseline, on the command line and in Python."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import pytest

import ragassay
from offline_runs import write_jsonl
from provider import Provider
from ragassay.core.errors import BadSettings, DiskFull
from ragassay.core.package_data import folder
from ragassay.datasets.load import load
from ragassay.evaluation import local
from ragassay.stats.tests import correct
from ragassay.storage.benchmarks import FolderBenchmarks

ROOT, ROWS = Path(__file__).parents[2], 12
DIFFERENT = 22 + 13  # answers; faq's systems give 2 of 24 alike, manual's 11, and equal calls are paid once


@pytest.fixture(autouse=True)
def _light(monkeypatch):
    monkeypatch.setattr("ragassay.evaluation.runtime.embedder", lambda *_: (None, "the tests need no model"))


def questions(dataset):
    fixed = {"relevant_doc_ids": ["d1"]}
    return [
        {"query_id": f"q{n}", "query": f"Where is {dataset} {n}?", "ground_truth_answer": f"In town {n}.", **fixed}
        for n in range(ROWS)
    ]


def answers(right):
    """Answers of which those below ``right`` are right and found at the first place."""
    return [
        {
            "query_id": f"q{n}",
            "answer": f"In town {n}." if n < right else "Nobody knows.",
            "contexts": [f"In town {n}."],
            "retrieved_doc_ids": ["d1", "d2"] if n < right else ["d2", "d1"],
            "latency_ms": 10.0 + n,
            "cost_usd": 0.001,
        }
        for n in range(ROWS)
    ]


@pytest.fixture
def files(tmp_path):
    """Two datasets, two recorded systems with a file for each, and a configuration."""
    for dataset, good, bad in (("faq", 12, 2), ("manual", 7, 6)):
        write_jsonl(tmp_path / f"{dataset}.jsonl", questions(dataset))
        write_jsonl(tmp_path / f"good-{dataset}.jsonl", answers(good))
        write_jsonl(tmp_path / f"bad-{dataset}.jsonl", answers(bad))
    document = {
        "datasets": {"faq": "faq.jsonl", "manual": "manual.jsonl"},
        "systems": {"good": "good-{dataset}.jsonl", "bad": "bad-{dataset}.jsonl"},
        "baseline": "bad",
        "metrics": ["token_f1", "mrr", "ndcg@10"],
    }
    (tmp_path / "ragassay.yaml").write_text(json.dumps(document))
    return document


def test_every_system_meets_every_dataset_and_is_compared_with_the_baseline(cli, files):
    code, out, err = cli("evaluate", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    parts = {(d, name): part for d, report in found["reports"].items() for name, part in report["systems"].items()}
    means = {of: part["metrics"]["mrr"]["value"] for of, part in parts.items()}
    # d1 at the first place counts 1, at the second a half
    good, bad = {("faq", "good"): 1, ("manual", "good"): 9.5 / 12}, {("faq", "bad"): 7 / 12, ("manual", "bad"): 9 / 12}
    assert means == pytest.approx(good | bad)
    comparison = found["comparison"]
    assert comparison["baseline"] == "bad"
    differences = {pair["b"]: pair["metrics"]["mrr"] for pair in comparison["pairs"]}
    found = [(label, one["dataset"], one["outcome"]) for label, one in differences.items()]
    assert found == [("good on faq", "faq", "better"), ("good on manual", "manual", "no difference shown")]
    # p is corrected over all systems, datasets and metrics
    deltas = [delta for pair in comparison["pairs"] for delta in pair["metrics"].values()]
    assert len(deltas) == comparison["family"] == 1 * 2 * 3
    corrected = correct([delta["p"] for delta in deltas], "holm")
    assert [delta["p_adjusted"] for delta in deltas] == pytest.approx(corrected)


def test_each_metric_has_a_table_over_the_datasets_and_files_are_the_comparison_or_the_reports(cli, files, tmp_path):
    unjudged = [{k: v for k, v in q.items() if k != "relevant_doc_ids"} for q in questions("manual")]
    write_jsonl(tmp_path / "manual.jsonl", unjudged)
    files["metrics"] = None
    files["systems"]["dear"] = "good-{dataset}.jsonl"
    (tmp_path / "ragassay.yaml").write_text(json.dumps(files))
    code, out, err = cli("evaluate", "-o", "b.md", "-o", "report-{dataset}.csv")
    assert code == 0, err
    _, _, datasets, bad, good, *_ = out[out.index("\nndcg@10 on each dataset") :].splitlines()
    assert (datasets.split(), bad.split()[0], good.split()[:2]) == (["faq", "manual"], "bad", ["good", "1.000"])
    assert good.endswith("not computed")
    page = (tmp_path / "b.md").read_text()
    assert page.startswith("<!-- ragassay comparison -->\n")
    assert "ndcg@10 on each dataset" in page
    assert all((tmp_path / f"report-{dataset}.csv").exists() for dataset in files["datasets"])
    [benchmark] = FolderBenchmarks(tmp_path / "home").ids()
    assert cli("runs")[1].count(f"of benchmark {benchmark}") == 2
    assert out.startswith(cli("show", benchmark)[1])


def test_a_budget_is_that_of_all_runs_and_the_rest_waits_for_a_higher_one(cli, files, tmp_path):
    with Provider() as provider:
        model = ("--judge", "gpt-4o-mini", "--set", f"api_base={provider.url}", "--metrics", "faithfulness")
        code, out, err = cli("evaluate", *model, "--set", f"budget.tokens={10_000}", "-j", 2)
        assert (code, out) == (4, "")
        [benchmark] = FolderBenchmarks(tmp_path / "home").ids()
        assert f"ragassay evaluate --resume {benchmark}" in err
        assert "--set budget.tokens=MORE" in err
        before = len(provider.log)
        assert 0 < before < DIFFERENT
        code, out, err = cli("evaluate", "--resume", "last", "--set", f"budget.tokens={10**7}", "--json")
        assert code == 0, err
    systems = [system for report in json.loads(out)["reports"].values() for system in report["systems"].values()]
    assert sum(one["evaluation"]["usage"]["calls"] for one in systems) == len(provider.log) == DIFFERENT


@pytest.mark.parametrize(
    ("changed", "arguments", "says"),
    [
        ({"data": "faq.jsonl"}, (), "data and datasets are both given"),
        ({"systems": {"v1": "good-faq.jsonl"}}, (), "write {dataset} into the path"),
        ({"systems": None}, (), "no system is named"),
        ({"baseline": "god"}, (), "baseline 'god'"),
        (
            {},
            ("good-faq.jsonl", "--baseline", "god"),
            "'god' is about several datasets, or gates; for one dataset: rag",
        ),
        ({}, ("--resume", "last", "--seed", "2"), "--seed can't be given with it"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(changed, arguments, says, cli, files, tmp_path):
    document = {key: value for key, value in {**files, **changed}.items() if value is not None}
    (tmp_path / "ragassay.yaml").write_text(json.dumps(document))
    assert says in cli.refused("evaluate", *arguments)
    assert not (tmp_path / "home" / "benchmarks").exists()
    assert not (tmp_path / "home" / "runs").exists()


def test_a_dry_run_estimates_all_of_it_and_asks_nobody(cli, files, tmp_path):
    code, out, err = cli("evaluate", "--dry-run", "--judge", "gpt-4o-mini", "--metrics", "faithfulness")
    assert (code, err) == (0, "")
    assert "faq: 12 rows x 2 systems" in out
    assert "manual: 12 rows x 2 systems" in out
    assert "all 2 datasets: 48 judge calls, at most about" in out
    assert not (tmp_path / "home" / "runs").exists()


def test_a_start_that_is_interrupted_is_not_resumed(cli, files, monkeypatch):
    create, made = local.create, []

    def create_one(*arguments):
        if made:
            raise DiskFull("disk full")
        made.append(create(*arguments))
        return made[0]

    monkeypatch.setattr("ragassay.evaluation.local.create", create_one)
    code, _, err = cli("evaluate")
    assert (code, "disk full" in err) == (74, True), err
    code, _, err = cli("evaluate", "--resume", "last")
    assert (code, "start it again" in err, (made[0].folder / "results").exists()) == (2, True, False), err


def test_in_python_datasets_are_rows_systems_are_functions_and_a_loop_may_run(tmp_path, monkeypatch, recwarn):
    monkeypatch.chdir(tmp_path)
    told = []

    def ask(query):
        return f"In town {query.split()[-1][:-1]}."

    async def in_a_notebook():
        return ragassay.evaluate(
            systems={"v1": {"faq": answers(3), "manual": answers(4)}, "v2": ask},
            datasets={"faq": questions("faq"), "manual": questions("manual")},
            baseline="v1",
            metrics=["token_f1"],
            progress=lambda done, of: told.append((done, of)),
        )

    found = asyncio.run(in_a_notebook())
    assert told[-1] == (48, 48)
    assert found["faq"].metrics["v2"]["token_f1"].value == 1
    of_manual = next(pair for pair in found.comparison.pairs if pair.b == "v2 on manual")
    assert of_manual.metrics["token_f1"].wins == ROWS - 4
    for text in (str(found), found._repr_html_()):
        assert "token_f1 on each dataset" in text
    found.save("b.md")
    assert (tmp_path / "b.md").exists()


def test_rows_for_several_datasets_have_to_say_which_they_are_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    two = {"faq": questions("faq"), "manual": questions("manual")}
    with pytest.raises(BadSettings, match=r"systems.v1.*give them by dataset"):
        ragassay.evaluate(systems={"v1": answers(3)}, datasets=two)
    with pytest.raises(BadSettings, match="no responses to the dataset manual"):
        ragassay.evaluate(systems={"v1": {"faq": answers(3)}}, datasets=two)
    with pytest.raises(BadSettings, match="is about several datasets"):
        ragassay.evaluate(questions("faq"), systems={"v1": answers(3)}, baseline="v1")


def test_one_system_has_reports_and_no_comparison(cli, files, tmp_path):
    (tmp_path / "ragassay.yaml").write_text(json.dumps(files | {"systems": {"bad": "bad-{dataset}.jsonl"}}))
    code, out, err = cli("evaluate", "-o", "b.md")
    assert (code, "b.md: there is one system, and so no comparison" in err) == (2, True)
    assert not (tmp_path / "home" / "runs").exists()
    code, out, err = cli("evaluate", "-o", "{dataset}.md")
    assert (code, err, out.count("report of ")) == (0, "", 2)
    assert out.endswith("also: {dataset}.md\n")
    assert all((tmp_path / f"{dataset}.md").exists() for dataset in files["datasets"])
    found = ragassay.evaluate(systems={"v1": answers(3)}, datasets={"faq": questions("faq")}, metrics=["token_f1"])
    assert found.comparison is None
    assert str(found["faq"]) in str(found)
    with pytest.raises(BadSettings, match="no comparison"):
        found.save("b.md")


def test_a_hundred_queries_on_three_built_in_systems_fit_into_five_minutes(tmp_path):
    handbook, share = folder("datasets") / "handbook", 10  # a tenth of them, in a tenth of two minutes of two cores
    asked = load(handbook / "queries.json").samples[: 100 // share]
    write_jsonl(tmp_path / "asked.jsonl", [one.model_dump(mode="json", exclude_defaults=True) for one in asked])
    systems = {kind: {"kind": kind, "answer": "extractive"} for kind in ("bm25", "dense", "hybrid")}
    document = {"data": "asked.jsonl", "corpus": str(handbook / "corpus.jsonl"), "systems": systems}
    (tmp_path / "ragassay.yaml").write_text(json.dumps(document))
    command, before = [sys.executable, "-m", "ragassay.cli", "evaluate", "--json"], getrusage(RUSAGE_CHILDREN)
    done, after = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True), getrusage(RUSAGE_CHILDREN)
    report = json.loads(done.stdout)
    assert [system["queries"] for system in report["systems"].values()] == [len(asked)] * 3
    assert {"faithfulness", "semantic_similarity", "ndcg@10"} <= report["systems"]["dense"]["metrics"].keys()
    took_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert took_s < 20 + 2 * 120 / share, took_s  # processor time, so that it holds on a machine that is busy
