"""Splits and generated questions are the same on any machine: whatever hash seed, locale, time zone, folder or file order."""

import json
import os
import subprocess
import sys

import pytest

from ragassay.shipped import folder

HANDBOOK = folder("datasets") / "handbook"
CODE = """
import json, sys, ragassay
rows, corpus, folder = sys.argv[1:]
datasets = ragassay.Datasets()
versions = [datasets.import_(rows, "rows")]
for group_by, by, seed in (("similar", "category", 7), ("question", "difficulty", 8), ("similar", "none", 2**40)):
    made = datasets.split("rows", train=0.6, validation=0.1, test=0.3, group_by=group_by, by=by, seed=seed)
    versions += made.versions
versions.append(datasets.generate(corpus, "made", count=40, seed=7).version)
versions.append(datasets.generate(folder, "pages", count=12, seed=9).version)
print(json.dumps([version.digest[:16] for version in versions]))
"""
PINNED = [
    "3a095fb0729aa04a",
    "9741cbe0c1453146",
    "1d2074fa6a241120",
    "1e38d2577f95f049",
    "9b8788d2f60fe392",
    "9f6b75677c6c5478",
    "71f24293e0709471",
    "077f6ed2d03fb9c2",
    "7277c8e8d4a48a31",
    "6e71aac7c5a58d10",
    "7fa93b3c54b5d7ee",
    "f55c1a8287b7854c",
]


def in_another_world(tmp_path, backwards, **environment):
    """The digests that a process of its own prints, with the documents written in one order or the other."""
    pages = sorted((HANDBOOK / "documents").iterdir())[:6]
    (tmp_path / "pages").mkdir(parents=True)
    for page in reversed(pages) if backwards else pages:
        (tmp_path / "pages" / page.name).write_bytes(page.read_bytes())
    command = [sys.executable, "-c", CODE, HANDBOOK / "queries.json", HANDBOOK / "corpus.jsonl", tmp_path / "pages"]
    home = {"RAGASSAY_HOME": str(tmp_path / "home"), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **home, **environment}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("where", "backwards", "environment"),
    [
        ("a", False, {"PYTHONHASHSEED": "0", "LC_ALL": "C", "TZ": "UTC"}),
        ("b/größer", True, {"PYTHONHASHSEED": "1", "LC_ALL": "C.UTF-8", "TZ": "Asia/Kathmandu", "PYTHONUTF8": "0"}),
        (
            "c/deeper",
            True,
            {"PYTHONHASHSEED": "4294967295", "OMP_NUM_THREADS": "1", "NPY_DISABLE_CPU_FEATURES": "AVX2"},
        ),
    ],
)
def test_the_same_seed_gives_the_same_digests(tmp_path, where, backwards, environment):
    assert in_another_world(tmp_path / where, backwards, **environment) == PINNED
