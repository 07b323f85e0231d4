"""A system under test that has already answered: its responses come from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ragassay.core.models import Response, Sample


@dataclass(frozen=True)
class Recorded:
    """Gives the recorded response to a query: {query_id: response}. No response is None, never an empty one.

    ``measured``: their latencies were measured by this run.
    """

    name: str
    responses: Mapping[str, Response] = field(repr=False)
    measured: bool = False

    async def respond(self, sample: Sample) -> Response | None:
        """The response recorded under the sample's query_id."""
        return self.responses.get(sample.query_id)
