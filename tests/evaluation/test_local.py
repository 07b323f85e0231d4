"""A run in a folder: its progress, row by row, and what becomes of it while its provider fails.

The provider is a real HTTP server behind the real LiteLLM; the waits are shortened, not skipped.
"""

import asyncio
import time
from types import SimpleNamespace

import orjson
import pytest

import provider as play
from llm_calls import call, llm, reply_of
from offline_runs import GOOD, FakeRuntime, ScriptedJudge, new_run, sample, write_jsonl
from provider import Provider
from ragassay.core.errors import BadInput, ProviderDown, Unavailable
from ragassay.core.eval_config import RunConfig
from ragassay.core.models import Usage
from ragassay.core.protocols import Call, Reply
from ragassay.core.settings import Settings
from ragassay.evaluation import local, outage
from ragassay.evaluation.aggregate import finish
from ragassay.judges.llm import LLMJudge
from ragassay.llm.journal import CallScope, Circuit, MemoryJournal, refusing_journal

# LiteLLM makes the coroutine of a request in a thread; of a call that is cancelled meanwhile it is never awaited.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine '(OpenAIChatCompletion|acompletion|client)")
ROWS = 50
METRICS = ("mrr", "faithfulness", "relevance")


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(outage, "FIRST_WAIT_S", 0.1)
    monkeypatch.setattr(outage, "LONGEST_WAIT_S", 0.4)
    monkeypatch.setattr("ragassay.llm.rate_limit._DOWN_FOR_S", 0.05)
    monkeypatch.setattr("ragassay.llm.rate_limit.LONGEST_WAIT_S", 0.4)
    monkeypatch.setattr("ragassay.llm.client.LONGEST_WAIT_S", 0.4)


@pytest.fixture(autouse=True, scope="module")
def litellm_is_warm():
    """Its import and first call take longer than the short time limit of these tests."""
    with Provider() as provider:
        reply_of(llm(provider))


def run_of(root, outage_timeout_s):
    rows = [sample(n, query=f"What is number {n}?") for n in range(ROWS)]
    return new_run(
        root,
        rows,
        RunConfig(metrics=METRICS, judges=("m",), performance={"provider_outage_timeout_s": outage_timeout_s}),
    )


def work_through(run, provider, **options):
    judge = LLMJudge(llm(provider, **options))
    told = []
    asyncio.run(local.work_through(FakeRuntime(judge), run, MemoryJournal(), waiting=told.append))
    return finish(run, 0).systems["default"], told


# Eight calls are under way when the outage begins. A 500 may mean that the form is refused: each of them is made in three
# forms and twice more; then one at a time asks.
MAX_REQUESTS = 8 * (3 + 2) + 8


def test_after_an_outage_every_row_is_scored_and_few_requests_were_made_meanwhile(tmp_path):
    with Provider() as provider:

        def is_over(t):  # the outage begins with the first request, however late that comes
            return t > provider.log[0].t + 2.5

        provider.then = lambda seen: play.good(seen) if is_over(time.monotonic()) else play.status(502)(seen)
        system, told = work_through(run_of(tmp_path, outage_timeout_s=60), provider)
        during = [seen for seen in provider.log if not is_over(seen.t)]
    assert (system.metrics["faithfulness"].n, system.metrics["mrr"].n) == (ROWS, ROWS)
    assert len(during) <= MAX_REQUESTS
    assert "since" in told[0]


@pytest.mark.parametrize(
    ("fault", "timeout_s"), [(play.status(429, {"Retry-After": "3600"}), 10), (play.hang, 0.5)], ids=["429", "hang"]
)
def test_a_provider_that_never_recovers_costs_the_judged_scores_and_the_others_are_there(tmp_path, fault, timeout_s):
    with Provider(then=fault) as provider:
        run = run_of(tmp_path, outage_timeout_s=1.0)
        system, _ = work_through(run, provider, timeout_s=timeout_s)
        requests = len(provider.log)
    assert system.metrics["mrr"].n == ROWS
    judged = system.metrics["faithfulness"]
    assert (judged.n, judged.failed) == (0, ROWS)
    [reason] = judged.missing
    assert reason.startswith("the judge failed: given up after 1 s: ")
    assert requests <= MAX_REQUESTS


def test_rows_that_were_given_up_are_judged_when_the_run_is_resumed_with_a_wait_of_its_own(tmp_path, cli):
    data = write_jsonl(tmp_path / "data.jsonl", [{**GOOD, "query_id": f"q{n}"} for n in range(5)])
    with Provider(then=play.status(500)) as provider:

        def judged(*options):
            _, out, _ = cli("evaluate", *options, "--json")
            return orjson.loads(out)["systems"]["default"]["metrics"]["faithfulness"]

        judge = ("--judge", "gpt-4o-mini", "--set", f"api_base={provider.url}", "--metrics", "mrr,faithfulness")
        judged(data, *judge, "--set", "performance.provider_outage_timeout_s=0.5")
        [reason] = judged("--resume", "last", "--set", "performance.provider_outage_timeout_s=0.25")["missing"]
        assert reason.startswith("the judge failed: given up after 0.25 s: ")
        provider.then = play.good
        assert judged("--resume", "last")["n"] == 5
        asked = len(provider.log)
        judged("--resume", "last")
        assert len(provider.log) == asked


async def make(journal, name, *, error=None, answered=None):
    """A request, which is answered once ``answered`` is set; the text of its reply."""
    async with journal.attempt(call(name), Usage()) as attempt:
        if attempt.reply is None:
            if answered:
                await answered.wait()
            if error:
                attempt.free(answered=isinstance(error, BadInput))
                raise error
            attempt.settle(Reply(text=f"to {name}"))
        return attempt.reply.text


def test_a_probe_goes_alone_and_the_others_follow_when_it_is_answered():
    async def probe():
        told, below, answered = [], MemoryJournal(), asyncio.Event()

        async def answers():
            told.append(1)

        journal = CallScope(below, circuit=Circuit("down", answered=answers))
        calls = [asyncio.create_task(make(journal, name, answered=answered)) for name in "abc"]
        await asyncio.sleep(0.01)
        assert (below.settled, journal.circuit.closed) == ({}, False)
        answered.set()
        assert await asyncio.gather(*calls) == ["to a", "to b", "to c"]
        assert told == [1]

    asyncio.run(probe())


def test_a_probe_that_the_provider_refuses_is_answered():
    async def probe():
        journal = CallScope(MemoryJournal(), circuit=Circuit("down"))
        with pytest.raises(BadInput):
            await make(journal, "a", error=BadInput("the provider refused the request (400)"))
        assert await make(journal, "b") == "to b"

    asyncio.run(probe())


def test_a_probe_that_fails_stops_all_the_others():
    async def probe():
        journal, answered = CallScope(MemoryJournal(), circuit=Circuit("still down")), asyncio.Event()
        first = asyncio.create_task(make(journal, "a", answered=answered, error=Unavailable("500")))
        await asyncio.sleep(0.01)
        second = asyncio.create_task(make(journal, "b"))
        answered.set()
        with pytest.raises(Unavailable, match="500"):
            await first
        for name in ("a", "c"):  # a: tried again
            with pytest.raises(ProviderDown, match="still down"):
                await make(journal, name)
        with pytest.raises(ProviderDown, match="still down"):
            await second

    asyncio.run(probe())


def test_an_outage_after_an_answer_has_the_whole_time_again(monkeypatch):
    now, rounds = [0.0], []

    async def sleep(seconds):
        now[0] += seconds

    monkeypatch.setattr(outage, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: now[0]))
    monkeypatch.setattr(outage, "asyncio", SimpleNamespace(sleep=sleep))

    async def work(journal):
        rounds.append(now[0])
        if len(rounds) == 6:
            await make(journal, "a")
        if len(rounds) > 10:
            return "done"
        raise ProviderDown("down")

    assert asyncio.run(outage.through_outages(work, MemoryJournal(), 2.0, lambda _: None)) == "done"
    assert rounds[5] == pytest.approx(1.5)
    assert rounds[-1] == pytest.approx(3.0)


def test_a_settled_call_proves_nothing_and_is_returned_in_any_case():
    async def ask():
        below = MemoryJournal()
        await make(below, "a")
        probing, without = CallScope(below, circuit=Circuit("down")), refusing_journal(below, "gone")
        assert await make(probing, "a") == await make(without, "a") == "to a"
        assert not probing.circuit.closed
        with pytest.raises(Unavailable, match="gone"):
            await make(without, "c")

    asyncio.run(ask())


class CallingJudge(ScriptedJudge):
    """Makes a call for each sample, and a second one for every third, before it gives any verdict."""

    told, told_before_the_chunk_ended = [], 0

    async def judge(self, samples, journal):
        for number, one in enumerate(samples):
            for text in ("first", "again")[: 1 + (number % 3 == 0)]:
                async with journal.attempt(Call.about(one.query_id, "judge", text), Usage()) as attempt:
                    attempt.settle(Reply(text=text))
        self.told_before_the_chunk_ended = sum(self.told)
        return await super().judge(samples, journal)


def test_rows_are_told_when_their_first_call_is_answered_and_never_twice(tmp_path):
    calling = CallingJudge()
    spec = RunConfig(judges=("gpt-4o-mini",), metrics=("faithfulness",), performance={"cache": False})
    runtime = FakeRuntime(calling)
    runtime.settings = Settings(home=tmp_path)
    run = new_run(tmp_path, [sample(n) for n in range(1, 51)], spec, judge=calling)
    asyncio.run(local.complete(runtime, run, done=calling.told.append))
    assert (calling.told, calling.told_before_the_chunk_ended) == ([1] * 50, 50)
