"""What a provider takes of what it is asked, learnt from its refusals: the form of the reply, and the parameters.

A form that is refused by name is not tried again. One that fails without saying why (400, 415, 422, 500, 501, or a reply
without an object) is doubted: the same call is made at once in the next form. Where that is answered, the form that failed
gets a second chance with a later call, since it may have been a passing failure; where no form is answered it was not
the form, and the failure counts as any other. A call that comes to the last form in vain goes back once to what was not
refused by name; where nothing is left, later calls begin anew, since a passing failure may have named a form. One call
searches at a time; those that fail meanwhile wait for what it finds. What the provider has answered once is never doubted
again. 429, 502, 503, 504, timeouts and lost connections say nothing about a form: they are the outage that they look like,
and a search that one of them breaks off goes on with the next call.

All of it is bounded: until one of the first sixteen calls that want an object has ended, the others wait for it, five
seconds at the most (sixteen: a refusal costs nothing, and fewer would leave slots empty in the first round of a run);
forms are searched four times in a run at the most, half a minute after a search in which every form failed without a word.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from ragassay.llm.failures import Failure
from ragassay.llm.text import without_surrogates

logger = logging.getLogger("ragassay.llm")
Messages = Sequence[Mapping[str, str]]
FORMS = ("json_schema", "json_object with schema", "json_object", "tool", "prompt")
_SEARCHES, _SEARCH_AGAIN_S = 4, 30.0
_FIRST_CALLS, _FIRST_S, _LOOK_AGAIN_S = 16, 5.0, 0.02
BOUNDS = ("minItems", "maxItems")  # keywords of a schema that not all take; the reply is checked all the same
PROBABILITIES = ("logprobs", "top_logprobs")
_OBJECT = re.compile(r'\{\s*["}]')


@dataclass
class CallTerms:
    """How one call is made: in which form, without which parameters. ``doubted``: forms that failed for this call.

    ``went_back``: all others were refused, so that it is at what was doubted.
    """

    form: int | None  # None: the reply needs no form
    without: set[str]
    doubted: list[int] = field(default_factory=list)
    went_back: bool = False

    @property
    def left_out(self) -> tuple[str, ...]:
        """What was asked of the provider and is refused by it, as a report has it."""
        instead = [f"json_schema ({FORMS[self.form]} instead)"] if self.form else []
        return (*sorted(self.without), *instead)


class Negotiation:
    """The terms of all calls to one model at one endpoint."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._form, self._proven = 0, False
        self._refused: set[int] = set()  # forms, by name
        self._without: frozenset[str] = frozenset()
        self._second_chance: int | None = None
        self._searches, self._search_from, self._anew_from = _SEARCHES, 0.0, 0.0
        self._search: CallTerms | None = None  # of the call that searches now
        self._began = 0
        self._first_began = 0.0
        self._first_ended = False
        self._told: set[str] = set()

    @property
    def form(self) -> str:
        """How the reply's form is asked for: ``json_schema``, or what the provider took instead."""
        return FORMS[self._form]

    async def terms(self, *, structured: bool) -> CallTerms:
        """How a call is to be made now; one that wants an object waits for the first such calls."""
        if not structured:
            return CallTerms(None, set(self._without))
        self._began += 1
        if self._began == 1:
            self._first_began = time.monotonic()
        elif self._began > _FIRST_CALLS:
            while not self._first_ended and time.monotonic() < self._first_began + _FIRST_S:
                await asyncio.sleep(_LOOK_AGAIN_S)
        if self._search is not None:  # it may wait long for its reply: the form that it is at is not refused at once
            return CallTerms(self._search.form, set(self._without), list(self._search.doubted))
        form, self._second_chance = self._second_chance, None
        return CallTerms(self._form if form is None else form, set(self._without))

    async def searched(self, terms: CallTerms, failure: Failure) -> None:
        """Wait for what the call that searches finds, where this failure would start a search as well.

        Half a minute at the most: that call may wait in turn for what this one has reserved of the budget.
        """
        until = time.monotonic() + _SEARCH_AGAIN_S
        while failure.doubtful and terms.form is not None and not terms.doubted and self._search is not None:
            if time.monotonic() > until:
                return
            await asyncio.sleep(_LOOK_AGAIN_S)

    def other_terms(self, terms: CallTerms, failure: Failure) -> bool:
        """Is the failed call to be made again at once, on ``terms`` that are now others?"""
        again = self._without_parameter(terms, failure) or self._in_other_form(terms, failure)
        if not again:
            self.ended(terms)
        return again

    def ended(self, terms: CallTerms) -> None:
        """The call has come to nothing."""
        self._first_ended |= terms.form is not None
        if self._search is terms:  # it was broken off: the next need not wait, and it is as if it had not been
            self._search, self._search_from, self._searches = None, 0.0, self._searches + 1

    def answered(self, terms: CallTerms, *, usable: bool) -> None:
        """The call was answered on these terms; ``usable``: in the form that was asked for."""
        self._without |= terms.without
        if terms.form is not None:
            self._first_ended = True
            self._search = None
            if usable and not self._proven:
                self._form, self._proven = terms.form, True
                self._second_chance = next((form for form in range(terms.form) if form not in self._refused), None)
            elif usable and terms.form < self._form:
                self._form = terms.form
        if not terms.doubted:  # else it may be taken back
            self._tell(terms)

    def _without_parameter(self, terms: CallTerms, failure: Failure) -> bool:
        if failure.parameter is None or failure.parameter in terms.without:
            return False
        together = next((each for each in (BOUNDS, PROBABILITIES) if failure.parameter in each), (failure.parameter,))
        terms.without.update(together)
        return True

    def _in_other_form(self, terms: CallTerms, failure: Failure) -> bool:
        if terms.form is None or not (failure.format_refused or failure.doubtful):
            return False
        if self._proven:
            form, terms.form = terms.form, self._form
            return form != self._form
        if failure.format_refused:
            self._refused.add(terms.form)
        further = [form for form in range(terms.form + 1, len(FORMS)) if form not in self._refused]
        if failure.format_refused and further:
            self._form = terms.form = max(self._form, further[0])
            return True
        if failure.format_refused:
            return self._in_form_that_is_left(terms, failure)
        if terms.form < self._form:  # others have gone on meanwhile
            terms.doubted.append(terms.form)
            terms.form = self._form
            return True
        if not terms.doubted and self._search is not None:
            terms.form, terms.doubted = self._search.form, list(self._search.doubted)
            return True
        if not terms.doubted and further:
            if not self._searches or time.monotonic() < self._search_from:
                return False
            self._searches, self._search_from = self._searches - 1, time.monotonic() + _SEARCH_AGAIN_S
            self._search = terms
        if further:
            terms.doubted.append(terms.form)
            terms.form = further[0]
            return True
        if self._refused:
            return self._in_form_that_is_left(terms, failure)
        self._go_back(terms)
        return False

    def _in_form_that_is_left(self, terms: CallTerms, failure: Failure) -> bool:
        """Go back from the last form to the first other that was not refused by name, once in a call.

        Where there is none, later calls begin anew, half a minute later the next time: a passing failure may have named a form.
        """
        left = [form for form in range(len(FORMS)) if form not in self._refused and form != terms.form]
        self._form, now = min(left, default=len(FORMS) - 1), time.monotonic()
        if failure.format_refused:
            self._search_from = 0.0
        if not left and now >= self._anew_from:
            self._form, self._anew_from = 0, now + _SEARCH_AGAIN_S
            self._refused.clear()
        self._go_back(terms)
        again = bool(left) and not terms.went_back
        terms.went_back = True
        return again

    def _go_back(self, terms: CallTerms) -> None:
        """No other form was found: the call is where it began."""
        terms.form = self._form
        terms.doubted.clear()
        if self._search is terms:
            self._search = None

    def _tell(self, terms: CallTerms) -> None:
        for what in terms.left_out:
            if what not in self._told:
                self._told.add(what)
                logger.warning("%s: the provider does not take %s; it is left out from now on", self._model, what)


def form_of(terms: CallTerms, messages: Messages, schema: Mapping[str, Any] | None, name: str) -> dict[str, Any]:
    """The part of a request that says what form the reply is to have, and the messages."""
    plain = {"messages": list(messages)}
    if schema is None or terms.form is None:
        return plain
    asked = FORMS[terms.form]
    if terms.without.intersection(BOUNDS):
        schema = without_bounds(schema)
    if asked == "json_schema":
        described = {"name": name, "strict": True, "schema": schema}
        return {**plain, "response_format": {"type": "json_schema", "json_schema": described}}
    if asked == "tool":
        function = {"name": name, "description": "Takes the reply.", "parameters": schema}
        choice = {"type": "function", "function": {"name": name}}
        tools = [{"type": "function", "function": function}]
        # LiteLLM would look for tools of its own gateway, with a library that is not installed.
        return {**plain, "tools": tools, "tool_choice": choice, "_skip_mcp_handler": True}
    instruction = f"Reply with one JSON object of this JSON schema and nothing else:\n{orjson.dumps(schema).decode()}"
    first, *others = messages
    told = {"messages": [{**first, "content": f"{first['content']}\n\n{instruction}"}, *others]}
    if asked == "prompt":
        return told
    return {**told, "response_format": {"type": "json_object", **({"schema": schema} if "schema" in asked else {})}}


def without_bounds(schema: Any) -> Any:
    """The schema without the numbers of entries that its lists must have."""
    if isinstance(schema, list):
        return [without_bounds(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {key: without_bounds(value) for key, value in schema.items() if key not in BOUNDS}


def text_of(message: Any) -> str:
    """What a message says; the arguments of a tool call where it makes one."""
    calls = getattr(message, "tool_calls", None)
    text = getattr(calls[0].function, "arguments", "") if calls else getattr(message, "content", "")
    return without_surrogates(text) if isinstance(text, str) else ""


def is_usable(text: str, finish_reason: str) -> bool:
    """Does the reply hold an object? One that was cut off or withheld says nothing about its form, so it passes."""
    return finish_reason not in ("stop", "tool_calls") or _OBJECT.search(text) is not None
