"""The only importer of ``ir_datasets``: queries, judgments and passages of MS MARCO, Natural Questions, BEIR and others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ragassay.core.errors import BadInput, MissingExtra, Unavailable, UnknownName, reason_from
from ragassay.core.models import Sample

PREFIX = "ir:"


class IrQueries:
    """The judged queries of one of the library's datasets, such as ``beir/scifact/test``, as samples.

    The library downloads what it needs once, into ``~/.ir_datasets`` or ``IR_DATASETS_HOME``. Raises MissingExtra,
    UnknownName, BadInput where a dataset has no queries or no judgments, Unavailable where a download fails.
    """

    judged_only = True
    description: str | None = None

    def __init__(self, name: str) -> None:
        try:
            import ir_datasets
        except ImportError:
            raise MissingExtra("importing from ir_datasets", "ir") from None
        self.name = name
        known = [str(each) for each in ir_datasets.registry]
        if name not in known:
            raise UnknownName("dataset of ir_datasets", name, known, where=f"{PREFIX}{name}")
        self._dataset = ir_datasets.load(name)
        for what, has in (("queries", self._dataset.has_queries()), ("judgments", self._dataset.has_qrels())):
            if not has:
                inner = [each for each in known if each.startswith(f"{name}/")]
                hint = " or ".join(f"{PREFIX}{each}" for each in inner[:5]) or None
                raise BadInput(f"has no {what}", where=f"{PREFIX}{name}", hint=hint)
        self.mapped: dict[str, str] = {}
        self.warnings: list[str] = []

    def __iter__(self) -> Iterator[Sample]:
        grades: defaultdict[str, dict[str, float]] = defaultdict(dict)
        left_out = 0
        with _downloading(self.name):
            for judgment in self._dataset.qrels_iter():
                grades[judgment.query_id][judgment.doc_id] = judgment.relevance
            for query in self._dataset.queries_iter():
                if judged := grades.get(query.query_id):
                    yield Sample(query_id=query.query_id, query=query.default_text(), relevance_scores=judged)
                else:
                    left_out += 1
        if left_out:
            self.warnings.append(f"{left_out} queries are not judged and left out")

    def passages(self) -> Iterator[dict[str, Any]]:
        """The documents as lines of a corpus."""
        with _downloading(self.name):
            for document in self._dataset.docs_iter():
                title = getattr(document, "title", "")
                text = document.text if title and hasattr(document, "text") else document.default_text()
                yield {"id": document.doc_id, "text": text, **({"title": title} if title else {})}


@contextmanager
def _downloading(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise Unavailable(f"ir_datasets can't read it: {reason_from(error)}", where=f"{PREFIX}{name}") from None
