"""All scripts of a job's life in any order, by several workers that die, against a model of a few lines."""

from collections import Counter

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from redis import Redis

from raw_job import RawJob
from redis_server import RedisServer

WHO, CALLS = st.integers(0, 4), st.sampled_from(["c0", "c1"])
MAX_DEATHS, USD, SPENT = 2, 0.5, 0.25  # sums of these are exact
CHANGES = "pause,pause,pause late,resume,resume with more,cancelled,failed,finished,retry,retry,retry"


class Life(RuleBasedStateMachine):
    """A job of three chunks with two calls each. The model: what waits, who has what, what is done, open, settled and spent."""

    server: Redis

    @initialize(most=st.sampled_from([None, 0.5, 1.0]))
    def begin(self, most):
        self.job = RawJob(self.server, 3, **({} if most is None else {"most_usd": most}))
        self.most, self.status, self.resumes = most, "running", 0
        self.todo, self.owner, self.dead, self.done = list(self.job.chunks), {}, {}, set()
        self.open, self.settled = (
            {},
            {},
        )  # by chunk, call and number the token of a request; the first reply of each call
        self.numbers = Counter()  # requests of each call
        self.spent, self.uncertain, self.ends, self.late = 0.0, 0, 0, set()
        self.used = self.again = 0
        self.closed = False

    def new_token(self):
        self.used += 1
        return f"t{self.used}"

    def held_by(self, who):
        """A chunk and the token with which a worker comes for it: of a chunk that it has, another has, or it lost."""
        pairs = [*sorted(self.owner.items()), (min(self.owner), "t0"), ("default:0", "t1")]
        return pairs[who % len(pairs)]

    def take_back(self, chunk):
        del self.owner[chunk]
        self.todo.insert(0, chunk)

    @precondition(lambda self: self.todo)
    @rule(again=st.booleans())
    def claim(self, again):
        """A claim; sent again after a lost answer it gives the same chunk."""
        token, works = self.new_token(), self.status == "running" and self.todo
        expected = self.todo[0] if works else None
        assert [self.job.claim(token) for _ in range(1 + again)] == [expected] * (1 + again)
        if works:
            chunk = self.todo.pop(0)
            self.owner[chunk] = token
            self.book(chunk, token)

    @precondition(lambda self: self.owner)
    @rule(who=WHO)
    def renew(self, who):
        chunk, token = self.held_by(who)
        held = self.owner.get(chunk) == token and self.status in ("running", "paused")
        assert self.job.renew(chunk, token) == held
        if held:
            self.late.discard(chunk)

    @precondition(lambda self: self.owner)
    @rule(who=WHO, call=CALLS, again=st.booleans())
    def reserve(self, who, call, again):
        """A request; or the last one of the call, sent again after a lost answer."""
        chunk, token = self.held_by(who)
        one = (chunk, call)
        number = self.numbers[one] + (not again or not self.numbers[one])
        answer = self.job.reserve(chunk, token, call, number=number, usd=USD, tokens=0)
        if one in self.settled:
            assert answer == f"settled {self.settled[one]}"
        elif self.status == "cancelled" or self.owner.get(chunk) != token:
            assert answer == "stop"
        elif self.open.get((*one, number)) == token:
            assert answer == "granted"
        elif self.most is not None and self.spent + USD * (len(self.open) + 1) > self.most:
            assert answer == ("wait" if self.open else "over")
        else:
            assert answer == "granted"
            self.numbers[one] = number
            self.open[*one, number] = token

    def book(self, chunk, keep=None):
        """Requests of a chunk that no worker makes any more count as spent."""
        for one in [one for one, token in self.open.items() if one[0] == chunk and token != keep]:
            del self.open[one]
            self.spent += USD
            self.uncertain += 1

    @precondition(lambda self: self.open)
    @rule(at=st.integers(0, 5), whose=st.sampled_from(["mine", "mine", "t0"]), came=st.booleans(), twice=st.booleans())
    def settle(self, at, whose, came, twice):
        """A request ends, with a reply or without, by the worker that made it or one whose requests are booked."""
        chunk, call, number = one = sorted(self.open)[at % len(self.open)]
        mine, reply = whose == "mine", f"reply to {number}" if came else ""
        token = self.open[one] if mine else whose
        ended = [self.job.settle(chunk, token, call, reply, number=number, spent=(SPENT, 0)) for _ in range(1 + twice)]
        assert ended == [mine, 0][: 1 + twice]
        if came:
            self.settled.setdefault((chunk, call), reply)
        if mine:
            del self.open[one]
            self.spent += SPENT
            if came:
                self.dead.pop(chunk, None)

    @precondition(lambda self: self.owner)
    @rule(who=WHO)
    def commit(self, who):
        chunk, token = self.held_by(who)
        held = self.owner.get(chunk) == token and self.status in ("running", "paused")
        last = held and len(self.done) == 2
        assert self.job.commit(chunk, token) == ("last" if last else "kept" if held else "stale")
        if held:
            del self.owner[chunk]
            self.done.add(chunk)
            self.late.discard(chunk)
            self.status = "finalizing" if last else self.status

    @precondition(lambda self: self.owner)
    @rule(who=WHO, why=st.sampled_from(["", "it broke"]))
    def release(self, who, why):
        chunk, token = self.held_by(who)
        held = self.owner.get(chunk) == token
        assert self.job.release(chunk, token, why, MAX_DEATHS) == ("released" if held else "stale")
        if held and why:
            self.dead[chunk] = self.dead.get(chunk, 0) + 1
        if held and why and self.dead[chunk] >= MAX_DEATHS:
            self.late.add(chunk)
        elif held:
            self.take_back(chunk)
            self.late.discard(chunk)

    @precondition(lambda self: self.owner)
    @rule(at=st.integers(0, 2))
    def worker_dies(self, at):
        chunk = sorted(self.owner)[at % len(self.owner)]
        self.job.expire(chunk)
        self.late.add(chunk)

    @precondition(lambda self: self.owner)
    @rule()
    def sweep(self):
        token, poisoned = self.new_token(), []
        if self.status in ("running", "paused"):
            for chunk in sorted(self.late):
                self.dead[chunk] = self.dead.get(chunk, 0) + 1
                self.book(chunk)
                if self.dead[chunk] >= MAX_DEATHS:
                    self.owner[chunk] = token
                    poisoned.append(chunk)
                else:
                    self.take_back(chunk)
            self.late.clear()
        assert sorted(self.job.sweep(token, MAX_DEATHS)) == poisoned
        self.todo = self.job.todo if sorted(self.todo) == sorted(self.job.todo) else self.todo  # ties are in any order

    @rule(what=st.sampled_from([*[""] * 8, *CHANGES.split(",")]))
    def change(self, what):
        if not what:
            return  # else most lives would be short
        if what.startswith("pause"):  # late: by a worker that claimed its chunk before the last resume
            late = what == "pause late"
            pauses = self.status == "running" and not late
            guard = ("resumes", self.resumes - late)
            assert self.job.turn("paused", guard=guard, error="the budget") == (self.status, pauses)
            self.status = "paused" if pauses else self.status
        elif what.startswith("resume"):
            usd = "" if self.most is None else self.spent + USD * len(self.open) + (what == "resume with more")
            fields = {"resumes": self.resumes + 1, "error": "", **({} if usd == "" else {"most_usd": usd})}
            resumes = self.status == "paused"
            assert self.job.turn("running", guard=("resumes", self.resumes), **fields) == (self.status, resumes)
            if resumes:
                self.status, self.resumes = "running", self.resumes + 1
                self.most = None if self.most is None else usd
        elif what == "retry":
            self.retry()
        else:
            allowed = ["finalizing"] if what == "finished" else ["queued", "running", "paused", "finalizing"]
            ends = self.status in allowed
            assert self.job.turn(what, told=[f"it is {what}"]) == (self.status, ends)
            if ends:
                self.status, self.ends, self.closed = what, self.ends + 1, True
                for chunk in self.job.chunks:
                    self.book(chunk)
                for gone in (self.todo, self.owner, self.late, self.dead):
                    gone.clear()

    def retry(self):
        """The first chunk that is done has 50 failed rows, each time."""
        failed = sorted(self.done)[:1]
        chunks = sorted({*self.job.chunks} - self.done | {*failed})
        assert self.job.retry(*chunks, rows=50 * len(failed)) == self.status
        if self.status in ("finished", "failed"):
            self.status, self.todo, self.closed = "running" if chunks else "finalizing", chunks, False
            self.done -= {*failed}
            self.again += len(failed)
            for held in (self.owner, self.late, self.dead):
                held.clear()

    @invariant()
    def the_keys_are_the_model(self):
        job = getattr(self, "job", None)
        if job is None:
            return
        spent, reserved, _, _, in_flight, uncertain = job.books
        assert (job.meta["status"], job.todo, job.owner, job.done) == (self.status, self.todo, self.owner, self.done)
        assert job.leased == set(self.owner)
        assert (spent, reserved, in_flight) == (self.spent, USD * len(self.open), len(self.open))
        assert uncertain == self.uncertain
        assert int(job.meta["rows_done"]) == 50 * len(self.done)
        assert job.counters.get("rows", 0) == 50 * (len(self.done) + self.again)
        assert sum(n for name, n in job.counters.items() if name.startswith("jobs_ended")) == self.ends
        assert job.redis.llen(job.key("outbox")) == self.ends
        if self.most is not None:
            assert spent + reserved <= self.most
        in_all = sorted([*self.todo, *self.owner, *self.done])
        assert self.closed or in_all == job.chunks, "each chunk waits, is worked on or is done"


def test_any_order_of_scripts_keeps_the_books_and_every_chunk():
    with RedisServer("--appendonly", "no") as running, Redis.from_url(running.url) as connection:

        class OnThis(Life):
            server = connection

        test = OnThis.TestCase
        test.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
        test("runTest").debug()
