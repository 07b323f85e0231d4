"""What there is to say of datasets: where a version comes from, what is in it, and what changed; in sentences and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragassay.core.formatting import MAX_LINES, listed, percent, shortlist
from ragassay.datasets.describe import DatasetDescription, RepeatedQuery
from ragassay.datasets.diff import DatasetDifference
from ragassay.datasets.versions import SHORT, DatasetVersion
from ragassay.reporting.document import Table


def made(version: DatasetVersion) -> str:
    """How and when a version came about: ``import of a.jsonl after qa@0123456789ab, 2026-11-23 08:00``."""
    lineage = version.lineage
    name, _, digest = (lineage.parent or "").partition("@")
    after = f" after {name}@{digest[:SHORT]}" if name else ""
    files = f" of {listed(lineage.sources)}" if lineage.sources else ""
    return f"{lineage.action}{files}{after}, {version.imported_at:%Y-%m-%d %H:%M}"


def change(found: DatasetDifference) -> str:
    """``1 added, 0 removed, 2 changed, 47 alike``."""
    added, removed, changed = (f"{len(rows):,}" for rows in (found.added, found.removed, found.changed))
    return f"{added} added, {removed} removed, {changed} changed, {found.unchanged:,} alike"


def changes(found: DatasetDifference) -> Table:
    """The rows that came, went or have other values: of each the first, and how many more there are."""
    rows = [(row.query, row.query_id, "added", "") for row in found.added[:MAX_LINES]]
    rows += [(row.query, row.query_id, "removed", "") for row in found.removed[:MAX_LINES]]
    rows += [(row.query, row.query_id, "changed", listed(row.fields)) for row in found.changed[:MAX_LINES]]
    more = len(found.added) + len(found.removed) + len(found.changed) - len(rows)
    note = f"{more:,} more: ragassay data diff {found.a} {found.b} --json" if more else ""
    return Table("Rows that differ", ("question", "id", "row", "fields"), tuple(rows), note)


def alike(groups: Sequence[RepeatedQuery]) -> list[str]:
    """Questions with the ids of the rows that ask them; the first of them."""
    return shortlist([f"{each.query} ({', '.join(each.query_ids[:8])})" for each in groups])


def tables(described: DatasetDescription) -> Iterator[Table]:
    """Rows by their labels and fields with shares, the first of each; then lengths."""
    counts = {
        "all": described.rows,
        "with a response": described.responses,
        "that can't be answered": described.unanswerable,
        "with a question made by a program": described.generated,
    }
    labels = {
        "Counts": ("which", counts),
        "Categories": ("category", described.categories),
        "Difficulties": ("difficulty", described.difficulties),
        "Parts": ("part", described.splits),
        "Fields that have a value": ("field", described.fields),
    }
    of = described.rows or 1
    for title, (label, rows) in labels.items():
        cells = [(name, f"{count:,}", percent(count / of)) for name, count in rows.items()]
        more = f"{len(cells) - MAX_LINES:,} more: --json lists all" if len(cells) > MAX_LINES else ""
        if cells:
            yield Table(title, (label, "rows", "share"), tuple(cells[:MAX_LINES]), more)
    spreads = {
        "relevant documents": described.relevant_per_query,
        "retrieved documents": described.retrieved_per_query,
        "contexts": described.contexts_per_query,
        **{f"words of {name}": spread for name, spread in described.words.items()},
    }
    lengths = tuple((name, f"{one.mean:.1f}", f"{one.min:,g}", f"{one.max:,g}") for name, one in spreads.items() if one)
    yield Table("Lengths", ("per row", "mean", "least", "most"), lengths)
