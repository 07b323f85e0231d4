"""Systems that are Python code: a function of the query, or a function or class that a plug-in registers."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, overload

from pydantic import Field, ValidationError, model_validator

from ragassay.core import plugins
from ragassay.core.errors import BadInput, BadSettings, class_and_reason
from ragassay.core.models import Response, Sample
from ragassay.core.plugins import Registry
from ragassay.core.validation import shown
from ragassay.systems.base import LiveOptions, RequestTimer, SystemClient, response_from

T = TypeVar("T")
Function = Callable[..., Any]
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
_NEEDED = "a function returns the answer's text or {'answer': ..., 'contexts': [...]}; wrap yours in one that does"
OURS = ("bm25", "dense", "hybrid", "http", "python", "openai")


class FunctionConfig(LiveOptions):
    """A system that is a Python function."""

    kind: Annotated[Literal["python"], Field(description="a system that is a Python function")] = "python"
    function: Annotated[
        str,
        Field(
            pattern=r"^[^:]+:\w+$",
            description="`module:function` or `file.py:function`; sync or async. It takes the query, and the earlier turns "
            "if it has a parameter `history`, and returns the answer, or an object with `answer`, `contexts`, "
            "`retrieved_doc_ids` and what else a response has",
        ),
    ]

    @classmethod
    def of(cls, function: Function) -> FunctionConfig:
        """What a report says of a function that is given as such."""
        name = re.sub(r"\W", "", getattr(function, "__name__", type(function).__name__)) or "function"
        return cls(kind="python", function=f"{getattr(function, '__module__', None) or 'function'}:{name}")

    @property
    def module(self) -> str:
        """The module's name, or the file."""
        return self.function.rpartition(":")[0]


class FunctionClient:
    """Calls a function with the query's text, or with the ``whole`` sample; one that is not async, in its own thread.

    One with a parameter ``history`` is given the earlier turns in it, a list of ``{role, content}``.
    """

    def __init__(self, function: Function, *, whole: bool = False) -> None:
        self._function, self._whole = function, whole
        self._takes_history = not whole and _has_parameter(function, "history")

    async def warm_up(self) -> None:
        """Nothing to load."""

    async def ask(self, sample: Sample, clock: RequestTimer) -> Response | None:  # noqa: ARG002 - of the protocol
        """What the function returned, as a response; raises BadInput with what it raised."""
        query = sample if self._whole else sample.query
        turns = {"history": [turn.model_dump() for turn in sample.history]} if self._takes_history else {}
        try:
            if inspect.iscoroutinefunction(self._function):
                returned = self._function(query, **turns)
            else:
                returned = await _in_thread(lambda: self._function(query, **turns))
            returned = await returned if inspect.isawaitable(returned) else returned
        except BadInput:
            raise
        except Exception as error:  # the user's code: any error is the row's reason
            raise BadInput(f"the system raised {class_and_reason(error)}") from error
        if returned is None or isinstance(returned, Response):
            return returned
        if isinstance(returned, str):
            return Response(answer=returned)
        if isinstance(returned, dict):
            try:
                return response_from({str(key): value for key, value in returned.items()})
            except BadInput as error:
                raise BadInput(f"{error.message} ({_NEEDED})") from None
        raise BadInput(f"the system returned {shown(returned)}; {_NEEDED}")

    async def close(self) -> None:
        """Nothing to close."""


def _has_parameter(function: Function, name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):  # of a builtin
        return False


def function_of(config: FunctionConfig, where: str) -> Function:
    """The function that the configuration names, of a module that was imported before: a run's record runs no code.

    Raises BadSettings where it was not, or has no such function.
    """
    if config.module not in plugins.imported_plugins:
        what = f"code of {config.module} would be run, which a run's record alone may not ask for"
        raise BadSettings(what, where=where, hint=f"where you trust it, repeat it: --import {config.module}")
    name = config.function.rpartition(":")[2]
    function: Function | None = getattr(plugins.imported_plugins[config.module][0], name, None)
    if not callable(function):
        raise BadSettings(f"{config.module} has no function {name!r}", where=where)
    return function


def _in_thread(work: Callable[[], Any]) -> Awaitable[Any]:
    """Run it in a thread that does not keep the process alive: a system may hang for ever."""
    future: Future[Any] = Future()

    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="system under test").start()
    return asyncio.wrap_future(future)


SYSTEMS: Registry[Any] = Registry("system", adopt=lambda thing: _checked(thing, "system"))


@overload
def system(thing: T, /) -> T: ...
@overload
def system(*, name: str | None = None) -> Callable[[T], T]: ...
def system(thing: Any = None, /, *, name: str | None = None) -> Any:
    """Register a custom system: ``@system`` or ``@system(name="ours")``; then ``kind: ours`` evaluates it.

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
            is_class = isinstance(thing, type)
            turns: dict[str, Any] = {"history": []} if not is_class and _has_parameter(thing, "history") else {}
            try:
                inspect.signature(thing).bind(*(() if is_class else ("",)), **turns, **self.options)
            except TypeError as error:
                raise ValueError(f"{self.kind} does not take these options: {error}") from None
        return self


def is_registered(kind: object) -> bool:
    """Is it the kind of a system that a plug-in registers?"""
    return isinstance(kind, str) and kind not in OURS and kind in SYSTEMS


def by_name(system: Any) -> Any:
    """The system that a plug-in registers, if its name is given in the place of a file; anything else as it is.

    Raises BadSettings for one that needs options.
    """
    if not isinstance(system, Path) or system.name not in SYSTEMS or system.exists():
        return system
    try:
        return RegisteredConfig(kind=system.name)
    except ValidationError as error:
        what = str(error.errors()[0]["ctx"]["error"])
        raise BadSettings(what, hint=f"write them into a file: {{kind: {system.name}, options: {{...}}}}") from None


def make_client(config: RegisteredConfig, where: str) -> SystemClient:
    """What asks the system; raises UnknownName for one that no plug-in registers, BadSettings where it can't be made."""
    thing = SYSTEMS.get(config.kind)
    if not isinstance(thing, type):
        return FunctionClient(partial(thing, **config.options))
    try:
        return FunctionClient(thing(**config.options).respond, whole=True)
    except Exception as error:  # the user's code
        what = f"{config.kind} can't be made: {class_and_reason(error)}"
        raise BadSettings(what, where=where) from error
