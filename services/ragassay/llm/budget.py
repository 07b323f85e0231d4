"""The account of a hard budget: every request reserves the most that it may take, and ends with what it took."""

from __future__ import annotations

import asyncio

from ragassay.core.errors import BadSettings, BudgetReached
from ragassay.core.eval_config import Budget
from ragassay.core.models import Usage

RAISE_IT = "what is finished is kept; go on with a higher one"


class BudgetAccount:
    """A budget that the requests of one or several runs share. ``spent``: what they have spent before."""

    def __init__(self, budget: Budget = Budget(), spent: Usage = Usage()) -> None:  # noqa: B008 - frozen
        self._budget, self.spent = budget, spent
        self._reserved: list[Usage] = []
        self._changed = asyncio.Condition()

    async def reserve(self, max_usage: Usage) -> None:
        """Reserve ``max_usage``; waits for requests in flight if these may leave enough.

        Raises BudgetReached, and BadSettings if a cap on USD meets a model without a price.
        """
        if self._budget.usd is not None and max_usage.cost_usd is None:
            raise of_unknown_price()
        async with self._changed:
            while over := self._budget.over(Usage.total([self.spent, *self._reserved]), max_usage):
                if not self._reserved:
                    raise BudgetReached(over, hint=RAISE_IT)
                await self._changed.wait()
            self._reserved.append(max_usage)

    async def settle(self, max_usage: Usage, spent: Usage) -> None:
        """What a request spent takes the place of what it had reserved."""
        async with self._changed:
            self._reserved.remove(max_usage)
            self.spent += spent
            self._changed.notify_all()


def of_unknown_price(model: str = "MODEL") -> BadSettings:
    """The error if USD are capped and a call's cost can't be known."""
    price = f'prices: {{"{model}": {{input_per_1m: 0.15, output_per_1m: 0.60}}}}'
    return BadSettings(
        "a budget in USD can't be kept: the model has no price",
        hint=f"give it one in the configuration, {price}, or set a budget in tokens, budget.tokens",
    )
