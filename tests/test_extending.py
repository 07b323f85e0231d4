"""Metric, judge, system and exporter of one's own: each by decorator and by entry point, and what they may do wrong."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest

import ragassay
from offline_runs import GOOD, sample, write_jsonl
from ragassay import judge, system
from ragassay.core.errors import BadSettings, BudgetReached
from ragassay.core.models import Rating, Usage, Verdict
from ragassay.core.protocols import Call, Reply
from ragassay.judges.custom import JUDGES, CustomJudge
from ragassay.judges.panel import Rater
from ragassay.llm.journal import CostEstimator, MemoryJournal
from ragassay.reporting.files import exporter

EXAMPLES = Path(__file__).parents[1] / "examples"
pytestmark = pytest.mark.usefixtures("own_things")


@pytest.fixture
def rows(tmp_path):
    return write_jsonl(tmp_path / "rows.jsonl", [GOOD | {"query_id": f"q{n}", "query": f"{n}?"} for n in range(3)])


@pytest.fixture
def command(tmp_path):
    """Runs ``ragassay`` in a process that finds the example package installed, and one whose module is not there."""
    site = tmp_path / "site"
    declared = tomllib.loads((EXAMPLES / "package" / "pyproject.toml").read_text())["project"]["entry-points"]
    for name, groups in (("our-rag", declared), ("broken", {"ragassay.judges": {"broken": "no_such_module:judge"}})):
        info = site / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        points = [f"[{group}]\n{key} = {value}\n" for group, made in groups.items() for key, value in made.items()]
        (info / "entry_points.txt").write_text("".join(points))
    shutil.copy(EXAMPLES / "package" / "our_rag.py", site)
    environment = {**os.environ, "RAGASSAY_HOME": str(tmp_path / "home"), "PYTHONPATH": str(site)}

    def run(*arguments):
        words = [sys.executable, "-m", "ragassay.cli", *arguments]
        return subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)

    return run


def test_an_installed_package_brings_all_and_one_that_cant_be_imported_is_named_where_it_is_asked_for(
    command, tmp_path, rows
):
    (tmp_path / "ragassay.yaml").write_text(
        "data: rows.jsonl\nsystems: {ours: {kind: echo, options: {prefix: 'Asked:'}}}\njudge: lenient\n"
        "metrics: [answered, relevance, faithfulness]\n"
    )
    done = command("evaluate", "--config", "ragassay.yaml", "--json", "-o", "page.html", "-o", "page.htm")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    metrics = report["systems"]["ours"]["metrics"]
    assert (metrics["answered"]["value"], metrics["relevance"]["value"]) == (1.0, 0.75)
    assert [row["answer"] for row in report["results"]["ours"]] == ["Asked: 0?", "Asked: 1?", "Asked: 2?"]
    assert report["provenance"]["judge"]["name"] == "lenient"
    assert list(report["provenance"]["plugins"]) == ["our-rag 1.0"]
    assert "<td>answered</td><td>1.0</td>" in (tmp_path / "page.html").read_text()  # the panel
    assert (tmp_path / "page.htm").read_text().startswith("<table><tr><td>ours</td><td>answered</td><td>1.0</td>")
    done = command("evaluate", "rows.jsonl", "--judge", "broken")
    assert done.returncode == 2
    assert "judge broken: the plug-in no_such_module:judge can't be used: ModuleNotFoundError" in done.stderr


def test_a_file_brings_all_on_the_command_line(cli, rows):
    files = (EXAMPLES / f"own_{name}.py" for name in ("metric", "judge", "system", "exporter"))
    plugins = [part for file in files for part in ("--import", file)]
    options = ("--system", "ours=most_words", "--judge", "words", "--metrics", "short_enough,faithfulness")
    code, out, err = cli("evaluate", "rows.jsonl", *options, *plugins, "--json", "-o", "means.txt")
    assert code == 0, err
    report = json.loads(out)
    assert report["systems"]["ours"]["metrics"]["faithfulness"]["value"] == 1.0
    assert report["provenance"]["judge"]["code"].endswith(":by_words")
    assert "ours short_enough 1.0" in Path("means.txt").read_text()
    assert cli("evaluate", "--resume", report["run"]["id"], *plugins, "-o", "again.txt")[0] == 0
    assert Path("again.txt").read_text() == Path("means.txt").read_text()
    assert cli("evaluate", "rows.jsonl", *options, *plugins, "--dry-run")[0] == 0
    assert cli("show", "last", "--import", EXAMPLES / "own_exporter.py", "-o", "third.txt")[0] == 0


def test_python_takes_a_judge_as_it_is(rows):
    @judge
    async def even(sample, units):
        return {"relevance": "full" if sample.query_id in ("q0", "q2") else "none"}

    report = ragassay.evaluate(rows, judge=even, metrics=["relevance"])
    assert report["relevance"] == [1.0, 0.0, 1.0]
    assert report.provenance.configuration.judged_by == "even"


def asked(thing, *samples, timeout_s=60.0, criteria=(), journal=None):
    judge(thing)
    own = CustomJudge(JUDGES.get(thing.__name__), criteria=criteria, timeout_s=timeout_s)
    return asyncio.run(own.judge(samples or (sample(1), sample(2)), journal or MemoryJournal()))


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (None, "the judge own returned null, not an object"),
        ("yes", "the judge own returned 'yes', not an object"),
        ([1], "the judge own returned a list, not an object"),
        ({"answers": []}, "the judge own returned an unknown key 'answers'; did you mean answer?"),
        ({"answer": object()}, "the judge own raised TypeError: Type is not JSON serializable: object"),
        (ValueError("no"), "the judge own raised ValueError: no"),
    ],
)
@pytest.mark.parametrize("waits", [False, True])
def test_what_a_judge_does_wrong_costs_the_row_alone(returned, reason, waits):
    def own(sample, units):
        if sample.query_id == "q1":
            return {"relevance": "full"}
        if isinstance(returned, Exception):
            raise returned
        return returned

    if waits:
        plain = own

        async def own(sample, units):
            return plain(sample, units)

    first, second = asked(own)
    assert first.verdict.relevance == "full"
    assert (second.verdict, second.reason) == (None, reason)


def test_a_judge_that_hangs_is_given_up():
    async def own(sample, units):
        await asyncio.sleep(3600)

    (first, _) = asked(own, timeout_s=0.05)
    assert first.reason == "the judge own gave no verdict within 0.05 s"


def test_units_that_a_judge_leaves_out_are_missing_and_evidence_that_points_nowhere_does_not_count():
    def own(sample, units):
        sentences = [{"id": "A1", "support": "supported", "evidence": ("C9.9",)}, {"id": "A7", "support": "supported"}]
        return {"answer": sentences, "criteria": [{"id": label, "step": "mostly"} for label in units.criteria]}

    first, _ = asked(own, criteria=["polite"])
    assert [(s.id, s.support) for s in first.verdict.sentences] == [("A1", "not_found"), ("A2", None)]
    assert first.verdict.judge == "own"
    assert [(one.name, one.step) for one in first.verdict.criteria] == [("polite", "mostly")]


def test_an_estimate_asks_no_judge():
    called = []

    def own(sample, units):
        called.append(sample)

    assert asked(own, journal=CostEstimator())[0].verdict is None
    assert called == []


@pytest.mark.parametrize(
    ("gives", "reason"),
    [
        (lambda n: [Rating(reason="x")] * (n - 1), "the judge Own gave 1 ratings for 2 rows"),
        (lambda n: ["x"] * n, "the judge Own gave 'x', not a Rating"),
        (lambda n: [Rating()] * n, "the judge Own gave no verdict"),
        (lambda n: None, "the judge Own raised TypeError: 'NoneType' object is not iterable"),
    ],
)
def test_a_class_that_breaks_the_protocol_costs_its_rows(gives, reason):
    class Own:
        async def judge(self, samples, journal):
            return gives(len(samples))

    assert [one.reason for one in asked(Own)] == [reason] * 2


def test_the_verdict_of_a_class_has_every_unit_and_a_budget_that_is_reached_passes_through():
    class Own:
        def judge(self, samples, journal):
            if journal is None:
                raise BudgetReached("the budget is reached")
            return [Rating(verdict=Verdict(judge="other", relevance="full")) for _ in samples]

    first, _ = asked(Own)
    assert ([s.id for s in first.verdict.sentences], first.verdict.judge) == (["A1", "A2"], "Own")
    with pytest.raises(BudgetReached):
        asyncio.run(CustomJudge(JUDGES.get("Own")).judge([sample(1)], None))


def test_samples_of_a_class_that_uses_the_journal_are_different_calls():
    class Own:
        async def judge(self, samples, journal):
            for one in samples:
                async with journal.attempt(Call.about(one.query_id, "judge", "?"), Usage(calls=1)) as attempt:
                    if attempt.reply is None:
                        attempt.settle(Reply(text=f"reply {len(made)}", usage=Usage(calls=1)))
                        made.append(one.query_id)
            return [Rating(verdict=Verdict(judge="own", relevance="full")) for _ in samples]

    made = []
    judge(name="own")(Own)
    own, journal = CustomJudge(JUDGES.get("own")), MemoryJournal()
    for _ in range(2):  # the second time, all replies are there
        asyncio.run(Rater((own, own, own)).rate([sample(1), sample(2)], journal))
    assert len(journal.settled) == len(made) == 6


def test_a_system_that_fails_costs_the_row_and_options_that_it_does_not_take_the_run(rows):
    @system
    def fragile(query, *, limit=1):
        if query == "1?":
            raise ValueError("no such page")
        return "Paris."

    report = ragassay.evaluate(rows, systems={"ours": {"kind": "fragile"}}, metrics=["relevance"], max_failed_share=0.5)
    assert [row["error"] for row in report.rows] == [None, "the system raised ValueError: no such page", None]
    with pytest.raises(BadSettings, match=r"systems\.ours: fragile does not take these options: .*'limits'"):
        ragassay.evaluate(rows, systems={"ours": {"kind": "fragile", "options": {"limits": 2}}})


@pytest.mark.parametrize(
    ("thing", "says"),
    [
        ("ours", r"^system 'ours': a name is a keyword; write: system\(name='ours'\)$"),
        (partial(str), r"^system .*partial.*: a name is letters.*; say it: name='ours'$"),
    ],
)
def test_a_system_that_can_not_be_registered_is_named(thing, says):
    with pytest.raises(BadSettings, match=says):
        system(thing)


def test_what_an_exporter_does_wrong_is_one_line_and_the_report_is_kept(cli, rows, tmp_path):
    @exporter("one")
    def fails(report):
        raise KeyError("total")

    exporter("two")(lambda report: None)
    for extension, says in (("one", "fails raised KeyError: 'total'"), ("two", "a NoneType, neither text nor bytes")):
        code, _, err = cli("evaluate", "rows.jsonl", "--metrics", "mrr", "-o", f"report.{extension}")
        assert (code, says in err, "the report is kept: ragassay show " in err) == (2, True, True)
        assert not Path(f"report.{extension}").exists()
    assert cli("show", "last")[0] == 0
