"""Which rows people label, what their labels say, and how they are kept, exported and imported."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from ragassay.core.draws import draw_key
from ragassay.core.errors import BadData
from ragassay.core.eval_config import RunConfig
from ragassay.core.models import Result, Score
from ragassay.evaluation.labelling import HumanLabel, Labelling, add_labels, exported, imported, labels_of, latest
from ragassay.storage.columns import DRAW, columns, draw_value
from ragassay.storage.folder import FolderRun

METRIC = "faithfulness"


def said_of(query, value, by="Ada"):
    return HumanLabel(
        system="default", query_id=query, metric=METRIC, value=value, by=by, at="2026-11-23T00:00:00+00:00"
    )


def rows_of(scores, **fields):
    return [
        Result(query_id=f"q{n}", system="default", query="?", answer="a", scores={METRIC: Score(value=score)}, **fields)
        for n, score in enumerate(scores)
    ]


def ordered(rows, digest="d", seed=0):
    record = SimpleNamespace(spec=RunConfig(seed=seed), dataset=SimpleNamespace(digest=digest))
    table = columns(rows) | {DRAW: np.array([draw_value(record, row.query_id) for row in rows])}
    return Labelling(SimpleNamespace(there=np.ones(len(rows), bool), column=table.get), METRIC, record)


def sample(rows, size, *drawn):
    """The queries of the first rows that are to be labelled."""
    labelling, said = ordered(rows, *drawn), {}
    while (number := labelling.next(said, size)) is not None:
        query = rows[number].query_id
        said[query] = said_of(query, 1.0)
    return list(said)


def labelled(labelling, truth, count):
    """The first so many labels in the order in which the rows come."""
    said = {}
    queries = list(truth)
    while len(said) < count and (number := labelling.next(said)) is not None:
        said[queries[number]] = said_of(queries[number], truth[queries[number]])
    return said


def test_sample_is_random_and_the_same_for_two_systems():
    rows = rows_of(np.linspace(0, 1, 30).round(2).tolist())
    drawn = np.zeros(30)
    for n in range(300):
        for query in sample(rows, 6, str(n)):
            drawn[int(query[1:])] += 1
    # 6 of 30 rows in each of 300 draws: 60 each; chi-square with 29 degrees of freedom, 0.1 % above 58
    assert ((drawn - 60) ** 2 / 60).sum() < 58
    other = [row.model_copy(update={"system": "other"}) for row in reversed(rows)]
    assert sample(rows, 5) == sample(other, 5)
    assert sample(rows, 5) != sample(rows, 5, "d", 1)
    assert sample(rows, None) == sorted((row.query_id for row in rows), key=lambda query: draw_key(0, "d", query))


def test_row_without_a_score_or_an_answer_is_not_labelled():
    rows = rows_of([0.5, 0.6, 0.7])
    rows[1] = rows[1].model_copy(update={"scores": {METRIC: Score.absent("the judge failed")}})
    rows[2] = rows[2].model_copy(update={"answer": None})
    labelling = ordered(rows)
    assert [labelling.number(f"q{n}") for n in range(4)] == [0, None, None, None]
    assert (labelling.progress({}).rows, labelling.progress({}).unscored) == (1, 2)


def test_progress_has_the_corrected_mean_and_the_judges_agreement():
    rng = np.random.default_rng(4)
    truth = {f"q{n}": float(rng.random() < 0.8) for n in range(400)}
    labelling = ordered(rows_of([round(0.6 * value + 0.2, 2) for value in truth.values()]))
    none = labelling.progress({})
    assert (none.labelled, none.asked, none.agreement, none.mean.value) == (0, 400, None, None)
    said = labelled(labelling, truth, 61)
    said[next(iter(said))] = said_of(next(iter(said)), None)
    many = labelling.progress(said, 80)
    assert (many.labelled, many.skipped, many.asked, many.mean.corrected_by) == (60, 1, 80, 60)
    assert many.mean.interval.contains(np.mean(list(truth.values())))
    assert many.agreement.balanced_accuracy.value == 1.0


def test_what_is_exported_is_imported_again_and_what_does_not_fit_is_named():
    rows = rows_of([0.9, 0.1] * 20)
    labelling = ordered(rows)
    said = labelled(labelling, {row.query_id: 0.5 for row in rows}, 12)
    lines = [json.dumps(row) for row in exported(labelling, said, dict.fromkeys(said))]
    again = imported("\n".join(lines).encode(), labelling, "default", "somebody", "now")
    assert latest(again, "default", METRIC) == said
    bare = imported(b'\n{"query_id": "q3", "label": true}\n', labelling, "default", "Bo", "now")
    assert bare == [HumanLabel(system="default", query_id="q3", metric=METRIC, value=1, by="Bo", at="now")]
    for wrong in (
        b"[]",
        b'{"query_id": "q99", "label": 1}',
        b'{"query_id": "q1", "label": 2}',
        b'{"query_id": "q1", "label": "yes"}',
    ):
        with pytest.raises(BadData) as raised:
            imported(b'{"query_id": "q1", "label": 1}\n' + wrong, labelling, "default", "Bo", "now")
        assert [one.partition(":")[0] for one in raised.value.problems] == ["line 2"]


def test_labels_are_kept_whole_after_a_kill_and_the_last_one_of_a_row_counts(tmp_path):
    run = FolderRun(tmp_path)
    assert labels_of(run) == []
    add_labels(run, [said_of("q1", 1.0), said_of("q2", None)])
    with (tmp_path / "labels.jsonl").open("ab") as file:
        file.write(b'{"system": "default", "query')  # what a kill leaves
    assert len(labels_of(run)) == 2
    add_labels(run, [said_of("q1", 0.0, by="Bo")])
    assert [one.value for one in labels_of(run)] == [1.0, None, 0.0]
    assert latest(labels_of(run), "default", METRIC)["q1"].by == "Bo"
    assert (tmp_path / "labels.jsonl").stat().st_mode & 0o077 == 0
    (tmp_path / "labels.jsonl").write_text('{"system": 1}\n')
    with pytest.raises(BadData, match=r"labels.jsonl:1"):
        labels_of(run)
