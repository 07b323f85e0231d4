"""Tables fit the terminal, and no word is cut."""

import pytest

from ragassay.reporting.text import table

COLUMNS = ("metric", "bm25-with-reranking", "hybrid", "95 %", "n")
ROWS = [("recall@10", "0.500", "0.700", "+0.10..+0.30", "30"), ("mrr", "0.400", "0.400", "-0.10..+0.10", "30")]


def test_a_table_that_fits_is_whole():
    assert table(COLUMNS, ROWS, within=80) == [
        "metric     bm25-with-reranking  hybrid  95 %          n",
        "recall@10  0.500                0.700   +0.10..+0.30  30",
        "mrr        0.400                0.400   -0.10..+0.10  30",
    ]


def test_columns_are_left_out_as_told_and_named():
    lines = table(COLUMNS, ROWS, least=("n", "95 %"), within=30)
    assert lines[2:] == [
        "mrr        0.400",
        "",
        "metric     hybrid",
        "recall@10  0.700",
        "mrr        0.400",
        "left out to fit 30 columns: 95 %, n",
    ]


@pytest.mark.parametrize("systems", [3, 12])
@pytest.mark.parametrize("width", [40, 80])
def test_many_systems_go_on_below_and_no_cell_is_lost(systems, width):
    names = [f"system-number-{n}" for n in range(systems)]
    rows = [(metric, *(f"0.{n:03} [0.10, 0.90] n=30" for n in range(systems))) for metric in ("mrr", "recall@10")]
    lines = table(("", *names), rows, within=width)
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert all(cell in text for row in rows for cell in row)
