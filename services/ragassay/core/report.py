"""The documents that ragassay writes. Each is versioned; a field that is unknown is null and says why beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Self, runtime_checkable

import orjson
from pydantic import Field, GetPydanticSchema, WrapSerializer, WrapValidator

from ragassay.core.errors import BadSettings, NotFound
from ragassay.core.eval_config import RunConfig
from ragassay.core.files import LazyRows
from ragassay.core.models import FrozenModel, Result, Usage
from ragassay.core.statistics import CostPerAccurate, Estimate, Interval, Spending

_PART = 2**16  # bytes


def run_and_system(reference: str, folder: Path | None = None) -> tuple[str, str | None]:
    """The run, report file or job that RUN or RUN#SYSTEM names, and the system where one is named.

    A path may contain ``#``: what lies at the whole reference, seen from ``folder``, is a run. Raises BadSettings.
    """
    run, hash_, system = reference.rpartition("#")
    if not hash_ or (folder is not None and (folder / reference).exists()):
        return reference, None
    if not (run and system):
        raise BadSettings(f"{reference!r} is not of the form RUN#SYSTEM", hint="write, for example, last#baseline")
    return run, system


class MeanBounds(FrozenModel):
    """What a mean would be if every missing score were the worst, or the best, that the metric can give."""

    worst: float
    best: float


class Aggregate(Estimate):
    """The mean of one metric over many rows. It never travels alone.

    ``bounds`` is null for metrics without a least and a greatest value. ``corrected``: by labels of people, or by reference
    judges, where some rows have one. ``judge_sd``: where a judge rates rows several times, the pooled standard deviation of
    one of its samples.
    """

    kind: str
    better: Literal["higher", "lower"]
    interval: Interval
    bounds: MeanBounds | None = None
    corrected: Estimate | None = None
    judge_sd: float | None = None


class Distribution(FrozenModel):
    """Mean and percentiles (linear interpolation) over the ``n`` rows that reported a value."""

    n: int
    missing: int
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    total: float | None = None


class Slice(FrozenModel):
    """The rows that share one value of a field."""

    n: int
    metrics: dict[str, Aggregate]
    cost_per_accurate_answer: CostPerAccurate


class Refusals(FrozenModel):
    """How often the system declined to answer, split by whether the query can be answered from the documents.

    ``precision`` is the share of refusals that are right, ``recall`` the share of the queries that can't be answered
    (and were judged) that it refused.
    """

    judged: int
    refused: int
    on_answerable: int
    on_unanswerable: int
    unanswerable: int
    precision: Estimate
    recall: Estimate


class Fix(FrozenModel):
    """What accuracy would be if one cause of failure were gone, so that the ``rows`` that fail for it were accurate.

    That is the most it can gain: a row whose cause is gone may fail for the next one. ``alone``: the accuracy if only this
    cause were gone, ``gain``: the share of rows that this adds, ``cumulative``: the accuracy if the causes before it in the
    list were gone too. ``leads``: do the rows show that it gains more than the next cause? Null for the last one.
    """

    cause: str
    rows: int
    alone: Estimate
    gain: Estimate
    cumulative: Estimate
    leads: bool | None = None
    next_step: str


class FixFirst(FrozenModel):
    """What to fix first: the causes of failure, the one that costs most accuracy first.

    All figures are of the rows whose accuracy is known; ``unattributed`` of these fail without a known cause, and
    ``unknown`` further rows have no accuracy.
    """

    accurate: Estimate
    unknown: int
    unattributed: int
    causes: tuple[Fix, ...]


class ReferenceJudge(FrozenModel):
    """How a reference judge did: on ``asked`` rows it ``failed`` on some, and ``reasons`` counts why."""

    asked: int
    failed: int = 0
    reasons: dict[str, int] = {}  # noqa: RUF012 - a default of a model

    @classmethod
    def of(cls, asked: int, failures: Counter[str]) -> Self:
        """How it did if it was asked about so many rows and failed with these reasons."""
        return cls(asked=asked, failed=failures.total(), reasons=dict(sorted(failures.items())))

    def too_many_failed(self, limit: float) -> str | None:
        """What to say if it failed on more than a share ``limit`` of its rows, so that it corrects no mean; else None."""
        if not self.failed or self.failed <= limit * self.asked:
            return None
        reason = max(self.reasons, key=self.reasons.__getitem__)
        return f"the reference judge failed on {self.failed} of {self.asked} rows ({reason})"


class Evaluation(FrozenModel):
    """What the evaluation itself spent; ``waste`` was paid for replies that could not be used. ``verdicts``: rows with one.

    ``left_out``: by what the judge's provider does not take of what it is asked, the rows that were judged without it.
    ``reference``: how reference judges did.
    """

    usage: Usage
    waste: Usage
    verdicts: int
    suspicious: int
    left_out: dict[str, int] = {}  # noqa: RUF012 - a default of a model
    reference: ReferenceJudge | None = None


class Load(FrozenModel):
    """How a system that answers while it is evaluated was asked.

    ``wall_s``: time in which something was asked, from the first query to the last answer, without warm-up and without
    judging; throughput is ``finished`` over it. ``warm_up``: queries whose latency does not count. ``waited``: queries that
    were due, under a ``rate``, while all ``concurrency`` were busy. ``attempts``: requests in all; ``retried`` queries took
    more than one.
    """

    concurrency: int
    rate: float | None
    finished: int
    wall_s: float
    warm_up: int
    waited: int
    longest_wait_ms: float
    attempts: int
    retried: int


class JuryJudge(FrozenModel):
    """A judge of a jury: rows that it ``judged``; of those that it ``failed`` on, ``reasons`` counts why.

    ``agreed``: how many of its ``labels`` are those that the jury elected.
    """

    judge: str
    judged: int
    failed: int
    reasons: dict[str, int]
    labels: int
    agreed: int
    usage: Usage
    waste: Usage


class Jury(FrozenModel):
    """Several judges of ``rows``: on ``disagreement`` rows they gave some label differently, on ``without_verdict`` rows fewer
    than half of them gave a verdict.
    """

    rows: int
    disagreement: int
    without_verdict: int
    judges: tuple[JuryJudge, ...]


class SystemReport(FrozenModel):
    """One system on one dataset.

    ``slices``: by field and value; a category or difficulty of too many values has none. ``fix_first``: null if no answer
    is known to be inaccurate.
    ``first_token_ms``: of answers that are streamed. ``throughput_qps``: of a system that is called, as
    ``load`` says; of others, one query after another.
    """

    queries: int
    missing_from_run: int
    failed_responses: int
    queries_without_relevant: int
    queries_without_hit: int
    metrics: dict[str, Aggregate]
    slices: dict[str, dict[str, Slice]]
    latency_ms: Distribution
    first_token_ms: Distribution
    retrieval_latency_ms: Distribution
    generation_latency_ms: Distribution
    throughput_qps: float | None
    load: Load | None = None
    input_tokens: Distribution
    output_tokens: Distribution
    cost_usd: Distribution
    priced_by_us: int
    cost_per_accurate_answer: CostPerAccurate
    spending: tuple[Spending, ...] = ()
    refusals: Refusals
    fix_first: FixFirst | None = None
    evaluation: Evaluation
    jury: Jury | None = None

    def figures(self) -> dict[str, float]:
        """Every figure that has a value, by the names that gates use; of a mean also ``.low``, ``.high``, ``.n``, ``.missing``."""
        values: dict[str, float | None] = {}
        for name, mean in self.metrics.items():
            values |= {name: mean.value, f"{name}.low": mean.interval.low, f"{name}.high": mean.interval.high}
            values |= {f"{name}.n": mean.n, f"{name}.missing": mean.unscored}
        for name, part in self:
            if isinstance(part, Distribution):
                statistics = part.model_dump(exclude={"n", "missing"})
                values |= {f"{name}.{statistic}": value for statistic, value in statistics.items()}
        values["cost_per_accurate_answer"] = self.cost_per_accurate_answer.value
        values["suspicious"] = self.evaluation.suspicious
        for name, share in (("precision", self.refusals.precision), ("recall", self.refusals.recall)):
            values[f"refusal_{name}"] = share.value if share else None
        return {name: value for name, value in values.items() if value is not None}


class Built(FrozenModel):
    """What a system was made of that ragassay ran itself. Its latencies are in its part of the report."""

    configuration: dict[str, Any]
    corpus: str
    corpus_digest: str
    passages: int
    models: tuple[str, ...] = ()


class Called(FrozenModel):
    """A system that answers while it is evaluated."""

    configuration: dict[str, Any]


class Source(FrozenModel):
    """Where data came from: a name, a digest of its content, wherever it lay, and its number of rows.

    ``built``: for a system that ragassay ran itself; the digest is that of its configuration and corpus. ``called``: for
    one that it called; the digest is that of the configuration. ``warnings``: what may be wrong although every row could
    be read, such as a column that is perhaps a misspelt field.
    """

    name: str
    digest: str
    rows: Annotated[int, Field(ge=0)]
    built: Built | None = None
    called: Called | None = None
    warnings: tuple[str, ...] = ()

    @property
    def answers(self) -> bool:
        """Does the system answer while it is evaluated, rather than bring recorded responses?"""
        return self.called is not None or self.built is not None


class Provenance(FrozenModel):
    """What has to be the same for the numbers to be the same. ``plugins``: SHA-256 of each file or module of metrics."""

    ragassay: str
    code_digest: str
    plugins: dict[str, str] = {}  # noqa: RUF012 - a default of a model
    python: str
    packages: dict[str, str]
    dataset: Source
    systems: dict[str, Source]
    judge: dict[str, Any]
    embeddings: str | None
    metrics: tuple[str, ...]
    configuration: RunConfig
    configuration_digest: str


class RunInfo(FrozenModel):
    """The run itself. Times are UTC, ISO 8601.

    An ``incomplete`` one has ``rows_done`` of its ``rows`` (one per query and system), and every figure is of these alone.
    """

    id: str
    status: Literal["finished", "incomplete"]
    rows: int
    rows_done: int
    created_at: str
    finished_at: str
    duration_s: float


class Report(FrozenModel):
    """A combined report: retrieval, answer quality, latency and cost of every system, and how sure each number is.

    Everything outside ``run`` and the measured evaluation durations is the same for the same inputs. ``interrupted``:
    calls with an unknown outcome that belong to no row, as after a kill; they may have been paid. ``cautions``: what is
    known to limit the scores, such as how far the judge agrees with people.
    The rows lie beside it: ``ReportWithResults``.
    """

    schema_version: Literal[2] = 2
    kind: Literal["report"] = "report"
    run: RunInfo
    provenance: Provenance
    interrupted: Usage = Usage()
    cautions: tuple[str, ...] = ()
    systems: dict[str, SystemReport]

    def figures(self) -> dict[str, dict[str, float]]:
        """{system: {figure: value}}, by the names that gates use: ``ndcg@10``, ``latency_ms.p95``."""
        return {name: system.figures() for name, system in self.systems.items()}


Results = Annotated[
    Sequence[Result],
    GetPydanticSchema(lambda _, handler: handler(tuple[Result, ...])),
    WrapValidator(lambda rows, validated: rows if isinstance(rows, LazyRows) else validated(rows)),
    WrapSerializer(lambda rows, serialized: serialized(tuple(rows))),
]
"""A tuple, or what reads the rows from a store while it is iterated."""


@runtime_checkable
class JsonRows(Protocol):
    """Rows whose JSON is kept somewhere, as ``Result.model_dump_json`` writes it."""

    def json_lines(self) -> Iterator[bytes]:
        """The JSON of all rows."""


class ReportWithResults(Report):
    """A report and the rows that it was made from, by system in the dataset's order: what is exported and compared."""

    results: dict[str, Results]

    @classmethod
    def of(cls, report: Report, results: Mapping[str, Sequence[Result]]) -> Self:
        """The report with these rows."""
        return cls(**dict(report) | {"results": results})

    @property
    def without_rows(self) -> Report:
        """The figures alone."""
        return Report(**{name: value for name, value in self if name != "results"})

    def results_of(self, system: str) -> Sequence[Result]:
        """The rows of a system; raises NotFound where the store does not keep them any more."""
        rows, queries = self.results.get(system, ()), self.systems[system].queries
        if len(rows) < queries:
            what = f"{len(rows)} of the {queries} rows of {system} in run {self.run.id} are kept"
            raise NotFound(what, hint="its figures stay; evaluate again for rows")
        return rows

    def json_parts(self) -> Iterator[bytes]:
        """The report as JSON, a row on each line, in parts of some 64 KiB."""
        figures = orjson.dumps(self.model_dump(mode="json", exclude={"results"}), option=orjson.OPT_INDENT_2)
        yield figures.removesuffix(b"\n}") + b',\n  "results": {'
        for n, (system, rows) in enumerate(self.results.items()):
            part = bytearray((b",\n    " if n else b"\n    ") + orjson.dumps(system) + b": [")
            lines = (
                rows.json_lines() if isinstance(rows, JsonRows) else (row.model_dump_json().encode() for row in rows)
            )
            for place, line in enumerate(lines):
                part += (b",\n      " if place else b"\n      ") + line
                if len(part) > _PART:
                    yield bytes(part)
                    part.clear()
            yield bytes(part) + b"\n    ]"
        yield b"\n  }\n}\n"
