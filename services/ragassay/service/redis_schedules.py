"""A project's schedules and their runs in Redis; what two processes might do at once is done by Lua.

The keys of a project are ``ra:p:{PROJECT}:schedules`` (name -> record), ``due`` (name, by the time that it is
due next), ``runs:NAME`` (time -> run), ``open`` (``NAME TIME`` of runs that have not ended, by when they are looked at next).
``ra:schedules`` has the projects. Times are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from ragassay.config.schedules import KeptRun, KeptSchedule
from ragassay.core.errors import Conflict
from ragassay.core.validation import problems
from ragassay.service.projects import project_key
from ragassay.service.redis import RedisStore

MOST_RUNS = 400  # of a schedule that are remembered
OVERDUE_S = 60  # a beat looks every second
_PROJECTS = "ra:schedules"
_Document = TypeVar("_Document", bound=BaseModel)


class Slot(NamedTuple):
    """One time of a schedule."""

    schedule: str
    ms: int


class StoredSchedule(NamedTuple):
    """A schedule, and the bytes that stand for it: who changes it says from what."""

    value: KeptSchedule
    stored: bytes


class StoredRun(NamedTuple):
    """A run, and the bytes that stand for it."""

    slot: Slot
    value: KeptRun
    stored: bytes


class RedisSchedules:
    """The schedules of a project."""

    def __init__(self, store: RedisStore, project: str) -> None:
        self._store, self.project = store, project

    def names(self) -> list[str]:
        """All of them, sorted."""
        return sorted(name.decode() for name in self._store.redis.hkeys(self._key("schedules")))

    def get(self, name: str) -> StoredSchedule | None:
        """The schedule with this name; raises Conflict where another version of ragassay wrote it."""
        stored = self._store.redis.hget(self._key("schedules"), name)
        return None if stored is None else StoredSchedule(_read(KeptSchedule, stored, f"schedule {name}"), stored)

    def create(self, schedule: KeptSchedule, due_ms: int | None) -> bool:
        """Keep a new schedule; False where there is one of that name."""
        self._store.redis.sadd(_PROJECTS, self.project)
        return self._keep(schedule.name, b"", schedule.model_dump_json().encode(), due_ms)

    def change(self, known: StoredSchedule, schedule: KeptSchedule, due_ms: int | str | None) -> bool:
        """Keep what a schedule is now; False where it is not ``known`` any more. ``due_ms``: ``same`` leaves it."""
        return self._keep(schedule.name, known.stored, schedule.model_dump_json().encode(), due_ms)

    def delete(self, known: StoredSchedule) -> bool:
        """Forget a schedule and its runs; False where it is not ``known`` any more."""
        return self._keep(known.value.name, known.stored, b"", None)

    def _keep(self, name: str, old: bytes, new: bytes, due_ms: int | str | None) -> bool:
        keys = list(map(self._key, ("schedules", "due", f"runs:{name}")))
        return bool(self._store.run("keep_schedule", keys, [name, old, new, "" if due_ms is None else due_ms]))

    # --- times ------------------------------------------------------------------------------------------------

    def due(self, now_ms: int) -> list[Slot]:
        """The schedules that are due, each with the time since when it is."""
        found = self._store.redis.zrangebyscore(self._key("due"), "-inf", now_ms, withscores=True)
        return [Slot(name.decode(), int(ms)) for name, ms in found]

    def undue(self, name: str) -> None:
        """Take the schedule from those that are due."""
        self._store.redis.zrem(self._key("due"), name)

    def due_ms(self, name: str) -> int | None:
        """When the schedule is due next."""
        ms = self._store.redis.zscore(self._key("due"), name)
        return None if ms is None else int(ms)

    def claim(
        self, schedule: StoredSchedule, due_ms: int | None, next_ms: int | None, ms: int, run: KeptRun, look_ms: int
    ) -> bool:
        """Claim a time of a schedule, with its run and the time at which that is looked at, and set when it is due next.

        False if the time was claimed before, the schedule was changed, or it is not due at ``due_ms`` any more. Without
        ``due_ms`` it is due when it was.
        """
        name = schedule.value.name
        keys = list(map(self._key, ("schedules", "due", f"runs:{name}", "open")))
        times = ["" if each is None else each for each in (due_ms, next_ms)]
        document = run.model_dump_json()
        claimed = bool(self._store.run("claim_slot", keys, [name, schedule.stored, *times, ms, document, look_ms]))
        if claimed:
            self._trim(name)
        return claimed

    # --- runs -------------------------------------------------------------------------------------------------

    def times(self, name: str) -> list[int]:
        """The times of the schedule's runs, the newest first."""
        return sorted(map(int, self._store.redis.hkeys(self._key(f"runs:{name}"))), reverse=True)

    def runs(self, name: str, times: Sequence[int]) -> list[StoredRun]:
        """The runs of these times, as far as they are there."""
        stored = self._store.redis.hmget(self._key(f"runs:{name}"), times) if times else []
        what = f"a run of schedule {name}"
        return [
            StoredRun(Slot(name, ms), _read(KeptRun, one, what), one)
            for ms, one in zip(times, stored, strict=True)
            if one is not None
        ]

    def run(self, slot: Slot) -> StoredRun | None:
        """The run of one time."""
        return next(iter(self.runs(slot.schedule, [slot.ms])), None)

    def keep_run(self, known: StoredRun, run: KeptRun, look_ms: int | None) -> bool:
        """Write what became of a run, and when it is looked at again, if ever; False where it is not ``known`` any more."""
        keys = list(map(self._key, (f"runs:{known.slot.schedule}", "open")))
        look = "" if look_ms is None else look_ms
        return bool(self._store.run("keep_run", keys, [*known.slot, known.stored, run.model_dump_json(), look]))

    def open(self, now_ms: int) -> list[Slot]:
        """The runs that have not ended and are to be looked at."""
        return list(map(_slot, self._store.redis.zrangebyscore(self._key("open"), "-inf", now_ms)))

    def open_of(self, name: str) -> list[int]:
        """The times of a schedule's runs that have not ended."""
        slots = map(_slot, self._store.redis.zrange(self._key("open"), 0, -1))
        return [slot.ms for slot in slots if slot.schedule == name]

    def close(self, slot: Slot) -> None:
        """The run need not be looked at again."""
        self._store.redis.zrem(self._key("open"), f"{slot.schedule} {slot.ms}")

    def _trim(self, name: str) -> None:
        """Forget the oldest runs, but none that has not ended."""
        times = self.times(name)
        if len(times) > MOST_RUNS and (old := set(times[MOST_RUNS:]) - set(self.open_of(name))):
            self._store.redis.hdel(self._key(f"runs:{name}"), *old)

    def _key(self, name: str) -> str:
        return project_key(self.project, name)


def projects(store: RedisStore) -> list[str]:
    """The projects that have schedules, or had them."""
    return sorted(project.decode() for project in store.redis.smembers(_PROJECTS))


def overdue(store: RedisStore, *, for_s: float = 0.0) -> list[tuple[str, float]]:
    """Schedules that have been due for so long and no beat has noticed, each with the seconds, by the clock of Redis."""
    now_ms = int(store.now_ms())
    late_ms = now_ms - int(for_s * 1000)
    due = (slot for project in projects(store) for slot in RedisSchedules(store, project).due(late_ms))
    return [(slot.schedule, (now_ms - slot.ms) / 1000) for slot in due]


def _slot(member: bytes) -> Slot:
    name, _, ms = member.decode().partition(" ")
    return Slot(name, int(ms))


def _read(kind: type[_Document], stored: bytes, what: str) -> _Document:
    try:
        return kind.model_validate_json(stored)
    except ValidationError as error:
        why = problems(error)[0]
        hint = "another version of ragassay wrote it; start that one, or add the schedule again"
        raise Conflict(f"the record of {what} can't be read: {why}", hint=hint) from None
