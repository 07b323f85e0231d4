"""``ragassay.yaml``: what is evaluated, how, and what the result has to clear."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
)

from ragassay.analysis.figures import Figure
from ragassay.analysis.gates import GateList
from ragassay.core.errors import BadInput, BadSettings
from ragassay.core.eval_config import DEFAULTS, EvalConfig, JudgePrompt, RunConfig
from ragassay.core.schedules import PlannedJob
from ragassay.core.validation import UNKNOWN_KIND
from ragassay.judges.prompt import read_prompt
from ragassay.metrics.composite import custom_metrics
from ragassay.systems.functions import OURS, FunctionConfig, RegisteredConfig, is_registered
from ragassay.systems.http import HttpConfig, OpenAIConfig
from ragassay.systems.options import CHAT, ENDPOINT, FUNCTION, KEYS, REGISTERED, WORD, SystemConfig


def _form_of_system(given: object) -> str | None:
    """Which form a system's value has: by its type, and a mapping's ``kind``; None for a kind that is none."""
    kind = given.get("kind", _kind_by_key(given)) if isinstance(given, dict) else getattr(given, "kind", None)
    if is_registered(kind):
        return REGISTERED
    if isinstance(given, dict) and isinstance(kind, str) and kind not in OURS:
        return None
    forms = {"http": ENDPOINT, "python": FUNCTION, "openai": CHAT}
    return forms.get(str(kind), KEYS if isinstance(given, dict | BaseModel) else WORD)


def _kind_by_key(given: Mapping[str, object]) -> str | None:
    """The kind of a system that does not say it."""
    kinds = {"function": "python", **dict.fromkeys(("url", "request", "reply"), "http")}
    return next((kind for key, kind in kinds.items() if key in given), None)


SystemChoice = Annotated[
    Annotated[Path, Tag(WORD)]
    | Annotated[SystemConfig, Tag(KEYS)]
    | Annotated[HttpConfig, Tag(ENDPOINT)]
    | Annotated[FunctionConfig, Tag(FUNCTION)]
    | Annotated[OpenAIConfig, AfterValidator(lambda chat: chat.over_http), Tag(CHAT)]
    | Annotated[RegisteredConfig, Tag(REGISTERED)],
    Discriminator(_form_of_system, custom_error_type=UNKNOWN_KIND, custom_error_message=UNKNOWN_KIND),
]


def _prompt_in_file(given: object) -> object:
    """The prompt in the file that is named; raises what ``read_prompt`` raises."""
    if not isinstance(given, str):
        return given
    try:
        return read_prompt(Path(given), "judge_prompt")
    except BadSettings as error:
        error.where = None  # a ValueError, whose place pydantic adds
        raise


class GatedConfig(EvalConfig):
    """An evaluation whose report has to clear gates."""

    baseline: str | None = Field(
        None,
        description="what gates compare with: a run, RUN#SYSTEM or a report file; with several datasets, the system that "
        "the others are compared with",
        examples=["last-release.json"],
    )
    gates: GateList = Field(
        (),
        max_length=100,
        description="thresholds that `ragassay gate` checks",
        examples=[
            [
                {"mrr": ">= 0.70"},
                {"latency_ms.p95": "<= 2000"},
                {"metric": "faithfulness", "min": 0.8, "coverage": 0.95},
                {"metric": "correctness", "max_drop": 0.02},
            ]
        ],
    )

    @field_validator("gates")
    @classmethod
    def _about_known_figures(cls, gates: GateList, info: ValidationInfo) -> GateList:
        """The criteria and composites before them are metrics too."""
        before = {key: info.data.get(key, {}) for key in ("criteria", "composites")}
        try:
            custom = custom_metrics(EvalConfig.model_construct(**before))
        except BadInput:  # the check of the composites reports it, with its place
            return gates
        for gate in gates:
            try:
                Figure.parse(gate.metric, custom)
            except BadInput as error:
                raise ValueError(str(error)) from None
        return gates

    @property
    def evaluation(self) -> RunConfig:
        """What a run is made from, and a report keeps."""
        return RunConfig.model_validate(self.model_dump(include={*RunConfig.model_fields}, exclude_unset=True))


class ProjectConfig(RunConfig, GatedConfig):
    """The document. Paths in a file are relative to the folder of that file."""

    judge_prompt: Annotated[
        JudgePrompt | None, BeforeValidator(_prompt_in_file, json_schema_input_type=str | JudgePrompt | None)
    ] = Field(
        None,
        description="file with instructions for the judge's model around ours, which are inserted at `{{ verdict }}`",
        examples=["prompts/own.md"],
    )
    data: Path | None = Field(None, description="queries, with or without responses", examples=["queries.jsonl"])
    datasets: dict[str, Path] = Field(
        {},
        description="by name, files of queries or stored datasets, in place of `data`",
        examples=[{"faq": "faq.jsonl", "handbook": "handbook@3f21"}],
    )
    corpus: Path | None = Field(
        None, description="passages that built-in systems search, as JSON Lines", examples=["corpus.jsonl"]
    )
    systems: dict[str, SystemChoice] = Field(
        {},
        description="by name, a file of responses, the address of an endpoint or a built-in system; without any, the "
        "responses in the data",
        examples=[
            {
                "ours": "responses/ours.jsonl",
                "bm25": {"kind": "bm25", "answer": "extractive"},
                "live": {
                    "url": "http://127.0.0.1:8000/ask",
                    "request": {"question": "{query}"},
                    "reply": {"answer": "$.text", "contexts": "$.sources[*].text"},
                },
            }
        ],
    )
    format: Literal["auto", "json", "jsonl", "csv", "tsv", "parquet", "trec", "traces"] = Field(
        "auto", description="format of the files"
    )
    map: dict[str, str | list[str]] = Field(
        {},
        description="your column for each of our fields that isn't recognized; a list if the files' columns differ",
        examples=[{"answer": "reply_text"}],
    )
    duplicates: Literal["error", "keep_first"] = Field(
        "error", description="what to do if a response lists a document twice"
    )
    limit: int | None = Field(None, ge=1, le=10**12, description="only the first N rows; default: all", examples=[100])
    labels: Path | None = Field(
        None,
        description="labels by people for some of the responses, from 0 to 1, by metric; they correct the judge's means",
        examples=["labels.csv"],
    )
    plugins: tuple[str, ...] = Field(
        (),
        description="Python files and modules that register metrics, judges, systems and exporters; they are run",
        examples=[["metrics/own.py", "our_package.metrics"]],
    )
    output: tuple[Path, ...] = Field(
        (), description="report files; the extension picks the format", examples=[["report.json", "report.md"]]
    )
    schedule: PlannedJob | None = Field(
        None,
        description="a job that a service runs at scheduled times; only `ragassay schedule add` reads it",
        examples=[
            {"cron": "30 2 * * *", "zone": "Europe/Berlin", "dataset": "handbook", "systems": ["online"]},
        ],
    )

    @property
    def reading(self) -> dict[str, Any]:
        """How a file of rows is read: arguments of ``datasets.load``."""
        return {
            "format": self.format,
            "mapping": self.map,
            "duplicates": self.duplicates,
            "limit": self.limit,
            "max_grade": self.highest_grade,
        }


def sections(document: type[BaseModel] = ProjectConfig) -> dict[str, type[BaseModel]]:
    """The keys of a document that are sections with keys of their own."""
    annotations = {key: field.annotation for key, field in document.model_fields.items()}
    return {key: kind for key, kind in annotations.items() if isinstance(kind, type) and issubclass(kind, BaseModel)}


def section_of(key: str) -> str | None:
    """The section that a key stands in; None for one at the top, and for one that is none."""
    return next((name for name, model in sections().items() if key in model.model_fields), None)


def in_order(model: type[BaseModel]) -> list[str]:
    """The keys of a document as its pages list them: what is evaluated, how, and what the result has to clear."""
    run, gated = RunConfig.model_fields, GatedConfig.model_fields.keys() - EvalConfig.model_fields.keys()
    return sorted(model.model_fields, key=lambda key: 2 if key in gated else int(key in run))


_HEAD = """\
# What ragassay evaluates here, and how. Every value below is the default, so a line may go.
# `ragassay evaluate` and `ragassay gate` read this file; flags and --set KEY=VALUE change it for one call.
"""


def template() -> str:
    """What ``ragassay info init`` writes: YAML that loads as the defaults; a key that has none is empty."""
    values = ProjectConfig().model_dump(mode="json") | {"judge": DEFAULTS.judged_by, "judges": None}
    return "\n".join([_HEAD, *_commented(ProjectConfig, values, "")])


def _commented(model: type[BaseModel], values: Mapping[str, Any], indent: str) -> list[str]:
    """The keys of a section with their descriptions as comments, examples and defaults."""
    lines: list[str] = []
    for key in in_order(model):
        field, value = model.model_fields[key], values[key]
        about = (field.description or "").replace("`", "")
        lines += textwrap.wrap(about, 110, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
        if field.examples:
            is_scalar = isinstance(field.examples[0], str | int)
            style = {"default_flow_style": False if is_scalar else None, "sort_keys": False, "width": 110}
            example = yaml.safe_dump({key: field.examples[0]}, **style)
            lines += textwrap.indent(example, f"{indent}#   ").splitlines()
        if key in sections():
            lines += [f"{key}:", *_commented(sections()[key], value, "  ")]
        elif value is None:
            lines += [f"{indent}{key}:", ""]
        else:
            lines += [f"{indent}{key}: {value if isinstance(value, str) else json.dumps(value)}", ""]
    return lines
