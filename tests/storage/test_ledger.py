"""A run's calls in its folder: paid once, whatever becomes of the process that makes them."""

import asyncio
import stat

import orjson
import pytest

from ragassay.core.models import Usage
from ragassay.core.protocols import Call, Reply
from ragassay.storage.ledger import CallCache, FolderLedger

CALL = Call(id="1", content="c", purpose="judge")
OTHER = Call(id="2", content="d", purpose="judge")
SAME = CALL.model_copy(update={"id": "2"})  # at another place, with the same content
ESTIMATE = Usage(calls=1, input_tokens=30, output_tokens=20, cost_usd=2.0)
BILL = Usage(calls=1, input_tokens=10, cost_usd=0.5)
REPLY = Reply(text="{}", usage=BILL)


@pytest.fixture
def ledger(tmp_path):
    """Opens ledgers that share one cache, as processes that follow each other; all are closed in the end."""
    opened = [CallCache(tmp_path / "calls.sqlite")]

    def make(run="a", *, cached=False):
        opened.append(FolderLedger(tmp_path / run / "calls.jsonl", run=run, cache=opened[0] if cached else None))
        return opened[-1]

    yield make
    for thing in opened:
        thing.close()


def settle(ledger, call=CALL, reply=REPLY):
    asyncio.run(ledger.settle(call, reply))


def reserve(ledger, call=CALL):
    return asyncio.run(ledger.reserve(call, ESTIMATE))


def release(ledger, spent, call=CALL):
    asyncio.run(ledger.release(call, spent))


def written(tmp_path, run="a"):
    return [orjson.loads(line) for line in (tmp_path / run / "calls.jsonl").read_bytes().splitlines()]


def books(ledger):
    """Calls that a kill interrupted, and tokens and USD that count as spent."""
    spent = ledger.spent
    return ledger.interrupted.uncertain_calls, spent.input_tokens + spent.output_tokens, spent.cost_usd


def test_a_settled_call_is_returned_by_the_next_process(ledger):
    assert reserve(ledger()) is None
    settle(ledger())
    assert reserve(ledger()) == REPLY


def test_a_torn_last_line_is_a_call_that_was_not_settled(ledger, tmp_path):
    settle(ledger())
    with (tmp_path / "a" / "calls.jsonl").open("ab") as file:
        file.write(b'{"id": "2", "reply": {"te')
    again = ledger()
    assert (reserve(again), reserve(again, OTHER)) == (REPLY, None)
    settle(again, OTHER)
    assert reserve(ledger(), OTHER) == REPLY


def test_a_call_is_written_down_before_it_is_made(ledger, tmp_path):
    assert reserve(ledger()) is None
    assert written(tmp_path) == [{"id": "1", "began": ESTIMATE.model_dump(exclude_defaults=True)}]


def test_a_call_in_flight_at_a_kill_counts_once_as_interrupted_and_its_estimate_as_spent(ledger):
    killed = ledger()
    reserve(killed)
    reserve(killed, OTHER)
    settle(killed, OTHER)
    # 30 + 20 tokens and 2 USD of the call that has no end, 10 tokens and 0.5 USD of the other one
    assert [books(ledger()) for _ in range(3)] == [(1, 60, 2.5)] * 3


def test_two_attempts_of_one_call_at_a_kill_are_two_that_may_have_been_paid(ledger):
    killed = ledger()
    reserve(killed)
    reserve(killed)
    assert [books(ledger()) for _ in range(2)] == [(2, 100, 4.0)] * 2


def test_a_call_that_is_settled_after_two_attempts_is_spent_once_and_the_lost_attempt_too(ledger):
    first = ledger()
    reserve(first)
    reserve(first)
    settle(first, reply=REPLY.model_copy(update={"waste": Usage(uncertain_calls=1)}))
    assert books(ledger()) == (0, 60, 2.5)


def test_a_call_that_is_made_again_after_a_kill_keeps_both(ledger):
    reserve(ledger())
    again = ledger()
    assert reserve(again) is None
    settle(again)
    last = ledger()
    assert (books(last), reserve(last)) == ((1, 60, 2.5), REPLY)


def test_every_kill_counts(ledger):
    for _ in range(3):
        reserve(ledger())
    assert books(ledger()) == (3, 150, 6.0)


def test_a_call_that_was_refused_before_it_was_sent_is_no_call_in_flight(ledger):
    first = ledger()
    reserve(first)
    release(first, Usage())
    assert books(ledger()) == (0, 0, 0.0)


def test_what_a_lost_call_may_have_cost_is_remembered(ledger):
    first = ledger()
    reserve(first)
    release(first, Usage(uncertain_calls=1))
    again = ledger()
    assert (again.lost.uncertain_calls, books(again)) == (1, (0, 50, 2.0))


@pytest.mark.parametrize(("second", "spent"), [(Usage(), (0, 50, 2.0)), (BILL, (0, 60, 2.5))])
def test_what_an_attempt_may_have_cost_is_remembered_where_the_next_one_came_to_nothing_and_none_follows(
    second, spent, ledger
):
    first = ledger()
    reserve(first)
    reserve(first)
    release(first, second)
    release(first, Usage(retries=2, uncertain_calls=1))
    again = ledger()
    assert (again.lost.uncertain_calls, books(again)) == (1, spent)


def test_an_attempt_that_hung_is_not_forgotten_for_a_paid_reply_that_was_of_no_use(ledger):
    killed = ledger()
    reserve(killed)
    reserve(killed)
    release(killed, BILL)
    assert books(ledger()) == (1, 60, 2.5)


def test_an_attempt_that_may_have_been_paid_is_spent_where_the_next_one_is_a_hit(ledger):
    first, other = ledger("a", cached=True), ledger("b", cached=True)
    assert reserve(first) is None
    assert reserve(other) is None
    settle(other)
    assert reserve(first).usage == Usage(cache_hits=1)
    assert books(ledger("a")) == (0, 50, 2.0)


def test_a_later_run_takes_the_reply_from_the_cache_and_pays_nothing(ledger):
    settle(ledger("a", cached=True))
    hit = reserve(ledger("b", cached=True), SAME)
    assert (hit.text, hit.usage) == ("{}", Usage(cache_hits=1))
    again = ledger("b")
    assert reserve(again, SAME) == hit  # written down, so that a resumed run counts it the same
    assert books(again) == (0, 0, 0.0)


def test_a_reply_that_could_not_be_read_is_no_hit_for_later_runs(ledger):
    settle(ledger("a", cached=True), reply=REPLY.model_copy(update={"unreadable": True}))
    assert reserve(ledger("b", cached=True), SAME) is None


def test_two_calls_with_the_same_content_are_paid_once_in_a_run_and_again_after_a_resume(ledger):
    run = ledger()

    async def both():
        assert await run.reserve(CALL, ESTIMATE) is None
        second = asyncio.create_task(run.reserve(SAME, ESTIMATE))
        await asyncio.sleep(0)
        assert not second.done()
        await run.settle(CALL, REPLY)
        return await second

    assert asyncio.run(both()).usage == Usage(cache_hits=1)
    assert books(ledger()) == (0, 10, 0.5)
    assert reserve(ledger(), CALL.model_copy(update={"id": "3"})).usage == Usage(cache_hits=1)


def test_a_call_goes_on_where_another_with_its_content_came_to_nothing(ledger):
    run = ledger()

    async def both():
        assert await run.reserve(CALL, ESTIMATE) is None
        second = asyncio.create_task(run.reserve(SAME, ESTIMATE))
        await asyncio.sleep(0)
        await run.release(CALL, Usage())
        return await second

    assert asyncio.run(both()) is None


def test_answers_of_two_systems_are_never_shared(ledger):
    run, answers = ledger(), [call.model_copy(update={"purpose": "answer"}) for call in (CALL, SAME)]
    settle(run, answers[0])
    assert reserve(run, answers[1]) is None


def test_calls_and_cache_are_readable_by_their_owner_alone(ledger, tmp_path):
    settle(ledger(cached=True))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"calls.jsonl", "calls.sqlite"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
