"""A name to a thing: the one way in which metrics, judges, systems and exporters are found and extended."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

from ragassay.core.errors import BadSettings, UnknownName

logger = logging.getLogger("ragassay")
T = TypeVar("T")


class Registry(Generic[T]):
    """Names of one kind of thing. Names are case-insensitive; plug-ins are read from entry points at first miss.

    ``kind`` is what an error calls it ("metric"); the group of entry points is ``ragassay.<kind>s``.
    ``modules`` register the things that come with ragassay; they are imported at the first miss, before the plug-ins.
    ``adopt`` makes the thing of what an entry point names, which never replaces one that is registered.
    """

    def __init__(
        self,
        kind: str,
        things: Mapping[str, T] | None = None,
        *,
        modules: Sequence[str] = (),
        adopt: Callable[[object], T] | None = None,
    ) -> None:
        self.kind, self._adopt, self._group = kind, adopt, f"ragassay.{kind.replace(' ', '_')}s"
        self._things = dict(things or {})
        self._modules, self._plugins_read = tuple(modules), False
        self._packages: dict[str, tuple[str, str]] = {}
        self._broken: dict[str, str] = {}

    def add(self, name: str, thing: T) -> None:
        """Register ``thing``, in the place of what has the name."""
        self._things[name.lower()] = thing

    def get(self, name: str) -> T:
        """The thing of that name; raises UnknownName with the near matches."""
        if name not in self:
            raise UnknownName(self.kind, name, self.names())
        return self._things[name.lower()]

    def names(self) -> list[str]:
        """All names, sorted, plug-ins included."""
        self._read_plugins()
        return sorted(self._things)

    def registered(self) -> list[T]:
        """Ours and what was added so far; reads no entry point, so that a plug-in may ask while it is read."""
        self.import_ours()
        return list(self._things.values())

    def import_ours(self) -> None:
        """Import the modules that register what comes with ragassay."""
        for module in self._modules:
            import_module(module)

    def package(self, name: str) -> tuple[str, str] | None:
        """The installed package, with its version, that brought the thing, and the digest of its code; None without one."""
        return self._packages.get(name.lower())

    def __contains__(self, name: str) -> bool:
        """Is there a thing of that name? Raises BadSettings for one whose plug-in can't be used."""
        key = name.lower()
        if key not in self._things:
            self.import_ours()
        if key not in self._things:
            self._read_plugins()
            if why := self._broken.get(key):
                raise BadSettings(why, where=f"{self.kind} {name}", hint="fix the plug-in, or uninstall it")
        return key in self._things

    def __iter__(self) -> Iterator[T]:
        return (self.get(name) for name in self.names())

    def _read_plugins(self) -> None:
        self.import_ours()
        if self._plugins_read:
            return
        self._plugins_read = True
        from importlib.metadata import entry_points

        for point in entry_points(group=self._group):
            key = point.name.lower()
            try:
                thing = point.load()
                self._things.setdefault(key, self._adopt(thing) if self._adopt else thing)
                package = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
                self._packages[key] = (package, digest_of_code(thing))
            except Exception as error:  # another package's code
                self._broken[key] = f"the plug-in {point.value} can't be used: {type(error).__name__}: {error}"
                logger.warning(self._broken[key])


imported_plugins: dict[str, tuple[ModuleType, str]] = {}
"""What was imported in this process, by its name as it was given: the module, and the SHA-256 of its code."""


def imported() -> dict[str, str]:
    """The plug-ins that were imported in this process: {name as it was given: SHA-256 of its code}."""
    return {name: digest for name, (_, digest) in sorted(imported_plugins.items())}


def import_plugin(name: str, where: str) -> None:
    """Run a Python file, or import a module, so that what it registers is known.

    A file may import modules of its own folder; installed packages come first. Raises BadSettings that says ``where`` the
    plug-in was named.
    """
    from hashlib import sha256

    path = Path(name)
    if path.suffix != ".py" and not all(part.isidentifier() for part in name.split(".")):
        what = f"{name!r} is neither a file that ends in .py nor a module"
        raise BadSettings(what, where=where, hint="write, for example, metrics/own.py or our_package.metrics")
    if path.suffix == ".py" and not path.is_file():
        raise BadSettings(f"{name}: there is no such file", where=where)
    try:
        module = _run(path) if path.suffix == ".py" else import_module(name)
    except Exception as error:  # any error in the user's code is one line about it
        hint = "name a file that ends in .py, or a module that is installed" if isinstance(error, ImportError) else None
        raise BadSettings(f"{name}: {type(error).__name__}: {error}", where=where, hint=hint) from error
    code = Path(module.__file__).read_bytes() if module.__file__ else b""
    imported_plugins[name] = module, sha256(code).hexdigest()


def digest_of_code(thing: object) -> str:
    """SHA-256 of the file that a function or class is written in; of its source alone where there is no file."""
    import inspect
    from hashlib import sha256

    try:
        code = Path(inspect.getfile(thing)).read_bytes()  # type: ignore[arg-type]  # TypeError where it has none
    except (TypeError, OSError):
        code = getattr(getattr(thing, "__code__", None), "co_code", b"")
    return sha256(code).hexdigest()


def _run(path: Path) -> ModuleType:
    spec = spec_from_file_location(f"ragassay_plugin_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError("is not a Python file")
    module = module_from_spec(spec)
    sys.modules[module.__name__] = module
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.append(folder)  # for good: functions of the file may import when they are called
    spec.loader.exec_module(module)
    return module
