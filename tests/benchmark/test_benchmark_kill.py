"""``kill -9`` at any moment of ``ragassay evaluate``, then ``--resume``: the same result, and nobody asked twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial

import orjson
import pytest

from endpoint import CAPITAL, Endpoint
from offline_runs import differences, write_jsonl
from polling import until
from ragassay.storage.benchmarks import FolderBenchmarks
from ragassay.storage.folder import FolderRun

KILLS, ROWS, IN_FLIGHT = 4, 24, 3
DATASETS = ("first", "second")
# of one run, or of how long something took
MEASURED = set(
    "id run created_at finished_at duration_s duration_ms interrupted latency_ms retrieval_latency_ms "
    "generation_latency_ms latency_p50_ms throughput_qps wall_s wall_ms waited queue_ms longest_wait_ms "
    "measured pareto verdict".split()
)


class Asked(Endpoint):
    """A system that remembers who was asked, as soon as they ask."""

    def __init__(self):
        super().__init__(lambda _: 0.02)
        self.queries = []

    def reply(self, request, body):
        self.queries.append(body["query"])
        answer = {**CAPITAL, "answer": f"Paris is the capital, says {body['query'].split()[-1]}."}
        return self.send(request, 200, json.dumps(answer).encode())


def rows(dataset):
    labels = {"ground_truth_answer": "Paris.", "relevant_doc_ids": ["paris"]}
    return [{"query_id": f"q{n}", "query": f"Capital of {dataset} {n}?", **labels} for n in range(ROWS)]


@pytest.fixture
def systems(tmp_path):
    """Two live systems, recorded responses and a retriever, on two datasets whose queries have the same ids."""
    for dataset in DATASETS:
        write_jsonl(tmp_path / f"{dataset}.jsonl", rows(dataset))
        answer = {"answer": "Lyon.", "retrieved_doc_ids": ["lyon", "paris"]}
        write_jsonl(tmp_path / f"recorded-{dataset}.jsonl", [{"query_id": f"q{n}", **answer} for n in range(ROWS)])
    passages = [{"id": "paris", "text": "Capital: Paris."}, {"id": "lyon", "text": "Lyon."}]
    write_jsonl(tmp_path / "corpus.jsonl", passages)
    with ExitStack() as stack:
        one, other = (stack.enter_context(Asked()) for _ in range(2))
        document = {
            "datasets": {dataset: f"{dataset}.jsonl" for dataset in DATASETS},
            "corpus": "corpus.jsonl",
            "baseline": "recorded",
            "systems": {
                "one": {"kind": "http", "url": one.url, "concurrency": IN_FLIGHT},
                "recorded": "recorded-{dataset}.jsonl",
                "bm25": {"kind": "bm25", "answer": "extractive"},
                "other": {"kind": "http", "url": other.url, "concurrency": IN_FLIGHT},
            },
            "metrics": ["mrr", "token_f1", "faithfulness"],
            "performance": {"batch": 7},
        }
        (tmp_path / "many.yaml").write_text(json.dumps(document))
        yield {"one": one, "other": other}


def ragassay(folder, home, *arguments):
    environment = {**os.environ, "RAGASSAY_HOME": str(home)}
    command = [sys.executable, "-m", "ragassay.cli", *map(str, arguments)]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finished_queries(store):
    """(system, query) of each answer that is written down, whatever the kill left of the last line."""
    finished = set()
    for benchmark in store.ids():
        for dataset, run in store.open(benchmark).runs.items():
            folder = store.root.parent / "runs" / run
            for system, source in FolderRun(folder).record.systems.items() if (folder / "run.json").exists() else ():
                if source.called:
                    lines = (folder / "responses" / f"{system}.jsonl").read_bytes().split(b"\n")[:-1]
                    rows = (orjson.loads(line)["query_id"].removeprefix("q") for line in lines)
                    finished |= {(system, f"Capital of {dataset} {row}?") for row in rows}
    return finished


def reached(process, home, systems, share):
    """Have so many of the queries been asked, or for 0 the first run been begun; or is the process at its end?"""
    asked = sum(len(one.queries) for one in systems.values())
    begun = asked >= share * ROWS * len(DATASETS) * len(systems) if share else (home / "runs").exists()
    return begun or process.poll() is not None


def begun(store):
    """The benchmark whose runs are all written down, if any; a kill before that leaves one that has to be started again."""
    of_each = {benchmark: store.open(benchmark).runs.values() for benchmark in store.ids()}
    folder = store.root.parent / "runs"
    return [one for one, runs in of_each.items() if all((folder / run / "run.json").exists() for run in runs)]


def reports(store):
    """The rows of the runs of the only benchmark that began, too: its document has none."""
    [benchmark] = begun(store)
    runs, folder = store.open(benchmark).runs, store.root.parent / "runs"
    return {dataset: json.loads((folder / run / "report.json").read_bytes()) for dataset, run in runs.items()}


def test_four_systems_on_two_datasets_killed_at_any_time_give_the_result_of_a_calm_run(systems, tmp_path):
    chance = random.Random(5)
    home, store = tmp_path / "killed", FolderBenchmarks(tmp_path / "killed")
    before = []  # what was finished at each kill, and how many each system had been asked
    # the share of the queries that has been asked; the first kill comes while the runs are written down
    for share in sorted([0.0, *(chance.uniform(0.05, 0.9) for _ in range(KILLS - 1))]):
        command = ("evaluate", "--resume", "last") if begun(store) else ("evaluate", "--config", "many.yaml")
        last = len(before) == KILLS - 1  # it is asked to end, and says how to go on
        systems["one"].delay = lambda _, last=last: 0.2 if last else 0.02  # it is not over before
        asked = len(systems["one"].queries)
        process = ragassay(tmp_path, home, *command)
        until(partial(reached, process, home, systems, share))
        if last:
            until(lambda asked=asked: len(systems["one"].queries) > asked)
        time.sleep(chance.random() * 0.05)
        process.send_signal(signal.SIGINT if last else signal.SIGKILL)
        out, err = process.communicate(timeout=60)
        assert b"error" not in err, err
        if last:
            assert (process.returncode, out) == (130, b"")
            assert f"interrupted; go on with: ragassay evaluate --resume {begun(store)[0]}".encode() in err
        time.sleep(0.2)  # what was on its way arrives
        before.append((finished_queries(store), {name: len(one.queries) for name, one in systems.items()}))
    systems["one"].delay = lambda _: 0.02
    process = ragassay(tmp_path, home, "evaluate", "--resume", "last", "--json")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert any(0 < len(finished) < ROWS * len(DATASETS) * len(systems) for finished, _ in before)

    for finished, asked in before:
        for name, one in systems.items():
            again = {(name, query) for query in one.queries[asked[name] :]} & finished
            assert not again
    for one in systems.values():
        assert set(one.queries) == {row["query"] for dataset in DATASETS for row in rows(dataset)}
        assert len(one.queries) <= ROWS * len(DATASETS) + KILLS * IN_FLIGHT  # those in flight may be asked again

    process = ragassay(tmp_path, tmp_path / "calm", "evaluate", "--config", "many.yaml", "--json")
    calm, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert list(differences(json.loads(out), json.loads(calm), ignored=MEASURED)) == []
    both = reports(store), reports(FolderBenchmarks(tmp_path / "calm"))
    assert list(differences(*both, ignored=MEASURED)) == []
