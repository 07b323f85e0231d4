"""``ragassay.evaluate``: from rows to a report in one call; ``ragassay.gate``."""

import asyncio
import inspect
import threading
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_overloads, get_type_hints

import pytest

import ragassay
from provider import Provider
from ragassay import Sample, aevaluate, evaluate
from ragassay.config import ProjectConfig, sections
from ragassay.core.errors import AssayError, BadSettings
from ragassay.core.eval_config import Performance, RunConfig
from ragassay.sdk.options import BenchmarkOptions, EvalOptions, RunOptions

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
    computing, others = threading.Event(), threading.Event()

    class Waits:
        name, better = "waits", "higher"

        def compute(self, sample):
            computing.set()
            return float(others.wait(60))

    async def notebook():
        inside = evaluate(rows, metrics="faithfulness")
        waiting = asyncio.create_task(aevaluate(rows, metrics=["faithfulness", Waits()]))
        while not computing.is_set() and not waiting.done():
            await asyncio.sleep(0.01)
        others.set()
        return inside, await waiting

    inside, awaited = asyncio.run(notebook())
    assert inside["faithfulness"] == awaited["faithfulness"] == evaluate(rows, metrics="faithfulness")["faithfulness"]
    assert awaited["waits"] == [1.0] * len(rows)


def test_who_cancels_pays_no_further_call(rows, monkeypatch):
    monkeypatch.setenv("RAGASSAY_API_KEY", "sk-test")
    many = [{**row, "question": f"{row['question']} {n}"} for n in range(20) for row in rows]

    async def cancelled(provider):
        how = {"judge": "openai/m", "api_base": provider.url, "performance": {"concurrency": 2}}
        task = asyncio.create_task(aevaluate(many, metrics="faithfulness", **how))
        while not provider.log:
            await asyncio.sleep(0.05)
        task.cancel()
        calls = len(provider.log)
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(1.5)
        return calls

    with Provider(latency_s=0.3) as provider:
        calls = asyncio.run(cancelled(provider))
        assert len(provider.log) <= calls + 2 < 60, "but the two on their way"


def test_every_key_of_the_configuration_is_a_keyword_of_the_same_type():
    others = {"data", "datasets", "gates", "baseline", "schedule"}
    named = {"metrics", "judge", "systems"}
    assert EvalOptions.__annotations__.keys() == ProjectConfig.model_fields.keys() - others - named
    assert EvalOptions.__annotations__.keys() >= RunConfig.model_fields.keys() - named
    types, fields = get_type_hints(EvalOptions), ProjectConfig.model_fields
    plain = {str, int, float, bool, str | None, int | None, float | None}
    same = {key for key, kind in types.items() if kind in plain or get_origin(kind) is Literal} - {"api_base"}
    assert {key: types[key] for key in same} == {key: fields[key].annotation for key in same}
    assert {key for key, kind in types.items() if kind == Mapping[str, Any]} >= sections().keys()


def test_editors_see_the_same_keywords_of_each_function():
    options = [
        [get_args(get_type_hints(one)["options"])[0] for one in get_overloads(each)] for each in (evaluate, aevaluate)
    ]
    assert options == [[RunOptions, BenchmarkOptions]] * 2
    for each in (ragassay.compare, ragassay.gate):
        [keywords] = get_args(get_type_hints(each)["options"])
        assert keywords.__annotations__.keys() >= EvalOptions.__annotations__.keys()
    assert (
        BenchmarkOptions.__annotations__.keys() - EvalOptions.__annotations__.keys()
        <= inspect.signature(evaluate).parameters.keys()
    )


def test_keywords_beat_the_file_section_by_section(rows, tmp_path):
    text = "metrics: [faithfulness]\nseed: 1\nperformance: {attempts: 2}\nmax_failed_share: 0.5\n"
    (tmp_path / "ragassay.yaml").write_text(text)
    report = evaluate(rows, config="ragassay.yaml", seed=7, output="r.md", limit=2, performance={"concurrency": 3})
    again = evaluate(rows, config="ragassay.yaml", performance=Performance(concurrency=3))
    assert again.provenance.configuration.performance == report.provenance.configuration.performance
    used = report.provenance.configuration
    assert (used.metrics, used.seed, used.max_failed_share) == (("faithfulness",), 7, 0.5)
    assert (used.performance.attempts, used.performance.concurrency) == (2, 3)
    assert report.provenance.dataset.rows == 2
    assert (tmp_path / "r.md").exists()


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({}, BadSettings, "data is missing; give rows or a path"),
        ({"concurrency": 2}, BadSettings, "unknown key concurrency; it belongs in performance"),
        ({"gates": []}, BadSettings, "gates: gates are checked by ragassay.gate"),
        ({"metrics": [len]}, BadSettings, "<built-in function len>' is no metric"),
        ({"systems": ["new.jsonl"]}, BadSettings, r"systems: should be {name: ...}, is a list of 1"),
    ],
)
def test_what_does_not_fit_is_one_error_and_nothing_is_evaluated(rows, options, error, says, tmp_path):
    with pytest.raises(error, match=says):
        evaluate(rows if options else None, **options)
    assert not (tmp_path / ".ragassay").exists()


GATES = [{"faithfulness": ">= 0.5"}, {"correctness": ">= 0.99"}]


def test_gate_checks_rows_and_a_run_that_is_there(rows, tmp_path):
    with pytest.raises(AssayError, match="the configuration has no gates"):
        ragassay.gate(rows)
    with pytest.raises(AssayError, match="there is no baseline"):
        ragassay.gate(rows, gates=[{"metric": "faithfulness", "max_drop": 0.1}])
    assert not (tmp_path / ".ragassay").exists()
    result = ragassay.gate(rows, gates=GATES, metrics=METRICS)
    assert (result.passed, [one.metric for one in result.missed]) == (False, ["correctness"])
    assert "MISSED" in str(result)
    assert repr(result) == f"<Gates: run {result.run}, 1 of 2 passed; missed: {result.missed[0].name}>"
    again = ragassay.gate(run="last", gates=GATES[:1])
    assert (again.passed, again.run) == (True, result.run)
