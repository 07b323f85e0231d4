"""Which rows people label, and what of their labels stands for all rows: by simulation, against what is true."""

import json

import numpy as np
import pytest

from ragassay.errors import BadData
from ragassay.models import Judgement, Result, Score, SentenceVerdict, Verdict
from ragassay.runs.labelling import FEWEST_TO_STOP, Labelling, exported, imported, latest
from ragassay.specification import JobSpec
from ragassay.store.labels import FolderLabels, HumanLabel

METRIC, ROWS = "faithfulness", 150


def said_of(query, value, metric=METRIC, by="Ada"):
    return HumanLabel(
        system="default", query_id=query, metric=metric, value=value, by=by, at="2026-11-23T00:00:00+00:00"
    )


def rows_of(scores, **fields):
    return [
        Result(query_id=f"q{n}", system="default", query="?", answer="a", scores={METRIC: Score(value=score)}, **fields)
        for n, score in enumerate(scores)
    ]


def ordered(rows, digest="d"):
    return Labelling(rows, METRIC, JobSpec(), digest)


def labelled(labelling, truth, count, pick="both"):
    """The first so many labels in the order in which the rows come."""
    said = {}
    while len(said) < count and (row := labelling.next(said, pick)):
        said[row.query_id] = said_of(row.query_id, truth[row.query_id])
    return said


def test_the_random_part_is_right_on_average_and_all_labels_are_with_their_weights():
    """People say no mostly where the judge is unsure, and those rows are chosen more often."""
    rng = np.random.default_rng(0)
    scores = np.concatenate([np.full(90, 0.95), rng.uniform(0.42, 0.58, 30), rng.uniform(0, 0.4, 30)]).round(2)
    truth = {f"q{n}": float(rng.random() < score - 0.4 * (90 <= n < 120)) for n, score in enumerate(scores)}
    rows, share = rows_of(map(float, scores)), np.mean(list(truth.values()))
    draws = 250
    held, random, weighted, naive = 0, [], [], []
    for n in range(draws):
        labelling = ordered(rows, str(n))
        said = labelled(labelling, truth, 45)
        mean, _ = labelling.mean(said, 0.05)
        assert mean.labels == 30
        held += mean.interval.contains(share)
        random.append(mean.mean)
        _, values, _, weights = zip(*labelling.labelled(said), strict=True)
        weighted.append(np.average(values, weights=weights))
        naive.append(np.mean(values))
    # 250 draws; at 95 % the standard error is 1.4 %; labels are a fifth of all rows, so that somewhat more is held
    assert held / draws >= 0.93
    assert abs(np.mean(random) - share) < 4 * np.std(random) / np.sqrt(draws)
    assert abs(np.mean(weighted) - share) < 0.01
    assert np.mean(naive) < share - 0.03  # as if the chosen rows were a random part


def test_every_row_is_as_likely_to_be_in_the_random_part_and_two_systems_get_the_same_queries():
    rows = rows_of(np.linspace(0, 1, 30).round(2).tolist())
    truth = {row.query_id: 1.0 for row in rows}
    drawn = np.zeros(30)
    for n in range(300):
        labelling = ordered(rows, str(n))
        for query in labelling.random_part(labelled(labelling, truth, 9)):
            drawn[int(query[1:])] += 1
    # 6 of 30 rows in each of 300 draws: 60 each; chi-square with 29 degrees of freedom, 0.1 % above 58
    assert drawn.sum() == 300 * 6
    assert ((drawn - 60) ** 2 / 60).sum() < 58
    other = [row.model_copy(update={"system": "other"}) for row in reversed(rows)]
    assert list(labelled(ordered(rows), truth, 5, "random")) == list(labelled(ordered(other), truth, 5, "random"))


def test_a_chosen_row_is_one_where_judges_are_divided_or_the_score_is_near_the_bound():
    def member(support):
        sentence = SentenceVerdict(id="A1", text="a", support=support, evidence=("C1.1",))
        return Judgement(verdict=Verdict(judge="m", sentences=(sentence,), has_contexts=True))

    rows = rows_of([1.0] * 30 + [0.52] * 30)
    divided = {"members": {"x": member("supported"), "y": member("not_found")}}
    rows += [row.model_copy(update={"query_id": f"d{n}", **divided}) for n, row in enumerate(rows_of([1.0] * 30))]
    other = {"reference_labels": {METRIC: 0.0}}
    rows += [row.model_copy(update={"query_id": f"o{n}", **other}) for n, row in enumerate(rows_of([1.0] * 30))]
    labelling = ordered(rows)
    said = labelled(labelling, {row.query_id: 1.0 for row in rows}, 12, "chosen")
    doubts = [labelling.doubt(query) for query in said]
    # of 30 sure ones, 30 near the bound and 60 divided: by 1, 2 and 4 times their number
    assert {doubt: doubts.count(doubt) for doubt in doubts} == {
        "the judges are divided": 9,
        "the score is near a bound": 2,
        "": 1,
    }
    assert labelling.random_part(said) == []


def test_it_says_when_enough_is_known_and_how_many_more_it_takes():
    rng = np.random.default_rng(4)
    truth = {f"q{n}": float(rng.random() < 0.8) for n in range(400)}
    rows = rows_of([round(0.6 * value + 0.2, 2) for value in truth.values()])
    labelling = ordered(rows)
    none = labelling.progress({}, 0.1)
    assert (none.labelled, none.agreement, none.mean.mean) == (0, None, None)
    assert none.more > FEWEST_TO_STOP
    few = labelling.progress(labelled(labelling, truth, 24, "random"), 0.1)
    assert few.mean.labels == 24
    assert few.more >= FEWEST_TO_STOP - 24
    many = labelling.progress(labelled(labelling, truth, 60, "random"), 0.1)
    assert (many.more, many.at_random, many.chosen) == (0, 60, 0)
    assert many.mean.interval.width <= 0.2
    assert many.agreement.balanced_accuracy == 1.0
    assert labelling.progress(labelled(labelling, truth, 60), 0.001).more is None


def test_a_skipped_row_is_no_label_and_does_not_end_the_random_part():
    rows = rows_of([0.9, 0.1] * 20)
    labelling = ordered(rows)
    said = labelled(labelling, {row.query_id: 1.0 for row in rows}, 12, "random")
    first = next(iter(said))
    said[first] = said_of(first, None)
    found = labelling.progress(said, 0.1)
    assert (found.at_random, found.skipped, len(labelling.random_part(said))) == (11, 1, 12)


def test_rows_without_a_score_or_an_answer_are_not_asked_about():
    rows = rows_of([0.5, 0.5, 0.5])
    rows[0] = rows[0].model_copy(update={"scores": {METRIC: Score.absent("no contexts")}})
    rows[1] = rows[1].model_copy(update={"answer": None})
    labelling = ordered(rows)
    assert list(labelled(labelling, {"q2": 1.0}, 9)) == ["q2"]
    assert labelling.progress({}, 0.1).unscored == 2


def test_what_is_exported_is_imported_again_and_what_does_not_fit_is_named():
    rows = rows_of([0.9, 0.1] * 20)
    labelling = ordered(rows)
    said = labelled(labelling, {row.query_id: 0.5 for row in rows}, 12)
    lines = [json.dumps(row) for row in exported(labelling, said, dict.fromkeys(said))]
    again = imported("\n".join(lines).encode(), labelling, "default", "somebody", "now")
    assert latest(again, "default", METRIC) == said
    bare = imported(b'\n{"query_id": "q3", "label": 1}\n', labelling, "default", "Bo", "now")
    assert bare == [HumanLabel(system="default", query_id="q3", metric=METRIC, value=1, by="Bo", at="now")]
    wrong = [
        b"{",
        b"[]",
        b'{"query_id": "q99", "label": 1}',
        b'{"query_id": "q1", "label": 2}',
        b'{"query_id": "q1", "system": "x", "label": 1}',
    ]
    with pytest.raises(BadData) as raised:
        imported(b"\n".join(wrong), labelling, "default", "Bo", "now")
    assert [one.partition(":")[0] for one in raised.value.problems] == [f"line {n}" for n in range(1, 6)]


def test_labels_are_kept_whole_after_a_kill_and_the_last_one_of_a_row_counts(tmp_path):
    kept = FolderLabels(tmp_path)
    assert kept.kept() == ()
    kept.add([said_of("q1", 1.0), said_of("q2", None)])
    with (tmp_path / "labels.jsonl").open("ab") as file:
        file.write(b'{"system": "default", "query')  # what a kill leaves
    assert len(kept.kept()) == 2
    kept.add([said_of("q1", 0.0, by="Bo")])
    assert [one.value for one in kept.kept()] == [1.0, None, 0.0]
    assert latest(kept.kept(), "default", METRIC)["q1"].by == "Bo"
    assert (tmp_path / "labels.jsonl").stat().st_mode & 0o077 == 0
    (tmp_path / "labels.jsonl").write_text('{"system": 1}\n')
    with pytest.raises(BadData, match=r"labels.jsonl:1"):
        kept.kept()
