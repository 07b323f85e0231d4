"""What becomes of times when something goes wrong: who is told, what is tried again, and what is left alone."""

from functools import partial

import pytest

import job_workers
from offline_runs import FakeRuntime, sample, source_of
from ragassay.core.errors import BadInput, Unavailable
from ragassay.core.eval_config import RunConfig
from ragassay.core.schedules import NewSchedule
from ragassay.evaluation.inputs import recorded
from ragassay.service.cron import milliseconds
from ragassay.service.job_reports import Gating
from ragassay.service.jobs import Jobs
from ragassay.service.notifications import Notification
from ragassay.service.redis import OUTBOX, RedisStore
from ragassay.service.schedules import Schedules

NOON = milliseconds("2026-05-05T12:00:00+00:00")
MINUTE = 60_000


class Starts(job_workers.RecordingQueue):
    def __init__(self):
        super().__init__()
        self.started = []

    def start(self, project, schedule, slot_ms):
        self.started.append((project, schedule, slot_ms))


class World:
    def __init__(self, url):
        self.store, self.queue, self.now = RedisStore(url), Starts(), NOON
        self.schedules = self.process()

    def process(self):
        jobs = Jobs(self.store, self.queue, FakeRuntime())
        return Schedules(jobs, self.queue, now=lambda: self.now)

    def create(self, name="nightly", cron="0 * * * *", **more):
        self.schedules.create(NewSchedule(name=name, cron=cron, job={}, **more))

    def tick(self, minutes):
        self.now = NOON + int(minutes * MINUTE)
        self.schedules.tick()

    def start(self, read=None):
        for _, name, slot in self.queue.started:
            self.schedules.start(name, slot, read or parts)
        self.queue.started.clear()

    def begin(self):
        for job in self.store.active():
            self.store.redis.hset(self.store.key(job, "meta"), mapping={"started_ms": self.now, "status": "running"})

    @property
    def told(self):
        """The notifications in the outbox, each once."""
        outbox = [Notification.model_validate_json(each) for each in self.store.redis.lrange(OUTBOX, 0, -1)]
        return list({each.id: each for each in outbox}.values())

    def runs(self, name="nightly"):
        return self.schedules.runs(name, cursor=None, limit=100).runs


def parts(template):
    rows = [sample(1)]
    return RunConfig(metrics=("mrr",)), recorded(source_of(rows), rows), Gating()


def refused(template):
    raise BadInput("no such thing")


def broken(template):
    raise ZeroDivisionError("a bug")


server = job_workers.server


@pytest.fixture
def world(server):
    world = World(server.url)
    world.store.redis.flushall()
    return world


def test_a_job_that_can_not_be_made_has_a_notification_with_its_reason_in_the_history(world):
    world.create()
    world.tick(60)
    world.start(refused)
    (told,) = world.told
    assert (told.kind, told.project, told.schedule) == ("run_missed", "default", "nightly")
    assert (told.slot, told.at) == ("2026-05-05T13:00:00+00:00", "2026-05-05T13:00:00+00:00")
    assert (world.runs()[0].status, world.runs()[0].reason) == ("failed_to_start", "no such thing")


def test_a_run_that_no_worker_makes_is_given_up_at_its_deadline(world):
    world.create()
    world.tick(60)
    world.tick(74.9)
    assert (world.told, world.runs()[0].status) == ([], "waiting")
    for minutes in (76, 90, 119):
        world.tick(minutes)
    assert [told.slot for told in world.told] == ["2026-05-05T13:00:00+00:00"]
    assert world.runs()[0].status == "failed_to_start"


def test_a_message_that_is_lost_is_sent_again_and_makes_one_job(world):
    world.create()
    world.tick(60)
    world.queue.started.clear()
    world.tick(60.5)
    assert world.queue.started == []
    world.tick(61)
    world.tick(62)
    assert len(world.queue.started) == 2
    world.start()
    assert len(world.store.active()) == 1
    assert world.runs()[0].status == "queued"


def away(template):
    raise Unavailable("Redis does not answer")


def test_a_worker_that_fails_again_and_again_ends_the_run_with_its_error(world):
    world.create()
    world.tick(60)
    for minutes, fails in ((61, away), (62, broken)):
        with pytest.raises((Unavailable, ZeroDivisionError)):
            world.start(fails)
        assert world.runs()[0].status == "waiting"
        world.tick(minutes)
    world.tick(76)
    assert world.runs()[0].status == "failed_to_start"
    assert world.runs()[0].reason == "no worker could make the job until the deadline: ZeroDivisionError: a bug"


def test_a_job_that_a_slow_worker_makes_in_the_end_is_the_runs_though_it_was_given_up(world):
    world.create()
    world.tick(60)

    def slow(template):
        world.tick(62)
        world.tick(76)
        assert world.runs()[0].status == "failed_to_start"
        return parts(template)

    world.start(slow)
    (run,) = world.runs()
    assert (run.status, [run.job]) == ("queued", world.store.active())
    world.begin()
    world.tick(77)
    assert world.runs()[0].status == "running"


def test_ten_beats_and_ten_workers_at_once_make_one_job_of_a_time(world):
    world.create()
    world.now = NOON + 60 * MINUTE
    for end in [job_workers.in_a_thread(world.process().tick) for _ in range(10)]:
        end()
    assert len(world.queue.started) == 1
    _, name, slot = world.queue.started[0]
    for end in [job_workers.in_a_thread(partial(world.process().start, name, slot, parts)) for _ in range(10)]:
        end()
    assert len(world.store.jobs(before=None, limit=10)) == 1
    assert [run.status for run in world.runs()] == ["queued"]


def test_a_record_that_can_not_be_read_keeps_no_other_schedule_back(world, caplog):
    world.create("a")
    world.create("b")
    world.store.redis.hset("ra:p:{default}:schedules", "a", b'{"cron": 7}')
    world.tick(60)
    assert [name for _, name, _ in world.queue.started] == ["b"]
    assert "the record of schedule a can't be read" in caplog.text
    assert [one.name for one in world.schedules.page(cursor=None, limit=9).schedules] == ["b"]


def test_a_paused_job_keeps_no_later_run_back(world):
    world.create()
    world.tick(60)
    world.start()
    (job,) = world.store.active()
    world.store.redis.hset(world.store.key(job, "meta"), "status", "paused")
    world.tick(120)
    assert [run.status for run in world.runs()] == ["waiting", "paused"]


def test_a_run_that_is_under_way_keeps_the_next_one_back(world):
    world.create()
    world.tick(60)
    world.start()
    world.begin()
    world.tick(120)
    later, first = world.runs()
    assert (later.status, first.status) == ("skipped", "running")
    assert later.reason == "the run of 2026-05-05T13:00:00+00:00 was still under way"
