"""Every error that ragassay raises on purpose, drawn as one tree.

AssayError
├── BadInput            invalid input                               422, exit 2
│   ├── BadData         rows of a file that do not fit               422
│   ├── UnknownName     a metric, judge, dataset ... not registered   422
│   ├── BadSettings     configuration or options                     422
│   └── TooLarge        more than a limit allows                     413
├── NothingToEvaluate   valid, but empty                             422, exit 5
├── NotFound            no such run, job, file                       404, exit 2
├── Conflict            the state forbids it now                     409, exit 2
├── Unscored            too many rows got no score                   422, exit 3
├── GateFailed          a threshold was missed                       422, exit 1
├── BudgetReached       a cap on USD or tokens holds                 402, exit 4
├── MissingExtra        an optional part is not installed            501, exit 2
├── DiskFull            there is no room for what was computed       507, exit 74
└── Unavailable         a provider or store could not answer         503, retryable
    ├── RateLimited     asked to slow down                           429, retryable
    ├── TimedOut        no answer in time; it may have been paid     504, retryable
    └── ProviderDown    calls failed one after another; none is made now  503, retryable

BadInput and NothingToEvaluate are also ValueError, NotFound is also FileNotFoundError: who catches these or OSError
around code of ours lets AssayError pass first. Pydantic takes a ValueError of a validator for one of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragassay.core.models import Usage

LONGEST_REASON = 300  # characters
MAX_KNOWN = 50  # names that are listed where none is near
_LINE_END = re.compile(r"\n|\\n")  # the second is a line end inside JSON
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):?")
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")
# An address of the web is matched first, since its path is kept.
_PATH = re.compile(
    r"\b(?!file:)\w+://\S+"
    r"|(?:\bfile://|(?<![\w./\\]))(?:(?:/|\b[A-Za-z]:[\\/]+|\\\\)[^\s/\\:'\"<>|,;()]+)(?:[/\\]+[^\s/\\:'\"<>|,;()]+)+"
)


class AssayError(Exception):
    """Root of the tree: says what was wrong, where, and what to do next. ``option``: the one that corrects it, if one does.

    A hint is for all callers; the command line names flags and commands in its place, by ``option``.
    """

    code, status, retryable, exit_code = "error", 500, False, 2

    def __init__(
        self, message: str, *, where: str | None = None, hint: str | None = None, option: str | None = None
    ) -> None:
        self.message, self.where, self.hint, self.option = message, where, hint, option
        super().__init__(message)

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}; {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        """An error of a worker process comes back as it was, whatever its class is made from."""
        return type(self).__new__, (type(self), *self.args), vars(self)


def and_more(count: int) -> str:
    """What stands after the first of several problems: how many others there are."""
    return f" (and {count} more)" if count else ""


class BadInput(AssayError, ValueError):
    """Invalid input; the same call fails again. Also a ValueError."""

    code, status = "bad_input", 422


class BadData(BadInput):
    """Rows of a file that do not fit; ``problems`` holds one line (file, line, field, what) for each."""

    code = "bad_data"

    def __init__(self, problems: Sequence[str], *, hint: str | None = None, option: str | None = None) -> None:
        self.problems = tuple(problems)
        super().__init__(f"{self.problems[0]}{and_more(len(problems) - 1)}", hint=hint, option=option)


class UnknownName(BadInput):
    """A name that is not registered; lists the near matches."""

    code = "unknown_name"

    def __init__(self, kind: str, name: str, known: Iterable[str], *, where: str | None = None) -> None:
        import difflib

        self.kind, self.name = kind, name
        names = sorted(set(known))
        near = difflib.get_close_matches(name.lower().split("@")[0], names, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names[:MAX_KNOWN]) or 'none'}"
        hint += and_more(len(names) - MAX_KNOWN) if not near and len(names) > MAX_KNOWN else ""
        super().__init__(f"unknown {kind} {name!r}", where=where, hint=hint)


class BadSettings(BadInput):
    """An option or a configuration value does not fit."""

    code = "bad_settings"


class TooLarge(BadInput):
    """The input is larger than a limit allows."""

    code, status = "too_large", 413


class NothingToEvaluate(AssayError, ValueError):
    """The input is valid and holds no row to evaluate. Also a ValueError."""

    code, status, exit_code = "nothing_to_evaluate", 422, 5


class NotFound(AssayError, FileNotFoundError):
    """There is no such run, job, file or name. Also a FileNotFoundError."""

    code, status = "not_found", 404


class Conflict(AssayError):
    """The current state does not allow it."""

    code, status = "conflict", 409


class Unscored(AssayError):
    """A larger share of the rows than allowed got no score because something failed."""

    code, status, exit_code = "unscored", 422, 3


class GateFailed(AssayError):
    """A threshold was missed."""

    code, status, exit_code = "gate_failed", 422, 1


class BudgetReached(AssayError):
    """A cap on USD or tokens forbids the next call. ``unknown``: requests of the run with an unknown outcome, which count."""

    code, status, exit_code = "budget_reached", 402, 4
    unknown: Usage | None = None


class MissingExtra(AssayError):
    """An optional part of ragassay is needed and not installed."""

    code, status = "missing_extra", 501

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the extra '{extra}'", hint=f"install it: pip install 'ragassay[{extra}]'")


class Unavailable(AssayError):
    """A provider or store could not answer; the same call may succeed later."""

    code, status, retryable, exit_code = "unavailable", 503, True, 3

    def __init__(
        self, message: str, *, where: str | None = None, hint: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.retry_after = retry_after


class RateLimited(Unavailable):
    """The other side asked us to slow down; ``retry_after`` is in seconds if known."""

    code, status = "rate_limited", 429


class TimedOut(Unavailable):
    """No answer in time. The other side may have done, and charged for, the work."""

    code, status = "timed_out", 504


class ProviderDown(Unavailable):
    """Several calls in a row failed: for a while no call is made."""

    code = "provider_down"


class DiskFull(AssayError):
    """The disk is full; everything written before is complete."""

    code, status, exit_code = "disk_full", 507, 74


def reason_from(error: BaseException | str) -> str:
    """An exception as the reason of a missing score: one line of 300 characters at the most, fit to be shown to anybody.

    Of a traceback the last line is kept, of an absolute path the last part; control and invisible characters go.
    """
    text = str(error) or type(error).__name__
    before, *tracebacks = _TRACEBACK.split(text)
    if tracebacks:
        last = [line for line in _LINE_END.split(tracebacks[-1]) if line.strip(" \"'}")]
        text = f"{before} {last[-1] if last else ''}"
    line = " ".join(_HIDDEN.sub(" ", _PATH.sub(_shortened, text)).split())
    return line if len(line) <= LONGEST_REASON else f"{line[: LONGEST_REASON - 3]}..."


def class_and_reason(error: BaseException) -> str:
    """What code that is not ours raised, for whoever wrote it: ``ValueError: no such column``."""
    return f"{type(error).__name__}: {reason_from(error)}"


def _shortened(path: re.Match[str]) -> str:
    text = path.group()
    return text if "://" in text and not text.startswith("file:") else ".../" + re.split(r"[/\\]", text)[-1]
