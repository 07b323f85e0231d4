"""Labels of a job in Redis: kept as long as its report, and of no other project."""

import pytest

from api_server import rows
from ragassay.core.errors import NotFound, TooLarge
from ragassay.evaluation import labelling
from ragassay.evaluation.labelling import HumanLabel, add_labels, labels_of
from ragassay.service.job_run import JobRun

LABELS = [
    HumanLabel(
        system="default", query_id="q1", metric="faithfulness", value=value, by="Ada", at="2026-11-23T00:00:00+00:00"
    )
    for value in (1.0, None, 0.5)
]


def completed(served):
    job = served.submit(rows(4), metrics=["mrr"])["id"]
    store = served.jobs.store
    served.work()
    return job, store


def test_another_project_has_none_of_them_and_can_not_add_any(served):
    job, store = completed(served)
    other = store.of("other")
    for use in (lambda: labels_of(JobRun(other, job)), lambda: add_labels(JobRun(other, job), LABELS)):
        with pytest.raises(NotFound):
            use()


def test_a_job_has_no_more_labels_than_fit(served, monkeypatch):
    monkeypatch.setattr(labelling, "MAX_LABELS", 4)
    job, store = completed(served)
    add_labels(JobRun(store, job), LABELS)
    with pytest.raises(TooLarge, match="4 labels"):
        add_labels(JobRun(store, job), LABELS)
