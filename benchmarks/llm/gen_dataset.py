"""Made-up RAG items, the same on every machine: a query, 5 contexts of about 126 words, an answer and a ground truth."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from ragassay.core.models import Response, Sample

PRODUCTS = (
    "Harrow Vault", "Pinegate", "Loomstack", "Quayline", "Ferrow Sync", "Tallis Desk", "Brightmere", "Oxley Queue",
    "Corvane", "Windle Ledger",
)  # fmt: skip
# What is said about each topic, with the range of the number in it.
TOPICS = {
    "backup retention": (
        ("keeps daily snapshots for {n} days", 7, 90),
        ("starts the nightly copy at {n}:00 UTC", 0, 23),
        ("stores each snapshot in {n} separate zones", 2, 4),
        ("restores a single table in about {n} minutes", 5, 60),
    ),
    "rate limits": (
        ("accepts {n} requests per minute on the basic plan", 60, 600),
        ("answers with status 429 once the burst of {n} calls is used", 20, 200),
        ("resets the counter every {n} seconds", 10, 120),
        ("lets owners raise the ceiling {n} times a year", 1, 6),
    ),
    "single sign-on": (
        ("supports {n} identity providers at once", 1, 8),
        ("ends idle sessions after {n} minutes", 15, 240),
        ("locks an account after {n} failed attempts", 3, 12),
        ("rotates signing keys every {n} days", 30, 180),
    ),
    "invoice exports": (
        ("produces a file of at most {n} thousand rows", 10, 500),
        ("keeps export links valid for {n} hours", 1, 72),
        ("rounds amounts to {n} decimal places", 2, 6),
        ("sends a reminder {n} days before the due date", 2, 14),
    ),
    "audit logging": (
        ("records {n} kinds of event by default", 12, 64),
        ("holds entries for {n} months before archiving", 3, 36),
        ("writes a new entry within {n} seconds", 1, 30),
        ("allows {n} concurrent readers of the log", 2, 40),
    ),
    "data regions": (
        ("runs in {n} regions at the moment", 3, 18),
        ("moves a workspace in roughly {n} hours", 2, 48),
        ("charges a transfer fee of {n} credits", 5, 90),
        ("replicates changes with a lag under {n} seconds", 1, 20),
    ),
}
FILLER = (
    "Administrators usually set this up during the first week, before the wider team is invited.",
    "The setting lives in the console under the workspace menu, next to the billing tab.",
    "Changes take effect for new jobs only, and jobs that are already running finish under the old value.",
    "Support recommends writing the chosen value down in the team's own runbook.",
    "Earlier releases handled this differently, so older guides may not match what the console shows.",
    "If the value looks wrong after an upgrade, sign out and back in so that the cached copy is dropped.",
    "Teams that share a workspace see the same behaviour, whoever made the change.",
    "The same rule applies to sandbox workspaces, although their data is cleared more often.",
    "A warning is shown when the new value is lower than the one in use.",
    "The reference page lists the limits for each plan and is reviewed every quarter.",
)
CONTEXT_WORDS, ANSWER_WORDS = 112, 74


def item(number: int) -> dict[str, object]:
    """Item ``number``. Every fourth answer has a wrong figure in it, every fifth a claim that no context makes."""
    dice = random.Random(f"rag-bench-{number}")
    product, topic = PRODUCTS[number % len(PRODUCTS)], dice.choice(sorted(TOPICS))
    facts = [_said(product, fact, dice) for fact in TOPICS[topic]]
    contexts = []
    for place in range(5):
        if place < 3:
            said = facts[place : place + 2]
        else:
            other = dice.choice([name for name in sorted(TOPICS) if name != topic])
            said = [_said(product, fact, dice) for fact in dice.sample(TOPICS[other], 2)]
        sentences, filler = [f"{fact}." for fact in said], dice.sample(FILLER, len(FILLER))
        while filler and _words(sentences) < CONTEXT_WORDS:
            sentences.insert(dice.randint(0, len(sentences)), filler.pop())
        contexts.append(f"Section {number}.{place + 1} of the {product} handbook. " + " ".join(sentences))
    dice.shuffle(contexts)

    claims = facts[:3]
    if number % 4 == 0:
        claims[2] = f"{product} " + TOPICS[topic][2][0].format(n=dice.randint(200, 400))
    if number % 5 == 0:
        claims.append(f"{product} also offers a free migration service for {topic}")
    answer = [f"For {topic}, the main points are as follows.", *(f"{claim}." for claim in claims)]
    for sentence in dice.sample(FILLER, len(FILLER)):
        if _words(answer) < ANSWER_WORDS:
            answer.append(sentence)
    return {
        "id": f"item-{number:04d}",
        "query": f"What should I know about {topic} in {product}, and which limits apply to it?",
        "contexts": contexts,
        "answer": " ".join(answer),
        "ground_truth": ". ".join(facts) + ".",
    }


def sample(row: dict[str, Any]) -> Sample:
    """An item as ragassay reads it."""
    asked = {"query_id": row["id"], "query": row["query"], "ground_truth_answer": row["ground_truth"]}
    return Sample(**asked, response=Response(answer=row["answer"], contexts=row["contexts"]))


def write(count: int, file: Path) -> None:
    """Write ``count`` items as JSON Lines."""
    file.write_text("".join(json.dumps(item(number)) + "\n" for number in range(count)), encoding="utf-8")


def _said(product: str, fact: tuple[str, int, int], dice: random.Random) -> str:
    text, least, most = fact
    return f"{product} {text.format(n=dice.randint(least, most))}"


def _words(sentences: list[str]) -> int:
    return len(" ".join(sentences).split())
