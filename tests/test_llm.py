import asyncio
import gc
import json
import logging
import re
import socket
import subprocess
import sys
import time
import traceback
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

import provider as play
from provider import Answer, Provider
from ragassay.errors import BadInput, BadSettings, BudgetReached, RateLimited, TimedOut, TooLarge, Unavailable
from ragassay.ledger import MemoryLedger
from ragassay.llm import LLM, FakeLLM, model, pacing, warm_up
from ragassay.llm.failures import redact
from ragassay.llm.pacing import Pace, backoff, retry_after
from ragassay.models import Call, Ledger, Price, Reply, Usage
from ragassay.prices import Prices

KEY = "sk-this-is-a-very-secret-key-0123456789"
SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
HELLO = play.says("hello")


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    """Retries come at once, unless a test says otherwise."""
    monkeypatch.setattr(model, "backoff", lambda tries: 0.0)


def call(name="c1"):
    return Call(id=name, content=f"content of {name}", purpose="judge")


def llm(provider, name="gpt-4o-mini", **options):
    return LLM(name, api_base=provider.url, **{"timeout_s": 10, **options})


async def ask(llm, text="hi", name="c1", ledger=None, schema=None, max_tokens=50):
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": text}]
    ledger = ledger or MemoryLedger()
    return await llm.complete(messages, schema=schema, max_tokens=max_tokens, call=call(name), ledger=ledger)


def get(*args, **kwargs):
    return asyncio.run(ask(*args, **kwargs))


def test_a_call_is_one_request_at_temperature_0_with_a_seed_and_a_strict_schema():
    with Provider(then=HELLO) as provider:
        reply = get(llm(provider, seed=7), schema=SCHEMA)

    (seen,) = provider.log
    assert (reply.text, reply.finish_reason, reply.model) == ("hello", "stop", "gpt-4o-mini")
    assert (seen.body["temperature"], seen.body["seed"], seen.body["max_tokens"]) == (0, 7, 50)
    described = {"name": "reply", "strict": True, "schema": SCHEMA}
    assert seen.body["response_format"] == {"type": "json_schema", "json_schema": described}
    assert seen.auth == "Bearer no-key-needed"


def test_the_price_of_a_known_model_is_tokens_times_its_listed_price():
    with Provider(then=HELLO) as provider:
        reply = get(llm(provider), "x" * 392)

    # "be brief" (8) + 392 characters = 100 tokens at 0.15 USD a million; "hello" = 2 tokens at 0.60 USD a million
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (100, 2)
    assert reply.usage.cost_usd == pytest.approx(100 * 0.15e-6 + 2 * 0.60e-6, rel=1e-12)
    assert reply.usage.calls == 1
    assert reply.usage.latency_ms > 0
    assert reply.waste == Usage()


def test_a_configured_price_wins_over_the_table_and_an_unknown_price_is_unknown():
    prices = Prices({"gpt-4o-mini": Price(input_per_1m=2.0, output_per_1m=10.0)})
    with Provider(then=HELLO) as provider:
        own = get(llm(provider, prices=prices), "x" * 392)
        unknown = get(llm(provider, "llama-of-our-own"))

    assert own.usage.cost_usd == pytest.approx(100 * 2e-6 + 2 * 10e-6, rel=1e-12)
    assert unknown.usage.cost_usd is None
    assert unknown.usage.input_tokens > 0


@pytest.mark.parametrize(
    ("prices", "cost"),
    [
        (None, 60 * 0.15e-6 + 40 * 0.075e-6 + 2 * 0.60e-6),  # 40 of the 100 tokens at half the price
        (Prices({"gpt-4o-mini": Price(input_per_1m=1.0, output_per_1m=0.0)}), 100 * 1e-6),
    ],
)
def test_tokens_from_the_providers_prompt_cache_have_their_own_listed_price(prices, cost):
    with Provider(then=raw(usage=usage(100, 2, prompt_tokens_details={"cached_tokens": 40}))) as provider:
        reply = get(llm(provider, prices=prices))

    assert reply.usage.cost_usd == pytest.approx(cost, rel=1e-12)


def test_a_server_that_counts_no_tokens_gets_an_estimate_and_no_price():
    with Provider(then=raw(usage=None)) as provider:
        reply = get(llm(provider), "x" * 392)

    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (100, 1)  # characters / 4, rounded up
    assert reply.usage.cost_usd is None


def usage(prompt, completion, **more):
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, **more}


def raw(**changes):
    """A reply of which single fields can be changed or taken away."""
    message = {"role": "assistant", "content": "ok"}
    body = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage(10, 1),
        **changes,
    }
    return lambda seen: Answer(raw=json.dumps(body).encode())


FAULTS = {
    "408": (play.status(408), 0),
    "409": (play.status(409), 0),
    "429": (play.status(429), 0),
    "500": (play.status(500), 0),
    "502": (play.status(502), 0),
    "503": (play.status(503), 0),
    "529 in the body": (raw(error={"message": "overloaded", "code": 529}), 1),
    "lost connection": (play.reset, 1),
    "empty body": (play.empty, 1),
    "html": (lambda seen: Answer(raw=b"<html>Bad gateway</html>"), 1),
    "no choices": (raw(choices=[]), 1),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_passing_fault_costs_exactly_one_more_request(fault):
    behaviour, uncertain = FAULTS[fault]
    ledger = MemoryLedger()
    with Provider([behaviour], then=HELLO) as provider:
        reply = get(llm(provider), ledger=ledger)

    assert reply.text == "hello"
    assert len(provider.log) == 2
    assert reply.waste == Usage(retries=1, uncertain_calls=uncertain)
    assert ledger.settled == {"c1": reply}
    assert ledger.lost == Usage()


@pytest.mark.parametrize(
    ("behaviour", "error", "uncertain"),
    [
        (play.status(500, message="out of order"), Unavailable, 0),
        (play.status(429, message="too fast"), RateLimited, 0),
        (play.reset, Unavailable, 1),
    ],
)
def test_after_the_last_attempt_the_ledger_hears_what_was_spent(behaviour, error, uncertain):
    ledger = MemoryLedger()
    with Provider(then=behaviour) as provider, pytest.raises(error, match=r"^gpt-4o-mini: ") as raised:
        get(llm(provider, attempts=3), ledger=ledger)

    assert type(raised.value) is error
    assert len(provider.log) == 3
    assert ledger.lost == Usage(retries=2, uncertain_calls=3 * uncertain)
    assert ledger.settled == {}


def test_a_hang_ends_with_the_timeout_and_may_have_been_paid():
    ledger = MemoryLedger()
    began = time.monotonic()
    with Provider(then=play.hang) as provider, pytest.raises(TimedOut, match=r"no answer within 0\.3 s"):
        get(llm(provider, timeout_s=0.3, attempts=2), ledger=ledger)

    assert len(provider.log) == 2
    assert ledger.lost == Usage(retries=1, uncertain_calls=2)
    assert time.monotonic() - began < 5


def test_where_nobody_listens_nothing_can_have_been_paid():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        ledger = MemoryLedger()
        with pytest.raises(Unavailable, match="is the address right and the server up"):
            get(LLM("some-model", api_base=url, attempts=2), ledger=ledger)

    assert ledger.lost == Usage(retries=1)


REFUSALS = [
    (play.status(400, message="bad"), BadInput, "refused the request (400): bad"),
    (play.status(422, message="bad"), BadInput, "refused the request (422): bad"),
    (
        play.status(400, message="This model's maximum context length is 8192 tokens."),
        TooLarge,
        "longer than the model reads",
    ),
    (play.status(401), BadSettings, "refused the key (401)"),
    (play.status(402), BadSettings, "wants to be paid first (402)"),
    (play.status(403), BadSettings, "forbids it (403)"),
    (play.status(404, message="no such model"), BadSettings, "knows no such model or address (404): no such model"),
    (play.status(429, message="You exceeded", kind="insufficient_quota"), BadSettings, "has no credit left"),
]


@pytest.mark.parametrize(("behaviour", "error", "text"), REFUSALS)
def test_a_refusal_is_not_tried_again(behaviour, error, text):
    ledger = MemoryLedger()
    with Provider(then=behaviour) as provider, pytest.raises(error, match=re.escape(text)) as raised:
        get(llm(provider), ledger=ledger)

    assert type(raised.value) is error
    assert len(provider.log) == 1
    assert ledger.lost == Usage()


def test_a_refused_key_is_not_tried_again_by_later_calls_for_a_while(monkeypatch):
    with Provider(then=play.status(401)) as provider:
        judge = llm(provider)
        for n in range(3):
            with pytest.raises(BadSettings, match="refused the key"):
                get(judge, name=f"c{n}")
        assert len(provider.log) == 1

        monkeypatch.setattr(model, "_REFUSED_FOR_S", -1.0)
        with pytest.raises(BadSettings):
            get(llm(provider), name="another object")
        assert len(provider.log) == 2


def test_a_missing_key_is_named_by_its_variable_and_nothing_is_sent():
    with pytest.raises(BadSettings, match="there is no key for this model; set OPENAI_API_KEY"):
        get(LLM("gpt-4o-mini"))
    with pytest.raises(BadSettings, match="set ANTHROPIC_API_KEY"):
        get(LLM("anthropic/claude-sonnet-4-5"))


def test_an_own_server_that_wants_a_key_says_where_to_put_it(monkeypatch):
    with Provider(then=play.status(401)) as provider:
        with pytest.raises(BadSettings, match="set OPENAI_API_KEY"):
            get(llm(provider))
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        with pytest.raises(BadSettings, match="check the key"):
            get(llm(provider))
        assert provider.log[1].auth == f"Bearer {KEY}"


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
            get(judge)
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


@pytest.mark.parametrize("text", ["sk-proj-abcdefgh1234", "AIzaSyA1234567890", "Bearer abc.def", "hf_abcdefghij"])
def test_what_looks_like_a_key_is_taken_out_even_if_nobody_knows_it(text):
    assert redact(f"bad key {text}, sorry", None).startswith("bad key ***")


def test_retry_after_is_obeyed_and_shared_by_all_calls():
    with Provider([play.status(429, {"Retry-After": "1"})], then=HELLO) as provider:
        judge = llm(provider, concurrency=1)

        async def several():
            return await asyncio.gather(*(ask(judge, name=f"c{n}") for n in range(4)))

        replies = asyncio.run(several())

    assert [reply.text for reply in replies] == ["hello"] * 4
    refused, *others = provider.log
    assert len(others) == 4
    assert min(seen.t for seen in others) - refused.done >= 0.99


def test_a_429_uses_up_no_attempt_while_other_calls_get_through(monkeypatch):
    monkeypatch.setattr(model, "backoff", lambda tries: 0.05)

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

    class Watching(MemoryLedger):
        async def reserve(self, call, estimate):
            reserved.append(len(reserved) + 1 - len(self.settled))
            return await super().reserve(call, estimate)

    ledger = Watching()
    with Provider(then=HELLO, latency_s=0.02) as provider:
        judge = llm(provider, concurrency=3)

        async def several():
            await asyncio.gather(*(ask(judge, name=f"c{n}", ledger=ledger) for n in range(12)))

        asyncio.run(several())

    assert provider.peak == 3
    assert max(reserved) == 3
    assert len(provider.log) == 12


def test_a_call_that_waits_to_try_again_leaves_its_slot_to_others(monkeypatch):
    monkeypatch.setattr(model, "backoff", lambda tries: 0.5)
    with Provider([play.status(500)], then=HELLO) as provider:
        judge = llm(provider, concurrency=1)

        async def several():
            await asyncio.gather(ask(judge, "first", name="a"), ask(judge, "second", name="b"))

        asyncio.run(several())

    assert [seen.user for seen in provider.log] == ["first", "second", "first"]


def test_a_settled_call_is_not_sent_again():
    ledger = MemoryLedger()
    with Provider(then=HELLO) as provider:
        judge = llm(provider)
        first, again = get(judge, ledger=ledger), get(judge, ledger=ledger)

    assert first == again
    assert len(provider.log) == 1


def test_a_reached_budget_passes_through_and_nothing_is_sent():
    class Broke(MemoryLedger):
        async def reserve(self, call, estimate):
            raise BudgetReached(f"{estimate.cost_usd:.6f} USD")

        async def release(self, call, spent):
            raise AssertionError("nothing was reserved")

    # (8 + 2 bytes of text) // 3 + 50 = 53 tokens at 0.15 and 1,000 at 0.60 USD a million
    with Provider() as provider, pytest.raises(BudgetReached, match=f"{53 * 0.15e-6 + 1000 * 0.60e-6:.6f} USD"):
        get(llm(provider), max_tokens=1000, ledger=Broke())
    assert provider.log == []


def test_a_cancelled_call_may_have_been_paid_and_the_ledger_hears_so():
    ledger = MemoryLedger()

    async def cancel():
        task = asyncio.create_task(ask(llm(provider), ledger=ledger))
        while not provider.log:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with Provider(then=play.hang) as provider:
        asyncio.run(cancel())
    assert ledger.lost == Usage(uncertain_calls=1)


def test_a_provider_without_schemas_is_asked_in_the_plainest_way_that_it_takes():
    def behave(seen):
        form = seen.body.get("response_format", {}).get("type")
        return Answer(status=400, message=f"response_format {form} is not supported") if form else Answer("{}")

    with Provider(then=behave) as provider:
        judge = llm(provider)
        reply = get(judge, schema=SCHEMA)
        get(judge, name="c2", schema=SCHEMA)

    forms = [seen.body.get("response_format", {}).get("type") for seen in provider.log]
    assert forms == ["json_schema", "json_object", None, None]
    assert '"additionalProperties":false' in provider.log[2].system
    assert provider.log[0].system == "be brief"
    assert judge.response_format == "prompt"
    assert reply.waste == Usage()


def test_a_provider_that_took_the_schema_once_is_believed(monkeypatch):
    refuses = play.status(400, message="json_schema: this text can't be answered")
    with Provider([HELLO, refuses], then=HELLO) as provider:
        judge = llm(provider)
        get(judge, schema=SCHEMA)
        with pytest.raises(BadInput, match="can't be answered"):
            get(judge, name="c2", schema=SCHEMA)

    assert len(provider.log) == 2
    assert judge.response_format == "json_schema"


def test_parameters_that_a_provider_does_not_take_are_left_out_and_listed():
    with Provider(then=HELLO) as provider:
        judge = llm(provider, "openai/o3-mini", parameters={"reasoning_effort": "low"}, seed=3)
        get(judge)

    assert judge.settings == {
        "model": "openai/o3-mini",
        "parameters": {"seed": 3, "reasoning_effort": "low"},
        "left_out": ["temperature"],
    }
    body = provider.log[0].body
    assert "temperature" not in body
    assert (body["seed"], body["reasoning_effort"]) == (3, "low")
    assert body["max_completion_tokens"] == 50 + 4096  # room to think, on top of the reply's own tokens


def test_a_name_that_is_no_providers_belongs_to_the_own_server():
    with Provider(then=HELLO) as provider:
        judge = llm(provider, "meta-llama/Llama-3-8B")
        get(judge)

    assert provider.log[0].body["model"] == "meta-llama/Llama-3-8B"
    assert judge.settings["model"] == "openai/meta-llama/Llama-3-8B"
    assert judge.model == "meta-llama/Llama-3-8B"


def test_an_unknown_model_is_an_error_before_anything_is_sent():
    with pytest.raises(BadSettings, match=r"unknown model 'gpt-of-nobody'; write provider/model"):
        get(LLM("gpt-of-nobody"))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"model": " "}, "the model has no name"),
        ({"model": "m", "attempts": 0}, "must be above zero"),
        ({"model": "m", "concurrency": 0}, "must be above zero"),
        ({"model": "m", "timeout_s": 0}, "must be above zero"),
        ({"model": "m", "timeout_s": float("nan")}, "must be above zero"),
        ({"model": "m", "parameters": {"max_retries": 3, "api_key": "x"}}, "can't set api_key, max_retries"),
    ],
)
def test_bad_options_are_bad_settings(options, text):
    with pytest.raises(BadSettings, match=text):
        LLM(**options)


def test_one_object_serves_several_event_loops_and_leaves_no_connection_open():
    with Provider(then=HELLO) as provider:
        judge = llm(provider)
        for n in range(3):
            assert get(judge, name=f"c{n}").text == "hello"
        gc.collect()  # an open connection would warn here, and warnings are errors


def test_a_model_that_says_nothing_says_an_empty_text():
    message = {"role": "assistant", "content": None, "refusal": "no"}
    with Provider(then=raw(choices=[{"index": 0, "message": message, "finish_reason": None}])) as provider:
        reply = get(llm(provider))

    assert (reply.text, reply.finish_reason) == ("", "stop")


def test_importing_the_package_does_not_import_litellm():
    code = (
        "import sys, ragassay.llm, ragassay.judges.llm; sys.exit('litellm' in sys.modules or 'openai' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_warming_up_loads_what_the_first_call_needs():
    warm_up()
    assert {"litellm", "openai.resources.chat"} <= set(sys.modules)
    assert gc.get_freeze_count() > 0
    gc.unfreeze()


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


def test_retry_after_may_be_a_date_to_come():
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert 28 < retry_after({"retry-after": date}) <= 30


def test_the_wait_is_a_minute_at_the_most_and_never_shortened(monkeypatch):
    monkeypatch.setattr(pacing.time, "monotonic", lambda: 1000.0)
    pace = Pace(1)
    pace.hold(3600.0)
    assert pace._opens == 1060.0
    pace.hold(1.0)
    assert pace._opens == 1060.0


def test_backoff_is_spread_over_a_growing_span():
    first, late = [backoff(1) for _ in range(300)], [backoff(50) for _ in range(300)]
    assert 0 <= min(first) < 0.2 < 0.8 < max(first) <= 1.0  # 0.5 s doubled once
    assert 0 <= min(late) < 5 < 25 < max(late) <= 30.0


def test_the_fake_plays_its_script_through_a_ledger():
    fake = FakeLLM(["one", {"two": 2}, Reply(text="three"), RateLimited("slow down")])
    ledger = MemoryLedger()

    assert get(fake, name="a", ledger=ledger).text == "one"
    assert get(fake, name="a", ledger=ledger).text == "one"
    assert get(fake, name="b", ledger=ledger).text == '{"two":2}'
    assert get(fake, name="c", ledger=ledger).text == "three"
    with pytest.raises(RateLimited):
        get(fake, name="d", ledger=ledger)
    with pytest.raises(BadSettings, match="was asked 5 times and knows 4 replies"):
        get(fake, name="e", ledger=ledger)
    assert [asked.call.id for asked in fake.calls] == ["a", "b", "c", "d", "e"]


def test_the_fake_may_answer_by_a_function_of_the_messages():
    fake = FakeLLM(lambda messages: messages[-1]["content"].upper(), model="echo")

    assert get(fake, "hi").text == "HI"
    assert fake.settings["model"] == "echo"


def test_the_ledger_in_memory_is_a_ledger():
    assert isinstance(MemoryLedger(), Ledger)
