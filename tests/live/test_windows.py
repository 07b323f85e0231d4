"""Figures of windows against their definitions, and drift: a planted regression is alerted, chance is not."""

import json
import random

import numpy as np
import pytest

import ragassay
from live_traffic import GOOD, WRONG, otlp_lines, received, set_rule, spans_of, work_all
from ragassay.core.models import Result, Sample, Score
from ragassay.core.statistics import RatioSums
from ragassay.live import store as live_store
from ragassay.live.models import Counts, LiveRule, StoredStream, before, hours_in
from ragassay.live.store import ChosenRow
from ragassay.live.windows import WindowRows, alpha_of, drift, figures_of, is_due
from ragassay.metrics.composite import criterion_metric
from ragassay.stats.intervals import wilson_interval
from ragassay.stats.ratio import Stratum, sums_interval


def rows_of(scores, *, cause="sampled", metric="faithfulness", first=0, **fields):
    """Chosen rows and their results; None: the score is missing."""
    chosen, results = {}, []
    for n, score in enumerate(scores, first):
        absent = Score.absent("the judge gave no verdict", "failed")
        value = absent if score is None else Score(value=score)
        chosen[f"t{n}"] = ChosenRow(cause, Sample(query_id=f"t{n}", query="?"))
        results.append(Result(query_id=f"t{n}", system="default", query="?", scores={metric: value}, **fields))
    return chosen, results


def window_of(*parts, custom=None):
    by_job = {f"job{n}": figures_of(*part) for n, part in enumerate(parts)}
    return WindowRows({"2026-11-26T17": by_job}, custom or {})


def test_window_means_are_of_sampled_rows_alone():
    sampled = rows_of([1.0, 0.5, None, 0.0])
    always = rows_of([0.0] * 5, cause="low_score", first=10)
    window = window_of(sampled, always).window("shop", "2026-11-26T17", Counts(received=40))
    estimate = window.metrics["faithfulness"]
    assert (window.rows, window.always, estimate.n, estimate.failed) == (4, 5, 3, 1)
    assert estimate.value == pytest.approx(0.5)  # (1 + 0.5 + 0) / 3
    assert estimate.missing == {"the judge gave no verdict": 1}
    assert estimate.interval.low < 0.5 < estimate.interval.high


def test_window_rows_of_jobs_with_other_metrics_have_no_score_there():
    first, second = rows_of([1.0, 1.0]), rows_of([0.0], metric="mrr", first=5)
    rows = window_of(first, second)
    assert rows.metrics == ["faithfulness", "mrr"]
    assert np.isnan(rows.column("faithfulness")).tolist() == [False, False, True]
    assert rows.estimate("mrr").n == 1


def test_window_cost_per_accurate_answer_is_that_of_its_sums():
    accurate = [1.0, 0.0] * 10
    window = window_of(rows_of(accurate, metric="accurate", cost_usd=0.01, latency_ms=100.0))
    figures = window.window("shop", "2026-11-26", Counts())
    cost = figures.cost_per_accurate_answer
    assert (cost.value, cost.accurate, cost.n) == (pytest.approx(0.02), 10, 20)
    assert cost.interval == sums_interval([Stratum(RatioSums.of([(0.01, right) for right in accurate]), 20)])
    assert (figures.latency_ms.p50, figures.cost_usd.total) == (100.0, pytest.approx(0.2))
    assert figures.refusals.interval == wilson_interval(0, 0)


def test_windows_of_a_day_are_its_hours():
    assert hours_in("2026-11-26")[23] == "2026-11-26T23"
    assert before("2026-03-01T00", 2) == ["2026-02-28T23", "2026-02-28T22"]
    assert before("2026-03-01", 1) == ["2026-02-28"]


def test_drift_names_the_metric_that_is_worse_and_needs_rows_on_both_sides():
    rng = np.random.default_rng(1)
    reference = window_of(rows_of(rng.uniform(0.6, 1.0, 200).tolist()))
    worse = window_of(rows_of(rng.uniform(0.3, 0.9, 100).tolist()))
    [found] = drift(reference, worse, names=("before", "now"), stream="shop", alpha=0.001)
    assert (found.metric, found.outcome, found.n_a, found.n_b) == ("faithfulness", "worse", 200, 100)
    assert found.interval.low < -0.2 < found.interval.high < 0
    [same] = drift(reference, reference, names=("before", "now"), stream="shop", alpha=0.001)
    assert same.outcome == "no difference shown"
    few = window_of(rows_of([0.0] * 29))
    assert drift(reference, few, names=("before", "now"), stream="shop", alpha=0.001) == []


def test_drift_looks_at_criteria_of_the_stream():
    custom = {"polite": criterion_metric("polite")}
    reference, worse = (window_of(rows_of([score] * 40, metric="polite"), custom=custom) for score in (1.0, 0.25))
    [difference] = drift(reference, worse, names=("before", "now"), stream="shop", alpha=0.001)
    assert (difference.metric, difference.outcome) == ("polite", "worse")
    assert worse.estimate("polite").interval.method == "constant values"  # of scores from 0 to 1


def test_alpha_of_all_looks_together_is_no_more_than_alpha():
    assert sum(alpha_of(look, 0.05) for look in range(1, 10_000)) == pytest.approx(0.05, rel=1e-3)
    assert [is_due(30, 0), is_due(29, 0), is_due(44, 30), is_due(45, 30)] == [True, False, False, True]


@pytest.fixture
def clock(monkeypatch):
    """Sets the hour in which spans come."""
    return lambda hour: monkeypatch.setattr(live_store, "hour_of", lambda _: hour)


def alerts(live):
    live.jobs.notifier.empty_outbox()
    page = live.jobs.notifier.page(live.store.project, kind="drift", cursor=None, limit=100)
    return page.alerts


def test_look_a_retriever_that_returns_wrong_contexts_is_alerted_once_within_its_window(live, queue, clock):
    set_rule(live, metrics=("faithfulness", "relevance"))
    clock("2026-11-26T16")
    live.store.append(received(*(spans_of(n) for n in range(150))))
    work_all(live, queue)
    assert alerts(live) == ()
    clock("2026-11-26T17")
    live.store.append(received(*(spans_of(n) for n in range(900, 929))))
    work_all(live, queue)
    assert live.store.looks("shop", "2026-11-26T17") == (0, 0)  # 29 rows are too few
    for part in range(5):  # of five requests one has a wrong context
        numbers = range(1000 + 40 * part, 1040 + 40 * part)
        live.store.append(received(*(spans_of(n, context=WRONG if n % 5 == 0 else GOOD) for n in numbers)))
        work_all(live, queue)
    [alert] = [one for one in alerts(live) if one.window == "2026-11-26T17"]
    assert (alert.stream, alert.metric) == ("shop", "faithfulness")
    assert alert.low < alert.value - alert.baseline < alert.high < 0
    [now, reference] = live.windows("shop", "hour", limit=5).windows
    assert (now.window, now.reference, now.rows, reference.rows) == ("2026-11-26T17", ("2026-11-26T16",), 229, 150)
    outcomes = {one.metric: one.outcome for one in now.drift}
    assert outcomes == {"faithfulness": "worse", "relevance": "no difference shown"}


def test_look_twenty_streams_without_a_change_have_at_most_one_false_alert(live):
    """Half a day of each: 12 hours of 120 rows in four parts, four metrics whose rows are draws from one distribution."""
    rng, hours = random.Random(7), [f"2026-11-26T{hour:02d}" for hour in range(12)]
    draws = {"faithfulness": [0.0, 0.5, 1, 1, 1, 1], "relevance": [0.25, 0.5, 0.75, 1, 1], "accurate": [0, 1, 1]}
    draws["mrr"] = [0] * 9 + [1]
    for number in range(20):
        stream = f"s{number}"
        live.store.put_stream(stream, StoredStream(rule=LiveRule()))
        for place, hour in enumerate(hours):
            live.store.redis.zadd(live.store.key("hours", stream), {hour: place})
            for part in range(4):
                chosen, results = rows_of([1.0] * 30)
                for n, one in enumerate(results):
                    scores = {name: Score(value=float(rng.choice(of))) for name, of in draws.items()}
                    results[n] = one.model_copy(update={"scores": scores})
                figures = figures_of(chosen, results)
                live.store.redis.hset(live.store.key("window", stream, hour), f"{part}", json.dumps(figures))
                live.store.redis.hincrby(live.store.key("counts", stream, hour), "sampled", 30)
                live._look(stream, hour, LiveRule())
    assert len(alerts(live)) <= 1


def test_sampled_rows_score_as_the_same_rows_of_a_file_do(live, queue, tmp_path, monkeypatch):
    """The same spans, once through the service and once as a file that ``ragassay.evaluate`` reads."""
    monkeypatch.setattr("ragassay.evaluation.runtime.embedder", lambda *_: (None, "the tests need no model"))
    metrics = ("faithfulness", "relevance")
    set_rule(live, metrics=metrics)
    requests = [spans_of(n, context=WRONG if n % 3 == 0 else GOOD) for n in range(30)]
    live.store.append(received(*requests))
    work_all(live, queue)
    file = tmp_path / "spans.jsonl"
    file.write_text(otlp_lines(requests))
    report = ragassay.evaluate(file, metrics=metrics, judge="local")
    by_id = {row["query_id"]: [row[name] for name in metrics] for row in report.rows}
    [hour] = live.store.hours("shop")
    rows = WindowRows(live.store.figures("shop", [hour]))
    scores = zip(*(rows.column(name).tolist() for name in metrics), strict=True)
    assert {trace: list(of) for trace, of in zip(rows.traces, scores, strict=True)} == by_id
    assert len(by_id) == 30


def test_drift_of_a_window_that_happens_to_be_constant_is_none():
    reference, zeros = window_of(rows_of([0.0] * 90 + [1.0] * 10)), window_of(rows_of([0.0] * 30))
    [found] = drift(reference, zeros, names=("before", "now"), stream="shop", alpha=0.001)
    # pooled: s^2 = 9 / 128, s sqrt(1/100 + 1/30) = 0.0552, t = 0.1 / 0.0552 = 1.81 on 128
    assert found.p == pytest.approx(0.0725, abs=0.001)
    assert found.outcome == "no difference shown"
    ones = window_of(rows_of([1.0] * 30))
    [found] = drift(ones, zeros, names=("before", "now"), stream="shop", alpha=0.001)
    assert (found.outcome, found.p < 1e-15) == ("worse", True)
