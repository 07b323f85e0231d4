"""A project's schedules and the times of theirs that were claimed, in Redis; Lua decides where two processes race.

The keys of a project are ``ra:p:{PROJECT}:schedules`` (name -> record), ``due`` (name, by the time that it is due next),
``runs:NAME`` (claimed time -> entry) and ``unstarted`` (``NAME TIME`` of runs that have not begun, by when to look at them
next). ``ra:schedules`` has the projects. Times are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from ragassay.config.schedules import KeptSchedule, Trigger
from ragassay.core.errors import Conflict
from ragassay.core.models import FrozenModel
from ragassay.core.validation import problems
from ragassay.service.projects import project_key
from ragassay.service.redis import RedisStore

MAX_RUNS = 400  # of a schedule that are remembered
OVERDUE_S = 60  # a beat looks every second
_PROJECTS = "ra:schedules"
_Document = TypeVar("_Document", bound=BaseModel)


class Slot(NamedTuple):
    """One time of a schedule."""

    schedule: str
    ms: int


class RunEntry(FrozenModel):
    """A claimed time. If it has a job, the job's own state counts, whatever ``status`` says.

    ``reason``: why there is no job, the last error, or a note on the job. ``tries``: how often a worker began to make it.
    """

    trigger: Trigger = "slot"
    status: Literal["waiting", "skipped", "missed", "failed_to_start"] = "waiting"
    reason: str | None = None
    tries: int = 0


class StoredSchedule(NamedTuple):
    """A schedule with its stored bytes, which a change names as what it replaces."""

    value: KeptSchedule
    stored: bytes


class RedisSchedules:
    """The schedules of a project."""

    def __init__(self, store: RedisStore, project: str) -> None:
        self._store, self.project = store, project

    def names(self) -> list[str]:
        """All of them, sorted."""
        return sorted(name.decode() for name in self._store.redis.hkeys(self._key("schedules")))

    def get(self, name: str) -> StoredSchedule | None:
        """The schedule with this name; raises Conflict if another version of ragassay wrote it."""
        stored = self._store.redis.hget(self._key("schedules"), name)
        return None if stored is None else StoredSchedule(_read(KeptSchedule, stored, f"schedule {name}"), stored)

    def create(self, schedule: KeptSchedule, due_ms: int | None) -> bool:
        """Keep a new schedule; False if there is one of that name."""
        self._store.redis.sadd(_PROJECTS, self.project)
        return self._keep(schedule.name, b"", schedule.model_dump_json().encode(), due_ms)

    def change(self, known: StoredSchedule, schedule: KeptSchedule, due_ms: int | str | None) -> bool:
        """Replace a schedule; False if it is not ``known`` any more. ``due_ms``: ``same`` leaves it."""
        return self._keep(schedule.name, known.stored, schedule.model_dump_json().encode(), due_ms)

    def delete(self, known: StoredSchedule) -> bool:
        """Delete a schedule and its history; False if it is not ``known`` any more."""
        return self._keep(known.value.name, known.stored, b"", None)

    def _keep(self, name: str, old: bytes, new: bytes, due_ms: int | str | None) -> bool:
        keys = list(map(self._key, ("schedules", "due", f"runs:{name}")))
        return bool(self._store.run("keep_schedule", keys, [name, old, new, "" if due_ms is None else due_ms]))

    # --- times ------------------------------------------------------------------------------------------------

    def due(self, now_ms: int) -> list[Slot]:
        """The schedules that are due, each with the time since when it is."""
        due = self._store.redis.zrangebyscore(self._key("due"), "-inf", now_ms, withscores=True)
        return [Slot(name.decode(), int(ms)) for name, ms in due]

    def not_due(self, name: str) -> None:
        """Take the schedule from those that are due."""
        self._store.redis.zrem(self._key("due"), name)

    def due_ms(self, name: str) -> int | None:
        """When the schedule is due next."""
        ms = self._store.redis.zscore(self._key("due"), name)
        return None if ms is None else int(ms)

    def claim(
        self, schedule: StoredSchedule, due_ms: int | None, next_ms: int | None, ms: int, entry: RunEntry, look_ms: int
    ) -> bool:
        """Claim a time of a schedule, to be looked at at ``look_ms``, and set when the schedule is due next.

        False if the time was claimed before, the schedule was changed, or it is not due at ``due_ms`` any more. Without
        ``due_ms`` it is due when it was.
        """
        name = schedule.value.name
        keys = list(map(self._key, ("schedules", "due", f"runs:{name}", "unstarted")))
        times = ["" if each is None else each for each in (due_ms, next_ms)]
        arguments = [name, schedule.stored, *times, ms, entry.model_dump_json(), look_ms]
        claimed = bool(self._store.run("claim_slot", keys, arguments))
        if claimed and (old := set(self.times(name)[MAX_RUNS:]) - set(self.unstarted(name))):
            self._store.redis.hdel(self._key(f"runs:{name}"), *old)
        return claimed

    # --- history ----------------------------------------------------------------------------------------------

    def times(self, name: str) -> list[int]:
        """The times of the schedule's runs, the newest first."""
        return sorted(map(int, self._store.redis.hkeys(self._key(f"runs:{name}"))), reverse=True)

    def entries(self, name: str, times: Sequence[int]) -> dict[int, RunEntry]:
        """What the history has of these times."""
        stored = self._store.redis.hmget(self._key(f"runs:{name}"), times) if times else []
        found = {ms: one for ms, one in zip(times, stored, strict=True) if one is not None}
        return {ms: _read(RunEntry, one, f"a run of schedule {name}") for ms, one in found.items()}

    def keep(self, slot: Slot, entry: RunEntry) -> None:
        """Replace the entry of a claimed time, unless its schedule was deleted."""
        runs = self._key(f"runs:{slot.schedule}")
        if self._store.redis.hexists(runs, slot.ms):
            self._store.redis.hset(runs, slot.ms, entry.model_dump_json())

    # --- runs that have not begun -----------------------------------------------------------------------------

    def to_look_at(self, now_ms: int) -> list[Slot]:
        """The runs that have not begun and are to be looked at."""
        return list(map(_slot, self._store.redis.zrangebyscore(self._key("unstarted"), "-inf", now_ms)))

    def unstarted(self, name: str) -> list[int]:
        """The times of a schedule's runs that have not begun."""
        slots = map(_slot, self._store.redis.zrange(self._key("unstarted"), 0, -1))
        return [slot.ms for slot in slots if slot.schedule == name]

    def is_unstarted(self, slot: Slot) -> bool:
        """Is the run still looked at?"""
        return self._store.redis.zscore(self._key("unstarted"), _member(slot)) is not None

    def look_again(self, slot: Slot, look_ms: int | None) -> None:
        """Set when to look at a run next; never again with None."""
        if look_ms is None:
            self._store.redis.zrem(self._key("unstarted"), _member(slot))
        else:
            self._store.redis.zadd(self._key("unstarted"), {_member(slot): look_ms}, xx=True)

    def _key(self, name: str) -> str:
        return project_key(self.project, name)


def projects(store: RedisStore) -> list[str]:
    """The projects that have schedules, or had them."""
    return sorted(project.decode() for project in store.redis.smembers(_PROJECTS))


def overdue(store: RedisStore) -> list[tuple[str, float]]:
    """Schedules that are due without a claim, each with the seconds since it is, by the clock of Redis."""
    now_ms = int(store.now_ms())
    due = (slot for project in projects(store) for slot in RedisSchedules(store, project).due(now_ms))
    return [(slot.schedule, (now_ms - slot.ms) / 1000) for slot in due]


def _member(slot: Slot) -> str:
    return f"{slot.schedule} {slot.ms}"


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
