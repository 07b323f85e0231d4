"""How figures, lists and foreign text are written."""

import pytest

from ragassay.core import formatting as render
from ragassay.core.statistics import Interval
from ragassay.reporting.markdown import markdown_text

NUMBERS = {
    render.number: {0.8512: "0.851", 0.01: "0.010", 0.009123: "0.00912", 6.94e-05: "6.94e-05", 0.0: "0.000",
                    2000: "2000.000", None: "none"},
    render.signed: {0.238: "+0.24", -0.004: "-0.004", 0.0: "+0.00"},
    render.quantity: {441.26: "441", 52.23: "52.2", 0.2981: "0.298", 0.000328: "0.000328", 6.94e-05: "0.0000694", -1043.7: "-1044"},
}  # fmt: skip


@pytest.mark.parametrize("write", NUMBERS)
def test_number_has_as_many_decimals_or_if_it_is_small_as_many_digits(write):
    assert {value: write(value) for value in NUMBERS[write]} == NUMBERS[write]


def test_numbers_that_differ_look_different_beside_each_other():
    assert render.number(0.70004, beside=0.7) == "0.70004"
    assert render.number(0.7, beside=0.7) == "0.700"
    assert render.number(0.71, beside=0.7) == "0.710"


def test_interval_has_two_ends_or_none_above_or_a_reason():
    both = Interval(low=0.112, high=0.358, level=0.95, method="t")
    assert render.interval(both, render.signed) == "+0.11..+0.36"
    assert render.interval(both, form="[{}, {}]") == "[0.112, 0.358]"
    assert render.interval(Interval(low=2.0, unbounded=True, level=0.95, method="fieller")) == "2.000..unbounded"
    assert render.interval(Interval.absent("there is 1 value", 0.95, "t")) == "no interval: there is 1 value"


def test_printable_shows_what_acts_on_a_terminal_and_leaves_other_text():
    acting = "a\x1b[2J\r\x7f\x9b\u202e\u2069\ud800"
    assert render.printable(acting) == "a\\u001b[2J\\u000d\\u007f\\u009b\\u202e\\u2069\\ud800"
    plain = "tab\tline\nZürich 東京 שלום 👩‍🔬\xa0"
    assert render.printable(plain) == plain


def test_markdown_and_xml_show_text_as_it_is():
    assert markdown_text("a|b\n<c> *d* \x07") == "a\\|b \\<c\\> \\*d\\* \\\\u0007"
    assert markdown_text("ask @you, a@b.test") == "ask @\u200byou, a@b.test"  # notifies nobody
    assert render.xml_text("a\x00\uffff<") == "a\\u0000\ufffd<"
