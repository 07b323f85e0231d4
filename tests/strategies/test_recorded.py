"""Recorded responses are a system under test like any other."""

from __future__ import annotations

import asyncio

from ragassay.models import Response, Sample
from ragassay.protocols import Strategy
from ragassay.strategies.recorded import Recorded


def test_a_recorded_system_gives_the_response_under_the_query_id() -> None:
    system = Recorded("s", {"a": Response(answer="r")})
    assert isinstance(system, Strategy)
    assert system.name == "s"
    assert asyncio.run(system.respond(Sample(query_id="a", query="q"))) == Response(answer="r")


def test_a_query_without_a_recorded_response_has_none() -> None:
    system = Recorded("s", {"a": Response()})
    assert asyncio.run(system.respond(Sample(query_id="b", query="q"))) is None
    assert asyncio.run(system.respond(Sample(query_id="a", query="q"))) == Response()
