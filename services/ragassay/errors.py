"""Every error that ragassay raises on purpose, drawn as one tree.

AssayError
├── BadInput            the caller can mend it                       422, exit 2
│   ├── BadData         rows of a file that do not fit               422
│   ├── UnknownName     a metric, judge, dataset ... nobody knows     422
│   ├── BadSettings     configuration or options                     422
│   └── TooLarge        more than a limit allows                     413
├── NothingToEvaluate   valid, but empty                             422, exit 5
├── NotFound            no such run, job, file                       404, exit 2
├── Conflict            the state forbids it now                     409, exit 2
├── Unscored            too many rows got no score                   422, exit 3
├── GateFailed          a threshold was missed                       422, exit 1
├── BudgetReached       a cap on USD or tokens holds                 402, exit 4
├── MissingExtra        an optional part is not installed            501, exit 2
└── Unavailable         a provider or store could not answer         503, retryable
    ├── RateLimited     asked to slow down                           429, retryable
    └── TimedOut        no answer in time; it may have been paid     504, retryable
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class AssayError(Exception):
    """Root of the tree: says what was wrong, where, and what to do next."""

    code, status, retryable, exit_code = "error", 500, False, 2

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.message, self.where, self.hint = message, where, hint
        super().__init__(message)

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}; {self.hint}" if self.hint else text


class BadInput(AssayError):
    """Something the caller gave does not fit; the same call fails again until it is mended."""

    code, status = "bad_input", 422


class BadData(BadInput):
    """Rows of a file that do not fit; ``problems`` holds one line (file, line, field, what) for each."""

    code = "bad_data"

    def __init__(self, problems: Sequence[str], *, hint: str | None = None) -> None:
        self.problems = tuple(problems)
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        super().__init__(f"{self.problems[0]}{more}", hint=hint)


class UnknownName(BadInput):
    """A name that is not registered; lists the near matches."""

    code = "unknown_name"

    def __init__(self, kind: str, name: str, known: Iterable[str], *, where: str | None = None) -> None:
        import difflib

        self.kind, self.name = kind, name
        names = sorted(known)
        near = difflib.get_close_matches(name.lower().split("@")[0], names, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names) or 'none'}"
        super().__init__(f"unknown {kind} {name!r}", where=where, hint=hint)


class BadSettings(BadInput):
    """An option or a configuration value does not fit."""

    code = "bad_settings"


class TooLarge(BadInput):
    """The input is larger than a limit allows."""

    code, status = "too_large", 413


class NothingToEvaluate(AssayError):
    """The input is valid and holds no row to evaluate."""

    code, status, exit_code = "nothing_to_evaluate", 422, 5


class NotFound(AssayError):
    """There is no such run, job, file or name."""

    code, status = "not_found", 404


class Conflict(AssayError):
    """The present state forbids it."""

    code, status = "conflict", 409


class Unscored(AssayError):
    """A larger share of the rows than allowed got no score because something failed."""

    code, status, exit_code = "unscored", 422, 3


class GateFailed(AssayError):
    """A threshold was missed."""

    code, status, exit_code = "gate_failed", 422, 1


class BudgetReached(AssayError):
    """A cap on USD or tokens forbids the next call."""

    code, status, exit_code = "budget_reached", 402, 4


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
    """The other side asked us to slow down; ``retry_after`` is in seconds where it said so."""

    code, status = "rate_limited", 429


class TimedOut(Unavailable):
    """No answer in time. The other side may have done, and charged for, the work."""

    code, status = "timed_out", 504
