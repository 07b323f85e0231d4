"""The use cases of live traffic: what the API and the pages show, and the round of a beat that has requests evaluated."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from redis.exceptions import RedisError

from ragassay.analysis.difference import Difference
from ragassay.core.errors import AssayError, Conflict, NotFound, class_and_reason
from ragassay.core.jobs import ENDED
from ragassay.core.models import Result, Sample
from ragassay.core.paging import page_of
from ragassay.core.report import Source
from ragassay.core.settings import Settings
from ragassay.datasets.dataset import digest_of_dataset
from ragassay.datasets.versions import DatasetVersion, Lineage, Origin
from ragassay.evaluation.evaluate import failed_results
from ragassay.evaluation.inputs import recorded
from ragassay.live.decide import Decision, decide
from ragassay.live.models import (
    REFERENCES,
    WINDOW,
    LiveRule,
    LiveStream,
    RequestStatus,
    StoredStream,
    WindowKind,
    WindowPage,
    WorstRow,
    before,
    hours_in,
    kind_of,
)
from ragassay.live.store import PROJECTS, Batch, ChosenRow, DueRequest, Figures, LiveStore
from ragassay.live.windows import WindowRows, alpha_of, drift, figures_of, is_due
from ragassay.metrics.composite import custom_metrics
from ragassay.service.job_run import JobRun
from ragassay.service.job_state import JobState
from ragassay.service.jobs import Jobs
from ragassay.service.notifications import Notification
from ragassay.service.projects import clock_time
from ragassay.service.redis import OUTBOX, LiveJob
from ragassay.storage.row_index import RowIndex

logger = logging.getLogger("ragassay.live")
MAX_DUE, ROUND_S = 5000, 2.0  # requests of a project that a round looks at, and for how long
ROWS_AT_ONCE = 1  # with a budget a chunk is one round of calls, so that few are unused when it is reached


class LiveTraffic:
    """The live traffic of the project of ``jobs``."""

    def __init__(self, jobs: Jobs, settings: Settings) -> None:
        self.jobs, self.store, self._settings = jobs, LiveStore(jobs.store, settings), settings

    # --- for the API and pages ----------------------------------------------------------------------------------------

    def streams(self) -> Iterator[LiveStream]:
        """The streams by name."""
        today = self.store.today()
        for name, stream in self.store.streams().items():
            yield self._shown(name, stream, today)

    def stream(self, name: str) -> LiveStream:
        """The stream of that name; raises NotFound."""
        return self._shown(name, self.store.stream(name), self.store.today())

    def _shown(self, name: str, stream: StoredStream, today: str) -> LiveStream:
        return LiveStream(
            name=name,
            rule=stream.rule,
            job=stream.job,
            today=self.store.counts(name, today),
            spent_usd=self.store.spent_usd(name, today),
        )

    def windows(self, stream: str, kind: WindowKind, *, limit: int, cursor: str | None = None) -> WindowPage:
        """Windows in which requests came, the newest first, each against those before it. Raises NotFound."""
        rows = _Rows(self.store, stream)
        rule = rows.rule or LiveRule()
        seen = dict.fromkeys(rows.seen if kind == "hour" else (hour[:10] for hour in rows.seen))
        names, after = page_of(seen, str, cursor=cursor, limit=limit, form=WINDOW, descending=True)
        windows = []
        for name in names:
            reference, differences = rows.drift(name, rule.alpha)
            counts = self.store.counts(stream, name)
            windows.append(rows.of([name]).window(stream, name, counts, reference=reference, drift=differences))
        return WindowPage(windows=tuple(windows), next=after)

    def worst(self, stream: str, metric: str, windows: Sequence[str], limit: int) -> list[WorstRow]:
        """The rows of these windows with the worst scores of a metric, with their questions."""
        worst = _Rows(self.store, stream).of(sorted(windows)).worst(metric, limit)
        queries = dict[str, str]()
        for job in {row.job for row in worst}:
            with suppress(NotFound, Conflict):  # deleted, or of another version
                index = self._rows(job)
                for row in worst:
                    if row.job == job and (sample := index.sample("default", row.trace)):
                        queries[row.trace] = sample.query
        return [row.model_copy(update={"query": queries.get(row.trace)}) for row in worst]

    def add_to_dataset(self, trace: str, dataset: str) -> DatasetVersion:
        """Put the question of an evaluated request into a dataset, after the rows of its latest version.

        Raises NotFound, also if the row is deleted, and Conflict for a request that has no row, or is in the dataset.
        """
        request = self.store.request(trace)
        if request.job is None:
            raise Conflict(f"request {trace} is {request.status}, so its row is not kept: {request.reason}")
        sample = self._rows(request.job).sample("default", trace)
        if sample is None:
            raise NotFound(f"job {request.job} has no row of request {trace}")
        datasets = self.jobs.store.datasets
        versions = datasets.versions(dataset)

        def samples() -> Iterator[Sample]:
            for row in datasets.samples(versions[0]) if versions else ():
                if row.query_id == trace:
                    raise Conflict(f"dataset {dataset} has request {trace}")
                yield row
            yield sample.model_copy(update={"response": None})

        source = f"live traffic of {request.stream}"
        return datasets.add(dataset, samples(), lambda: Origin(lineage=Lineage(action="import", sources=(source,))))

    def _rows(self, job: str) -> RowIndex:
        """The rows that a job evaluated. Raises NotFound, Conflict if another version wrote it."""
        return RowIndex(JobRun(self.jobs.store, job))

    # --- for a beat -------------------------------------------------------------------------------------------

    def tick_all(self) -> None:
        """A round over the live traffic of all projects. Several beats may do so at once, and be killed at any point."""
        for project in sorted(name.decode() for name in self.jobs.store.redis.smembers(PROJECTS)):
            with _going_on(f"project {project}"):
                self.of(project).tick()

    def of(self, project: str) -> LiveTraffic:
        """The live traffic of another project."""
        return LiveTraffic(self.jobs.of(project), self._settings)

    def tick(self) -> None:
        """Decide on requests that are complete, make jobs of the rows that wait, and sum up those that have ended."""
        streams = self.store.streams()
        self._settle_due(streams)
        self.store.close_batches()
        for batch in self.store.open_batches():
            with _going_on(f"stream {batch.stream}"):
                self._follow(batch, streams.get(batch.stream, StoredStream()))
        for member, at in self.store.to_look_at():
            stream, hour = member.split(" ")
            for window in (hour, hour[:10]):
                with _going_on(f"stream {stream}"):
                    self._look(stream, window, streams.get(stream, StoredStream()).rule)
            self.store.looked_at(member, at)

    def _settle_due(self, streams: Mapping[str, StoredStream]) -> None:
        until, today = time.monotonic() + ROUND_S, self.store.today()
        for trace, request in self.store.due(MAX_DUE):
            decision = _decided(request, streams.get(request.stream, StoredStream()).rule)
            chosen_today = decision.sample is not None and request.hour[:10] == today
            if chosen_today and (why := self.store.day_closed(request.stream, today)):
                decision = replace(decision, status="budget_reached", reason=why, sample=None)
            if self.store.settle(trace, decision, len(request.stored)):
                self.store.close_batches()
            if time.monotonic() > until:
                return

    def _follow(self, batch: Batch, stream: StoredStream) -> None:
        """Make the job of a batch if it has none; sum it up if it has ended. The job's id follows from the batch."""
        job = self._job_id(batch)
        try:
            state = self.jobs.store.state(job)
        except NotFound:
            self._submit(batch, job, stream)
            return
        if state.status == "paused":
            self.store.close_day(batch.stream, batch.hour[:10], state.error or "the budget is reached")
            self.jobs.cancel(job)
        elif state.status in ENDED:
            self._harvest(batch, job, state)

    def _job_id(self, batch: Batch) -> str:
        return hashlib.sha256(f"{self.store.project}\nlive\n{batch}".encode()).hexdigest()[:32]

    def _submit(self, batch: Batch, job: str, stream: StoredStream) -> None:
        rows = self.store.rows(batch)
        if stream.rule is None or stream.spec is None:
            self._give_up(batch, job, rows, f"stream {batch.stream} has no rule any more")
            return
        samples = [row.sample for row in rows.values()]
        source = Source(name=batch.stream, digest=digest_of_dataset(samples), rows=len(samples))
        day, usd, spec = batch.hour[:10], stream.rule.budget_usd, stream.spec
        if usd is not None:
            performance = spec.performance.model_copy(update={"batch": ROWS_AT_ONCE})
            spec = spec.model_copy(update={"performance": performance})
        live = LiveJob(job, self.store.account(batch.stream, day), usd)
        try:
            self.jobs.submit(spec, recorded(source, samples), live=live)
        except Conflict:
            return  # another beat was first
        except AssayError as error:  # NothingToEvaluate: each of them failed, so that no metric has its input
            if error.retryable:
                raise
            self._give_up(batch, job, rows, str(error))

    def _give_up(self, batch: Batch, job: str, rows: Mapping[str, ChosenRow], why: str) -> None:
        """Sum up a batch that no job can evaluate: a row whose response failed needs none."""
        broken = [row.sample for row in rows.values() if row.sample.response and row.sample.response.error]
        self._sum_up(batch, job, rows, failed_results(broken, "default", (), why), ("failed", why))

    def _harvest(self, batch: Batch, job: str, state: JobState) -> None:
        """Sum up a batch whose job has ended."""
        left: tuple[RequestStatus, str] = ("failed", state.error or f"its job {job} is {state.status}")
        if state.status == "cancelled" and state.error:
            left = "budget_reached", state.error
        results = JobRun(self.jobs.store, job).rows("default")
        self._sum_up(batch, job, self.store.rows(batch), results, left)

    def _sum_up(
        self,
        batch: Batch,
        job: str,
        rows: Mapping[str, ChosenRow],
        results: Iterable[Result],
        left: tuple[RequestStatus, str],
    ) -> None:
        """Keep the figures of a batch and the states of its requests; those without a result are ``left``."""
        by_trace = {result.query_id: result for result in results}
        states = {trace: _state_of(by_trace[trace]) if trace in by_trace else left for trace in rows}
        self.store.harvest(batch, job, figures_of(rows, by_trace.values()), states)

    def _look(self, stream: str, window: str, rule: LiveRule | None) -> None:
        """Look for drift in a window that has more rows than at the last look, and alert if a metric is worse."""
        if rule is None:
            return
        sampled, (last, looks) = self.store.sampled(stream, window), self.store.looks(stream, window)
        if not is_due(sampled, last):
            return
        _, differences = _Rows(self.store, stream).drift(window, alpha_of(looks + 1, rule.alpha))
        if not differences:
            return
        worse = sorted((one for one in differences if one.outcome == "worse"), key=lambda one: one.p_adjusted or 1.0)
        pipe = self.store.redis.pipeline(transaction=True)
        self.store.note_look(pipe, stream, window, sampled, looks + 1)
        if worse:
            pipe.rpush(OUTBOX, self._alert(stream, window, worse).model_dump_json())
        pipe.execute()

    def _alert(self, stream: str, window: str, worse: list[Difference]) -> Notification:
        first = worse[0]
        return Notification(
            id=f"drift:{self.store.project}:{stream}:{window}",
            kind="drift",
            project=self.store.project,
            at=clock_time(self.store.store.now_ms()),
            stream=stream,
            window=window,
            metric=first.metric,
            value=first.mean_b,
            baseline=first.mean_a,
            low=first.interval.low,
            high=first.interval.high,
            rows=first.n_b,
            count=len(worse),
        )


class _Rows:
    """The rows of a stream by window; each hour is read once. ``seen``: the hours in which requests came, the newest first."""

    def __init__(self, store: LiveStore, stream: str) -> None:
        self._store, self._stream, self.seen = store, stream, store.hours(stream)
        self._by_hour: dict[str, dict[str, Figures]] = {}
        stored = store.stream(stream)
        self.rule, self._custom = stored.rule, custom_metrics(stored.spec) if stored.spec else {}

    def of(self, windows: Sequence[str]) -> WindowRows:
        """The rows of these windows."""
        hours = [hour for window in windows for hour in hours_in(window) if hour in self.seen]
        unread = [hour for hour in hours if hour not in self._by_hour]
        self._by_hour |= self._store.figures(self._stream, unread)
        return WindowRows({hour: self._by_hour[hour] for hour in hours}, self._custom)

    def drift(self, window: str, alpha: float) -> tuple[list[str], list[Difference]]:
        """The windows before one in which requests came, and its differences from all of these together."""
        earlier = before(window, REFERENCES[kind_of(window)])
        reference = [name for name in earlier if not set(self.seen).isdisjoint(hours_in(name))]
        names = ("before", window)
        return reference, drift(self.of(reference), self.of([window]), names=names, stream=self._stream, alpha=alpha)


@contextmanager
def _going_on(what: str) -> Iterator[None]:
    """Log what a broken record raises, so that the round goes on with the next one; an outage ends the round."""
    try:
        yield
    except RedisError:
        raise
    except Exception as error:  # an outer door
        if isinstance(error, AssayError) and error.retryable:
            raise
        logger.warning("live traffic of %s: %s", what, error, exc_info=not isinstance(error, AssayError))


def _decided(request: DueRequest, rule: LiveRule | None) -> Decision:
    """What becomes of a request. Spans come from anywhere: what they break holds up no other request."""
    if not request.stored:
        return Decision("no_answer", "its spans are gone")
    try:
        return decide(request.spans(), rule, request.stream)
    except Exception as error:  # an outer door
        logger.exception("a request of stream %s can't be read", request.stream)
        return Decision("failed", f"its spans can't be read: {class_and_reason(error)}")


def _state_of(result: Result) -> tuple[RequestStatus, str]:
    """What became of a request that has a result."""
    broken = next((score.reason for score in result.scores.values() if score.missing == "failed"), None)
    if broken and result.error is None:
        return "failed", broken
    scored = ", ".join(name for name, score in result.scores.items() if score.value is not None)
    return "evaluated", f"its response failed: {result.error}" if result.error else f"scored: {scored or 'nothing'}"
