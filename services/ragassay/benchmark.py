"""Systems x datasets: what to compute, in which chunks, and where it was left off."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import platform
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Literal

import orjson

from ragassay import reports
from ragassay.data.load import join, load_responses
from ragassay.data.load import load as load_dataset
from ragassay.documents import Provenance, Report, Source, Stopped
from ragassay.engine import Plan, Tools, evaluate, rows_to_judge
from ragassay.errors import BadSettings, BudgetReached, NothingToEvaluate
from ragassay.ledger import DryLedger
from ragassay.metrics import METRICS, Metric, parse
from ragassay.metrics.accuracy import AccuracyRule
from ragassay.models import JobSpec, Response, Sample, Usage
from ragassay.seams import Strategy
from ragassay.stopping import Scores, Watch
from ragassay.store.folder import FolderStore, Manifest, Run, new_run_id
from ragassay.strategies.answering import extract
from ragassay.strategies.builtin import BuiltIn, to_be_built
from ragassay.strategies.options import SystemConfig
from ragassay.strategies.recorded import Recorded

DEFAULT_METRICS = (
    *("hit@1", "hit@3", "hit@5", "hit@10", "ndcg@5", "ndcg@10", "mrr", "map@10", "precision@5", "recall@10"),
    *("semantic_similarity", "faithfulness", "completeness", "relevance", "correctness"),
    *("context_precision", "context_recall", "accurate"),
)
_RECORDED_PACKAGES = (
    *("bm25s", "litellm", "numpy", "pydantic", "rouge-score", "bert-score", "sentence-transformers", "torch"),
)

logger = logging.getLogger("ragassay")
_SYSTEM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def load(
    data: Path,
    systems: Mapping[str, Path | SystemConfig],
    *,
    corpus: Path | None = None,
    format: str = "auto",  # noqa: A002 - as the option is called
    mapping: Mapping[str, str] | None = None,
    duplicates: Literal["error", "keep_first"] = "error",
    limit: int | None = None,
    name: str | None = None,
) -> tuple[Source, tuple[Sample, ...], dict[str, tuple[Source, Mapping[str, Response]]]]:
    """The dataset, its samples, and each system's responses; without ``systems`` those in ``data`` as ``default``.

    A system is a file of responses, or a built-in one: that has no responses yet, and searches ``corpus``.
    """
    for system in systems:
        if not _SYSTEM_NAME.fullmatch(system):
            raise BadSettings(f"system name {system!r} must be letters, digits, '.', '_' or '-', 64 at the most")
    dataset = load_dataset(data, format=format, mapping=mapping, duplicates=duplicates, limit=limit)
    source = Source(name=name or dataset.name, digest=dataset.digest, rows=len(dataset.samples))
    found: dict[str, tuple[Source, Mapping[str, Response]]] = {}
    for system, choice in systems.items():
        if isinstance(choice, SystemConfig):
            found[system] = (to_be_built(system, choice, corpus, len(dataset.samples)), {})
            continue
        given = load_responses(choice, format=format, mapping=mapping, duplicates=duplicates)
        responses = {s.query_id: s.response for s in join(dataset, given, system) if s.response}
        found[system] = (Source(name=system, digest=given.digest, rows=len(responses)), responses)
    if not systems:
        responses = {sample.query_id: sample.response for sample in dataset.samples if sample.response}
        found["default"] = (source.model_copy(update={"name": "default", "rows": len(responses)}), responses)
    return source, dataset.samples, found


def computable() -> dict[str, Callable[[Sample], str | None]]:
    """For each metric family, what a sample lacks for it; None when nothing."""
    return {metric.family: metric.lacks for metric in METRICS}


def choose(spec: JobSpec, systems: Mapping[str, Sequence[Sample]]) -> tuple[Metric, ...]:
    """The metrics to report: those asked for, else the default ones whose inputs some answered row has."""
    if spec.metrics is not None:
        chosen = {metric.name: metric for metric in map(parse, spec.metrics)}
        if not chosen:
            raise BadSettings("no metric is asked for", hint="leave metrics out for the default ones")
        _check_computable(list(chosen.values()), systems)
        return tuple(chosen.values())
    answered = [sample for samples in systems.values() for sample in samples if sample.response]
    usable = [m for m in map(parse, DEFAULT_METRICS) if any(m.lacks(sample) is None for sample in answered)]
    reads = {parse(name).name for name in AccuracyRule.parse(spec.accurate).metrics}
    scorable = reads & {metric.name for metric in usable}
    return tuple(metric for metric in usable if metric.family != "accurate" or scorable)


def _check_computable(metrics: Sequence[Metric], systems: Mapping[str, Sequence[Sample]]) -> None:
    """Raise NothingToEvaluate when no answered row has the input of any of the metrics."""
    answered = [sample for samples in systems.values() for sample in samples if sample.response]
    lacks = [metric.lacks(sample) for metric in metrics for sample in answered]
    if lacks and all(lacks):
        raise NothingToEvaluate(
            f"no row has the input of a requested metric: {lacks[0]}", hint="see: ragassay data check FILE"
        )


def plan(spec: JobSpec, metrics: Sequence[Metric]) -> Plan:
    """What to compute for every sample."""
    rule = AccuracyRule.parse(spec.accurate)
    return Plan(tuple(metrics), rule, spec.relevant_from, spec.max_grade, spec.half_life_days, spec.graded)


async def estimate(
    spec: JobSpec,
    systems: Mapping[str, Mapping[str, Response]],
    samples: Sequence[Sample],
    tools: Tools,
    built: Mapping[str, BuiltIn] | None = None,
) -> list[Usage]:
    """What each judge call of an evaluation would take, made by the code that makes the calls; none is made.

    ``tools`` must hold a DryLedger. ``built`` systems retrieve; with a DryLedger of their own they call no model, and
    sentences of the passages stand in for its answers.
    """
    systems = dict(systems)
    for name, system in (built or {}).items():
        given = await asyncio.gather(*(system.respond(sample) for sample in samples))
        systems[name] = {
            sample.query_id: response.model_copy(update={"answer": extract(sample.query, response.contexts or ())})
            if system.config.answer and response.answer is None
            else response
            for sample, response in zip(samples, given, strict=True)
        }
    if not isinstance(tools.ledger, DryLedger):
        raise BadSettings("an estimate needs a ledger that lets no call through")
    joined = {name: _join(samples, responses) for name, responses in systems.items()}
    planned = plan(spec, choose(spec, joined))
    for rows in joined.values():
        await tools.judge.judge([rows[n] for n in rows_to_judge(rows, planned)], tools.ledger)
    return tools.ledger.estimates


def _join(samples: Sequence[Sample], responses: Mapping[str, Response], source: Source | None = None) -> list[Sample]:
    """The samples with their responses; for a built-in system, with the fields that its responses are going to have."""
    if source and source.built:
        answers = source.built.configuration["answer"]
        promised = Response(
            answer="?" if answers else None,
            contexts=("?",),
            retrieved_doc_ids=("?",),
            retrieval_latency_ms=0.0,
            latency_ms=0.0,
        )
        return [sample.model_copy(update={"response": promised}) for sample in samples]
    return [sample.model_copy(update={"response": responses.get(sample.query_id)}) for sample in samples]


def prepare(
    store: FolderStore,
    spec: JobSpec,
    dataset: Source,
    samples: Sequence[Sample],
    systems: Mapping[str, tuple[Source, Mapping[str, Response]]],
    tools: Tools,
    *,
    baseline: Scores | None = None,
) -> Run:
    """Write a new run down, ready to be worked on; raises NothingToEvaluate when no system has a response.

    ``baseline``: see ``work``. Raises BadSettings for a stop rule that can't be followed.
    """
    joined = {name: _join(samples, responses, source) for name, (source, responses) in systems.items()}
    if not any(sample.response for rows in joined.values() for sample in rows):
        raise NothingToEvaluate(
            "no row has a response", where=dataset.name, hint="name a system's responses: --system NAME=FILE"
        )
    metrics = choose(spec, joined)
    if not metrics:
        raise NothingToEvaluate("no default metric has the input it needs", hint="see: ragassay data check FILE")
    if spec.stop_when is not None:
        Watch(spec, metrics, list(systems), baseline)
    sources = {name: source for name, (source, _) in systems.items()}
    created_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    names = tuple(metric.name for metric in metrics)
    run = manifest(new_run_id(spec.name or dataset.name), created_at, spec, names, dataset, sources, tools)
    return store.create(run, samples, {name: responses for name, (_, responses) in systems.items()})


def manifest(
    run_id: str,
    created_at: str,
    spec: JobSpec,
    metrics: tuple[str, ...],
    dataset: Source,
    systems: Mapping[str, Source],
    tools: Tools,
) -> Manifest:
    """What a run evaluates, and what judges it."""
    return Manifest(
        id=run_id,
        created_at=created_at,
        spec=spec,
        metrics=metrics,
        dataset=dataset,
        systems=dict(systems),
        judge={"name": tools.judge.name, **tools.judge.settings},
        embeddings=tools.embedder.name if tools.embedder else None,
        code_digest=code_digest(),
    )


def check_unchanged(run: Run, tools: Tools, systems: Mapping[str, Source] | None = None) -> None:
    """Raise BadSettings when what judges or answers now is not what did before the interruption.

    ``systems``: the built-in ones as they are now.
    """
    for name, source in (systems or {}).items():
        if source != run.manifest.systems[name] and run.pending():
            raise BadSettings(
                f"run {run.manifest.id} can't be resumed: the models or the index of {name!r} changed since it began",
                hint="start a new run",
            )
    now = {
        "judge": {"name": tools.judge.name, **tools.judge.settings},
        "embeddings": tools.embedder.name if tools.embedder else None,
        "code_digest": code_digest(),
    }
    before = run.manifest.model_dump(include=set(now))
    changed = [key for key in now if now[key] != before[key]]
    if changed and run.pending():
        raise BadSettings(
            f"run {run.manifest.id} can't be resumed: its {' and '.join(changed)} changed since it began",
            hint="numbers of both would be mixed; start a new run (finished calls are taken from the cache)",
        )


async def work(
    run: Run,
    tools: Tools,
    done: Callable[[int], object] = int,
    *,
    baseline: Scores | None = None,
    built: Mapping[str, Strategy] | None = None,
) -> None:
    """Evaluate the chunks that have no results yet; ``done`` hears how many rows each committed chunk had.

    ``built``: the systems that answer now; the others have their responses recorded in the run.
    Under ``stop_when`` chunk by chunk, until the rule is satisfied; ``baseline`` has the scores of a baseline that is no
    system of the run.
    """
    spec = run.manifest.spec
    planned = plan(spec, [parse(name) for name in run.manifest.metrics])
    strategies: dict[str, Strategy] = {name: Recorded(name, run.responses(name)) for name in run.manifest.systems}
    strategies |= built or {}
    names = ", ".join(strategies)
    logger.info("evaluation of %d queries starts: %s, systems %s", run.manifest.dataset.rows, run.manifest.id, names)
    # Beside the judging of another chunk, a system would be measured as slower than it is.
    gate = asyncio.Semaphore(1 if built else 2 + spec.concurrency // (run.manifest.chunk_size // 2))

    async def one(system: str, number: int) -> None:
        async with gate:
            results = await evaluate(run.chunk(number), strategies[system], planned, tools)
            run.commit(system, number, results)
            done(len(results))

    pending = run.pending()
    if spec.stop_when is None:
        await _together([one(*chunk) for chunk in pending])
        return
    watch = Watch(spec, planned.metrics, list(run.manifest.systems), baseline)
    for number in sorted({number for _, number in run.chunks()}):
        await _together([one(*chunk) for chunk in pending if chunk[1] == number])
        if watch.update({name: run.chunk_results(name, number) or [] for name in run.manifest.systems}):
            return


async def _together(work: Sequence[Coroutine[None, None, None]]) -> None:
    """Run all to the end; when one fails, the others are cancelled and its error is raised."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    except BudgetReached:
        await asyncio.gather(*tasks, return_exceptions=True)  # their calls in flight are paid already
        raise
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def finish(run: Run, *, baseline: Scores | None = None) -> Report:
    """Recount everything from the results and write the report. ``baseline``: see ``work``."""
    manifest, stopped, taken = run.manifest, None, None
    numbers = sorted({number for _, number in run.chunks()})
    if manifest.spec.stop_when is not None:
        watch = Watch(manifest.spec, [parse(name) for name in manifest.metrics], list(manifest.systems), baseline)
        for number in numbers:
            watch.update({name: run.chunk_results(name, number) or [] for name in manifest.systems})
        if watch.why and watch.chunks < len(numbers):
            taken = watch.chunks
            rest = [sample for number in numbers[taken:] for sample in run.chunk(number)]
            left = {name: _join(rest, run.responses(name), source) for name, source in manifest.systems.items()}
            stopped = stopped_early(watch, manifest, left)
    report = reports.build(
        manifest.id,
        manifest.created_at,
        provenance(manifest),
        {name: run.results(name, chunks=taken) for name in manifest.systems},
        expected=len(run.samples),
        stopped=stopped,
    )
    run.save(report)
    reports.log_end(report)
    return report


def stopped_early(watch: Watch, run: Manifest, left: Mapping[str, Sequence[Sample]]) -> Stopped:
    """What to say of a run whose rule was satisfied while the samples ``left``, by system, were still to come."""
    planned = plan(run.spec, [parse(name) for name in run.metrics])
    calls = 0 if run.spec.judge == "local" else run.spec.passes
    rows_left = max(map(len, left.values()))
    return Stopped(
        rule=watch.rule.text,
        reason=watch.why or "",
        of=watch.rule.watches,
        rows=run.dataset.rows - rows_left,
        rows_left=rows_left,
        calls_saved=calls * sum(len(rows_to_judge(samples, planned)) for samples in left.values()),
        intervals=watch.intervals,
    )


def provenance(run: Manifest) -> Provenance:
    """What has to be the same for the numbers to be the same."""
    configuration = run.spec.model_dump_json().encode()
    return Provenance(
        ragassay=metadata.version("ragassay"),
        code_digest=run.code_digest,
        python=platform.python_version(),
        packages=_packages(),
        dataset=run.dataset,
        systems=run.systems,
        judge=run.judge,
        embeddings=run.embeddings,
        metrics=run.metrics,
        configuration=run.spec,
        configuration_digest=hashlib.sha256(configuration).hexdigest(),
    )


def _packages() -> dict[str, str]:
    found = {}
    for name in _RECORDED_PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@cache
def code_digest() -> str:
    """SHA-256 over the package's source files, names included."""
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(orjson.dumps([path.relative_to(root).as_posix(), path.read_text()]))
    return digest.hexdigest()
