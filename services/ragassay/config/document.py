"""What a configuration may say. Every key takes effect; its default is what happens without it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, Tag

from ragassay.gates import GateList, TestName
from ragassay.models import Budget, JobSpec, Noun, Price
from ragassay.stats import Correction
from ragassay.strategies.options import KEYS, WORD, WORD_OR_KEYS, SystemConfig

_JOB = JobSpec()


SystemChoice = Annotated[Annotated[Path, Tag(WORD)] | Annotated[SystemConfig, Tag(KEYS)], WORD_OR_KEYS]


class Statistics(Noun):
    """How far numbers are trusted."""

    confidence: Annotated[float, Field(gt=0.5, lt=1, description="level of the intervals")] = _JOB.confidence
    alpha: Annotated[
        float, Field(gt=0, lt=0.5, description="a gate's test finds a drop when its corrected p is at most this")
    ] = 0.05
    test: Annotated[
        TestName, Field(description="paired test of gates with `significant: true`: `randomisation`, `t` or `wilcoxon`")
    ] = "randomisation"
    correction: Annotated[
        Correction,
        Field(description="of those tests' p for their number: `holm`, `bonferroni`, `benjamini_hochberg` or `none`"),
    ] = "holm"

    @property
    def of_gates(self) -> dict[str, Any]:
        """What ``gates.check`` takes of it."""
        return self.model_dump(include={"alpha", "test", "correction"})


class Performance(Noun):
    """How fast it goes. Nothing here changes a number."""

    concurrency: Annotated[int, Field(ge=1, le=256, description="judge calls at once")] = _JOB.concurrency
    timeout_s: Annotated[float, Field(gt=0, le=3600, description="seconds that a judge call may take")] = _JOB.timeout_s
    cache: Annotated[bool, Field(description="take finished judge calls from earlier runs")] = _JOB.cache


class Configuration(Noun):
    """The document. Paths in a file are relative to the folder of that file."""

    name: Annotated[
        str | None, Field(min_length=1, max_length=200, description="name of the runs; default: that of the data")
    ] = None
    data: Annotated[Path | None, Field(description="queries, with or without responses")] = None
    corpus: Annotated[Path | None, Field(description="passages that built-in systems search, as JSON lines")] = None
    systems: dict[str, SystemChoice] = Field(
        default_factory=dict,
        description="by its name, a file of responses or a built-in system; without any, the responses in the data",
    )
    format: Annotated[
        Literal["auto", "json", "jsonl", "csv", "tsv", "parquet", "trec"], Field(description="format of the files")
    ] = "auto"
    map: dict[str, str] = Field(
        default_factory=dict, description="their column for each of our fields that isn't recognized"
    )
    duplicates: Annotated[
        Literal["error", "keep_first"], Field(description="what becomes of a document that a response lists twice")
    ] = "error"
    limit: Annotated[int | None, Field(ge=1, description="only the first so many rows; default: all")] = None
    output: Annotated[tuple[Path, ...], Field(description="report files; the extension picks the format")] = ()
    metrics: Annotated[
        tuple[str, ...] | None,
        Field(
            max_length=200, description="what to compute; default: every usual metric that the rows have the input for"
        ),
    ] = None
    judge: Annotated[str, Field(min_length=1, description="`local`, or a model that LiteLLM knows")] = _JOB.judge
    api_base: Annotated[str | None, Field(description="address of an OpenAI-compatible provider")] = None
    passes: Annotated[Literal[1, 2], Field(description="how often the judge is asked about each row")] = _JOB.passes
    seed: Annotated[int, Field(ge=0, lt=2**32, description="of the judge and of every random draw")] = _JOB.seed
    accurate: Annotated[str, Field(max_length=1000, description="the rule by which an answer counts as accurate")] = (
        _JOB.accurate
    )
    relevant_from: Annotated[
        float | None, Field(gt=0, description="grade from which a document is relevant; default: any above 0")
    ] = None
    max_grade: Annotated[float, Field(gt=0, description="the highest grade that there is")] = _JOB.max_grade
    graded: Annotated[bool, Field(description="use grades of relevance; false: what is relevant counts 1")] = (
        _JOB.graded
    )
    stop_when: Annotated[
        str | None,
        Field(
            description="ends judging early: `width <= 0.1` or `decided against baseline`, metric names may stand before"
        ),
    ] = None
    half_life_days: Annotated[
        float, Field(gt=0, description="days after which time_decayed_ndcg counts a document half")
    ] = _JOB.half_life_days
    max_missing: Annotated[
        float, Field(ge=0, le=1, description="largest share of rows per metric that may fail; beyond it: exit code 3")
    ] = _JOB.max_missing
    prices: dict[str, Price] = Field(
        default_factory=dict, description="USD per million tokens, by model: `input_per_1m` and `output_per_1m`"
    )
    statistics: Annotated[Statistics, Field(description="how far numbers are trusted")] = Statistics()
    performance: Annotated[Performance, Field(description="how fast it goes; changes no number")] = Performance()
    budget: Annotated[
        Budget,
        Field(description="the most that judge calls, and answers of built-in systems, may spend; then the run waits"),
    ] = Budget()
    baseline: Annotated[
        str | None,
        Field(
            description="run, RUN#SYSTEM or report file that gates compare with; `stop_when` takes a system's name too"
        ),
    ] = None
    gates: Annotated[GateList, Field(max_length=100, description="thresholds that `ragassay gate` checks")] = ()

    def to_job_spec(self) -> JobSpec:
        """The flat specification that a run is made from and a report keeps."""
        taken = set(JobSpec.model_fields) - {"confidence", "concurrency", "timeout_s", "cache"}
        flat = {name: getattr(self, name) for name in taken}
        if self.stop_when is None:
            flat["baseline"] = None  # gates compare later: it changes nothing of the run
        return JobSpec(**flat, **self.performance.model_dump(), confidence=self.statistics.confidence)


SECTIONS: dict[str, type[BaseModel]] = {"statistics": Statistics, "performance": Performance, "budget": Budget}
