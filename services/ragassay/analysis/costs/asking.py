"""What a command, a call or a request asks of a cost report, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from ragassay.analysis.costs.models import BY, DIMENSIONS, CostQuery
from ragassay.core.errors import BadSettings, UnknownName
from ragassay.core.validation import problems


def asked(
    *,
    since: Any = None,
    until: Any = None,
    zone: str = "UTC",
    system: str | Sequence[str] | None = None,
    dataset: str | Sequence[str] | None = None,
    by: str | Sequence[str] | None = None,
    dashes: str = "",
) -> CostQuery:
    """The query. ``since`` and ``until`` may be dates; ``by`` a list or ``system,day``. Raises BadSettings
    that names the option, after ``dashes``.
    """
    dimensions = by.split(",") if isinstance(by, str) else list(by if by is not None else BY)
    dimensions = [name.strip() for part in dimensions for name in part.split(",") if name.strip()]
    for name in dimensions:
        if name not in DIMENSIONS:
            raise UnknownName("dimension", name[:100], DIMENSIONS, where=f"{dashes}by")
    given = {
        "since": None if since is None else str(since),
        "until": None if until is None else str(until),
        "zone": zone,
        "systems": _names(system),
        "datasets": _names(dataset),
        "by": tuple(dimensions),
    }
    try:
        query = CostQuery.model_validate(given)
    except ValidationError as error:
        first = problems(error)[0]
        option = str(first.location[0]).removesuffix("s") if first.location else "costs"
        raise BadSettings(first.what, where=f"{dashes}{option}") from None
    since_, until_ = query.span
    if since_ >= until_:
        raise BadSettings(f"{query.until} is before {query.since}", where=f"{dashes}until")
    return query


def _names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(dict.fromkeys(given or ()))
