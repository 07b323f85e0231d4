"""What the service keeps and says of its schedules: when they are due, what they run, and what became of each run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from annotated_types import MaxLen
from pydantic import Field

from ragassay.core.jobs import JobStatus
from ragassay.core.models import FrozenModel

DEADLINE_S = 900  # within which a run's job has to be made
LAST_PASSED = "last-passed"
NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}"


class Timing(FrozenModel):
    """When a schedule is due, and what happens where a run can't begin in time."""

    cron: Annotated[
        str,
        Field(
            max_length=200,
            description="minute, hour, day of month, month, day of week, such as `30 2 * * *`",
            examples=["30 2 * * *"],
        ),
    ]
    zone: str = Field("UTC", max_length=100, description="the IANA time zone of these times, such as `Europe/Berlin`")
    catch_up: Literal["once", "skip"] = Field(
        "once",
        description="if the newest time passed without a scheduler: `once` runs it late, `skip` not after 15 minutes",
    )


class NewSchedule(Timing):
    """A schedule. ``job`` is a body of ``POST /v1/jobs``, without rows."""

    name: Annotated[str, Field(pattern=f"^{NAME}$", description="its name, and its id")]
    job: Annotated[
        dict[str, Any],
        Field(
            description="a job's body without `samples`: rows are those of `dataset`, the latest version at the time of the "
            "run or NAME@VERSION; `baseline` may be `last-passed`",
            examples=[{"dataset": "handbook", "systems": ["online"], "gates": [{"mrr": ">= 0.7"}]}],
        ),
    ]
    paused: bool = Field(False, description="no run begins until it is false")


class PlannedJob(Timing):
    """``schedule`` of a configuration: when its job runs, and on which rows of the service; all else stands beside it."""

    name: str = Field("nightly", pattern=f"^{NAME}$", description="the schedule's name")
    dataset: str | None = Field(
        None, max_length=200, description="the service's dataset: its latest version at the time, or NAME@VERSION"
    )
    systems: Annotated[tuple[str, ...], MaxLen(100)] = Field(
        (), description="systems that the service's operator registered, by name"
    )

    def request(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """The body of ``POST /v1/schedules`` for a job with these options."""
        of_job = self.model_dump(include={"dataset", "systems"}, exclude_defaults=True, mode="json")
        timing = self.model_dump(include={*Timing.model_fields, "name"})
        return {**timing, "job": {**job, **of_job}}


class ScheduleChange(FrozenModel):
    """What is to be changed; what is left out stays. ``job`` is replaced as a whole."""

    cron: str | None = None
    zone: str | None = None
    catch_up: Literal["once", "skip"] | None = None
    job: dict[str, Any] | None = None
    paused: bool | None = None


Trigger = Literal["slot", "catch_up", "manual"]
RunStatus = Literal["waiting", "skipped", "missed", "failed_to_start", "expired"] | JobStatus


class ScheduledRun(FrozenModel):
    """What became of one time of a schedule. Times are UTC, ISO 8601.

    ``slot``: the time that it was planned for; of a run that somebody asked for, when. ``status``: ``waiting`` until a
    worker has made its job, then the job's; ``skipped``, ``missed`` and ``failed_to_start`` have no job and say why in
    ``reason``; ``expired``: the job's record is no longer kept. ``gates_passed`` and ``gates_missed`` count the job's
    gates when it has finished; null where it has none.
    """

    slot: str
    trigger: Trigger = "slot"
    status: RunStatus
    job: str | None = None
    began_at: str | None = None
    gates_passed: int | None = None
    gates_missed: int | None = None
    reason: str | None = None

    @property
    def outcome(self) -> str:
        """``finished``, ``queued, caught up``."""
        return self.status + {"slot": "", "catch_up": ", caught up", "manual": ", by hand"}[self.trigger]

    @property
    def gates(self) -> str:
        """How many gates passed, ``2 of 3``; empty where that is not known."""
        if self.gates_passed is None or self.gates_missed is None:
            return ""
        return f"{self.gates_passed} of {self.gates_passed + self.gates_missed}"


class KeptSchedule(NewSchedule):
    """A schedule as it is kept."""

    created_at: str
    changed_at: str


class JobSchedule(KeptSchedule):
    """A schedule as it stands: with the times of its next runs, none while it is paused, and its newest run."""

    next: tuple[str, ...]
    last: ScheduledRun | None

    @property
    def evaluated(self) -> str:
        """What its job evaluates: systems on a dataset."""
        dataset, systems = str(self.job.get("dataset", "")), self.job.get("systems", ())
        return f"{', '.join(systems)} on {dataset}" if systems else dataset

    def local(self, times: Iterable[str]) -> Iterator[str]:
        """Times as a clock in its zone shows them."""
        zone = ZoneInfo(self.zone)
        return (datetime.fromisoformat(time).astimezone(zone).strftime("%Y-%m-%d %H:%M") for time in times)


class SchedulePage(FrozenModel):
    """Schedules by name; ``next`` asks for the following page, null on the last one."""

    schedules: tuple[JobSchedule, ...]
    next: str | None


class RunPage(FrozenModel):
    """Runs of a schedule, the newest first; ``next`` asks for the following page, null on the last one."""

    runs: tuple[ScheduledRun, ...]
    next: str | None
