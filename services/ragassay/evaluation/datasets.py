"""What can be done with datasets that have versions, over any store of them: import, describe, compare, split, generate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from ragassay.core.errors import BadSettings, NothingToEvaluate
from ragassay.core.models import FrozenModel, Sample, Usage
from ragassay.core.validation import problems
from ragassay.datasets.corpus import Corpus
from ragassay.datasets.dataset import Dataset
from ragassay.datasets.diff import DatasetDifference, difference
from ragassay.datasets.ir import IrQueries
from ragassay.datasets.split import PARTS, SplitPart
from ragassay.datasets.split import split as divide
from ragassay.datasets.versions import DatasetStore, DatasetVersion, Lineage, Origin, resolve
from ragassay.testset import VERSION, Candidate, GenerationReport, candidates, draw


class SplitVersions(FrozenModel):
    """How the rows were divided, and the version that each part became."""

    parts: tuple[SplitPart, ...]
    versions: tuple[DatasetVersion, ...]


class GeneratedVersion(GenerationReport):
    """What became of the candidates, the version of those that were drawn, and what a model spent on them."""

    version: DatasetVersion
    usage: Usage | None = None


class _DatasetOptions(FrozenModel):
    def __init__(self, **values: Any) -> None:
        """Take them; raises BadSettings that names the option."""
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = problems(error)[0]
            raise BadSettings(first.what, where=first.place) from None


class SplitOptions(_DatasetOptions):
    """How a dataset is split. Shares add up to 1; a part without one is not made."""

    train: Annotated[float, Field(description="share of the rows to develop on")] = 0.8
    validation: Annotated[float, Field(description="share to choose with")] = 0.1
    test: Annotated[float, Field(description="share to test with")] = 0.1
    seed: Annotated[int, Field(ge=0, lt=2**63, description="of the draw")] = 0
    by: Annotated[Literal["category", "difficulty", "none"], Field(description="of what each part gets its share")] = (
        "category"
    )


class GenerateOptions(_DatasetOptions):
    """Which questions are drawn; ``unanswerable`` is the share of those that the documents don't answer."""

    count: Annotated[int, Field(ge=1, le=100_000, description="how many questions")] = 50
    seed: Annotated[int, Field(ge=0, lt=2**63, description="of the draw")] = 0
    unanswerable: Annotated[
        float, Field(ge=0, le=1, description="share of questions that the documents don't answer")
    ] = 0.1


@dataclass(frozen=True)
class Written:
    """Candidates that a model wrote, what they took, and what determined them."""

    by: str
    candidates: Sequence[Candidate]
    usage: Usage
    options: Mapping[str, Any] = field(default_factory=dict)


def calls_text(usage: Usage) -> str:
    """How many calls there were and what they cost."""
    cost = "of unknown cost" if usage.cost_usd is None else f"{usage.cost_usd:.4f} USD"
    lost = f", {usage.uncertain_calls} with an unknown outcome" if usage.uncertain_calls else ""
    return f"{usage.calls} calls{lost}, {usage.cache_hits} taken from earlier ones, {cost}"


def import_rows(
    store: DatasetStore,
    name: str,
    rows: Dataset | IrQueries,
    *,
    sources: Iterable[str] = (),
    description: str | None = None,
) -> DatasetVersion:
    """Keep rows as the latest version of a name. Raises what reading them raises, and then keeps nothing."""

    def origin() -> Origin:
        lineage = Lineage(action="import", sources=tuple(sources), options={"columns": dict(rows.mapped)})
        return Origin(lineage=lineage, description=description or rows.description, judged_only=rows.judged_only)

    return store.add(name, rows, origin)


def diff(a: Dataset, b: Dataset) -> DatasetDifference:
    """What changed from ``a`` to ``b``, row by row."""
    return difference(a, b, names=(str(a.path), str(b.path)))


def split(store: DatasetStore, reference: str, options: SplitOptions) -> SplitVersions:
    """Keep parts of a version as ``NAME-train``, ``NAME-validation`` and ``NAME-test``."""
    version = resolve(store, reference)
    ids: list[str] = []
    labels: list[str | None] = []
    for sample in store.samples(version):
        ids.append(sample.query_id)
        labels.append(None if options.by == "none" else getattr(sample, options.by))
    shares = dict(zip(PARTS, (options.train, options.validation, options.test), strict=True))
    part_of, parts = divide(ids, labels, shares, seed=options.seed)
    made = []
    for part in parts:
        samples = _with_split(store.samples(version, partial(_is_of, part_of, part.name)), part.name)
        of_part = {"part": part.name, "share": part.share, "seed": options.seed, "by": options.by}
        lineage = Lineage(action="split", parent=f"{version.name}@{version.digest}", options=of_part)
        origin = Origin(lineage=lineage, description=version.description, judged_only=version.judged_only)
        made.append(store.add(f"{version.name}-{part.name}", samples, partial(Origin.model_copy, origin)))
    return SplitVersions(parts=parts, versions=tuple(made))


def _is_of(parts: Sequence[str], part: str, place: int, _: bytes) -> bool:
    return parts[place] == part


def _with_split(samples: Iterable[Sample], part: str) -> Iterator[Sample]:
    return (sample.model_copy(update={"split": part}) for sample in samples)


def generate(
    store: DatasetStore,
    name: str,
    corpus: Corpus,
    options: GenerateOptions,
    *,
    sources: Iterable[str] = (),
    written: Written | None = None,
) -> GeneratedVersion:
    """Keep questions with ground truth as a version: made from the documents' own wording, or ``written`` by a model.

    Raises NothingToEvaluate where none can be made.
    """
    by = written.by if written else f"templates {VERSION}"
    try:
        samples, report = draw(
            written.candidates if written else candidates(corpus),
            corpus,
            options.count,
            seed=options.seed,
            unanswerable=options.unanswerable,
            marked={"by": by, "seed": options.seed},
        )
    except NothingToEvaluate as error:
        if written:
            error.hint = f"the model took {calls_text(written.usage)}"
        raise
    how = {"by": by, **dict(options), "corpus": corpus.digest, **(written.options if written else {})}
    origin = Origin(lineage=Lineage(action="generate", sources=tuple(sources), options=how))
    version = store.add(name, samples, lambda: origin)
    return GeneratedVersion(**dict(report), version=version, usage=written and written.usage)
