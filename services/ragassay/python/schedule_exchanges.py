"""What a client asks of a service about schedules, apart from how it is sent; see ``exchanges``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from ragassay.python.exchanges import JSON, Exchange, HttpRequest, ServiceError, route
from ragassay.schedule_documents import JobSchedule, RunPage, ScheduledRun, SchedulePage


def add(new: Mapping[str, Any], *, replace: bool = False) -> Exchange[JobSchedule]:
    """Plan a job; with ``replace`` the schedule of that name, where there is one, is changed to it."""
    try:
        return JobSchedule.model_validate_json((yield HttpRequest("POST", route("schedules"), orjson.dumps(new), JSON)))
    except ServiceError as error:
        if not (replace and error.status == 409):
            raise
    return (yield from change(new["name"], {key: value for key, value in new.items() if key != "name"}))


def change(name: str, changes: Mapping[str, Any]) -> Exchange[JobSchedule]:
    """Change what is given."""
    return JobSchedule.model_validate_json(
        (yield HttpRequest("PATCH", route("schedules", name), orjson.dumps(changes), JSON))
    )


def schedules() -> Exchange[tuple[JobSchedule, ...]]:
    """All of them, by name."""
    found, cursor, first = list[JobSchedule](), None, True
    while first or cursor is not None:
        page = SchedulePage.model_validate_json((yield HttpRequest("GET", route("schedules", cursor=cursor))))
        cursor, first = page.next, False
        found += page.schedules
    return tuple(found)


def show(name: str) -> Exchange[JobSchedule]:
    """One schedule."""
    return JobSchedule.model_validate_json((yield HttpRequest("GET", route("schedules", name))))


def runs(name: str, cursor: str | None) -> Exchange[RunPage]:
    """A page of its history."""
    return RunPage.model_validate_json((yield HttpRequest("GET", route("schedules", name, "runs", cursor=cursor))))


def run(name: str) -> Exchange[ScheduledRun]:
    """Run it now."""
    return ScheduledRun.model_validate_json((yield HttpRequest("POST", route("schedules", name, "run"))))


def delete(name: str) -> Exchange[JobSchedule]:
    """Forget it."""
    return JobSchedule.model_validate_json((yield HttpRequest("DELETE", route("schedules", name))))
