"""What a client may ask for: the body of ``POST /v1/jobs``, and what the operator allows of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import ConfigDict, Field, field_validator

from ragassay.api.bodies import check_json, read_as
from ragassay.api.examples import SUBMISSION
from ragassay.api.security import bootstrap_key
from ragassay.api.stored_rows import rows_of
from ragassay.config import Configuration, check_rules
from ragassay.config.document import option_of, options, section_of
from ragassay.data.versions import DatasetStore
from ragassay.documents import Source
from ragassay.errors import BadSettings, UnknownName
from ragassay.job_reports import Gating
from ragassay.judges.instructions import read_prompt
from ragassay.models import Sample
from ragassay.settings import Settings
from ragassay.specification import JobSpec, JudgeParameters

_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
_OPERATOR = "a job can't set this; the server's operator does"
_SEE_SERVE = "see: ragassay serve --help"
_ROWS = "the service reads no file of a caller's"
_CODE = "the service runs no code of a caller's; its operator installs plug-ins"
_SAMPLES = "put the rows, each with its response, into 'samples', or upload them: PUT /v1/datasets/NAME"
REFUSED = {
    **dict.fromkeys(
        ("api_key", "base_url", "key", "provider", "endpoint", "url", "embeddings", "callback"),
        (_OPERATOR, _SEE_SERVE),
    ),
    **{key: (_OPERATOR, _SEE_SERVE) for key, (_, option) in options().items() if option.set_by == "operator"},
    **{key: (_ROWS, _SAMPLES) for key, (_, option) in options().items() if option.set_by == "files"},
    "judge_prompt": (_OPERATOR, _SEE_SERVE),
    **dict.fromkeys(("plugin", "plugins", "import", "callable", "module"), (_CODE, "see: GET /v1/metrics")),
    "output": ("the service writes no file for a caller", "fetch the report: GET /v1/jobs/ID/report"),
}


def _as_sent(schema: dict[str, Any]) -> None:
    """The schema of the body: without what is refused, and without a default that is the operator's."""
    properties = schema["properties"]
    for key in REFUSED.keys() & properties.keys():
        del properties[key]
    del properties["judge"]["default"]
    properties["judge"]["description"] += "; default: the operator's"
    properties["baseline"]["description"] = "JOB or JOB#SYSTEM that gates compare with; a finished job"
    schema["example"] = SUBMISSION


class JobParameters(JudgeParameters):
    """What a job may send the judge's model: a body of its own could have the operator's provider do anything."""

    model_config = ConfigDict(json_schema_extra=lambda schema: schema["properties"].pop("extra_body"))

    @field_validator("extra_body")
    @classmethod
    def _is_the_operators(cls, body: dict[str, Any]) -> dict[str, Any]:
        if body:
            raise ValueError(_OPERATOR)
        return body


class NewJob(Configuration):
    """An evaluation to be queued: rows, and any of the keys of a configuration that name no file of the server."""

    model_config = ConfigDict(strict=True, json_schema_extra=_as_sent)

    parameters: Annotated[JobParameters, option_of(Configuration.model_fields["parameters"])] = JobParameters()
    samples: list[dict[str, Any]] | None = Field(
        None,
        min_length=1,
        max_length=100_000,
        description="rows with queries and recorded responses: a sample's and a response's fields side by side, or the "
        "response's inside 'response'; other tools' names for them are understood",
    )
    dataset: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=200,
            description="without 'samples', the stored dataset whose rows are evaluated: NAME, its latest version, or "
            "NAME@VERSION; beside them, the rows' name in the report, where the job's name is the default",
        ),
    ] = None


def read(
    body: bytes, settings: Settings, datasets: DatasetStore | None = None
) -> tuple[JobSpec, Source, Sequence[Sample], Gating]:
    """The specification, the dataset, the samples and the gates in a body.

    Raises Refused (not JSON), UnknownName and BadSettings (a key, metric, judge or rule), BadData (values and rows),
    NotFound (a dataset).
    """
    document = check_json(body)
    _check_keys(document)
    job = read_as(NewJob, document)
    own = {**_limited(job, settings), "judge": (judge := _judge(job, settings))}
    if settings.judge_prompt is not None and judge != "local":
        own["judge_prompt"] = read_prompt(settings.judge_prompt, "RAGASSAY_JUDGE_PROMPT")
    spec = job.to_job_spec().model_copy(update=own)
    check_rules(job)
    source, samples = rows_of(job, datasets)
    gating = Gating(
        criteria=tuple(job.criteria),
        composites=job.composites,
        gates=job.gates,
        baseline=job.baseline,
        statistics=job.statistics,
    )
    return spec, source, samples, gating


def _check_keys(document: dict[str, Any]) -> None:
    """Refuse keys that a body must not set. A whole ragassay.yaml may be sent: a default is not refused."""
    for key, value in document.items():
        if key in REFUSED and (key not in Configuration.model_fields or value not in _defaults(key)):
            what, hint = REFUSED[key]
            raise BadSettings(what, where=key, hint=hint)
        if section := section_of(key):
            raise BadSettings(f"unknown key {key!r}", where=key, hint=f"it belongs in {section!r}")


def _defaults(key: str) -> tuple[Any, ...]:
    """How JSON writes the default of a key of the configuration."""
    return (Configuration().model_dump(mode="json")[key], None)


def _judge(job: NewJob, settings: Settings) -> str:
    """The judge that is asked for, if the operator allows it."""
    name = job.judge if "judge" in job.model_fields_set else settings.judge
    model = name.removeprefix("llm:")
    allowed = _allowed(settings)
    if name == "local" or (allowed is not None and model in allowed):
        return name
    if not _MODEL.fullmatch(model) or "//" in model:
        what = f"{name[:100]!r} is not the name of a model"
        raise BadSettings(what, where="judge", hint="write 'local', or name a model as LiteLLM does")
    if allowed is not None:
        raise UnknownName("judge", name, ["local", *allowed], where="judge")
    return name


def _allowed(settings: Settings) -> list[str] | None:
    """Models that jobs may name; None for any. Without a list, any where no key is asked for: that is loopback."""
    if settings.judges is not None:
        named = (name.strip().removeprefix("llm:") for name in settings.judges.split(","))
        return [name for name in named if name]
    return None if bootstrap_key(settings) is None else [settings.judge.removeprefix("llm:")]


def _limited(job: NewJob, settings: Settings) -> dict[str, Any]:
    """What the operator limits: as asked for, else the usual value or the limit, whichever is less."""
    limited = {}
    asked = job.performance
    for field, limit in (("concurrency", settings.max_concurrency), ("timeout_s", settings.max_timeout_s)):
        value = getattr(asked, field)
        if value > limit and field in asked.model_fields_set:
            raise BadSettings(f"should be at most {limit:g}, the operator's limit", where=f"performance.{field}")
        limited[field] = min(value, limit)
    return limited
