"""The same rows at other prices: from the tokens that reports keep, never mixed silently with what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from ragassay.cost_documents import Money, Spending
from ragassay.errors import BadSettings
from ragassay.specification import Price
from ragassay.stats import RatioSums
from ragassay.validation import problems

_FORM = "write it as MODEL=IN,OUT in USD per million tokens: gpt-4o-mini=0.15,0.60"


def read_price(text: str, where: str) -> tuple[str, Price]:
    """The model and price of ``MODEL=IN,OUT``; raises BadSettings."""
    model, equals, numbers = text.rpartition("=")
    given, comma, made = numbers.partition(",")
    try:
        price = Price(input_per_1m=float(given), output_per_1m=float(made))
    except ValidationError as error:
        raise BadSettings(f"price {text[:100]!r}: {problems(error)[0]}", where=where, hint=_FORM) from None
    except ValueError:
        price = None
    if price is None or not (model and equals and comma):
        raise BadSettings(f"{text[:100]!r} is no price", where=where, hint=_FORM)
    return model, price


def price_of(model: str | None, prices: Mapping[str, Price]) -> Price | None:
    """The price of a model, by its name as given, else without its provider's prefix."""
    if model is None:
        return None
    return prices.get(model) or prices.get(model.partition("/")[2])


@dataclass(frozen=True)
class Priced:
    """The money of some rows of one model, at another price where one is given for the model or for the judge."""

    spending: Spending
    serving: Money
    judging: Money
    waste: Money
    known: RatioSums
    repriced: int
    judging_repriced: int

    @classmethod
    def of(cls, spending: Spending, judge: str, prices: Mapping[str, Price]) -> Priced:
        """The rows at these prices; what has none is as it was measured."""
        serving, known, repriced = spending.serving, spending.known, 0
        if price := price_of(spending.model, prices):
            repriced = spending.rows - serving.without_tokens
            serving = _at(serving, price, serving.without_tokens)
            known = spending.tokens.priced(price.input_per_1m / 1e6, price.output_per_1m / 1e6)
        judging, waste, of_judge = spending.judging, spending.waste, price_of(judge, prices)
        if of_judge:
            judging, waste = _at(judging, of_judge, 0), _at(waste, of_judge, 0)
        return cls(spending, serving, judging, waste, known, repriced, spending.rows if of_judge else 0)

    @property
    def has_price(self) -> bool:
        """Was a price given for the model of these rows?"""
        return self.known is not self.spending.known


def _at(money: Money, price: Price, unknown: int) -> Money:
    usd = (money.input_tokens * price.input_per_1m + money.output_tokens * price.output_per_1m) / 1e6
    return money.model_copy(update={"cost_usd": usd, "unknown": unknown})
