"""Systems under test of one's own by name: a function of the query, or a class with ``respond``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar, overload

from pydantic import Field, ValidationError, model_validator

from ragassay.core.errors import BadSettings, class_and_reason
from ragassay.core.models import Response, Sample
from ragassay.core.plugins import Registry
from ragassay.systems.live import Asks, FunctionAsks, LiveOptions
from ragassay.systems.timing import Clock

T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
OURS = ("bm25", "dense", "hybrid", "http", "python", "openai")


SYSTEMS: Registry[Any] = Registry("system", adopt=lambda thing: _checked(thing, "system"), group="ragassay.systems")


@overload
def system(thing: T, /) -> T: ...
@overload
def system(*, name: str | None = None) -> Callable[[T], T]: ...
def system(thing: Any = None, /, *, name: str | None = None) -> Any:
    """Register a system of one's own: ``@system`` or ``@system(name="ours")``; then ``kind: ours`` evaluates it.

    A function takes the query and returns the answer, or an object with ``answer``, ``contexts``, ``retrieved_doc_ids``
    and what else a response has; sync or async. A class is made with the system's ``options`` and has
    ``respond(sample)``, which returns the same. Raises BadSettings for what is neither.
    """

    def register(thing: T) -> T:
        called = name or getattr(thing, "__name__", None)
        if not isinstance(called, str) or not _NAME.fullmatch(called) or called.lower() in OURS:
            what = f"system {called!r}: a name is letters, digits, _ and -, and none of {', '.join(OURS)}"
            raise BadSettings(what, hint="say it: name='ours'")
        SYSTEMS.add(called, _checked(thing, f"system {called!r}"))
        return thing

    return register if thing is None else register(thing)


def _checked(thing: object, where: str) -> object:
    if not callable(thing) or (isinstance(thing, type) and not callable(getattr(thing, "respond", None))):
        what = f"{where}: is no function, and no class with a method respond"
        raise BadSettings(what, hint="write: def respond(self, sample)")
    return thing


class RegisteredConfig(LiveOptions):
    """A system that is registered by a plug-in."""

    kind: Annotated[str, Field(description="the name that a plug-in registers it under")]
    options: dict[str, Any] = Field(default_factory=dict, description="what its function or class is given as keywords")

    @model_validator(mode="after")
    def _takes_the_options(self) -> RegisteredConfig:
        if self.kind in SYSTEMS:
            thing = SYSTEMS.get(self.kind)
            try:
                inspect.signature(thing).bind(*(() if isinstance(thing, type) else ("",)), **self.options)
            except TypeError as error:
                raise ValueError(f"{self.kind} does not take these options: {error}") from None
        return self


def is_registered(kind: object) -> bool:
    """Is it the kind of a system that a plug-in registers?"""
    return isinstance(kind, str) and kind not in OURS and kind in SYSTEMS


def is_name(system: object) -> bool:
    """Is it the name of a system that a plug-in registers, in the place of a file?"""
    return isinstance(system, Path) and system.name in SYSTEMS and not system.exists()


def by_name(system: Any) -> Any:
    """The system that a plug-in registers, where its name stands in the place of a file; anything else as it is.

    Raises BadSettings for one that needs options.
    """
    if not is_name(system):
        return system
    try:
        return RegisteredConfig(kind=system.name)
    except ValidationError as error:
        what = str(error.errors()[0]["ctx"]["error"])
        raise BadSettings(what, hint=f"write them into a file: {{kind: {system.name}, options: {{...}}}}") from None


def asks_of(config: RegisteredConfig, where: str) -> Asks:
    """What asks the system; raises UnknownName for one that no plug-in registers, BadSettings where it can't be made."""
    thing = SYSTEMS.get(config.kind)
    if not isinstance(thing, type):
        return FunctionAsks(partial(thing, **config.options))
    try:
        return _Responds(thing(**config.options))
    except Exception as error:  # the user's code
        what = f"{config.kind} can't be made: {class_and_reason(error)}"
        raise BadSettings(what, where=where) from error


class _Responds:
    """Asks an object that is given the whole sample."""

    def __init__(self, system: Any) -> None:
        self._system = system

    async def warm_up(self) -> None:
        """Nothing to load."""

    async def ask(self, sample: Sample, clock: Clock) -> Response | None:
        """The system's response; raises BadInput with what it raised or returned."""
        return await FunctionAsks(lambda _: self._system.respond(sample)).ask(sample, clock)

    async def close(self) -> None:
        """Nothing to close."""
