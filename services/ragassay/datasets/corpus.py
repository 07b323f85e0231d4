"""What retrievers search: passages with an id, a text and, where there is one, a title."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import orjson
from pydantic import ValidationError

from ragassay.core.errors import BadData, NotFound
from ragassay.core.models import FrozenModel, Id
from ragassay.core.validation import problems
from ragassay.datasets.source import Source, jsonl_rows

_SHAPE = '{"id": "...", "text": "...", "title": "..."}'


class Passage(FrozenModel):
    """One unit of retrieval."""

    id: Id
    text: str
    title: str = ""

    @property
    def full(self) -> str:
        """Title and text as one text."""
        return f"{self.title.rstrip('.')}. {self.text}" if self.title.strip() else self.text


@dataclass(frozen=True)
class Corpus:
    """Passages in the order of their ids. ``digest``: SHA-256 of the passages, whatever file and order they came in."""

    passages: tuple[Passage, ...]
    digest: str

    @classmethod
    def of(cls, passages: Iterable[Passage]) -> Corpus:
        """The corpus of these passages; raises BadData on an id that comes twice, and where there is no passage."""
        ordered = tuple(sorted(passages, key=lambda passage: passage.id))
        if not ordered:
            raise BadData(["a corpus without passages"], hint=f"give at least one line such as {_SHAPE}")
        for one, following in pairwise(ordered):
            if one.id == following.id:
                raise BadData([f"passage id {one.id!r} comes twice"])
        digest = hashlib.sha256()
        for passage in ordered:
            digest.update(orjson.dumps([passage.id, passage.title, passage.text], option=orjson.OPT_APPEND_NEWLINE))
        return cls(ordered, digest.hexdigest())

    @classmethod
    def read(cls, path: Path) -> Corpus:
        """The corpus in a JSON Lines file: ``id`` (or ``_id``), ``text``, and ``title`` where there is one.

        Other fields are left alone. Raises NotFound, and BadData that lists every bad line with file and line.
        """
        if not path.is_file():
            raise NotFound(f"{path}: there is no such corpus")
        source = Source(path, hint=f"a line should be {_SHAPE}")
        passages: dict[str, tuple[int, Passage]] = {}
        for number, row in jsonl_rows(source):
            known = {"id": row.get("id", row.get("_id")), "text": row.get("text"), "title": row.get("title")}
            try:
                passage = Passage.model_validate({key: value for key, value in known.items() if value is not None})
            except ValidationError as error:
                source.add_problem(number, str(problems(error)[0]))
                continue
            first, _ = passages.setdefault(passage.id, (number, passage))
            if first != number:
                source.add_problem(number, f"passage id {passage.id!r} stands in line {first} already")
        source.check()
        if not passages:
            raise BadData([f"{path}: holds no passage"], hint=source.hint)
        return cls.of(passage for _, passage in passages.values())
