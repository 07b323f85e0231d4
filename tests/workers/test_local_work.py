"""What a worker does by itself is bounded for each row, and ends when the job is cancelled."""

import time

from job_workers import deliver, in_a_thread
from offline_runs import source_of
from ragassay.core.eval_config import EvalConfig
from ragassay.core.models import Response, Sample
from ragassay.evaluation.inputs import recorded
from ragassay.judges import local
from ragassay.judges.local import LocalJudge

METRICS = ("faithfulness", "token_f1", "rougeL")


def submit(jobs, answer, count):
    rows = [
        Sample(
            query_id=f"q{n}",
            query="Which?",
            ground_truth_answer=("The first one is right.",),
            response=Response(answer=answer, contexts=("The first one is right.",)),
        )
        for n in range(count)
    ]
    return jobs.submit(EvalConfig(metrics=METRICS), recorded(source_of(rows), rows))[0].id


def test_worker_stops_local_work_when_its_job_is_cancelled(make_jobs, queue, monkeypatch):
    begun = []

    def slow(sample, rating=local._rating):
        begun.append(sample.query_id)
        time.sleep(0.1)
        return rating(sample)

    monkeypatch.setattr(local, "_rating", slow)
    jobs = make_jobs(LocalJudge())
    job = submit(jobs, "The first one is right.", 200)
    end = in_a_thread(lambda: deliver(jobs, queue))
    while not begun:
        time.sleep(0.01)
    jobs.cancel(job)
    end()
    judged = len(begun)
    assert judged < 200
    time.sleep(0.5)
    assert len(begun) <= judged + 1
