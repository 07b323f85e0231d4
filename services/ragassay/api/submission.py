"""What a client may ask for: the body of ``POST /v1/jobs``, and what the operator allows of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from ragassay.api.bodies import check_json, read_as
from ragassay.config import GatedConfig, ProjectConfig, check_rules, section_of, sections
from ragassay.core.errors import BadData, BadSettings, NotFound, UnknownName
from ragassay.core.eval_config import JudgeConfig, RunConfig
from ragassay.core.models import Sample
from ragassay.core.report import Source
from ragassay.core.settings import Settings
from ragassay.core.validation import shown
from ragassay.datasets.dataset import Responses
from ragassay.datasets.load import load, load_responses
from ragassay.datasets.source import NumberedRow
from ragassay.datasets.source import Source as Rows
from ragassay.datasets.versions import DatasetStore, reference_in, resolve, version_dataset
from ragassay.evaluation.inputs import Inputs, SystemInput, recorded, recorded_system
from ragassay.judges.panel import check_judges
from ragassay.judges.prompt import read_prompt
from ragassay.service.access import asks_for_key
from ragassay.service.job_reports import Gating
from ragassay.service.jobs import Jobs
from ragassay.service.registered import Registered
from ragassay.storage.protocol import system_name

_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
_OPERATOR = "a job can't set this; the server's operator does"
_SEE_VARIABLES = "the variables for it are in docs/reference/environment.md"
_RENAMING = re.compile(r"(?:--)?\bmap (?:'(\w+)=([^']+)'|(\w+)=(\S+))")  # a request has no options
_NEITHER = (
    "samples: is missing: put the rows, each with its response, into 'samples', or name a stored dataset: 'dataset'"
)
_NO_KEY = (
    "rows go into 'samples' or are a stored 'dataset', 'systems' are names of GET /v1/systems or 'responses' of rows; "
    "the service reads no file of a caller's"
)


def _as_sent(schema: dict[str, Any]) -> None:
    """The schema of the body, with an example and the defaults that are the operator's."""
    properties = schema["properties"]
    properties["judge"]["description"] += "; default: the operator's"
    properties["baseline"]["description"] = (
        "what gates compare with: a system of this job, or JOB or JOB#SYSTEM of a finished one"
    )
    schema["example"] = {"name": "nightly", "dataset": "handbook", "metrics": ["mrr", "faithfulness"]}


_Row = Annotated[dict[str, Any], BeforeValidator(lambda row: row, json_schema_input_type=Sample | dict[str, Any])]


class JobRequest(GatedConfig):
    """An evaluation to be queued: rows and systems of the service, and how they are evaluated."""

    model_config = ConfigDict(strict=True, json_schema_extra=_as_sent)

    samples: list[_Row] | None = Field(
        None,
        min_length=1,
        max_length=100_000,
        description="rows with queries and recorded responses: a sample's and a response's fields side by side, or the "
        "response's inside 'response'; other tools' names for them are understood. Responses of several systems by name: "
        "'responses': {'v1': {...}, 'v2': {...}}",
    )
    systems: list[str] = Field(
        [],
        max_length=100,
        description="registered systems that answer the rows' queries, by name; GET /v1/systems lists them",
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
    body: bytes, settings: Settings, registered: Registered, datasets: DatasetStore
) -> tuple[RunConfig, Inputs, Gating]:
    """The specification, the rows with their systems, and the gates in a body.

    Raises Refused (not JSON), UnknownName and BadSettings (a key, metric, judge, system or rule), BadData (values and
    rows), NotFound (a dataset).
    """
    job, spec, gating = _parts(check_json(body), settings)
    return spec, _inputs(job, registered, datasets), gating


def read_scheduled(template: Mapping[str, Any], settings: Settings, jobs: Jobs) -> tuple[RunConfig, Inputs, Gating]:
    """The same of a schedule's job, whose rows are those of a stored dataset. Raises as ``read`` does."""
    if "samples" in template:
        what = "a schedule has no rows of its own"
        raise BadSettings(what, where="samples", hint="upload them and name them: 'dataset': 'NAME'")
    job, spec, gating = _parts(dict(template), settings)
    return spec, _inputs(job, jobs.registered, jobs.store.datasets), gating


def read_evaluation(template: Mapping[str, Any], settings: Settings) -> RunConfig:
    """How rows are evaluated that a job's document without rows is about. Raises UnknownName, BadSettings, BadData."""
    job, spec, gating = _parts(dict(template), settings)
    if gating.gates or job.samples is not None or job.systems or job.dataset is not None:
        raise BadSettings(
            "has rows, systems or gates", where="job", hint="say how rows are evaluated: 'metrics', 'judge'"
        )
    return spec


def _parts(document: dict[str, Any], settings: Settings) -> tuple[JobRequest, RunConfig, Gating]:
    """What a job's document asks for, apart from its rows: itself, its specification and its gates."""
    _check_keys(document)
    job = read_as(JobRequest, document)
    named = "judges" if "judges" in document else "judge"
    if "judges" not in job.model_fields_set:
        job = job.model_copy(update={"judges": (JudgeConfig(model=settings.judge),)})
    spec = _limited(job.evaluation, settings)
    for one in spec.judges:
        _check_judge(one.model, settings, named)
    if settings.judge_prompt is not None and not spec.is_local:
        prompt = read_prompt(settings.judge_prompt, "RAGASSAY_JUDGE_PROMPT")
        spec = spec.model_copy(update={"judge_prompt": prompt})
    check_rules(job)
    check_judges(spec)
    return job, spec, Gating(gates=job.gates, baseline=job.baseline, statistics=job.statistics)


def _inputs(job: JobRequest, registered: Registered, datasets: DatasetStore) -> Inputs:
    """The rows of a job and its systems: ``default`` where rows have a response without a name, those recorded in
    ``responses``, and registered ones.
    """
    of_rows = [row.pop("responses", None) for row in job.samples or ()]
    source, samples = _rows_of(job, datasets)
    ids = [sample.query_id for sample in samples]
    named = _named_responses(zip(ids, of_rows, strict=True)) if of_rows else {}
    for system in named:
        try:
            system_name(system)
        except ValueError as error:
            raise BadSettings(str(error), where="samples: responses") from None
    systems = {name: recorded_system(name, file.by_id, file.warnings) for name, file in named.items()}
    answered = any(sample.response for sample in samples)
    if answered and "default" in named:
        what = "system 'default' is there twice"
        raise BadSettings(
            what, where="samples", hint="a response without a name is its own; give the other another name"
        )
    if answered or not (systems or job.systems):
        systems = {**recorded(source, samples).systems, **systems}
    called = _registered(job, systems, registered, len(samples))
    return Inputs(source, samples, {**systems, **called})


def _rows_of(job: JobRequest, datasets: DatasetStore) -> tuple[Source, Sequence[Sample]]:
    """The dataset and its rows. ``dataset`` names the rows of the body; without rows, NAME or NAME@VERSION of a stored one.

    A name is resolved now: what is uploaded or deleted later changes nothing. Raises BadData, and NotFound for a
    dataset that is not there.
    """
    if job.samples is not None:
        try:
            rows = load(
                Rows(Path("samples"), enumerate(job.samples, 1), counts_lines=False), max_grade=job.highest_grade
            )
        except BadData as error:  # its hint is about an option
            hint = error.hint and "call the keys as we do: ragassay info schema sample"
            raise BadData([_renaming(each) for each in error.problems], hint=hint) from None
        name = job.dataset or job.name or "samples"
    else:
        if job.dataset is None:
            raise BadData([_NEITHER])
        if reference_in(job.dataset) is None:
            raise BadData([f"dataset: {job.dataset!r} is not of the form NAME or NAME@VERSION"])
        try:
            version = resolve(datasets, job.dataset)
        except UnknownName as error:
            hint = f"{error.hint}; upload it: PUT /v1/datasets/NAME"
            raise NotFound(error.message, where="dataset", hint=hint) from None
        rows = version_dataset(datasets, version, max_grade=job.highest_grade)
        name = version.name
    warnings = tuple(map(_renaming, rows.warnings))
    return Source(name=name, digest=rows.digest, rows=len(rows.samples), warnings=warnings), rows.samples


def _renaming(text: str) -> str:
    return _RENAMING.sub(r"rename \2\4 to \1\3", text)


def _named_responses(rows: Iterable[tuple[str, Any]]) -> dict[str, Responses]:
    """Each system's responses, of rows each of which is a query's id and ``{system: response}``, or None.

    Raises BadData with a line for every one that can't be read: ``samples: responses.v2: row 3: latency_ms: ...``.
    """
    by_system: dict[str, list[NumberedRow]] = {}
    bad: list[str] = []
    for number, (query_id, responses) in enumerate(rows, 1):
        if not isinstance(responses, dict | None):
            bad.append(f"samples: row {number}: responses: should be {{system: response}}, is {shown(responses)}")
            continue
        for system, response in (responses or {}).items():
            if not isinstance(response, dict | None):
                bad.append(f"samples: row {number}: responses.{system}: should be an object, is {shown(response)}")
            elif response:
                by_system.setdefault(system, []).append((number, {**response, "query_id": query_id}))
    if bad:
        raise BadData(bad, hint="write the rows' responses as 'responses': {'v1': {'answer': ...}, 'v2': ...}")
    return {
        system: load_responses(Rows(Path(f"samples: responses.{system}"), rows_of_system, counts_lines=False))
        for system, rows_of_system in by_system.items()
    }


def _registered(
    job: JobRequest, recorded: Collection[str], registered: Registered, rows: int
) -> dict[str, SystemInput]:
    """The registered systems that a job of so many rows names; none may be among the ``recorded`` ones."""
    if twice := next((name for name in job.systems if name in recorded or job.systems.count(name) > 1), None):
        what = f"system {twice!r} is there twice"
        raise BadSettings(what, where="systems", hint="its responses are recorded, or it is asked: name it once")
    return registered.inputs(job.systems, rows)


def _check_keys(document: dict[str, Any]) -> None:
    """Refuse the keys that a configuration has and a body has not, and say whose they are."""
    if isinstance(document.get("systems"), dict):
        raise BadSettings("a job can't set this", where="systems", hint=_NO_KEY)
    known, taken = sections(), sections(JobRequest)
    for key, value in document.items():
        if key not in JobRequest.model_fields:
            if key in RunConfig.model_fields:
                raise BadSettings(_OPERATOR, where=key, hint=_SEE_VARIABLES)
            if key in ProjectConfig.model_fields:
                raise BadSettings("a job can't set this", where=key, hint=_NO_KEY)
            if section := section_of(key):
                if key not in taken[section].model_fields:
                    raise BadSettings(_OPERATOR, where=key, hint=_SEE_VARIABLES)
                raise BadSettings(f"unknown key {key!r}", where=key, hint=f"it belongs in {section!r}")
        elif key in taken and isinstance(value, dict):
            for inner in value:
                if inner in known[key].model_fields and inner not in taken[key].model_fields:
                    raise BadSettings(_OPERATOR, where=f"{key}.{inner}", hint=_SEE_VARIABLES)


def _check_judge(model: str, settings: Settings, where: str) -> None:
    """Raise UnknownName or BadSettings for a judge that the operator does not allow."""
    allowed = _allowed(settings)
    if model == "local" or (allowed is not None and model in allowed):
        return
    if not _MODEL.fullmatch(model) or "//" in model:
        what = f"{model[:100]!r} is not the name of a model"
        raise BadSettings(what, where=where, hint="write 'local', or name a model as LiteLLM does")
    if allowed is not None:
        raise UnknownName("judge", model, ["local", *allowed], where=where)


def _allowed(settings: Settings) -> list[str] | None:
    """Models that jobs may name; None for any. Without a list, any where no key is asked for: that is loopback."""
    if settings.judges is not None:
        return [name for each in settings.judges if (name := each.removeprefix("llm:"))]
    return None if not asks_for_key(settings) else [settings.judge.removeprefix("llm:")]


def _limited(spec: RunConfig, settings: Settings) -> RunConfig:
    """With what the operator limits: as asked for, else the usual value or the limit, whichever is less."""
    limited, performance = {}, spec.performance
    for field, limit in (("concurrency", settings.max_concurrency), ("timeout_s", settings.max_timeout_s)):
        value = getattr(performance, field)
        if value > limit and field in performance.model_fields_set:
            raise BadSettings(f"should be at most {limit:g}, the operator's limit", where=f"performance.{field}")
        limited[field] = min(value, limit)
    return spec.model_copy(update={"performance": performance.model_copy(update=limited)})
