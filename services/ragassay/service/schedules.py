"""Nightly runs: at which times a schedule is due, and one job for each of them, whatever happens.

A round of a beat claims the times that have come, each once, before anything is done about them, and sends a message for
each; a worker makes the job. The job's id follows from the schedule and the time, and a job is never made twice, so a
message that comes again, or is sent again because its worker died, makes no second run.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ragassay.analysis import gates
from ragassay.analysis.gates import GateReport
from ragassay.config.schedules import (
    LAST_PASSED,
    NAME,
    JobSchedule,
    KeptSchedule,
    NewSchedule,
    RunPage,
    ScheduleChange,
    ScheduledRun,
    SchedulePage,
)
from ragassay.core.errors import AssayError, BadData, Conflict, NotFound, bad_cursor, class_and_reason
from ragassay.core.jobs import Planned
from ragassay.core.validation import problems
from ragassay.service.cron import Cron, iso, milliseconds
from ragassay.service.job_reports import Gating
from ragassay.service.jobs import Jobs
from ragassay.service.notifications import Notification
from ragassay.service.notifier import Notifier
from ragassay.service.queue import Queue
from ragassay.service.redis_schedules import RedisSchedules, RunEntry, Slot, StoredSchedule, projects

if TYPE_CHECKING:
    from ragassay.core.specification import JobSpec
    from ragassay.evaluation.plan import Inputs

    Read = Callable[[Mapping[str, Any]], tuple[JobSpec, Inputs, Gating]]

logger = logging.getLogger("ragassay")
MAX_SCHEDULES = 1000  # of a project
MAX_TRIES = 5
NEXT_SHOWN = 5
_CHANGED = "the schedule was changed at the same moment"


class Schedules:
    """The schedules of a project. ``now`` is the time in milliseconds since 1970; by default that of the Redis server.

    ``again_s``: how long a message may take until the next one is sent, and how often a run under way is looked at.
    """

    def __init__(
        self,
        jobs: Jobs,
        queue: Queue,
        notifier: Notifier,
        *,
        project: str = "default",
        again_s: float = 60.0,
        now: Callable[[], int] | None = None,
    ) -> None:
        self._of_all, self.jobs, self.project = jobs, jobs.of(project), project
        self._queue, self._notifier = queue, notifier
        self._again_ms, self._given_now = int(again_s * 1000), now
        self._store = RedisSchedules(jobs.store, project)

    def of(self, project: str) -> Schedules:
        """The schedules of another project."""
        again_s = self._again_ms / 1000
        return Schedules(
            self._of_all, self._queue, self._notifier, project=project, again_s=again_s, now=self._given_now
        )

    # --- for everybody ----------------------------------------------------------------------------------------

    def create(self, new: NewSchedule) -> JobSchedule:
        """Keep a schedule; its first run is due at the next time. Raises BadSettings, UnknownName, Conflict."""
        now = self._now()
        if len(self._store.names()) >= MAX_SCHEDULES:
            raise Conflict(f"there are {MAX_SCHEDULES:,} schedules", hint="delete those that are no longer needed")
        kept = KeptSchedule(**dict(new), created_at=iso(now), changed_at=iso(now))
        if not self._store.create(kept, _next_ms(kept, now)):
            what = f"there is a schedule {new.name!r} already"
            raise Conflict(what, hint="change it (PATCH), or choose another name")
        return self.get(new.name)

    def get(self, name: str) -> JobSchedule:
        """The schedule as it stands; raises NotFound."""
        known = self._known(name)
        last = next(self._runs(known.value, self._store.times(name)[:1]), None)
        return JobSchedule(**dict(known.value), next=tuple(self._next(known)), last=last)

    def changed(self, name: str, change: ScheduleChange) -> tuple[StoredSchedule, NewSchedule]:
        """The schedule as it is stored, and as it would be; raises NotFound, BadData."""
        known = self._known(name)
        kept = known.value.model_dump(include=set(NewSchedule.model_fields))
        try:
            return known, NewSchedule.model_validate({**kept, **change.model_dump(exclude_none=True)})
        except ValidationError as error:
            raise BadData([str(problem) for problem in problems(error, NewSchedule)]) from None

    def change(self, known: StoredSchedule, new: NewSchedule) -> JobSchedule:
        """Replace the schedule that was read as ``known``. Times that are claimed already stay.

        Raises NotFound, and Conflict if it was changed since it was read.
        """
        now, name = self._now(), known.value.name
        kept = KeptSchedule(**dict(new), created_at=known.value.created_at, changed_at=iso(now))
        when = ("cron", "zone", "paused")
        same = all(getattr(kept, key) == getattr(known.value, key) for key in when)
        if not self._store.change(known, kept, "same" if same else _next_ms(kept, now)):
            self._known(name)
            raise Conflict(_CHANGED, hint="look at it, then change it again")
        return self.get(name)

    def delete(self, name: str) -> JobSchedule:
        """Forget a schedule with its history; its jobs stay. Raises NotFound, Conflict."""
        known, schedule = self._known(name), self.get(name)
        if not self._store.delete(known):
            raise Conflict(_CHANGED, hint="delete it again")
        return schedule

    def page(self, *, cursor: str | None, limit: int) -> SchedulePage:
        """Schedules by name, those after ``cursor``; raises BadInput for one that no page gave."""
        if cursor is not None and not re.fullmatch(NAME, cursor):
            raise bad_cursor(cursor)
        names = [name for name in self._store.names() if cursor is None or name > cursor]
        shown: list[JobSchedule] = []
        for name in names[:limit]:
            try:
                shown.append(self.get(name))
            except (NotFound, Conflict):  # deleted a moment ago; another version's can't be read
                continue
        return SchedulePage(schedules=tuple(shown), next=names[limit - 1] if len(names) > limit else None)

    def runs(self, name: str, *, cursor: str | None, limit: int) -> RunPage:
        """The runs of the schedule, the newest first; of the latest 400. Raises NotFound, BadInput for a bad ``cursor``."""
        known = self._known(name)
        if cursor is not None and not (cursor.isascii() and cursor.isdecimal()):
            raise bad_cursor(cursor)
        times = [ms for ms in self._store.times(name) if cursor is None or ms < int(cursor)]
        runs = tuple(self._runs(known.value, times[:limit]))
        return RunPage(runs=runs, next=str(times[limit - 1]) if len(times) > limit else None)

    def run(self, name: str) -> ScheduledRun:
        """Have a run made now, beside those that are planned. Raises NotFound, Conflict."""
        known, slot = self._known(name), self._now()
        entry = RunEntry(trigger="manual")
        if not self._store.claim(known, None, None, slot, entry, slot + self._again_ms):
            raise Conflict(_CHANGED, hint="ask again")
        self._queue.start(self.project, name, slot)
        return ScheduledRun(slot=iso(slot), trigger="manual", status="waiting")

    # --- for workers ------------------------------------------------------------------------------------------

    def start(self, name: str, slot_ms: int, read: Read) -> None:
        """Make the job of a run that is due. ``read`` makes a job's parts of the schedule's.

        Delivered at least once: a run that has its job is left alone, and of two workers one makes the job. What is wrong
        with the schedule's job ends the run with that reason; after an outage, or when its worker died, it is tried again.
        """
        slot = Slot(name, slot_ms)
        schedule, entry = self._store.get(name), self._store.entries(name, [slot_ms]).get(slot_ms)
        if schedule is None or entry is None or entry.status != "waiting":
            return
        job = self._job_id(schedule.value, slot_ms)
        if self._is_there(job):
            return
        if entry.tries >= MAX_TRIES:
            last = f": {entry.reason}" if entry.reason else ""
            self._end(slot, entry, f"no worker could make the job in {MAX_TRIES} tries{last}")
            return
        entry = entry.model_copy(update={"tries": entry.tries + 1})
        self._store.keep(slot, entry)
        try:
            spec, inputs, gating, note = self.prepared(schedule.value, read)
            self._store.keep(slot, entry.model_copy(update={"reason": note}))
            planned = Planned(schedule=name, slot=None if entry.trigger == "manual" else iso(slot_ms))
            self.jobs.submit(spec, inputs, gating, planned=(job, planned))
        except AssayError as error:
            if error.retryable:
                raise
            if not self._is_there(job):
                self._end(slot, entry, str(error))
        except Exception as error:
            self._store.keep(slot, entry.model_copy(update={"reason": class_and_reason(error)}))
            raise

    def _end(self, slot: Slot, entry: RunEntry, why: str) -> None:
        self._store.keep(slot, entry.model_copy(update={"status": "failed_to_start", "reason": why}))

    def prepared(self, schedule: NewSchedule, read: Read) -> tuple[JobSpec, Inputs, Gating, str | None]:
        """The parts of the schedule's job, its baseline found; and what is to be known of it.

        ``last-passed`` is the newest job of the schedule on the same questions whose gates all passed. Before there is one,
        what needs a baseline is left out: else no run could ever be the first to pass.
        """
        template: dict[str, Any] = {"name": schedule.name, **schedule.job}
        baseline = template.get("baseline")
        if not isinstance(baseline, str) or baseline.partition("#")[0] != LAST_PASSED:
            return *read(template), None
        _, hash_, system = baseline.partition("#")
        alone = {key: value for key, value in template.items() if key != "baseline"}
        spec, inputs, gating = read(alone)
        if passed := self._last_passed(schedule.name, inputs.dataset.digest):
            return *read({**template, "baseline": f"{passed}{hash_}{system}"}), None
        note = "no run on these questions has passed yet, so nothing was compared with a baseline"
        return spec, inputs, gating.model_copy(update={"gates": gates.without_drops(gating.gates)}), note

    def check(self, new: NewSchedule, read: Read) -> None:
        """Raise what the first run's job would be refused for."""
        spec, inputs, gating, _ = self.prepared(new, read)
        self.jobs.check(spec, inputs, gating)

    def _last_passed(self, name: str, digest: str) -> str | None:
        """The newest job on that dataset whose gates all pass as it is now; one without gates passes when it has finished."""
        known = self._store.get(name)
        for run in () if known is None else self._runs(known.value, self._store.times(name)):
            if run.job is not None and run.status == "finished" and not run.gates_missed:
                try:
                    record = self.jobs.reports.finished(run.job).record
                except (NotFound, Conflict):
                    continue
                if record.dataset.digest == digest:
                    return run.job
        return None

    # --- for a beat -------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """A round over all projects: claim what is due, send again what was lost, tell of runs that did not begin."""
        for project in projects(self.jobs.store):
            (self if project == self.project else self.of(project)).tick_project()

    def tick_project(self) -> None:
        """A round over this project. A schedule that can't be read is left to the version that wrote it."""
        now = self._now()
        for work, slots in ((self._claim, self._store.due), (self._look, self._store.to_look_at)):
            for slot in slots(now):
                try:
                    work(slot, now)
                except AssayError as error:
                    if error.retryable:
                        raise
                    _warn_once(slot.schedule, str(error))

    def _claim(self, due: Slot, now: int) -> None:
        known = self._store.get(due.schedule)
        if known is None:
            self._store.not_due(due.schedule)
            return
        newest, next_ms = Cron(known.value.cron, known.value.zone).newest(due.ms, now)
        entry = self._entry(known.value, due.ms, newest, now)
        look_ms = now + self._again_ms if entry.status == "waiting" else self._deadline(known.value, newest)
        if self._store.claim(known, due.ms, next_ms, newest, entry, look_ms) and entry.status == "waiting":
            self._queue.start(self.project, due.schedule, newest)

    def _entry(self, schedule: KeptSchedule, first: int, newest: int, now: int) -> RunEntry:
        """The run of the newest time that has come. ``first``: the first that was due.

        Of several times that have passed, because no scheduler ran, only the newest has a run.
        """
        late = now > self._deadline(schedule, newest)
        if late and schedule.catch_up == "skip":
            return RunEntry(status="missed", reason=f"no scheduler ran from {iso(first)} to its deadline")
        if schedule.overlap == "skip" and (run := self._under_way(schedule)):
            return RunEntry(status="skipped", reason=f"the run of {run} was still under way")
        return RunEntry(trigger="catch_up" if late else "slot")

    def _under_way(self, schedule: KeptSchedule) -> str | None:
        """The time of a run that is under way, if any. One that is paused waits for people, not the next run for it."""
        active = set(self.jobs.store.active())
        times = {ms for ms in self._store.times(schedule.name) if self._job_id(schedule, ms) in active}
        for run in self._runs(schedule, sorted({*times, *self._store.unstarted(schedule.name)})):
            if run.status in ("waiting", "queued", "running", "finalizing"):
                return run.slot
        return None

    def _look(self, slot: Slot, now: int) -> None:
        """Look at a run that has not begun: send its message again, send an alert when it is late."""
        schedule = self._store.get(slot.schedule)
        run = None if schedule is None else next(self._runs(schedule.value, [slot.ms]), None)
        if schedule is None or run is None:
            self._store.look_again(slot, None)
            return
        if run.late:
            self._alert(run, slot)
        looks = []
        if run.status == "waiting":
            self._queue.start(self.project, slot.schedule, slot.ms)
            looks.append(now + self._again_ms)
        if run.began_at is None and run.trigger != "manual" and not run.late:
            looks.append(self._deadline(schedule.value, slot.ms))
        self._store.look_again(slot, min(looks, default=None))

    def _alert(self, run: ScheduledRun, slot: Slot) -> None:
        self._notifier.notify(
            Notification(
                id=f"run_missed:{self.project}:{slot.schedule}:{run.slot}",
                kind="run_missed",
                project=self.project,
                at=iso(self._now()),
                schedule=slot.schedule,
                slot=run.slot,
                job=run.job,
            )
        )

    # --- what they share --------------------------------------------------------------------------------------

    def _known(self, name: str) -> StoredSchedule:
        known = self._store.get(name)
        if known is None:
            raise NotFound(f"there is no schedule {name[:100]!r}", hint="list them: GET /v1/schedules")
        return known

    def _next(self, known: StoredSchedule) -> Iterator[str]:
        """The next times; the first may have come already, when no beat has noticed."""
        first = self._store.due_ms(known.value.name)
        if first is not None:
            following = Cron(known.value.cron, known.value.zone).times(first)
            yield from map(iso, (first, *islice(following, NEXT_SHOWN - 1)))

    def _runs(self, schedule: KeptSchedule, times: Sequence[int]) -> Iterator[ScheduledRun]:
        """The runs of these times, each with the state of its job now: a job that finished may have been retried since."""
        for ms, entry in self._store.entries(schedule.name, times).items():
            job = self._job_id(schedule, ms)
            run: dict[str, Any] = {"slot": iso(ms), **entry.model_dump(include={"trigger", "status", "reason"})}
            if entry.status in ("waiting", "failed_to_start"):
                run |= _outcome(self.jobs, job)
            if run["status"] == "waiting" and not self._store.is_unstarted(Slot(schedule.name, ms)):
                run |= {"status": "expired", "job": job, "reason": None}  # it had a job, whose retention is over
            began, deadline = run.get("began_at"), self._deadline(schedule, ms)
            late = self._now() >= deadline if began is None else milliseconds(began) > deadline
            watched = entry.trigger != "manual" and run["status"] != "expired"
            yield ScheduledRun(**run, late=watched and late)

    def _deadline(self, schedule: KeptSchedule, ms: int) -> int:
        return ms + int(schedule.deadline_s * 1000)

    def _job_id(self, schedule: KeptSchedule, slot_ms: int) -> str:
        named = "\n".join((self.project, schedule.name, schedule.created_at, str(slot_ms)))
        return hashlib.sha256(named.encode()).hexdigest()[:32]

    def _is_there(self, job: str) -> bool:
        try:
            self.jobs.store.status(job)
        except NotFound:
            return False
        return True

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
        document = jobs.store.gates(job)  # empty: they could not be checked
        results = GateReport.model_validate_json(document).results if document else ()
        passed = sum(result.passed for result in results)
        update |= {"gates_passed": passed, "gates_missed": (len(results) or gates) - passed}
    return update


def _next_ms(schedule: NewSchedule, now: int) -> int | None:
    return None if schedule.paused else next(Cron(schedule.cron, schedule.zone).times(now))
