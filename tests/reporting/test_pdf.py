"""The PDF: read back, and rendered."""

import pypdfium2
import pytest

from ragassay.reporting import EXPORTERS
from ragassay.reporting.comparison import EXPORTERS as OF_COMPARISONS
from reporting.exported import CJK, FORMULA, MARKUP, TYPST, a_comparison, a_report, squeezed, text_of


@pytest.fixture(scope="module")
def report():
    return a_report()


@pytest.fixture(scope="module")
def made(report):
    return b"".join(EXPORTERS.make(report, "pdf", ["query_id", "query", "answer"]))


def test_a_pdf_says_all_that_the_report_says(made, report):
    text = text_of(made)
    for said in (
        "Evaluation of france",
        "8 of 11 answers are accurate (73 %, 95 % interval 43 % to 90 %), 1 of unknown accuracy",
        "0.727 0.43 to 0.90, n 11, 1 missing",
        "Latency of a response, ms",
        "Why answers are not accurate",
        "latency p50 / p95 / p99 650 / 1145 / 1189 ms n=12 700 / 1195 / 1239 ms n=12",
        "Worst rows",
        "bm25: correctness (mean 0.667 to 0.750), accurate (mean 0.667 to 0.750): 1 of 12 without a score",
        "An answer is accurate where correctness >= 0.5",
        "Reciprocal rank of the first relevant document",
        report.run.id,
        "page 1 of 4",
    ):
        assert squeezed(said) in text


@pytest.mark.parametrize("hostile", [FORMULA, MARKUP, TYPST, CJK])
def test_text_of_rows_is_text_and_never_markup(made, hostile):
    assert text_of(made).count(squeezed(hostile)) >= 4


def test_its_pages_are_drawn_with_charts_in_colour(made):
    with pypdfium2.PdfDocument(made) as document:
        assert len(document) == 4
        pages = [document[n].render(scale=0.5).to_numpy().astype(int) for n in range(2)]
    for page in pages:
        blue, _, red = (page[..., colour] for colour in range(3))
        assert (blue > red + 40).sum() > 500  # bars of intervals, and of charts


def test_the_same_report_makes_the_same_bytes(report):
    once, again = (b"".join(EXPORTERS.make(report, "pdf")) for _ in range(2))
    assert once == again
    assert once[:5] == b"%PDF-"


def test_many_systems_go_below_each_other_and_a_comparison_has_its_verdict(report):
    many = a_report(*(f"system-{n}" for n in range(6)))
    text = text_of(b"".join(EXPORTERS.make(many, "pdf")))
    assert all(f"system-{n}" in text for n in range(6))
    comparison = a_comparison()
    text = text_of(b"".join(OF_COMPARISONS.make(comparison, "pdf")))
    for sentence in comparison.verdict:
        assert squeezed(sentence) in text
