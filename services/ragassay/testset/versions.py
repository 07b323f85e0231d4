"""Keep questions that were made from documents as a version of a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragassay.core.errors import BadSettings, NothingToEvaluate
from ragassay.core.models import Usage
from ragassay.datasets.corpus import Corpus
from ragassay.datasets.versions import DatasetStore, DatasetVersion, Lineage, Origin
from ragassay.testset.generate import Candidate, GenerationReport, draw
from ragassay.testset.offline import VERSION, candidates

MAX_QUESTIONS = 100_000


class GeneratedVersion(GenerationReport):
    """What became of the candidates, the version of those that were drawn, and what a model spent on them."""

    version: DatasetVersion
    usage: Usage | None = None


@dataclass(frozen=True)
class Written:
    """Candidates that a model wrote, what they took, and what determined them."""

    by: str
    candidates: Sequence[Candidate]
    usage: Usage
    options: Mapping[str, Any] = field(default_factory=dict)


def check_options(count: int, unanswerable: float) -> None:
    """Raise BadSettings for a number of questions, or a share of those without an answer, that can't be."""
    if not 1 <= count <= MAX_QUESTIONS:
        raise BadSettings(f"should be from 1 to {MAX_QUESTIONS:,}, is {count}", where="count")
    if not 0 <= unanswerable <= 1:
        raise BadSettings(f"should be from 0 to 1, is {unanswerable:g}", where="unanswerable")


def generate(
    store: DatasetStore,
    name: str,
    corpus: Corpus,
    count: int,
    *,
    seed: int = 0,
    unanswerable: float = 0.1,
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
            count,
            seed=seed,
            unanswerable=unanswerable,
            marked={"by": by, "seed": seed},
        )
    except NothingToEvaluate as error:
        if written:
            error.hint = f"the model took {calls_text(written.usage)}"
        raise
    how = {"by": by, "count": count, "seed": seed, "unanswerable": unanswerable, "corpus": corpus.digest}
    options = {**how, **(written.options if written else {})}
    origin = Origin(lineage=Lineage(action="generate", sources=tuple(sources), options=options))
    version = store.add(name, samples, lambda: origin)
    return GeneratedVersion(**dict(report), version=version, usage=written and written.usage)


def calls_text(usage: Usage) -> str:
    """How many calls there were and what they cost."""
    cost = "of unknown cost" if usage.cost_usd is None else f"{usage.cost_usd:.4f} USD"
    lost = f", {usage.uncertain_calls} with an unknown outcome" if usage.uncertain_calls else ""
    return f"{usage.calls} calls{lost}, {usage.cache_hits} taken from earlier ones, {cost}"
