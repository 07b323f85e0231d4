"""How tests ask a system over HTTP: queries in, responses out, as the run driver would."""

import asyncio
import time

from ragassay.core.models import Message, Sample
from ragassay.llm.journal import MemoryJournal
from ragassay.systems.base import RequestTimer
from ragassay.systems.http import HttpClient, HttpConfig
from ragassay.systems.runner import JournaledSystem, LiveSystem, LoadController


def ask(queries, *, url, journal=None, ahead=False, **options):
    """The response to each query; ``ahead``: as a run in a folder asks, otherwise as a job does."""
    return respond(HttpConfig(kind="http", url=url, **options), queries, journal, ahead=ahead)


def respond(config, queries, journal=None, *, ahead=False, asks=None):
    """The same, with a configuration and a way of asking."""

    async def all_of_them():
        reached = asks or HttpClient(config, "systems.live")
        system = LiveSystem("live", LoadController(config, reached))
        journaled = JournaledSystem(system, journal or MemoryJournal())
        samples = [Sample(query_id=str(n), query=query, metadata={"user": 7}) for n, query in enumerate(queries)]
        try:
            if ahead:
                kept = {}
                await system.query_all(samples, lambda sample, response: kept.update({sample.query_id: response}))
                return [kept[sample.query_id] for sample in samples]
            return await asyncio.gather(*map(journaled.respond, samples))
        finally:
            await system.close()

    return asyncio.run(all_of_them())


TURNS = (Message(role="user", content="What does Free cost?"), Message(role="assistant", content="Nothing."))


async def answer_of(client, sample):
    """What a client makes of one sample."""
    try:
        now = time.perf_counter()
        return await client.ask(sample, RequestTimer(now, now + 10))
    finally:
        await client.close()
