"""What there is to say of a schedule's runs: when, what became of them, and of their gates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

from ragassay.schedule_documents import JobSchedule, ScheduledRun


def local(known: JobSchedule, times: Iterable[str]) -> Iterator[str]:
    """Times as a clock in the schedule's zone shows them, with seconds where its expression has them."""
    zone, form = ZoneInfo(known.zone), "%Y-%m-%d %H:%M" + (":%S" if len(known.cron.split()) > 5 else "")
    return (datetime.fromisoformat(time).astimezone(zone).strftime(form) for time in times)


def status(run: ScheduledRun) -> str:
    """``finished``, ``queued, caught up``."""
    return run.status + {"slot": "", "catch_up": ", caught up", "manual": ", by hand"}[run.trigger]


def gates(run: ScheduledRun) -> str:
    """How many gates passed, ``2 of 3``; empty where that is not known."""
    if run.gates_passed is None or run.gates_missed is None:
        return ""
    return f"{run.gates_passed} of {run.gates_passed + run.gates_missed}"


def evaluated(known: JobSchedule) -> str:
    """What its job evaluates: systems on a dataset or a file."""
    job = known.job
    rows_of = str(job.get("dataset") or job.get("data") or "")
    systems = [*job.get("systems", ()), *job.get("responses", ())]
    return f"{', '.join(systems)} on {rows_of}" if systems else rows_of
