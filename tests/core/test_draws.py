"""Seeded draws: which rows a split, a judge's share and a set of labels get must never change between versions."""

from ragassay.core.draws import draw_key


def test_draw_key_orders_rows_as_it_always_did():
    assert "".join(sorted("abcdefgh", key=lambda name: draw_key(7, name))) == "acdefghb"
    assert "".join(sorted("abcdefgh", key=lambda name: draw_key(7, "dataset", name))) == "gfeachdb"
