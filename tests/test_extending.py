"""Metric, judge, system and exporter of one's own: each by decorator and by entry point, and what they may do wrong."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import ragassay
from offline_runs import GOOD, sample, write_jsonl
from ragassay import config, judge, system
from ragassay.core.errors import BadSettings, BudgetReached
from ragassay.core.models import Rating, Usage, Verdict
from ragassay.core.protocols import Call, Reply
from ragassay.judges.custom import JUDGES, CustomJudge
from ragassay.judges.panel import Rater
from ragassay.llm.journal import CostEstimator, MemoryJournal
from ragassay.metrics.metric import METRICS
from ragassay.reporting import EXPORTERS, exporter
from ragassay.systems.functions import SYSTEMS

EXAMPLES = Path(__file__).parents[1] / "examples"
REGISTRIES = (METRICS, JUDGES, SYSTEMS, EXPORTERS)


@pytest.fixture(autouse=True)
def _nothing_stays_registered():
    METRICS.registered()  # imports ours, which would not register twice
    kept = [dict(registry._things) for registry in REGISTRIES]
    yield
    for registry, things in zip(REGISTRIES, kept, strict=True):
        registry._things.clear()
        registry._things.update(things)


@pytest.fixture
def rows(tmp_path):
    return write_jsonl(tmp_path / "rows.jsonl", [GOOD | {"query_id": f"q{n}", "query": f"{n}?"} for n in range(3)])


# --- as a package -----------------------------------------------------------------------------------------------------


def wheel_of(project, folder):
    """A wheel as a build backend makes it of a single module; no backend can be had offline."""
    declared = tomllib.loads((project / "pyproject.toml").read_text())
    name, version = declared["project"]["name"].replace("-", "_"), declared["project"]["version"]
    points = "".join(
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
        for group, entries in declared["project"]["entry-points"].items()
    )
    info, path = f"{name}-{version}.dist-info", folder / f"{name}-{version}-py3-none-any.whl"
    files = {
        **{
            f"{module}.py": (project / f"{module}.py").read_text()
            for module in declared["tool"]["setuptools"]["py-modules"]
        },
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {declared['project']['name']}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": points,
    }
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)
        wheel.writestr(f"{info}/RECORD", "".join(f"{file},,\n" for file in (*files, f"{info}/RECORD")))
    return path


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A fresh environment with the packages that are here, in which the example package is installed."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    (site,) = (folder / "env" / "lib").glob("python3*/site-packages")
    here = [path for path in sys.path if path.endswith("site-packages") or Path(path).name in ("services", "workers")]
    (site / "here.pth").write_text("\n".join(here))
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*install, str(wheel_of(EXAMPLES / "package", folder))], check=True, timeout=120)
    return python


def ragassay_in(python, folder, *arguments):
    command = [str(python), "-c", "from ragassay.cli import main; main()", *arguments]
    environment = {**os.environ, "RAGASSAY_HOME": str(folder / "home")}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def test_an_installed_package_brings_all_on_the_command_line(environment, tmp_path, rows):
    (tmp_path / "ragassay.yaml").write_text(
        "data: rows.jsonl\nsystems: {ours: {kind: echo, options: {prefix: 'Asked:'}}}\njudge: lenient\n"
        "metrics: [answered, relevance, faithfulness]\n"
    )
    done = ragassay_in(environment, tmp_path, "evaluate", "--config", "ragassay.yaml", "--json", "-o", "page.html")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    metrics = report["systems"]["ours"]["metrics"]
    assert (metrics["answered"]["value"], metrics["relevance"]["value"]) == (1.0, 0.75)
    assert [row["answer"] for row in report["results"]["ours"]] == ["Asked: 0?", "Asked: 1?", "Asked: 2?"]
    assert report["provenance"]["judge"]["name"] == "lenient"
    assert list(report["provenance"]["plugins"]) == ["our-rag 1.0"]
    assert "<td>answered</td><td>1.0</td>" in (tmp_path / "page.html").read_text()
    resumed = ragassay_in(environment, tmp_path, "evaluate", "--resume", report["run"]["id"], "-o", "again.html")
    assert resumed.returncode == 0, resumed.stderr
    assert (tmp_path / "again.html").exists()


def test_a_plugin_that_cant_be_imported_is_named_where_it_is_asked_for(environment, tmp_path, rows):
    (site,) = (environment.parents[1] / "lib").glob("python3*/site-packages")
    info = site / "broken-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[ragassay.judges]\nbroken = no_such_module:judge\n")
    done = ragassay_in(environment, tmp_path, "evaluate", "rows.jsonl", "--judge", "broken")
    assert done.returncode == 2
    assert "judge broken: the plug-in no_such_module:judge can't be used: ModuleNotFoundError" in done.stderr


# --- as a file --------------------------------------------------------------------------------------------------------


def test_a_file_brings_all_on_the_command_line(cli, rows):
    plugins = [
        part for name in ("metric", "judge", "system", "exporter") for part in ("--import", EXAMPLES / f"own_{name}.py")
    ]
    options = ("--system", "ours=most_words", "--judge", "words", "--metrics", "short_enough,faithfulness")
    code, out, err = cli("evaluate", "rows.jsonl", *options, *plugins, "--json", "-o", "means.txt")
    assert code == 0, err
    report = json.loads(out)
    assert report["systems"]["ours"]["metrics"]["faithfulness"]["value"] == 1.0
    assert report["provenance"]["judge"]["code"].endswith(":by_words")
    assert "ours short_enough 1.0" in Path("means.txt").read_text()
    assert cli("evaluate", "--resume", report["run"]["id"], *plugins, "-o", "again.txt")[0] == 0
    assert Path("again.txt").read_text() == Path("means.txt").read_text()
    code, _, err = cli("evaluate", "rows.jsonl", *options, *plugins, "--dry-run")
    assert code == 0
    assert cli("show", "last", "--import", EXAMPLES / "own_exporter.py", "-o", "third.txt")[0] == 0


OWN_SYSTEM = """
from pathlib import Path
from ragassay import system

@system
class acme:
    def __init__(self, file="made"):
        Path(file).touch()

    def respond(self, sample):
        return sample.query
"""


def test_a_file_of_responses_may_have_the_name_of_a_plugins_system(cli, rows, tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text(OWN_SYSTEM)
    monkeypatch.setenv("RAGASSAY_PLUGINS", "own.py")
    shutil.copy(rows, tmp_path / "acme")
    document = {"data": "rows.jsonl", "format": "jsonl", "metrics": ["rouge1"], "systems": {"ours": "acme"}}
    (tmp_path / "ragassay.yaml").write_text(json.dumps(document))
    code, _, err = cli("evaluate")
    assert (code, (tmp_path / "made").exists()) == (0, False), err


def test_a_system_that_needs_options_is_not_named_in_the_place_of_a_file(cli, rows, tmp_path):
    (tmp_path / "own.py").write_text("from ragassay import system\n@system\ndef acme(query, *, index): ...\n")
    code, _, err = cli("evaluate", "rows.jsonl", "--import", "own.py", "--system", "ours=acme")
    assert (code, err.count("\n")) == (2, 1)
    assert "acme does not take these options: missing a required argument: 'index'" in err
    assert "{kind: acme, options: {...}}" in err


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("own_*.py")), ids=lambda path: path.stem)
def test_each_example_has_fifteen_lines_at_the_most_and_is_on_the_page(example):
    code = example.read_text()
    page = (EXAMPLES.parent / "docs" / "extending.md").read_text()
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    assert f"```python\n{code}```" in page or f"](../examples/{example.name})" in page


def test_the_entry_points_on_the_page_are_those_of_the_example():
    page = (EXAMPLES.parent / "docs" / "extending.md").read_text()
    (shown,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert shown in (EXAMPLES / "package" / "pyproject.toml").read_text()


def test_the_configurations_on_the_page_load(tmp_path, monkeypatch):
    shutil.copy(EXAMPLES / "own_system.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    page = (EXAMPLES.parent / "docs" / "extending.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    for text in blocks:
        Path("ragassay.yaml").write_text(text)
        assert config.load(Path("ragassay.yaml")) != config.ProjectConfig()
    assert blocks


def test_python_takes_a_judge_as_it_is(rows):
    @judge
    async def even(sample, units):
        return {"relevance": "full" if sample.query_id in ("q0", "q2") else "none"}

    report = ragassay.evaluate(rows, judge=even, metrics=["relevance"])
    assert report["relevance"] == [1.0, 0.0, 1.0]
    assert report.provenance.configuration.judged_by == "even"


# --- what a judge may do wrong ----------------------------------------------------------------------------------------


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
        if sample.query_id == "q2":
            if isinstance(returned, Exception):
                raise returned
            return returned
        return {"relevance": "full"}

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
        return {
            "answer": [
                {"id": "A1", "support": "supported", "evidence": ("C9.9",)},
                {"id": "A7", "support": "supported"},
            ]
        }

    first, _ = asked(own)
    assert [(s.id, s.support) for s in first.verdict.sentences] == [("A1", "not_found"), ("A2", None)]
    assert (first.verdict.judge, first.verdict.evidence_dropped) == ("own", 1)


def test_a_judge_may_judge_criteria():
    def own(sample, units):
        return {"criteria": [{"id": label, "step": "mostly"} for label in units.criteria]}

    first, _ = asked(own, criteria=["polite"])
    assert [(one.name, one.step) for one in first.verdict.criteria] == [("polite", "mostly")]


def test_an_estimate_asks_no_judge():
    called = []

    def own(sample, units):
        called.append(sample)
        return {}

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


def test_the_verdict_of_a_class_has_every_unit():
    class Own:
        def judge(self, samples, journal):
            return [Rating(verdict=Verdict(judge="other", relevance="full")) for _ in samples]

    first, _ = asked(Own)
    assert ([s.id for s in first.verdict.sentences], first.verdict.judge) == (["A1", "A2"], "Own")


def test_a_budget_that_is_reached_passes_through():
    class Own:
        def judge(self, samples, journal):
            raise BudgetReached("the budget is reached")

    with pytest.raises(BudgetReached):
        asked(Own)


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


@pytest.mark.parametrize(
    ("thing", "name", "says"),
    [
        (lambda sample: {}, "one", "takes a sample and its units"),
        (lambda sample, units: {}, "local", "and not local"),
        (object(), "thing", "is no function and has no method judge"),
    ],
)
def test_what_is_no_judge_is_refused_where_it_is_declared(thing, name, says):
    with pytest.raises(BadSettings) as refused:
        judge(name=name)(thing)
    assert says in str(refused.value)


# --- what a system or an exporter may do wrong ------------------------------------------------------------------------


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


@pytest.mark.parametrize("name", ["bm25", "python", "two words"])
def test_a_name_that_a_system_cant_have_is_refused(name):
    with pytest.raises(BadSettings):
        system(name=name)(lambda query: "")


def test_what_an_exporter_does_wrong_is_one_line_and_the_report_is_kept(cli, rows, tmp_path):
    @exporter("one")
    def fails(report):
        raise KeyError("total")

    @exporter("two")
    def returns_nothing(report):
        return None

    for extension, says in (
        ("one", "fails raised KeyError: 'total'"),
        ("two", "returned a NoneType, neither text nor bytes"),
    ):
        code, _, err = cli("evaluate", "rows.jsonl", "--metrics", "mrr", "-o", f"report.{extension}")
        assert code == 2
        assert says in err
        assert "the report is kept: ragassay show " in err
        assert not Path(f"report.{extension}").exists()
    assert cli("show", "last")[0] == 0


@pytest.mark.parametrize("extension", ["json", "../x", ""])
def test_an_extension_that_an_exporter_cant_have_is_refused(extension):
    with pytest.raises(BadSettings):
        exporter(extension)
