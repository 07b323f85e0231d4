"""How the tests of the language model ask it: one short call, through a ledger in memory."""

import asyncio

import provider as play
from ragassay.core.protocols import Call
from ragassay.llm import LLM
from ragassay.llm.journal import MemoryLedger

SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
HELLO = play.says("hello")
OBJECT = play.says("{}")


def call(name="c1"):
    return Call(id=name, content=f"content of {name}", purpose="judge")


def llm(provider, name="gpt-4o-mini", **options):
    return LLM(name, api_base=provider.url, **{"timeout_s": 10, **options})


async def ask(llm, text="hi", name="c1", ledger=None, schema=None, max_tokens=50):
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": text}]
    ledger = ledger or MemoryLedger()
    return await llm.complete(messages, schema=schema, max_tokens=max_tokens, call=call(name), ledger=ledger)


def reply_of(*args, **kwargs):
    return asyncio.run(ask(*args, **kwargs))
