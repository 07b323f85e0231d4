import itertools
import math

import numpy as np
import pytest

from ragassay.errors import BadInput, BadSettings
from ragassay.stats import ConfidenceSequence, CorrectedSequence, StopRule, stop_rule
from ragassay.stats.sequences import CAP, STEPS


def looked_at(values, **options):
    sequence = ConfidenceSequence(**options)
    sequence.update(values)
    return sequence


def by_the_book(values, level):
    """The hedged capital process, candidate by candidate and value by value, in logarithms, as its authors write it."""
    means = np.arange(STEPS + 1) / STEPS
    alpha = 1 - level
    up, down, alive = np.zeros(STEPS + 1), np.zeros(STEPS + 1), np.ones(STEPS + 1, dtype=bool)
    seen = []
    for t, x in enumerate(values, start=1):
        centres = [(0.5 + sum(seen[: i + 1])) / (i + 2) for i in range(len(seen))]
        variance = (0.25 + sum((s - c) ** 2 for s, c in zip(seen, centres, strict=True))) / t
        stake = math.sqrt(2 * math.log(2 / alpha) / (variance * t * math.log(1 + t)))
        with np.errstate(divide="ignore"):
            up += np.log1p(np.minimum(stake, CAP / means) * (x - means))
            down += np.log1p(-np.minimum(stake, CAP / (1 - means)) * (x - means))
        alive &= np.maximum(up, down) + math.log(0.5) < math.log(1 / alpha)
        seen.append(x)
    return max(0, np.flatnonzero(alive)[0] - 1) / STEPS, min(STEPS, np.flatnonzero(alive)[-1] + 1) / STEPS


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("n", [1, 40, 150])
def test_the_interval_is_the_one_its_authors_define(n, level):
    values = np.random.default_rng(n).beta(3, 1, n)
    found = looked_at(values, level=level).interval
    assert (found.low, found.high) == pytest.approx(by_the_book(values, level), abs=1e-12)


def test_before_the_first_value_everything_is_possible():
    found = ConfidenceSequence(bounds=(-1.0, 1.0))
    assert (found.interval.low, found.interval.high, found.interval.width, found.n) == (-1.0, 1.0, 2.0, 0)
    found.update([])
    assert found.interval.width == 2.0


def test_the_interval_does_not_depend_on_when_one_looks():
    values = np.random.default_rng(2).choice([0.0, 0.5, 1.0], 500)
    whole = looked_at(values).interval
    for step in (1, 7, 50, 64, 65):
        parts = ConfidenceSequence()
        for start in range(0, 500, step):
            parts.update(values[start : start + step])
        assert parts.interval == whole
        assert parts.n == 500


def test_it_narrows_and_never_widens():
    values, sequence, widths = np.random.default_rng(3).beta(4, 1, 2000), ConfidenceSequence(), [1.0]
    for start in range(0, 2000, 50):
        sequence.update(values[start : start + 50])
        widths.append(sequence.interval.width)
    assert all(after <= before for before, after in itertools.pairwise(widths))
    # 2 * 1.96 * sd / sqrt(2000) = 0.0143 would be the width of an interval looked at once; looking always costs 3 times
    assert widths[-1] < 3 * 0.0143


def test_scores_on_another_scale_give_the_same_interval_on_that_scale():
    values = np.random.default_rng(4).random(300)
    unit, scaled = looked_at(values).interval, looked_at(6 * values - 1, bounds=(-1.0, 5.0)).interval
    assert (scaled.low, scaled.high) == pytest.approx((6 * unit.low - 1, 6 * unit.high - 1), abs=0.0061)


def test_swapping_the_systems_mirrors_the_interval():
    d = np.random.default_rng(5).choice([-1.0, -0.5, 0.0, 0.5, 1.0], 400, p=[0.05, 0.1, 0.5, 0.2, 0.15])
    forth, back = looked_at(d, bounds=(-1, 1)).interval, looked_at(-d, bounds=(-1, 1)).interval
    assert (back.low, back.high) == pytest.approx((-forth.high, -forth.low), abs=1e-12)


def test_equal_scores_narrow_too():
    found = looked_at([1.0] * 200)
    assert found.interval.high == 1.0
    assert found.interval.low > 0.9


def test_values_in_an_order_that_is_not_random_are_noticed_and_said():
    values = [0.0] * 300 + [1.0] * 2000
    found = looked_at(values)
    assert found.interval.reason == "later values contradict earlier ones: their order is not random"
    assert found.interval.low <= found.interval.high
    one_by_one = ConfidenceSequence()
    for value in values:
        one_by_one.update([value])
    assert one_by_one.interval == found.interval
    assert one_by_one.n == 2300


@pytest.mark.parametrize(
    ("text", "canonical", "watches", "width"),
    [
        ("width <= 0.1", "width <= 0.1", "scores", 0.1),
        ("  Width<=.05 ", "width <= 0.05", "scores", 0.05),
        ("decided  against Baseline", "decided against baseline", "differences", None),
    ],
)
def test_stop_rules_are_read(text, canonical, watches, width):
    rule = stop_rule(text)
    assert rule == StopRule(text=canonical, width=width)
    assert rule.watches == watches
    assert stop_rule(rule.text) == rule


@pytest.mark.parametrize("text", ["", "width < 0.1", "width <= 0", "width <= -1", "width <= wide", "decided", "n > 5"])
def test_a_rule_that_is_none_is_refused_with_both_forms(text):
    with pytest.raises(BadSettings, match=r"no stop rule .*'width <= 0\.1' or 'decided against baseline'"):
        stop_rule(text)


def test_judging_stops_when_every_watched_interval_is_narrow_enough():
    rng = np.random.default_rng(6)
    narrow, wide = looked_at(rng.beta(20, 2, 300)), looked_at(rng.choice([0.0, 1.0], 300))
    rule = stop_rule("width <= 0.1")
    assert narrow.interval.width <= 0.1 < wide.interval.width
    assert rule.why_stop({"faithfulness": narrow}) == f"width <= 0.1: faithfulness {narrow.interval} after 300"
    assert rule.why_stop({"faithfulness": narrow, "relevance": wide}) is None
    assert rule.why_stop({}) is None


def test_judging_stops_when_the_better_system_is_known():
    rng = np.random.default_rng(7)
    rule, sequence = stop_rule("decided against baseline"), ConfidenceSequence(bounds=(-1, 1))
    assert rule.why_stop({"faithfulness": sequence}) is None
    while rule.why_stop({"faithfulness": sequence}) is None:
        sequence.update(rng.choice([-0.5, 0.0, 0.5], 10, p=[0.1, 0.5, 0.4]))
    # gain 0.15, sd 0.32: a test planned in advance needs about 40; looking all the time costs some more
    assert 30 <= sequence.n <= 300
    assert sequence.interval.low > 0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: looked_at([0.5, 1.5]), BadInput, r"values\[1\] lies outside 0\.\.1"),
        (lambda: looked_at([-1.2], bounds=(-1, 1)), BadInput, r"values\[0\] lies outside -1\.\.1"),
        (lambda: looked_at([float("nan")]), BadInput, "not a finite number"),
        (lambda: ConfidenceSequence(level=1.0), BadSettings, "level is 1"),
        (lambda: ConfidenceSequence(bounds=(1.0, 1.0)), BadSettings, "bounds are 1 and 1"),
    ],
)
def test_what_makes_no_sense_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def labelled_rows(rng, count, share, *, yes=0.7, too_kind=0.4, too_strict=0.05):
    """What a cheap judge and, on a share of the rows, a better one make of made-up answers."""
    truth = (rng.random(count) < yes).astype(float)
    cheap = np.where(truth > 0, rng.random(count) >= too_strict, rng.random(count) < too_kind).astype(float)
    chosen = rng.random(count) < share
    return [(cheap[n], truth[n] if chosen[n] else None, bool(chosen[n])) for n in range(count)]


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_corrected_sequence_errs_in_at_most_5_of_100_whenever_one_stops(share):
    """An interval never widens, so what it lost at any look it lacks at the last; the judge's own misses nearly always."""
    rng, runs, missed = np.random.default_rng(8), 100, 0
    for _ in range(runs):
        rows = labelled_rows(rng, 600, share)
        sequence = CorrectedSequence(0.95, (0.0, 1.0), sum(expected for *_, expected in rows), len(rows))
        sequence.update(rows)
        missed += not sequence.interval.contains(0.7)
    assert missed <= 11  # at 5 in 100 more than 11 come once in 200 times


def test_a_judge_that_is_mostly_right_saves_most_of_the_labels():
    rng = np.random.default_rng(9)
    widths = {}
    for name, judge in {
        "good": {"too_kind": 0.05, "too_strict": 0.05},
        "none": {"too_kind": 0.5, "too_strict": 0.5},
    }.items():
        rows = labelled_rows(rng, 2000, 0.3, **judge)
        sequence = CorrectedSequence(0.95, (0.0, 1.0), sum(expected for *_, expected in rows), len(rows))
        sequence.update(rows)
        widths[name] = sequence.interval.width
    assert widths["good"] < 0.65 * widths["none"]


def test_corrected_ends_do_not_depend_on_when_one_looks_nor_on_rows_that_lack_something():
    rng = np.random.default_rng(10)
    rows = labelled_rows(rng, 400, 0.4)
    rows[3], rows[5] = (None, None, False), (1.0, None, True)
    labels = sum(expected for *_, expected in rows)
    whole = CorrectedSequence(0.95, (0.0, 1.0), labels, 400)
    whole.update(rows)
    parts = CorrectedSequence(0.95, (0.0, 1.0), labels, 400)
    for start in range(0, 400, 7):
        parts.update(rows[start : start + 7])
    assert parts.interval == whole.interval
    assert (parts.n, parts.labels) == (whole.n, whole.labels)
    assert whole.labels == sum(label is not None for _, label, _ in rows)
    assert whole.n <= 398


def test_differences_are_corrected_too():
    rng = np.random.default_rng(11)
    truth = rng.choice([-1.0, 0.0, 1.0], 1500, p=[0.05, 0.55, 0.4])
    judged = np.where(rng.random(1500) < 0.2, 0.0, truth)
    chosen = rng.random(1500) < 0.4
    sequence = CorrectedSequence(0.95, (-1.0, 1.0), int(chosen.sum()), 1500)
    sequence.update((judged[n], truth[n] if chosen[n] else None, bool(chosen[n])) for n in range(1500))
    assert sequence.interval.contains(0.35)
    assert 0.1 < sequence.interval.low < sequence.interval.high < 0.6
