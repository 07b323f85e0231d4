"""Guesses where rows with other names, or a reply, hold our fields: for the line that an error suggests, never applied."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

_FIELDS_BY_WORD = {
    word: ours
    for ours, words in {
        "query": "question query prompt request utterance input user",
        "answer": "answer response reply output completion prediction generation generated result assistant bot",
        "contexts": "context passage chunk document doc source evidence snippet hit retrieved article citation excerpt quote",
    }.items()
    for word in words.split()
}
_OF_TRUTH = frozenset("expected gold golden truth reference ideal".split())
_NO_TEXT = frozenset(
    "id uri url link file name title user type lang language model time date score count token".split()
)
MOST_ROWS = 20  # are looked at
_MOST_ENTRIES, _MOST_PLACES, _DEEPEST = 3, 1000, 5
_WORDS_OF_PASSAGE = 3  # at least, on average: ids have fewer
_WORDS_IN_ONE_TEXT = 8  # where passages stand in a single text


@dataclass
class _Place:
    """A place in the rows and the texts there; ``hits[].text`` is in a list of objects."""

    path: str
    texts: list[str] = field(default_factory=list)
    is_list: bool = False

    @cached_property
    def words(self) -> list[str]:
        """Of its name, in the singular."""
        return [word.lower().removesuffix("s") for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", self.path)]

    @property
    def length(self) -> float:
        """Words in a text, on average."""
        return sum(len(text.split()) for text in self.texts) / len(self.texts)

    @property
    def may_hold(self) -> bool:
        """Does it hold texts under a name that is not about something else?"""
        return bool(self.texts) and "metadata" not in self.words and _NO_TEXT.isdisjoint(self.words[-1:])

    def meant(self) -> str | None:
        """The field that its name means, if its texts can be that; the last word of a name says most."""
        ours = next((_FIELDS_BY_WORD[word] for word in reversed(self.words) if word in _FIELDS_BY_WORD), None)
        of_truth = not _OF_TRUTH.isdisjoint(self.words) or ("correct" in self.words and ours == "answer")
        if ours == "contexts":
            if self.length < (_WORDS_OF_PASSAGE if self.is_list else _WORDS_IN_ONE_TEXT):
                return None
            return "reference_contexts" if of_truth else ours
        if of_truth and ours != "query":
            return "ground_truth_answer"
        return None if self.is_list else ours


def guesses(
    rows: Sequence[Mapping[str, Any]], fields: Collection[str], *, of_reply: bool = False
) -> dict[str, list[str]]:
    """For each of the fields the places that may hold it, by their names and by what is there; several if it is unclear.

    ``of_reply``: the answer may have any name.
    """
    places: dict[str, _Place] = {}
    for row in rows:
        for path, value in islice(_leaves(row), _MOST_PLACES):
            place = places.setdefault(path, _Place(path))
            place.is_list |= isinstance(value, list) or "[]" in path or value.lstrip().startswith("[")
            texts = value if isinstance(value, list) else [value]
            place.texts += [text for text in texts if isinstance(text, str) and any(map(str.isalpha, text))]
    found: dict[str, list[str]] = {ours: [] for ours in fields}
    unnamed = []
    for place in filter(lambda one: one.may_hold, places.values()):
        if (ours := place.meant()) in found:
            found[ours].append(place.path)
        elif ours is None and not place.is_list:
            unnamed.append(place)
    if "query" in found:
        named = found["query"] or [place.path for place in unnamed]
        asking = [path for path in named if all(text.rstrip().endswith("?") for text in places[path].texts)]
        found["query"] = asking or found["query"]
    elif of_reply and not found["answer"]:
        found["answer"] = [place.path for place in unnamed if place.length > 1]
    return {ours: _plainest(paths) for ours, paths in found.items() if paths}


def _leaves(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Texts and lists without objects, with their places."""
    if isinstance(value, Mapping) and depth < _DEEPEST:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value):
        for entry in value[:_MOST_ENTRIES]:
            yield from _leaves(entry, f"{path}[]", depth) if isinstance(entry, Mapping) else ()
    elif isinstance(value, str | list):
        yield path, value


def _plainest(paths: list[str]) -> list[str]:
    """The only one of a single word, such as ``prompt`` beside ``system_prompt``; else all."""
    plain = [path for path in paths if path.isalpha() and len(_Place(path).words) == 1]
    return plain if len(plain) == 1 else paths
