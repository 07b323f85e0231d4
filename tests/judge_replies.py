"""A sample, a verdict on it in which all is well, and a judge to ask: what the tests of the LLM judge share."""

import asyncio

from ragassay.core.models import Response, Sample
from ragassay.judges.llm import LLMJudge
from ragassay.llm import LLM
from ragassay.llm.journal import MemoryJournal


def sample(query_id="q1", **changes):
    given = {
        "answer": "Refunds take 14 days. They go to the card that paid. Support is free.",
        "contexts": ("Refunds take 14 days. Weekends count.", "Money goes back to the card that paid."),
        "ground_truth_answer": "Refunds take 14 days. The money goes to the card.",
        "query": "How do refunds work?",
        **changes,
    }
    response = Response(answer=given.pop("answer"), contexts=given.pop("contexts"))
    return Sample(query_id=query_id, response=response, **given)


ASKED = ["A1", "A2", "A3", "G1", "G2"]
LABELS = ["C1.1", "C1.2", "C2.1", *ASKED]


def judge(llm, samples, journal=None, **options):
    return asyncio.run(LLMJudge(llm, **options).judge(samples, journal or MemoryJournal()))


def model_at(provider, **options):
    return LLM("gpt-4o-mini", api_base=provider.url, **{"timeout_s": 10, **options})


def reply(**changes):
    """A verdict on ``sample()`` in which all is well. Changes: A1={...}, relevance=...; A1=None leaves it out."""
    answer = {
        i: {"id": i, "support": "supported", "evidence": ["C1.1"], "truth": "agrees", "why": ""} for i in ASKED[:3]
    }
    facts = {i: {"id": i, "covered": "yes", "evidence": ["C1.1"], "why": ""} for i in ASKED[3:]}
    whole = {"relevance": "full", "refusal": False, "why": ""}
    for key, change in changes.items():
        held = answer if key in answer else facts if key in facts else whole
        held[key] = {**held[key], **change} if isinstance(change, dict) else change
    entries = {"answer": [e for e in answer.values() if e], "facts": [e for e in facts.values() if e]}
    return {**entries, **whole}


def supports(rating):
    return {s.id: s.support for s in rating.verdict.sentences}
