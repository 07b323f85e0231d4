"""One gate as it is written down: a figure, its thresholds, and the rows that it is about."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)

from ragassay.analysis.figures import Figure
from ragassay.core.errors import BadInput
from ragassay.core.formatting import number
from ragassay.core.models import FrozenModel
from ragassay.metrics import Metric
from ragassay.metrics.base import FIGURES
from ragassay.metrics.own import criterion_metric, own_metrics

ConditionName = Literal["min", "max", "max_drop", "relative_drop", "significant"]
DROPS: tuple[ConditionName, ...] = ("max_drop", "relative_drop", "significant")
LARGEST = 10.0**15
Threshold = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
_SHORT = re.compile(r"(>=|<=)\s*(\S+)")
_OWN: ContextVar[Mapping[str, Metric]] = ContextVar("metrics of its own of the document that is being read")
_SLICE_FIELD = re.compile(r"category|difficulty|metadata\..+")


class Gate(FrozenModel):
    """Thresholds for one figure. It holds for every system and slice that it names, and only where rows were scored."""

    metric: Annotated[
        str,
        Field(
            description="a metric, `cost_per_accurate_answer`, `suspicious` (rows), `refusal_precision`, "
            "`refusal_recall`, or latency, tokens or cost with a percentile: `latency_ms.p95`"
        ),
    ]
    min: Annotated[Threshold | None, Field(description="the least value that passes")] = None
    max: Annotated[Threshold | None, Field(description="the largest value that passes")] = None
    max_drop: Annotated[
        float | None,
        Field(ge=0, le=LARGEST, description="how much worse than the baseline it may be, in units of the metric"),
    ] = None
    relative_drop: Annotated[
        float | None,
        Field(ge=0, le=1_000_000, description="how much worse it may be, as a share of the baseline's value"),
    ] = None
    significant: Annotated[
        bool, Field(description="a drop misses the gate only when a paired test finds it; alone: any drop it finds")
    ] = False
    coverage: Annotated[
        float, Field(gt=0, le=1, description="least share of the rows that must have a score; below it the gate fails")
    ] = 0.95
    on: Annotated[
        Literal["mean", "interval"],
        Field(description="`interval`: the worse end of the confidence interval must clear the threshold"),
    ] = "mean"
    system: Annotated[str | None, Field(description="the system it is about; default: every one")] = None
    slice: Annotated[
        str | None,
        Field(description="only these rows: `category=factual`; a field alone, such as `category`: each of its values"),
    ] = None

    _own: Mapping[str, Metric] = PrivateAttr(default_factory=dict)

    @field_validator("metric")
    @classmethod
    def _known(cls, text: str) -> str:
        try:
            return Figure.parse(text, _OWN.get({})).name
        except BadInput as error:
            raise ValueError(str(error)) from None

    def model_post_init(self, _: Any) -> None:
        """Keep the metrics of the document's own that it is about: their names mean nothing elsewhere."""
        own = _OWN.get({})
        self._own = own if self.metric in own or self.metric in FIGURES else {}

    @field_validator("slice")
    @classmethod
    def _known_field(cls, text: str | None) -> str | None:
        if text is not None and not _SLICE_FIELD.fullmatch(text.partition("=")[0]):
            raise ValueError(f"slice {text!r} is not category, difficulty or metadata.NAME, alone or with =VALUE")
        return text

    @model_validator(mode="after")
    def _makes_sense(self) -> Gate:
        figure = self.figure
        if not self.conditions:
            raise ValueError(
                f"the gate on {self.metric} has no threshold; give it min, max, max_drop, relative_drop or significant"
            )
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min:g} is above max {self.max:g}: nothing could pass")
        if self.significant and not figure.is_mean:
            raise ValueError(
                f"{self.metric} is no mean over queries, so no paired test can say if a drop is significant"
            )
        if self.significant and (self.min is not None or self.max is not None):
            raise ValueError("significant applies to a drop, not to min and max; write two gates")
        if self.on == "interval" and not figure.has_interval:
            raise ValueError(f"{self.metric} has no confidence interval; use on: mean")
        if self.on == "interval" and self.needs_baseline and not figure.is_mean:
            raise ValueError(f"the drop of {self.metric} has no confidence interval; use on: mean")
        if self.on == "interval" and self.significant:
            raise ValueError("on: interval and significant contradict each other; use one")
        return self

    @property
    def figure(self) -> Figure:
        """What it is about."""
        return Figure.parse(self.metric, self._own)

    @property
    def conditions(self) -> tuple[ConditionName, ...]:
        """The thresholds that it sets; ``significant`` is one only where no drop is."""
        named: tuple[ConditionName, ...] = ("min", "max", "max_drop", "relative_drop")
        thresholds = tuple(name for name in named if getattr(self, name) is not None)
        return ("significant",) if self.significant and not thresholds else thresholds

    @property
    def needs_baseline(self) -> bool:
        """Is any of its thresholds about a drop?"""
        return any(condition in DROPS for condition in self.conditions)

    @property
    def slice_field(self) -> str | None:
        """The field that cuts the rows, such as ``category``."""
        return None if self.slice is None else self.slice.partition("=")[0]

    @property
    def slice_value(self) -> str | None:
        """The value that the field must have; None stands for each value in turn."""
        return None if self.slice is None or "=" not in self.slice else self.slice.partition("=")[2]


def _from_short(given: Any) -> Any:
    """``{"mrr": ">= 0.7"}`` in full; anything else as it is."""
    if not (isinstance(given, Mapping) and len(given) == 1 and "metric" not in given):
        return given
    ((name, text),) = given.items()
    if name in Gate.model_fields:
        return given
    short = _SHORT.fullmatch(text.strip()) if isinstance(text, str) else None
    try:
        bound = float(short[2]) if short else math.nan
    except ValueError:
        bound = math.nan
    if short is None or not math.isfinite(bound):
        raise ValueError(f'gate {name}: can\'t read {text!r}; write, for example, {name}: ">= 0.7"')
    return {"metric": name, "min" if short[1] == ">=" else "max": bound}


def _knowing_own_metrics(given: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """Gates of a document that has ``criteria`` and ``composites`` before them may name these: they are metrics there."""
    before = info.data or {}
    run = SimpleNamespace(criteria=before.get("criteria", ()), composites=before.get("composites", {}))
    try:
        own = own_metrics(run)
    except BadInput:  # of which the check of the composites tells
        own = {name: criterion_metric(name) for name in (*run.criteria, *run.composites)}
    token = _OWN.set(own)
    try:
        return read(tuple(given) if isinstance(given, list) else given)  # it may have been read from JSON
    finally:
        _OWN.reset(token)


GateList = Annotated[
    tuple[Annotated[Gate, BeforeValidator(_from_short, json_schema_input_type=Gate | dict[str, str])], ...],
    WrapValidator(_knowing_own_metrics),
]


def name_of(gate: Gate, condition: ConditionName, system: str, slice_name: str | None) -> str:
    """Such as ``hybrid, category=factual: mrr >= 0.700``."""
    worse = "drop" if gate.figure.better == "higher" else "rise"
    rule = {
        "min": lambda: f">= {number(gate.min or 0.0)}",
        "max": lambda: f"<= {number(gate.max or 0.0)}",
        "max_drop": lambda: f"{worse} <= {number(gate.max_drop or 0.0)}",
        "relative_drop": lambda: f"{worse} <= {(gate.relative_drop or 0.0) * 100:g} %",
        "significant": lambda: f"has no significant {worse}",
    }[condition]()
    also = ", if significant" if gate.significant and condition != "significant" else ""
    bound = ", by its interval" if gate.on == "interval" else ""
    return f"{system}{f', {slice_name}' if slice_name else ''}: {gate.metric} {rule}{also}{bound}"
