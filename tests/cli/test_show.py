"""``ragassay runs`` and ``show``: runs in a folder, their rows, and the files that ``show -o`` writes."""

import json
import os

import pytest

from offline_runs import ScriptedJudge, evaluated, new_run, sample
from ragassay.core.eval_config import RunConfig
from ragassay.core.models import FactVerdict, Rating, SentenceVerdict, Verdict
from reporting.exported import a_comparison, a_report

LYON = SentenceVerdict(id="A1", text="It is Lyon.", support="not_found", truth="conflicts", why="no context names Lyon")
PARIS = FactVerdict(id="G1", text="Paris.", covered="no", evidence=("C1.1",), why="it names another city")
WRONG = Rating(
    verdict=Verdict(judge="t", sentences=(LYON,), facts=(PARIS,), relevance="full", has_contexts=True, has_truth=True)
)
JUDGE = ScriptedJudge(q2=WRONG, q6=WRONG)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home with a finished run of two systems, and then one of which half is done."""
    home = tmp_path_factory.mktemp("home")
    samples = [sample(n, query=f"Question {n}?") for n in range(1, 14)]
    evaluated(new_run(home, samples, systems=("old", "new"), judge=JUDGE), JUDGE)
    half = new_run(home, [sample(n) for n in range(1, 61)], RunConfig(name="nightly", metrics=("mrr",)))
    chunk = half.pending()[0]
    (row,) = evaluated(new_run(tmp_path_factory.mktemp("x"), [sample(1)], half.record.spec)).results["default"]
    half.commit(chunk, [row.model_copy(update={"query_id": f"q{n}"}) for n in range(1, 51)])
    return home


@pytest.fixture
def run(cli, home, monkeypatch):
    """Runs a command in that home; ``finished`` and ``half`` are the ids of its runs."""
    monkeypatch.setenv("RAGASSAY_HOME", str(home))
    ids = [path.parent.name for path in sorted(home.glob("runs/*/run.json"), key=lambda path: path.stat().st_mtime_ns)]
    cli.finished, cli.half = ids
    return cli


def test_runs_are_listed_with_the_newest_first_and_say_how_far_and_how_good(run):
    code, out, _ = run("runs")
    half, finished, old, new = out.splitlines()
    assert code == 0
    assert "nightly: france, 60 queries, default, judge local, unfinished, 50 of 60 rows done" in half
    assert half.endswith(f"go on: ragassay evaluate --resume {run.half}")
    assert finished.startswith(run.finished)
    assert finished.endswith("france, 13 queries, 2 systems, judge local, finished")
    assert old == "  old: 11 of 13 answers are accurate (85 %, 95 % interval 58 % to 96 %)"
    assert new.startswith("  new: ")
    listed = json.loads(run("runs", "--json")[1])
    assert [(one["status"], one["done"]) for one in listed] == [("unfinished", 50), ("finished", 26)]
    _, out, err = run("runs", "--last", "1")
    assert (run.finished in out, "and 1 older: --last 2 lists all" in err) == (False, True)


def test_runs_lists_a_damaged_run_and_says_that_there_is_none(run, home, tmp_path, monkeypatch):
    path = home / "runs" / run.finished / "run.json"
    whole, times = path.read_bytes(), path.stat()
    try:
        path.write_text("{}")
        code, out, _ = run("runs")
        assert (code, f"{run.finished}  unreadable: " in out) == (0, True)
    finally:
        path.write_bytes(whole)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    monkeypatch.setenv("RAGASSAY_HOME", str(tmp_path / "empty"))
    code, out, err = run("runs")
    assert (code, out, "ragassay evaluate DATA" in err) == (0, "", True)


def test_a_row_shows_each_sentence_and_fact_with_verdict_evidence_and_why(run):
    text = " ".join(run("show", run.finished, "--query", "q2", "--system", "old")[1].split())
    for part in (
        "1 row Question 2? unfaithful: faithfulness is 0 old, q2, conceptual, easy, gpt-4o-mini Answer A1: It is Lyon.",
        "A1: It is Lyon. [not found, ground truth: conflicts] no context names Lyon Relevance: full",
        "Expected Paris. G1: Paris. [covered: no] it names another city C1.1 Paris is the capital of France.",
        "Retrieved document grade rank paris 1 1",
        "cost 0.00021 USD",
    ):
        assert part in text
    row = json.loads(run("show", f"{run.finished}#old", "--query", "q2", "--json")[1])
    assert row["failure"] == {"cause": "unfaithful", "why": "faithfulness is 0"}
    assert row["evidence"] == {"C1.1": "Paris is the capital of France."}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--wrong"], "old q2, old q6, new q2, new q6"),
        (["--worst", "3"], "old q2, old q6, old q1, new q2, new q6, new q1"),
        (["--sort", "-LATENCY_MS", "--where", "latency_ms>=1300"], "old q13, new q13"),
        (["--where", "category=conceptual", "--system", "new"], "new q2, new q4, new q6, new q8, new q10, new q12"),
        (["--wrong", "--query", "q6"], "old q6, new q6"),
    ],
)
def test_rows_are_selected_and_ordered(run, options, expected):
    rows = map(json.loads, run("show", "--rows", run.finished, *options, "--json")[1].splitlines())
    assert ", ".join(f"{row['system']} {row['query_id']}" for row in rows) == expected


def test_a_condition_that_compares_with_nothing_is_refused(run):
    code, out, err = run("show", "--rows", run.finished, "--where", "category")
    assert (code, out) == (2, "")
    assert "where" in err
    assert "should be a figure and a bound" in err
    code, out, err = run("show", run.finished, "--where", "failure=none")
    assert (code, err.startswith("error: failure: should be 'answered_the_unanswerable', ")) == (2, True)


def test_show_takes_a_run_its_folder_and_a_file(run, home, tmp_path):
    folder = home / "runs" / run.finished
    for place in (run.finished, str(folder), str(folder / "report.json")):
        assert run("show", place, "-o", "copy.json")[0] == 0
        assert json.loads((tmp_path / "copy.json").read_text())["run"]["id"] == run.finished
        lines = run("show", "--rows", "--json", place)[1].splitlines()
        assert [json.loads(line)["query_id"] for line in lines[11:15]] == ["q12", "q13", "q1", "q2"]
    assert len(run("show", "--rows", "--json", "last")[1].splitlines()) == 50  # what is there of the unfinished one


@pytest.fixture
def files(cli, tmp_path):
    for name, made in (("report", a_report()), ("comparison", a_comparison())):
        (tmp_path / f"{name}.json").write_text(made.model_dump_json())
    return tmp_path


def test_a_report_and_a_comparison_are_written_as_files_that_only_their_owner_reads(cli, files):
    _, out, err = cli("show", "report.json", "-o", "out/r.csv", "-o", "out/r.xlsx", "--fields", "query_id, mrr")
    assert "also: out/r.csv" in out, err
    assert (files / "out/r.summary.csv").is_file()
    assert (files / "out/r.csv").read_text().splitlines()[:2] == ["query_id,mrr", "q1,0.5"]
    assert (files / "out/r.xlsx").stat().st_mode & 0o777 == 0o600
    code, out, _ = cli("show", "comparison.json", "-o", "c.any", "--format", "csv")
    assert (code, "also: c.any" in out) == (0, True)
    assert (files / "c.any").read_text().startswith("a,b,metric,better,")


REFUSED = (
    ("--rows france", "there is no run 'france'", "-france-"),
    ("RUN --query q99", "unknown query 'q99'", "did you mean"),
    ("RUN --system older", "unknown system", "old"),
    ("HALF", "has no report yet", "--resume"),
    ("report.json -o r.docx", "output 'r.docx': unknown exporter 'docx'; known: csv, "),
    ("broken.json -o r.csv", "broken.json: not a comparison of this version"),
)


@pytest.mark.parametrize(("command", "says"), [(command, says) for command, *says in REFUSED])
def test_what_is_not_there_or_can_not_be_written_is_one_line_and_no_file(run, files, command, says):
    (files / "broken.json").write_text('{"kind": "comparison"}')
    there, names = sorted(files.iterdir()), {"RUN": run.finished, "HALF": run.half}
    err = run.refused("show", *(names.get(word, word) for word in command.split()))
    assert [text for text in says if text not in err] == []
    assert sorted(files.iterdir()) == there
