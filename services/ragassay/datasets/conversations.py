"""Lists of messages, as OpenAI, LangSmith, RAGAS and DeepEval write them, as the history, question and answer of a last turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragassay.core.validation import shown
from ragassay.datasets.source import ValueProblem

_ROLES = {"human": "user", "ai": "assistant", "bot": "assistant", "model": "assistant", "function": "tool"}
_INNER = ("data", "kwargs")  # where LangSmith has what a message says


def is_conversation(value: object) -> bool:
    """Is it a list of messages?"""
    return isinstance(value, list | tuple) and bool(value) and all(map(_is_message, value))


def open_conversation(fields: dict[str, Any], response: dict[str, Any]) -> None:
    """Put a row's messages where they belong, in place: the last user message is the query, what precedes it the history.

    A query of its own ends the history if it is the last user message, and otherwise follows all of it. What follows the
    query is the answer and, as retrieval context or a tool's results, its contexts, if the row has none. Raises
    ValueProblem.
    """
    is_whole = is_conversation(fields.get("query"))
    turns = [_turn(one) for one in _listed(fields.pop("query") if is_whole else fields.get("history"))]
    questions = [n for n, turn in enumerate(turns) if turn["role"] == "user" and turn["content"].strip()]
    query, last = fields.get("query"), questions[-1] if questions else None
    if last is None or (query is not None and str(query).strip() != turns[last]["content"].strip()):
        last = len(turns)
    else:
        fields["query"] = turns[last]["content"]
        for name, value in _response(turns[last + 1 :]).items():
            response.setdefault(name, value)
    if before := [{key: turn[key] for key in ("role", "content")} for turn in turns[:last] if turn["content"].strip()]:
        fields["history"] = before
    else:
        fields.pop("history", None)


def answer_text(value: Any) -> Any:
    """The text of an answer that is a message, or the last one of a list; anything else as it is."""
    if isinstance(value, Mapping) and is_conversation(value.get("messages")):
        value = value["messages"]
    if is_conversation(value):
        return _response([_turn(one) for one in value]).get("answer", value)
    return _turn(value)["content"] if _is_message(value) else value


def _is_message(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    inner = _inner(value)
    return bool({"role", "type"} & (value.keys() | inner.keys())) and "content" in inner


def _inner(message: Mapping[str, Any]) -> Mapping[str, Any]:
    return next((message[name] for name in _INNER if isinstance(message.get(name), Mapping)), message)


def _listed(value: Any) -> Any:
    if value is None or is_conversation(value) or value in ([], ()):
        return value or ()
    raise ValueProblem(f"should be a list of {{role, content}}, is {shown(value)}")


def _turn(message: Mapping[str, Any]) -> dict[str, Any]:
    inner = _inner(message)
    role = next((str(one[key]).lower() for key in ("role", "type") for one in (inner, message) if one.get(key)), None)
    if role is None:
        raise ValueProblem("a message has no role")
    content, contexts = inner["content"], inner.get("retrieval_context") or ()
    if isinstance(content, list | tuple):  # parts, of which the texts are read
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
        content = "\n".join(part for part in parts if isinstance(part, str))
    if not isinstance(content, str | None):
        raise ValueProblem(f"the content of a message should be text, is {shown(content)}")
    if not isinstance(contexts, list | tuple | str):
        raise ValueProblem(f"the retrieval_context of a message should be a list of texts, is {shown(contexts)}")
    contexts = [contexts] if isinstance(contexts, str) else contexts
    return {"role": _ROLES.get(role, role), "content": content or "", "contexts": contexts}


def _response(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """What the turns after a question say: the last answer, and its contexts."""
    answers = [turn["content"] for turn in turns if turn["role"] == "assistant" and turn["content"].strip()]
    contexts = [context for turn in turns for context in turn["contexts"]]
    contexts = contexts or [turn["content"] for turn in turns if turn["role"] == "tool"]
    return {**({"answer": answers[-1]} if answers else {}), **({"contexts": contexts} if contexts else {})}
