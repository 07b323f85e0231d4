"""What a provider does not take of what it is asked: found out with few requests, remembered, and never a failed row."""

import asyncio
import logging
import random
from collections import Counter

import pytest

import provider as play
from llm_calls import OBJECT, SCHEMA, ask, llm, reply_of
from provider import Answer, Provider
from ragassay.errors import BadInput, Unavailable
from ragassay.ledger import BudgetLedger, MemoryLedger
from ragassay.llm import model, negotiation
from ragassay.llm.failures import Failure
from ragassay.llm.library import normalised
from ragassay.llm.negotiation import FORMS
from ragassay.models import Usage
from ragassay.specification import Budget


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(model, "backoff", lambda tries: 0.0)


def forms(provider):
    return [play.form(seen) for seen in provider.log]


def asked_twice(provider, **options):
    judge = llm(provider, **options)
    return judge, [reply_of(judge, name=name, schema=SCHEMA) for name in ("c1", "c2")]


@pytest.mark.parametrize("taken", FORMS)
def test_a_provider_is_asked_in_the_first_form_that_it_takes_and_later_calls_know_it(taken):
    with Provider(then=play.takes(taken)) as provider:
        judge, (first, second) = asked_twice(provider)

    place = FORMS.index(taken)
    assert forms(provider) == [*FORMS[: place + 1], taken]
    assert judge.response_format == taken
    assert first.text.startswith("{")
    assert first.waste == Usage(retries=place)
    assert second.waste == Usage()
    assert first.left_out == second.left_out == ((f"json_schema ({taken} instead)",) if place else ())


def test_each_form_carries_the_schema_in_the_way_that_providers_read_it():
    with Provider(then=play.takes("prompt")) as provider:
        reply_of(llm(provider), schema=SCHEMA)

    schema, constrained, plain, tool, _ = provider.log
    assert schema.body["response_format"]["json_schema"] == {"name": "reply", "strict": True, "schema": SCHEMA}
    assert constrained.body["response_format"] == {"type": "json_object", "schema": SCHEMA}
    assert plain.body["response_format"] == {"type": "json_object"}
    assert tool.body["tools"][0]["function"]["parameters"] == SCHEMA
    assert tool.body["tool_choice"] == {"type": "function", "function": {"name": "reply"}}
    assert ['"additionalProperties":false' in seen.system for seen in provider.log] == [False, True, True, False, True]


LLAMA_CPP = (
    "[{'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text' or "
    "'json_object'\", 'input': 'json_schema'}]"
)


def test_a_500_that_names_the_form_is_its_refusal_and_no_failure_of_the_provider():
    takes = play.takes("json_object with schema", refusal=play.status(500, message=LLAMA_CPP))
    with Provider(then=takes) as provider:
        _, (first, _) = asked_twice(provider, attempts=1)

    assert forms(provider) == ["json_schema", "json_object with schema", "json_object with schema"]
    assert first.waste == Usage(retries=1)


@pytest.mark.parametrize("code", [400, 422, 500, 501])
def test_a_form_that_fails_without_a_word_gets_a_second_chance_and_then_no_more(code):
    with Provider(then=play.takes("json_object", refusal=play.status(code, message="no"))) as provider:
        judge, replies = asked_twice(provider, attempts=1)
        replies += [reply_of(judge, name=name, schema=SCHEMA) for name in ("c3", "c4")]

    search, chance, later = FORMS[:3], ("json_schema", "json_object"), ("json_object",) * 2
    assert forms(provider) == [*search, *chance, *later]
    assert [reply.waste.retries for reply in replies] == [2, 1, 0, 0]
    assert judge.response_format == "json_object"


def test_one_passing_failure_at_the_start_does_not_cost_the_form():
    with Provider([play.status(500)], then=OBJECT) as provider:
        judge, (first, second) = asked_twice(provider)
        third = reply_of(judge, name="c3", schema=SCHEMA)

    assert forms(provider) == ["json_schema", "json_object with schema", "json_schema", "json_schema"]
    assert first.left_out == ("json_schema (json_object with schema instead)",)
    assert second.left_out == third.left_out == ()


@pytest.mark.parametrize("calls", [1, 16])
@pytest.mark.parametrize("taken", FORMS[:2])
def test_a_passing_failure_of_the_one_form_that_a_provider_takes_costs_no_row(taken, calls):
    fails = iter([play.status(500)])
    takes = play.takes(taken)
    with Provider(then=lambda seen: next(fails, takes)(seen) if play.form(seen) == taken else takes(seen)) as provider:
        judge = llm(provider, concurrency=8)

        async def several():
            return await asyncio.gather(*(ask(judge, name=f"c{n}", schema=SCHEMA) for n in range(calls)))

        replies = asyncio.run(several())
        asked = forms(provider)
        last = reply_of(judge, name="last", schema=SCHEMA)

    assert [reply.text[0] for reply in replies] == ["{"] * calls
    assert judge.response_format == taken
    assert asked.count(taken) == calls + 1
    assert len(last.left_out) == FORMS.index(taken)


@pytest.mark.parametrize("calls", [1, 30])
@pytest.mark.parametrize("fault", [play.status(429), play.status(503)])
def test_a_search_that_an_outage_breaks_off_goes_on_with_the_next_call(fault, calls):
    silent, named = play.status(400), play.status(400, message="response_format.schema is not supported")
    at_last = iter([fault])

    def then(seen):
        if play.form(seen) == "json_object":
            return next(at_last, OBJECT)(seen)
        return (silent if play.form(seen) == "json_schema" else named)(seen)

    with Provider(then=then) as provider:
        judge = llm(provider, concurrency=8)

        async def several():
            return await asyncio.gather(*(ask(judge, name=f"c{n}", schema=SCHEMA) for n in range(calls)))

        replies = asyncio.run(several())

    assert [reply.text[0] for reply in replies] == ["{"] * calls
    assert judge.response_format == "json_object"
    assert forms(provider).count("json_object") == calls + 1


def test_searches_that_outages_break_off_are_not_counted():
    silent, limited = play.status(400), iter([play.status(429)] * 6)
    takes = play.takes(FORMS[1], refusal=silent)
    with Provider(
        then=lambda seen: next(limited, takes)(seen) if play.form(seen) == FORMS[1] else takes(seen)
    ) as provider:
        judge = llm(provider, attempts=10)
        replies = [reply_of(judge, name=f"c{n}", schema=SCHEMA) for n in range(3)]

    assert [reply.text[0] for reply in replies] == ["{"] * 3
    assert judge.response_format == FORMS[1]


def test_a_provider_that_names_every_form_is_asked_in_all_of_them_once_and_once_more_and_then_in_one():
    with Provider(then=play.status(400, message="response_format is not supported")) as provider:
        judge = llm(provider, attempts=1)
        asked = []
        for n in range(5):
            before = len(provider.log)
            with pytest.raises(BadInput):
                reply_of(judge, name=f"c{n}", schema=SCHEMA)
            asked.append(len(provider.log) - before)

    assert asked == [5, 5, 1, 1, 1]


def test_whatever_a_provider_takes_and_however_it_refuses_a_few_passing_failures_do_not_cost_it(monkeypatch):
    """As seen by the rows afterwards: one of the first calls may be lost, later ones are answered."""
    monkeypatch.setattr(negotiation, "_LOOK_AGAIN_S", 0.0)
    silent, named = (Failure(BadInput("no"), format_refused=by_name, doubtful=True) for by_name in (False, True))
    passing = [Failure(Unavailable("it failed"), True, doubtful=doubtful) for doubtful in (False, True)]
    draw = random.Random(5)

    async def call(terms_of, answer):
        for _ in range(5):
            terms = await terms_of.terms(structured=True)
            for _ in range(20):
                await asyncio.sleep(0)
                if (failure := answer(terms.form)) is None:
                    terms_of.answered(terms, usable=True)
                    return True
                await terms_of.searched(terms, failure)
                if not terms_of.other_terms(terms, failure):
                    break
            else:
                pytest.fail("one call was made in twenty forms")
            if not failure.retryable:
                return False
        return False

    async def life():
        taken = draw.sample(range(len(FORMS)), draw.randint(1, 2))
        refusals = [draw.choice((silent, named)) for _ in FORMS]
        faults = [draw.choice(passing) for _ in range(draw.randint(0, 3))]

        def answer(form):
            if faults and draw.random() < 0.5:
                return faults.pop()
            return None if form in taken else refusals[form]

        terms_of = negotiation.Negotiation("m")
        await asyncio.gather(*(call(terms_of, answer) for _ in range(draw.choice((1, 3, 8)))))
        faults.clear()
        terms_of._search_from = 0.0  # half a minute later
        return [await call(terms_of, answer) for _ in range(10)]

    for number in range(300):
        later = asyncio.run(asyncio.wait_for(life(), 10))
        assert sum(later) >= 9, number


@pytest.mark.parametrize("fault", [play.status(429), play.status(502), play.status(503), play.reset, play.empty])
def test_a_failure_that_is_an_outage_says_nothing_about_the_form(fault):
    with Provider([fault, fault], then=OBJECT) as provider:
        reply_of(llm(provider), schema=SCHEMA)

    assert forms(provider) == ["json_schema"] * 3


def test_a_provider_that_fails_in_every_form_is_searched_once_and_then_fails_like_any_other():
    with Provider(then=play.status(500)) as provider:
        judge = llm(provider, attempts=3)
        for name in ("c1", "c2"):
            with pytest.raises(Unavailable):
                reply_of(judge, name=name, schema=SCHEMA)
        failing = forms(provider)
        provider.then = OBJECT
        judge._refused = None  # the outage that the calls have found
        assert reply_of(judge, name="c3", schema=SCHEMA).left_out == ()

    assert failing[:7] == [*FORMS, "json_schema", "json_schema"]  # the search; two more attempts
    assert set(failing[7:]) == {"json_schema"}
    assert len(failing) <= 4 + 2 * 3


def test_calls_that_fail_together_are_searched_for_by_one_of_them():
    with Provider(then=play.status(500), latency_s=0.1) as provider:
        judge = llm(provider, concurrency=8, attempts=1)

        async def several():
            calls = (ask(judge, name=f"c{n}", schema=SCHEMA) for n in range(16))
            return await asyncio.gather(*calls, return_exceptions=True)

        assert all(isinstance(outcome, Unavailable) for outcome in asyncio.run(several()))

    asked = forms(provider)
    assert asked.count("json_schema") <= 4 + 8  # the first, and those that were under way when the outage was found
    assert len(asked) == asked.count("json_schema") + len(FORMS) - 1


def test_a_search_that_is_given_up_holds_no_later_call():
    with Provider([play.status(500), play.hang], then=play.status(500)) as provider:
        judge = llm(provider, attempts=1, timeout_s=30)

        async def given_up():
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await ask(judge, schema=SCHEMA)
            provider.then = OBJECT
            return await ask(judge, name="c2", schema=SCHEMA)

        assert asyncio.run(given_up()).left_out == ()


def test_searches_are_bounded_however_long_a_provider_fails(monkeypatch):
    monkeypatch.setattr(negotiation, "_SEARCH_AGAIN_S", 0.0)
    with Provider(then=play.status(400, message="no")) as provider:
        judge = llm(provider)
        for n in range(10):
            with pytest.raises(BadInput):
                reply_of(judge, name=f"c{n}", schema=SCHEMA)

    assert len(provider.log) == 10 + 4 * (len(FORMS) - 1)


def test_a_call_waits_for_no_search_for_ever(monkeypatch):
    """The searching call may wait for the budget that those who wait for it have reserved."""
    monkeypatch.setattr(negotiation, "_SEARCH_AGAIN_S", 0.1)
    terms_of, failure = negotiation.Negotiation("m"), Failure(BadInput("no"), doubtful=True)

    async def waits():
        searching, waiting = [await terms_of.terms(structured=True) for _ in range(2)]
        assert terms_of.other_terms(searching, failure)
        await asyncio.wait_for(terms_of.searched(waiting, failure), 10)
        assert terms_of.other_terms(waiting, failure)
        return searching.form, waiting.form

    assert asyncio.run(waits()) == (1, 1)


def test_what_was_answered_once_is_not_doubted_again():
    refuses = play.status(400, message="json_schema: this text can't be answered")
    with Provider([OBJECT, refuses], then=OBJECT) as provider:
        judge = llm(provider)
        reply_of(judge, schema=SCHEMA)
        with pytest.raises(BadInput, match="can't be answered"):
            reply_of(judge, name="c2", schema=SCHEMA)

    assert forms(provider) == ["json_schema"] * 2


@pytest.mark.parametrize("text", ["", "I think that the answer is right."])
def test_a_paid_reply_without_an_object_counts_and_the_call_is_made_in_the_next_form(text):
    ledger = BudgetLedger(MemoryLedger(), Budget(tokens=100_000), Usage())
    with Provider(then=play.takes("json_object", refusal=play.says(text))) as provider:
        reply = reply_of(llm(provider), schema=SCHEMA, ledger=ledger)

    assert forms(provider) == list(FORMS[:3])
    billed = [play.tokens(seen, Answer(text)) for seen in provider.log[:2]]
    billed.append((reply.usage.input_tokens, reply.usage.output_tokens))
    assert ledger.spent.input_tokens + ledger.spent.output_tokens == sum(map(sum, billed))
    assert reply.waste.retries == 2


def test_a_reply_that_was_cut_off_says_nothing_about_the_form():
    with Provider(then=play.says("", "length")) as provider:
        reply = reply_of(llm(provider), schema=SCHEMA)

    assert forms(provider) == ["json_schema"]
    assert reply.finish_reason == "length"


def test_calls_at_once_let_the_first_sixteen_find_out_for_all():
    with Provider(then=play.takes("json_object"), latency_s=0.02) as provider:
        judge = llm(provider, concurrency=32)

        async def several():
            await asyncio.gather(*(ask(judge, name=f"c{n}", schema=SCHEMA) for n in range(40)))

        asyncio.run(several())

    refused = Counter(form for form in forms(provider) if form != "json_object")
    assert set(refused) == set(FORMS[:2])
    assert max(refused.values()) <= 16
    assert forms(provider).count("json_object") == 40
    assert provider.peak > 1


def test_calls_that_are_refused_at_the_same_time_go_on_together(monkeypatch):
    monkeypatch.setattr(negotiation, "_FIRST_S", 0.0)
    with Provider(then=play.takes("json_object")) as provider:
        judge = llm(provider, concurrency=8)

        async def several():
            await asyncio.gather(*(ask(judge, name=f"c{n}", schema=SCHEMA) for n in range(8)))

        asyncio.run(several())
    assert forms(provider).count("json_object") == 8


def test_calls_that_do_not_wait_for_a_slow_search_join_it_in_the_form_that_it_is_at(monkeypatch):
    monkeypatch.setattr(negotiation, "_FIRST_S", 0.1)
    with Provider(then=play.takes("json_object", refusal=play.status(500, message="no")), latency_s=0.5) as provider:
        judge = llm(provider, concurrency=8, attempts=1)

        async def several():
            await asyncio.gather(*(ask(judge, name=f"c{n}", schema=SCHEMA) for n in range(16)))

        asyncio.run(several())

    asked = forms(provider)
    assert asked.count("json_schema") <= 8 + 1  # those that began together, and the second chance
    assert asked.count("json_object") == 16
    assert set(asked) == set(FORMS[:3])


def test_a_first_call_that_hangs_does_not_hold_the_others_for_long(monkeypatch):
    monkeypatch.setattr(negotiation, "_FIRST_S", 0.1)
    with Provider([play.hang], then=OBJECT) as provider:
        judge = llm(provider, timeout_s=2, attempts=2)

        async def several():
            await asyncio.gather(*(ask(judge, name=f"c{n}", schema=SCHEMA) for n in range(4)))

        asyncio.run(several())
        assert max(seen.t for seen in provider.log[:4]) - provider.log[0].t < 1.5


PARAMETERS = [("temperature", {}), ("seed", {}), ("top_k", {"top_k": 5}), ("thinking", {"extra_body": {"thinking": 1}})]


@pytest.mark.parametrize(("name", "given"), PARAMETERS)
@pytest.mark.parametrize("words", ["openai", "others"])
def test_a_parameter_that_is_refused_is_left_out_once_for_all_and_told_once(name, given, words, caplog):
    def by_words(seen):
        return Answer(status=422, message=f"Unknown key {name}") if name in seen.body else OBJECT(seen)

    refuses = by_words if words == "others" else play.refuses(name, then=OBJECT)
    with Provider(then=refuses) as provider:
        judge, (first, second) = asked_twice(provider, parameters=given)
        settings = judge.settings

    assert [name in seen.body for seen in provider.log] == [True, False, False]
    assert forms(provider) == ["json_schema"] * 3
    assert first.left_out == second.left_out == (name,)
    assert first.waste == Usage(retries=1)
    assert [r.message for r in caplog.records if r.levelno == logging.WARNING and r.name.startswith("ragassay")] == [
        f"gpt-4o-mini: the provider does not take {name}; it is left out from now on"
    ]
    assert settings == llm(provider, parameters=given).settings  # the call's name in the cache stays what it was


def test_the_limit_of_a_reply_goes_by_its_other_name_where_the_first_is_refused():
    with Provider(then=play.refuses("max_tokens", then=OBJECT)) as provider:
        reply_of(llm(provider, "some-new-model"), schema=SCHEMA, max_tokens=50)

    assert "max_completion_tokens" not in provider.log[0].body
    assert provider.log[1].body["max_completion_tokens"] == 50


def test_a_refusal_that_only_quotes_a_row_costs_that_row_and_no_parameter():
    def quotes(seen):
        if "boiling" in seen.user:
            return Answer(status=400, message=f"invalid request, flagged: {seen.user}")
        return OBJECT(seen)

    with Provider(then=quotes) as provider:
        judge = llm(provider)
        reply_of(judge, schema=SCHEMA)
        with pytest.raises(BadInput, match="flagged"):
            reply_of(judge, "the boiling temperature", name="c2", schema=SCHEMA)
        assert reply_of(judge, name="c3", schema=SCHEMA).left_out == ()

    assert [seen.body.get("temperature") for seen in provider.log] == [0, 0, None, 0]


def test_an_answer_without_a_form_loses_a_refused_parameter_too():
    with Provider(then=play.refuses("temperature", then=play.says("hello"))) as provider:
        assert reply_of(llm(provider)).left_out == ("temperature",)


@pytest.mark.parametrize(
    ("written", "same_as"),
    [
        ("HTTP://Example.org:80/v1/", "http://example.org/v1"),
        ("https://me:secret@example.org:443/v1?key=secret#x", "https://example.org/v1"),
        ("127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("http://me:secret@host:port/v1/", "host:port/v1"),
        ("", ""),
    ],
)
def test_an_address_has_one_spelling_and_holds_no_secret(written, same_as):
    assert normalised(written) == same_as


def test_an_address_in_the_providers_own_variable_counts(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://one.example/v1/")
    assert model.LLM("gpt-4o-mini").endpoint == "http://one.example/v1"
    assert model.LLM("gpt-4o-mini", api_base="http://two.example").endpoint == "http://two.example"
