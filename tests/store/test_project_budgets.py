"""The scripts of a project's budget alone, on a real Redis: fresh, again, stale, nothing, below zero, huge, no key."""

import uuid

import pytest

from ragassay.store.project_budgets import ProjectBudgets
from ragassay.store.projects import ProjectRedis
from raw_job import RawJob
from redis_server import redis_server

CHUNK = "default:0"


@pytest.fixture(scope="module")
def store():
    with redis_server() as url:
        store = ProjectRedis(url)
        yield store
        store.redis.close()


class Project:
    """A project of its own with a cap of 1 USD, and its script as jobs run it."""

    def __init__(self, store, most="1"):
        self.name, self.redis, self._run = uuid.uuid4().hex, store.redis, store.run
        self.budgets = ProjectBudgets(store)
        if most is not None:
            self.redis.set(self.key(), most)

    def key(self, name=""):
        return f"ra:p:{{{self.name}}}:budget" + (f":{name}" if name else "")

    def lease(self, job="a", number=0, *, spent=0, upto=0, wanted=0.1):
        keys = [self.key(), self.key(f"lease:{job}"), self.key("leases"), self.key("months")]
        month = self.budgets.standing(self.name).month
        answer = self._run("lease_budget", keys, [job, number, spent, upto, wanted, month, 1000]).decode()
        return answer if answer in ("stale", "gone", "none") else float(answer)

    @property
    def books(self):
        now = self.budgets.standing(self.name)
        return round(now.spent_usd, 9), round(now.leased_usd, 9)


@pytest.fixture
def project(store):
    return Project(store)


def test_a_block_is_leased_once_however_often_it_is_asked_for(project):
    assert [project.lease() for _ in range(3)] == [0.1] * 3
    assert project.books == (0, 0.1)
    assert project.redis.ttl(project.key("lease:a")) > 0


def test_a_small_call_leases_a_hundredth_and_less_where_little_is_left(project):
    assert project.lease(wanted=0.0001) == 0.01
    assert project.lease("b", wanted=0.95) == 0.95
    # 0.04 are left, of which an eighth is 0.005
    assert project.lease("c", wanted=0.0001) == pytest.approx(0.005)


def test_no_job_leases_what_others_have_and_the_last_cent_is_leased_too(project):
    assert project.lease("a", wanted=0.6) == 0.6
    assert project.lease("b", wanted=0.5) == "gone"
    assert project.lease("b", wanted=0.4) == 0.4
    assert project.lease("c", wanted=0.000001) == "gone"
    assert project.books == (0, 1)


def test_what_is_given_back_is_there_for_others_and_what_is_spent_is_not(project):
    project.lease("a", wanted=1)
    assert [project.lease("a", 1, spent=0.3, upto=0.3, wanted=0) for _ in range(2)] == [0.3] * 2
    assert project.books == (0.3, 0)
    assert project.lease("b", wanted=0.8) == "gone"
    assert project.lease("b", wanted=0.7) == 0.7
    assert project.books == (0.3, 0.7)


def test_calls_in_flight_keep_their_part_until_they_have_ended(project):
    project.lease(wanted=0.5)
    project.lease(number=1, spent=0.2, upto=0.25, wanted=0)
    assert project.books == (0.2, 0.05)
    project.lease(number=2, spent=0.22, upto=0.22, wanted=0)
    assert project.books == (0.22, 0)


def test_a_request_from_before_the_lease_was_ended_is_stale(project):
    project.lease(wanted=0.5)
    project.lease(number=1, spent=0.2, upto=0.2, wanted=0)
    assert project.lease(number=0, spent=0.2, upto=0.5, wanted=0.1) == "stale"
    assert project.books == (0.2, 0)


def test_an_end_that_was_lost_comes_with_the_next_request(project):
    project.lease(wanted=0.5)
    assert project.lease(number=1, spent=0.2, upto=0.2, wanted=0.1) == pytest.approx(0.3)
    assert project.lease(number=1, spent=0.2, upto=0.2, wanted=0) == pytest.approx(0.3)
    assert project.books == (0.2, 0.1)


def test_what_is_spent_goes_over_to_the_month_with_the_next_block_and_is_counted_once(project):
    project.lease(wanted=0.1)
    assert [project.lease(spent=0.09, upto=0.1, wanted=0.05) for _ in range(2)] == [pytest.approx(0.15)] * 2
    assert project.books == (0.09, 0.06)


@pytest.mark.parametrize(("wanted", "answer"), [(0, 0), (-1, 0), (1e300, "gone")])
def test_who_wants_nothing_less_or_too_much_leases_nothing(project, wanted, answer):
    assert project.lease(wanted=wanted) == answer
    assert project.books == (0, 0)


def test_without_a_cap_nothing_is_leased_and_the_job_is_told(store):
    project = Project(store, most=None)
    assert project.lease() == "none"
    assert project.books == (0, 0)


def test_a_cap_that_is_lowered_below_what_is_leased_leases_no_more(project):
    project.lease(wanted=0.5)
    project.budgets.cap(project.name, 0.2)
    assert project.lease("b", wanted=0.01) == "gone"
    assert project.books == (0, 0.5)


# --- the job's side ---------------------------------------------------------------------------------------------------


@pytest.fixture
def job(store):
    return RawJob(store.redis, lease_usd=0)


def test_a_call_needs_a_lease_that_has_room_for_it(job):
    job.claim("mine")
    assert job.reserve(CHUNK, "mine") == "l"
    assert [job.take_lease(0, "0.5"), job.take_lease(0, "0.5"), job.take_lease(0, "0.4")] == [1, 0, 0]
    assert job.reserve(CHUNK, "mine") is None
    assert job.reserve(CHUNK, "mine", "d", usd="0.000001") == "l"
    assert job.reserve(CHUNK, "mine", "d", usd="") == "U"
    job.settle(CHUNK, "mine")  # 0.25 of the 0.5 come back
    assert job.reserve(CHUNK, "mine", "d", usd="0.25") is None


def test_a_lease_that_is_ended_leaves_what_is_spent_and_in_flight_and_an_old_block_is_not_taken(job):
    job.claim("mine")
    job.take_lease(0, "2")
    job.reserve(CHUNK, "mine")
    assert job.end_lease() == (1, 0, 0.5)
    job.settle(CHUNK, "mine")
    assert job.end_lease() == (2, 0.25, 0.25)
    assert job.take_lease(0, "3") == 0
    assert job.meta["lease_usd"] == "0.25"
    assert job.take_lease(2, "3") == 1


def test_a_call_in_flight_long_after_the_end_of_its_job_is_spent(job):
    job.claim("mine")
    job.take_lease(0, "2")
    job.reserve(CHUNK, "mine")
    job.turn("cancelled", "running")
    assert job.end_lease() == (1, 0, 0.5)
    job.redis.hset(job.key("meta"), "turned_ms", 0)
    assert job.end_lease() == (2, 0.5, 0.5)


def test_a_job_whose_project_has_no_budget_any_more_needs_no_lease(job):
    job.claim("mine")
    assert job.take_lease(0, "") == 1
    assert job.reserve(CHUNK, "mine") is None
    assert (job.take_lease(0, "5"), job.end_lease()) == (0, None)
