"""Two judges: a cheap one on all rows, and one that is trusted more on a random share of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from ragassay.core.errors import BadSettings
from ragassay.core.models import Judgement, Sample
from ragassay.core.protocols import Journal, Judge
from ragassay.core.specification import JobSpec


class SharingJudge:
    """``cheap`` gives the verdicts; ``trusted`` those that its scores are corrected by, on a ``share`` of the queries.

    Which queries these are follows from ``seed`` and query id alone: it is the same in each chunk, run and system.
    """

    def __init__(self, cheap: Judge, trusted: Judge, share: float, seed: int) -> None:
        self._cheap, self._share, self._seed = cheap, share, seed
        self.trusted = trusted

    @property
    def name(self) -> str:
        """Both names, and the share."""
        return f"{self._cheap.name}, reference {self.trusted.name} on {self._share:.0%}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """All that determines the verdicts of either."""
        return {
            "judge": "sharing",
            "share": self._share,
            "seed": self._seed,
            "cheap": {"name": self._cheap.name, **self._cheap.settings},
            "trusted": {"name": self.trusted.name, **self.trusted.settings},
        }

    async def judge(self, samples: Sequence[Sample], journal: Journal) -> list[Judgement]:
        """The cheap judge's judgement of each sample, in order; those of the share have the trusted one's verdict, or why it
        has none, and are marked as suspicious if that is.
        """
        given = await self._cheap.judge(samples, journal)
        chosen = [n for n, sample in enumerate(samples) if is_chosen(sample.query_id, self._share, self._seed)]
        trusted = await self.trusted.judge([samples[n] for n in chosen], journal)
        for n, other in zip(chosen, trusted, strict=True):
            verdict, marked = given[n].verdict, other.verdict.suspicious if other.verdict else ()
            given[n] = given[n].model_copy(
                update={
                    "verdict": verdict and verdict.model_copy(update={"suspicious": marked}),
                    "reference": other.verdict,
                    "reference_failure": None if other.verdict else other.reason or "it gave no verdict",
                    "usage": given[n].usage + other.usage,
                    "waste": given[n].waste + other.waste,
                    "left_out": other.left_out,
                    "members": other.members,
                }
            )
        return given


def check_share(spec: JobSpec) -> None:
    """Raise BadSettings for a share that leaves no two judges, or beside what one judge alone can have."""
    if spec.judge_share is None:
        return
    if spec.judge == "local" or spec.criteria:
        why = "criteria can't be judged by the local judge" if spec.criteria else "the local judge costs nothing"
        raise BadSettings(f"{why}: have all rows judged by one judge", where="judge_share", hint="leave it out")
    if spec.repeat > 1:
        what = "repeat measures the noise of the judge that scores the rows, which with judge_share is the local one"
        raise BadSettings(f"{what}: that has none", where="repeat", hint="leave one of them out")


def is_chosen(query_id: str, share: float | None, seed: int) -> bool:
    """Is the query one of the share that the trusted judge is asked about? Without a share each is."""
    if share is None:
        return True
    drawn = hashlib.sha256(f"{seed}\0{query_id}".encode()).digest()
    return int.from_bytes(drawn[:8]) < share * 2**64
