"""``--import FILE.py``: a user's own metrics, registered by running the file they stand in."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from ragassay.errors import BadSettings


def run_plugin(path: Path) -> None:
    """Run a Python file, so that what it registers is known; raises BadSettings where it can't be run."""
    spec = spec_from_file_location(f"ragassay_plugin_{path.stem}", path)
    if path.suffix != ".py" or not path.is_file() or spec is None or spec.loader is None:
        raise BadSettings(f"--import {str(path)!r} is not a Python file", hint="name a file that ends in .py")
    module = module_from_spec(spec)
    sys.modules[module.__name__] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the user's code does wrong is one clear line about that file
        raise BadSettings(f"--import {str(path)!r}: {type(error).__name__}: {error}") from error
