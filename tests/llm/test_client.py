"""A model behind LiteLLM, over a real HTTP server: one request, what is tried again, what is refused, and odd replies."""

import asyncio
import logging
import re
import traceback

import pytest

import provider as play
from llm_calls import HELLO, OBJECT, SCHEMA, Account, ask, call, llm, reply_of
from provider import Answer, Provider
from ragassay.core.errors import BadInput, BadSettings, RateLimited, TimedOut, TooLarge, Unavailable
from ragassay.core.models import Usage
from ragassay.llm import LLM, client
from ragassay.llm.errors import redact, retry_after
from ragassay.llm.journal import MemoryJournal

KEY = "sk-this-is-a-very-secret-key-0123456789"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    """Retries come at once, unless a test says otherwise."""
    monkeypatch.setattr(client, "backoff", lambda tries: 0.0)


def test_a_call_is_one_request_at_temperature_0_with_a_seed_and_a_strict_schema():
    with Provider(then=OBJECT) as provider:
        reply = reply_of(llm(provider, seed=7), schema=SCHEMA)
    (seen,) = provider.log
    assert (reply.text, reply.finish_reason, reply.model) == ("{}", "stop", "gpt-4o-mini")
    assert reply.left_out == ()
    assert (seen.body["temperature"], seen.body["seed"], seen.body["max_tokens"]) == (0, 7, 50)
    described = {"name": "reply", "strict": True, "schema": SCHEMA}
    assert seen.body["response_format"] == {"type": "json_schema", "json_schema": described}
    assert seen.auth == "Bearer no-key-needed"


async def _noted(*_):
    pass


@pytest.mark.parametrize("callbacks", [[], [print], [_noted]])
def test_litellm_logs_calls_only_for_callbacks_of_the_user(monkeypatch, callbacks):
    import litellm
    from litellm._internal_context import is_internal_call

    unlogged, answered = [], litellm.acompletion

    async def completed(**asked):
        unlogged.append(is_internal_call.get())
        return await answered(**asked)

    monkeypatch.setattr(litellm, "acompletion", completed)
    monkeypatch.setattr(litellm, "success_callback", [*callbacks])
    monkeypatch.setattr(litellm, "_async_success_callback", [])  # where LiteLLM moves an async one at its first call
    with Provider(then=HELLO) as provider:
        reply_of(llm(provider))
        reply_of(llm(provider))
    assert (unlogged, is_internal_call.get()) == ([not callbacks] * 2, False)


def test_a_server_that_counts_no_tokens_gets_an_estimate_and_no_price():
    with Provider(then=play.raw(usage=None)) as provider:  # a name that is no provider's belongs to the own server
        model = llm(provider, "meta-llama/Llama-3-8B")
        reply = reply_of(model, "x" * 392)
    assert provider.log[0].body["model"] == model.model == "meta-llama/Llama-3-8B"
    assert model.settings["model"] == "openai/meta-llama/Llama-3-8B"
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (100, 1)  # characters / 4, rounded up
    assert reply.usage.cost_usd is None


def test_a_cancelled_call_may_have_been_paid_and_its_estimate_counts_as_spent():
    journal, account = MemoryJournal(), Account()

    async def cancel():
        task = asyncio.create_task(ask(llm(provider), journal=journal, account=account))
        while not provider.log:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with Provider(then=play.hang) as provider:
        asyncio.run(cancel())
    assert account.lost == Usage(uncertain_calls=1)
    assert (journal.account.spent.uncertain_calls, journal.account.spent.output_tokens) == (1, 50)


def test_an_unknown_model_is_an_error_before_anything_is_sent():
    with pytest.raises(BadSettings, match=r"unknown model 'gpt-of-nobody'; write provider/model"):
        reply_of(LLM("gpt-of-nobody"))


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"max_retries": 3, "api_key": "x"}, "can't set api_key, max_retries; known: .* goes into extra_body"),
        ({"extra_body": {"messages": []}}, "extra_body: it can't set messages"),
    ],
)
def test_parameters_that_are_ours_can_not_be_set(parameters, text):
    with pytest.raises(BadSettings, match=text):
        LLM("m", parameters=parameters)


# --- faults and refusals ------------------------------------------------------------------------------------------------

FAULTS = {
    "408": (play.status(408), 0),
    "429": (play.status(429), 0),
    "502": (play.status(502), 0),
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
    [(play.status(429, message="too fast"), RateLimited, 0), (play.reset, Unavailable, 1), (play.hang, TimedOut, 1)],
)
def test_after_the_last_attempt_the_caller_receives_what_was_spent(behaviour, error, uncertain):
    journal, account = MemoryJournal(), Account()
    timeout_s = 1 if error is TimedOut else 10
    with Provider(then=behaviour) as provider, pytest.raises(error, match=r"^gpt-4o-mini: ") as raised:
        reply_of(llm(provider, attempts=3, timeout_s=timeout_s), journal=journal, account=account)
    assert type(raised.value) is error
    assert len(provider.log) == 3
    assert account.lost == Usage(retries=2, uncertain_calls=3 * uncertain)
    assert journal.account.spent.uncertain_calls == 3 * uncertain
    assert journal.settled == {}


@pytest.mark.parametrize(("first", "uncertain"), [(play.reset, 1), (play.status(500), 0)])
def test_attempts_are_told_of_where_the_call_ends_between_two(first, uncertain, monkeypatch):
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
    with Provider([first], then=play.status(429)) as provider:
        asyncio.run(cancelled())
    assert len(provider.log) == 2
    assert account.lost == Usage(retries=1, uncertain_calls=uncertain)


TOO_LONG = "This model's maximum context length is 8192 tokens."
REFUSALS = [
    (play.status(400, message="bad"), BadInput, "refused the request (400): bad"),
    (play.status(400, message=TOO_LONG), TooLarge, "longer than the model reads"),
    (play.status(401), BadSettings, "rejected the key (401)"),
    (play.status(403), BadInput, "denied access (403)"),
    (play.status(404, message="no m"), BadSettings, "does not have this model or address (404): no m"),
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
    with pytest.raises(BadSettings, match="set ANTHROPIC_API_KEY"):
        reply_of(LLM("anthropic/claude-sonnet-4-5"))


@pytest.mark.parametrize(("given", "code"), [("argument", 400), ("argument", 500), ("environment", 401)])
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


def test_redact_takes_out_a_key_of_any_form_and_leaves_ordinary_words(monkeypatch):
    for secret in ("correct horse battery staple", "0123456789abcdef"):
        assert redact(f"bad key {secret}!", secret) == "bad key ***!"
        monkeypatch.setenv("OF_SOME_PROVIDER_API_KEY", secret)
        assert redact(f"bad key {secret}!", None) == "bad key ***!"
    for text in ("skeleton-based", "an sk-learn-compatible server", "skippingwhatever", "send a bearer token."):
        assert redact(text, None) == text


def several(judge, count, journal=None):
    """The texts of the replies to so many calls at once."""

    async def all_of_them():
        return await asyncio.gather(*(ask(judge, name=f"c{n}", journal=journal) for n in range(count)))

    return [reply.text for reply in asyncio.run(all_of_them())]


def of_four(provider):
    """The requests of four calls, one at a time, all of which are answered in the end."""
    assert several(llm(provider, concurrency=1), 4) == ["hello"] * 4
    return provider.log


def test_retry_after_is_obeyed_by_the_call_that_was_told_and_the_others_go_on():
    with Provider([play.status(429, {"Retry-After": "2"})], then=HELLO) as provider:
        refused, *others = of_four(provider)
    assert len(others) == 4
    assert others[-1].t - refused.done >= 1.99
    assert max(seen.t for seen in others[:-1]) - refused.done < 1.9


def test_all_calls_wait_once_three_in_a_row_are_told_to():
    with Provider([play.status(429, {"Retry-After": "1"})] * 3, then=HELLO) as provider:
        *refused, last = of_four(provider)[:4]
    assert last.t - refused[-1].done >= 0.99


def test_no_more_calls_are_in_flight_or_reserved_than_there_are_slots():
    reserved = []

    class Watching(MemoryJournal):
        async def reserve(self, call, most):
            reserved.append(len(reserved) + 1 - len(self.settled))
            return await super().reserve(call, most)

    with Provider(then=HELLO, latency_s=0.1) as provider:
        several(llm(provider, concurrency=3), 12, Watching())
    assert (provider.peak, max(reserved), len(provider.log)) == (3, 3, 12)


def test_retry_after_is_read_in_all_its_forms():
    read = {"7": 7.0, "1.5": 1.5, "Wed, 21 Oct 2015 07:28:00 GMT": 0.0, "soon": None}
    assert {text: retry_after({"retry-after": text}) for text in read} == read
    in_ms = {"250": 0.25, "inf": None, "-5": 0.0}
    assert {text: retry_after({"retry-after-ms": text}) for text in in_ms} == in_ms
    assert retry_after({"retry-after": "7", "retry-after-ms": "250"}) == 0.25
    assert retry_after({}) is None


# --- odd replies -------------------------------------------------------------------------------------------------------


def test_half_a_surrogate_pair_in_a_reply_is_replaced():
    message = {"role": "assistant", "content": "TEXT"}
    body = play.raw(choices=[{"index": 0, "message": message, "finish_reason": "stop"}])(None).raw
    with Provider(then=lambda _: Answer(raw=body.replace(b"TEXT", rb"a\ud800b"))) as provider:
        reply = reply_of(llm(provider))
    assert (reply.text, reply.usage.input_tokens) == ("a\ufffdb", 10)


@pytest.mark.parametrize("value", [None, 0])
def test_a_reply_in_which_the_caller_finds_nothing_is_unreadable(value):
    async def twice(model):
        asked = {"max_tokens": 50, "call": call(), "journal": MemoryJournal(), "read": lambda _: value}
        return [await model.complete([{"role": "user", "content": "hi"}], **asked) for _ in "12"]

    with Provider(then=play.says("ok")) as provider:
        outcomes = asyncio.run(twice(llm(provider)))
    assert [(reply.unreadable, found) for reply, found in outcomes] == [(value is None, value)] * 2
    assert len(provider.log) == 1  # a settled one is read too
