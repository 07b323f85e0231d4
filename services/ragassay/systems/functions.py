"""Systems that are Python code: a function of the query, a retriever, or what a plug-in registers."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

from pydantic import Field, ValidationError, model_validator

from ragassay.core import plugins
from ragassay.core.errors import BadInput, BadSettings, class_and_reason
from ragassay.core.models import TEXT_KEYS, Response, Sample
from ragassay.core.plugins import Registry
from ragassay.core.validation import shown
from ragassay.datasets.frames import to_json
from ragassay.systems.base import LiveOptions, RequestTimer, SystemClient, response_from

T = TypeVar("T")
Function = Callable[..., Any]
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
TOP_K = 10  # documents that ``retrieve`` is asked for, unless it has a default of its own
_DOCUMENT = {
    "retrieved_doc_ids": ("id", "doc_id", "document_id", "chunk_id", "node_id"),
    "contexts": TEXT_KEYS,
    "retrieved_scores": ("score",),
}
_DOCUMENTS_NEEDED = "retrieve returns a list of ids, of (id, score), or of objects with id, text and score"
_NEEDED = "a function returns the answer's text or {'answer': ..., 'contexts': [...]}; wrap yours in one that does"
OURS = ("bm25", "dense", "hybrid", "http", "python", "openai")


class FunctionConfig(LiveOptions):
    """A system that is a Python function."""

    kind: Literal["python"] = Field("python", description="a system that is a Python function")
    function: str = Field(
        pattern=r"^[^:]+:\w+$",
        description="`module:function` or `file.py:function`; sync or async. It takes the query, and the earlier turns "
        "if it has a parameter `history`, and returns the answer, or an object with `answer`, `contexts`, "
        "`retrieved_doc_ids` and what else a response has. Or an object, or a class without arguments, with "
        "`retrieve(query, top_k)`",
    )

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

    One with a parameter ``history`` is given the earlier turns in it, a list of ``{role, content}``. An object with
    ``retrieve(query, top_k)`` is asked for documents.
    """

    def __init__(self, function: Any, *, whole: bool = False) -> None:
        retrieve = _retrieve_of(function)
        self._function, self._whole, self._retrieves = retrieve or function, whole, retrieve is not None
        self._takes_history = not whole and _has_parameter(self._function, "history")

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
        if self._retrieves and not isinstance(returned, dict):
            returned = _documents(returned)
        if isinstance(returned, str):
            return Response(answer=returned)
        if isinstance(returned, dict):
            try:
                return response_from({str(key): value for key, value in returned.items()})
            except BadInput as error:
                needed = _DOCUMENTS_NEEDED if self._retrieves else _NEEDED
                raise BadInput(f"{error.message} ({needed})") from None
        raise BadInput(f"the system returned {shown(returned)}; {_NEEDED}")

    async def close(self) -> None:
        """Nothing to close."""


def _has_parameter(function: Function, name: str, *, required: bool = False) -> bool:
    try:
        parameter = inspect.signature(function).parameters.get(name)
    except (TypeError, ValueError):  # of a builtin
        return False
    return parameter is not None and not (required and parameter.default is not parameter.empty)


def is_function(thing: object) -> bool:
    """Can it be asked: a function, or an object with ``retrieve``?"""
    return callable(thing) or callable(getattr(thing, "retrieve", None))


def _retrieve_of(thing: Any) -> Function | None:
    """``retrieve`` of an object or of a class, as a function of the query; None for a function. Raises BadSettings."""
    retrieve = getattr(thing, "retrieve", None)
    if not callable(retrieve) or (callable(thing) and not isinstance(thing, type)):
        return None
    if isinstance(thing, type):
        try:
            retrieve = thing().retrieve
        except Exception as error:  # the user's code
            what = f"{thing.__name__} can't be made: {class_and_reason(error)}"
            raise BadSettings(what, hint="give an object of it") from error
    name = next((name for name in ("top_k", "k") if _has_parameter(retrieve, name, required=True)), None)
    return partial(retrieve, **{name: TOP_K}) if name else retrieve


def _documents(returned: Any) -> dict[str, Any]:
    """What ``retrieve`` returned as parts of a response: those that every document has. Raises BadInput."""
    returned = to_json(returned)  # arrays are lists
    if not isinstance(returned, list):
        raise BadInput(f"retrieve returned {shown(returned)}; {_DOCUMENTS_NEEDED}")
    if not returned:
        return {"retrieved_doc_ids": ()}
    documents = [_document(one) for one in returned]
    parts = {part: [document.get(part) for document in documents] for part in _DOCUMENT}
    parts = {part: values for part, values in parts.items() if None not in values}
    if not parts.keys() & {"retrieved_doc_ids", "contexts"}:
        raise BadInput(f"retrieve returned a list with {shown(returned[0])}; {_DOCUMENTS_NEEDED}")
    return parts


def _document(one: Any) -> dict[str, Any]:
    if isinstance(one, str | int):
        return {"retrieved_doc_ids": one}
    if isinstance(one, list):
        return {**_document(one[0]), "retrieved_scores": one[1]} if len(one) == 2 else {}
    value_of = one.get if isinstance(one, Mapping) else lambda name: getattr(one, name, None)
    return {
        part: next((value for value in map(value_of, names) if value is not None), None)
        for part, names in _DOCUMENT.items()
    }


def function_of(config: FunctionConfig, where: str) -> Any:
    """The function or retriever that the configuration names, of a module imported before: a run's record runs no code.

    Raises BadSettings where it was not, or has no such function.
    """
    if config.module not in plugins.imported_plugins:
        what = f"code of {config.module} would be run, which a run's record alone may not ask for"
        raise BadSettings(what, where=where, hint=f"where you trust it, repeat it: --import {config.module}")
    name = config.function.rpartition(":")[2]
    function: Any = getattr(plugins.imported_plugins[config.module][0], name, None)
    if not is_function(function):
        hint = "name a function, or an object with retrieve(query, top_k)"
        raise BadSettings(f"{config.module} has no function {name!r}", where=where, hint=hint)
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

    if isinstance(thing, str):
        raise BadSettings(f"system {shown(thing)}: a name is a keyword", hint=f"write: system(name={shown(thing)})")

    def register(thing: T) -> T:
        called: object = name or getattr(thing, "__name__", thing)
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

    kind: str = Field(description="the name that a plug-in registers it under")
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
