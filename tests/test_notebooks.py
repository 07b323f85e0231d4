"""The notebooks run from the first cell to the last, with a kernel of their own, and print no error."""

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))
SAID = {
    "1_first_evaluation": "How long are backups kept? | Backups are kept for 90 days.",
    "2_comparing_systems": "hybrid against bm25: ",
}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "it is kept without outputs"
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = [
        output.get("text") or "\n".join(map(str, output.get("data", {}).values()))
        for cell in notebook.cells
        for output in cell.get("outputs", ())
    ]
    text = "\n".join(printed)
    assert "error: " not in text
    assert "Traceback" not in text
    assert SAID[path.stem] in text
