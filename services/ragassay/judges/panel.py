"""All that judges rows: one judge or several, each once or several times, and reference judges on a share of the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragassay.core.aio import together
from ragassay.core.draws import draw_key
from ragassay.core.errors import BadSettings, ProviderDown
from ragassay.core.eval_config import EvalConfig
from ragassay.core.models import Rating, Role, Sample
from ragassay.core.protocols import Journal, Judge, digest
from ragassay.llm.journal import draw_scope, refusing_journal


@dataclass(frozen=True)
class Rater:
    """A judge of rows. ``draws``: an object for each time that it rates a row, equal but for the seed.

    ``on``: the share of the queries that it judges, drawn by ``seed`` and query id alone; None: all.
    """

    draws: tuple[Judge, ...]
    role: Role = "judge"
    on: float | None = None
    seed: int = 0

    @property
    def name(self) -> str:
        """The judge's."""
        return self.draws[0].name

    @property
    def settings(self) -> dict[str, Any]:
        """All that determines its verdicts; the number of draws where there are several."""
        several = {"samples": len(self.draws)} if len(self.draws) > 1 else {}
        return {**self.draws[0].settings, **several}

    def rates(self, query_id: str) -> bool:
        """Does it judge the query? It is the same in each chunk, run and system."""
        return self.on is None or is_chosen(query_id, self.on, self.seed)

    async def rate(self, samples: Sequence[Sample], journal: Journal) -> list[list[Rating]]:
        """Its ratings of each sample, in order. Raises what a judge raises."""
        rounds = await together([judge.judge(samples, draw_scope(journal, n)) for n, judge in enumerate(self.draws, 1)])
        about = {"rater": self.name, "role": self.role}
        return [
            [one.model_copy(update={**about, "sample": n}) for n, one in enumerate(of, 1)]
            for of in zip(*rounds, strict=True)
        ]


class Panel:
    """The raters of a run. Raises BadSettings where two of them are the same judge under different names."""

    def __init__(self, raters: Sequence[Rater]) -> None:
        self.raters = tuple(raters)
        names: dict[str, str] = {}
        for rater in self.raters:
            if (other := names.setdefault(digest(dict(rater.draws[0].settings)), rater.name)) != rater.name:
                raise _same(other, rater.name)

    @property
    def name(self) -> str:
        """The judge's name, or ``jury of`` several; then the reference judges."""
        judges = [one.name for one in self.raters if one.role == "judge"]
        references = [f"reference {one.name} on {one.on:.0%}" for one in self.raters if one.role == "reference"]
        return ", ".join([judges[0] if len(judges) == 1 else f"jury of {', '.join(judges)}", *references])

    @property
    def settings(self) -> Mapping[str, Any]:
        """All that determines the verdicts: those of the judge, or of each rater."""
        if len(self.raters) == 1:
            return self.raters[0].settings
        described = [
            {
                "name": one.name,
                "role": one.role,
                **({} if one.on is None else {"on": one.on, "seed": one.seed}),
                **one.settings,
            }
            for one in self.raters
        ]
        return {"judge": "panel", "raters": described}

    async def rate(self, samples: Sequence[Sample], journal: Journal) -> list[list[Rating]]:
        """All ratings of each sample, in order.

        If the provider of a judge is down, its calls that are not answered yet fail, and the other judges go on.
        ProviderDown is raised if fewer than half of the judges, or of the reference judges, are left; other errors that
        every sample would meet are raised as they come.
        """
        places = [[n for n, one in enumerate(samples) if rater.rates(one.query_id)] for rater in self.raters]
        chosen = [[samples[n] for n in of] for of in places]
        tried = await together([_tried(rater, of, journal) for rater, of in zip(self.raters, chosen, strict=True)])
        for role in ("judge", "reference"):
            errors = [error for rater, (_, error) in zip(self.raters, tried, strict=True) if rater.role == role]
            down = [error for error in errors if error]
            if 2 * len(down) > len(errors):
                raise down[0]
        ratings: list[list[Rating]] = [[] for _ in samples]
        for rater, rows, of, (rated, error) in zip(self.raters, places, chosen, tried, strict=True):
            known = await rater.rate(of, refusing_journal(journal, str(error))) if error else rated
            for n, given in zip(rows, known, strict=True):
                ratings[n] += given
        return ratings


async def _tried(
    rater: Rater, samples: Sequence[Sample], journal: Journal
) -> tuple[list[list[Rating]], ProviderDown | None]:
    try:
        return (await rater.rate(samples, journal) if samples else []), None
    except ProviderDown as down:
        return [], down


def is_chosen(query_id: str, share: float, seed: int) -> bool:
    """Is the query one of the share that a reference judge judges?"""
    return int.from_bytes(draw_key(seed, query_id)[:8]) < share * 2**64


def check_judges(spec: EvalConfig) -> None:
    """Raise BadSettings for judges that make no sense together."""
    names = [one.model for one in spec.judges]
    if not spec.scorers:
        raise _refused("no judge judges all rows", "add one, such as {model: local}")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise _same(twice, twice)
    if fixed := next((one for one in spec.judges if not one.calls_model and one.samples > 1), None):
        raise _refused(f"the judge {fixed.model} gives the same verdict each time", "leave its samples out")
    if any(one.model == "local" for one in spec.references):
        raise _refused("the local judge is no reference: it is a triage", "name a model")
    local = any(one.model == "local" for one in spec.scorers)
    if local and len(spec.scorers) > 1:
        raise _refused(
            "the local judge takes no part in a jury: it is a triage, its vote would count as much as a model's",
            "name models; to correct the local judge, give a model role: reference",
        )
    if local and spec.references and spec.criteria:
        raise _refused("criteria can't be judged by the local judge", "have all rows judged by a model")
    if len({one.on for one in spec.references}) > 1:
        raise _refused("reference judges judge the same rows", "give them the same 'on'")


def _same(a: str, b: str) -> BadSettings:
    what = f"{a} is named twice" if a == b else f"{a} and {b} are the same model"
    return _refused(f"{what}; its vote would count twice", "leave one of them out, or draw several samples of one")


def _refused(what: str, hint: str) -> BadSettings:
    return BadSettings(what, where="judges", hint=hint)
