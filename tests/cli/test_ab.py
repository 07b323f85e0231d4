"""Retrieval offline: ``ragassay ab`` on runs and on retrievers, and ``ragassay trec``, as a user types them."""

import hashlib
import json
import os
import subprocess
import sys
from math import log2
from pathlib import Path

import pytest
import yaml

from offline_runs import write_jsonl

ROOT = Path(__file__).parents[2]
FILES = ("--queries", "q.tsv", "--truth", "truth.tsv", "--out", "out.json")
ASK = ("ab", *FILES, "--configA", "a.yaml", "--configB", "b.yaml")
ALLOWED = {"perf": {"enabled": True, "metrics": {"report_memory": True}}, "t2": {"quality": {"shadow": True}}}

# q2 comes first in the query file. d3 is judged, and not relevant.
QUERIES = "q2\thow long?\nq1\thow much?\n"
TRUTH = "q1\td1\t2\nq1\td2\t1\nq2\td4\t1\nq1\td3\t0\n"
A = ["q1 Q0 d3 1 9.0 a", "q1 Q0 d1 2 8.0 a", "q2 Q0 d5 1 3.0 a"]
B = [
    {"query_id": "q1", "retrieved_doc_ids": ["d1", "d2", "d3"]},
    {"query_id": "q2", "retrieved_doc_ids": ["d9", "d7", "d4"], "retrieved_scores": [1.0, 2.0, 1.0]},
]


@pytest.fixture
def two(tmp_path):
    """Queries, judgments and two configurations that name runs; returns the folder."""
    (tmp_path / "q.tsv").write_text(QUERIES)
    (tmp_path / "truth.tsv").write_text(TRUTH)
    (tmp_path / "a.trec").write_text("\n".join(A) + "\n")
    write_jsonl(tmp_path / "b.jsonl", B)
    (tmp_path / "a.yaml").write_text("run: a.trec\n")
    (tmp_path / "b.yaml").write_text("run: b.jsonl\n")
    return tmp_path


def asked(cli, *more):
    """The document that the command writes."""
    code, _, err = cli(*ASK, *more)
    assert code == 0, err
    return json.loads(Path("out.json").read_bytes())


def test_the_document_holds_what_a_hand_finds(cli, two):
    found = asked(cli, "--csv", "out.csv")
    csv = (two / "out.csv").read_text().splitlines()
    assert (csv[0], csv[2], len(csv)) == ("qid,system,recall,mrr,ndcg,hits", "q2,B,1.0,0.5,0.630929753571,d7 d4 d9", 5)
    assert list(found) == [
        "schema_version", "k", "corpus_digest", "queries_digest", "qrels_digest", "run_digests", "definitions",
        "systems", "delta", "differences", "warnings", "per_query",
    ]  # fmt: skip
    assert (found["schema_version"], found["k"], found["corpus_digest"]) == (1, 10, None)
    for key, file in (("queries_digest", "q.tsv"), ("qrels_digest", "truth.tsv")):
        assert found[key] == hashlib.sha256((two / file).read_bytes()).hexdigest()
    assert found["run_digests"]["B"] == hashlib.sha256((two / "b.jsonl").read_bytes()).hexdigest()
    assert found["definitions"]["ndcg"].startswith("ndcg_exp@10: As ndcg, with gain 2^grade - 1")
    assert [row["qid"] for row in found["per_query"]] == ["q2", "q1"]
    second, first = found["per_query"]
    # grade 2 gains 3, grade 1 gains 1; A has d1 at rank 2 of d1 and d2
    ideal = 3 / log2(2) + 1 / log2(3)
    assert first["A"]["hits"] == ["d3", "d1"]
    assert (first["A"]["recall"], first["A"]["mrr"]) == (0.5, 0.5)
    assert first["A"]["ndcg"] == pytest.approx((3 / log2(3)) / ideal, abs=1e-12)
    assert (first["B"]["recall"], first["B"]["mrr"], first["B"]["ndcg"]) == (1, 1, 1)
    # d7 has the best score; d4 and d9 have the same and stand in the order of their ids
    assert second["B"]["hits"] == ["d7", "d4", "d9"]
    assert (second["A"]["recall"], second["B"]["recall"], second["B"]["mrr"]) == (0, 1, 0.5)
    assert second["delta"] == {"recall": 1, "mrr": 0.5, "ndcg": pytest.approx(1 / log2(3), abs=1e-12)}
    side = found["systems"]["A"]
    assert list(side) == ["config_path", "config_digest", "metrics"]
    assert side["metrics"]["macro"]["recall"] == 0.25
    assert found["delta"]["macro"]["recall"] == 0.75  # (0 + 1/2) / 2 against 1
    assert found["delta"]["macro"]["mrr"] == 0.5  # (0 + 1/2) / 2 against (1/2 + 1) / 2


def test_metrics_of_zero_are_a_success_and_are_explained(cli, two):
    (two / "q.tsv").write_text("q1\thow much?\nq2\thow long?\nq3\twhy?\n")
    (two / "truth.tsv").write_text("q1\td77\t1\nq2\td88\t1\n")
    found = asked(cli)
    assert found["systems"]["B"]["metrics"]["macro"] == {"recall": 0, "mrr": 0, "ndcg": 0}
    assert len(found["warnings"]) == 3


@pytest.mark.parametrize(
    ("switches", "lacks"),
    [
        (ALLOWED, None),
        ({**ALLOWED, "t2": {"quality": {"enabled": True}}}, None),
        ({**ALLOWED, "t2": {"quality": {"enabled": False}}}, "t2.quality.shadow or .enabled"),
        ({**ALLOWED, "perf": {"enabled": True}}, "perf.metrics.report_memory"),
        ({**ALLOWED, "perf": {"metrics": {"report_memory": True}}}, "perf.enabled"),
        ({}, "perf.enabled, perf.metrics.report_memory, t2.quality.shadow or .enabled"),
    ],
)
def test_traces_are_written_only_where_the_configuration_allows_it(cli, two, switches, lacks):
    (two / "a.yaml").write_text(yaml.safe_dump({"run": "a.trec", **switches}))
    code, _, err = cli(*ASK, "--emit-traces")
    assert code == 0
    said = (
        "no traces of B: b.yaml does not set perf.enabled, perf.metrics.report_memory, t2.quality.shadow or .enabled\n"
    )
    traces = two / "out.traces.jsonl"
    if lacks:
        assert err == f"no traces of A: a.yaml does not set {lacks}\n{said}"
        assert not traces.exists()
        return
    assert err == said
    second, first = map(json.loads, traces.read_text().splitlines())
    assert (first["qid"], first["system"]) == ("q1", "A")
    assert first["ranked"][1] == {"rank": 2, "id": "d1", "score": 8.0, "stages": {}, "grade": 2.0}
    assert first["reason"] == "1 of 2 relevant among 2, the first at rank 2"
    assert second["reason"] == "none of 1 relevant among 1"


ELSEWHERE = """
import os, runpy, socket, sys, time
def forbidden(*_, **__):
    raise AssertionError("no network and no clock")
socket.socket.connect = socket.socket.bind = socket.getaddrinfo = socket.create_connection = forbidden
time.time = time.time_ns = lambda: 86_400 * int(os.environ["PYTHONHASHSEED"])
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def elsewhere(folder, seed, *arguments):
    """The script in a process of its own: no network, another day, another order of sets. Returns all it wrote."""
    script = [sys.executable, "-c", ELSEWHERE, ROOT / "scripts" / "rq_eval.py", *FILES, *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    done = subprocess.run(script, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, *((folder / f"out.{kind}").read_bytes() for kind in ("json", "csv", "traces.jsonl"))


def test_all_bytes_are_the_same_in_every_process_without_network_or_clock(cli, two):
    (two / "a.yaml").write_text(yaml.safe_dump({"run": "a.trec", **ALLOWED}))
    options = ("--configA", "a.yaml", "--configB", "b.yaml", "--csv", "out.csv", "--emit-traces")
    first = elsewhere(two, 1, *options)
    assert elsewhere(two, 2, *options) == first
    asked(cli, *options)
    assert (two / "out.json").read_bytes() == first[1]


def test_traces_of_an_earlier_run_do_not_stay_beside_the_output_of_a_new_one(cli, two):
    (two / "a.yaml").write_text(yaml.safe_dump({"run": "a.trec", **ALLOWED}))
    options = ("--configA", "a.yaml", "--configB", "b.yaml")
    asked(cli, *options, "--emit-traces")
    traces = two / "out.traces.jsonl"
    assert traces.stat().st_mode & 0o777 == 0o600
    asked(cli, *options)
    assert not traces.exists()
    traces.symlink_to("a.trec")
    assert "is another file of this command" in cli.refused("ab", *FILES, *options)
    assert (two / "a.trec").exists()


CORPUS = [
    {"id": "d1", "text": "The plan costs six dollars."},
    {"id": "d2", "title": "Prices", "text": "How much a year is."},
    {"_id": "d4", "text": "It lasts a long week."},
]


def searching(folder, name, corpus=None, **options):
    """Makes a configuration that searches with BM25."""
    recipe = {"retrieval": {"kind": "bm25", **options}, **({"corpus": corpus} if corpus else {}), **ALLOWED}
    (folder / name).write_text(yaml.safe_dump(recipe))


def test_a_configuration_names_its_corpus_from_where_it_lies_and_the_option_goes_before(cli, two):
    (two / "sub").mkdir()
    write_jsonl(two / "sub" / "c.jsonl", CORPUS), write_jsonl(two / "all.jsonl", [*CORPUS, {"id": "d3", "text": "how"}])
    (two / "truth.tsv").write_text("q1\td2\t2\n")
    searching(two, "sub/a.yaml", "c.jsonl")
    digests = {name: hashlib.sha256((two / name).read_bytes()).hexdigest() for name in ("sub/c.jsonl", "all.jsonl")}
    both = ("--configA", "sub/a.yaml", "--configB", "sub/a.yaml")
    assert asked(cli, *both)["corpus_digest"] == digests["sub/c.jsonl"]
    assert asked(cli, *both, "--corpus", "all.jsonl")["corpus_digest"] == digests["all.jsonl"]
    # one side's corpus counts for the run of the other
    write_jsonl(two / "b.jsonl", [{"query_id": "q1", "retrieved_doc_ids": ["d3"]}])
    assert cli.refused(*ASK, "--configA", "sub/a.yaml") == "error: b.jsonl: document 'd3' is not in the corpus\n"
    searching(two, "a.yaml", "all.jsonl")
    said = cli.refused(*ASK, "--configB", "sub/a.yaml")
    assert "the configurations name different corpora: all.jsonl, sub/c.jsonl; give --corpus" in said
    assert cli(*ASK, *both, "--out", "sub/c.jsonl")[0] == 2


BAD = {
    "no queries": ({"q.tsv": "  \n"}, [], "q.tsv: the file is empty"),
    "no tab": ({"q.tsv": "q1\thow much?\nq2 how long?\n"}, [], "q.tsv:2: a line is a query id and the query's text"),
    "query twice": ({"q.tsv": f"{QUERIES}\nq1\tx\n"}, [], "q.tsv:4: query 'q1' is there twice"),
    "not text": ({"q.tsv": b"q1\t\xff\n"}, [], "q.tsv:1: byte 0xff at byte 4 of the line is not UTF-8"),
    "TREC judgments": ({"truth.tsv": "q1\t0\td1\t1\n"}, [], "truth.tsv:1: a line is a query id, a document id"),
    "header": ({"truth.tsv": "qid\tdoc\trel\n"}, [], "truth.tsv:1: the grade is 'rel'; write a number up to 100, and no header"),
    "unknown query": ({"truth.tsv": f"{TRUTH}q9\td1\t1\n"}, [], "truth.tsv:5: query 'q9' is not among the queries"),
    "k of 0": ({}, ["--k", 0], "k must be a whole number from 1 to 1,000,000, not 0"),
    "no configuration": ({}, ["--configA", "no.yaml"], "no.yaml: there is no such file"),
    "run and retrieval": ({"a.yaml": "{run: x, retrieval: {kind: bm25}}"}, [], "give either retrieval (how to retrieve) or run"),
    "unknown key": ({"a.yaml": "perf:\n  enabeld: true\n"}, [], "a.yaml:2: unknown key perf.enabeld; did you mean enabled?"),
    "listed twice": ({"a.trec": f"{A[0]}\n{A[0]}\n"}, [], "a.trec:2: document 'd3' is listed twice for query 'q1'"),
    "no ids in run": ({"b.jsonl": '{"query_id": "q1", "answer": "yes"}\n'}, [], "query 'q1' has no retrieved_doc_ids"),
    "output is an input": ({}, ["--out", "./a.yaml"], "output 'a.yaml' is another file of this command"),
    "space in id": ({"b.jsonl": '{"query_id": "q1", "retrieved_doc_ids": ["d 1"]}\n'}, ["--csv", "o.csv"], "'d 1' holds a space"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gives_one_clear_line_and_leaves_nothing(cli, two, case):
    files, more, says = BAD[case]
    for name, content in files.items():
        (two / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    before = {path.name: path.read_bytes() for path in two.iterdir() if path.is_file()}
    assert says in cli.refused(*ASK, *more)
    assert {path.name: path.read_bytes() for path in two.iterdir() if path.is_file()} == before


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
    queries = json.loads(trec("AP", "--json", "-q")[1])["per_query"]
    assert queries == {"q1": {"AP": pytest.approx(5 / 6, abs=1e-15)}, "q2": {"AP": 0.0}, "q3": {"AP": 0.0}}


def test_a_metric_that_is_undefined_for_a_query_is_left_out_of_its_mean_and_counted(trec):
    # tau needs two grades in a list: q1 has 2, 0, 1: of three pairs one is in the wrong order, (2 - 1) / 3
    _, out, err = trec("kendall_tau", "-q")
    rows = [("q2", "undefined"), ("q3", "undefined"), ("all", "0.3333")]
    assert out.splitlines()[1:] == [f"{query}\tkendall_tau\t{value}" for query, value in rows]
    assert "queries left out of kendall_tau, undefined there: 2\n" in err
    assert json.loads(trec("kendall_tau", "-q", "--json")[1])["per_query"]["q2"] == {"kendall_tau": None}


def test_trec_starts_without_the_models(tmp_path):
    (tmp_path / "qrels").write_text(QRELS)
    (tmp_path / "run").write_text(RUN)
    program = (
        "import sys, ragassay.cli\ntry: ragassay.cli.main()\nfinally: print('ragassay.core.models' in sys.modules)"
    )
    arguments = [sys.executable, "-c", program, "trec", "qrels", "run", "AP", "--json"]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
