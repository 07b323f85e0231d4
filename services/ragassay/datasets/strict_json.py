"""JSON texts and JSON Lines, strict where the standard library is lax: a key that an object has twice is refused."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ragassay.core import files
from ragassay.core.validation import is_text, shown
from ragassay.datasets.source import SAVE_AS_UTF8, NumberedRow, Source, ValueProblem, undecodable

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class NotJson(ValueProblem):
    """Where and why a text is not JSON; line and column count from 1."""

    def __init__(self, error: json.JSONDecodeError) -> None:
        self.text, self.line, self.column = error.doc, error.lineno, error.colno
        self.extra = error.msg == "Extra data"
        end = error.pos >= len(error.doc.rstrip())
        reason = "the text ends too early" if end and error.doc.strip() else f"{error.msg[0].lower()}{error.msg[1:]}"
        super().__init__(f"is not valid JSON: {reason}")


def parse(text: str) -> Any:
    """The value of a JSON text; raises NotJson, or ValueProblem for JSON that we refuse."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise NotJson(error) from None
    except RecursionError:
        raise ValueProblem("is nested too deeply") from None
    except ValueProblem:
        raise
    except ValueError:  # the interpreter's limit on the length of whole numbers
        raise ValueProblem("holds a whole number that is too long to be one; write it as text") from None


def parse_text(text: str) -> Any:
    """As ``parse``; raises ValueProblem also for half a surrogate pair, which no encoding can write."""
    value = parse(text)
    place = _half_a_pair(value) if _SURROGATE.search(text) else None
    if place is not None:
        raise ValueProblem(f"{place}: holds half a surrogate pair, which is no text")
    return value


def jsonl_rows(source: Source) -> Iterator[NumberedRow]:
    """The rows of a JSON Lines file, one by one: an object per line. Blank lines are passed over, bad ones are problems."""

    def refuse(number: int, error: ValueError) -> None:
        if isinstance(error, UnicodeDecodeError):
            source.hint = source.hint or SAVE_AS_UTF8
            source.add_problem(number, undecodable(error))
        elif isinstance(error, NotJson):
            if number == 1 and error.text.strip() in ("[", "{"):
                source.hint = "the file looks like one JSON document: --format json"
            source.add_problem(number, f"column {error.column}: {error.what}")
        else:
            source.add_problem(number, str(error))

    return files.read_jsonl(source.path, lambda line: object_of(parse_text(line.decode())), refuse)


def object_of(row: Any) -> dict[str, Any]:
    """The row, which should be an object; raises ValueProblem."""
    if not isinstance(row, dict):
        raise ValueProblem(f"should be an object, is {shown(row)}")
    return row


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueProblem(f"the key {shown(twice)} is given twice in one object")
    return entries


def _half_a_pair(value: Any) -> str | None:
    """The place of a text with half a surrogate pair; None without one. Any depth."""
    left = [("", value)]
    while left:
        at, each = left.pop()
        if isinstance(each, str) and not is_text(each):
            return at.lstrip(".")
        if isinstance(each, dict):
            if bad := next((key for key in each if not is_text(key)), None):
                return f"{at}[{shown(bad)}]".lstrip(".")
            left += [(f"{at}.{key}", entry) for key, entry in each.items()]
        elif isinstance(each, list):
            left += [(f"{at}[{n}]", entry) for n, entry in enumerate(each)]
    return None
