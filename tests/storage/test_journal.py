"""A run's calls in its folder: paid once, whatever becomes of the process that makes them."""

import asyncio

import orjson
import pytest

from ragassay.core.models import Usage
from ragassay.core.protocols import Call, Reply
from ragassay.storage.journal import CallCache, FolderJournal

CALL = Call(id="1", content="c", purpose="judge")
OTHER = Call(id="2", content="d", purpose="judge")
SAME = CALL.model_copy(update={"id": "2"})  # at another place, with the same content
ESTIMATE = Usage(calls=1, input_tokens=30, output_tokens=20, cost_usd=2.0)
BILL = Usage(calls=1, input_tokens=10, cost_usd=0.5)
REPLY = Reply(text="{}", usage=BILL)


@pytest.fixture
def journal(tmp_path):
    """Opens journals that share one cache, as processes that follow each other; all are closed in the end."""
    opened = [CallCache(tmp_path / "calls.sqlite")]

    def make(run="a", *, cached=False):
        opened.append(FolderJournal(tmp_path / run / "calls.jsonl", run=run, cache=opened[0] if cached else None))
        return opened[-1]

    yield make
    for thing in opened:
        thing.close()


async def attempted(journal, call=CALL, reply=REPLY):
    """The reply of a call, by a request that is answered; without a ``reply`` its outcome is unknown."""
    async with journal.attempt(call, ESTIMATE) as attempt:
        if attempt.reply is None and reply is not None:
            attempt.settle(reply)
    return attempt.reply


def attempt(*args, **kwargs):
    return asyncio.run(attempted(*args, **kwargs))


def begin(journal, call=CALL):
    """A request that is in flight when the process dies."""
    return asyncio.run(journal.reserve(call, ESTIMATE))


def books(journal):
    """Requests with an unknown outcome, and tokens and USD that count as spent."""
    spent = journal.spent
    return journal.unknown.uncertain_calls, spent.input_tokens + spent.output_tokens, spent.cost_usd


def test_a_settled_call_is_returned_by_the_next_process(journal):
    assert attempt(journal()) == REPLY
    assert attempt(journal(), reply=None) == REPLY


def test_a_torn_last_line_is_a_call_that_was_not_settled(journal, tmp_path):
    attempt(journal())
    with (tmp_path / "a" / "calls.jsonl").open("ab") as file:
        file.write(b'{"id": "2", "reply": {"te')
    again = journal()
    assert attempt(again, reply=None) == REPLY
    assert attempt(again, OTHER).text == REPLY.text
    assert attempt(journal(), OTHER, None) == REPLY


def test_a_request_is_written_down_before_it_is_made(journal, tmp_path):
    assert begin(journal()).key == "1#1"
    (line,) = (tmp_path / "a" / "calls.jsonl").read_bytes().splitlines()
    assert orjson.loads(line) == {"id": "1", "attempt": 1, "most": ESTIMATE.model_dump(exclude_defaults=True)}


def test_a_request_in_flight_at_a_kill_has_an_unknown_outcome_and_counts_once_with_its_estimate(journal):
    killed = journal()
    begin(killed)
    attempt(killed, OTHER)
    # 30 + 20 tokens and 2 USD of the request that has no end, 10 tokens and 0.5 USD of the other one
    assert [books(journal()) for _ in range(3)] == [(1, 60, 2.5)] * 3


def test_a_call_that_is_made_again_after_a_kill_keeps_both(journal):
    begin(journal())
    again = journal()
    assert begin(again).key == "1#2"
    last = journal()
    assert books(last) == (2, 100, 4.0)
    attempt(last)
    assert books(journal()) == (2, 110, 4.5)


@pytest.mark.parametrize(
    ("spent", "counted"), [(Usage(), (0, 0, 0.0)), (BILL, (0, 10, 0.5)), (Usage(calls=1, cost_usd=None), (0, 0, 2.0))]
)
def test_a_request_without_a_reply_has_spent_what_is_known_of_it(spent, counted, journal):
    async def wasted():
        async with first.attempt(CALL, ESTIMATE) as one:
            one.waste(spent)

    first = journal()
    asyncio.run(wasted())
    assert books(first) == books(journal()) == counted


def test_a_request_that_ends_with_an_error_or_a_cancel_counts_with_its_estimate(journal):
    async def broken():
        async with first.attempt(CALL, ESTIMATE):
            raise TimeoutError

    first = journal()
    with pytest.raises(TimeoutError):
        asyncio.run(broken())
    attempt(first)
    assert (books(first), books(journal())) == ((1, 60, 2.5), (1, 60, 2.5))


def test_a_later_run_takes_the_reply_from_the_cache_and_pays_nothing(journal):
    attempt(journal("a", cached=True))
    hit = attempt(journal("b", cached=True), SAME, None)
    assert (hit.text, hit.usage) == ("{}", Usage(cache_hits=1))
    again = journal("b")
    assert attempt(again, SAME, None) == hit  # written down, so that a resumed run counts it the same
    assert books(again) == (0, 0, 0.0)


def test_ask_again_lets_calls_about_a_failed_row_be_made_again_if_their_reply_could_not_be_read(journal):
    garbled = REPLY.model_copy(update={"unreadable": True})
    call, read = (Call(id=f"s/{n}", content=n, purpose="judge", query_id="q1") for n in ("1", "2"))
    first = journal()
    attempt(first, call, garbled)
    attempt(first, read)
    assert attempt(journal(), call, None) == garbled, "a killed run repeats no finished call"
    again = journal()
    again.ask_again({("s", "q1"), ("s", "q2")})
    for one in (again, journal()):
        assert attempt(one, call, None) is None
        assert attempt(one, read, None) == REPLY
        assert one.forgotten == {("s", "q1"): BILL}


@pytest.mark.parametrize("is_answered", [True, False])
def test_two_calls_with_the_same_content_are_paid_once_in_a_run_and_again_after_a_resume(is_answered, journal):
    run = journal()

    async def both():
        async with run.attempt(CALL, ESTIMATE) as first:
            second = asyncio.create_task(attempted(run, SAME))
            await asyncio.sleep(0)
            assert not second.done()
            if is_answered:
                first.settle(REPLY)
            else:
                first.free()
        return await second

    assert asyncio.run(both()).usage == (Usage(cache_hits=1) if is_answered else BILL)
    assert books(journal()) == (0, 10, 0.5)
    assert attempt(journal(), CALL.model_copy(update={"id": "3"})).usage == Usage(cache_hits=1)


def test_answers_of_two_systems_are_never_shared(journal):
    run, answers = journal(), [call.model_copy(update={"purpose": "answer"}) for call in (CALL, SAME)]
    attempt(run, answers[0])
    assert attempt(run, answers[1], None) is None


def test_a_reply_that_could_not_be_read_is_no_hit_for_later_runs(journal):
    attempt(journal("a", cached=True), reply=REPLY.model_copy(update={"unreadable": True}))
    assert attempt(journal("b", cached=True), SAME, None) is None
