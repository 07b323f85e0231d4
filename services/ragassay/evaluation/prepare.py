"""Before a run begins: choose its metrics, resolve every name, and write down what determines its numbers."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path

import orjson
from pydantic import ValidationError

from ragassay.core.errors import BadData, BadInput, BadSettings, NothingToEvaluate
from ragassay.core.eval_config import RunConfig
from ragassay.core.models import Sample
from ragassay.core.plugins import imported
from ragassay.core.report import Provenance
from ragassay.core.validation import problems
from ragassay.evaluation.evaluate import ScoringConfig
from ragassay.evaluation.inputs import Inputs
from ragassay.evaluation.runtime import Runtime
from ragassay.llm.journal import MemoryJournal
from ragassay.metrics.accuracy import AccuracyRule
from ragassay.metrics.composite import check_custom_metrics, custom_metrics
from ragassay.metrics.metric import METRICS, Metric, parse
from ragassay.storage.protocol import RunRecord
from ragassay.systems.builtin import BuiltIn
from ragassay.systems.functions import SYSTEMS
from ragassay.systems.options import SystemConfig

DEFAULT_METRICS = (
    *("hit@1", "hit@3", "hit@5", "hit@10", "ndcg@5", "ndcg@10", "mrr", "map@10", "precision@5", "recall@10"),
    *("semantic_similarity", "faithfulness", "completeness", "relevance", "correctness"),
    *("context_precision", "context_recall", "accurate"),
)
_RECORDED_PACKAGES = (
    *("bm25s", "litellm", "numpy", "onnxruntime", "pydantic", "rouge-score", "tokenizers"),
    *("bert-score", "sentence-transformers", "torch"),
)


def prepare(spec: RunConfig, inputs: Inputs, run_id: str) -> RunRecord:
    """What a new run evaluates; builds nothing, so that a light process can accept a run for others to work on.

    Raises NothingToEvaluate when no system has a response or no metric its input, UnknownName and BadSettings.
    """
    check_custom_metrics(spec)
    joined = inputs.joined()
    if not any(sample.response for rows in joined.values() for sample in rows):
        raise NothingToEvaluate(
            "no row has a response",
            where=inputs.dataset.name,
            hint="name systems, or give the rows answers; 'map' names the column that has them",
            option="systems",
        )
    responses = (sample.response for rows in joined.values() for sample in rows)
    if spec.references and any(one.reference_labels for one in responses if one):
        raise BadSettings("labels and a reference judge both correct the means", hint="leave one of them out")
    return RunRecord(
        id=run_id,
        created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        spec=spec,
        metrics=tuple(metric.name for metric in choose_metrics(spec, joined, inputs.dataset.name)),
        dataset=inputs.dataset,
        systems={name: system.source for name, system in inputs.systems.items()},
        chunk_size=rows_at_once(spec),
    )


def rows_at_once(spec: RunConfig) -> int:
    """How many rows a chunk has. A model judges in rounds of ``concurrency`` calls: whole ones, for in the last round of a chunk
    the other slots are empty.
    """
    if spec.is_local:
        return spec.performance.batch
    return -(-spec.performance.batch // spec.performance.concurrency) * spec.performance.concurrency


def choose_metrics(spec: RunConfig, systems: Mapping[str, Sequence[Sample]], dataset: str) -> tuple[Metric, ...]:
    """The metrics to report: those asked for, else the default ones whose inputs some answered row has; and the run's own.

    Raises BadSettings where none is asked for, NothingToEvaluate where none has its input.
    """
    custom = custom_metrics(spec)
    names = DEFAULT_METRICS if spec.metrics is None else spec.metrics
    wanted = {metric.name: metric for metric in (parse(name, custom) for name in names)} | custom
    if not wanted:
        raise BadSettings("no metric is asked for", hint="leave metrics out for the default ones")
    lacking = dict.fromkeys(wanted, "")
    for sample in _answered(systems):
        lacking = {name: why for name in lacking if (why := wanted[name].missing_input(sample)) is not None}
        if not lacking or (spec.metrics is not None and len(lacking) < len(wanted)):
            break
    usable = {name: metric for name, metric in wanted.items() if name not in lacking}
    if spec.metrics is None and not usable.keys() & AccuracyRule.parse(spec.accurate, custom).metrics:
        usable = {name: metric for name, metric in usable.items() if metric.family != "accurate"}
    if not usable and any(lacking.values()):
        why = next(iter(lacking.values()))
        raise NothingToEvaluate(
            f"no row has the input of a metric: {why}",
            where=dataset,
            hint="give the rows the fields that a metric needs, or name other metrics",
            option="metrics",
        )
    return tuple((usable if spec.metrics is None else wanted).values())


def _answered(systems: Mapping[str, Sequence[Sample]]) -> Iterator[Sample]:
    return (sample for samples in systems.values() for sample in samples if sample.response)


def describe(runtime: Runtime, record: RunRecord) -> RunRecord:
    """The record with what judges and answers here: the judge's settings, and the models of built-in systems."""
    config = runtime.scoring_of(record)
    systems = dict(record.systems)
    for name, system in runtime.systems(systems, config, MemoryJournal()).items():
        source = systems[name]
        if source.built is not None and isinstance(system, BuiltIn):
            built = source.built.model_copy(update={"models": system.models})
            systems[name] = source.model_copy(update={"built": built})
    return with_judges(record.model_copy(update={"systems": systems}), config)


def with_judges(record: RunRecord, config: ScoringConfig) -> RunRecord:
    """The record with what judges here and now: judges, embedding model, and the code of ours and of plug-ins."""
    return record.model_copy(
        update={
            "judge": {"name": config.panel.name, **config.panel.settings},
            "embeddings": config.embedder.name if config.embedder else None,
            "code_digest": code_digest(),
            "plugins": {**{Path(name).name: digest for name, digest in imported().items()}, **_packages_used(record)},
        }
    )


def _packages_used(record: RunRecord) -> dict[str, str]:
    families = (parse(name, custom_metrics(record.spec)).family for name in record.metrics)
    kinds = (str(source.called.configuration.get("kind")) for source in record.systems.values() if source.called)
    packages = [*(METRICS.package(family) for family in families), *(SYSTEMS.package(kind) for kind in kinds)]
    return dict(sorted(package for package in packages if package))


def check_unchanged(runtime: Runtime, record: RunRecord) -> None:
    """Raise BadSettings when what judges or answers now is not what did before the interruption."""
    now = describe(runtime, record)
    changed = [f"index or models of {name!r}" for name, source in now.systems.items() if source != record.systems[name]]
    kept = ("judge", "embeddings", "code_digest", "plugins")
    if changed := [*changed, *(key for key in kept if getattr(now, key) != getattr(record, key))]:
        raise BadSettings(
            f"run {record.id} can't be resumed: its {' and '.join(changed)} changed since it began",
            hint="numbers of both would be mixed; start a new run (finished calls are taken from the cache)",
        )


def check_names(record: RunRecord, where: Path) -> None:
    """Raise BadData for a built-in system, a metric or a rule of a stored record that can't be read."""
    try:
        custom = custom_metrics(record.spec)
        AccuracyRule.parse(record.spec.accurate, custom)
        for name in record.metrics:
            parse(name, custom)
        for source in record.systems.values():
            if source.built is not None:
                SystemConfig.model_validate(source.built.configuration)
    except BadInput as error:
        raise BadData([f"{where}: {error.message}"], hint=error.hint) from None
    except ValidationError as error:
        raise BadData([f"{where}: {problems(error)[0]}"], hint="the run's folder is damaged") from None


def provenance(record: RunRecord) -> Provenance:
    """The part of the report that says where its numbers come from. The record must say what judges."""
    return Provenance(
        ragassay=metadata.version("ragassay"),
        code_digest=record.code_digest or code_digest(),
        plugins=record.plugins,
        python=platform.python_version(),
        packages=_packages(),
        dataset=record.dataset,
        systems=record.systems,
        judge=record.judge or {},
        embeddings=record.embeddings,
        metrics=record.metrics,
        configuration=record.spec,
        configuration_digest=hashlib.sha256(record.spec.model_dump_json().encode()).hexdigest(),
    )


def _packages() -> dict[str, str]:
    versions = {}
    for name in _RECORDED_PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


@cache
def code_digest() -> str:
    """SHA-256 over the package's source files, names included."""
    digest = hashlib.sha256()
    root = Path(__file__).parent.parent
    for path in sorted(root.rglob("*.py")):
        digest.update(orjson.dumps([path.relative_to(root).as_posix(), path.read_text()]))
    return digest.hexdigest()
