"""400 days in less than a minute: real Redis, a made-up clock, two beats and workers that die anywhere; each time has one run.

The clock jumps from one thing to do to the next. Every command to Redis, and every message, may be the last of its process.
Nights in which the clocks change, days without a beat, Redis killed and started again, and an hourly schedule that is paused
and goes on are among them. When schedules are due is taken from ``wall_clock``, not from ``ragassay.service.cron``.
"""

import heapq
import random
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

from redis.client import Pipeline

from job_workers import RecordingQueue
from offline_runs import FakeRuntime, sample, source_of
from ragassay.core.eval_config import RunConfig
from ragassay.core.schedules import NewSchedule, ScheduleChange
from ragassay.evaluation.inputs import recorded
from ragassay.service.cron import milliseconds
from ragassay.service.job_reports import Gating
from ragassay.service.jobs import Jobs
from ragassay.service.notifications import Notification
from ragassay.service.redis import OUTBOX, RedisStore
from ragassay.service.schedules import Schedules
from redis_server import RedisServer
from schedules.wall_clock import due

BEGIN, DAYS = datetime(2026, 1, 1, tzinfo=UTC), 400
END = BEGIN + timedelta(days=DAYS)
DEADLINE_S = 900
SCHEDULES = {
    "berlin": ("30 2 * * *", "Europe/Berlin", "once"),
    "new-york": ("30 1,2 * * 0,1", "America/New_York", "skip"),
    "sao-paulo": ("*/30 1-2 * * 0", "America/Sao_Paulo", "once"),
    "kolkata": ("15 4 * * 1-5", "Asia/Kolkata", "skip"),
    "utc": ("0 */12 * * 1", "UTC", "once"),
    "hourly": ("0 * * * *", "Europe/Berlin", "once"),
}
HOURLY = [(datetime(2026, 3, 27, 12, 5, tzinfo=UTC), datetime(2026, 3, 31, 7, 5, tzinfo=UTC)),
          (datetime(2026, 10, 23, 12, 5, tzinfo=UTC), datetime(2026, 10, 27, 7, 5, tzinfo=UTC))]  # fmt: skip
# days on which no beat ran, one of them over the night of a clock change
AWAY = [(datetime(2026, 1, 20, 3, 7, tzinfo=UTC), datetime(2026, 1, 23, 9, 1, tzinfo=UTC)),
        (datetime(2026, 3, 28, 20, 20, tzinfo=UTC), datetime(2026, 3, 29, 13, 3, tzinfo=UTC)),
        (datetime(2026, 4, 4, 14, 50, tzinfo=UTC), datetime(2026, 4, 4, 15, 4, tzinfo=UTC)),  # within the deadline
        (datetime(2026, 8, 1, 0, 0, 30, tzinfo=UTC), datetime(2026, 8, 13, 12, 0, 30, tzinfo=UTC)),
        (datetime(2026, 11, 1, 4, 59, 50, tzinfo=UTC), datetime(2026, 11, 1, 6, 10, tzinfo=UTC))]  # fmt: skip


class Killed(BaseException):
    """The process is no more."""


class Mortal:
    """A connection whose process may die before or after any command. Those that a pipeline only collects are none."""

    def __init__(self, redis, dies):
        self._redis, self._dies = redis, dies

    def __getattr__(self, name):
        what = getattr(self._redis, name)
        if name == "pipeline":
            return lambda **options: Mortal(what(**options), self._dies)
        collects = isinstance(self._redis, Pipeline) and name not in ("execute", "watch", "exists")
        if not callable(what) or collects or name in ("register_script", "close"):
            return what

        def command(*arguments, **options):
            self._dies()
            answer = what(*arguments, **options)
            self._dies()
            return answer

        return command

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._redis.reset()


class MortalStore(RedisStore):
    dies = staticmethod(lambda: None)

    @property
    def redis(self):
        return Mortal(super().redis, lambda: self.dies())

    def run(self, script, keys, arguments):
        self.dies()
        answer = super().run(script, keys, arguments)
        self.dies()
        return answer


class World:
    """The clock, the messages under way, and the processes."""

    def __init__(self, redis, seed):
        self.redis, self.random, self.now = redis, random.Random(seed), milliseconds(BEGIN.isoformat())
        self.messages, self.kills, self.made, self.mortality = [], 0, Counter(), 0.0
        rows = [sample(1)]
        self.parts = RunConfig(metrics=("mrr",)), recorded(source_of(rows), rows), Gating()
        self.beats = [self.process() for _ in range(2)]

    def process(self):
        store = MortalStore(self.redis.url)
        store.dies = self.dies
        jobs = Jobs(store, RecordingQueue(), FakeRuntime())
        return Schedules(jobs, self, now=lambda: self.now)

    def dies(self):
        if self.random.random() < self.mortality:
            self.kills += 1
            raise Killed

    def start(self, project, schedule, slot):
        """A message: it comes soon, or late, or twice, or not at all; as ``Queue`` has it."""
        self.dies()
        for _ in range(self.random.choices([0, 1, 2], [1, 18, 1])[0]):
            heapq.heappush(self.messages, (self.now + self.random.randrange(20_000), schedule, slot))
        self.dies()

    def alive(self, action):
        self.mortality = 0.01
        try:
            action()
        except Killed:
            return False
        finally:
            self.mortality = 0.0
        return True

    def work(self):
        """Deliver what has come; the job begins at once, and ends."""
        while self.messages and self.messages[0][0] <= self.now:
            _, schedule, slot = heapq.heappop(self.messages)
            worker = self.worker
            self.alive(lambda: worker.start(schedule, slot, lambda template: self.parts))  # noqa: B023 - called here
            store = self.quiet
            for job in store.active():
                meta = store.state(job)
                self.made[meta.planned.schedule, meta.planned.slot] += 1
                store.redis.hset(store.key(job, "meta"), mapping={"status": "finished", "started_ms": self.now})
                store.redis.srem("ra:active", job)


def away(at):
    return next((end for begin, end in AWAY if begin <= at < end), None)


def expected():
    """{(schedule, slot): whether a run begins} as documented: of times in a gap without a beat, only the newest counts."""
    wanted = {}
    for name, (cron, zone, catch_up) in SCHEDULES.items():
        slots = [at for at in due(cron, zone, BEGIN, END - timedelta(days=1)) if at > BEGIN]
        if name == "hourly":
            slots = [at for at in slots if any(begin < at < end for begin, end in HOURLY)]
        gaps = defaultdict(list)
        for at in slots:
            gaps[away(at)].append(at)
        for back, gap in gaps.items():
            for at in gap if back is None else gap[-1:]:
                wanted[name, at] = not passed(at) or catch_up == "once"
    return wanted


def passed(at):
    """Did the time's deadline pass while no beat ran?"""
    back = away(at)
    return back is not None and back > at + timedelta(seconds=DEADLINE_S)


def live():
    """What happens in the 400 days: the world at their end, and its history."""
    with RedisServer("--appendfsync", "no") as redis:
        world = World(redis, seed=12)
        quiet = world.process()
        world.quiet, world.worker = quiet.jobs.store, world.process()
        for name, (cron, zone, catch_up) in SCHEDULES.items():
            timing = {"cron": cron, "zone": zone, "catch_up": catch_up}
            quiet.create(NewSchedule(name=name, job={}, paused=name == "hourly", **timing))
        history = {}
        restarts = [BEGIN + timedelta(days=n) for n in range(30, DAYS, 50)]
        edits = sorted([(begin, False) for begin, _ in HOURLY] + [(end, True) for _, end in HOURLY])
        looked = BEGIN
        while (at := datetime.fromtimestamp(world.now / 1000, UTC)) < END:
            if restarts and at >= restarts[0]:
                restarts.pop(0)
                redis.kill()
                redis.start()
            if edits and at >= edits[0][0]:
                _, paused = edits.pop(0)
                quiet.change(*quiet.changed("hourly", ScheduleChange(paused=paused)))
            if away(at) is None:
                world.random.shuffle(world.beats)
                for beat in world.beats if world.random.random() < 0.3 else world.beats[:1]:
                    world.alive(beat.tick)
            world.work()
            if at > looked + timedelta(days=10):
                looked = at
                remember(quiet, history)
            next_at = quiet.jobs.store.redis.zrange("ra:p:{default}:due", 0, 0, withscores=True)
            coming = [int(ms) for _, ms in next_at] + [ms for ms, *_ in world.messages[:1]]
            coming += [milliseconds(begin.isoformat()) for begin, _ in edits[:1]]
            step = max(min(coming) - world.now, 0) + world.random.randrange(1, 15_000)
            world.now += step
            if (back := away(datetime.fromtimestamp(world.now / 1000, UTC))) and not world.messages:
                world.now = milliseconds(back.isoformat())
        remember(quiet, history)
        outbox = quiet.jobs.store.redis.lrange(OUTBOX, 0, -1)
        world.told = {Notification.model_validate_json(each).id for each in outbox}
        return world, history


def remember(schedules, history):
    for name in SCHEDULES:
        page = schedules.runs(name, cursor=None, limit=400)
        history.update({(name, datetime.fromisoformat(run.slot)): run for run in page.runs})


def test_every_time_has_one_run_or_none_as_stated():
    world, history = live()
    wanted = expected()
    ended = {(name, at): run for (name, at), run in history.items() if at < END - timedelta(days=1)}
    assert ended.keys() == wanted.keys()
    assert {key: run.status == "finished" for key, run in ended.items()} == wanted
    assert {run.status for run in ended.values()} == {"finished", "missed"}
    made = {(name, datetime.fromisoformat(slot)): n for (name, slot), n in world.made.items()}
    assert set(made.values()) == {1}
    assert {key for key, n in made.items() if key in wanted} == {key for key, runs_ in wanted.items() if runs_}
    assert world.kills > 500
    missed = {key for key, run in history.items() if run.status == "missed"}
    assert missed == {
        (name, datetime.fromisoformat(slot)) for _, _, name, slot in (one.split(":", 3) for one in world.told)
    }
