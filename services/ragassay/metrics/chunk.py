"""A chunk of rows: what metrics see of the rows that are scored at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ragassay.core.models import Rating, Sample, Score, Verdict
from ragassay.core.protocols import Embedder
from ragassay.metrics.ranked import Ranked


@dataclass(frozen=True)
class Chunk:
    """Up to a chunk of samples and the results of the stages before; all sequences are parallel."""

    samples: Sequence[Sample]
    ratings: Sequence[Rating | None] = ()
    embedder: Embedder | None = None
    no_embedder: str = "no embedding model is set up"
    bertscore_model: str | None = None
    max_grade: float = 3.0
    relevant_from: float | None = None
    rule: Callable[[Mapping[str, Score]], Score] | None = None
    scores: dict[str, list[Score]] = field(default_factory=dict)

    @cached_property
    def ranked(self) -> Ranked:
        """The chunk's ranked gains; built once, shared by all retrieval metrics. Without judgments a row is all zeros."""
        return Ranked.build(
            [sample.retrieved_doc_ids or () for sample in self.samples],
            [sample.judgments or {} for sample in self.samples],
            relevant_from=self.relevant_from,
            max_grade=self.max_grade,
        )

    @property
    def ids(self) -> list[dict[str, list[str]]]:
        """Of each row the retrieved ids in their order, and the relevant ones, as ``Ranked`` counts a document relevant."""
        least = self.relevant_from or 0.0
        return [
            {
                "retrieved_ids": list(sample.retrieved_doc_ids or ()),
                "relevant_ids": [
                    document for document, grade in (sample.judgments or {}).items() if grade > 0 and grade >= least
                ],
            }
            for sample in self.samples
        ]

    @property
    def verdicts(self) -> list[Verdict | Score]:
        """The verdict of each row, or the missing score of what follows from it."""
        return [_verdict(rating) for rating in self.ratings or [None] * len(self.samples)]

    def only(self, rows: Sequence[int]) -> Chunk:
        """The chunk cut down to some of its rows."""
        return replace(
            self,
            samples=[self.samples[n] for n in rows],
            ratings=[self.ratings[n] for n in rows] if self.ratings else (),
            scores={name: [scores[n] for n in rows] for name, scores in self.scores.items()},
        )


def _verdict(rating: Rating | None) -> Verdict | Score:
    if rating is None:
        return Score.absent("no judge was asked", "no_input")
    return rating.verdict or Score.absent(rating.reason or "the judge failed", "failed")
