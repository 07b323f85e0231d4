"""The jobs of a service, for the pages: those of one project."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha256

from ragassay.core.errors import Conflict, NotFound
from ragassay.core.jobs import JOB_ID
from ragassay.core.models import Result, Sample
from ragassay.dashboard.library import Library
from ragassay.evaluation.labelling import HumanLabel
from ragassay.reporting.listing import Headline, RunSummary
from ragassay.service.health import parts
from ragassay.service.job_run import JobRun
from ragassay.service.job_state import JobState, no_job
from ragassay.service.jobs import Jobs
from ragassay.service.redis import headline_blob
from ragassay.storage.runs import Entry

READING_S = 3.0  # that a list may take to read the reports whose headlines are not kept yet
_A_LOOK = 100  # jobs, or rows


class ServiceLibrary(Library):
    """The jobs of a service; ``of`` a project, what its pages may see. Reports are read once and held for all projects."""

    of_service = True

    def __init__(self, jobs: Jobs, broker: str | None = None) -> None:
        super().__init__()
        self._jobs, self._service, self._broker = jobs, jobs, broker

    def of(self, project: str) -> ServiceLibrary:
        """The library of one project; what belongs to another is not there (NotFound)."""
        scoped = copy.copy(self)
        scoped._jobs = self._jobs.of(project)
        scoped.where, scoped.datasets = f"project {scoped._jobs.store.project}", scoped._jobs.store.datasets
        return scoped

    def problems(self) -> Sequence[str]:
        """The problems in the health of the service that name no job."""
        return parts(self._service.store, self._broker).problems

    def runs(self, text: str = "") -> Iterable[RunSummary]:
        """Jobs, newest first; with ``text`` those that have it. A job that has not ended is there with how far it is."""
        store, before, until = self._jobs.store, None, time.monotonic() + READING_S
        while listed := store.jobs(before=before, limit=_A_LOOK):
            before = listed[-1][1]
            for job, _ in listed:
                try:
                    found = self._summary(store.state(job), until)
                except (NotFound, Conflict):  # the list outlives a job's record; another version's can't be read
                    continue
                if found.has(text):
                    yield found

    def summary(self, job: str) -> RunSummary:
        """A job in one line; raises NotFound, Conflict."""
        return self._summary(self._jobs.store.state(job), math.inf)

    def newest(self) -> Iterable[Entry]:
        """See ``Library``."""
        return self._jobs.reports.newest()

    def open(self, run: str) -> JobRun:
        """The run of a job; raises NotFound."""
        if not JOB_ID.fullmatch(run):
            raise no_job(run)
        return JobRun(self._jobs.store, run)

    def version(self, run: str) -> str:
        """A value that changes when the job's report does; raises NotFound, and Conflict while there is none."""
        state = self._jobs.store.state(run)
        if state.status == "finished":
            return str(state.retries)
        return sha256(self.open(run).report_document()).hexdigest()

    def sample(self, run: str, row: Result) -> Sample | None:
        """What a row was evaluated on; None where that is not kept any more."""
        with suppress(NotFound):
            return self.rows(run).sample(row.system, row.query_id)
        return None

    def add_labels(self, run: str, labels: Sequence[HumanLabel]) -> None:
        """Keep labels beside those that are there; raises NotFound, Conflict while the job has not finished."""
        self._jobs.reports.finished(run)
        super().add_labels(run, labels)

    def _summary(self, state: JobState, until: float) -> RunSummary:
        record = state.record
        top = self._headline(state, until) if state.status == "finished" else Headline()
        return RunSummary.of(
            record,
            state.status,
            top,
            passed=self.open(record.id).passed if top.headline else None,
            error=state.error if state.status == "failed" else None,
            done=state.rows_done,
        )

    def _headline(self, state: JobState, until: float) -> Headline:
        """The headline of a finished job, kept with its report; empty if reading the report would take too long now."""
        run, name = JobRun(self._jobs.store, state.record.id), headline_blob(state.retries)
        if (kept := run.blobs.get(name)) is not None:
            return Headline.model_validate_json(kept)
        if time.monotonic() > until:
            return Headline()
        top = Headline.of_report(run.report())
        run.blobs.put(name, top.model_dump_json().encode())
        return top
