"""The form that a judge fills, as pydantic models: its JSON schema and the reading of a reply both follow from them.

Nothing in a reply is trusted: what is not in the form counts as unanswered. A reply that can't be used is asked for again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import zip_longest
from typing import Annotated, Any, TypeVar, get_args

import orjson
from pydantic import BaseModel, BeforeValidator
from pydantic.json_schema import SkipJsonSchema

from ragassay.core.errors import BadInput, BadSettings, ProviderDown, Unavailable, reason_from
from ragassay.core.models import (
    Covered,
    CriterionVerdict,
    FactVerdict,
    SentenceVerdict,
    Step,
    Support,
    Truth,
    Usage,
    Verdict,
)
from ragassay.core.prompts import load
from ragassay.core.protocols import Call, Journal, Purpose, Reply, digest
from ragassay.judges.verdict import Units
from ragassay.llm import LLM, readable

T = TypeVar("T")
Value = TypeVar("Value", bound=str)
_UNREADABLE = "{who}'s reply could not be read as a {name}, twice"
_WHY_NOT = {
    "length": "{who}'s reply was cut off at {limit} tokens",
    "content_filter": "the provider's content filter withheld {who}'s reply",
}
_KEYS = frozenset(("answer", "facts"))
_THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL)
_OBJECT = re.compile(r'\{\s*"')
_LONGEST, _MAX_OBJECTS, _LONGEST_WHY = 500_000, 50, 300
_REASON = re.compile(r"(?:^|(?<=[\s;,.(\[]))\[?([AG]\d+)\]?\s*[:=-]")


def _one_of(given: object, allowed: Sequence[Value]) -> Value | None:
    text = "_".join(given.lower().split()) if isinstance(given, str) else ""
    return next((value for value in allowed if value == text), None)


def _short_reason(why: object) -> str:
    return " ".join(why.split())[:_LONGEST_WHY] if isinstance(why, str) else ""


def _label_in(value: object) -> str:
    return value.strip(" []().:").upper() if isinstance(value, str) else ""


def _labels(value: object) -> tuple[str, ...]:
    named = re.split(r"[,;\s]+", value) if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(label for label in map(_label_in, named) if label)


def _objects_of(value: object) -> list[Any]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def word_of(allowed: Any) -> BeforeValidator:
    """Reads one of the words of a Literal; None for any other."""
    return BeforeValidator(lambda given: _one_of(given, get_args(allowed)))


Unanswered = SkipJsonSchema[None]
Reason = Annotated[str, BeforeValidator(_short_reason)]
_Evidence = Annotated[tuple[str, ...], BeforeValidator(_labels)]
_Step = Annotated[Step | Unanswered, word_of(Step)]


class _Entry(BaseModel):
    id: Annotated[str, BeforeValidator(_label_in)] = ""
    why: SkipJsonSchema[Reason] = ""


class SentenceEntry(_Entry):
    """What is said of a sentence of the answer.

    Evidence comes before the label: a judge that names the label first has not looked.
    """

    evidence: _Evidence = ()
    support: Annotated[Support | Unanswered, word_of(Support)] = None
    truth: Annotated[Truth | Unanswered, word_of(Truth)] = None


class FactEntry(_Entry):
    """What is said of a key fact."""

    evidence: _Evidence = ()
    covered: Annotated[Covered | Unanswered, word_of(Covered)] = None


class CriterionEntry(_Entry):
    """What is said of a criterion in the user's words."""

    why: Reason = ""
    step: _Step = None


class VerdictForm(BaseModel):
    """A reply. The reasons are one text: one for each unit was more than half of what a reply costs (decision 8)."""

    answer: Annotated[list[SentenceEntry], BeforeValidator(_objects_of)] = []
    facts: Annotated[list[FactEntry], BeforeValidator(_objects_of)] = []
    why: Annotated[str, BeforeValidator(lambda given: given if isinstance(given, str) else "")] = ""
    relevance: _Step = None
    refusal: Annotated[bool | Unanswered, BeforeValidator(lambda given: given if isinstance(given, bool) else None)] = (
        None
    )


class CriteriaForm(VerdictForm):
    """A reply that judges the answer by criteria in the user's words as well."""

    criteria: Annotated[list[CriterionEntry], BeforeValidator(_objects_of)] = []


E = TypeVar("E", bound=_Entry)


def schema_of(form: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a form, without references, titles and defaults; every object is closed and needs all its keys."""
    whole = form.model_json_schema()
    definitions = whole.pop("$defs", {})

    def plain(node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return plain(definitions[node["$ref"].rpartition("/")[2]])
        kept = {key: plain(inner) for key, inner in node.items() if key not in ("title", "default", "description")}
        if kept.get("type") == "object":
            kept |= {"required": list(kept["properties"]), "additionalProperties": False}
        return kept

    schema: dict[str, Any] = plain(whole)
    return schema


def with_counts(schema: Mapping[str, Any], counts: Mapping[str, int]) -> dict[str, Any]:
    """The schema with the exact number of entries of these lists: without it, weak models leave entries out."""
    listed = schema["properties"]
    counted = {name: {**listed[name], "minItems": n, "maxItems": n} for name, n in counts.items() if name in listed}
    return {**schema, "properties": {**listed, **counted}}


def find_object(text: str, sample: str, keys: frozenset[str] = _KEYS) -> dict[str, Any] | None:
    """The one object with any of ``keys`` in a reply, bare, fenced or with words and thoughts around it; else None.

    Two such objects are one too many, and an object that stands in the sample is the sample's, not the judge's.
    """
    text = _THOUGHTS.sub("", text).strip()
    if len(text) > _LONGEST:
        return None
    candidates = [(value, raw) for value, raw in _objects(text) if isinstance(value, dict) and keys & value.keys()]
    if len(candidates) != 1:
        return None
    value, raw = candidates[0]
    is_copied = "{" in sample and _without_spaces(raw) in _without_spaces(sample)
    return None if is_copied else value


def parse_reply(reply: Mapping[str, Any], units: Units) -> Verdict:
    """The verdict on the units that were asked, not yet checked against them; ids that were not asked are ignored.

    A label in which entries of one id differ, or that is outside the form, is None; the entry's others are kept.
    """
    form = CriteriaForm.model_validate(reply)
    why, reasons = _reasons(form.why)

    def filled(one: _Entry) -> dict[str, Any]:
        return {**one.model_dump(), "why": one.why or reasons.get(one.id, "")}

    sentences = _by_id(form.answer, units.answer, ("support", "truth"))
    facts = _by_id(form.facts, units.facts, ("covered",))
    criteria = _by_id(form.criteria, units.criteria, ("step",))
    return Verdict(
        judge="",
        sentences=tuple(SentenceVerdict(text=units.answer[one.id], **filled(one)) for one in sentences),
        facts=tuple(FactVerdict(text=units.facts[one.id], **filled(one)) for one in facts),
        criteria=tuple(CriterionVerdict(name=units.criteria[one.id], **filled(one)) for one in criteria),
        relevance=form.relevance,
        refusal=form.refusal,
        why=why,
    )


def unanswered(verdict: Verdict, units: Units) -> list[str]:
    """Ids of the units about which anything that was asked has no answer."""
    answered = {one.id for one in verdict.facts if one.covered} | {one.id for one in verdict.criteria if one.step}
    answered |= {
        one.id
        for one in verdict.sentences
        if (one.support or not units.has_contexts) and (one.truth or not units.has_truth)
    }
    return [label for label in units.ids if label not in answered]


def merge(first: Verdict, second: Verdict, units: Units) -> Verdict:
    """The first verdict, with what it lacked taken from the second; nothing that it had is changed."""
    wanted, lacking = unanswered(first, units), unanswered(second, units)

    def taken(ours: Iterable[Any], theirs: Iterable[Any]) -> tuple[Any, ...]:
        known = {one.id: one for one in ours}
        known |= {one.id: one for one in theirs if one.id in wanted and not (one.id in lacking and one.id in known)}
        return tuple(known.values())

    change: dict[str, Any] = {
        name: taken(getattr(first, name), getattr(second, name)) for name in ("sentences", "facts", "criteria")
    }
    if first.relevance is None:
        change |= {"relevance": second.relevance, "why": second.why}
    if first.refusal is None:
        change["refusal"] = second.refusal
    return first.model_copy(update=change)


def _objects(text: str) -> Iterator[tuple[Any, str]]:
    """Every JSON object in a text that is not inside another, with the characters that it was read from."""
    try:
        yield orjson.loads(text), text
    except orjson.JSONDecodeError:
        decoder, start, tried = json.JSONDecoder(), 0, 0
        while (opening := _OBJECT.search(text, start)) and tried < _MAX_OBJECTS:
            tried += 1
            try:
                value, end = decoder.raw_decode(text, opening.start())
            except (ValueError, RecursionError):
                start = opening.end()
                continue
            yield readable(value), text[opening.start() : end]
            start = end


def _without_spaces(text: str) -> str:
    return "".join(text.split())


def _by_id(entries: Iterable[E], known: Mapping[str, str], labels: Sequence[str]) -> Iterable[E]:
    """One entry for each known id: its first, without the labels in which the others differ."""
    by_id: dict[str, E] = {}
    for entry in entries:
        if entry.id in known:
            first = by_id.setdefault(entry.id, entry)
            differing = {name: None for name in labels if getattr(first, name) != getattr(entry, name)}
            by_id[entry.id] = first.model_copy(update=differing)
    return by_id.values()


def _reasons(text: str) -> tuple[str, dict[str, str]]:
    """What a text says of the whole, and of each unit behind its label: ``Late. A2: 7, not 30; G1: left out``."""
    named = list(_REASON.finditer(text))
    reasons: dict[str, str] = {}
    for one, following in zip_longest(named, named[1:]):
        said = text[one.end() : following.start() if following else len(text)]
        reasons.setdefault(one[1], _short_reason(said.rstrip(" \n\t;,([")))
    return _short_reason(text[: named[0].start()] if named else text).rstrip(" ;,"), reasons


class NoAnswer(Exception):
    """The model answered, but not with what it was asked for."""


class SampleCalls:
    """What the calls about one row spent, on replies that were used and on others; ``left_out``: what they were made without."""

    def __init__(self, journal: Journal) -> None:
        self.journal, self._used, self._wasted = journal, list[Usage](), list[Usage]()
        self.left_out: tuple[str, ...] = ()

    @property
    def usage(self) -> Usage:
        """What was spent on replies that were used."""
        return Usage.total(self._used)

    @property
    def waste(self) -> Usage:
        """What was spent for nothing."""
        return Usage.total(self._wasted)

    @property
    def spent(self) -> dict[str, Any]:
        """All of it, by the names that a rating has for it."""
        return {"usage": self.usage, "waste": self.waste, "left_out": self.left_out}

    async def outcome(self, waiting: Awaitable[T], who: str = "the judge") -> tuple[T | None, str | None]:
        """What is awaited, or the reason why there is nothing.

        Raises BudgetReached, BadSettings (key, model) and ProviderDown, which every row would meet.
        """
        try:
            return await waiting, None
        except (BadSettings, ProviderDown):
            raise
        except (BadInput, Unavailable) as error:
            return None, reason_from(f"{who} failed: {error}")
        except NoAnswer as error:
            return None, str(error)

    def book(self, reply: Reply, value: T) -> T:
        """Count a reply as used, or as wasted where ``value``, read from it, is None. Gives ``value`` back."""
        (self._wasted if value is None else self._used).append(reply.usage)
        self._wasted.append(reply.waste)
        self.left_out = tuple(dict.fromkeys((*self.left_out, *reply.left_out)))
        return value

    def wasted(self, usage: Usage) -> None:
        """So much was, or may have been, spent for nothing."""
        self._wasted.append(usage)


class StructuredCall:
    """Asks ``llm``, under ``instructions`` of a ``version``, for an object of the ``form``.

    ``keys``: of these an object needs one to be taken for the answer; default: any of the form's. ``seed_shift``: added to
    the model's seed. ``who`` is meant where a reply can't be used.
    """

    def __init__(
        self,
        llm: LLM,
        instructions: str,
        version: str,
        form: type[BaseModel],
        name: str,
        *,
        purpose: Purpose = "judge",
        keys: frozenset[str] | None = None,
        seed_shift: int = 0,
        who: str = "the judge",
    ) -> None:
        self._llm, self._instructions, self._version, self._name = llm, instructions, version, name
        self._purpose, self._seed_shift, self._who = purpose, seed_shift, who
        self.schema = schema_of(form)
        self._keys = keys or frozenset(form.model_fields)

    async def answer(
        self,
        about: str,
        prompt: str,
        limit: int,
        calls: SampleCalls,
        parse: Callable[[dict[str, Any]], T | None],
        schema: Mapping[str, Any] | None = None,
    ) -> T:
        """What ``parse`` makes of the object in a reply of ``limit`` tokens at the most; after one more try where it was cut
        off or holds none. ``about``: the query's id. ``schema``: in place of the form's. Raises NoAnswer.
        """
        value, finished = await self.once(about, prompt, limit, calls, parse, schema)
        if value is None and finished != "content_filter":
            limit, more = (2 * limit, "") if finished == "length" else (limit, load("judge/again").text)
            value, finished = await self.once(about, prompt, limit, calls, parse, schema, more=more)
        if value is None:
            raise NoAnswer(_WHY_NOT.get(finished, _UNREADABLE).format(who=self._who, name=self._name, limit=limit))
        return value

    async def once(
        self,
        about: str,
        prompt: str,
        limit: int,
        calls: SampleCalls,
        parse: Callable[[dict[str, Any]], T | None],
        schema: Mapping[str, Any] | None = None,
        *,
        more: str = "",
        purpose: Purpose | None = None,
    ) -> tuple[T | None, str]:
        """What one reply holds, and how it ended. ``more`` stands behind the prompt, which the object is not copied from."""
        text = f"{prompt}\n{more}" if more else prompt
        messages = [{"role": "system", "content": self._instructions}, {"role": "user", "content": text}]

        def read(reply: Reply) -> T | None:
            found = find_object(reply.text, prompt, self._keys)
            return None if found is None else parse(found)

        reply, value = await self._llm.complete(
            messages,
            schema=schema or self.schema,
            schema_name=self._name,
            max_tokens=limit,
            call=Call.about(about, purpose or self._purpose, [self._stamp, messages, limit]),
            journal=calls.journal,
            wasted=calls.wasted,
            seed_shift=self._seed_shift,
            read=read,
        )
        return calls.book(reply, value), reply.finish_reason

    @cached_property
    def _stamp(self) -> list[object]:
        """What determines a reply apart from its messages. The prompt's version stands for text and front matter."""
        return [self._llm.endpoint, dict(self._llm.settings), self._version, digest(self.schema)]
