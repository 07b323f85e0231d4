"""The schedules of a service, as ``Client.schedules`` and ``AsyncClient.schedules`` have them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ragassay.python import schedule_exchanges as exchanges
from ragassay.python.exchanges import awaited_pages, pages

if TYPE_CHECKING:
    from ragassay.schedule_documents import JobSchedule, ScheduledRun


class ServiceSchedules:
    """Jobs that a service runs at planned times. A schedule is named by its name."""

    def __init__(self, run: Callable[[Any], Any]) -> None:
        self._run = run

    def add(
        self, name: str, cron: str, job: Mapping[str, Any], *, replace: bool = False, **options: Any
    ) -> JobSchedule:
        """Plan a job: the body of one without rows, such as ``{"dataset": "handbook", "systems": ["online"]}``.

        Options are ``zone`` ("UTC"), ``catch_up``, ``overlap``, ``deadline_s`` and ``paused``. ``replace``: change the
        schedule of this name where there is one.
        """
        added: JobSchedule = self._run(_added(name, cron, job, replace, options))
        return added

    def list(self) -> tuple[JobSchedule, ...]:
        """All schedules, by name."""
        found: tuple[JobSchedule, ...] = self._run(exchanges.schedules())
        return found

    def show(self, name: str) -> JobSchedule:
        """One schedule, with its next times and its newest run."""
        shown: JobSchedule = self._run(exchanges.show(name))
        return shown

    def runs(self, name: str) -> Iterator[ScheduledRun]:
        """What became of its times, the newest first, page by page."""
        for page in pages(self._run, partial(exchanges.runs, name)):
            yield from page.runs

    def change(self, name: str, **changes: Any) -> JobSchedule:
        """Change what is given: ``cron``, ``zone``, ``job``, and the options of ``add``."""
        changed: JobSchedule = self._run(exchanges.change(name, changes))
        return changed

    def pause(self, name: str) -> JobSchedule:
        """No run begins until it is resumed; times until then are not missed."""
        return self.change(name, paused=True)

    def resume(self, name: str) -> JobSchedule:
        """Runs begin again, at the next time."""
        return self.change(name, paused=False)

    def run(self, name: str) -> ScheduledRun:
        """Have a run made now, beside those that are planned; its job is in ``runs`` when a worker has made it."""
        asked: ScheduledRun = self._run(exchanges.run(name))
        return asked

    def delete(self, name: str) -> JobSchedule:
        """Forget a schedule and its history; its jobs stay."""
        gone: JobSchedule = self._run(exchanges.delete(name))
        return gone


class AsyncServiceSchedules:
    """``ServiceSchedules`` to await; ``runs`` is an async iterator."""

    def __init__(self, run: Callable[[Any], Awaitable[Any]]) -> None:
        self._run = run

    async def add(
        self, name: str, cron: str, job: Mapping[str, Any], *, replace: bool = False, **options: Any
    ) -> JobSchedule:
        """See ``ServiceSchedules.add``."""
        added: JobSchedule = await self._run(_added(name, cron, job, replace, options))
        return added

    async def list(self) -> tuple[JobSchedule, ...]:
        """See ``ServiceSchedules.list``."""
        found: tuple[JobSchedule, ...] = await self._run(exchanges.schedules())
        return found

    async def show(self, name: str) -> JobSchedule:
        """See ``ServiceSchedules.show``."""
        shown: JobSchedule = await self._run(exchanges.show(name))
        return shown

    async def runs(self, name: str) -> AsyncIterator[ScheduledRun]:
        """See ``ServiceSchedules.runs``."""
        async for page in awaited_pages(self._run, partial(exchanges.runs, name)):
            for run in page.runs:
                yield run

    async def change(self, name: str, **changes: Any) -> JobSchedule:
        """See ``ServiceSchedules.change``."""
        changed: JobSchedule = await self._run(exchanges.change(name, changes))
        return changed

    async def pause(self, name: str) -> JobSchedule:
        """See ``ServiceSchedules.pause``."""
        return await self.change(name, paused=True)

    async def resume(self, name: str) -> JobSchedule:
        """See ``ServiceSchedules.resume``."""
        return await self.change(name, paused=False)

    async def run(self, name: str) -> ScheduledRun:
        """See ``ServiceSchedules.run``."""
        asked: ScheduledRun = await self._run(exchanges.run(name))
        return asked

    async def delete(self, name: str) -> JobSchedule:
        """See ``ServiceSchedules.delete``."""
        gone: JobSchedule = await self._run(exchanges.delete(name))
        return gone


def _added(name: str, cron: str, job: Mapping[str, Any], replace: bool, options: Mapping[str, Any]) -> Any:
    return exchanges.add({"name": name, "cron": cron, "job": job, **options}, replace=replace)
