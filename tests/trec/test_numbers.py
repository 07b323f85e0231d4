"""Numbers read a block at a time have the very bits that ``float`` gives."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragassay.trec.numbers import PAD, Text, numbers

FINITE = st.floats(allow_nan=False, allow_infinity=False)
DIGITS = st.text("0123456789", max_size=20)
TOKENS = st.one_of(
    FINITE.map(repr),
    FINITE.map("{:.4e}".format),
    st.floats(-1e4, 1e4).flatmap(lambda x: st.integers(0, 18).map(lambda places: f"{x:.{places}f}")),
    st.builds("{}{}.{}".format, st.sampled_from(["", "-", "+"]), DIGITS, DIGITS),
    st.integers(-(10**20), 10**20).map(str),
)


def spells_a_number(token):
    return any(c.isdigit() for c in token) and math.isfinite(float(token))


def read(tokens):
    room = bytearray(PAD) + " ".join(tokens).encode() + bytearray(PAD)
    ends = np.array(list(itertools.accumulate(len(token) + 1 for token in tokens))) + PAD - 1
    return numbers(Text.of(room), ends - [len(token) for token in tokens], ends)


@settings(max_examples=300, deadline=None)
@given(st.lists(TOKENS.filter(spells_a_number), min_size=1, max_size=40))
def test_every_spelling_has_the_bits_that_float_gives(tokens):
    values, bad = read(tokens)
    assert bad.tolist() == []
    assert values.tobytes() == np.array([float(token) for token in tokens]).tobytes()


@pytest.mark.parametrize(
    "token", [".", "-", "+.", "1.2.3", "nan", "inf", "1e999", "0x1", "1_0", "--1", "1e", "e5", "1,5"]
)
def test_what_is_no_finite_number_is_named_by_its_row(token):
    assert read(["1.5", token, "-2"])[1].tolist() == [1]
    assert read([token])[1].tolist() == [0]
