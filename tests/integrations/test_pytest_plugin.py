"""The pytest plugin, in pytest processes of its own."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]
PLUGIN = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]["ragassay"]
TESTS = """
import pytest

ROWS = [
    {"id": "a", "question": "When?", "answer": "At 02:00 UTC.", "contexts": ["Backups start at 02:00 UTC."],
     "qrels": ["d1"], "retrieved_doc_ids": ["d1", "d2"]},
    {"id": "b", "question": "How long?", "answer": "For 90 days.", "contexts": ["Kept for 30 days."],
     "qrels": ["d1"], "retrieved_doc_ids": ["d2", "d1"]},
]

def test_met(rag_eval):
    report = rag_eval(ROWS, metrics=["mrr", "faithfulness"])
    assert report.metrics["mrr"].value == 0.75
    results = rag_eval.expect("mrr >= 0.75", {"metric": "faithfulness", "max": 0.6})
    assert results.passed

def test_missed(rag_eval):
    rag_eval(ROWS, metrics=["mrr", "faithfulness"], judge="local")
    rag_eval.expect("mrr >= 0.7", "faithfulness >= 0.9")

@pytest.mark.rag_eval(ROWS, metrics=["recall@1"])
class TestMarked:
    def test_defaults(self, rag_eval):
        assert rag_eval().metrics["recall@1"].value == 0.5

    @pytest.mark.rag_eval(metrics=["mrr"])
    def test_the_nearest_marker_wins(self, rag_eval):
        assert list(rag_eval().metrics) == ["mrr"]
        assert list(rag_eval(ROWS[:1], metrics="recall@2")["recall@2"]) == [1.0]
        rag_eval.expect("recall@2 >= 0.5")
        with pytest.raises(Exception, match="can't read the expectation: gates.0.: gate mrr: can't read ''"):
            rag_eval.expect("mrr")

def test_a_drop(rag_eval):
    worse = [{**ROWS[0], "retrieved_doc_ids": ["d2", "d1"]}, ROWS[1]]
    before, now = rag_eval(ROWS, metrics="mrr"), rag_eval(worse, metrics="mrr")
    assert rag_eval.expect({"metric": "mrr", "max_drop": 0.5}, report=now, baseline=before).passed

def test_without(tmp_path):
    pass
"""


@pytest.fixture
def run(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        return pytester.runpytest_subprocess("-p", PLUGIN, "--strict-markers", "-p", "no:cacheprovider", *arguments)

    return run


def test_expectations_pass_and_fail_on_xdist_and_each_run_is_in_one_summary(pytester, run):
    pytester.makepyfile(test_faq=TESTS)
    done = run("-p", "xdist", "-n", "2")
    done.assert_outcomes(passed=5, failed=1)
    said = done.stdout.str()
    failure = said[said.index("2 expectations missed") - 5 : said.index("short test summary")]
    for part in ("1 of 2 expectations missed", "faithfulness is 0.500, not >= 0.900 (n=2)", "worst: b 0.000; a 1.000"):
        assert part in failure
    assert "Traceback" not in failure
    section = said[said.index("= ragassay =") :]
    runs = re.findall(r"^(test_faq\.py::\S+)  run (\S+): ", section, re.MULTILINE)
    assert len(runs) == 11  # seven evaluations and four calls of expect
    assert re.search(r"::test_missed  run \S+: 1 of 2 expectations met", section)
    stored = {path.name for path in Path(os.environ["RAGASSAY_HOME"], "runs").iterdir()}
    assert stored == {name for _, name in runs}


def test_tests_with_the_fixture_are_chosen_by_its_marker(pytester, run):
    pytester.makepyfile(test_faq=TESTS)
    done = run("-m", "not rag_eval")
    done.assert_outcomes(passed=1, deselected=5)
    assert "ragassay" not in done.stdout.str().partition("collected")[2]


def test_it_imports_nothing_heavy_where_nobody_asks_for_it():
    code = (
        f"import sys, pytest; before = set(sys.modules); import {PLUGIN}; "
        "print(sorted(m for m in set(sys.modules) - before if m.partition('.')[0] != '__future__'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "['ragassay', 'ragassay.integrations', 'ragassay.integrations.pytest']"
