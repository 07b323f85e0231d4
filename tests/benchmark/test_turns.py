"""What a process does at the same time while systems are measured."""

import asyncio

import pytest

from ragassay.evaluation.turns import Turns
from ragassay.systems.builtin import BuiltIn


class Called:
    """Stands for a system that is called."""


class Rehearsal:
    """Remembers what went on beside what."""

    def __init__(self):
        self.turns, self.now, self.beside = Turns(), [], set()

    async def does(self, name, turn, seconds=0.005):
        async with turn:
            self.now.append(name)
            self.beside |= {frozenset((name, other)) for other in self.now if other != name}
            await asyncio.sleep(seconds)
            self.now.remove(name)

    def answering(self, name):
        system = object.__new__(BuiltIn) if name.startswith("built") else Called()
        return self.does(name, self.turns.answering(system))

    def computing(self, name):
        return self.does(name, self.turns.computing())


def test_a_built_in_system_is_alone_others_are_asked_beside_each_other_and_so_is_judging():
    async def everything():
        rehearsal = Rehearsal()
        await asyncio.gather(
            *(rehearsal.answering(name) for name in ("live 1", "built 1", "live 2", "built 2")),
            *(rehearsal.computing(name) for name in ("judging 1", "judging 2")),
            rehearsal.answering("live 3"),
        )
        return rehearsal.beside

    beside = asyncio.run(everything())
    assert {tuple(sorted(name[:4] for name in pair)) for pair in beside} == {("live", "live"), ("judg", "judg")}
    assert frozenset(("live 2", "live 3")) in beside  # who waits for the same kind goes in together


def test_nobody_waits_for_ever_while_others_keep_coming():
    async def everything():
        rehearsal, judged = Rehearsal(), []

        async def keeps_asking(name):
            while not judged:
                await rehearsal.answering(name)

        async def judges():
            await asyncio.sleep(0.01)
            await rehearsal.computing("judging")
            judged.append(True)

        await asyncio.wait_for(asyncio.gather(keeps_asking("live 1"), keeps_asking("live 2"), judges()), 10)

    asyncio.run(everything())


@pytest.mark.parametrize("when", ["waiting", "let in", "inside"])
def test_who_is_cancelled_gives_the_turn_away(when):
    async def everything():
        rehearsal = Rehearsal()
        first = asyncio.create_task(rehearsal.answering("built 1"))
        await asyncio.sleep(0)
        second = asyncio.create_task(rehearsal.answering("built 2"))
        await asyncio.sleep(0)
        if when == "let in":
            rehearsal.turns._leave()  # the first ends, and at the same moment
            rehearsal.turns._inside, rehearsal.turns._leave = 1, rehearsal.turns._leave
        if when == "inside":
            await first
            await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        if when != "let in":
            await first
        await asyncio.wait_for(rehearsal.computing("judging"), 10)

    asyncio.run(everything())
