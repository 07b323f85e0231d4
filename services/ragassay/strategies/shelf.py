"""Indexes that outlive a process: arrays in files, each named and checked by all that it was made from."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from ragassay.files import write_whole

Arrays: TypeAlias = dict[str, NDArray[Any]]
_FORM = 2  # to be raised when the arrays of an index change their meaning


def kept(cache: Path | None, facts: Mapping[str, Any], make: Callable[[], Arrays]) -> Arrays:
    """The arrays that ``make`` gives, taken from ``cache`` where they were made from the same ``facts`` before.

    ``facts`` hold the corpus digest, the options and the versions that matter, and the index's kind as ``index``. They
    name the file and stand in it: an index of anything else, or a damaged one, is made anew, never used.
    """
    if cache is None:
        return make()
    said = orjson.dumps({**facts, "form": _FORM}, option=orjson.OPT_SORT_KEYS)
    path = cache / f"{facts['index']}-{hashlib.sha256(said).hexdigest()[:32]}.npz"
    found = _read(path, said)
    if found is not None:
        return found
    arrays = make()
    content = io.BytesIO()
    stored: Arrays = {"facts": np.frombuffer(said, np.uint8), **arrays}
    np.savez(content, **stored)  # type: ignore[arg-type]  # its stubs know an option that older numpy takes for an array
    write_whole(path, content.getvalue())
    return arrays


def _read(path: Path, said: bytes) -> Arrays | None:
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = dict(stored)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile):
        return None
    facts = arrays.pop("facts", None)
    return arrays if facts is not None and facts.tobytes() == said else None
