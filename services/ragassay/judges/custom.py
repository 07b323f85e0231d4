"""Custom judges: a function that fills the form of a verdict for one sample, or a class with the protocol ``Judge``.

What they do wrong costs the row that it is about, with the reason; the form is checked as a language model's reply is.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, overload

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


class RegisteredJudge(NamedTuple):
    """A judge by its name: a function, or a class or object with a method ``judge``."""

    name: str
    declared: Any


JUDGES: Registry[RegisteredJudge] = Registry("judge", adopt=lambda thing: _registered(thing))


@overload
def judge(thing: T, /) -> T: ...
@overload
def judge(*, name: str | None = None) -> Callable[[T], T]: ...
def judge(thing: Any = None, /, *, name: str | None = None) -> Any:
    """Register a custom judge: ``@judge`` or ``@judge(name="strict")``; then name it by ``judge: strict``.

    A function takes a ``Sample`` and its ``Units`` and returns the form that a language model fills: ``answer`` and
    ``facts`` with an entry for each unit's id, ``relevance``, ``refusal``, ``why``. It may be async. A class or object
    has ``judge(samples, journal)``, which returns a ``Rating`` for each sample. Raises BadSettings for what is neither.
    """

    def register(thing: T) -> T:
        declared = _declared(thing, name)
        JUDGES.add(declared.name, declared)
        return thing

    return register if thing is None else register(thing)


def judge_name(thing: object) -> str:
    """The name of a judge: a name itself, or that of a function, class or object, registered if it is not yet."""
    return thing if isinstance(thing, str) else _registered(thing).name


def _registered(thing: object) -> RegisteredJudge:
    declared = next((one for one in JUDGES.registered() if one.declared is thing), None) or _declared(thing, None)
    JUDGES.add(declared.name, declared)
    return declared


def _declared(thing: Any, name: str | None) -> RegisteredJudge:
    names = (name, getattr(thing, "name", None), getattr(thing, "__name__", None))
    name = next((one for one in names if one and isinstance(one, str)), type(thing).__name__)
    where = f"judge {name!r}"
    if not _NAME.fullmatch(name) or name.lower() == "local":
        raise BadSettings(f"{where}: a name is letters, digits, _ . and -, and not local", hint="say it: name='strict'")
    if inspect.isroutine(thing):
        if len(inspect.signature(thing).parameters) != 2:
            raise BadSettings(f"{where}: takes a sample and its units", hint="write: def own(sample, units)")
    elif not callable(getattr(thing, "judge", None)):
        hint = "write: def judge(self, samples, journal)"
        raise BadSettings(f"{where}: is no function and has no method judge", hint=hint)
    return RegisteredJudge(name, thing)


class CustomJudge:
    """A registered judge at work. ``at_once`` rows of an async function wait together, ``timeout_s`` each."""

    def __init__(
        self, registered: RegisteredJudge, *, criteria: Iterable[str] = (), at_once: int = 8, timeout_s: float = 60.0
    ) -> None:
        self.name, self._judge = registered
        self._criteria, self._is_function = tuple(criteria), inspect.isroutine(self._judge)
        self._is_async = inspect.iscoroutinefunction(self._judge)
        self._slots, self._timeout_s = Slots(at_once if self._is_async else 1), timeout_s if self._is_async else None
        if isinstance(self._judge, type):
            try:
                self._judge = self._judge()
            except Exception as error:  # the user's code
                what = f"judge {self.name!r} can't be made: {class_and_reason(error)}"
                raise BadSettings(what, hint="register an object, not the class") from error

    @property
    def settings(self) -> Mapping[str, Any]:
        """Module, name and digest of its code, and the attribute ``settings`` of a class or object."""
        code = self._judge if self._is_function else type(self._judge)
        own = {} if self._is_function else getattr(self._judge, "settings", {})
        about = {"code": f"{code.__module__}:{code.__qualname__}", "digest": digest_of_code(code)[:12]}
        return {"judge": "own", **about, **(orjson.loads(orjson.dumps(dict(own), default=str)))}

    async def judge(self, samples: Sequence[Sample], journal: Journal) -> list[Rating]:
        """One rating for each sample, in order. BudgetReached and ProviderDown of a class pass through."""
        if isinstance(journal, CostEstimator):
            return [Rating(reason="an estimate asks nobody") for _ in samples]
        if self._is_function:
            return await together([self._of_function(sample) for sample in samples])
        try:
            ratings = self._judge.judge(samples, journal)
            ratings = list(await ratings if inspect.isawaitable(ratings) else ratings)
        except (BudgetReached, ProviderDown):
            raise
        except Exception as error:  # the user's code
            return [self._failed(f"raised {class_and_reason(error)}") for _ in samples]
        if len(ratings) != len(samples):
            return [self._failed(f"gave {len(ratings)} ratings for {len(samples)} rows") for _ in samples]
        return [self._checked(one, sample) for one, sample in zip(ratings, samples, strict=True)]

    async def _of_function(self, sample: Sample) -> Rating:
        units = number_units(sample, self._criteria)
        async with self._slots.slot():
            clock = asyncio.timeout(self._timeout_s)
            try:
                async with clock:
                    called = self._judge if self._is_async else lambda *of: asyncio.to_thread(self._judge, *of)
                    return self._read(await called(sample, units), units)
            except Exception as error:  # the user's code
                expired = f"gave no verdict within {self._timeout_s:g} s" if clock.expired() else None
                return self._failed(expired or f"raised {class_and_reason(error)}")

    def _read(self, reply: object, units: Units) -> Rating:
        if not isinstance(reply, Mapping):
            return self._failed(f"returned {_described(reply)}, not an object")
        if unknown := next((key for key in reply if key not in _KEYS), None):
            return self._failed(f"returned an unknown key {shown(unknown)}; {suggestion(str(unknown), _KEYS)}")
        form = orjson.loads(orjson.dumps(dict(reply)))
        return Rating(verdict=check_verdict(parse_reply(form, units), units, self.name))

    def _checked(self, rating: object, sample: Sample) -> Rating:
        """A rating whose verdict has every unit of the sample, and no other."""
        if not isinstance(rating, Rating):
            return self._failed(f"gave {_described(rating)}, not a Rating")
        if rating.verdict is None:
            return rating.model_copy(update={"reason": rating.reason or self._failed("gave no verdict").reason})
        units = number_units(sample, self._criteria)
        verdict = check_verdict(rating.verdict.model_copy(update={"probability": {}}), units, self.name)
        return rating.model_copy(update={"verdict": verdict})

    def _failed(self, what: str) -> Rating:
        return Rating(reason=f"the judge {self.name} {what}")


def _described(value: object) -> str:
    return shown(value) if value is None or isinstance(value, str) else f"a {type(value).__name__}"
