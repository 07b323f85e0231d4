"""What people said of rows, as it is kept: every label that was ever given, the last one of a row and metric counts."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ragassay.files import LineLog, locked
from ragassay.models import Chance, FrozenModel
from ragassay.store.rows import row_of

LABELS_FILE = "labels.jsonl"
LONGEST_NAME, MOST_LABELS = 80, 200_000  # of a job, those that were superseded included
_IN_PROCESS = threading.Lock()  # a lock of a file is held by a process, not by a thread


class HumanLabel(FrozenModel):
    """What somebody said of one answer, from 0 to 1, or None where they could not tell. ``at`` is UTC, ISO 8601."""

    system: Annotated[str, Field(min_length=1, max_length=64)]
    query_id: Annotated[str, Field(min_length=1)]
    metric: Annotated[str, Field(min_length=1, max_length=200)]
    value: Chance | None
    by: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
    at: Annotated[str, Field(min_length=1, max_length=40)]


class FolderLabels:
    """The labels of a run in a folder: ``labels.jsonl``, which only grows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, labels: Iterable[HumanLabel]) -> None:
        """Keep labels; a kill leaves whole ones. Raises DiskFull, Conflict while another process adds some."""
        with _IN_PROCESS, locked(self._folder / "labels.lock", f"the file of labels of run {self._folder.name}"):
            log = LineLog(self._folder / LABELS_FILE)
            try:
                log.cut_torn_line()
                for label in labels:
                    log.append(label.model_dump(mode="json"))
            finally:
                log.close()

    def kept(self) -> Sequence[HumanLabel]:
        """All of them, oldest first; raises BadData for a line that is no label. What a kill left of a line is no line."""
        file = self._folder / LABELS_FILE
        if not file.exists():
            return ()
        *lines, _ = file.read_bytes().split(b"\n")
        return [row_of(file, number, line, HumanLabel) for number, line in enumerate(lines, 1)]
