"""A response that comes in pieces, and what the fields of one have to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ValidationError

from ragassay.core.errors import BadInput
from ragassay.core.models import Response
from ragassay.core.validation import problems, shown
from ragassay.systems.timing import Clock

LISTS = frozenset(("contexts", "retrieved_doc_ids", "retrieved_scores"))
ReplyField = Literal[
    "answer", "contexts", "retrieved_doc_ids", "retrieved_scores", "model", "input_tokens", "output_tokens",
    "cost_usd", "retrieval_latency_ms", "generation_latency_ms", "route", "error",
]  # fmt: skip
USUAL_REPLY: dict[ReplyField, str] = {
    "answer": "$.answer",
    "contexts": "$.contexts[*]",
    "retrieved_doc_ids": "$.retrieved_doc_ids[*]",
}
MOST_CHARACTERS = 10_000_000  # of an answer


class Pieces:
    """Puts a response together: parts of the answer and of lists are joined, of anything else the last one counts."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._length = clock, 0
        self._parts: list[str] = []
        self._values: dict[str, Any] = {}

    def add(self, values: Mapping[str, Any]) -> None:
        """What has just come, by field; raises BadInput."""
        for field, value in values.items():
            if value is None:
                continue
            if field == "answer":
                self._add_part(value)
            elif field in LISTS:
                more = value if isinstance(value, list | tuple) else (value,)
                self._values[field] = (*self._values.get(field, ()), *more)
            else:
                self._values[field] = value
        if values.get("contexts") is not None or values.get("retrieved_doc_ids") is not None:
            self._clock.retrieved()

    def _add_part(self, part: Any) -> None:
        if not isinstance(part, str):
            raise BadInput(f"a part of the answer should be text, is {shown(part)}")
        if part:
            self._clock.answering()
        self._length += len(part)
        if self._length > MOST_CHARACTERS:
            raise BadInput(f"the answer is longer than {MOST_CHARACTERS // 1_000_000} million characters")
        self._parts.append(part)

    def response(self) -> Response:
        """All of it, now that it has ended; raises BadInput."""
        self._clock.ended()
        answer = {"answer": "".join(self._parts)} if self._parts else {}
        return response_from({**self._values, **answer})


def response_from(values: Mapping[str, Any]) -> Response:
    """The response with these fields; raises BadInput with the first that can't be used."""
    try:
        return Response.model_validate(dict(values))
    except ValidationError as error:
        raise BadInput(f"the reply can't be used: {problems(error, Response)[0]}") from None
