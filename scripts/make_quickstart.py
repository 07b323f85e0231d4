"""Cuts the quickstart handbook into chunks, runs two small RAG systems on its queries and records what they respond.

Nothing here calls a language model. Retrieval is real and its time is measured; two small programs stand in for the
model that writes the answer, and the weaknesses they have are written out below, so that every bad answer has a cause
that can be looked up. datasets/quickstart/README.md says what is simulated. Standard library only; nothing is random:

    python scripts/make_quickstart.py           write corpus.jsonl and responses/*.jsonl
    python scripts/make_quickstart.py --check   compare them with what would be written, latencies aside; exit 1
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from time import perf_counter
from typing import Any

HOME = Path(__file__).resolve().parents[1] / "datasets" / "quickstart"
LATENCIES = ("latency_ms", "retrieval_latency_ms", "generation_latency_ms")
INSTRUCTIONS = "Answer the question from the handbook pages below. If they do not hold the answer, say so."
REFUSAL = "I could not find an answer to this in the handbook."
STOP_WORDS = frozenset(
    """a about all an and any are as at be been but by can cannot could do does for from had has have how i if in into
    is it its me might much my no not of on one or our own so than that the them then there these they this those to up
    us was we what when where which while who whose why will with would yet you your inkmoor""".split()
)
FIRST_TOKEN_MS = 250.0


@dataclass(frozen=True)
class Chunk:
    """One section of the handbook: a stable id, its page and heading, its sentences."""

    id: str
    title: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(self.sentences)


@dataclass(frozen=True)
class Hit:
    """A retrieved chunk and its score."""

    chunk: Chunk
    score: float


Retrieve = Callable[[str], list[Hit]]
Answer = Callable[[str, Sequence[Hit], dict[str, str]], str]


@dataclass(frozen=True)
class System:
    """How a system retrieves and answers, and what a token of it costs (USD) and takes."""

    name: str
    index: Callable[[Sequence[Chunk]], Retrieve]
    answer: Answer
    top: int
    titles: bool
    model: str
    priced_as: str
    usd_per_input_token: float
    usd_per_output_token: float
    tokens_per_second: float


def cut(page: str, markdown: str) -> list[Chunk]:
    """The chunks of a page: one for each ``##`` section, numbered from 01; list markers are dropped."""
    start, *sections = re.split(r"^## ", markdown, flags=re.MULTILINE)
    page_title = start.removeprefix("# ").strip()
    chunks = []
    for number, section in enumerate(sections, 1):
        title, _, body = section.partition("\n")
        plain = re.sub(r"^\d+\. ", "", body, flags=re.MULTILINE)
        sentences = re.split(r"(?<=[.!?])\s+", " ".join(plain.split()))
        chunks.append(Chunk(f"{page}-{number:02d}", f"{page_title}: {title.strip()}", tuple(sentences)))
    return chunks


def words(text: str) -> list[str]:
    """Lower-cased runs of letters and digits."""
    return re.findall(r"[a-z0-9]+", text.lower())


def stems(text: str) -> list[str]:
    """Words without stop words and without their commonest endings."""
    return [re.sub(r"(?<=\w{3})(?:ings?|ies|ied|es|ed|e|s|y)$", "", w) for w in words(text) if w not in STOP_WORDS]


def rarity(bags: Sequence[Counter[str]]) -> dict[str, float]:
    """How telling each term is: ln(1 + (N - n + 0.5) / (n + 0.5)) where n of N texts hold it."""
    held = Counter(term for bag in bags for term in bag)
    return {term: math.log(1 + (len(bags) - n + 0.5) / (n + 0.5)) for term, n in held.items()}


def ranked(hits: Sequence[Hit]) -> list[Hit]:
    """Best first; equal scores by id."""
    return sorted((hit for hit in hits if hit.score > 0), key=lambda hit: (-hit.score, hit.chunk.id))


def tfidf(chunks: Sequence[Chunk]) -> Retrieve:
    """Cosine of TF-IDF vectors, but for the length of the query's, which is the same for all chunks.

    Weak on purpose: no titles, so "this plan" has no name; no stemming; no stop words, so a rare "how" counts much.
    """
    bags = [Counter(words(chunk.text)) for chunk in chunks]
    idf = {term: math.log(len(bags) / n) for term, n in Counter(term for bag in bags for term in bag).items()}
    vectors = [{term: n * idf[term] for term, n in bag.items()} for bag in bags]
    lengths = [math.sqrt(math.fsum(weight**2 for weight in vector.values())) or 1.0 for vector in vectors]

    def retrieve(query: str) -> list[Hit]:
        asked = Counter(words(query))
        dots = [math.fsum(n * idf[t] * vector[t] for t, n in asked.items() if t in vector) for vector in vectors]
        return ranked([Hit(chunk, dot / length) for chunk, dot, length in zip(chunks, dots, lengths, strict=True)])

    return retrieve


def bm25(chunks: Sequence[Chunk], k1: float = 1.2, b: float = 0.75, title_weight: int = 2) -> Retrieve:
    """BM25 over stems of the text and, counted twice, of the title."""
    bags = [Counter(stems(chunk.text) + title_weight * stems(chunk.title)) for chunk in chunks]
    idf = rarity(bags)
    mean = sum(bag.total() for bag in bags) / len(bags)

    def retrieve(query: str) -> list[Hit]:
        asked = sorted(set(stems(query)))
        hits = []
        for chunk, bag in zip(chunks, bags, strict=True):
            norm = k1 * (1 - b + b * bag.total() / mean)
            parts = (idf[t] * bag[t] * (k1 + 1) / (bag[t] + norm) for t in asked if t in bag)
            hits.append(Hit(chunk, math.fsum(parts)))
        return ranked(hits)

    return retrieve


def remembered(sentence: str, place: int, memory: dict[str, str]) -> str:
    """The sentence as the stand-in for a model passes it on.

    It reads the first context (place 0) closely; in later ones a number remembered from the outdated handbook wins.
    """
    for now, was in memory.items() if place else ():
        sentence = sentence.replace(now, was)
    return sentence


def named(sentence: str, title: str) -> str:
    """The sentence, with the plan that its chunk's title names, if any, in place of a leading "This plan" or "It"."""
    plans = [plan for plan in ("Solo", "Plus", "Team") if plan.lower() in words(title)]
    return re.sub(r"^(?:This plan|It)\b", plans[0], sentence) if plans else sentence


def quote(query: str, hits: Sequence[Hit], memory: dict[str, str]) -> str:
    """Quotes the sentence that shares most words with the query, and the next if that is short. Never refuses."""
    if not hits:
        return ""
    asked = set(words(query)) - STOP_WORDS
    spots = [(place, at) for place, hit in enumerate(hits) for at in range(len(hit.chunk.sentences))]
    place, at = max(spots, key=lambda spot: len(asked & set(words(hits[spot[0]].chunk.sentences[spot[1]]))))
    sentences = hits[place].chunk.sentences
    taken = sentences[at : at + 2] if len(words(sentences[at])) < 12 else sentences[at : at + 1]
    return " ".join(remembered(sentence, place, memory) for sentence in taken)


def composer(chunks: Sequence[Chunk], most: int = 3, refuse_below: float = 6.0, keep: float = 0.6) -> Answer:
    """Composes up to ``most`` unlike sentences; refuses where even the first chunk's BM25 score is below a limit.

    A sentence is worth the rarity of the query's stems that it (fully) or its title (half) holds, times the square
    root of its chunk's score against the first. ``keep`` is the least worth beside the best sentence's.
    """
    idf = rarity([Counter(stems(f"{chunk.title} {chunk.text}")) for chunk in chunks])

    def answer(query: str, hits: Sequence[Hit], memory: dict[str, str]) -> str:
        if not hits or hits[0].score < refuse_below:
            return REFUSAL
        asked = sorted(set(stems(query)))
        bags, worth = {}, {}
        for place, hit in enumerate(hits):
            title = set(stems(hit.chunk.title))
            for at, sentence in enumerate(hit.chunk.sentences):
                bag = bags[place, at] = set(stems(sentence))
                held = math.fsum(idf.get(t, 0.0) * (1 if t in bag else 0.5 if t in title else 0) for t in asked)
                worth[place, at] = held * math.sqrt(hit.score / hits[0].score)
        best = max(worth.values())
        chosen: list[tuple[int, int]] = []
        for spot in sorted(worth, key=lambda s: (-worth[s], s)):
            unlike = all(len(bags[spot] & bags[c]) < 0.5 * len(bags[spot] | bags[c]) for c in chosen)
            if len(chosen) < most and worth[spot] >= keep * best and unlike:
                chosen.append(spot)
        picked = ((place, hits[place].chunk, at) for place, at in sorted(chosen))
        return " ".join(named(remembered(c.sentences[at], place, memory), c.title) for place, c, at in picked)

    return answer


def systems(chunks: Sequence[Chunk]) -> list[System]:
    """The two systems. Prices: list prices in LiteLLM's table (1.106.2) of the models named; speeds are assumptions."""
    return [
        System("baseline", tfidf, quote, 3, False, "extractive-sim", "gpt-4o-mini", 0.15e-6, 0.60e-6, 90.0),
        System("candidate", bm25, composer(chunks), 5, True, "composing-sim", "gpt-4.1-mini", 0.40e-6, 1.60e-6, 70.0),
    ]


def tokens(text: str) -> int:
    """Tokens by rule of thumb: one for every four characters begun."""
    return math.ceil(len(text) / 4)


def respond(system: System, retrieve: Retrieve, query_id: str, query: str, memory: dict[str, str]) -> dict[str, Any]:
    """One row of a response file. Retrieving and composing are measured; the model's own time is added by rule."""
    start = perf_counter()
    hits = retrieve(query)[: system.top]
    found = perf_counter()
    answer = system.answer(query, hits, memory)
    composed = perf_counter()
    contexts = [f"{hit.chunk.title}\n\n{hit.chunk.text}" if system.titles else hit.chunk.text for hit in hits]
    read, written = tokens("\n\n".join([INSTRUCTIONS, *contexts, query])), tokens(answer)
    retrieval, composing = (found - start) * 1000, (composed - found) * 1000
    generation = composing + FIRST_TOKEN_MS + written / system.tokens_per_second * 1000
    return {
        "query_id": query_id,
        "answer": answer,
        "contexts": contexts,
        "retrieved_doc_ids": [hit.chunk.id for hit in hits],
        "retrieved_scores": [round(hit.score, 6) for hit in hits],
        "model": system.model,
        "input_tokens": read,
        "output_tokens": written,
        "cost_usd": round(read * system.usd_per_input_token + written * system.usd_per_output_token, 9),
        "latency_ms": round(retrieval + generation, 3),
        "retrieval_latency_ms": round(retrieval, 3),
        "generation_latency_ms": round(generation, 3),
        "metadata": {"priced_as": system.priced_as},
    }


def make(home: Path) -> dict[str, list[dict[str, Any]]]:
    """Rows of every file that this script writes, by its path below ``home``."""
    pages = sorted((home / "documents").glob("*.md"))
    chunks = [chunk for page in pages for chunk in cut(page.stem, page.read_text(encoding="utf-8"))]
    outdated = json.loads((home / "outdated.json").read_text(encoding="utf-8"))
    memory = {fact["now"]: fact["was"] for fact in outdated["facts"]}
    queries = [(row["query_id"], row["query"]) for row in read_rows(home / "queries.jsonl")]
    made = {"corpus.jsonl": [{"id": c.id, "title": c.title, "text": c.text} for c in chunks]}
    for system in systems(chunks):
        retrieve = system.index(chunks)
        made[f"responses/{system.name}.jsonl"] = [respond(system, retrieve, *query, memory) for query in queries]
    return made


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def differences(made: dict[str, list[dict[str, Any]]], home: Path) -> list[str]:
    """One line for each row of a file that is not what would be written, latencies aside."""
    found = []
    for name, rows in made.items():
        there = read_rows(home / name) if (home / name).exists() else []
        for number, (old, new) in enumerate(zip_longest(there, rows, fillvalue=dict[str, Any]()), 1):
            keys = sorted(k for k in old.keys() | new.keys() if k not in LATENCIES and old.get(k) != new.get(k))
            found.extend([f"{name}:{number}: {', '.join(keys)} would change"] if keys else [])
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, or with ``--check`` compare them; returns the exit code."""
    parser = argparse.ArgumentParser(description="Make the quickstart corpus and the two recorded systems.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if anything but latencies differs")
    parser.add_argument("--home", type=Path, default=HOME, help="folder of the dataset (default: %(default)s)")
    options = parser.parse_args(arguments)
    made = make(options.home)
    if options.check:
        found = differences(made, options.home)
        print("\n".join(found) or "the recorded files are up to date", file=sys.stderr if found else sys.stdout)
        return 1 if found else 0
    for name, rows in made.items():
        path = options.home / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        print(f"{path}: {len(rows)} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
