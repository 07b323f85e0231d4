"""What a report says of costs, small enough to read hundreds of: kept beside each report, made again where it is not."""

from __future__ import annotations

from typing import Any, Literal

import orjson
from pydantic import ValidationError

from ragassay.core.cost_sums import Between, Spending
from ragassay.core.errors import BadData
from ragassay.core.models import FrozenModel, Usage
from ragassay.core.report import Report
from ragassay.core.validation import problems


class SystemCosts(FrozenModel):
    """One system of a report: sums that add up; ``questions``: how many the rows of known cost and accuracy are of."""

    questions: int
    spending: tuple[Spending, ...]


class CostRecord(FrozenModel):
    """What a report says of costs. ``accurate``: the rule by which answers counted as accurate."""

    schema_version: Literal[2]
    run: str
    created_at: str
    status: Literal["finished", "incomplete"]
    dataset: str
    dataset_digest: str
    judge: str
    accurate: str
    interrupted: Usage
    systems: dict[str, SystemCosts]
    between: tuple[Between, ...] = ()


def record_of(report: Report) -> CostRecord:
    """The record of a report."""
    source = report.provenance
    return CostRecord(
        schema_version=2,
        run=report.run.id,
        created_at=report.run.created_at,
        status=report.run.status,
        dataset=source.dataset.name,
        dataset_digest=source.dataset.digest,
        judge=source.configuration.judged_by,
        accurate=source.configuration.accurate,
        interrupted=report.interrupted,
        systems={
            name: SystemCosts(questions=one.cost_per_accurate_answer.questions, spending=one.spending)
            for name, one in report.systems.items()
        },
        between=report.between,
    )


def read_report_costs(content: bytes, where: str) -> CostRecord:
    """The record of a report's JSON, whose rows are passed over; raises BadData that names ``where``."""
    try:
        document: Any = orjson.loads(content)
        for system in document["systems"].values():
            system["results"] = ()
        return record_of(Report.model_validate(document))
    except ValidationError as error:
        raise BadData([f"{where}: not a report of this version of ragassay ({problems(error)[0]})"]) from None
    except (ValueError, LookupError, TypeError, AttributeError):
        raise BadData([f"{where}: is no report"]) from None
