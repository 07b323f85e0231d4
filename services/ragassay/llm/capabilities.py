"""What a provider takes of a request: the form of the reply, and the parameters. Learnt from its refusals.

The forms are a ladder. A call begins at the strictest form that LiteLLM's table has for the model, or that was answered
before. It goes one step down if the provider's refusal names the form, or if a paid reply holds no object. Any other
failure says nothing about the form. Once a form is answered, all calls use it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from ragassay.core.errors import BadInput
from ragassay.llm.errors import Failure

logger = logging.getLogger("ragassay.llm")
Messages = Sequence[Mapping[str, str]]
FORMS = ("json_schema", "json_object with schema", "json_object", "prompt")
BOUNDS = ("minItems", "maxItems")  # keywords of a schema that not all take; the reply is checked all the same
PROBABILITIES = ("logprobs", "top_logprobs")
NO_OBJECT = Failure(BadInput("the reply holds no JSON object"))
_USELESS_REPLIES = 4  # calls that were paid in every form and gave no object; later ones are not made again for that
_OBJECT = re.compile(r'\{\s*["}]')


@dataclass
class Variant:
    """How one call is made: in which of FORMS, and without which parameters."""

    form: int | None  # None: the reply needs no form
    without: set[str]

    @property
    def left_out(self) -> tuple[str, ...]:
        """What was asked of the provider and is refused by it, as a report has it."""
        instead = [f"json_schema ({FORMS[self.form]} instead)"] if self.form else []
        return (*sorted(self.without), *instead)


class Capabilities:
    """What one model at one endpoint takes, as far as its replies and refusals have shown."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._answered: int | None = None  # the strictest form that was
        self._strictest = 0  # the strictest form that was not refused
        self._without: frozenset[str] = frozenset()
        self._useless = 0
        self._logged: set[str] = set()

    def variant(self, first_form: str | None) -> Variant:
        """How a call is made first. ``first_form``: the strictest that may be asked for; None: the reply needs no form."""
        if first_form is None:
            return Variant(None, set(self._without))
        form = max(FORMS.index(first_form), self._strictest) if self._answered is None else self._answered
        return Variant(form, set(self._without))

    def downgrade(self, variant: Variant, failure: Failure) -> bool:
        """Change ``variant`` to what is asked next at once; False where the failure is not about what was asked for."""
        return self._without_parameter(variant, failure) or self._one_form_down(variant, failure)

    def answered(self, variant: Variant, *, usable: bool) -> None:
        """The call was answered; ``usable``: in the form that was asked for."""
        self._without |= variant.without
        if not usable:
            self._useless += 1
            return
        if variant.form is not None:
            self._answered = variant.form if self._answered is None else min(self._answered, variant.form)
        for what in variant.left_out:
            if what not in self._logged:
                self._logged.add(what)
                logger.warning("%s: the provider does not take %s; it is left out from now on", self._model, what)

    @staticmethod
    def _without_parameter(variant: Variant, failure: Failure) -> bool:
        if failure.parameter is None or failure.parameter in variant.without:
            return False
        together = next((each for each in (BOUNDS, PROBABILITIES) if failure.parameter in each), (failure.parameter,))
        variant.without.update(together)
        return True

    def _one_form_down(self, variant: Variant, failure: Failure) -> bool:
        if variant.form is None or not (failure.format_refused or failure is NO_OBJECT):
            return False
        if self._answered is not None:
            lower = self._answered
        elif failure is NO_OBJECT and self._useless >= _USELESS_REPLIES:
            return False
        else:
            lower = min(variant.form + 1, len(FORMS) - 1)
            if failure.format_refused:
                self._strictest = lower = max(self._strictest, lower)
        is_changed, variant.form = variant.form != lower, lower
        return is_changed


def form_of(variant: Variant, messages: Messages, schema: Mapping[str, Any] | None, name: str) -> dict[str, Any]:
    """The part of a request that says what form the reply is to have, and the messages."""
    plain = {"messages": list(messages)}
    if schema is None or variant.form is None:
        return plain
    form = FORMS[variant.form]
    if variant.without.intersection(BOUNDS):
        schema = without_bounds(schema)
    if form == "json_schema":
        described = {"name": name, "strict": True, "schema": schema}
        return {**plain, "response_format": {"type": "json_schema", "json_schema": described}}
    instruction = f"Reply with one JSON object of this JSON schema and nothing else:\n{orjson.dumps(schema).decode()}"
    first, *others = messages
    instructed = {"messages": [{**first, "content": f"{first['content']}\n\n{instruction}"}, *others]}
    if form == "prompt":
        return instructed
    constrained = {"schema": schema} if form == "json_object with schema" else {}
    return {**instructed, "response_format": {"type": "json_object", **constrained}}


def without_bounds(schema: Any) -> Any:
    """The schema without the numbers of entries that its lists must have."""
    if isinstance(schema, list):
        return [without_bounds(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {key: without_bounds(value) for key, value in schema.items() if key not in BOUNDS}


def is_usable(text: str, finish_reason: str) -> bool:
    """Does the reply hold an object? One that was cut off or withheld says nothing about its form, so it passes."""
    return finish_reason != "stop" or _OBJECT.search(text) is not None
