"""Samples of rows that came with a request instead of in a file: the same rules, the same digest."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ragassay.data.dataset import Dataset, digest_of_samples
from ragassay.data.planner import Planner
from ragassay.data.rows import Assembly
from ragassay.data.source import Source
from ragassay.errors import BadData


def load_rows(rows: Iterable[dict[str, Any]], *, name: str = "samples") -> Dataset:
    """The dataset that a JSON file with these rows would be; ``name`` stands for the file in errors.

    Raises BadData with a line for every bad row: ``samples: row 3: query: is empty``.
    """
    source = Source(Path(name), list(enumerate(rows, 1)), counts_lines=False)
    try:
        plan = Planner(source, {}, "dataset").plan()
    except BadData as error:  # its hint speaks of an option that a request has not
        raise BadData(error.problems, hint="call the keys as we do: ragassay schema sample") from None
    assembly = Assembly(source, plan, "error")
    samples = [
        sample
        for index, (number, values) in enumerate(source.drain())
        if (sample := assembly.sample(index, number, values))
    ]
    if source.findings:
        raise BadData(source.problems)
    return Dataset(
        name=name,
        path=source.path,
        samples=tuple(samples),
        digest=digest_of_samples(samples),
        mapped=plan.mapped,
        kept=tuple(assembly.kept),
    )
