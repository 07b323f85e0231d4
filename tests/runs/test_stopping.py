"""Judging that ends early: which rows, when, what it saves, and that looking again and again does not mislead."""

import random

import orjson
import pytest

from offline_runs import GOOD, ScriptedJudge, evaluated, new_run, sample, source_of, without_times, write_jsonl
from ragassay import gates
from ragassay.errors import BadSettings, NotFound
from ragassay.exporters import markdown
from ragassay.gates import Gate
from ragassay.judges.sharing import is_chosen
from ragassay.models import Result, Score, Usage
from ragassay.runs.stopping import StopMonitor, baseline_rows
from ragassay.specification import JobSpec
from ragassay.store.folder import FolderStore
from ragassay.store.protocol import RunRecord

ROWS = 600


class Grader(ScriptedJudge):
    """Finds one answer in ten of 'good' unsupported, and six in ten of any other system; counts what it is asked."""

    async def judge(self, samples, ledger):
        judgements = await super().judge(samples, ledger)
        share = 0.1 if ledger._scope == "good" else 0.6
        return [
            self._marred(f, random.Random(s.query_id).random() < share)
            for s, f in zip(samples, judgements, strict=True)
        ]

    def _marred(self, judgement, bad):
        if not bad:
            return judgement
        sentences = tuple(
            s.model_copy(update={"support": "not_found", "evidence": ()}) for s in judgement.verdict.sentences
        )
        return judgement.model_copy(update={"verdict": judgement.verdict.model_copy(update={"sentences": sentences})})


def run_of(root, rule, systems=("good",), rows=ROWS, baseline_scores=None, **spec):
    spec = JobSpec(**{"metrics": ("faithfulness", "mrr"), "judge": "a-model", "stop_when": rule, **spec})
    return new_run(root, [sample(n) for n in range(rows)], spec, systems=systems, baseline=baseline_scores)


def record(rule, metrics=("faithfulness",), systems=("a",), rows=600, **spec):
    """The record of a run that nobody has written down."""
    data = source_of(range(rows))
    return RunRecord(
        id="r",
        created_at="2026-01-01T00:00:00+00:00",
        spec=JobSpec(stop_when=rule, **spec),
        metrics=metrics,
        dataset=data,
        systems=dict.fromkeys(systems, data),
    )


def test_without_a_rule_rows_keep_their_order_and_with_one_they_are_shuffled_by_the_seed():
    def order(rule, rows=50, **spec):
        return record(rule, rows=rows, **spec).evaluation_order()

    assert order(None, 5) == [0, 1, 2, 3, 4]
    shuffled = order("width <= 0.1")
    assert sorted(shuffled) == list(range(50)) != shuffled
    assert shuffled == order("width <= 0.2") != order("width <= 0.1", seed=1)


def test_results_come_back_in_the_datasets_order():
    run = record("width <= 0.1", rows=50)
    assert run.in_dataset_order(run.evaluation_order()[:20]) == sorted(run.evaluation_order()[:20])


def test_judging_ends_when_the_interval_is_narrow_and_the_report_says_what_was_saved(tmp_path):
    run, judge = run_of(tmp_path, "faithfulness width <= 0.2"), Grader()
    report = evaluated(run, judge)
    stopped = report.stopped
    assert len(judge.asked) == stopped.rows < ROWS
    assert (stopped.rows + stopped.rows_left, stopped.calls_saved) == (ROWS, ROWS - stopped.rows)
    system = report.systems["good"]
    assert system.queries == len(system.results) == stopped.rows
    assert report.run.status == "finished"
    places = [int(result.query_id[1:]) for result in system.results]
    assert places == sorted(places)
    assert max(places) > stopped.rows  # not simply the first rows of the file
    assert system.metrics["faithfulness"].interval == stopped.intervals["good"]["faithfulness"]
    assert stopped.intervals["good"]["faithfulness"].width <= 0.2
    assert system.metrics["mrr"].interval.method != "betting confidence sequence"
    said = f"{stopped.rows} of 600 rows evaluated, {stopped.rows_left} judge calls saved"
    assert said in markdown.export(report).decode()


class Prober(Grader):
    """Takes as many calls for a row as it says."""

    def __init__(self, calls):
        super().__init__()
        self._calls = calls

    async def judge(self, samples, ledger):
        usage = Usage(calls=self._calls - 1, cache_hits=1) if self._calls else Usage()
        return [one.model_copy(update={"usage": usage}) for one in await super().judge(samples, ledger)]


def test_calls_are_saved_at_what_a_row_took_so_far(tmp_path):
    for calls in (2, 7, 0):
        run = run_of(tmp_path, "width <= 0.3", metrics=("faithfulness",))
        stopped = evaluated(run, Prober(calls)).stopped
        assert stopped.calls_saved == calls * stopped.rows_left
        assert stopped.rows_left > 0


def test_a_resumed_run_stops_at_the_same_row_with_the_same_numbers(tmp_path):
    whole = evaluated(run_of(tmp_path / "a", "width <= 0.2"), Grader())

    class Dies(Grader):
        async def judge(self, samples, ledger):
            if len(self.asked) >= 50:
                raise KeyboardInterrupt
            return await super().judge(samples, ledger)

    run = run_of(tmp_path / "b", "width <= 0.2")
    with pytest.raises(KeyboardInterrupt):
        evaluated(run, Dies())
    again = Grader()
    resumed = evaluated(FolderStore(tmp_path / "b").open("last"), again)
    assert without_times(resumed.model_dump()) == without_times(whole.model_dump())
    assert len(again.asked) == whole.stopped.rows - 50
    idle = Grader()
    assert without_times(evaluated(run, idle).model_dump()) == without_times(whole.model_dump())
    assert idle.asked == []


def test_a_rule_that_is_never_satisfied_evaluates_everything(tmp_path):
    report = evaluated(run_of(tmp_path, "width <= 0.001", rows=70), Grader())
    assert report.stopped is None
    assert report.systems["good"].queries == 70


def test_a_rule_that_is_satisfied_by_the_last_chunk_saved_nothing(tmp_path):
    report = evaluated(run_of(tmp_path, "width <= 0.99", rows=50), Grader())
    assert report.stopped is None


def test_two_systems_are_told_apart_and_the_baseline_may_be_one_of_them(tmp_path):
    run, judge = run_of(tmp_path, "decided against baseline", ("good", "bad"), baseline="bad"), Grader()
    stopped = evaluated(run, judge).stopped
    assert len(judge.asked) == 2 * stopped.rows < 2 * ROWS
    assert stopped.calls_saved == 2 * stopped.rows_left
    assert set(stopped.intervals) == {"good"}
    assert stopped.intervals["good"]["faithfulness"].low > 0
    assert "faithfulness of good - bad" in stopped.reason


def test_the_baseline_may_be_a_stored_run(tmp_path):
    stored = run_of(tmp_path / "old", None, ("bad",))
    scores = baseline_rows(evaluated(stored, Grader()), None)
    rule = {"rule": "decided against baseline", "baseline": "old", "metrics": ("faithfulness",)}
    stopped = evaluated(run_of(tmp_path, **rule, baseline_scores=scores), Grader(), scores).stopped
    assert stopped.rows < ROWS
    assert stopped.intervals["good"]["faithfulness"].low > 0


@pytest.mark.parametrize(
    ("rule", "more", "systems", "message"),
    [
        ("width < 0.1", {}, ["a"], "no stop rule"),
        ("ndcg@10 width <= 0.1", {}, ["a"], "ndcg@10 is not computed"),
        ("decided against baseline", {}, ["a", "b"], "there is no baseline"),
        ("decided against baseline", {"baseline": "a"}, ["a"], "is the only system"),
    ],
)
def test_a_rule_that_can_not_be_followed_is_refused(rule, more, systems, message):
    with pytest.raises(BadSettings, match=message):
        StopMonitor(record(rule, systems=systems, **more))


def test_other_refusals_name_what_is_wrong(tmp_path):
    with pytest.raises(NotFound, match="there is no baseline 'c'"):
        StopMonitor(record("decided against baseline", systems=("a", "b"), baseline="c"))
    with pytest.raises(BadSettings, match="no judged metric is computed"):
        StopMonitor(record("width <= 0.1", ("mrr",)))
    with pytest.raises(BadSettings, match="has no least and greatest value"):
        StopMonitor(record("cost_usd width <= 0.1", ("cost_usd",)))
    report = evaluated(run_of(tmp_path, None, ("good", "bad"), rows=3), Grader())
    with pytest.raises(BadSettings, match="has several systems"):
        baseline_rows(report, None)
    with pytest.raises(NotFound, match="has no system 'ugly'"):
        baseline_rows(report, "ugly")


def chunk(scores, start):
    """Results of systems whose scores are given, as a run would hand them over."""
    return {
        system: [
            Result(query_id=f"q{start + n}", system=system, query="?", scores={"faithfulness": Score(value=value)})
            for n, value in enumerate(values)
        ]
        for system, values in scores.items()
    }


def test_equal_systems_are_seldom_called_different_although_one_looks_after_every_chunk():
    """At level 0.95 one run in twenty at the most may claim a difference: 300 runs of 20 looks each.

    By chance alone 300 runs at a rate of exactly 0.05 give more than 24 claims about once in twenty times; betting
    sequences are far below their level, so that 24 is no tight limit.
    """
    draw, claims = random.Random(7), 0
    for _ in range(300):
        monitor = StopMonitor(record("decided against baseline", systems=("a", "b"), baseline="a"))
        for n in range(20):
            values = {s: [draw.choice((0.0, 0.5, 1.0)) for _ in range(10)] for s in ("a", "b")}
            monitor.update(chunk(values, n * 10))
        claims += monitor.why is not None
    assert claims <= 24


def test_the_interval_at_the_stop_holds_the_true_mean_as_often_as_it_says():
    """Stopping at the first narrow look does not bias it: of 200 runs at most 1 in 20 (and chance) may miss 0.7."""
    draw, missed = random.Random(11), 0
    for _ in range(200):
        monitor = StopMonitor(record("width <= 0.25"))
        while monitor.why is None:
            monitor.update(chunk({"a": [float(draw.random() < 0.7) for _ in range(20)]}, 0))
        interval = monitor.intervals["a"]["faithfulness"]
        missed += not interval.low <= 0.7 <= interval.high
    assert missed <= 17


def test_the_command_line_stops_too_and_decides_against_an_earlier_run(cli, tmp_path):
    good = [{**GOOD, "query_id": f"q{n}"} for n in range(300)]
    bad = [{**row, "answer": "Bananas are yellow."} for row in good]
    asked = ("--metrics", "faithfulness")
    code, _, _ = cli("evaluate", write_jsonl(tmp_path / "bad.jsonl", bad), *asked, "-o", "old.json")
    assert code == 0
    rule = ("--stop-when", "faithfulness decided against baseline")
    code, out, _ = cli(
        "evaluate", write_jsonl(tmp_path / "good.jsonl", good), *asked, *rule, "--baseline", "old.json", "--json"
    )
    assert code == 0
    report = orjson.loads(out)
    assert report["stopped"]["rows"] < 300
    assert report["stopped"]["intervals"]["default"]["faithfulness"]["low"] > 0
    code, out, _ = cli("evaluate", "good.jsonl", *asked, "--stop-when", "width <= 0.4")
    assert (code, "rows evaluated, 0 judge calls saved" in " ".join(out.split())) == (0, True)
    code, out, err = cli("evaluate", "good.jsonl", *asked, *rule, "--baseline", "last#other")
    assert (code, out) == (2, "")
    assert "has no system 'other'" in err
    code, _, err = cli("evaluate", "good.jsonl", *asked, "--stop-when", "soon")
    assert (code, err.startswith("error: --stop-when")) == (2, True)


def test_a_run_that_stopped_early_can_pass_its_gates_and_one_that_did_not_says_so(tmp_path):
    report = evaluated(run_of(tmp_path / "a", "width <= 0.3"), Grader())
    assert report.stopped
    checked = gates.check(report, (Gate(metric="faithfulness", min=0.5),))
    assert [result.passed for result in checked.results] == [True]
    whole = evaluated(run_of(tmp_path / "b", "width <= 0.001", rows=70), Grader())
    assert "ot stopped early: width <= 0.001 was not reached" in markdown.export(whole).decode().replace("\\", "")


def labelled(number, share=0.4):
    """A row of which people say what they do of four in ten answers."""
    draw = random.Random(number)
    labels = {"faithfulness": float(draw.random() < 0.6)} if draw.random() < share else {}
    made = sample(number)
    return made.model_copy(update={"response": made.response.model_copy(update={"reference_labels": labels})})


def labelled_run(root, rule, share=0.4, rows=ROWS, **spec):
    spec = JobSpec(metrics=("faithfulness",), judge="a-model", stop_when=rule, **spec)
    return new_run(root, [labelled(n, share) for n in range(rows)], spec, systems=("good",))


def test_a_rule_goes_by_labels_where_rows_have_them(tmp_path):
    """The judge says 0.9, people 0.6: the interval that the rule watches is about these."""
    run = labelled_run(tmp_path, "faithfulness width <= 0.35")
    counted = run.record.labelled["good"]["faithfulness"]
    assert (counted.rows, counted.labels) == (ROWS, sum(random_has_label(n) for n in range(ROWS)))
    report = evaluated(run, Grader())
    stopped, mean = report.stopped, report.systems["good"].metrics["faithfulness"]
    assert stopped.rows < ROWS
    assert stopped.labels == {"good": {"faithfulness": mean.corrected.labels}}
    assert mean.corrected.interval == stopped.intervals["good"]["faithfulness"]
    assert mean.corrected.interval.low < 0.6 < mean.corrected.interval.high < mean.mean
    assert mean.interval.method == "quasi-binomial"
    assert f"faithfulness by {mean.corrected.labels} labels" in stopped.reason
    resumed = StopMonitor(run.record)
    assert resumed.follow(run) == stopped.reason


def random_has_label(number):
    return bool(labelled(number).response.reference_labels)


def test_differences_go_by_labels_of_both_systems_and_the_baselines_own_without_any(tmp_path):
    """A baseline without labels leaves the judge's own differences; equal labels on both sides show no difference."""
    rule = {"rule": "faithfulness decided against baseline", "rows": 300, "baseline": "bad"}
    samples = [labelled(n, 0.9) for n in range(300)]
    spec = JobSpec(metrics=("faithfulness",), judge="a-model", stop_when=rule["rule"], baseline="bad")
    run = new_run(tmp_path / "both", samples, spec, systems=("good", "bad"))
    assert run.record.labelled["good"]["faithfulness"].rows == 300
    report = evaluated(run, Grader())
    assert report.stopped is None  # people say the same of both, whatever the judge says
    spec = spec.model_copy(update={"baseline": "old"})
    stored = [result.model_copy(update={"reference_labels": {}}) for result in report.systems["bad"].results]
    alone = new_run(tmp_path / "stored", samples, spec, systems=("good",), baseline=stored)
    assert alone.record.labelled == {}
    assert evaluated(alone, Grader(), stored).stopped.labels == {}


def test_too_few_labels_for_a_rule_are_an_error_before_anything_is_judged(tmp_path):
    with pytest.raises(BadSettings, match=r"faithfulness is to have \d labels, and a corrected figure needs 10"):
        labelled_run(tmp_path, "faithfulness width <= 0.3", share=0.02, rows=150)
    with pytest.raises(BadSettings, match=r"is to have \d labels"):
        run_of(tmp_path / "share", "faithfulness width <= 0.3", rows=20, judge_share=0.2)


def test_a_share_of_the_rows_saves_only_the_calls_of_its_rows(tmp_path):
    """Without the second judge's verdicts no row of the share counts, and the others by the cheap one's scores."""
    run = run_of(tmp_path, "faithfulness width <= 0.5", judge_share=0.3)
    chosen = run.record.labelled["good"]["faithfulness"].labels
    assert chosen == sum(is_chosen(f"q{n}", 0.3, 0) for n in range(ROWS))
    stopped = evaluated(run, Grader()).stopped
    assert 0 < stopped.calls_saved < 0.45 * stopped.rows_left
