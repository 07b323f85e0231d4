"""The only importer of ``ir_datasets``: queries, judgments and passages of MS MARCO, Natural Questions, BEIR and others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ragassay.core.errors import BadInput, MissingExtra, Unavailable, UnknownName, reason_from
from ragassay.datasets.source import NumberedRow, Source

PREFIX = "ir:"


def read_ir(name: str) -> Source:
    """The judged queries of one of the library's datasets, such as ``ir:beir/scifact/test``.

    The library downloads what it needs once, into ``~/.ir_datasets`` or ``IR_DATASETS_HOME``. Raises MissingExtra,
    UnknownName, BadInput for a dataset without queries or without judgments, and Unavailable if a download fails.
    """
    dataset = _load(name)
    for what, has in (("queries", dataset.has_queries()), ("judgments", dataset.has_qrels())):
        if not has:
            hint = " or ".join([each for each in _known() if each.startswith(f"{name}/")][:5]) or None
            raise BadInput(f"has no {what}", where=name, hint=hint)
    source = Source(Path(name), name=name.removeprefix(PREFIX).replace("/", "-"), counts_lines=False, judged_only=True)
    source.rows = _rows(source, dataset)
    return source


def ir_passages(name: str) -> Iterator[dict[str, Any]]:
    """The documents of such a dataset as lines of a corpus."""
    dataset = _load(name)
    with _downloading(name):
        for document in dataset.docs_iter():
            title = getattr(document, "title", "")
            text = document.text if title and hasattr(document, "text") else document.default_text()
            yield {"id": document.doc_id, "text": text, **({"title": title} if title else {})}


def _known() -> list[str]:
    import ir_datasets

    return [f"{PREFIX}{each}" for each in ir_datasets.registry]


def _load(name: str) -> Any:
    try:
        import ir_datasets
    except ImportError:
        raise MissingExtra("importing from ir_datasets", "ir") from None
    if name not in _known():
        raise UnknownName("dataset of ir_datasets", name, _known(), where=name)
    return ir_datasets.load(name.removeprefix(PREFIX))


def _rows(source: Source, dataset: Any) -> Iterator[NumberedRow]:
    grades: defaultdict[str, dict[str, float]] = defaultdict(dict)
    left_out = number = 0
    with _downloading(str(source.path)):
        for judgment in dataset.qrels_iter():
            grades[judgment.query_id][judgment.doc_id] = judgment.relevance
        for number, query in enumerate(dataset.queries_iter(), 1):
            if judged := grades.get(query.query_id):
                yield number, {"query_id": query.query_id, "query": query.default_text(), "relevance_scores": judged}
            else:
                left_out += 1
    if left_out:
        source.warnings.append(f"{left_out} of {number} queries are not judged and left out")


@contextmanager
def _downloading(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise Unavailable(f"ir_datasets can't read it: {reason_from(error)}", where=name) from None
