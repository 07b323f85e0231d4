"""A name to a thing: the one way in which metrics, judges, strategies and exporters are found and extended."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from ragassay.errors import BadSettings, UnknownName

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger("ragassay")
T = TypeVar("T")


class Registry(Generic[T]):
    """Names of one kind of thing. Names are case-insensitive; plug-ins are read from entry points at first miss.

    ``kind`` is what an error calls it ("metric"); the entry-point group is ``ragassay.<kind>s``. ``adopt`` makes the
    thing of what an entry point names.
    """

    def __init__(self, kind: str, adopt: Callable[[object], T] | None = None) -> None:
        self.kind, self._adopt = kind, adopt
        self._things: dict[str, T] = {}
        self._plugins_read = False

    def add(self, name: str, thing: T, *, replace: bool = False) -> T:
        """Register ``thing``; raises BadSettings when another thing has the name and ``replace`` is not set."""
        key = name.lower()
        if not replace and self._things.get(key, thing) is not thing:
            raise BadSettings(f"{self.kind} {name!r} is registered already", hint="choose another name")
        self._things[key] = thing
        return thing

    def get(self, name: str) -> T:
        """The thing of that name; raises UnknownName with the near matches."""
        if name.lower() not in self._things:
            self._read_plugins()
        try:
            return self._things[name.lower()]
        except KeyError:
            raise UnknownName(self.kind, name, self._things) from None

    def names(self) -> list[str]:
        """All names, sorted, plug-ins included."""
        self._read_plugins()
        return sorted(self._things)

    def __contains__(self, name: str) -> bool:
        if name.lower() not in self._things:
            self._read_plugins()
        return name.lower() in self._things

    def __iter__(self) -> Iterator[T]:
        return (self._things[name] for name in self.names())

    def _read_plugins(self) -> None:
        if self._plugins_read:
            return
        self._plugins_read = True
        from importlib.metadata import entry_points

        for point in entry_points(group=f"ragassay.{self.kind}s"):
            try:
                thing = point.load()
                if point.name.lower() not in self._things:
                    self.add(point.name, self._adopt(thing) if self._adopt else thing)
            except Exception as error:  # another package's code
                logger.warning("the plug-in %s can't be used: %s: %s", point.value, type(error).__name__, error)


def run_plugin(path: Path) -> None:
    """Run a user's Python file, so that what it registers is known; raises BadSettings where it can't be run."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(f"ragassay_plugin_{path.stem}", path)
    if path.suffix != ".py" or not path.is_file() or spec is None or spec.loader is None:
        raise BadSettings(f"--import {str(path)!r} is not a Python file", hint="name a file that ends in .py")
    module = module_from_spec(spec)
    sys.modules[module.__name__] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # any error in the user's code is one line about that file
        raise BadSettings(f"--import {str(path)!r}: {type(error).__name__}: {error}") from error
