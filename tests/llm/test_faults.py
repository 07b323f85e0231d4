import asyncio
import logging
import re
import time
import traceback

import pytest

import provider as play
from llm_calls import HELLO, Account, ask, llm, reply_of
from provider import Answer, Provider
from ragassay.core.errors import BadInput, BadSettings, RateLimited, TimedOut, TooLarge, Unavailable
from ragassay.core.models import Usage
from ragassay.llm import LLM, client
from ragassay.llm.errors import redact
from ragassay.llm.journal import MemoryJournal
from ragassay.llm.rate_limit import retry_after

KEY = "sk-this-is-a-very-secret-key-0123456789"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    """Retries come at once, unless a test says otherwise."""
    monkeypatch.setattr(client, "backoff", lambda tries: 0.0)


FAULTS = {
    "408": (play.status(408), 0),
    "409": (play.status(409), 0),
    "429": (play.status(429), 0),
    "500": (play.status(500), 0),
    "502": (play.status(502), 0),
    "503": (play.status(503), 0),
    "529 in the body": (play.raw(error={"message": "overloaded", "code": 529}), 1),
    "lost connection": (play.reset, 1),
    "empty body": (play.empty, 1),
    "html": (lambda seen: Answer(raw=b"<html>Bad gateway</html>"), 1),
    "no choices": (play.raw(choices=[]), 1),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_passing_fault_costs_exactly_one_more_request(fault):
    behaviour, uncertain = FAULTS[fault]
    journal = MemoryJournal()
    with Provider([behaviour], then=HELLO) as provider:
        reply = reply_of(llm(provider), journal=journal)

    assert reply.text == "hello"
    assert len(provider.log) == 2
    assert reply.waste == Usage(retries=1, uncertain_calls=uncertain)
    assert journal.settled == {"c1": reply}
    assert journal.account.spent.uncertain_calls == uncertain


@pytest.mark.parametrize(
    ("behaviour", "error", "uncertain"),
    [
        (play.status(500, message="out of order"), Unavailable, 0),
        (play.status(429, message="too fast"), RateLimited, 0),
        (play.reset, Unavailable, 1),
    ],
)
def test_after_the_last_attempt_the_caller_receives_what_was_spent(behaviour, error, uncertain):
    journal, account = MemoryJournal(), Account()
    with Provider(then=behaviour) as provider, pytest.raises(error, match=r"^gpt-4o-mini: ") as raised:
        reply_of(llm(provider, attempts=3), journal=journal, account=account)

    assert type(raised.value) is error
    assert len(provider.log) == 3
    assert account.lost == Usage(retries=2, uncertain_calls=3 * uncertain)
    assert journal.account.spent.uncertain_calls == 3 * uncertain
    assert journal.settled == {}


def test_a_hang_ends_with_the_timeout_and_may_have_been_paid():
    account = Account()
    began = time.monotonic()
    with Provider(then=play.hang) as provider, pytest.raises(TimedOut, match=r"no answer within 0\.3 s"):
        reply_of(llm(provider, timeout_s=0.3, attempts=2), account=account)

    assert len(provider.log) == 2
    assert account.lost == Usage(retries=1, uncertain_calls=2)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("at_no_cost", [429, 500])
@pytest.mark.parametrize(("first", "uncertain"), [(play.reset, 1), (play.status(500), 0)])
def test_attempts_are_told_of_where_the_call_ends_between_two(first, uncertain, at_no_cost, monkeypatch):
    """The time of its sample is up while the call waits; the last attempt cost nothing, the one before may have."""
    account, tasks = Account(), []

    def pause(tries):
        if tries == 2:
            tasks[0].cancel()
        return 0.0

    async def cancelled():
        tasks.append(asyncio.create_task(ask(llm(provider), account=account)))
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]

    monkeypatch.setattr(client, "backoff", pause)
    with Provider([first], then=play.status(at_no_cost)) as provider:
        asyncio.run(cancelled())
    assert len(provider.log) == 2
    assert account.lost == Usage(retries=1, uncertain_calls=uncertain)


REFUSALS = [
    (play.status(400, message="bad"), BadInput, "refused the request (400): bad"),
    (
        play.status(400, message="This model's maximum context length is 8192 tokens."),
        TooLarge,
        "longer than the model reads",
    ),
    (play.status(401), BadSettings, "rejected the key (401)"),
    (play.status(403), BadInput, "denied access (403)"),
    (
        play.status(404, message="no such model"),
        BadSettings,
        "does not have this model or address (404): no such model",
    ),
    (play.status(429, message="You exceeded", kind="insufficient_quota"), BadSettings, "has no credit left"),
]


@pytest.mark.parametrize(("behaviour", "error", "text"), REFUSALS)
def test_a_refusal_is_not_tried_again(behaviour, error, text):
    account = Account()
    with Provider(then=behaviour) as provider, pytest.raises(error, match=re.escape(text)) as raised:
        reply_of(llm(provider), account=account)

    assert type(raised.value) is error
    assert len(provider.log) == 1
    assert account.lost == Usage()


def test_a_missing_key_is_named_by_its_variable_and_nothing_is_sent():
    with pytest.raises(BadSettings, match="there is no key for this model; set OPENAI_API_KEY"):
        reply_of(LLM("gpt-4o-mini"))
    with pytest.raises(BadSettings, match="set ANTHROPIC_API_KEY"):
        reply_of(LLM("anthropic/claude-sonnet-4-5"))


@pytest.mark.parametrize("given", ["argument", "environment"])
@pytest.mark.parametrize("code", [400, 401, 404, 429, 500])
def test_a_key_never_shows_in_an_error_a_log_or_a_traceback(given, code, monkeypatch, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    if given == "environment":
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
    told = f"Incorrect API key provided: {KEY}. Authorization: Bearer {KEY}"
    with Provider(then=play.status(code, message=told)) as provider:
        judge = llm(provider, attempts=1, api_key=KEY if given == "argument" else None)
        with pytest.raises((BadInput, Unavailable)) as raised:
            reply_of(judge)
    assert provider.log[0].auth == f"Bearer {KEY}"

    shown = "".join(traceback.format_exception(raised.value)) + repr(judge) + str(judge.settings)
    shown += caplog.text + "".join(capfd.readouterr())
    assert "Incorrect API key provided: ***" in str(raised.value)
    assert KEY not in shown
    assert "Give Feedback" not in shown


@pytest.mark.parametrize("secret", ["correct horse battery staple", "0123456789abcdef"])
def test_a_key_of_any_form_is_taken_out_of_what_a_provider_says(secret, monkeypatch):
    assert redact(f"bad key {secret}!", secret) == "bad key ***!"
    monkeypatch.setenv("OF_SOME_PROVIDER_API_KEY", secret)
    assert redact(f"bad key {secret}!", None) == "bad key ***!"


@pytest.mark.parametrize(
    "text", ["skeleton-based methods", "an sk-learn-compatible server", "skippingwhatever", "send a bearer token."]
)
def test_redact_leaves_ordinary_words(text):
    assert redact(text, None) == text


def of_four(provider):
    """The requests of four calls, one at a time, all of which are answered in the end."""
    judge = llm(provider, concurrency=1)

    async def several():
        return await asyncio.gather(*(ask(judge, name=f"c{n}") for n in range(4)))

    assert [reply.text for reply in asyncio.run(several())] == ["hello"] * 4
    return provider.log


def test_retry_after_is_obeyed_by_the_call_that_was_told_and_the_others_go_on():
    with Provider([play.status(429, {"Retry-After": "3"})], then=HELLO) as provider:
        refused, *others = of_four(provider)
    assert len(others) == 4
    assert others[-1].t - refused.done >= 2.99
    assert max(seen.t for seen in others[:-1]) - refused.done < 2.9


def test_all_calls_wait_once_three_in_a_row_are_told_to():
    with Provider([play.status(429, {"Retry-After": "1"})] * 3, then=HELLO) as provider:
        *refused, last = of_four(provider)[:4]
    assert last.t - refused[-1].done >= 0.99


def test_a_429_uses_up_no_attempt_while_other_calls_get_through(monkeypatch):
    monkeypatch.setattr(client, "backoff", lambda tries: 0.05)

    def behave(seen):
        slow = sum("slow" in earlier.user for earlier in provider.log)
        return Answer(status=429) if "slow" in seen.user and slow < 5 else Answer("hello")

    with Provider(then=behave) as provider:
        judge = llm(provider, attempts=2, concurrency=2)

        async def both():
            slow = asyncio.create_task(ask(judge, "slow", name="slow"))
            while not slow.done():
                await ask(judge, "quick", name=f"c{len(provider.log)}")
            return await slow

        slow = asyncio.run(both())

    assert slow.text == "hello"
    assert slow.waste == Usage(retries=4)


def test_no_more_calls_are_in_flight_or_reserved_than_there_are_slots():
    reserved = []

    class Watching(MemoryJournal):
        async def reserve(self, call, most):
            reserved.append(len(reserved) + 1 - len(self.settled))
            return await super().reserve(call, most)

    journal = Watching()
    with Provider(then=HELLO, latency_s=0.1) as provider:
        judge = llm(provider, concurrency=3)

        async def several():
            await asyncio.gather(*(ask(judge, name=f"c{n}", journal=journal) for n in range(12)))

        asyncio.run(several())

    assert provider.peak == 3
    assert max(reserved) == 3
    assert len(provider.log) == 12


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "7", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "inf"}, None),
        ({"retry-after-ms": "-5"}, 0.0),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers, seconds):
    assert retry_after(headers) == seconds
