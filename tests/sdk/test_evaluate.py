"""``ragassay.evaluate``: from rows to a report in one call; ``ragassay.gate``; warnings at the line of the user."""

import asyncio
import inspect
import json
import time
import warnings

import pytest

import ragassay
from offline_runs import GOOD
from provider import Provider, malformed
from ragassay import Sample, aevaluate, evaluate
from ragassay.core.errors import AssayError, BadSettings

METRICS = ["faithfulness", "correctness", "accurate"]


def test_metrics_may_be_names_functions_and_objects(rows):
    @ragassay.metric(better="higher")
    def short_enough(sample: Sample) -> float:
        return float(len(sample.answer.split()) <= 4)

    class Mentions:
        """Share of the words that are in the answer."""

        better, kind, bounds = "higher", "quality", (0, 1)

        def __init__(self, *words):
            self.words, self.name = words, f"mentions_{words[0]}"

        def compute(self, sample):
            return sum(word in sample.answer for word in self.words) / len(self.words)

    seen = []
    report = evaluate(
        rows, metrics=["faithfulness", short_enough, Mentions("log", "tmp")], progress=lambda *rows: seen.append(rows)
    )
    assert seen[-1] == (3, 3)
    assert list(report.metrics) == ["faithfulness", "short_enough", "mentions_log"]
    assert (report["short_enough"], report["mentions_log"]) == ([0.0, 0.0, 1.0], [0.0, 1.0, 0.0])
    assert report.metrics["mentions_log"].bounds is not None


def test_it_works_inside_a_running_event_loop_and_can_be_awaited_while_others_go_on(rows):
    class Slow:
        name, better = "slow", "lower"

        def compute(self, sample):
            time.sleep(0.05)
            return 1.0

    async def notebook():
        inside = evaluate(rows, metrics="faithfulness")
        ticks, waiting = 0, asyncio.create_task(aevaluate(rows, metrics=["faithfulness", Slow()]))
        while not waiting.done():
            ticks += 1
            await asyncio.sleep(0.01)
        return inside, await waiting, ticks

    inside, awaited, ticks = asyncio.run(notebook())
    assert inside["faithfulness"] == awaited["faithfulness"] == evaluate(rows, metrics="faithfulness")["faithfulness"]
    assert ticks > 5


def test_who_cancels_pays_no_further_call(rows, monkeypatch):
    with Provider(latency_s=0.3) as provider:
        monkeypatch.setenv("RAGASSAY_API_KEY", "sk-test")

        async def cancelled():
            many = [{**row, "question": f"{row['question']} {n}"} for n in range(20) for row in rows]
            how = {"judge": "openai/m", "api_base": provider.url, "metrics": "faithfulness"}
            how["performance"] = {"concurrency": 2}
            task = asyncio.create_task(aevaluate(many, **how))
            while not provider.log:
                await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.sleep(1)
            calls = len(provider.log)
            await asyncio.sleep(0.5)
            return calls

        assert asyncio.run(cancelled()) == len(provider.log) < 20


def test_rows_that_the_judge_failed_on_are_warned_about_and_the_report_is_still_given(rows, monkeypatch):
    monkeypatch.setenv("RAGASSAY_API_KEY", "sk-test")
    how = {"metrics": "faithfulness", "judge": "openai/m", "performance": {"attempts": 1}}
    with Provider(then=malformed) as provider, pytest.warns(RuntimeWarning, match="failed: faithfulness 100%"):
        report = evaluate(rows, api_base=provider.url, **how)
    assert report["faithfulness"] == [None] * 3


def test_keywords_beat_the_file_section_by_section(rows, tmp_path):
    text = "metrics: [faithfulness]\nseed: 1\nperformance: {attempts: 2}\nmax_failed_share: 0.5\n"
    (tmp_path / "ragassay.yaml").write_text(text)
    more = {"performance": {"concurrency": 3}, "budget": {"usd": 2}}
    report = evaluate(rows, config="ragassay.yaml", seed=7, output="r.md", limit=2, **more)
    used = report.provenance.configuration
    assert (used.metrics, used.seed, used.max_failed_share, used.budget.usd) == (("faithfulness",), 7, 0.5, 2)
    assert (used.performance.attempts, used.performance.concurrency) == (2, 3)
    assert report.provenance.dataset.rows == 2
    assert (tmp_path / "r.md").read_text().startswith("<!-- ragassay report -->\n# Evaluation of data")


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({}, BadSettings, "data is missing; give rows or a path"),
        ({"concurrency": 2}, BadSettings, "unknown option concurrency; it belongs in performance"),
        ({"gates": []}, BadSettings, "gates: gates are checked by ragassay.gate"),
        ({"metrics": [len]}, BadSettings, "<built-in function len>' is no metric"),
        ({"systems": ["new.jsonl"]}, BadSettings, r"systems: should be {name: ...}, is a list of 1"),
    ],
)
def test_what_does_not_fit_is_one_error_and_nothing_is_evaluated(rows, options, error, says, tmp_path):
    with pytest.raises(error, match=says):
        evaluate(rows if options else None, **options)
    assert not (tmp_path / ".ragassay").exists()


def test_a_function_is_a_system_under_test(rows):
    asked = []

    def ask(query):
        asked.append(query)
        return {"answer": "Paris is the capital.", "contexts": ["Paris is the capital of France."]}

    async def slower(query):
        await asyncio.sleep(0.01)
        return "I do not know."

    report = ragassay.evaluate(rows, systems={"v1": ask, "v2": slower}, metrics=["completeness"])
    assert sorted(asked) == sorted(row["question"] for row in rows)
    assert {row["system"] for row in report.rows} == {"v1", "v2"}
    assert all(row["latency_ms"] >= 10 for row in report.rows if row["system"] == "v2")


GATES = [{"faithfulness": ">= 0.5"}, {"correctness": ">= 0.99"}]


def test_gate_checks_rows_and_a_run_that_is_there(rows, cli, tmp_path):
    result = ragassay.gate(rows, gates=GATES, metrics=METRICS)
    assert (result.passed, [one.metric for one in result.missed]) == (False, ["correctness"])
    assert "MISSED" in str(result)
    again = ragassay.gate(run="last", gates=GATES[:1])
    assert (again.passed, again.run) == (True, result.run)
    (tmp_path / "ragassay.yaml").write_text("gates: [{faithfulness: '>= 0.5'}, {correctness: '>= 0.99'}]\n")
    code, out, _ = cli("gate", "--run", "last", "--json")
    assert (code, json.loads(out)["passed"]) == (1, False)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "the configuration has no gates"),
        ({"gates": [{"faithfulnes": ">= 0.5"}]}, "faithfulness"),
        ({"gates": [{"metric": "faithfulness", "max_drop": 0.1}]}, "there is no baseline"),
    ],
)
def test_gate_refuses_what_can_not_be_checked_before_it_evaluates(rows, options, says, tmp_path):
    with pytest.raises(AssayError, match=says):
        ragassay.gate(rows, **options)
    assert not (tmp_path / ".ragassay").exists()


ROWS = [{"answerr" if key == "answer" else key: value for key, value in GOOD.items()}]  # of which the reader warns


def here():
    return inspect.currentframe().f_back.f_lineno


def test_warnings_name_the_line_of_the_user_within_an_event_loop_and_awaited_too():
    async def both():
        ragassay.evaluate(ROWS, metrics="mrr")
        first = here() - 1
        await ragassay.aevaluate(ROWS, metrics="mrr")
        return [first, here() - 1]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ragassay.evaluate(ROWS, metrics="mrr")
        lines = [here() - 1, *asyncio.run(both())]
    found = [(one.filename, one.lineno) for one in caught if "answerr" in str(one.message)]
    assert found == [(__file__, line) for line in lines]
