"""The jobs of a service, for the pages: those of one project."""

from __future__ import annotations

import copy
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha256

from ragassay.analysis.costs import CostQuery, CostReport
from ragassay.analysis.gates import GateReport
from ragassay.analysis.models import Comparison
from ragassay.analysis.trends import Trend
from ragassay.core.errors import Conflict, NotFound
from ragassay.core.models import Result, Sample
from ragassay.core.protocols import Purpose, Reply
from ragassay.core.report import JOB_ID, ReportWithResults
from ragassay.dashboard.library import RowsPage
from ragassay.evaluation.human_labels import HumanLabel, add_labels, labels_of, with_labels
from ragassay.reporting.listing import Headline, RunSummary, outcome
from ragassay.service.job_run import JobRun
from ragassay.service.job_state import JobState, no_job
from ragassay.service.jobs import Jobs
from ragassay.service.redis import headline_blob
from ragassay.service.redis_datasets import RedisDatasets
from ragassay.service.redis_journal import calls_about
from ragassay.storage.protocol import ChunkId
from ragassay.storage.row_index import RowIndex
from ragassay.storage.selection import Selection

MOST_REPORTS_HELD = 8
READING_S = 3.0  # that a list may take to read the reports whose headlines are not kept yet
_A_LOOK = 100  # jobs, or rows
_ANALYSES = 2  # at a time: each may take seconds of CPU
_NO_HEADLINE = Headline(systems={}, problem=None)


class ServiceLibrary:
    """The jobs of a service; ``of`` a project, what its pages may see. Reports are read once and held for all projects."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs, self._analyses = jobs, threading.BoundedSemaphore(_ANALYSES)
        self._reading = threading.Lock()
        self._labelled: dict[str, tuple[ReportWithResults, int, ReportWithResults]] = {}
        self._held: OrderedDict[tuple[str, str], tuple[ReportWithResults, RowIndex]] = OrderedDict()

    def of(self, project: str) -> ServiceLibrary:
        """The library of one project; what belongs to another is not there (NotFound)."""
        scoped = copy.copy(self)
        scoped._jobs = self._jobs.of(project)
        return scoped

    @property
    def where(self) -> str:
        """The project."""
        return f"project {self._jobs.store.project}"

    @property
    def of_service(self) -> bool:
        """See ``Library``."""
        return True

    @property
    def datasets(self) -> RedisDatasets:
        """The project's datasets."""
        return RedisDatasets(self._jobs.store)

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

    def report(self, run: str, *, labels: bool = True) -> ReportWithResults:
        """A job's report; raises NotFound, and Conflict while there is none."""
        report, said = self._read(run)[0], self.labels(run) if labels else ()
        if not said:
            return report
        base, count, labelled = self._labelled.get(run, (None, 0, None))
        if labelled is None or base is not report or count != len(said):
            labelled = with_labels(report, said)
            self._labelled[run] = report, len(said), labelled
            while len(self._labelled) > MOST_REPORTS_HELD:
                self._labelled.pop(next(iter(self._labelled)), None)
        return labelled

    def rows(self, run: str) -> RowIndex:
        """The rows that a job's report is of; raises NotFound, and Conflict while there is none."""
        return self._read(run)[1]

    def page(self, run: str, selection: Selection, start: int, most: int) -> RowsPage:
        """So many of a job's rows; raises as ``rows`` does, and UnknownName for a system or figure that is not there."""
        rows = self.rows(run)
        places = rows.selected(selection)
        found = rows.at(places[start : start + most])
        if not found and len(places[start:]):
            raise NotFound(f"the rows of job {run} were kept for their time and are gone", hint="the report stays")
        return RowsPage(found, start, len(places))

    def sample(self, run: str, row: Result) -> Sample | None:
        """What a row was evaluated on; None where that is not kept any more."""
        if (found := self._chunk(run, row)) is None:
            return None
        with suppress(NotFound):
            return self._jobs.store.samples(run, found[0])[found[1]]
        return None

    def compare(self, references: Sequence[str], baseline: str | None, metrics: Sequence[str] | None) -> Comparison:
        """Systems side by side: jobs, or JOB#SYSTEM; raises as ``JobReports.compare`` does."""
        with self._analyses:
            return self._jobs.reports.compare(references, baseline=baseline, metrics=metrics)

    def costs(self, query: CostQuery) -> CostReport:
        """What accurate answers cost; raises NothingToEvaluate where no report is asked for."""
        with self._analyses:
            return self._jobs.reports.costs(query)

    def trend(self, metric: str, *, system: str | None, dataset: str | None, judge: str | None, last: int) -> Trend:
        """A metric over the newest finished jobs on one dataset with one judge; raises NothingToEvaluate, UnknownName."""
        with self._analyses:
            return self._jobs.reports.trend(
                metric, system=system, dataset=dataset, judge=judge, last=last, alpha=0.05, seed=0
            )

    def passed(self, run: str) -> bool | None:
        """Has the job passed its gates? None where they were not checked."""
        return JobRun(self._jobs.store, run).passed

    def gates(self, run: str) -> GateReport | None:
        """How the job did at its gates; None if they were not checked."""
        document = JobRun(self._jobs.store, run).gates()
        return GateReport.model_validate_json(document) if document else None

    def labels(self, run: str) -> Sequence[HumanLabel]:
        """What people said of its rows, oldest first; raises NotFound."""
        return labels_of(JobRun(self._jobs.store, run))

    def add_labels(self, run: str, labels: Sequence[HumanLabel]) -> None:
        """Keep labels beside those that are there; raises NotFound, Conflict."""
        self._jobs.reports.finished(run)
        add_labels(JobRun(self._jobs.store, run), labels)

    def calls(self, run: str, row: Result) -> Sequence[tuple[Purpose, Reply]]:
        """The replies of models that a row rests on, with what each was for."""
        found = self._chunk(run, row)
        return calls_about(self._jobs.store, run, found[0], row.query_id) if found else ()

    def _chunk(self, run: str, row: Result) -> tuple[ChunkId, int] | None:
        """In which chunk a row is, and its number there; None where it is not kept any more."""
        rows = self.rows(run)
        place = rows.find(row.system, row.query_id)
        return None if place is None else rows.chunk(place)

    def _read(self, job: str) -> tuple[ReportWithResults, RowIndex]:
        """A report with its rows, the same objects while it does not change."""
        if not JOB_ID.fullmatch(job):
            raise no_job(job)
        run, state = JobRun(self._jobs.store, job), self._jobs.store.state(job)
        finished = state.status == "finished"
        version = (job, str(state.retries) if finished else sha256(run.report_document()).hexdigest())
        if found := self._held.get(version):
            return found
        report = run.report_with_results()
        with self._reading:
            found = self._held.setdefault(version, (report, RowIndex(run)))
            while len(self._held) > MOST_REPORTS_HELD:
                self._held.popitem(last=False)
        return found

    def _summary(self, state: JobState, until: float) -> RunSummary:
        record = state.record
        top = self._headline(state, until) if state.status == "finished" else _NO_HEADLINE
        return RunSummary(
            id=record.id,
            status=outcome(state.status, top.problem, self.passed(record.id) if top.systems else None),
            error=state.error if state.status == "failed" else None,
            created_at=record.created_at,
            name=record.spec.name,
            dataset=record.dataset.name,
            dataset_digest=record.dataset.digest,
            systems=tuple(record.systems),
            judge=record.spec.judged_by,
            queries=record.dataset.rows,
            rows=state.rows,
            done=state.rows_done,
            headline=top.systems,
            problem=top.problem,
        )

    def _headline(self, state: JobState, until: float) -> Headline:
        """The headline of a finished job, kept with its report; empty if reading the report would take too long now."""
        run, name = JobRun(self._jobs.store, state.record.id), headline_blob(state.retries)
        if (kept := run.blobs.get(name)) is not None:
            return Headline.model_validate_json(kept)
        if time.monotonic() > until:
            return _NO_HEADLINE
        top = Headline.of(run.report())
        run.blobs.put(name, top.model_dump_json().encode())
        return top
