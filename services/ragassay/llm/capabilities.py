"""What a provider takes of a request: the form of the reply, and the parameters. Learnt from its refusals.

The forms are a ladder: strict schema, JSON object, plain text. A call begins at the strictest form that LiteLLM's table has
for the model, or that was answered before. It goes one step down if the provider's refusal names the form, or if a paid
reply holds no object. Any other failure says nothing about the form. Once a form is answered, all calls use it.
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
FORMS = ("json_schema", "json_object", "prompt")
BOUNDS = ("minItems", "maxItems")  # keywords of a schema that not all take; the reply is checked all the same
PROBABILITIES = ("logprobs", "top_logprobs")
NO_OBJECT = Failure(BadInput("the reply holds no JSON object"))
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


@dataclass
class ReplyForm:
    """The form in which one model at one endpoint replies, as far as that is known."""

    level: int = 0  # of FORMS: the strictest that was answered, else the strictest that is left to try
    is_proven: bool = False


class Capabilities:
    """What one model at one endpoint takes, as far as its replies and refusals to one job have shown.

    ``form`` may be shared with other jobs; refused parameters are not: the next job may set them to what is taken.
    """

    def __init__(self, model: str, form: ReplyForm | None = None) -> None:
        self._model, self._form = model, form or ReplyForm()
        self._without: frozenset[str] = frozenset()
        self._logged: set[str] = set()

    def variant(self, first_form: str | None) -> Variant:
        """How a call is made first. ``first_form``: the strictest that may be asked for; None: the reply needs no form."""
        form = None if first_form is None else max(FORMS.index(first_form), self._form.level)
        return Variant(form, set(self._without))

    def downgrade(self, variant: Variant, failure: Failure) -> bool:
        """Change ``variant`` to what is asked next at once; False where the failure is not about what was asked for."""
        parameter = failure.parameter
        if parameter is not None and parameter not in variant.without:
            variant.without.update(next((each for each in (BOUNDS, PROBABILITIES) if parameter in each), (parameter,)))
            return True
        if variant.form is None or not (failure.format_refused or failure is NO_OBJECT):
            return False
        form = self._form
        if not form.is_proven:
            form.level = max(form.level, min(variant.form + 1, len(FORMS) - 1))
        is_lower = form.level > variant.form
        variant.form = max(form.level, variant.form)
        return is_lower

    def answered(self, variant: Variant, *, usable: bool) -> None:
        """The call was answered; ``usable``: in the form that was asked for."""
        self._without |= variant.without
        if not usable:
            return
        if variant.form is not None:
            self._form.level = min(self._form.level, variant.form) if self._form.is_proven else variant.form
            self._form.is_proven = True
        for what in variant.left_out:
            if what not in self._logged:
                self._logged.add(what)
                logger.warning("%s: the provider does not take %s; it is left out from now on", self._model, what)


def form_of(variant: Variant, messages: Messages, schema: Mapping[str, Any] | None, name: str) -> dict[str, Any]:
    """The part of a request that says what form the reply is to have, and the messages."""
    if schema is None or variant.form is None:
        return {"messages": list(messages)}
    if variant.without.intersection(BOUNDS):
        schema = without_bounds(schema)
    form = FORMS[variant.form]
    if form == "json_schema":
        described = {"name": name, "strict": True, "schema": schema}
        return {"messages": list(messages), "response_format": {"type": "json_schema", "json_schema": described}}
    instruction = f"Reply with one JSON object of this JSON schema and nothing else:\n{orjson.dumps(schema).decode()}"
    first, *others = messages
    instructed = {"messages": [{**first, "content": f"{first['content']}\n\n{instruction}"}, *others]}
    return instructed if form == "prompt" else {**instructed, "response_format": {"type": "json_object"}}


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
