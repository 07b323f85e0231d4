"""Datasets with versions from Python: what ``ragassay data`` does, as methods of one object."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

from ragassay.core.errors import BadSettings, BudgetReached, ProviderDown
from ragassay.core.eval_config import Budget
from ragassay.core.models import Sample
from ragassay.core.protocols import digest
from ragassay.core.settings import Settings
from ragassay.datasets.columns import MapOption
from ragassay.datasets.corpus import Corpus
from ragassay.datasets.describe import DatasetDescription, describe
from ragassay.datasets.diff import DatasetDifference, difference
from ragassay.datasets.ir import PREFIX
from ragassay.datasets.load import are_files, load
from ragassay.datasets.rows import Duplicates
from ragassay.datasets.split import SplitVersions, split_version
from ragassay.datasets.versions import DatasetStore, DatasetVersion, check_name, import_rows, open_data, resolve
from ragassay.evaluation.runtime import llm_of
from ragassay.metrics.metric import METRICS
from ragassay.sdk.progress import warner
from ragassay.storage.journal import CallCache, FolderJournal
from ragassay.testset.generate import GeneratedVersion, Written, calls_text, check_count, generate
from ragassay.testset.model import QuestionWriter
from ragassay.testset.offline import VERSION, candidates
from ragassay.testset.passages import read_passages


class Datasets:
    """The datasets in a folder, by default those of the command line: ``.ragassay``, or ``RAGASSAY_HOME``.

    A dataset is named ``NAME``, its latest version, or ``NAME@VERSION``; the beginning of a version is enough. It
    stands wherever ``evaluate`` takes data. ``Client.datasets`` does the same at a service.
    """

    def __init__(self, home: str | Path | None = None) -> None:
        self._store = DatasetStore.of_folder(Path(home) if home is not None else Settings().home)

    def import_(
        self,
        data: Any,
        name: str | None = None,
        *,
        description: str | None = None,
        format: str = "auto",  # noqa: A002 - as the option is called
        map: MapOption | None = None,  # noqa: A002 - as the option is called
        duplicates: Duplicates = "error",
    ) -> DatasetVersion:
        """Keep rows as a version: a file or a list of files, ``ir:NAME`` of ir_datasets, or rows as ``evaluate`` takes them.

        Rows in memory need a name. The same rows are the same version. Raises BadData with a line for every bad row, and keeps
        nothing then.
        """
        files = [data] if isinstance(data, str | Path) else data if are_files(data) else []
        sources = [str(file) for file in files]
        if not sources and name is None:
            raise BadSettings("rows in memory need a name", hint='import_(rows, "NAME")')
        rows = load(files or data, format=format, mapping=map, duplicates=duplicates)
        if name is None:
            name = rows.name if sources[0].startswith(PREFIX) else Path(sources[0]).resolve().stem
        version = import_rows(self._store, check_name(name), rows, sources=sources, description=description)
        for warning in rows.warnings:
            warner()(warning, UserWarning)
        return version

    def list(self) -> tuple[DatasetVersion, ...]:
        """The datasets by name, each with its latest version."""
        return tuple(versions[0] for versions in self._store.each())

    def versions(self, name: str) -> tuple[DatasetVersion, ...]:
        """The versions of a name, the latest first."""
        return tuple(self._store.versions(self.show(name).name))

    def show(self, dataset: str) -> DatasetVersion:
        """One version: digest, number of rows, description, times and lineage."""
        return resolve(self._store, dataset)

    def rows(self, dataset: str) -> Iterator[Sample]:
        """The rows in their order, one by one."""
        return self._store.samples(self.show(dataset))

    def describe(
        self,
        data: str | Path,
        *,
        format: str = "auto",  # noqa: A002 - as the option is called
        map: MapOption | None = None,  # noqa: A002 - as the option is called
        duplicates: Duplicates = "error",
    ) -> DatasetDescription:
        """Counts, lengths, labels, similar questions and the metrics that the rows allow, of a dataset or a file."""
        dataset = open_data(self._store, Path(data), format=format, mapping=map, duplicates=duplicates)
        return describe(dataset, {metric.family: metric.missing_input for metric in METRICS})

    def diff(self, a: str | Path, b: str | Path) -> DatasetDifference:
        """What changed from ``a`` to ``b``, row by row; datasets or files."""
        rows_a, rows_b = (open_data(self._store, Path(each)) for each in (a, b))
        return difference(rows_a, rows_b, names=(str(rows_a.path), str(rows_b.path)))

    def split(
        self,
        dataset: str,
        *,
        train: float = 0.8,
        validation: float = 0.1,
        test: float = 0.1,
        seed: int = 0,
        by: Literal["category", "difficulty", "none"] = "category",
    ) -> SplitVersions:
        """Keep parts as ``NAME-train``, ``NAME-validation`` and ``NAME-test``."""
        shares = {"train": train, "validation": validation, "test": test}
        return split_version(self._store, dataset, shares, seed=seed, by=by)

    def generate(
        self,
        documents: str | Path,
        name: str | None = None,
        *,
        count: int = 50,
        seed: int = 0,
        model: str | None = None,
        **options: Any,
    ) -> GeneratedVersion:
        """Keep questions with ground truth made from documents, offline or by a ``model`` that LiteLLM supports.

        Options of a model: ``api_base``, ``usd`` (a cap), ``concurrency``. Raises BudgetReached.
        """
        check_count(count)
        path = Path(documents)
        corpus, chosen = read_passages(path), check_name(name or f"{path.resolve().stem}-generated")
        if model is None:
            written = Written(f"templates {VERSION}", list(candidates(corpus)))
        else:
            written = self._questions_of(model, chosen, corpus, count, seed, **options)
        return generate(self._store, chosen, corpus, written, count, seed=seed, sources=[str(path)])

    def _questions_of(
        self,
        model: str,
        name: str,
        corpus: Corpus,
        count: int,
        seed: int,
        *,
        api_base: str | None = None,
        usd: float | None = None,
        concurrency: int = 8,
    ) -> Written:
        """Questions that a model writes for the dataset ``name``. What is answered once is not paid again."""
        settings = Settings()
        of_call = {"count": count, "seed": seed, "corpus": corpus.digest}
        calls = settings.home / "datasets" / "calls" / f"{name}-{digest([model, of_call])[:12]}.jsonl"
        with ExitStack() as opened:
            cache = CallCache(settings.home / "cache" / "calls.sqlite")
            opened.callback(cache.close)
            journal = FolderJournal(calls, run=calls.stem, cache=cache, budget=Budget(usd=usd))
            opened.callback(journal.close)
            writer = QuestionWriter(llm_of(model, api_base, settings, concurrency=concurrency, seed=seed), journal)
            try:
                questions = asyncio.run(writer.write(corpus, count=count, seed=seed))
            except (BudgetReached, ProviderDown) as error:
                error.hint = f"what is answered is kept ({calls_text(writer.spent)}): give the same command "
                error.hint += "a higher --budget-usd" if isinstance(error, BudgetReached) else "later"
                raise
        return Written(f"model {model}", questions, writer.settings, writer.spent)
