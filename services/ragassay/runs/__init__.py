"""One run, from rows to report: ``prepare``, ``work``, ``finish``, over any store that keeps runs."""

from ragassay.runs.outage import wait_s
from ragassay.runs.plan import Inputs, SystemInput, called_source, estimate, load, recorded, recorded_system
from ragassay.runs.runner import check_unchanged, describe, finish, prepare, work, work_through
from ragassay.runs.session import Factory, Session

__all__ = [
    "Factory",
    "Inputs",
    "Session",
    "SystemInput",
    "called_source",
    "check_unchanged",
    "describe",
    "estimate",
    "finish",
    "load",
    "prepare",
    "recorded",
    "recorded_system",
    "wait_s",
    "work",
    "work_through",
]
