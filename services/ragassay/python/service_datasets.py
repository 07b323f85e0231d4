"""The datasets of a service, as ``Client.datasets`` and ``AsyncClient.datasets`` have them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragassay.python import dataset_exchanges as exchanges
from ragassay.python.exchanges import awaited_pages, pages

if TYPE_CHECKING:
    from ragassay.data.diff import DatasetDifference
    from ragassay.data.versions import DatasetVersion, KeptVersion
    from ragassay.datasets import DescribedDataset, GeneratedVersion, SplitVersions
    from ragassay.models import Sample


class ServiceDatasets:
    """``ragassay.Datasets`` at a service: the same verbs; a dataset is named ``NAME`` or ``NAME@VERSION``."""

    def __init__(self, run: Callable[[Any], Any]) -> None:
        self._run = run

    def import_(
        self,
        data: Any,
        name: str | None = None,
        *,
        description: str | None = None,
        map: Mapping[str, str] | None = None,  # noqa: A002 - as the option is called
        duplicates: str = "error",
    ) -> KeptVersion:
        """Upload a file, a version that is stored here, or rows in memory. Files of any length go piece by piece."""
        kept: KeptVersion = self._run(
            exchanges.import_(data, name, description=description, mapping=map, duplicates=duplicates)
        )
        return kept

    def list(self) -> tuple[DatasetVersion, ...]:
        """The datasets by name, each with its latest version."""
        found: tuple[DatasetVersion, ...] = self._run(exchanges.versions())
        return found

    def versions(self, name: str) -> tuple[DatasetVersion, ...]:
        """The versions of a name, the latest first."""
        found: tuple[DatasetVersion, ...] = self._run(exchanges.versions(name))
        return found

    def show(self, dataset: str) -> DatasetVersion:
        """One version."""
        version: DatasetVersion = self._run(exchanges.show(dataset))
        return version

    def rows(self, dataset: str) -> Iterator[Sample]:
        """The rows in their order, page by page."""
        for page in pages(self._run, partial(exchanges.rows, dataset)):
            yield from page.rows

    def describe(self, dataset: str, against: str | None = None, *, similar: float = 0.8) -> DescribedDataset:
        """Counts, lengths, labels, questions that are nearly the same, leaks."""
        described: DescribedDataset = self._run(exchanges.describe(dataset, against, similar))
        return described

    def diff(self, a: str, b: str) -> DatasetDifference:
        """What changed from ``a`` to ``b``, row by row."""
        difference: DatasetDifference = self._run(exchanges.diff(a, b))
        return difference

    def split(self, dataset: str, **options: Any) -> SplitVersions:
        """Keep parts as datasets; options as ``ragassay.Datasets.split`` takes them."""
        made: SplitVersions = self._run(exchanges.split(dataset, options))
        return made

    def generate(self, documents: str | Path, name: str | None = None, **options: Any) -> GeneratedVersion:
        """Make questions from a Markdown or text file or a corpus; options are ``count``, ``seed``, ``unanswerable``."""
        made: GeneratedVersion = self._run(exchanges.generate(Path(documents), name, options))
        return made

    def delete(self, dataset: str) -> tuple[DatasetVersion, ...]:
        """Delete NAME@VERSION, or all versions of NAME; returns them. Jobs have copies of their rows."""
        gone: tuple[DatasetVersion, ...] = self._run(exchanges.delete(dataset)).deleted
        return gone


class AsyncServiceDatasets:
    """``ServiceDatasets`` to await; ``rows`` is an async iterator."""

    def __init__(self, run: Callable[[Any], Awaitable[Any]]) -> None:
        self._run = run

    async def import_(
        self,
        data: Any,
        name: str | None = None,
        *,
        description: str | None = None,
        map: Mapping[str, str] | None = None,  # noqa: A002 - as the option is called
        duplicates: str = "error",
    ) -> KeptVersion:
        """See ``ServiceDatasets.import_``."""
        kept: KeptVersion = await self._run(
            exchanges.import_(data, name, description=description, mapping=map, duplicates=duplicates)
        )
        return kept

    async def list(self) -> tuple[DatasetVersion, ...]:
        """See ``ServiceDatasets.list``."""
        found: tuple[DatasetVersion, ...] = await self._run(exchanges.versions())
        return found

    async def versions(self, name: str) -> tuple[DatasetVersion, ...]:
        """See ``ServiceDatasets.versions``."""
        found: tuple[DatasetVersion, ...] = await self._run(exchanges.versions(name))
        return found

    async def show(self, dataset: str) -> DatasetVersion:
        """See ``ServiceDatasets.show``."""
        version: DatasetVersion = await self._run(exchanges.show(dataset))
        return version

    async def rows(self, dataset: str) -> AsyncIterator[Sample]:
        """See ``ServiceDatasets.rows``."""
        async for page in awaited_pages(self._run, partial(exchanges.rows, dataset)):
            for row in page.rows:
                yield row

    async def describe(self, dataset: str, against: str | None = None, *, similar: float = 0.8) -> DescribedDataset:
        """See ``ServiceDatasets.describe``."""
        described: DescribedDataset = await self._run(exchanges.describe(dataset, against, similar))
        return described

    async def diff(self, a: str, b: str) -> DatasetDifference:
        """See ``ServiceDatasets.diff``."""
        difference: DatasetDifference = await self._run(exchanges.diff(a, b))
        return difference

    async def split(self, dataset: str, **options: Any) -> SplitVersions:
        """See ``ServiceDatasets.split``."""
        made: SplitVersions = await self._run(exchanges.split(dataset, options))
        return made

    async def generate(self, documents: str | Path, name: str | None = None, **options: Any) -> GeneratedVersion:
        """See ``ServiceDatasets.generate``."""
        made: GeneratedVersion = await self._run(exchanges.generate(Path(documents), name, options))
        return made

    async def delete(self, dataset: str) -> tuple[DatasetVersion, ...]:
        """See ``ServiceDatasets.delete``."""
        gone: tuple[DatasetVersion, ...] = (await self._run(exchanges.delete(dataset))).deleted
        return gone
