"""What the sides of a comparison are called."""

from pathlib import Path

import pytest

from handmade_reports import make_report, rows
from ragassay.analysis.sides import Side, file_names, labelled


def run(number, *systems, dataset="france", name=None):
    """A report with a run's usual id."""
    found = {system: rows([1.0], system=system) for system in systems or ("default",)}
    return make_report(found, run=f"20260131-14050{number}-france-000{number}", dataset=dataset, name=name)


@pytest.mark.parametrize(
    ("sides", "names"),
    [
        ([Side(run(1, "old", "new"))], ["old", "new"]),
        # what stands in the data has no name of its own: that of the file, of the run, of the dataset
        ([Side(run(1), name="v1"), Side(run(2), name="v2")], ["v1", "v2"]),
        ([Side(run(1, name="release")), Side(run(2, dataset="v2"))], ["release", "v2"]),
        # two runs of one system
        ([Side(run(1, "ours"), name="before"), Side(run(2, "ours"), name="after")], ["before", "after"]),
        ([Side(run(1, "ours", name="r1")), Side(run(2, "ours", name="r2"))], ["r1#ours", "r2#ours"]),
        ([Side(run(1)), Side(run(2))], ["20260131-140501", "20260131-140502"]),
        ([Side(run(1, "a")), Side(run(2, "a")), Side(run(3, "b"))], ["20260131-140501#a", "20260131-140502#a", "b"]),
        # a system that is called as another's file
        ([Side(run(1), name="v1"), Side(run(2, "v1"))], ["v1", "france#v1"]),
    ],
)
def test_each_side_has_a_name_that_its_reader_knows_and_no_other_has(sides, names):
    assert [one.label for one in labelled(sides)] == names


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["v1.jsonl", "sub/v2.csv"], ["v1", "v2"]),
        (["old/answers.jsonl", "new/answers.jsonl"], ["old/answers.jsonl", "new/answers.jsonl"]),
        (["x/1/a.csv", "y/1/a.csv", "b.csv"], ["x/1/a.csv", "y/1/a.csv", "b"]),
        (["a.csv", "a.jsonl"], ["a.csv", "a.jsonl"]),
        (["a.csv", "./a.csv"], ["a", "a"]),
    ],
)
def test_a_file_is_called_by_its_stem_and_by_what_tells_it_from_the_others(paths, names):
    assert file_names([Path(path) for path in paths]) == names
