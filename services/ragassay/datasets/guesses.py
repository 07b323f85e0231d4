"""Guesses where rows with other names, or a reply, hold our fields: for the line that an error suggests, never applied."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
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
MAX_ROWS = 20  # are looked at
_MAX_TEXTS, _DEEPEST = 1000, 8  # of a row
_WORDS_OF_PASSAGE = 3  # in a list, at least, on average: ids have fewer
_WORDS_IN_ONE_TEXT = 8  # names of sources and titles have fewer


def guesses(
    rows: Sequence[Mapping[str, Any]], fields: Collection[str], *, of_reply: bool = False
) -> dict[str, list[str]]:
    """For each of the fields the places that may hold it, by their names; several if it is unclear.

    ``hits[].text`` is in a list of objects. ``of_reply``: the answer may have any name.
    """
    texts_by_path: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        for path, text in islice(_texts(row), _MAX_TEXTS):
            texts_by_path[path].append(text)
    paths_by_field: dict[str, list[str]] = {ours: [] for ours in fields}
    unnamed = []
    for path, texts in texts_by_path.items():
        words = [word.lower().removesuffix("s") for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", path)]
        if not _NO_TEXT.isdisjoint(words[-1:]) or "metadata" in words:
            continue
        length, in_list = sum(len(text.split()) for text in texts) / len(texts), "[]" in path
        is_passage = length >= (_WORDS_OF_PASSAGE if in_list else _WORDS_IN_ONE_TEXT)
        ours = _meant(words, in_list=in_list, is_passage=is_passage)
        if ours in paths_by_field:
            paths_by_field[ours].append(path)
        elif ours is None and not in_list and length > 1:
            unnamed.append(path)
    if of_reply and not paths_by_field["answer"]:
        paths_by_field["answer"] = unnamed
    return {ours: paths for ours, paths in paths_by_field.items() if paths}


def _meant(words: Sequence[str], *, in_list: bool, is_passage: bool) -> str | None:
    """The field that a name means, if its texts can be that; the last word of a name says most."""
    ours = next((_FIELDS_BY_WORD[word] for word in reversed(words) if word in _FIELDS_BY_WORD), None)
    of_truth = not _OF_TRUTH.isdisjoint(words) or ("correct" in words and ours == "answer")
    if ours == "contexts":
        return ("reference_contexts" if of_truth else ours) if is_passage else None
    if of_truth and ours != "query":
        return "ground_truth_answer"
    return None if in_list else ours


def _texts(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Texts with letters, and their places."""
    if isinstance(value, str):
        if any(map(str.isalpha, value)):
            yield path, value
    elif depth < _DEEPEST and isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(inner, f"{path}.{key}" if path else str(key), depth + 1)
    elif depth < _DEEPEST and isinstance(value, list):
        for inner in value:
            yield from _texts(inner, f"{path.removesuffix('[]')}[]", depth + 1)
