"""Nightly runs: one job for each time at which a schedule is due.

A round of a beat claims the times that have come, each once, before anything is done about them, and sends a message for
each; a worker makes the job. The job's id is a hash of schedule and time, and a job is never made twice, so a message that
comes again makes no second run.

The keys of a project are ``ra:p:{PROJECT}:schedules`` (name -> record), ``runs:NAME`` (claimed time -> entry) and ``due``: a
name by the time that it is due next, ``NAME TIME`` of a run without a job by when to look at it next.
``ra:schedules`` has the projects. Times are milliseconds since 1970.
"""

from __future__ import annotations

import copy
import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from ragassay.analysis import gates
from ragassay.analysis.gates import GateReport
from ragassay.core.errors import AssayError, BadData, Conflict, NotFound, class_and_reason
from ragassay.core.jobs import Planned
from ragassay.core.models import FrozenModel
from ragassay.core.paging import page_of
from ragassay.core.schedules import (
    DEADLINE_S,
    LAST_PASSED,
    NAME,
    JobSchedule,
    KeptSchedule,
    NewSchedule,
    RunPage,
    ScheduleChange,
    ScheduledRun,
    SchedulePage,
    Trigger,
)
from ragassay.core.validation import problems
from ragassay.service.cron import Cron, iso
from ragassay.service.health import SCHEDULES
from ragassay.service.job_reports import Gating
from ragassay.service.job_run import JobRun
from ragassay.service.jobs import Jobs
from ragassay.service.notifications import Notification
from ragassay.service.projects import project_key
from ragassay.service.queue import Queue
from ragassay.service.redis import OUTBOX

if TYPE_CHECKING:
    from ragassay.core.eval_config import RunConfig
    from ragassay.evaluation.inputs import Inputs

    Read = Callable[[Mapping[str, Any]], tuple[RunConfig, Inputs, Gating]]

logger = logging.getLogger("ragassay")
MAX_SCHEDULES = 1000  # of a project
MAX_RUNS = 400  # of a schedule that are remembered
NEXT_SHOWN = 5
DEADLINE_MS = DEADLINE_S * 1000
_UNDER_WAY = ("waiting", "queued", "running", "finalizing")  # a paused job waits for people, not the next run for it
_CHANGED = "the schedule was changed at the same moment"
_Document = TypeVar("_Document", bound=BaseModel)


class RunEntry(FrozenModel):
    """A claimed time. If it has a job, the job's own state counts, whatever ``status`` says.

    ``reason``: why there is no job, the last error, or a note on the job. ``until_ms``: until when its job may be made.
    """

    until_ms: int
    trigger: Trigger = "slot"
    status: Literal["waiting", "skipped", "missed", "failed_to_start"] = "waiting"
    reason: str | None = None


class Schedules:
    """The schedules of a project. ``now`` is the time in milliseconds since 1970; by default that of the Redis server.

    ``again_s``: how long a message may take until the next one is sent.
    """

    def __init__(
        self,
        jobs: Jobs,
        queue: Queue,
        *,
        project: str = "default",
        again_s: float = 60.0,
        now: Callable[[], int] | None = None,
    ) -> None:
        self._queue, self._redis, self._all_jobs = queue, jobs.store.redis, jobs
        self._again_ms, self._given_now = int(again_s * 1000), now
        self._scope(project)

    def _scope(self, project: str) -> None:
        self.project, self.jobs = project, self._all_jobs.of(project)
        self._schedules, self._due = map(self._key, ("schedules", "due"))

    def of(self, project: str) -> Schedules:
        """The schedules of another project."""
        scoped = copy.copy(self)
        scoped._scope(project)
        return scoped

    # --- for everybody ----------------------------------------------------------------------------------------

    def create(self, new: NewSchedule) -> JobSchedule:
        """Keep a schedule; its first run is due at the next time. Raises BadSettings, UnknownName, Conflict."""
        now = self._now()
        if self._redis.hlen(self._schedules) >= MAX_SCHEDULES:
            raise Conflict(f"there are {MAX_SCHEDULES:,} schedules", hint="delete those that are no longer needed")
        kept = KeptSchedule(**dict(new), created_at=iso(now), changed_at=iso(now))
        self._redis.sadd(SCHEDULES, self.project)
        if not self._replace(kept.name, None, kept, due_ms=_next_ms(kept, now)):
            what = f"there is a schedule {new.name!r} already"
            raise Conflict(what, hint="change it (PATCH), or choose another name")
        return self.get(new.name)

    def get(self, name: str) -> JobSchedule:
        """The schedule as it stands; raises NotFound."""
        kept = self._known(name)
        due_ms = self._redis.zscore(self._due, name)
        first = [] if due_ms is None else [int(due_ms)]  # it may have come already, if no beat has noticed
        after = (ms for due in first for ms in Cron(kept.cron, kept.zone).times(due))
        times = [*first, *islice(after, NEXT_SHOWN - 1)]
        last = next(self._runs(kept, self._times(name)[:1]), None)
        return JobSchedule(**dict(kept), next=tuple(map(iso, times)), last=last)

    def changed(self, name: str, change: ScheduleChange) -> tuple[KeptSchedule, NewSchedule]:
        """The schedule as it is stored, and as it would be; raises NotFound, BadData."""
        known = self._known(name)
        kept = known.model_dump(include=set(NewSchedule.model_fields))
        try:
            return known, NewSchedule.model_validate({**kept, **change.model_dump(exclude_none=True)})
        except ValidationError as error:
            raise BadData([str(problem) for problem in problems(error, NewSchedule)]) from None

    def change(self, old: KeptSchedule, new: NewSchedule) -> JobSchedule:
        """Replace the schedule that was read as ``old``. Times that are claimed already stay.

        Raises NotFound, and Conflict if it was changed since it was read.
        """
        now = self._now()
        kept = KeptSchedule(**dict(new), created_at=old.created_at, changed_at=iso(now))
        same_times = (kept.cron, kept.zone, kept.paused) == (old.cron, old.zone, old.paused)
        due_ms = self._redis.zscore(self._due, old.name) if same_times else _next_ms(kept, now)
        if not self._replace(old.name, old, kept, due_ms=due_ms):
            self._known(old.name)
            raise Conflict(_CHANGED, hint="look at it, then change it again")
        return self.get(old.name)

    def delete(self, name: str) -> JobSchedule:
        """Forget a schedule with its history; its jobs stay. Raises NotFound, Conflict."""
        known, schedule = self._known(name), self.get(name)
        if not self._replace(name, known, None, due_ms=None):
            raise Conflict(_CHANGED, hint="delete it again")
        return schedule

    def page(self, *, cursor: str | None, limit: int) -> SchedulePage:
        """Schedules by name, those after ``cursor``; raises BadInput for one that no page gave."""
        names = sorted(name.decode() for name in self._redis.hkeys(self._schedules))
        page, after = page_of(names, str, cursor=cursor, limit=limit, form=NAME)
        shown: list[JobSchedule] = []
        for name in page:
            try:
                shown.append(self.get(name))
            except (NotFound, Conflict):  # deleted a moment ago; another version's can't be read
                continue
        return SchedulePage(schedules=tuple(shown), next=after)

    def runs(self, name: str, *, cursor: str | None, limit: int) -> RunPage:
        """The runs of the schedule, the newest first; of the latest 400. Raises NotFound, BadInput for a bad ``cursor``."""
        known = self._known(name)
        times, after = page_of(
            self._times(name), "{:015d}".format, cursor=cursor, limit=limit, form="[0-9]{15}", descending=True
        )
        return RunPage(runs=tuple(self._runs(known, times)), next=after)

    def run(self, name: str) -> ScheduledRun:
        """Have a run made now, besides those that are planned. Raises NotFound, Conflict."""
        known, slot = self._known(name), self._now()
        if not self._claim_time(known, slot, RunEntry(trigger="manual", until_ms=slot + DEADLINE_MS)):
            raise Conflict(_CHANGED, hint="ask again")
        self._queue.start(self.project, name, slot)
        return ScheduledRun(slot=iso(slot), trigger="manual", status="waiting")

    # --- for workers ------------------------------------------------------------------------------------------

    def start(self, name: str, slot_ms: int, read: Read) -> None:
        """Make the job of a run that is due. ``read`` makes a job's parts of the schedule's.

        Delivered at least once: a run that has its job is left alone, and of two workers one makes the job. What is wrong
        with the schedule's job ends the run with that reason; after an outage, or when its worker died, it is tried again
        until the deadline.
        """
        schedule, entry = self._stored(name), self._entries(name, [slot_ms]).get(slot_ms)
        if schedule is None or entry is None or entry.status != "waiting":
            return
        job = self._job_id(schedule, slot_ms)
        if self._is_there(job):
            return
        try:
            spec, inputs, gating, note = self.prepared(schedule, read)
            self._keep(name, slot_ms, entry.model_copy(update={"reason": note}))
            planned = Planned(schedule=name, slot=None if entry.trigger == "manual" else iso(slot_ms))
            self.jobs.submit(spec, inputs, gating, planned=(job, planned))
        except AssayError as error:
            if error.retryable:
                raise
            if not self._is_there(job):
                self._keep(name, slot_ms, entry.model_copy(update={"status": "failed_to_start", "reason": str(error)}))
        except Exception as error:
            self._keep(name, slot_ms, entry.model_copy(update={"reason": class_and_reason(error)}))
            raise

    def prepared(self, schedule: NewSchedule, read: Read) -> tuple[RunConfig, Inputs, Gating, str | None]:
        """The parts of the schedule's job, its baseline found; and a note for people on what was left out.

        ``last-passed`` is the newest job of the schedule on the same questions whose gates all passed. Before there is one,
        what needs a baseline is left out: else no run could ever be the first to pass.
        """
        template: dict[str, Any] = {"name": schedule.name, **schedule.job}
        baseline, hash_, system = str(template.get("baseline")).partition("#")
        if baseline != LAST_PASSED:
            return *read(template), None
        del template["baseline"]
        spec, inputs, gating = read(template)
        if passed := self._last_passed(schedule.name, inputs.dataset.digest):
            return *read({**template, "baseline": f"{passed}{hash_}{system}"}), None
        note = "no run on these questions has passed yet, so nothing was compared with a baseline"
        return spec, inputs, gating.model_copy(update={"gates": gates.without_drops(gating.gates)}), note

    def check(self, new: NewSchedule, read: Read) -> None:
        """Raise what the first run's job would be refused for."""
        spec, inputs, gating, _ = self.prepared(new, read)
        self.jobs.check(spec, inputs, gating)

    def _last_passed(self, name: str, digest: str) -> str | None:
        """The newest job on that dataset whose gates, if it has any, pass as it is now, and whose rows are kept."""
        known = self._stored(name)
        for run in () if known is None else self._runs(known, self._times(name)):
            if run.job is not None and run.status == "finished" and not run.gates_missed:
                try:
                    record = self.jobs.reports.baseline(run.job)
                except (NotFound, Conflict):
                    continue
                if record.dataset.digest == digest:
                    return run.job
        return None

    # --- for a beat -------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """A round over all projects: claim what is due, send again what was lost, give up runs that no worker could make.

        A schedule that can't be read is left to the version that wrote it.
        """
        for project in sorted(each.decode() for each in self._redis.smembers(SCHEDULES)):
            scoped, now = self.of(project), self._now()
            for member, score in self._redis.zrangebyscore(scoped._due, "-inf", now, withscores=True):
                name, _, ms = member.decode().partition(" ")
                work = scoped._look if ms else scoped._claim
                try:
                    work(name, int(ms or score), now)
                except AssayError as error:
                    if error.retryable:
                        raise
                    _warn_once(name, str(error))

    def _claim(self, name: str, due_ms: int, now: int) -> None:
        """Claim the newest time that has come; of several that have passed, because no scheduler ran, it alone has a run."""
        known = self._stored(name)
        if known is None:
            self._redis.zrem(self._due, name)
            return
        newest, next_ms = Cron(known.cron, known.zone).newest(due_ms, now)
        late, entry = now > newest + DEADLINE_MS, RunEntry(until_ms=now + DEADLINE_MS)
        if late and known.catch_up == "skip":
            reason = f"no scheduler ran from {iso(due_ms)} to its deadline"
            entry = entry.model_copy(update={"status": "missed", "reason": reason})
        elif run := self._under_way(known):
            reason = f"the run of {run} was still under way"
            entry = entry.model_copy(update={"status": "skipped", "reason": reason})
        elif late:
            entry = entry.model_copy(update={"trigger": "catch_up"})
        if self._claim_time(known, newest, entry, due=(due_ms, next_ms)) and entry.status == "waiting":
            self._queue.start(self.project, name, newest)

    def _under_way(self, schedule: KeptSchedule) -> str | None:
        """The time of a run that is under way, if any."""
        active, unstarted = set(self.jobs.store.active()), set(self._unstarted_times(schedule.name))
        times = [ms for ms in self._times(schedule.name) if ms in unstarted or self._job_id(schedule, ms) in active]
        return next((run.slot for run in self._runs(schedule, times) if run.status in _UNDER_WAY), None)

    def _look(self, name: str, ms: int, now: int) -> None:
        """Look at a run without a job: send its message again, or give it up when its deadline has passed."""
        known, entry = self._stored(name), self._entries(name, [ms]).get(ms)
        if known is None or entry is None or entry.status != "waiting" or self._is_there(self._job_id(known, ms)):
            self._redis.zrem(self._due, f"{name} {ms}")
        elif now > entry.until_ms:
            last = f": {entry.reason}" if entry.reason else ""
            reason = f"no worker could make the job until the deadline{last}"
            self._keep(name, ms, entry.model_copy(update={"status": "failed_to_start", "reason": reason}))
        else:
            self._queue.start(self.project, name, ms)
            self._redis.zadd(self._due, {f"{name} {ms}": now + self._again_ms}, xx=True)

    # --- in Redis ---------------------------------------------------------------------------------------------

    def _key(self, name: str) -> str:
        return project_key(self.project, name)

    def _stored(self, name: str) -> KeptSchedule | None:
        """The schedule with this name; raises Conflict if another version of ragassay wrote it."""
        return _schedule(self._redis, self._schedules, name)

    def _known(self, name: str) -> KeptSchedule:
        if known := self._stored(name):
            return known
        raise NotFound(
            f"there is no schedule {name[:100]!r}", hint="list them: GET /v1/schedules, or ragassay schedule list"
        )

    def _replace(self, name: str, old: KeptSchedule | None, new: KeptSchedule | None, *, due_ms: float | None) -> bool:
        """Create, replace or, without ``new``, delete a schedule; False if it is not ``old`` any more."""

        def step(pipe: Any) -> bool:
            if _schedule(pipe, self._schedules, name) != old:
                return False
            pipe.multi()
            if new is None:
                pipe.hdel(self._schedules, name)
                pipe.delete(self._key(f"runs:{name}"))
            else:
                pipe.hset(self._schedules, name, new.model_dump_json())
            _set_due(pipe, self._due, name, due_ms)
            return True

        return bool(self._redis.transaction(step, self._schedules, self._due, value_from_callable=True))

    def _claim_time(
        self, known: KeptSchedule, ms: int, entry: RunEntry, *, due: tuple[int, int | None] | None = None
    ) -> bool:
        """Claim a time of a schedule; ``due``: when it is due, and the time after that.

        False if the time was claimed before, the schedule was changed, or another beat was first.
        """
        name = known.name
        runs = self._key(f"runs:{name}")

        def step(pipe: Any) -> bool:
            changed = _schedule(pipe, self._schedules, name) != known
            if changed or (due and pipe.zscore(self._due, name) != due[0]):
                return False
            claimed = pipe.hexists(runs, ms)
            pipe.multi()
            if due:
                _set_due(pipe, self._due, name, due[1])
            if not claimed:
                self._write(pipe, name, ms, entry)
                if entry.status == "waiting":
                    pipe.zadd(self._due, {f"{name} {ms}": self._now() + self._again_ms})
            return not claimed

        watched = (self._schedules, self._due, runs)
        claimed = bool(self._redis.transaction(step, *watched, value_from_callable=True))
        if claimed and (old := set(self._times(name)[MAX_RUNS:]) - set(self._unstarted_times(name))):
            self._redis.hdel(runs, *old)
        return claimed

    def _keep(self, name: str, ms: int, entry: RunEntry) -> None:
        """Replace the entry of a claimed time, unless its schedule was deleted."""
        runs = self._key(f"runs:{name}")

        def step(pipe: Any) -> None:
            kept = pipe.hexists(runs, ms)
            pipe.multi()
            if kept:
                self._write(pipe, name, ms, entry)

        self._redis.transaction(step, runs)

    def _write(self, pipe: Any, name: str, ms: int, entry: RunEntry) -> None:
        """Write an entry, and with it a notification if the time has no run and was not skipped."""
        pipe.hset(self._key(f"runs:{name}"), ms, entry.model_dump_json())
        if entry.status in ("missed", "failed_to_start"):
            missed = Notification(
                id=f"run_missed:{self.project}:{name}:{iso(ms)}",
                kind="run_missed",
                project=self.project,
                at=iso(self._now()),
                schedule=name,
                slot=iso(ms),
            )
            pipe.rpush(OUTBOX, missed.model_dump_json())

    def _times(self, name: str) -> list[int]:
        """The times of the schedule's runs, the newest first."""
        return sorted(map(int, self._redis.hkeys(self._key(f"runs:{name}"))), reverse=True)

    def _unstarted_times(self, name: str) -> list[int]:
        """The times of a schedule's runs that have not begun."""
        members = (each.decode().partition(" ") for each in self._redis.zrange(self._due, 0, -1))
        return [int(ms) for of, _, ms in members if ms and of == name]

    def _entries(self, name: str, times: Sequence[int]) -> dict[int, RunEntry]:
        """The entries of these times in the history."""
        stored = self._redis.hmget(self._key(f"runs:{name}"), times) if times else []
        found = {ms: one for ms, one in zip(times, stored, strict=True) if one is not None}
        return {ms: _read(RunEntry, one, f"a run of schedule {name}") for ms, one in found.items()}

    def _runs(self, schedule: KeptSchedule, times: Sequence[int]) -> Iterator[ScheduledRun]:
        """The runs of these times, each with the state of its job now: a job that finished may have been retried since."""
        for ms, entry in self._entries(schedule.name, times).items():
            job = self._job_id(schedule, ms)
            run: dict[str, Any] = {"slot": iso(ms), **entry.model_dump(include={"trigger", "status", "reason"})}
            if entry.status in ("waiting", "failed_to_start"):
                run |= _outcome(self.jobs, job)
            if run["status"] == "waiting" and self._redis.zscore(self._due, f"{schedule.name} {ms}") is None:
                run |= {"status": "expired", "job": job, "reason": None}  # it had a job, whose retention is over
            yield ScheduledRun(**run)

    def _job_id(self, schedule: KeptSchedule, slot_ms: int) -> str:
        named = "\n".join((self.project, schedule.name, schedule.created_at, str(slot_ms)))
        return hashlib.sha256(named.encode()).hexdigest()[:32]

    def _is_there(self, job: str) -> bool:
        return bool(self._redis.exists(f"ra:{{{job}}}:meta"))

    def _now(self) -> int:
        return int(self.jobs.store.now_ms()) if self._given_now is None else self._given_now()


@lru_cache(maxsize=MAX_SCHEDULES)
def _warn_once(schedule: str, what: str) -> None:
    """A round comes every second, and would say it each time."""
    logger.warning("schedule %s: %s", schedule, what)


def _outcome(jobs: Jobs, job: str) -> dict[str, Any]:
    """The state of a run's job now; empty if there is no such job."""
    try:
        state = jobs.store.state(job)
    except NotFound:
        return {}
    began = None if state.started_ms is None else iso(state.started_ms)
    update: dict[str, Any] = {"job": job, "status": state.status, "began_at": began}
    gates = len(state.gating.get("gates", ()))
    if state.status == "finished" and gates:
        document = JobRun(jobs.store, job).gates()  # empty: they could not be checked
        results = GateReport.model_validate_json(document).results if document else ()
        passed = sum(result.passed for result in results)
        update |= {"gates_passed": passed, "gates_missed": (len(results) or gates) - passed}
    return update


def _next_ms(schedule: NewSchedule, now: int) -> int | None:
    return None if schedule.paused else next(Cron(schedule.cron, schedule.zone).times(now))


def _set_due(pipe: Any, key: str, name: str, due_ms: float | None) -> None:
    if due_ms is None:
        pipe.zrem(key, name)
    else:
        pipe.zadd(key, {name: due_ms})


def _schedule(redis: Any, key: str, name: str) -> KeptSchedule | None:
    stored = redis.hget(key, name)
    return None if stored is None else _read(KeptSchedule, stored, f"schedule {name}")


def _read(kind: type[_Document], stored: bytes, what: str) -> _Document:
    try:
        return kind.model_validate_json(stored)
    except ValidationError as error:
        why = problems(error)[0]
        hint = "another version of ragassay wrote it; start that one, or add the schedule again"
        raise Conflict(f"the record of {what} can't be read: {why}", hint=hint) from None
