"""JSON texts and JSON Lines by orjson, with errors in our sentences. NaN and half a surrogate pair are no JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from ragassay.core.files import numbered_lines
from ragassay.core.validation import shown
from ragassay.datasets.source import SAVE_AS_UTF8, NumberedRow, Source, ValueProblem, undecodable


class NotJson(ValueProblem):
    """Where and why a text is not JSON; line and column count from 1. ``extra``: text follows the value."""

    def __init__(self, error: orjson.JSONDecodeError) -> None:
        self.line, self.column = error.lineno, error.colno
        self.extra = "after document" in error.msg
        super().__init__(f"is not valid JSON: {error.msg[0].lower()}{error.msg[1:]}")


def parse(text: str | bytes) -> Any:
    """The value of a JSON text; raises NotJson, or ValueProblem if it is nested too deeply."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if "depth limit" in error.msg:
            raise ValueProblem("is nested too deeply") from None
        if "memory" in error.msg:
            raise MemoryError from None
        raise NotJson(error) from None


def jsonl_rows(source: Source) -> Iterator[NumberedRow]:
    """The rows of a JSON Lines file, one by one: an object per line. Blank lines are passed over, bad ones are problems."""
    for number, line in numbered_lines(source.path):
        if line.isspace():
            continue
        try:
            row = object_of(parse(line.decode()))
        except UnicodeDecodeError as error:
            source.hint = source.hint or SAVE_AS_UTF8
            source.add_problem(number, undecodable(error))
        except NotJson as error:
            source.add_problem(number, f"column {error.column}: {error.what}")
        except ValueError as error:
            source.add_problem(number, str(error))
        else:
            yield number, row


def object_of(row: Any) -> dict[str, Any]:
    """The row, which should be an object; raises ValueProblem."""
    if not isinstance(row, dict):
        raise ValueProblem(f"should be an object, is {shown(row)}")
    return row
