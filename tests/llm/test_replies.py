"""Replies that are odd, and refusals of one call: what they cost is one row."""

import asyncio
import json

import pytest

import provider as play
from llm_calls import Account, ask, call, llm, reply_of
from provider import Answer, Provider
from ragassay.core.errors import BadInput, BadSettings, Unavailable
from ragassay.llm.journal import MemoryJournal

DENIED, FLAGGED = play.status(403, message="no access"), play.status(403, message="your input was flagged")


def choice(text, **more):
    return {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop", **more}


def escaped(text):
    """A reply whose body has the text in escapes of JSON."""
    body = json.loads(play.raw(choices=[choice("TEXT")])(None).raw)
    return lambda seen: Answer(raw=json.dumps(body).replace("TEXT", text).encode())


@pytest.mark.parametrize(
    ("text", "read"), [(r"a\ud800b", "a\ufffdb"), (r"\ud83d\ude00", "\U0001f600"), (r"\udc00", "\ufffd")]
)
def test_half_a_surrogate_pair_in_a_reply_is_replaced(text, read):
    journal = MemoryJournal()
    with Provider(then=escaped(text)) as provider:
        reply = reply_of(llm(provider), journal=journal)
    assert reply.text == read
    assert reply.model_dump_json()
    assert journal.settled["c1"].usage.input_tokens == 10


@pytest.mark.parametrize("changes", [{"choices": []}, {"choices": None}, {"choices": [{"index": 0}]}])
def test_a_reply_without_a_message_says_so(changes):
    account = Account()
    with Provider(then=play.raw(**changes)) as provider, pytest.raises(Unavailable) as raised:
        reply_of(llm(provider, attempts=1), account=account)
    assert "has no message" in str(raised.value) or "no usable answer" in str(raised.value)
    assert "index out of range" not in str(raised.value)
    assert account.lost.uncertain_calls == 1


def test_a_denied_call_after_a_reply_is_that_calls_affair():
    with Provider([play.says("ok"), DENIED, DENIED, DENIED, DENIED], then=play.says("ok")) as provider:
        model = llm(provider)

        async def several():
            return [await asyncio.gather(ask(model, name=f"c{n}"), return_exceptions=True) for n in range(6)]

        outcomes = [type(outcome) for (outcome,) in asyncio.run(several())]
    assert outcomes[1:5] == [BadInput] * 4
    assert BadInput not in (outcomes[0], outcomes[5])


def test_calls_that_are_all_denied_end_the_run():
    with Provider(then=DENIED) as provider:
        model = llm(provider)
        for name, error in (("c1", BadInput), ("c1", BadInput), ("c2", BadInput), ("c3", BadSettings)):
            with pytest.raises(error, match="denied access"):
                reply_of(model, name=name)


def test_prompts_that_moderation_flags_never_end_the_run():
    with Provider(then=FLAGGED) as provider:
        model = llm(provider)
        for n in range(5):
            with pytest.raises(BadInput, match="flagged"):
                reply_of(model, name=f"c{n}")


@pytest.mark.parametrize("value", [None, 0])
def test_a_reply_in_which_the_caller_finds_nothing_is_unreadable(value):
    journal, messages, parsed = MemoryJournal(), [{"role": "user", "content": "hi"}], []

    def read(reply):
        parsed.append(reply.text)
        return value

    async def twice(model):
        asked = {"max_tokens": 50, "call": call(), "journal": journal, "read": read}
        return [await model.complete(messages, **asked) for _ in "12"]

    with Provider(then=play.says("ok")) as provider:
        outcomes = asyncio.run(twice(llm(provider)))
    assert [(reply.unreadable, found) for reply, found in outcomes] == [(value is None, value)] * 2
    assert (len(provider.log), parsed) == (1, ["ok"] * 2)  # once for each call, a settled one too
