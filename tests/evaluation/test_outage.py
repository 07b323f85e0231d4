"""What becomes of a run while its provider fails: it waits, asks now and then, and gives up in the end.

The provider is a real HTTP server behind the real LiteLLM; the waits are shortened, not skipped.
"""

import asyncio
import time

import orjson
import pytest

import provider as play
from offline_runs import GOOD, FakeRuntime, new_run, sample, write_jsonl
from provider import Provider
from ragassay.core.errors import ProviderDown, Unavailable
from ragassay.core.eval_config import EvalConfig
from ragassay.core.models import Usage
from ragassay.core.protocols import Call, Reply
from ragassay.evaluation import local, outage
from ragassay.evaluation.aggregate import finish
from ragassay.judges.llm import LLMJudge
from ragassay.llm import LLM
from ragassay.llm.journal import CallScope, Circuit, MemoryJournal, given_up
from ragassay.storage.folder import FolderStore

ROWS = 50
METRICS = ("mrr", "faithfulness", "relevance")


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(outage, "FIRST_WAIT_S", 0.1)
    monkeypatch.setattr(outage, "LONGEST_WAIT_S", 0.4)
    monkeypatch.setattr("ragassay.llm.provider._DOWN_FOR_S", 0.05)
    monkeypatch.setattr("ragassay.llm.provider.LONGEST_WAIT_S", 0.4)
    monkeypatch.setattr("ragassay.llm.client.LONGEST_WAIT_S", 0.4)


@pytest.fixture(autouse=True, scope="module")
def litellm_is_warm():
    """Its import and first call take longer than the short time limit of these tests."""
    with Provider() as provider:
        asyncio.run(
            LLM("gpt-4o-mini", api_base=provider.url).complete(
                [{"role": "user", "content": "hi"}], max_tokens=5, call=call("warm"), journal=MemoryJournal(), read=str
            )
        )


def failing(behave, until):
    """``behave`` until ``until()`` is true, then good replies."""
    return lambda seen: play.good(seen) if until() else behave(seen)


def run_of(root, outage_timeout_s):
    rows = [sample(n, query=f"What is number {n}?") for n in range(ROWS)]
    return new_run(
        root,
        rows,
        EvalConfig(metrics=METRICS, judges=("m",), performance={"provider_outage_timeout_s": outage_timeout_s}),
    )


def work_through(run, provider, **options):
    judge = LLMJudge(LLM("gpt-4o-mini", api_base=provider.url, **{"timeout_s": 10, **options}))
    told = []
    asyncio.run(local.work_through(FakeRuntime(judge), run, MemoryJournal(), waiting=told.append))
    return finish(run, 0).systems["default"], told


# Eight calls are under way when the outage begins. A 500 may mean that the form is refused: each of them is made in three
# forms and twice more; then one at a time asks.
MOST_REQUESTS = 8 * (3 + 2) + 8
FAULTS = {
    "502": play.status(502),
    "429 for an hour": play.status(429, {"Retry-After": "3600"}),
    "reset": play.reset,
    "hang": play.hang,
}


@pytest.mark.parametrize(
    "fault", sorted(FAULTS.keys() - {"429 for an hour"})
)  # that one waits for the hour, or gives up
def test_after_an_outage_every_row_is_scored_and_few_requests_were_made_meanwhile(tmp_path, fault):
    with Provider() as provider:
        # the outage begins with the first request, however late that comes
        provider.then = failing(FAULTS[fault], lambda: time.monotonic() > provider.log[0].t + 2.5)
        system, told = work_through(
            run_of(tmp_path, outage_timeout_s=60), provider, timeout_s=0.5 if fault == "hang" else 10
        )
        during = [seen for seen in provider.log if seen.t < provider.log[0].t + 2.5]
    assert system.metrics["faithfulness"].n == ROWS
    assert system.metrics["mrr"].n == ROWS
    assert len(during) <= MOST_REQUESTS
    assert told
    assert "since" in told[0]


def test_a_row_that_the_provider_refuses_does_not_pass_for_an_outage(tmp_path):
    """It is asked about first, so it is the probe: its refusal is an answer, and the other rows are judged."""
    begun = time.monotonic()

    def behave(seen):
        if time.monotonic() < begun + 0.5:
            return play.Answer(status=500)
        return play.status(400)(seen) if "What is number 0?" in seen.user else play.good(seen)

    with Provider(then=behave) as provider:
        system, _ = work_through(run_of(tmp_path, outage_timeout_s=10), provider)
    judged = system.metrics["faithfulness"]
    assert (judged.n, judged.failed) == (ROWS - 1, 1)
    [reason] = judged.missing
    assert "the provider refused the request (400)" in reason


@pytest.mark.parametrize("fault", FAULTS)
def test_a_provider_that_never_recovers_costs_the_judged_scores_and_the_others_are_there(tmp_path, fault):
    with Provider(then=FAULTS[fault]) as provider:
        run = run_of(tmp_path, outage_timeout_s=1.0)
        system, _ = work_through(run, provider, timeout_s=0.5 if fault == "hang" else 10)
        requests = len(provider.log)
    assert system.metrics["mrr"].n == ROWS
    judged = system.metrics["faithfulness"]
    assert (judged.n, judged.failed) == (0, ROWS)
    [reason] = judged.missing
    assert reason.startswith("the judge failed: given up after 1 s: ")
    assert requests <= MOST_REQUESTS


def test_rows_that_were_given_up_are_judged_when_the_run_is_resumed(tmp_path):
    with Provider(then=play.status(500)) as provider:
        run = run_of(tmp_path, outage_timeout_s=0.5)
        work_through(run, provider)
        again = FolderStore(tmp_path).open("last")
        assert again.pending() == []
        again.evaluate_failed_again()
        assert [chunk.number for chunk in again.pending()] == [0]
        provider.then = play.good
        system, _ = work_through(again, provider)
    assert system.metrics["faithfulness"].n == ROWS
    assert FolderStore(tmp_path).open("last").pending() == []


def test_how_long_a_resumed_run_waits_can_be_given_anew(tmp_path, cli):
    with Provider(then=play.status(500)) as provider:
        data = write_jsonl(tmp_path / "data.jsonl", [{**GOOD, "query_id": f"q{n}"} for n in range(5)])
        judge = ("--judge", "gpt-4o-mini", "--set", f"api_base={provider.url}", "--metrics", "mrr,faithfulness")
        cli("evaluate", data, *judge, "--set", "performance.provider_outage_timeout_s=0.5")
        _, out, _ = cli("evaluate", "--resume", "last", "--set", "performance.provider_outage_timeout_s=0.25", "--json")
    [reason] = orjson.loads(out)["systems"]["default"]["metrics"]["faithfulness"]["missing"]
    assert reason.startswith("the judge failed: given up after 0.25 s: ")


def call(name):
    return Call(id=name, content=name, purpose="judge")


async def make(journal, name, *, fails=False, answered=None):
    """A request, which is answered once ``answered`` is set; the text of its reply."""
    async with journal.attempt(call(name), Usage()) as attempt:
        if attempt.reply is None:
            if answered:
                await answered.wait()
            if fails:
                raise Unavailable("500")
            attempt.settle(Reply(text=f"to {name}"))
        return attempt.reply.text


def test_a_probe_goes_alone_and_the_others_follow_when_it_is_answered():
    async def probe():
        told, below, answered = [], MemoryJournal(), asyncio.Event()
        journal = CallScope(below, circuit=Circuit("down", answered=lambda: told.append(1)))
        calls = [asyncio.create_task(make(journal, name, answered=answered)) for name in "abc"]
        await asyncio.sleep(0.01)
        assert (below.settled, journal.circuit.closed) == ({}, False)
        answered.set()
        assert await asyncio.gather(*calls) == ["to a", "to b", "to c"]
        assert told == [1]

    asyncio.run(probe())


def test_a_probe_that_fails_stops_all_the_others():
    async def probe():
        journal, answered = CallScope(MemoryJournal(), circuit=Circuit("still down")), asyncio.Event()
        first = asyncio.create_task(make(journal, "a", answered=answered, fails=True))
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


def test_a_settled_call_proves_nothing_and_is_returned_in_any_case():
    async def ask():
        below = MemoryJournal()
        await make(below, "a")
        probing, without = CallScope(below, circuit=Circuit("down")), given_up(below, "gone")
        assert await make(probing, "a") == "to a"
        assert not probing.circuit.closed
        assert await make(probing, "b") == "to b"
        assert await make(without, "a") == "to a"
        with pytest.raises(Unavailable, match="gone"):
            await make(without, "c")

    asyncio.run(ask())
