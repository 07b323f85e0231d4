"""What a report says of costs, small enough to read hundreds of: kept beside each report, made again where it is not."""

from __future__ import annotations

from typing import Any, Literal

import orjson
from pydantic import Field, ValidationError

from ragassay.cost_documents import Between, CostPerAccurate, Money, Spending
from ragassay.documents import Report, SystemReport
from ragassay.errors import BadData
from ragassay.models import FrozenModel, Usage
from ragassay.recount import Recount, between
from ragassay.stats import RatioSums, TokenSums
from ragassay.validation import problems


class SystemCosts(FrozenModel):
    """One system of a report: the report's own figures, ``whole`` and by category, and the sums that add up.

    Not ``itemised``: a report of an earlier version whose rows are gone; its one ``spending`` has no squares.
    """

    whole: CostPerAccurate
    categories: dict[str, CostPerAccurate] = Field(default_factory=dict)
    spending: tuple[Spending, ...]
    itemised: bool = True


class CostRecord(FrozenModel):
    """What a report says of costs. ``accurate``: the rule by which answers counted as accurate; ``canary``: what the judge
    took for its canary panel.
    """

    schema_version: Literal[1]
    run: str
    created_at: str
    status: Literal["finished", "incomplete"]
    dataset: str
    dataset_digest: str
    judge: str
    accurate: str
    interrupted: Usage
    canary: Usage = Usage()
    systems: dict[str, SystemCosts]
    between: tuple[Between, ...] = ()


def record_of(report: Report) -> CostRecord:
    """The record of a report; what a report of an earlier version lacks is counted again from its rows."""
    source, rows = report.provenance, report.provenance.dataset.rows
    recounted = {name: Recount(one.results) for name, one in report.systems.items() if not one.spending and one.results}
    return CostRecord(
        schema_version=1,
        run=report.run.id,
        created_at=report.run.created_at,
        status=report.run.status,
        dataset=source.dataset.name,
        dataset_digest=source.dataset.digest,
        judge=source.configuration.judged_by,
        accurate=source.configuration.accurate,
        interrupted=report.interrupted,
        canary=Usage.total((report.drift.usage, report.drift.waste) if report.drift else ()),
        systems={name: _of_system(one, recounted.get(name)) for name, one in report.systems.items()},
        between=between(recounted, rows) if len(recounted) == len(report.systems) else report.between,
    )


def _of_system(one: SystemReport, recounted: Recount | None) -> SystemCosts:
    spending = recounted.spending if recounted else one.spending
    categories = one.slices.get("category", {})
    return SystemCosts(
        whole=one.cost_per_accurate_answer,
        categories={value: part.cost_per_accurate_answer for value, part in categories.items()},
        spending=spending or ((_undivided(one),) if one.queries else ()),
        itemised=bool(spending) or not one.queries,
    )


def _undivided(one: SystemReport) -> Spending:
    """What the figures of a report without rows and sums still tell."""
    known = one.cost_per_accurate_answer
    return Spending(
        category=None,
        model=None,
        rows=one.queries,
        serving=Money(cost_usd=one.cost_usd.total or 0.0, unknown=one.cost_usd.missing, without_tokens=one.queries),
        judging=_spent(one.evaluation.usage, one.queries),
        waste=_spent(one.evaluation.waste, one.queries),
        known=RatioSums(n=known.n, cost_usd=known.cost_usd, accurate=known.accurate),
        tokens=TokenSums(),
    )


def _spent(usage: Usage, rows: int) -> Money:
    return Money(
        cost_usd=usage.cost_usd or 0.0,
        unknown=rows if usage.cost_usd is None else 0,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
    )


def read_report_costs(content: bytes, where: str) -> CostRecord:
    """The record of a report's JSON, whose rows are passed over where it has sums; raises BadData that names ``where``."""
    try:
        document: Any = orjson.loads(content)
        systems = document["systems"].values()
        if all(system.get("spending") for system in systems):
            for system in systems:
                system["results"] = ()
        return record_of(Report.model_validate(document))
    except ValidationError as error:
        raise BadData([f"{where}: not a report of this version of ragassay ({problems(error)[0]})"]) from None
    except (ValueError, LookupError, TypeError, AttributeError):
        raise BadData([f"{where}: is no report"]) from None
