"""How figures, lists and foreign text are written."""

import pytest

from ragassay.core import formatting as render
from ragassay.core.errors import BadSettings, UnknownName
from ragassay.core.statistics import Interval
from ragassay.reporting.exporters import Exporters
from ragassay.reporting.markdown import markdown_text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.8512, 3, "0.851"),
        (0.01, 3, "0.010"),
        (0.009123, 3, "0.00912"),
        (-0.0057, 2, "-0.0057"),
        (6.94e-05, 3, "6.94e-05"),
        (0.0, 3, "0.000"),
        (2000, 3, "2000.000"),
        (None, 3, "none"),
    ],
)
def test_a_number_has_as_many_decimals_or_where_it_is_small_as_many_digits(value, digits, text):
    assert render.number(value, digits) == text


def test_numbers_that_differ_look_different_beside_each_other():
    assert render.number(0.70004, beside=0.7) == "0.70004"
    assert render.number(0.7, beside=0.7) == "0.700"
    assert render.number(0.71, beside=0.7) == "0.710"


@pytest.mark.parametrize(("value", "text"), [(0.238, "+0.24"), (-0.004, "-0.004"), (0.0, "+0.00")])
def test_a_difference_has_its_sign(value, text):
    assert render.signed(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(441.26, "441"), (52.23, "52.2"), (0.2981, "0.298"), (0.000328, "0.000328"), (-1043.7, "-1044")]
)
def test_a_quantity_has_three_digits(value, text):
    assert render.quantity(value) == text


def test_an_interval_has_two_ends_or_none_above_or_a_reason():
    both = Interval(low=0.112, high=0.358, level=0.95, method="t")
    assert render.interval(both, render.signed) == "+0.11..+0.36"
    assert render.interval(both, form="[{}, {}]") == "[0.112, 0.358]"
    assert render.interval(Interval(low=2.0, unbounded=True, level=0.95, method="fieller")) == "2.000..unbounded"
    assert render.interval(Interval.absent("there is 1 value", 0.95, "t")) == "no interval: there is 1 value"


def test_a_long_list_is_cut_and_the_rest_counted():
    assert render.listed("a") == "a"
    assert render.listed("ab") == "a and b"
    assert render.listed("abcde") == "a, b, c, d and e"
    assert render.listed("abcdef") == "a, b, c, d and 2 more"


def test_what_acts_on_a_terminal_is_shown_and_other_text_stays():
    assert render.printable("a\x1b[2J\r\x7f\x9b\u202e\u2069\ud800") == (
        "a\\u001b[2J\\u000d\\u007f\\u009b\\u202e\\u2069\\ud800"
    )
    plain = "tab\tline\nZürich 東京 שלום 👩‍🔬\xa0"
    assert render.printable(plain) == plain


def test_markdown_shows_text_as_it_is():
    assert markdown_text("a|b\n<c> *d* \x07") == "a\\|b \\<c\\> \\*d\\* \\\\u0007"


def test_xml_gets_no_character_that_it_forbids():
    assert render.xml_text("a\x00\uffff<") == "a\\u0000\ufffd<"


def test_an_output_names_a_format_that_is_known_in_a_folder_that_can_be(tmp_path):
    writers = Exporters("exporter")
    writers.add("json", str)
    assert writers.for_file(tmp_path / "r.JSON") is str
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "file").touch()
    for path, error, says in (
        (tmp_path / "r", BadSettings, "r' has no extension; one of: json"),
        (tmp_path / "r.docx", UnknownName, "r.docx': unknown exporter 'docx'"),
        (tmp_path / "folder.json", BadSettings, "folder.json' is a folder; name a file"),
        (tmp_path / "file" / "new" / "r.json", BadSettings, "file' is no folder; name another place"),
    ):
        with pytest.raises(error) as raised:
            writers.for_file(path)
        assert says in str(raised.value)
