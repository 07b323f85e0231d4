"""How the tests of the language model ask it: one short call, through a journal in memory."""

import asyncio

import provider as play
from ragassay.core.models import Usage
from ragassay.core.protocols import Call
from ragassay.llm import LLM
from ragassay.llm.journal import MemoryJournal

SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
HELLO = play.says("hello")
OBJECT = play.says("{}")


def call(name="c1"):
    return Call(id=name, content=f"content of {name}", purpose="judge")


def llm(provider, name="gpt-4o-mini", **options):
    return LLM(name, api_base=provider.url, **{"timeout_s": 10, **options})


class Account:
    """Adds up what calls without a reply have spent."""

    def __init__(self):
        self.lost = Usage()

    def wasted(self, usage):
        self.lost += usage


async def ask(llm, text="hi", name="c1", journal=None, schema=None, max_tokens=50, account=None):
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": text}]
    journal = journal or MemoryJournal()
    asked = {"schema": schema, "max_tokens": max_tokens, "call": call(name), "read": text_of}
    reply, _ = await llm.complete(
        messages, **asked, journal=journal, wasted=account.wasted if account else lambda _: None
    )
    return reply


def text_of(reply):
    return reply.text


def reply_of(*args, **kwargs):
    return asyncio.run(ask(*args, **kwargs))
