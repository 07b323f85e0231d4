"""What has to hold of a job whatever was killed while it ran, each breach a line."""

from __future__ import annotations

import copy
import math
import threading
from contextlib import contextmanager, suppress

import redis

from offline_runs import differences, without_times
from ragassay.core.models import Usage
from ragassay.service.job_run import JobRun
from ragassay.storage.protocol import ChunkId

OUTAGE = (redis.exceptions.RedisError, OSError)
MICRO_USD = 5e-7  # half of one: sums of the same amounts in another order differ by far less
WHAT_HAPPENED = ("retries", "uncertain_calls")  # of what was spent for nothing; the calm run had no occasion


def essence(report):
    """A report without ids, times, the budget, and what faults and kills had the judge pay for nothing."""
    document = without_times(copy.deepcopy(report))
    document.pop("interrupted")
    document["provenance"]["configuration"].pop("budget", None)
    document["provenance"].pop("configuration_digest")  # of the budget as well
    for name, system in document["systems"].items():
        for bill in (system["evaluation"]["waste"], *(result["waste"] for result in document["results"][name])):
            for field in WHAT_HAPPENED:
                bill.pop(field)
    return document


class Outcome:
    """A finished job beside what its provider knows. ``billed``: the answers that the provider wrote down for it, and
    ``useless``: those that were no verdict.
    """

    def __init__(self, store, job, report, billed, useless):
        self._store, self._job, self.report, self.billed, self._useless = store, job, report, billed, useless
        self.meta = {name.decode(): value for name, value in store.redis.hgetall(store.key(job, "meta")).items()}
        self.rows = [row for chunk in store.done(job) for row in JobRun(store, job).results(ChunkId.parse(chunk))]
        evaluation = report["systems"]["default"]["evaluation"]
        self.used, self.waste = (Usage.model_validate(evaluation[name]) for name in ("usage", "waste"))

    @property
    def ids(self):
        return [result["query_id"] for result in self.report["results"]["default"]]

    @property
    def uncertain(self):
        return int(self.meta.get("uncertain_calls", 0))

    @property
    def forgotten(self):
        """Useless answers that no result tells of: their worker was killed before it had committed the chunk."""
        told = self.used.calls + self.waste.calls + self.uncertain
        return min(max(0, self.billed - told), max(0, self._useless - self.waste.calls))

    def figures(self, expected):
        """What there was, for a table."""
        return {
            "jobs": 1,
            "rows": len(expected),
            "rows lost": len(set(expected) - set(self.ids)),
            "rows counted twice": len(self.ids) - len(set(self.ids)),
            "rows that failed": sum(row.failed for row in self.rows),
            "calls billed": self.billed,
            "calls counted": self.used.calls,
            "calls wasted": self.waste.calls,
            "calls uncertain": self.uncertain,
            "calls wasted, and forgotten by a kill": self.forgotten,
        }

    def breaches(self, expected, calm):
        found = self.figures(expected)
        yield from (f"{name}: {found[name]}" for name in ("rows lost", "rows counted twice") if found[name])
        told = [int(self.meta[name]) for name in ("rows", "rows_done", "rows_failed")]
        recount = [len(self.ids), len(self.rows), found["rows that failed"]]
        if told != recount:
            yield f"the counters say {told}, a recount {recount}"
        for name, said in (("evaluation", self.used), ("waste", self.waste)):
            counted = Usage.total(getattr(row, name) for row in self.rows)
            if not (said.calls == counted.calls and math.isclose(said.cost_usd, counted.cost_usd, abs_tol=MICRO_USD)):
                yield f"the report's {name} is {said}, that of the committed results {counted}"
        if self.used.calls + self.waste.calls > self.billed:
            yield f"{self.used.calls + self.waste.calls} calls are counted, the provider made {self.billed}"
        if (more := self.billed - self.used.calls - self.forgotten) > self.uncertain + self.waste.calls:
            yield f"{more} calls beyond those counted; wasted are {self.waste.calls}, uncertain {self.uncertain}"
        spent = float(self.meta.get("spent_usd", 0))
        if spent < self.used.cost_usd + self.waste.cost_usd - MICRO_USD:
            yield f"the budget has {spent} USD spent, the report {self.used.cost_usd + self.waste.cost_usd}"
        yield from self._reserved()
        if different := next(differences(essence(self.report), calm, "report"), None):
            yield f"the report is not that of a calm run: {different}"

    def _reserved(self):
        amounts = {name: float(self.meta.get(name, 0)) for name in ("open_usd", "open_tokens", "in_flight")}
        if any(abs(amount) > MICRO_USD for amount in amounts.values()):
            yield f"something is reserved at the end: {amounts}"
        store, record = self._store, self._store.state(self._job).record
        marks = [store.redis.hvals(store.key(self._job, f"calls:{chunk}")) for chunk in record.chunks()]
        if still := sum(blob.startswith(b"?") for blobs in marks for blob in blobs):
            yield f"{still} calls are open at the end"


class CapWatch:
    """Looks again and again whether what jobs have spent and reserved is within their caps."""

    def __init__(self, store):
        self._store, self._ended = store, threading.Event()
        self.looks, self.breaches = 0, []

    @contextmanager
    def over(self, *jobs):
        thread = threading.Thread(target=self._look, args=(jobs,), daemon=True)
        self._ended.clear()
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _look(self, jobs):
        keys = [self._store.key(job, "meta") for job in jobs]
        while not self._ended.wait(0.02):
            with suppress(*OUTAGE):
                for key in keys:
                    most, spent, open_ = self._store.redis.hmget(key, "most_usd", "spent_usd", "open_usd")
                    self.looks += 1
                    if most and float(spent or 0) + float(open_ or 0) > float(most) + MICRO_USD:
                        self.breaches.append(f"{spent} USD spent and {open_} reserved, of {most}")
