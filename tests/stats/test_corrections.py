import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from ragassay.core.errors import BadSettings
from ragassay.stats.tests import benjamini_hochberg, bonferroni, correct, holm

ps = st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=30)
METHODS = [(bonferroni, "bonferroni"), (holm, "holm"), (benjamini_hochberg, "fdr_bh")]


@pytest.mark.parametrize(("ours", "theirs"), METHODS)
@settings(max_examples=8, deadline=None)  # theirs takes 0.1 s for Holm
@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_adjusted_p_values_are_those_of_statsmodels(ours, theirs, values):
    assert ours(values) == pytest.approx(multipletests(values, method=theirs)[1], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("ours", [method for method, _ in METHODS])
@given(values=ps)
def test_an_undefined_p_keeps_its_place_and_does_not_count(ours, values):
    known = iter(ours([p for p in values if p is not None]))
    assert ours(values) == [None if p is None else next(known) for p in values]


@given(values=ps)
def test_no_correction_lowers_a_p_and_each_is_at_most_as_strict_as_the_one_before(values):
    for raw, fdr, step, blunt in zip(values, benjamini_hochberg(values), holm(values), bonferroni(values), strict=True):
        if raw is not None:
            assert raw <= fdr + 1e-15
            assert fdr <= step + 1e-15
            assert step <= blunt + 1e-15
            assert blunt <= 1


def test_a_correction_is_chosen_by_name():
    assert correct([0.01, None, 0.04], "holm") == pytest.approx([0.02, None, 0.04])
    assert correct([0.01, None], "none") == [0.01, None]
    with pytest.raises(BadSettings, match=r"unknown correction 'sidak'; use one of none, bonferroni, holm"):
        correct([0.01], "sidak")
