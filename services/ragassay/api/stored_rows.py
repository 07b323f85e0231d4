"""The rows of a job: those in its body, or those of the stored dataset that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragassay.data.load import load, load_rows
from ragassay.data.versions import reference_in, resolve
from ragassay.documents import Source
from ragassay.errors import BadData, NotFound, UnknownName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragassay.api.submission import NewJob
    from ragassay.data.versions import DatasetStore
    from ragassay.models import Sample

_NEITHER = (
    "samples: is missing: put the rows, each with its response, into 'samples', or name a stored dataset: 'dataset'"
)


def rows_of(job: NewJob, datasets: DatasetStore | None) -> tuple[Source, Sequence[Sample]]:
    """The dataset and its rows. ``dataset`` names the rows of the body; without rows, NAME or NAME@VERSION of a stored one.

    A name is resolved now: what is uploaded or deleted later changes nothing. Raises BadData, and NotFound for a
    dataset that is not there.
    """
    if job.samples is not None:
        rows = load_rows(job.samples, name="samples", max_grade=job.highest_grade)
        name = job.dataset or job.name or "samples"
    else:
        if job.dataset is None or datasets is None:
            raise BadData([_NEITHER])
        if reference_in(job.dataset) is None:
            raise BadData([f"dataset: {job.dataset!r} is not of the form NAME or NAME@VERSION"])
        try:
            version = resolve(datasets, job.dataset)
        except UnknownName as error:
            raise NotFound(
                error.message, where="dataset", hint=f"{error.hint}; upload it: PUT /v1/datasets/NAME"
            ) from None
        rows = load(tuple(datasets.samples(version)), max_grade=job.highest_grade)
        name = version.name
    return Source(name=name, digest=rows.digest, rows=len(rows.samples), warnings=rows.warnings), rows.samples
