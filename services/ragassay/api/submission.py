"""What a client may ask for: the body of ``POST /v1/jobs``, and what the operator allows of it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from ragassay.api.bodies import check_json
from ragassay.api.door import bootstrap_key
from ragassay.api.examples import SUBMISSION
from ragassay.data.inline import load_rows
from ragassay.data.problems import plain_words
from ragassay.documents import Source
from ragassay.errors import BadData, BadSettings, UnknownName
from ragassay.metrics import parse
from ragassay.metrics.accuracy import AccuracyRule
from ragassay.models import JobSpec, Noun, Price, Sample
from ragassay.settings import Settings
from ragassay.stats import stop_rule

_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
_OPERATORS = ("api_base", "api_key", "base_url", "key", "provider", "endpoint", "url", "embeddings", "callback")
_OF = JobSpec.model_fields


class NewJob(Noun):
    """An evaluation to be queued. Everything but ``samples`` may be left out."""

    model_config = ConfigDict(strict=True, json_schema_extra={"example": SUBMISSION})

    samples: list[dict[str, Any]] = Field(
        min_length=1,
        max_length=100_000,
        description="rows with queries and recorded responses: a sample's and a response's fields side by side, or the "
        "response's inside 'response'; other tools' names for them are understood",
    )
    dataset: Annotated[
        str | None,
        Field(min_length=1, max_length=200, description="the rows' name in the report; default: the job's name"),
    ] = None
    name: Annotated[str | None, Field(min_length=1, max_length=200, description="the job's name")] = None
    judge: Annotated[str | None, Field(max_length=200, description="'local' or a model; default: the server's")] = None
    metrics: Annotated[
        list[str] | None, Field(min_length=1, max_length=200, description="default: those that the rows allow")
    ] = None
    seed: Annotated[int, Field(ge=0, lt=2**32, description="of judge and bootstrap")] = 0
    confidence: Annotated[float, Field(gt=0.5, lt=1, description="level of the intervals")] = 0.95
    accurate: Annotated[str, Field(max_length=1000, description="when an answer is accurate")] = _OF["accurate"].default
    relevant_from: Annotated[float | None, Field(gt=0, description="grade from which a document is relevant")] = None
    max_grade: Annotated[float, Field(gt=0, description="the highest grade there is")] = 3.0
    graded: Annotated[bool, Field(description="use grades of relevance; false: what is relevant counts 1")] = True
    stop_when: Annotated[
        str | None,
        Field(max_length=1000, description="'width <= 0.1' or 'decided against baseline': ends judging early"),
    ] = None
    baseline: Annotated[str | None, Field(max_length=200, description="a finished job to decide against")] = None
    max_missing: Annotated[float, Field(ge=0, le=1, description="largest share of failed rows that is success")] = 0.05
    passes: Annotated[Literal[1, 2], Field(description="how often the judge is asked")] = 1
    prices: Annotated[dict[str, Price], Field(default_factory=dict, description="USD per million tokens, by model")]
    cache: Annotated[bool, Field(description="use finished calls of earlier jobs")] = True
    concurrency: Annotated[int | None, Field(ge=1, description="judge calls at once, up to the operator's limit")] = (
        None
    )
    timeout_s: Annotated[float | None, Field(gt=0, description="for a judge call, up to the operator's limit")] = None


def read(body: bytes, settings: Settings) -> tuple[JobSpec, Source, tuple[Sample, ...]]:
    """The specification, the dataset and the samples in a body.

    Raises Refused (not JSON), UnknownName and BadSettings (a key, metric, judge or rule), BadData (values and rows).
    """
    _check_keys(check_json(body))
    try:
        job = NewJob.model_validate_json(body, strict=True)
    except ValidationError as error:
        raise BadData([f"{place}: {what}" for place, what in plain_words(error)]) from None
    asked = job.model_dump(exclude={"samples", "dataset"})
    spec = JobSpec(**{**asked, **_limited(job, settings), "judge": _judge(job.judge, settings)})
    for name in spec.metrics or ():
        parse(name)
    AccuracyRule.parse(spec.accurate)
    if spec.stop_when is not None:
        stop_rule(spec.stop_when)
    rows = load_rows(job.samples, name="samples")
    return (
        spec,
        Source(name=job.dataset or job.name or "samples", digest=rows.digest, rows=len(rows.samples)),
        rows.samples,
    )


def _check_keys(document: dict[str, Any]) -> None:
    for key in document:
        if key in _OPERATORS:
            raise BadSettings(
                "a job can't set this; the server's operator does", where=key, hint="see: ragassay serve --help"
            )
        if key not in NewJob.model_fields:
            raise UnknownName("key", key[:100], NewJob.model_fields)


def _judge(name: str | None, settings: Settings) -> str:
    """The judge that is asked for, if the operator allows it."""
    name = settings.judge if name is None else name
    model = name.removeprefix("llm:")
    allowed = _allowed(settings)
    if name == "local" or (allowed is not None and model in allowed):
        return name
    if not _MODEL.fullmatch(model) or "//" in model:
        what = f"{name[:100]!r} is not the name of a model"
        raise BadSettings(what, where="judge", hint="say 'local', or name a model as LiteLLM does")
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
    found = {}
    for field, limit in (("concurrency", settings.max_concurrency), ("timeout_s", settings.max_timeout_s)):
        asked = getattr(job, field)
        if asked is not None and asked > limit:
            raise BadSettings(f"should be at most {limit:g}, the operator's limit", where=field)
        found[field] = min(_OF[field].default, limit) if asked is None else asked
    return found
