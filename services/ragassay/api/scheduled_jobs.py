"""What a schedule may run: a job's body without rows, which come from a stored dataset or from the data folder.

Read when a schedule comes, so that what can't run is refused at once, and by a worker at every run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from typing import Annotated, Any

from annotated_types import MaxLen

from ragassay.api.bodies import read_as
from ragassay.api.submission import JobRequest, asked, parts, rows_of
from ragassay.config.schedules import DataPath
from ragassay.core.errors import BadSettings, NotFound, TooLarge
from ragassay.core.eval_config import EvalConfig
from ragassay.core.models import FrozenModel
from ragassay.core.settings import Settings
from ragassay.datasets.load import dataset_of, load
from ragassay.datasets.versions import DatasetStore
from ragassay.evaluation.inputs import Inputs
from ragassay.evaluation.inputs import load as load_inputs
from ragassay.service.job_reports import Gating
from ragassay.service.jobs import Jobs
from ragassay.service.redis_datasets import RedisDatasets
from ragassay.service.registered import Registered


class Files(FrozenModel):
    """Files of the data folder: rows, and the responses of systems by name."""

    data: DataPath | None = None
    responses: Annotated[dict[str, DataPath], MaxLen(100)] = {}  # noqa: RUF012 - a default of a model

    @property
    def any(self) -> bool:
        """Is there a file?"""
        return self.data is not None or bool(self.responses)


def read(template: Mapping[str, Any], settings: Settings, jobs: Jobs) -> tuple[EvalConfig, Inputs, Gating]:
    """The parts of a run's job. Raises what ``submission.read`` raises, and for files NotFound, TooLarge, BadSettings."""
    job, files, spec, gating = checked(template, settings)
    return spec, _inputs(job, files, settings, jobs.registered, RedisDatasets(jobs.store)), gating


def checked(template: Mapping[str, Any], settings: Settings) -> tuple[JobRequest, Files, EvalConfig, Gating]:
    """The parts of a schedule's job that need no row, and the files that it names; none is opened."""
    document = dict(template)
    files = read_as(Files, {key: document.pop(key) for key in Files.model_fields if key in document})
    if "samples" in document:
        what = "a schedule has no rows of its own"
        raise BadSettings(what, where="samples", hint="upload them and name them: 'dataset': 'NAME'")
    if files.data is None and document.get("dataset") is None:
        what = "names no rows"
        raise BadSettings(what, where="job", hint="'dataset': 'NAME' of a stored dataset, or 'data': a file's path")
    if files.any and settings.data_folder is None:
        what = "the service has no data folder"
        raise BadSettings(what, where="job", hint="its operator sets RAGASSAY_DATA_FOLDER")
    job, spec, gating = parts(document, settings)
    return job, files, spec, gating


def _inputs(
    job: JobRequest, files: Files, settings: Settings, registered: Registered, datasets: DatasetStore
) -> Inputs:
    folder = (settings.data_folder or Path()).resolve()
    for path in (*([files.data] if files.data else []), *files.responses.values()):
        _check_file(folder, path, settings.max_upload_bytes)
    with chdir(folder if files.any else Path()):  # so that errors name the file and no folder of the server's
        if files.data is None:
            source, samples = rows_of(job, datasets)
            rows, name = dataset_of(samples), source.name
        else:
            rows = load(Path(files.data), max_grade=job.highest_grade)
            name = job.dataset or rows.name
        inputs = load_inputs(rows, {system: Path(path) for system, path in files.responses.items()}, name=name)
    called_only = job.systems and not files.responses and not any(sample.response for sample in inputs.samples)
    recorded = {} if called_only else inputs.systems
    systems = {**recorded, **asked(job, recorded, registered, len(inputs.samples))}
    return Inputs(inputs.dataset, inputs.samples, systems)


def _check_file(folder: Path, path: str, most: int) -> None:
    """Refuse what is no file of the folder: a link may lead anywhere."""
    file = folder / path
    if file.resolve() != file:
        raise BadSettings(f"{path!r} is a link, or behind one", where="data", hint="put the file itself there")
    if not (file.is_file() and os.access(file, os.R_OK)):
        raise NotFound(f"there is no file {path!r} in the data folder that can be read", where="data")
    if file.stat().st_size > most:
        raise TooLarge(f"{path!r} is larger than {most:,} bytes", where="data")
