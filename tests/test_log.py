"""What an evaluation says in the log while it runs."""

import asyncio
import logging
import re
import subprocess
import sys

from rag import sample, source, tools
from ragassay import benchmark
from ragassay.models import JobSpec, Response
from ragassay.store.folder import FolderStore


def evaluated(tmp_path, samples, *metrics):

    given = {s.query_id: s.response for s in samples if s.response}
    store, spec = FolderStore(tmp_path), JobSpec(metrics=metrics)
    run = benchmark.prepare(store, spec, source(samples), samples, {"bm25": (source(given, "bm25"), given)}, tools())
    asyncio.run(benchmark.work(run, tools()))
    return benchmark.finish(run)


def test_start_end_and_misses_are_logged_without_a_metric_being_asked_for_them(tmp_path, caplog):
    # paris is the relevant one. q1: rank 1; q2: not found; q3: no response; q4: not judged
    samples = [
        sample(1),
        sample(2, response=Response(retrieved_doc_ids=["lyon"])),
        sample(3, response=None),
        sample(4, relevant_doc_ids=None),
    ]
    with caplog.at_level("INFO", "ragassay"):
        report = evaluated(tmp_path, samples, "recall@3")
    said = [
        (r.levelname, re.sub(r"\d{8}-[-\w]+", "RUN", r.getMessage())) for r in caplog.records if r.name == "ragassay"
    ]
    assert said == [
        ("INFO", "evaluation of 4 queries starts: RUN, systems bm25"),
        ("WARNING", "bm25: query q2 has no relevant result"),
        ("WARNING", "bm25: query q3 has no relevant result"),
        # three judged queries: 1/5 / 3, 1/10 / 3, 1 / 3
        ("INFO", "evaluation of 4 queries ends: RUN, system bm25: P@5 0.067, P@10 0.033, MRR 0.333"),
    ]
    assert [row.relevant_ranks for row in report.systems["bm25"].results] == [(1,), (), (), None]


def test_each_query_is_logged_with_its_results_and_duration_when_one_asks_for_it(tmp_path, caplog):
    with caplog.at_level("DEBUG", "ragassay"):
        evaluated(tmp_path, [sample(1)], "mrr")
    [line] = [r.getMessage() for r in caplog.records if r.levelname == "DEBUG" and r.name == "ragassay"]
    assert re.fullmatch(r"bm25: query q1: 2 results in \d+\.\d{3} ms", line)


def test_without_judgments_the_end_tells_no_retrieval_figures(tmp_path, caplog):
    with caplog.at_level("INFO", "ragassay"):
        evaluated(tmp_path, [sample(1, relevant_doc_ids=None)], "latency_ms")
    assert re.search(r"evaluation of 1 queries ends: \S+, system bm25$", caplog.messages[-1])


def test_a_raised_bar_counts_for_the_ranks_too(tmp_path):
    graded = sample(1, relevant_doc_ids=None, relevance_scores={"paris": 1, "lyon": 2})
    store, spec = FolderStore(tmp_path), JobSpec(metrics=("mrr",), relevant_from=2)

    given = {"q1": graded.response}
    run = benchmark.prepare(store, spec, source([graded]), [graded], {"a": (source([graded]), given)}, tools())
    asyncio.run(benchmark.work(run, tools()))
    [row] = benchmark.finish(run).systems["a"].results
    assert (row.relevant, row.relevant_ranks) == (1, (2,))


def test_importing_configures_no_logging():
    code = "import logging, ragassay.engine, ragassay.cli; print(logging.root.handlers, logging.getLogger('ragassay').handlers)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[] []\n"


def test_the_command_line_is_silent_unless_told_otherwise(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"query": "?", "relevant_doc_ids": ["a"], "retrieved_doc_ids": ["b"]}\n')

    def said(*options):
        command = [sys.executable, "-m", "ragassay.cli", *options, "evaluate", str(rows), "--metrics", "mrr", "--json"]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stderr

    assert said() == ""
    assert "WARNING default: query q_0 has no relevant result" in said("-v")
    assert "DEBUG default: query q_0: 1 results" in said("-vv")
    assert logging.getLogger("ragassay").level == logging.NOTSET
