"""CSV that every reader takes apart in the same way, and that no spreadsheet runs."""

import csv
import io

import pytest

from ragassay.reporting.csv import cell, line


@pytest.mark.parametrize("text", ["fine\r=1+1", "a\nb", 'q"', "a,b", "\r"])
def test_line_quotes_every_line_end(text):
    [[read, last]] = csv.reader(io.StringIO(line([text, "z"]).decode(), newline=""))
    assert (read.removeprefix("'"), last) == (text, "z")


@pytest.mark.parametrize("text", ["=1+1", "＝1+1", "+x", "-x", "@x", "\t=1", "\r=1", "\n=1", "＠x"])
def test_cell_guards_formulas(text):
    assert cell(text) == f"'{text}"


@pytest.mark.parametrize(("value", "text"), [(-1.5, "-1.5"), ("-1e-5", "-1e-5"), ("a=b", "a=b"), (None, "")])
def test_cell_leaves_numbers_and_text(value, text):
    assert cell(value) == text
