"""The schedules of a service, as ``Client.schedules`` and ``AsyncClient.schedules`` have them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import Any

from ragassay.python.exchanges import (
    AwaitedDrive,
    Drive,
    Exchange,
    ServiceError,
    all_pages,
    awaited_pages,
    document,
    pages,
    route,
)
from ragassay.schedule_documents import JobSchedule, RunPage, ScheduledRun, SchedulePage


class ServiceSchedules:
    """Jobs that a service runs at planned times. A schedule is named by its name."""

    def __init__(self, run: Drive) -> None:
        self._run = run

    def add(
        self, name: str, cron: str, job: Mapping[str, Any], *, replace: bool = False, **options: Any
    ) -> JobSchedule:
        """Plan a job: the body of one without rows, such as ``{"dataset": "handbook", "systems": ["online"]}``.

        Options are ``zone`` ("UTC"), ``catch_up``, ``overlap``, ``deadline_s`` and ``paused``. ``replace``: change the
        schedule of this name where there is one.
        """
        return self._run(_add(name, cron, job, replace, options))

    def list(self) -> tuple[JobSchedule, ...]:
        """All schedules, by name."""
        return self._run(_list())

    def show(self, name: str) -> JobSchedule:
        """One schedule, with its next times and its newest run."""
        return self._run(_show(name))

    def runs(self, name: str) -> Iterator[ScheduledRun]:
        """What became of its times, the newest first, page by page."""
        for page in pages(self._run, partial(_runs, name)):
            yield from page.runs

    def change(self, name: str, **changes: Any) -> JobSchedule:
        """Change what is given: ``cron``, ``zone``, ``job``, and the options of ``add``."""
        return self._run(_change(name, changes))

    def pause(self, name: str) -> JobSchedule:
        """No run begins until it is resumed; times until then are not missed."""
        return self.change(name, paused=True)

    def resume(self, name: str) -> JobSchedule:
        """Runs begin again, at the next time."""
        return self.change(name, paused=False)

    def run(self, name: str) -> ScheduledRun:
        """Have a run made now, beside those that are planned; its job is in ``runs`` when a worker has made it."""
        return self._run(_run(name))

    def delete(self, name: str) -> JobSchedule:
        """Forget a schedule and its history; its jobs stay."""
        return self._run(_delete(name))


class AsyncServiceSchedules:
    """``ServiceSchedules`` to await; ``runs`` is an async iterator."""

    def __init__(self, run: AwaitedDrive) -> None:
        self._run = run

    async def add(
        self, name: str, cron: str, job: Mapping[str, Any], *, replace: bool = False, **options: Any
    ) -> JobSchedule:
        """See ``ServiceSchedules.add``."""
        return await self._run(_add(name, cron, job, replace, options))

    async def list(self) -> tuple[JobSchedule, ...]:
        """See ``ServiceSchedules.list``."""
        return await self._run(_list())

    async def show(self, name: str) -> JobSchedule:
        """See ``ServiceSchedules.show``."""
        return await self._run(_show(name))

    async def runs(self, name: str) -> AsyncIterator[ScheduledRun]:
        """See ``ServiceSchedules.runs``."""
        async for page in awaited_pages(self._run, partial(_runs, name)):
            for run in page.runs:
                yield run

    async def change(self, name: str, **changes: Any) -> JobSchedule:
        """See ``ServiceSchedules.change``."""
        return await self._run(_change(name, changes))

    async def pause(self, name: str) -> JobSchedule:
        """See ``ServiceSchedules.pause``."""
        return await self.change(name, paused=True)

    async def resume(self, name: str) -> JobSchedule:
        """See ``ServiceSchedules.resume``."""
        return await self.change(name, paused=False)

    async def run(self, name: str) -> ScheduledRun:
        """See ``ServiceSchedules.run``."""
        return await self._run(_run(name))

    async def delete(self, name: str) -> JobSchedule:
        """See ``ServiceSchedules.delete``."""
        return await self._run(_delete(name))


def _add(
    name: str, cron: str, job: Mapping[str, Any], replace: bool, options: Mapping[str, Any]
) -> Exchange[JobSchedule]:
    """Plan a job; with ``replace`` the schedule of that name, where there is one, is changed to it."""
    planned = {"cron": cron, "job": job, **options}
    try:
        return (yield from document(JobSchedule, "POST", route("schedules"), {"name": name, **planned}))
    except ServiceError as error:
        if not (replace and error.status == 409):
            raise
    return (yield from _change(name, planned))


def _change(name: str, changes: Mapping[str, Any]) -> Exchange[JobSchedule]:
    return document(JobSchedule, "PATCH", route("schedules", name), changes)


def _list() -> Exchange[tuple[JobSchedule, ...]]:
    listed = yield from all_pages(lambda cursor: document(SchedulePage, "GET", route("schedules", cursor=cursor)))
    return tuple(schedule for page in listed for schedule in page.schedules)


def _show(name: str) -> Exchange[JobSchedule]:
    return document(JobSchedule, "GET", route("schedules", name))


def _runs(name: str, cursor: str | None) -> Exchange[RunPage]:
    return document(RunPage, "GET", route("schedules", name, "runs", cursor=cursor))


def _run(name: str) -> Exchange[ScheduledRun]:
    return document(ScheduledRun, "POST", route("schedules", name, "run"))


def _delete(name: str) -> Exchange[JobSchedule]:
    return document(JobSchedule, "DELETE", route("schedules", name))
