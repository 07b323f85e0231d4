"""Judges of one's own: a function that fills the form of a verdict for one sample, or a class with the protocol ``Judge``.

What they do wrong costs the row that it is about, with the reason; the form is checked as a language model's reply is.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import orjson

from ragassay.core.aio import Slots, together
from ragassay.core.errors import BadSettings, BudgetReached, ProviderDown, class_and_reason
from ragassay.core.models import Rating, Sample
from ragassay.core.plugins import Registry, digest_of_code
from ragassay.core.protocols import Journal
from ragassay.core.validation import shown, suggestion
from ragassay.judges.reply import CriteriaForm, parse_reply
from ragassay.judges.verdict import Units, check_verdict, number_units
from ragassay.llm.journal import CostEstimator

T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
_KEYS = tuple(CriteriaForm.model_fields)


@dataclass(frozen=True)
class RegisteredJudge:
    """A judge by its name: what was registered, which is a function, or a class or object with a method ``judge``."""

    name: str
    declared: Any

    @property
    def is_function(self) -> bool:
        """Does it judge one sample at a time?"""
        return inspect.isroutine(self.declared)


JUDGES: Registry[RegisteredJudge] = Registry("judge", adopt=lambda thing: _registered(thing))


@overload
def judge(thing: T, /) -> T: ...
@overload
def judge(*, name: str | None = None) -> Callable[[T], T]: ...
def judge(thing: Any = None, /, *, name: str | None = None) -> Any:
    """Register a judge of one's own: ``@judge`` or ``@judge(name="strict")``; then ``judge: strict`` asks it.

    A function takes a ``Sample`` and its ``Units`` and returns the form that a language model fills: ``answer`` and
    ``facts`` with an entry for each unit's id, ``relevance``, ``refusal``, ``why``. It may be async. A class or object
    has ``judge(samples, journal)``, which returns a ``Rating`` for each sample. Raises BadSettings for what is neither.
    """

    def register(thing: T) -> T:
        made = _declared(thing, name)
        JUDGES.add(made.name, made)
        return thing

    return register if thing is None else register(thing)


def judge_name(thing: object) -> str:
    """The name that means a judge: a name itself, or that of a function, class or object, registered if it is not yet."""
    return thing if isinstance(thing, str) else _registered(thing).name


def _registered(thing: object) -> RegisteredJudge:
    known = next((one for one in JUDGES.registered() if one.declared is thing), None)
    if known is None:
        judge(thing)
        known = next(one for one in JUDGES.registered() if one.declared is thing)
    return known


def _declared(thing: Any, name: str | None) -> RegisteredJudge:
    names = (name, getattr(thing, "name", None), getattr(thing, "__name__", None))
    called = next((one for one in names if one and isinstance(one, str)), type(thing).__name__)
    where = f"judge {called!r}"
    if not _NAME.fullmatch(called) or called.lower() == "local":
        raise BadSettings(f"{where}: a name is letters, digits, _ . and -, and not local", hint="say it: name='strict'")
    if inspect.isroutine(thing):
        if len(inspect.signature(thing).parameters) != 2:
            raise BadSettings(f"{where}: takes a sample and its units", hint="write: def own(sample, units)")
    elif not callable(getattr(thing, "judge", None)):
        raise BadSettings(
            f"{where}: is no function and has no method judge", hint="write: def judge(self, samples, journal)"
        )
    return RegisteredJudge(called, thing)


class OwnJudge:
    """A registered judge at work. ``at_once`` rows of an async function wait together, ``timeout_s`` each.

    Used from several event loops, each has ``at_once`` of its own.
    """

    def __init__(
        self, registered: RegisteredJudge, *, criteria: Iterable[str] = (), at_once: int = 8, timeout_s: float = 60.0
    ) -> None:
        self._registered, self._criteria = registered, tuple(criteria)
        self._slots, self._timeout_s = Slots(at_once), timeout_s
        self._thing = registered.declared
        if isinstance(self._thing, type):
            try:
                self._thing = self._thing()
            except Exception as error:  # the user's code
                what = f"judge {self.name!r} can't be made: {class_and_reason(error)}"
                raise BadSettings(what, hint="register an object, not the class") from error

    @property
    def name(self) -> str:
        """The name that it is registered under."""
        return self._registered.name

    @property
    def settings(self) -> Mapping[str, Any]:
        """Where its code is and the digest of that, and what a class or object says of itself under ``settings``."""
        thing = self._registered.declared if self._registered.is_function else type(self._thing)
        own = {} if self._registered.is_function else getattr(self._thing, "settings", {})
        code = {"code": f"{thing.__module__}:{thing.__qualname__}", "digest": digest_of_code(thing)[:12]}
        return {"judge": "own", **code, **(orjson.loads(orjson.dumps(dict(own), default=str)))}

    async def judge(self, samples: Sequence[Sample], journal: Journal) -> list[Rating]:
        """One rating for each sample, in order. BudgetReached and ProviderDown of a class pass through."""
        if isinstance(journal, CostEstimator):
            return [Rating(reason="an estimate asks nobody") for _ in samples]
        if not self._registered.is_function:
            return await self._of_all(samples, journal)
        if inspect.iscoroutinefunction(self._thing):
            return await together([self._of_one(sample) for sample in samples])
        return [await asyncio.to_thread(self._called, sample) for sample in samples]

    def _called(self, sample: Sample) -> Rating:
        units = number_units(sample, self._criteria)
        try:
            return self._read(self._thing(sample, units), units)
        except Exception as error:  # the user's code: any error is the row's reason
            return self._failed(error)

    async def _of_one(self, sample: Sample) -> Rating:
        units = number_units(sample, self._criteria)
        async with self._slots.slot():
            clock = asyncio.timeout(self._timeout_s)
            try:
                async with clock:
                    reply = await self._thing(sample, units)
                return self._read(reply, units)
            except (Exception, asyncio.CancelledError) as error:
                task = asyncio.current_task()
                if task and task.cancelling():
                    raise
                if clock.expired():
                    return Rating(reason=f"the judge {self.name} gave no verdict within {self._timeout_s:g} s")
                return self._failed(error)

    async def _of_all(self, samples: Sequence[Sample], journal: Journal) -> list[Rating]:
        try:
            given = self._thing.judge(samples, journal)
            given = await given if inspect.isawaitable(given) else given
            given = list(given)
        except (BudgetReached, ProviderDown):
            raise
        except Exception as error:
            return [self._failed(error) for _ in samples]
        if len(given) != len(samples):
            what = f"the judge {self.name} gave {len(given)} ratings for {len(samples)} rows"
            return [Rating(reason=what) for _ in samples]
        return [self._checked(one, sample) for one, sample in zip(given, samples, strict=True)]

    def _checked(self, given: object, sample: Sample) -> Rating:
        """A rating whose verdict has every unit of the sample, whatever the judge left out of it or put into it."""
        if not isinstance(given, Rating):
            return Rating(reason=f"the judge {self.name} gave {_described(given)}, not a Rating")
        if given.verdict is None:
            return (
                given if given.reason else given.model_copy(update={"reason": f"the judge {self.name} gave no verdict"})
            )
        units = number_units(sample, self._criteria)
        return given.model_copy(
            update={"verdict": check_verdict(given.verdict.model_copy(update={"probability": {}}), units, self.name)}
        )

    def _read(self, reply: object, units: Units) -> Rating:
        """The rating in what a function returned."""
        if not isinstance(reply, Mapping):
            return Rating(reason=f"the judge {self.name} returned {_described(reply)}, not an object")
        if unknown := next((key for key in reply if key not in _KEYS), None):
            hint = suggestion(str(unknown), _KEYS)
            return Rating(reason=f"the judge {self.name} returned an unknown key {shown(unknown)}; {hint}")
        form = orjson.loads(orjson.dumps(dict(reply)))
        return Rating(verdict=check_verdict(parse_reply(form, units), units, self.name))

    def _failed(self, error: BaseException) -> Rating:
        return Rating(reason=f"the judge {self.name} raised {class_and_reason(error)}")


def _described(value: object) -> str:
    return shown(value) if value is None or isinstance(value, str) else f"a {type(value).__name__}"
