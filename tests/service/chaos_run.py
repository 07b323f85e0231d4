"""Kills at every step of a job, for as long as you like: ``make chaos SEED=7 MINUTES=40``.

Rounds of two jobs, one of ROWS rows and a small one, on real workers and a provider that fails, hangs and keeps a ledger of
its own. Meanwhile processes are killed and frozen and messages wiped, as SEED draws it. After each round all that
``chaos_checks`` knows has to hold; a table is printed, and the exit code is 1 where anything did not.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import psutil
import redis

from polling import until
from provider import Answer, Provider, form, verdicts
from ragassay.service import counters
from ragassay.service.redis import RedisStore
from service.chaos_checks import CapWatch, Outcome, essence
from service.running import SERVE, Service, rows

PLUGIN = Path(__file__).parent / "chaos_plugin.py"
SMALL = (1, 49, 50, 51, 200)
STEPS = [f"{step} {when}" for step in ("claim", "reserve", "settle", "commit") for when in ("before", "after")]
FINALIZE = ["finalize begun", "finalize before", "finalize after"]
HARMLESS = {
    "redis",
    "messages",
    "beat",
    "api",
    "settle dropped",
    *FINALIZE,
}  # to a chunk, which they don't count against
MAX_DEATHS = 3  # of a chunk; five would fail its rows, as they should
PARTS = {"beat": "workers.beat", "api": "cli serve api", "worker": "celery"}
ROW, AGAIN = re.compile(r"How heavy is (\w+) number (\d+)"), "Reply with the JSON object alone"
HURT_TRIES = 3  # of a row; further ones are answered, so that no row fails by mere chance
MALFORMED, LATENCY_S, TIMEOUT_S, LEASE_S, FREEZE_S = 0.02, 0.1, 2, 4, 20
FAULTS = {"500": 0.05, "429": 0.10, "hang": 0.01}


class FaultyProvider(Provider):
    """Fails as FAULTS says while it ``hurts``. ``billed``: the requests of each job that it would send a bill for;
    ``useless``: those of them that it answered without a verdict.

    A malformed reply follows from the row alone, since it is paid and thus in the report: a calm run meets it too.
    """

    def __init__(self, seed):
        super().__init__(then=self._answer, latency_s=LATENCY_S)
        self._seed, self.hurts = seed, False
        self.billed, self.useless, self.answers, self._tries = Counter(), Counter(), Counter(), Counter()

    def forget(self):
        """A new round begins."""
        for counted in (self.log, self.billed, self.useless, self._tries):
            counted.clear()

    def _draw(self, *about):
        return int(hashlib.sha256(repr((self._seed, *about)).encode()).hexdigest()[:8], 16) / 2**32

    def _answer(self, seen):
        of, number = ROW.search(seen.user).groups()
        kind = self._kind(seen, f"{of}-{number}")
        self.answers[kind] += 1
        if kind == "400":
            return Answer(status=400, message=f"{form(seen)}: this response_format, or tools, can't be had")
        if kind in ("500", "429"):
            return Answer(status=int(kind), message="chaos")
        self.billed[of] += 1
        if kind == "hang":
            return Answer(hang=True)
        if kind == "malformed":
            self.useless[of] += 1
            return Answer('{"answer": [')
        first = [{**m, "content": m["content"].partition(f"\n{AGAIN}")[0]} for m in seen.messages]
        return Answer(json.dumps(verdicts(dataclasses.replace(seen, body={**seen.body, "messages": first}))))

    def _kind(self, seen, row):
        """Another form, which a 500 has one call try, is refused: it would cost other tokens than in a calm run."""
        if form(seen) != "json_schema":
            return "400"
        self._tries[row] += 1
        drawn = self._draw("fault", row, self._tries[row]) if self.hurts and self._tries[row] <= HURT_TRIES else 1.0
        for fault, share in FAULTS.items():
            if drawn < share:
                return fault
            drawn -= share
        return "malformed" if self._draw("malformed", row) < MALFORMED and AGAIN not in seen.user else "good"


class SecondWorker:
    """A worker beside those of ``up``, started again where it ended, as what keeps processes would."""

    def __init__(self, service):
        url = service.redis_url
        self._environment = {**service.environment, "RAGASSAY_STATE_URL": url, "RAGASSAY_BROKER_URL": url}
        self._log, self.process, self._ended = service.folder / "second.log", None, threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def _keep(self):
        command, log = [*SERVE, "worker", "--workers", "1"], self._log.open("ab")
        while not self._ended.wait(0.2):
            if self.process is None or self.process.poll() is not None:
                self.process = subprocess.Popen(
                    command,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        log.close()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Chaos:
    """The service, its provider, and what was done to them. ``breaches`` is what did not hold."""

    def __init__(self, seed=1, *, max_rows=1000):
        self.chance, self.seed, self.max_rows = random.Random(seed), seed, max_rows
        self.done, self.totals, self.breaches = Counter(), Counter(), []
        self._calm, self._frozen, self._ordered = {}, [], {}

    def __enter__(self):
        with ExitStack() as opened:
            self.provider = opened.enter_context(FaultyProvider(self.seed))
            self.service = Service(api_base=self.provider.url, lease_s=LEASE_S, plugins=PLUGIN, traced=False)
            self.orders = self.service.folder / "orders"
            self.orders.mkdir()
            self.service.environment["CHAOS_FOLDER"] = str(self.orders)
            opened.enter_context(self.service)
            self.service.ready()
            self._second = opened.enter_context(SecondWorker(self.service))
            self.store = RedisStore(self.service.redis_url)
            opened.callback(self.store.redis.close)
            self.caps = CapWatch(self.store)
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_):
        self._thaw(wait=False)
        self._opened.close()

    # --- jobs -------------------------------------------------------------------------------------------------

    def submit(self, of, size, budget=10.0):
        performance = {"cache": False, "timeout_s": TIMEOUT_S}
        return self._asked(lambda: self.service.submit(rows(size, of), performance=performance, budget={"usd": budget}))

    def calm(self, of, size):
        """What a report of so many rows is when nothing happens; and its cost."""
        if (of, size) not in self._calm:
            self.provider.hurts = False
            self.provider.forget()
            report = self.service.finished(self.submit(of, size), within_s=600)
            cost = report["systems"]["default"]["evaluation"]["usage"]["cost_usd"]
            self._calm[of, size] = essence(report), cost
        return self._calm[of, size]

    def check(self, job, of, size, report, calm):
        """Add what does not hold of a finished job to ``breaches``."""
        outcome = Outcome(self.store, job, report, self.provider.billed[of], self.provider.useless[of])
        expected = [f"{of}-{n}" for n in range(size)]
        self.breaches += [f"job of {size} rows: {breach}" for breach in outcome.breaches(expected, calm)]
        paged, cursor = [], None
        while cursor or not paged:
            page = self._get(f"/v1/jobs/{job}/results?limit=200{f'&cursor={cursor}' if cursor else ''}")
            paged, cursor = paged + [row["query_id"] for row in page["results"]], page["next"]
        if paged != outcome.ids:
            self.breaches.append(f"job of {size} rows: its pages have {len(paged)} rows, or others")
        self.totals.update(outcome.figures(expected))

    # --- what is done to them ---------------------------------------------------------------------------------

    def round(self, small, actions, *, may_pause=True):
        """One job of ``max_rows`` rows and a small one, hurt meanwhile; then everything is checked.

        ``may_pause``: at times the budget of the larger one is too small at first.
        """
        sizes = {"thing": self.max_rows, "other": small}
        calm = {of: self.calm(of, size) for of, size in sizes.items()}
        self.provider.forget()
        self.provider.hurts = True
        counted, began = self._counted(), time.monotonic()
        tight = calm["thing"][1] * 0.6 if may_pause and self.chance.random() < 0.3 else 10.0
        jobs = {of: self.submit(of, size, tight if of == "thing" else 10.0) for of, size in sizes.items()}
        with self.caps.over(*jobs.values()):
            self._hurt(jobs.values(), list(actions))
            reports = {of: self._report(job) for of, job in jobs.items()}
            self._thaw()
            time.sleep(1)  # what was frozen finds out that it is late
        for of, job in jobs.items():
            if self._report(job) != reports[of]:
                self.breaches.append(f"job of {sizes[of]} rows: its report was made again")
            self.check(job, of, sizes[of], json.loads(reports[of]), calm[of][0])
        self.breaches += self.caps.breaches
        self.caps.breaches = []
        now = self._counted()
        told = {name: now[name] - counted[name] for name in now}
        if told != (expected := {"rows": sum(sizes.values()), "jobs_ended": len(jobs)}):
            self.breaches.append(f"the counters of the service went up by {told} instead of {expected}")
        self._ordered.clear()
        for order in self.orders.iterdir():
            order.unlink()
        self.totals.update({"rounds": 1, "seconds": time.monotonic() - began})

    def _hurt(self, jobs, actions):
        """Do one thing after the other until both jobs have finished; resume what its budget paused."""
        due, armed = 0.0, None
        limit = time.monotonic() + 900
        while any(self._unfinished(job) for job in jobs):
            assert self.service.process.poll() is None, f"up ended: {self.service.logs()}"
            assert time.monotonic() < limit, f"not finished: {[self._get(f'/v1/jobs/{job}') for job in jobs]}"
            self._note_orders()
            if time.monotonic() > due and not (armed and (self.orders / armed).exists()) and actions:
                action = actions.pop(0)
                if self._weary(jobs) and action.partition(": ")[0] not in HARMLESS:
                    continue
                armed = action.partition(": ")[0] if self._do(action) else None
                due = time.monotonic() + self.chance.uniform(0.5, 2.5)
            time.sleep(0.2)
        self._note_orders()

    def _weary(self, jobs):
        """Has a chunk of these died so often that it is to be spared?"""
        with suppress(redis.exceptions.RedisError):
            dead = [self.store.redis.hgetall(self.store.key(job, "dead")) for job in jobs]
            return any(int(n) >= MAX_DEATHS for each in dead for of, n in each.items() if not of.startswith(b"why"))
        return True

    def _do(self, action):
        """Do it; true where it is an order that a process has yet to follow."""
        name, _, whom = action.partition(": ")
        if name in (*STEPS, *FINALIZE, "call", "settle dropped"):
            (self.orders / name).write_text(whom or "child")
            self._ordered[name] = whom or "child"
            return name not in FINALIZE
        if name == "messages":
            for key in self.store.redis.scan_iter("*", count=1000):
                if not key.startswith(b"ra:"):
                    self.store.redis.delete(key)
            self.done["messages wiped"] += 1
        elif name == "freeze":
            self._freeze(whom)
        else:
            with suppress(psutil.NoSuchProcess):
                self._process(name).kill()
                self.done[f"killed: {name}"] += 1
        return False

    def _note_orders(self):
        for name, whom in list(self._ordered.items()):
            if not (self.orders / name).exists():
                self.done[f"killed at {name}: {whom}" if name != "settle dropped" else name] += 1
                del self._ordered[name]

    def _process(self, name):
        if name == "redis":
            return self.service.part("redis-server")
        if name == "second worker":
            return psutil.Process(self._second.process.pid)
        worker = self.service.part("celery")
        if name == "child":
            return self.chance.choice(worker.children() or [worker])
        return worker if name == "worker" else self.service.part(PARTS[name])

    def _freeze(self, name):
        with suppress(psutil.NoSuchProcess):
            process = self._process(name)
            process.suspend()
            self._frozen.append((process, time.monotonic() + FREEZE_S))
            timer = threading.Timer(FREEZE_S, self._resume, [process])
            timer.daemon = True
            timer.start()
            self.done[f"frozen: {name}"] += 1

    def _thaw(self, *, wait=True):
        for process, ends in self._frozen:
            if wait:
                time.sleep(max(0.0, ends - time.monotonic()))
            self._resume(process)
        self._frozen.clear()

    @staticmethod
    def _resume(process):
        with suppress(psutil.NoSuchProcess):
            process.resume()

    # --- asking, while parts are down -------------------------------------------------------------------------

    def _asked(self, ask):
        def answered():
            with suppress(httpx.TransportError):
                return ask()
            return None

        return until(answered, 180, "the API")

    def _get(self, path):
        return self._asked(lambda: self.service.get(path))

    def _report(self, job):
        return self._asked(lambda: self.service.answered("GET", f"/v1/jobs/{job}/report").raise_for_status()).content

    def _unfinished(self, job):
        known = self._get(f"/v1/jobs/{job}")
        assert known["status"] not in ("failed", "cancelled"), known
        if known["status"] == "paused":
            self._asked(lambda: self.service.answered("POST", f"/v1/jobs/{job}/resume?budget_usd=10"))
            self.done["paused by the budget, resumed"] += 1
        return known["status"] != "finished"

    def _counted(self):
        known = counters.read(self.store.redis)
        ended = known.get("jobs_ended", {}).get(("finished",), 0)
        return {"rows": known.get("rows", {}).get((), 0), "jobs_ended": ended}

    # --- what a run is ----------------------------------------------------------------------------------------

    def drawn(self):
        """What is done in one round: kills at five steps and at the end, and by chance more."""
        steps = self.chance.sample([*STEPS, "call", "call"], 5)
        actions = [f"{step}: {'parent' if self.chance.random() < 0.15 else 'child'}" for step in steps]
        actions += ["redis"] * (self.chance.random() < 0.7) + ["messages"] * (self.chance.random() < 0.3)
        actions += [name for name in ("beat", "api", "second worker") if self.chance.random() < 0.2]
        if self.chance.random() < 0.3:
            actions.append(f"freeze: {self.chance.choice(['child', 'worker', 'redis', 'beat', 'second worker'])}")
        self.chance.shuffle(actions)
        return [self.chance.choice(FINALIZE), *actions] if self.chance.random() < 0.8 else actions

    def table(self):
        """All of it as a table of Markdown."""
        kills = {name: n for name, n in self.done.items() if name.startswith("killed")}
        found = {
            **{name: int(n) for name, n in self.totals.items()},
            "kills": sum(kills.values()),
            "of them Redis, restarted": self.done["killed: redis"],
            **{name: n for name, n in sorted(self.done.items()) if name != "killed: redis"},
            **{f"answers of the provider: {name}": n for name, n in sorted(self.provider.answers.items())},
            "requests refused with 503": len(self.service.refusals),
            "looks at the caps": self.caps.looks,
            "breaches": len(self.breaches),
        }
        lines = [f"| `SEED={self.seed}` | |", "|---|---|", *(f"| {name} | {n:,} |" for name, n in found.items())]
        return "\n".join(lines)


def main():
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--minutes", type=float, default=5.0)
    chosen = asked.parse_args()
    with Chaos(chosen.seed) as chaos:
        end, rounds = time.monotonic() + 60 * chosen.minutes, 0
        while time.monotonic() < end and len(chaos.breaches) < 20:
            chaos.round(chaos.chance.choice(SMALL), chaos.drawn())
            rounds += 1
            print(f"round {rounds}: {int(chaos.totals['rows']):,} rows, load {os.getloadavg()[0]:.0f}", flush=True)
            for breach in chaos.breaches:
                print(f"  BREACH: {breach}", flush=True)
        print(chaos.table())
        sys.exit(bool(chaos.breaches))


if __name__ == "__main__":
    main()
