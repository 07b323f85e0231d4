"""pydantic's errors in our sentences, whoever prints them."""

from typing import Annotated, Literal

import pytest
from pydantic import Discriminator, Field, Tag, ValidationError

from ragassay.core.models import FrozenModel
from ragassay.core.validation import problems, shown


class Inner(FrozenModel):
    size: int = 1
    mode: Literal["fast", "slow"] = "fast"


def _some(given):
    return "(none)" if given is None else "(some)"


class Box(FrozenModel):
    kind: Literal["box"]
    height: int = 1
    contents: Annotated[Annotated[Inner, Tag("(some)")] | Annotated[None, Tag("(none)")], Discriminator(_some)] = None


class Ball(FrozenModel):
    kind: Literal["ball"]
    radius: int = 1


_Box, _Ball = Annotated[Box, Tag("(box)")], Annotated[Ball, Tag("(ball)")]


class Outer(FrozenModel):
    things: dict[str, Annotated[_Box | _Ball, Discriminator(lambda given: f"({given['kind']})")]] = {}
    name: str | float = ""
    parts: Annotated[tuple[Inner, ...], Field(min_length=1)] = ()
    by_name: dict[str, Inner] = {}
    share: Annotated[float, Field(ge=0, lt=1)] = 0
    cap: Annotated[float, Field(gt=0)] | Literal["none"] | None = None


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"nmae": ""}, "unknown key nmae; did you mean name?"),
        ({"parts": [{}, {"sise": 1}]}, "unknown key parts[1].sise; did you mean size?"),
        ({"by_name": {"a": {"moed": 1}}}, "unknown key by_name.a.moed; did you mean mode?"),
        ({"things": {"a": {"kind": "box", "x": 1}}}, "unknown key things.a.x; known: contents, height, kind"),
        ({"things": {"a": {"kind": "ball", "x": 1}}}, "unknown key things.a.x; known: kind, radius"),
        (
            {"things": {"a": {"kind": "box", "contents": {"x": 1}}}},
            "unknown key things.a.contents.x; known: mode, size",
        ),
        ({"str": 1}, "unknown key str; known: by_name, cap, name, parts, share, things"),
        ({"(x)": 1}, "unknown key (x); known: by_name, cap, name, parts, share, things"),
        ({"by_name": {"str": {"moed": 1}}}, "unknown key by_name.str.moed; did you mean mode?"),
        ({"name": [1]}, "name: should be text, is a list of 1"),
        ({"by_name": {"a b": {"size": "x"}}}, "by_name['a b'].size: should be a whole number, is 'x'"),
        ({"parts": []}, "parts: is empty"),
        ({"cap": "x"}, "cap: should be a number, is 'x'"),
        ({"parts": [{"mode": "Fast"}]}, "parts[0].mode: should be 'fast' or 'slow', is 'Fast'"),
        ({"share": 1}, "share: should be less than 1, is the number 1"),
        ({"share": float("nan")}, "share: should be a finite number, is NaN"),
    ],
)
def test_an_error_says_where_what_and_which_key_was_meant(value, sentence):
    with pytest.raises(ValidationError) as refused:
        Outer.model_validate(value)
    assert [str(problem) for problem in problems(refused.value, Outer)] == [sentence]


def test_a_value_is_shown_short_and_on_one_line():
    assert shown("x" * 100) == f"'{'x' * 35}...'"
    assert shown("a\nb\x1b\ud800") == r"'a\nb\x1b\ud800'"
