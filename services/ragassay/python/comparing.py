"""Two evaluations side by side in one call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ragassay.compare.models import Comparison
from ragassay.exporters.comparison import EXPORTERS, tables
from ragassay.python.show import ShownTable, as_html, as_text


class ComparisonReport(Comparison):
    """Which system is better, and how sure that is: ``ragassay.Comparison``. It prints as its verdict and tables."""

    def save(self, path: str | Path) -> None:
        """Write a file; the extension picks the format: .json or .md."""
        EXPORTERS.write(self, Path(path))

    def __repr__(self) -> str:
        return f"<Comparison of {' and '.join(self.sides)}: {' '.join(self.verdict)}>"

    def __str__(self) -> str:
        return as_text(self._lines(), self._tables())

    def _repr_html_(self) -> str:
        return as_html(self._lines(), self._tables())

    def _lines(self) -> Iterator[str]:
        yield from self.verdict
        yield from (f"warning: {warning}" for warning in self.warnings)

    def _tables(self) -> Iterator[ShownTable]:
        for table in tables(self):
            yield ShownTable(table.title, table.columns, table.rows, table.note)
