"""Parts of a dataset to develop on and to test with: drawn by a seed, with the same share of every category in each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

from ragassay.core.draws import draw_key
from ragassay.core.errors import BadInput, BadSettings
from ragassay.core.models import FrozenModel, Sample
from ragassay.datasets.versions import DatasetStore, DatasetVersion, Lineage, Origin, resolve


class SplitPart(FrozenModel):
    """One part: the share that was asked for, and its rows by label of what was stratified."""

    name: str
    share: float
    rows: int
    labels: dict[str, int]


def split(
    ids: Sequence[str], labels: Sequence[str | None], shares: Mapping[str, float], *, seed: int = 0
) -> tuple[list[str], tuple[SplitPart, ...]]:
    """The part of each row, and the parts. ``labels``: the stratum of each row, such as its category.

    Rows are ordered by label, then by SHA-256 of seed and id, and each goes to the part that lacks most of its share. The
    same seed splits the same ids alike on any machine, in whatever order they come. Raises BadSettings for shares that
    don't add up to 1, BadInput if a part would be empty.
    """
    shares = _checked(shares)
    labelled = [label or "" for label in labels]
    drawn = [draw_key(seed, each) for each in ids]
    parts, taken = [""] * len(ids), Counter[str]()
    for done, place in enumerate(sorted(range(len(ids)), key=lambda n: (labelled[n], drawn[n])), 1):
        part = max(shares, key=lambda name: shares[name] * done - taken[name])
        parts[place] = part
        taken[part] += 1
    if empty := next((name for name in shares if not taken[name]), None):
        raise BadInput(f"{empty} would be empty: {len(ids)} rows are too few for its share of {shares[empty]:g}")
    counts = {
        name: Counter(label for label, part in zip(labelled, parts, strict=True) if part == name) for name in shares
    }
    return parts, tuple(
        SplitPart(name=name, share=share, rows=taken[name], labels=dict(sorted(counts[name].items())))
        for name, share in shares.items()
    )


class SplitVersions(FrozenModel):
    """How the rows were divided, and the version that each part became."""

    parts: tuple[SplitPart, ...]
    versions: tuple[DatasetVersion, ...]


def split_version(
    store: DatasetStore,
    reference: str,
    shares: Mapping[str, float],
    *,
    seed: int = 0,
    by: Literal["category", "difficulty", "none"] = "category",
) -> SplitVersions:
    """Keep parts of a version as ``NAME-train``, ``NAME-validation`` and ``NAME-test``; ``by``: the stratum of a row."""
    version = resolve(store, reference)
    rows = [(sample.query_id, None if by == "none" else getattr(sample, by)) for sample in store.samples(version)]
    part_of, parts = split([row[0] for row in rows], [row[1] for row in rows], shares, seed=seed)
    versions = []
    for part in parts:
        options = {"part": part.name, "share": part.share, "seed": seed, "by": by}
        lineage = Lineage(action="split", parent=f"{version.name}@{version.digest}", options=options)
        origin = Origin(lineage=lineage, description=version.description, judged_only=version.judged_only)
        samples = _samples_of(store, version, part_of, part.name)
        versions.append(store.add(f"{version.name}-{part.name}", samples, partial(Origin.model_copy, origin)))
    return SplitVersions(parts=parts, versions=tuple(versions))


def _samples_of(store: DatasetStore, version: DatasetVersion, part_of: Sequence[str], part: str) -> Iterator[Sample]:
    samples = store.samples(version, lambda place: part_of[place] == part)
    return (sample.model_copy(update={"split": part}) for sample in samples)


def _checked(shares: Mapping[str, float]) -> dict[str, float]:
    for part, share in shares.items():
        if not 0 <= share <= 1:
            raise BadSettings(f"should be from 0 to 1, is {share:g}", where=f"--{part}")
    total = math.fsum(shares.values())
    if abs(total - 1) > 1e-9:
        listed_shares = ", ".join(f"{part} {share:g}" for part, share in shares.items())
        raise BadSettings(f"the shares add up to {total:g}, not 1: {listed_shares}")
    return {part: share for part, share in shares.items() if share}
