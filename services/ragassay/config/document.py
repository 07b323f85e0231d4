"""The configuration document. Every key takes effect; its default is what happens without it."""

from __future__ import annotations

import json
import textwrap
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

from annotated_types import Ge, Lt, MaxLen
from pydantic import AfterValidator, BaseModel, Discriminator, Tag, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from ragassay.analysis.figures import Figure
from ragassay.analysis.gates import GateList
from ragassay.config.schedules import PlannedJob
from ragassay.core.declarations import Option
from ragassay.core.errors import BadInput
from ragassay.core.models import FrozenModel
from ragassay.core.options import SYSTEMS, FileOptions, IntervalOptions, PerformanceOptions, ShortOptions
from ragassay.core.specification import Budget, EvaluationOptions, JobSpec, JudgeConfig, JudgeParameters
from ragassay.core.validation import UNKNOWN_KIND
from ragassay.judges.instructions import read_prompt
from ragassay.metrics.composite import own_metrics
from ragassay.stats.tests import Correction
from ragassay.systems.functions import OURS, FunctionConfig, RegisteredConfig, is_registered
from ragassay.systems.http import HttpConfig, OpenAIConfig
from ragassay.systems.options import CHAT, ENDPOINT, FUNCTION, KEYS, REGISTERED, WORD, SystemConfig


def _form_of_system(given: object) -> str | None:
    """Which form a system's value has: by its type, and a mapping's ``kind``; None for a kind that is none."""
    kind = given.get("kind") if isinstance(given, dict) else getattr(given, "kind", None)
    if is_registered(kind):
        return REGISTERED
    if isinstance(given, dict) and isinstance(kind, str) and kind not in OURS:
        return None
    forms = {"http": ENDPOINT, "python": FUNCTION, "openai": CHAT}
    return forms.get(str(kind), KEYS if isinstance(given, dict | BaseModel) else WORD)


SystemChoice = Annotated[
    Annotated[Path, Tag(WORD)]
    | Annotated[SystemConfig, Tag(KEYS)]
    | Annotated[HttpConfig, Tag(ENDPOINT)]
    | Annotated[FunctionConfig, Tag(FUNCTION)]
    | Annotated[OpenAIConfig, AfterValidator(lambda chat: chat.over_http), Tag(CHAT)]
    | Annotated[RegisteredConfig, Tag(REGISTERED)],
    Discriminator(_form_of_system, custom_error_type=UNKNOWN_KIND, custom_error_message=UNKNOWN_KIND),
]


class Statistics(IntervalOptions, FrozenModel):
    """How far numbers are trusted."""

    alpha: Annotated[
        float,
        Ge(0.0001),
        Lt(0.5),
        Option(
            "a difference is shown if p is at most this; a gate's interval of a drop is at level 1 - alpha",
            variable=True,
        ),
    ] = 0.05
    correction: Annotated[
        Correction,
        Option("of a benchmark's p for their number: `holm`, `bonferroni`, `benjamini_hochberg` or `none`"),
    ] = "holm"


class Performance(PerformanceOptions, FrozenModel):
    """How fast it goes. Nothing here changes a number."""


class Configuration(EvaluationOptions, ShortOptions, FileOptions):
    """The document. Paths in a file are relative to the folder of that file."""

    systems: Annotated[dict[str, SystemChoice], SYSTEMS] = {}  # noqa: RUF012 - a default of a model
    statistics: Annotated[Statistics, Option("how far numbers are trusted")] = Statistics()
    performance: Annotated[Performance, Option("how fast it goes; changes no number")] = Performance()
    gates: Annotated[
        GateList,
        MaxLen(100),
        Option(
            "thresholds that `ragassay gate` checks",
            example="""\
gates:
  - mrr: ">= 0.70"
  - latency_ms.p95: "<= 2000"
  - metric: faithfulness
    min: 0.8
    coverage: 0.95
  - metric: correctness
    max_drop: 0.02""",
        ),
    ] = ()
    schedule: Annotated[
        PlannedJob | None,
        Option(
            "a job that a service runs at planned times; `ragassay schedule add` reads it, nothing else does",
            set_by="files",
            example="""\
schedule:
  cron: "30 2 * * *"
  zone: Europe/Berlin
  dataset: handbook
  systems: [online]""",
        ),
    ] = None

    @field_validator("gates")
    @classmethod
    def _about_known_figures(cls, gates: GateList, info: ValidationInfo) -> GateList:
        """The criteria and composites before them are metrics too."""
        run = SimpleNamespace(criteria=info.data.get("criteria", {}), composites=info.data.get("composites", {}))
        try:
            own = own_metrics(run)
        except BadInput:  # the check of the composites reports it, with its place
            return gates
        for gate in gates:
            try:
                Figure.parse(gate.metric, own)
            except BadInput as error:
                raise ValueError(str(error)) from None
        return gates

    @property
    def highest_grade(self) -> float | None:
        """The grade beyond which a row is bad; None where every relevant document counts 1."""
        return self.max_grade if self.graded else None

    def to_job_spec(self) -> JobSpec:
        """The flat specification that a run is made from and a report keeps; raises what ``read_prompt`` raises."""
        flat = {name: getattr(self, name) for name in EvaluationOptions.model_fields}
        flat["judges"] = self.judges or (JudgeConfig(model=self.judge),)
        flat["baseline"] = None  # gates compare later: it changes nothing of the run
        own = None if self.judge_prompt is None else read_prompt(self.judge_prompt, "judge_prompt")
        return JobSpec(
            **flat,
            **self.performance.model_dump(),
            confidence=self.statistics.confidence,
            judge_prompt=own,
        )


SECTIONS: dict[str, type[BaseModel]] = {
    "statistics": Statistics,
    "performance": Performance,
    "budget": Budget,
    "parameters": JudgeParameters,
}


def option_of(field: FieldInfo) -> Option:
    """What is declared of a field of the document."""
    return next(entry for entry in field.metadata if isinstance(entry, Option))


@cache
def options() -> dict[str, tuple[FieldInfo, Option]]:
    """{key: field and declaration} of the document and its sections; no key stands in two of them."""
    models: tuple[type[BaseModel], ...] = (Configuration, *SECTIONS.values())
    fields = {key: field for model in models for key, field in model.model_fields.items()}
    return {key: (field, option_of(field)) for key, field in fields.items()}


def section_of(key: str) -> str | None:
    """The section that a key stands in; None for one at the top, and for one that is none."""
    return next((name for name, model in SECTIONS.items() if key in model.model_fields), None)


_HEAD = """\
# What ragassay evaluates here, and how. Every value below is the default, so a line may go.
# `ragassay evaluate` and `ragassay gate` read this file; the command line beats RAGASSAY_*, which beats it.
"""


def template() -> str:
    """What ``ragassay info init`` writes: YAML that loads as the defaults; a key that has none is empty."""
    return "\n".join([_HEAD, *_commented(Configuration(), "")])


def _commented(model: BaseModel, indent: str) -> list[str]:
    lines: list[str] = []
    for key, field in type(model).model_fields.items():
        value, option = getattr(model, key), option_of(field)
        about = option.about.replace("`", "")
        lines += textwrap.wrap(about, 110, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
        lines += textwrap.indent(option.example or "", f"{indent}#   ").splitlines()
        if key in SECTIONS:
            lines += [f"{key}:", *_commented(value, "  ")]
        elif value is None:
            lines += [f"{indent}{key}:", ""]
        else:
            lines += [f"{indent}{key}: {value if isinstance(value, str) else json.dumps(value)}", ""]
    return lines
