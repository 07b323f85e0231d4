"""All five extensions in a package: its pyproject.toml names them, so that they are there wherever it is installed."""

from collections.abc import Sequence
from html import escape

from ragassay import Report, Sample, Verdict, metric
from ragassay.core.models import Rating
from ragassay.reporting.document import Table


@metric(better="higher", needs="answer", binary=True)
def answered(sample: Sample) -> bool:
    """1 where there is an answer at all."""
    return bool(sample.answer.strip())


class Lenient:
    """A judge of many samples at once; a unit that it says nothing about is missing."""

    name, settings = "lenient", {"version": 1}

    async def judge(self, samples: Sequence[Sample], journal: object) -> list[Rating]:  # noqa: ARG002
        """One rating for each sample, in order."""
        return [Rating(verdict=Verdict(judge="lenient", relevance="mostly", refusal=False)) for _ in samples]


class Echo:
    """A system that is made with ``options`` and sees the whole sample."""

    def __init__(self, prefix: str = "You asked:") -> None:
        self.prefix = prefix

    def respond(self, sample: Sample) -> str:
        """The answer alone, or an object with more fields."""
        return f"{self.prefix} {sample.query}"


def to_html(report: Report) -> str:
    """A page with the means."""
    rows = [(s, m, f"{a.value}") for s, part in report.systems.items() for m, a in part.metrics.items()]
    cells = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def means(report: Report) -> Table:
    """A table of all means, on the page of a run."""
    rows = ((s, m, f"{a.value}") for s, part in report.systems.items() for m, a in part.metrics.items())
    return Table("All means", ("system", "metric", "mean"), tuple(rows))
