"""Rows of a folder run that are chosen on the columns beside them: the same rows as if all were in memory."""

import pytest

from offline_runs import ScriptedJudge, evaluated, new_run, sample
from ragassay.core.errors import UnknownName
from ragassay.core.eval_config import EvalConfig
from ragassay.core.models import Rating
from ragassay.storage.folder import FolderStore
from ragassay.storage.row_index import RowIndex
from ragassay.storage.selection import Selection

COLUMNS = "columns-a"


def run_of(tmp_path, count=130, systems=("a", "b"), name="first"):
    samples = [
        sample(
            n,
            query=f"What is number {n}?",
            answer="No idea, \u00c4rger." if n % 7 == 0 else "Paris is the capital.",
            error="no answer within 30 s" if n % 11 == 0 else None,
            latency_ms=None if n % 5 == 0 else float(n * 37 % 100),
            retrieved_doc_ids=["lyon"] if n % 3 == 0 else ["lyon", "paris"],
        )
        for n in range(1, count + 1)
    ]
    broken = {f"q{n}": Rating(reason="the judge failed") for n in range(13, count, 13)}
    judge = ScriptedJudge(**broken)
    run = new_run(tmp_path / name, samples, EvalConfig(), systems=systems, judge=judge)
    return run, evaluated(run, judge)


def rows_of(run, report):
    return RowIndex(FolderStore(run.folder.parent.parent).open(run.record.id))


SELECTIONS = [
    {},
    {"system": "b"},
    {"category": "factual", "sort": "latency_ms"},
    {"category": "nothing"},
    {"failed": True},
    {"failed": False, "sort": "-latency_ms"},
    {"failure": "response_failed"},
    {"failure": "not_scored"},
    {"where": ("latency_ms>=10", "latency_ms<50"), "sort": "-mrr"},
    {"text": "\u00e4RGER", "sort": "mrr"},
    {"text": "nowhere"},
    {"sort": "-MRR", "system": "a"},
]


def test_rows_are_those_that_a_selection_in_memory_finds(tmp_path):
    run, report = run_of(tmp_path)
    rows = rows_of(run, report)
    systems = report.results
    for asked in SELECTIONS:
        wanted = list(Selection(**asked).of(systems, run.record.metrics))
        assert rows.at(rows.selected(Selection(**asked))) == wanted, asked
        assert list(rows.each(rows.selected(Selection(**asked)))) == wanted
    assert len({len(rows.selected(Selection(**asked))) for asked in SELECTIONS}) > 5


def test_an_unknown_system_or_figure_is_named(tmp_path):
    rows = rows_of(*run_of(tmp_path, 3))
    with pytest.raises(UnknownName, match="unknown system of the run 'c'"):
        rows.selected(Selection(system="c"))
    with pytest.raises(UnknownName, match="unknown figure of the rows 'mr'"):
        rows.selected(Selection(sort="mr"))


def test_a_long_run_writes_the_columns_as_it_goes_and_a_short_one_when_it_is_looked_at(tmp_path, monkeypatch):
    short, report = run_of(tmp_path, 60)
    assert not (short.folder / COLUMNS).exists()
    rows_of(short, report)
    assert (short.folder / COLUMNS).stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr("ragassay.storage.folder.MOST_IN_MEMORY", 10)
    long, report = run_of(tmp_path, 60, name="second")
    assert (long.folder / COLUMNS).exists()
    monkeypatch.setattr("ragassay.storage.folder.FolderRun.results", None)  # no row has to be read
    assert len(rows_of(long, report).selected(Selection(sort="mrr"))) == 120


def test_rows_that_changed_since_are_read_again(tmp_path):
    run, report = run_of(tmp_path, 60)
    assert len(rows_of(run, report).selected(Selection(text="rewritten"))) == 0
    file = run.folder / "results" / "a" / "00001.jsonl"
    file.write_text(file.read_text().replace("Paris is the capital.", "It was REWRITTEN since."))
    found = rows_of(run, report)
    assert {row.system for row in found.at(found.selected(Selection(text="rewritten")))} == {"a"}


@pytest.mark.parametrize("damage", ["other bytes", "a folder"])
def test_columns_that_can_not_be_used_are_made_again(tmp_path, damage):
    run, report = run_of(tmp_path, 60)
    wanted = rows_of(run, report).selected(Selection(sort="latency_ms")).tolist()
    file = run.folder / COLUMNS
    file.unlink()
    file.mkdir() if damage == "a folder" else file.write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    assert rows_of(run, report).selected(Selection(sort="latency_ms")).tolist() == wanted
