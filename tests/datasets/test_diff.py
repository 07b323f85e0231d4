"""What changed between two versions of a dataset."""

from ragassay.core.models import Sample
from ragassay.datasets.diff import ChangedRow, NamedRow, difference


def differ(a, b):
    one, other = ([Sample(**row) for row in rows] for rows in (a, b))
    return difference(one, other, names=("a", "b"))


def test_difference_tells_rows_apart_by_their_id_and_changes_by_their_fields():
    kept = {"query_id": "1", "query": "Kept?"}
    found = differ(
        [
            kept,
            {"query_id": "2", "query": "Gone?"},
            {"query_id": "3", "query": "How long?", "metadata": {"by": "x", "n": 1}},
        ],
        [
            {"query_id": "4", "query": "New?"},
            {"query_id": "3", "query": "How long is it?", "metadata": {"by": "y", "n": 1}, "response": {"answer": "a"}},
            kept,
        ],
    )
    assert found.unchanged == 1
    assert found.added == (NamedRow(query_id="4", query="New?"),)
    assert found.removed == (NamedRow(query_id="2", query="Gone?"),)
    fields = ("query", "metadata.by", "response.answer")
    assert found.changed == (ChangedRow(query_id="3", query="How long is it?", fields=fields),)


def test_difference_of_rows_with_numbers_for_ids_goes_by_their_question():
    found = differ(
        [{"query_id": "q_0", "query": "A?"}, {"query_id": "q_1", "query": "B?"}, {"query_id": "q_2", "query": "B?"}],
        [
            {"query_id": "q_0", "query": "b?", "category": "x"},
            {"query_id": "q_1", "query": "New?"},
            {"query_id": "q_2", "query": "A?"},
            {"query_id": "q_3", "query": "B?"},
        ],
    )
    assert found.unchanged == 2
    assert [row.query for row in found.added] == ["New?"]
    assert found.removed == ()
    assert [(row.query_id, row.fields) for row in found.changed] == [("q_0", ("query", "category"))]
