"""What lexical retrieval sees of a text: its terms. And how a query grows by its aliases."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ragassay.judges.words import STOP_WORDS, stem, words

_COMPOUND = re.compile(r"\w+(?:[-\u2010\u2011]\w+)+")
_HYPHEN = re.compile("[-\u2010\u2011]")


@dataclass(frozen=True)
class Normaliser:
    """Text to terms: lower-case words, folded and shortened as the options say."""

    fold_accents: bool = True
    hyphens: Literal["split", "join", "both"] = "split"
    stem: bool = True
    drop_stop_words: bool = True

    def plain(self, text: str) -> list[str]:
        """Its words in order, neither stemmed nor left out."""
        if self.fold_accents and not text.isascii():
            parts = unicodedata.normalize("NFKD", text)
            text = "".join(c for c in parts if not "\u0300" <= c <= "\u036f")
        if self.hyphens == "split":
            return words(text)
        joined = _COMPOUND.sub(lambda found: _HYPHEN.sub("", found.group()), text)
        if self.hyphens == "join":
            return words(joined)
        return words(text) + [word for one in _COMPOUND.findall(text) for word in words(_HYPHEN.sub("", one))]

    def terms(self, text: str) -> list[str]:
        """What is looked up: stop words are kept where there is nothing else."""
        found = self.plain(text)
        if self.drop_stop_words:
            found = [word for word in found if word not in STOP_WORDS] or found
        return [stem(word) for word in found] if self.stem else found


def expand(query: str, aliases: Mapping[str, Sequence[str]]) -> str:
    """The query, followed by the expansions of every term that stands in it as whole words, in any case.

    An expansion that the query holds already is not added. Expansions are not expanded in turn.
    """
    folded = Normaliser()
    inside = f" {' '.join(folded.plain(query))} "
    added = [
        text
        for term, expansions in aliases.items()
        if f" {' '.join(folded.plain(term))} " in inside
        for text in expansions
        if f" {' '.join(folded.plain(text))} " not in inside
    ]
    return " ".join([query, *dict.fromkeys(added)])
