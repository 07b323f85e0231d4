"""A document says the same in the same order, whoever renders it; no text of it is markup, and nothing is loaded."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pypdfium2
import pytest

from browsing import Elements, plain
from gate_checks import check_gates
from handmade_reports import stored
from ragassay.analysis.costs import cost_query, cost_report
from ragassay.analysis.trends import trend
from ragassay.core.models import (
    CriterionVerdict,
    FactVerdict,
    Rating,
    Response,
    Result,
    Sample,
    Score,
    SentenceVerdict,
    Verdict,
)
from ragassay.datasets.dataset import Dataset
from ragassay.datasets.describe import describe
from ragassay.evaluation.labelling import HumanLabel
from ragassay.reporting import datasets
from ragassay.reporting.charts import Chart, Drawn, bars
from ragassay.reporting.comparison import of_comparison
from ragassay.reporting.costs import of_costs
from ragassay.reporting.document import Card, Cards, Document, Passage, Passages, Sentences, Table
from ragassay.reporting.gates import of_gates
from ragassay.reporting.markdown import to_markdown
from ragassay.reporting.page import as_html, to_html
from ragassay.reporting.pdf import to_pdf
from ragassay.reporting.report import of_report
from ragassay.reporting.row import of_row
from ragassay.reporting.text import as_text
from ragassay.reporting.trends import of_trend
from reporting.exported import CJK, FORMULA, MARKUP, TYPST, a_comparison, a_report, squeezed, text_of


def _dataset():
    rows = [Sample(query_id=f"q{n}", query=MARKUP, category=FORMULA) for n in range(3)]
    return Document(
        "handbook", about="3 rows", blocks=tuple(datasets.tables(describe(Dataset("handbook", Path("x"), rows, ""))))
    )


def _hostile():
    """Texts that would do harm if they could, in every place of a document."""
    texts = (FORMULA, MARKUP, TYPST, CJK)
    pairs = tuple(zip(texts, reversed(texts), strict=True))
    read = Passages(
        MARKUP, (Passage(*texts[:3], evidence=texts, why=MARKUP), Passage(CJK, tone="bad", said=TYPST)), CJK
    )
    blocks = (
        Table(FORMULA, texts, (texts,), MARKUP),
        Cards(TYPST, (Card(CJK, MARKUP, pairs),)),
        Sentences(CJK, texts),
        read,
        replace(read, is_running=True),
    )
    return Document(MARKUP, TYPST, answer=texts, headlines=pairs, notes=texts, blocks=blocks)


def _row():
    """A row with every part that one can have."""
    context = f"{MARKUP} Paris is the capital."
    response = Response(answer=MARKUP, contexts=(context,), retrieved_doc_ids=("d1",), cost_usd=0.001)
    asked = {"query_id": "q1", "query": TYPST, "history": ({"role": "user", "content": CJK},)}
    sample = Sample(**asked, ground_truth_answer="Paris.", relevance_scores={"d1": 2}, response=response)
    sentence = SentenceVerdict(
        id="A1", text=MARKUP, support="not_found", truth="conflicts", evidence=("H1",), why=FORMULA
    )
    fact = FactVerdict(id="G1", text="Paris.", covered="partly", evidence=("C1.1", "C9.9"), why=CJK)
    met = CriterionVerdict(id="K1", name="polite", step="full", why=TYPST)
    verdict = Verdict(
        judge="t", sentences=(sentence,), facts=(fact,), criteria=(met,), relevance="full", suspicious=("C1.1",)
    )
    other = Rating(
        rater="second", verdict=verdict.model_copy(update={"facts": (fact.model_copy(update={"covered": "no"}),)})
    )
    result = Result(
        **asked,
        system="bm25",
        answer=MARKUP,
        ground_truth_answer=("Paris.",),
        conversation_id="c1",
        category=FORMULA,
        retrieved_doc_ids=("d1",),
        cost_usd=0.001,
        scores={
            "accurate": Score(value=0.0, reason=CJK),
            **dict.fromkeys(("mrr", "map"), Score(reason=TYPST, missing="failed")),
        },
        verdict=verdict,
        ratings=(
            Rating(rater="first", verdict=verdict),
            other,
            Rating(rater="third", role="reference", reason=FORMULA),
        ),
    )
    label = HumanLabel(system="bm25", query_id="q1", metric="accurate", value=None, by=CJK, at="2026-01-01")
    return of_row(result, sample, every=[("bm25", result, ""), ("hybrid", result, "")], labels=[label])


KINDS = {
    "report": lambda: of_report(a_report()),
    "comparison": lambda: of_comparison(a_comparison()),
    "gates": lambda: of_gates(check_gates(a_report(), {"mrr": ">= 0.5"}, {"accurate": ">= 0.9"})),
    "costs": lambda: of_costs(cost_report(stored([a_report()]), cost_query(), datetime(2026, 2, 1, tzinfo=UTC))),
    "trend": lambda: of_trend(trend(stored([a_report(), a_report()]), "accurate")),
    "dataset": _dataset,
    "row": _row,
    "hostile": _hostile,
}


@pytest.fixture(params=KINDS)
def document(request):
    return KINDS[request.param]()


def said(document, *, whole):
    """What a document says, in its order."""
    yield from filter(None, (document.about, *document.answer))
    for name, sentence in document.headlines:
        yield from (name, sentence)
    yield from document.notes
    for block in (*document.blocks, *(document.details if whole else ())):
        if isinstance(block, Chart):
            continue
        yield block.title
        if isinstance(block, Table):
            yield from (part for cell in block.columns for part in cell.split() if block.rows)
            yield from (part for row in block.texts() for cell in row for part in cell.split())
            yield block.note
        elif isinstance(block, Passages):
            for passage in block.passages:
                yield from (passage.label, passage.text, passage.said, passage.why, *map(str, passage.evidence))
            yield block.note
        elif isinstance(block, Cards):
            for card in block.cards:
                yield from (card.about, card.title) if not whole else ()
                yield from (text for _, text in card.texts)
        else:
            yield from block.lines


def test_document_says_the_same_as_text_markdown_html_and_pdf(document, monkeypatch):
    monkeypatch.setenv("COLUMNS", "10000")
    markdown = to_markdown(document, "kind").decode().replace("\\", "").replace("\u200b", "")
    page = plain(re.sub("<style>.*?</style>", "", to_html(document).decode(), flags=re.DOTALL))
    forms = {"text": (as_text(document), False), "markdown": (markdown, True), "page": (page, True)}
    forms |= {"pdf": (text_of(to_pdf(document)), True), "notebook": (plain(as_html(document)), False)}
    for form, (text, whole) in forms.items():
        text = squeezed(text.replace("\u200b", ""))
        missing = [one for one in said(document, whole=whole) if squeezed(one) not in text]
        assert not missing, form
        titles = [*document.answer[:1], *(block.title for block in document.blocks if not isinstance(block, Chart))]
        places = [text.index(squeezed(title)) for title in titles]
        assert places[:2] == sorted(places[:2]), form
    assert all(line.isprintable() for line in as_text(document).split("\n"))


def test_page_loads_and_runs_nothing(document):
    active = ("src", "href", "srcset", "data", "style")
    for tag, attributes in Elements(to_html(document).decode()).found:
        assert tag != "script"
        assert not any(name in active or name.startswith("on") for name in attributes), (tag, attributes)


def test_pdf_has_charts_in_colour_and_the_same_bytes_again():
    pdf = to_pdf(of_report(a_report()))
    with pypdfium2.PdfDocument(pdf) as document:
        blue, _, red = (document[0].render(scale=0.5).to_numpy().astype(int)[..., colour] for colour in range(3))
    assert (blue > red + 40).sum() > 200  # bars of intervals, and of charts
    assert to_pdf(of_report(a_report())) == pdf


def test_chart_in_a_pdf_has_a_place_for_characters_that_xml_forbids():
    chart = bars("Answers", "n", {"a\x01b": Drawn(0, 3.0, "three")})
    assert "three" in text_of(to_pdf(Document("Charts", blocks=(chart,))))


def test_pdf_of_six_systems_puts_some_below_the_others():
    names = [f"system-{n}" for n in range(6)]
    text = text_of(to_pdf(of_report(a_report(*names))))
    assert all(name in text for name in names)
