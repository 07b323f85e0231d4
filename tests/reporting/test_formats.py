"""Every format: what is in it, typed, whole, and harmless."""

import csv
import io
import json
import os
from datetime import datetime
from html import escape
from pathlib import Path
from xml.etree import ElementTree

import openpyxl
import pyarrow.parquet
import pytest

from ragassay.core.errors import BadSettings, MissingExtra, TooLarge, UnknownName
from ragassay.reporting import EXPORTERS, exporter
from ragassay.reporting import xlsx as workbook
from ragassay.reporting.comparison import EXPORTERS as OF_COMPARISONS
from ragassay.reporting.rows import flat_rows
from reporting.exported import FORMULA, MARKUP, TYPST, a_comparison, a_report

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def report():
    return a_report()


@pytest.fixture(scope="module")
def comparison():
    return a_comparison()


def cells(sheet):
    header, *rows = sheet.iter_rows(values_only=True)
    return [dict(zip(header, row, strict=True)) for row in rows]


def test_a_workbook_has_figures_rows_and_provenance_each_cell_of_its_type(report, tmp_path):
    EXPORTERS.write(report, tmp_path / "r.xlsx")
    book = openpyxl.load_workbook(tmp_path / "r.xlsx")
    assert book.sheetnames == ["Summary", "Rows", "Provenance"]
    rows, plain = cells(book["Rows"]), list(flat_rows(report))
    assert len(rows) == 24
    for row, expected in zip(rows, plain, strict=True):
        assert row == expected | {"metadata.tags": '["a","=b"]'}
    assert (rows[0]["metadata.late"], rows[4]["correctness"], rows[1]["metadata.weight"]) == (False, None, 0.5)
    mean = report.systems["bm25"].metrics["mrr"]
    assert (
        cells(book["Summary"])[0] | {"system": "bm25", "figure": "mrr", "mean": mean.value, "n": 12}
        == cells(book["Summary"])[0]
    )
    told = {row["name"]: row["value"] for row in cells(book["Provenance"])}
    assert (told["created_at"], told["seed"], told["run"]) == (
        datetime.fromisoformat("2026-01-31T14:05:09"),
        7,
        report.run.id,
    )


def test_no_text_of_a_workbook_is_a_formula_or_a_link(report, tmp_path):
    EXPORTERS.write(report, tmp_path / "r.xlsx")
    cell = openpyxl.load_workbook(tmp_path / "r.xlsx")["Rows"].cell(2, 5)
    assert (cell.value, cell.data_type, cell.hyperlink) == (FORMULA, "s", None)


def test_a_workbook_cuts_a_long_text_with_a_word_and_refuses_more_rows_than_a_sheet_holds(
    report, tmp_path, monkeypatch
):
    rows = report.results["bm25"]
    long = rows[0].model_copy(update={"answer": "\N{GRINNING FACE}" * 20_000})
    one = {"systems": {"bm25": report.systems["bm25"]}, "results": {"bm25": (long, *rows[1:])}}
    EXPORTERS.write(report.model_copy(update=one), tmp_path / "r.xlsx")
    answer = cells(openpyxl.load_workbook(tmp_path / "r.xlsx")["Rows"])[0]["answer"]
    assert answer.endswith("(cut: a cell holds no more)")
    assert 32_000 < len(answer.encode("utf-16-le")) / 2 <= 32_767
    monkeypatch.setattr(workbook, "MOST_ROWS", 10)
    with pytest.raises(TooLarge, match="a sheet holds 10 rows"):
        EXPORTERS.write(report, tmp_path / "more.xlsx")
    assert not (tmp_path / "more.xlsx").exists()


def test_parquet_has_typed_columns_and_the_report_without_rows_beside(report, tmp_path):
    EXPORTERS.write(report, tmp_path / "r.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "r.parquet")
    assert table.to_pylist() == [row | {"metadata.tags": '["a","=b"]'} for row in flat_rows(report)]
    names = ("query", "mrr", "responded", "input_tokens", "metadata.tier", "metadata.weight", "metadata.late")
    types = [str(table.schema.field(name).type) for name in names]
    assert types == ["string", "double", "bool", "int64", "int64", "double", "bool"]
    about = json.loads(pyarrow.parquet.read_metadata(tmp_path / "r.parquet").metadata[b"ragassay"])
    assert about["systems"]["bm25"]["metrics"]["mrr"]["n"] == 12
    assert "results" not in about


def test_junit_has_a_case_for_each_row_with_what_is_wrong_and_the_figures_as_properties(report, tmp_path):
    EXPORTERS.write(report, tmp_path / "r.xml")
    suites = ElementTree.parse(tmp_path / "r.xml").getroot()
    assert [suite.attrib for suite in suites] == [
        {"name": "bm25", "tests": "12", "failures": "3", "errors": "2", "skipped": "0"},
        {"name": "hybrid", "tests": "12", "failures": "2", "errors": "2", "skipped": "0"},
    ]
    told = {one.get("name"): one.get("value") for one in suites[0].iter("property")}
    assert told["headline"] == "8 of 11 answers are accurate (73 %, 95 % interval 43 % to 90 %), 1 of unknown accuracy"
    assert (told["mrr"][:5], told["seed"]) == ("0.611", "7")
    cases = {case.get("name"): case for case in suites[0].iter("testcase")}
    failed = cases["q8: question 8"].find("failure")
    assert (failed.get("type"), "expected: the truth" in failed.text) == ("not_attributed", True)
    assert cases["q10: question 10"].find("error").get("message") == "the system timed out"
    assert f"q2: {MARKUP}" in cases


def test_fields_choose_and_order_the_columns_of_every_format_that_has_rows(report, tmp_path):
    fields = ["Accurate", "query_id"]
    for form in ("csv", "xlsx", "parquet", "json", "xml"):
        EXPORTERS.write(report, tmp_path / f"r.{form}", fields=fields)
    assert (tmp_path / "r.csv").read_text().splitlines()[:2] == ["accurate,query_id", "1.0,q1"]
    assert list(cells(openpyxl.load_workbook(tmp_path / "r.xlsx")["Rows"])[0].items()) == [
        ("accurate", 1),
        ("query_id", "q1"),
    ]
    assert pyarrow.parquet.read_table(tmp_path / "r.parquet").column_names == ["accurate", "query_id"]
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["rows"][4] == {"accurate": None, "query_id": "q5"}
    assert ("results" in document["systems"]["bm25"], document["kind"]) == (False, "rows")
    first = next(ElementTree.parse(tmp_path / "r.xml").iter("testcase"))
    assert [one.attrib for one in first.iter("property")] == [
        {"name": "accurate", "value": "1.0"},
        {"name": "query_id", "value": "q1"},
    ]


def test_a_field_that_is_none_is_refused_with_the_nearest_and_nothing_is_written(report, tmp_path):
    for form in ("csv", "xlsx", "parquet", "json", "xml"):
        with pytest.raises(UnknownName, match="unknown field 'acurate'; did you mean accurate"):
            EXPORTERS.write(report, tmp_path / f"r.{form}", fields=["query", "acurate"])
    with pytest.raises(BadSettings, match="mrr is named twice"):
        EXPORTERS.write(report, tmp_path / "r.csv", fields=["mrr", "MRR"])
    with pytest.raises(BadSettings, match="has no fields"):
        EXPORTERS.write(report, tmp_path / "r.summary.csv", fields=["mrr"])
    assert not list(tmp_path.iterdir())


def test_a_format_whose_package_is_not_installed_says_how_to_get_it_before_anything_runs(monkeypatch, tmp_path):
    monkeypatch.setattr(EXPORTERS, "modules", {"xlsx": "no_such_package"})
    with pytest.raises(MissingExtra, match=r"the format xlsx needs the extra 'xlsx'; .*pip install 'ragassay\[xlsx\]'"):
        EXPORTERS.for_file(tmp_path / "r.xlsx")


def test_a_comparison_is_written_in_the_same_formats(comparison, tmp_path):
    for form in OF_COMPARISONS.names():
        OF_COMPARISONS.write(comparison, tmp_path / f"c.{form}")
    book = openpyxl.load_workbook(tmp_path / "c.xlsx")
    assert book.sheetnames == ["Differences", "Systems"]
    rows = cells(book["Differences"])
    assert [(row["a"], row["b"], row["metric"], row["delta"]) for row in rows][2] == (
        "bm25",
        "hybrid",
        "accurate",
        1 / 11,
    )
    assert (tmp_path / "c.summary.csv").read_text().startswith("name,value\nverdict,")


def test_text_of_rows_is_text_in_every_format(report, tmp_path):
    fields = ["query_id", "query"]
    made = {form: EXPORTERS.whole(report, form, fields).decode() for form in ("csv", "html", "xml")}
    rows = list(csv.DictReader(io.StringIO(made["csv"])))
    assert [row["query"] for row in rows[:3]] == [f"'{FORMULA}", MARKUP, TYPST]
    assert escape(MARKUP) in made["html"].replace("&#34;", "&quot;")
    assert "<script" not in made["html"]
    assert f"q2: {MARKUP}" in [case.get("name") for case in ElementTree.fromstring(made["xml"]).iter("testcase")]
    markdown = EXPORTERS.make(report, "md", fields).decode()
    assert "$ @\u200ba \\*b\\*" in markdown  # notifies nobody
    assert r"| q2 | \<script\>alert(1)\</script\> \| \`x\` |" in markdown


@pytest.mark.parametrize(
    ("what", "form"),
    [
        ("report", "csv"),
        ("report", "summary.csv"),
        ("report", "xml"),
        ("comparison", "csv"),
        ("comparison", "summary.csv"),
    ],
)
def test_the_formats_of_text_are_as_they_were(what, form, report, comparison):
    exporters, document = (EXPORTERS, report) if what == "report" else (OF_COMPARISONS, comparison)
    made = exporters.make(document, form)
    made = (made if isinstance(made, bytes) else b"".join(made)).decode()
    golden = GOLDEN / f"{what}.{form}"
    if os.environ.get("GOLDEN") == "write":
        golden.write_text(made)
    assert made == golden.read_text()


def test_a_format_of_ones_own_takes_the_place_of_ours_and_needs_nothing_of_it(report, tmp_path, monkeypatch):
    monkeypatch.setattr(EXPORTERS, "_things", EXPORTERS._things.copy())
    monkeypatch.setattr(EXPORTERS, "modules", {"pdf": "no_such_package"})

    @exporter("pdf")
    def letter(report):
        return "our letterhead"

    EXPORTERS.write(report, tmp_path / "r.pdf")
    assert (tmp_path / "r.pdf").read_text() == "our letterhead"
    with pytest.raises(BadSettings, match="has no fields"):
        EXPORTERS.write(report, tmp_path / "r.pdf", fields=["mrr"])
