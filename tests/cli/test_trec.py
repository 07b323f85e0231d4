"""``ragassay trec``: what it prints, what it refuses, and how light and fast it is."""

import gzip
import json
import os
import subprocess
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


def test_values_of_each_query_come_before_the_means(trec):
    _, out, _ = trec("-q", "P@1 P@2")
    assert out == (
        "q1\tP@1\t1.0000\nq1\tP@2\t0.5000\nq2\tP@1\t0.0000\nq2\tP@2\t0.0000\nq3\tP@1\t0.0000\nq3\tP@2\t0.0000\n"
        "all\tP@1\t0.3333\nall\tP@2\t0.1667\n"
    )


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


def test_compressed_files_and_pipes_are_read(cli, tmp_path):
    (tmp_path / "qrels.gz").write_bytes(gzip.compress(QRELS.encode()))
    os.mkfifo(tmp_path / "run")
    with subprocess.Popen([sys.executable, "-c", f"open('run', 'w').write({RUN!r})"], cwd=tmp_path):
        assert cli("trec", "qrels.gz", "run", "AP")[1] == "AP\t0.2778\n"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["nDCGG@10"], "unknown metric 'nDCGG@10'; did you mean ndcg"),
        (["P@0"], "metric 'P@0': the cutoff must be a whole number from 1 to 1,000,000, not '0'"),
        (["P@-3"], "metric 'P@-3': the cutoff must be"),
        (["P"], "metric 'P' needs a value after @"),
        ([], "QRELS, RUN and at least one METRIC are needed; see: ragassay trec --help"),
        (["AP", "--jsno"], "no such option: --jsno"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(trec, arguments, what):
    code, out, err = trec(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {what}")


def test_a_metric_of_answers_is_no_metric_of_runs(trec):
    assert trec("token_f1")[2].startswith("error: metric 'token_f1' needs more than ids and grades")


def test_help_is_there_and_the_command_is_listed(cli):
    assert cli("trec", "--help")[1].startswith("Usage: ragassay trec QRELS RUN METRIC... [-q] [--json]")
    assert "Compute retrieval metrics from TREC qrels and run files." in cli("--help")[1]


UNTRACED = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}


def python(code, folder):
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=UNTRACED, check=True, timeout=120
    ).stdout


def test_nothing_heavy_is_imported_on_the_way(trec, tmp_path):
    code = (
        "import sys; from ragassay.cli.trec import trec; trec(['qrels', 'run', 'nDCG@5', 'P@5', 'AP', '--json']);"
        "print([m for m in 'pydantic typer pyarrow scipy argparse pathlib importlib.metadata difflib'.split() if m in sys.modules])"
    )
    assert python(code, tmp_path).splitlines()[-1] == "[]"


RACE = """
import random, resource, statistics
import pytrec_eval
from ragassay.trec.evaluation import evaluate_run, retrieval_metric
from ragassay.trec.ranking import read_qrels, read_run

rng = random.Random(3)
with open("qrels", "w") as qrels, open("run", "w") as run:
    for q in range(2000):
        documents = rng.sample(range(9_000_000), 100)
        qrels.writelines(f"q{q:07} 0 d{d} {rng.randrange(4)}\\n" for d in rng.sample(documents, 10))
        run.writelines(f"q{q:07} Q0 d{d} {n} {30 - n / 5:.4f} t\\n" for n, d in enumerate(documents, 1))
names = {"P_5": "P@5", "recall_10": "R@10", "map_cut_10": "MAP@10", "ndcg_cut_10": "NDCG@10"}

def theirs():
    with open("qrels") as qrels, open("run") as run:
        judged, ranked = pytrec_eval.parse_qrel(qrels), pytrec_eval.parse_run(run)
    return len(pytrec_eval.RelevanceEvaluator(judged, set(names)).evaluate(ranked))

def ours():
    return len(evaluate_run(read_run("run", read_qrels("qrels")), {n: retrieval_metric(n) for n in names.values()})["P@5"])

def used():  # its children's too; os.times counts in hundredths, which is a third of what ours takes
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)

def seconds(work):
    started = used()
    assert work() == 2000
    return used() - started

seconds(ours)
print(statistics.median(seconds(theirs) / seconds(ours) for _ in range(5)))
"""


def test_two_thousand_queries_take_less_than_half_of_the_processor_time_of_pytrec_eval(tmp_path):
    assert float(python(RACE, tmp_path)) > 2  # 2.8 to 3.2 on two cores


def long_run(tmp_path, **broken):
    """240,000 lines, three pieces, so that every process gets a piece of, with ``broken`` lines by their numbers."""
    rows = [f"q{n // 100:07} Q0 document-{n:09} 1 {100 - n % 100}.5 team" for n in range(240_000)]
    for line, text in broken.items():
        rows[int(line[1:]) - 1] = text
    (tmp_path / "run").write_text("\n".join(rows) + "\n")
    (tmp_path / "qrels").write_text("".join(f"q{q:07} 0 document-{100 * q + q % 100:09} 1\n" for q in range(2400)))


COMMAND = "from ragassay.cli import main; import sys; sys.argv[1:] = ['trec', 'qrels', 'run', 'RR', '--json']; main()"
ALONE = "import os; os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1]); "


def test_processes_that_share_a_long_run_give_what_one_gives(tmp_path):
    long_run(tmp_path)
    together, alone = (json.loads(python(code, tmp_path))["means"]["RR"] for code in (COMMAND, ALONE + COMMAND))
    # the relevant document of query q stands at rank q % 100 + 1, 24 times each
    assert together == alone == pytest.approx(sum(1 / rank for rank in range(1, 101)) / 100, abs=1e-12)


def test_the_first_of_two_bad_lines_is_named_whichever_process_meets_it(tmp_path):
    long_run(tmp_path, _130000="q Q0 d 1 nan t", _239000="q Q0 d 1")
    done = subprocess.run([sys.executable, "-c", COMMAND], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: run:130000: the score 'nan' is not a finite number\n"
