"""A job's canary panel: judged along by whoever has the first chunk, and told to those who want to know of drift."""

from job_workers import finish
from offline_runs import ScriptedJudge, sample, source_of
from ragassay import runs
from ragassay.alerts import Alerts
from ragassay.models import Judgement
from ragassay.specification import JobSpec
from ragassay.store.job_run import JobRun

PANEL = tuple(sample(n) for n in range(100, 130))


def night(jobs, queue):
    rows = [sample(n) for n in range(60)]
    recorded = runs.recorded(source_of(rows), rows)
    inputs = runs.Inputs(recorded.dataset, recorded.samples, recorded.systems, PANEL)
    job, _ = jobs.submit(JobSpec(metrics=("faithfulness",), canary="shipped"), inputs)
    finish(jobs, queue, job.id)
    jobs.finalize(job.id)  # delivered twice
    return job.id


def test_drift_is_told_once_with_the_measure_that_tells_most(make_jobs, queue, store, monkeypatch):
    told = []
    monkeypatch.setattr(Alerts, "tell", lambda _, notice: notice.is_alert and told.append(notice))
    first = night(make_jobs(), queue)
    night(make_jobs(), queue)
    assert told == []
    sour = ScriptedJudge()
    good = sour._one

    def deny(asked):
        judgement = good(asked)
        sentences = tuple(
            one.model_copy(update={"support": "not_found", "evidence": ()}) for one in judgement.verdict.sentences
        )
        return Judgement(verdict=judgement.verdict.model_copy(update={"sentences": sentences}), usage=judgement.usage)

    sour._one = deny
    last = night(make_jobs(sour), queue)
    (notice,) = told
    assert (notice.id, notice.kind, notice.job, notice.project) == (
        f"{last}:judge_drift",
        "judge_drift",
        last,
        "default",
    )
    assert (notice.metric, notice.value, notice.baseline) == ("faithfulness", 0.0, 1.0)
    assert 0 < notice.threshold < 1
    drift = JobRun(store, last).report().drift
    assert (drift.status, drift.baseline_run) == ("drifted", first)
    assert drift.usage.calls == len(PANEL)


def test_everything_of_a_panel_has_its_time(make_jobs, queue, store):
    job = night(make_jobs(), queue)
    names = [store.key(job, "panel"), store.key(job, "canary"), *store.redis.keys(store.of_project("canary:*"))]
    assert len(names) == 3
    assert all(store.redis.ttl(name) > 0 for name in names)
