"""Where a run in a folder keeps its canary panel, and the first verdicts of each judge on each panel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import ValidationError

from ragassay.errors import BadData
from ragassay.files import private_folder, to_lines, write_whole
from ragassay.judge_documents import JudgedPanel
from ragassay.models import Sample
from ragassay.store.rows import rows_of
from ragassay.validation import problems


class FolderCanary:
    """In a run's folder ``panel.jsonl``, the rows, and ``canary.json``; the baselines are kept beside all runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save_rows(self, rows: Iterable[Sample]) -> None:
        """Write the rows of a new run's panel."""
        lines = to_lines(row.model_dump(mode="json", exclude_defaults=True) for row in rows)
        write_whole(self._folder / "panel.jsonl", lines, private=True)

    def rows(self) -> Sequence[Sample]:
        """The panel's rows."""
        return tuple(rows_of(self._folder / "panel.jsonl", Sample))

    def keep(self, judged: JudgedPanel) -> None:
        """Keep what the judge made of the panel in this run."""
        write_whole(self._folder / "canary.json", judged.model_dump_json().encode(), private=True)

    def judged(self) -> JudgedPanel | None:
        """What the judge made of the panel in this run; None where it was not judged."""
        return _read(self._folder / "canary.json")

    def baseline(self, key: str, offered: JudgedPanel | None = None) -> JudgedPanel | None:
        """What that judge first made of that panel; ``offered`` is kept, and returned, where nothing is."""
        file = self._folder.parent.parent / "canary" / f"{key}.json"
        if offered is not None and not file.exists():
            private_folder(file.parent)
            write_whole(file, offered.model_dump_json().encode(), private=True)
        return _read(file)


def _read(file: Path) -> JudgedPanel | None:
    try:
        return JudgedPanel.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise BadData([f"{file}: {problems(error)[0]}"], hint=f"remove {file}") from None
