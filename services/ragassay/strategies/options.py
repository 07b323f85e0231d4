"""How a built-in retriever is configured. Every key takes effect: one that the kind does not read is refused."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from ragassay.judges.words import words
from ragassay.models import Noun, Texts

Kind = Literal["bm25", "dense", "hybrid"]
Positive = Annotated[float, Field(gt=0, le=1000)]

_WORDS = {"k1", "b", "title_weight", "fold_accents", "hyphens", "stem", "drop_stop_words"}
_MEANING = {"model"}
_FUSION = {"rrf_k", "weights"}
_READS: dict[str, set[str]] = {"bm25": _WORDS, "dense": _MEANING, "hybrid": _WORDS | _MEANING | _FUSION}


class Weights(Noun):
    """How much each ranking counts in the fusion."""

    bm25: Positive = 1.0
    dense: Positive = 1.0


class RetrievalConfig(Noun):
    """A retriever: how candidates are found, then reranked, then made diverse; and which queries go elsewhere."""

    kind: Annotated[Kind, Field(description="how candidates are found")]
    aliases: dict[str, Texts] = Field(
        default_factory=dict, description="for a term in the query, the expansions that are added to the query"
    )
    title_prefix: Annotated[
        bool, Field(description="embedding models and rerankers read 'title. text' instead of the text")
    ] = True
    depth: Annotated[int, Field(ge=1, le=10_000, description="candidates that each ranking gives to the next")] = 100

    k1: Annotated[float, Field(ge=0, le=10, description="BM25: how soon a repeated word stops counting")] = 1.2
    b: Annotated[float, Field(ge=0, le=1, description="BM25: how far long passages are discounted")] = 0.75
    title_weight: Annotated[
        int, Field(ge=0, le=10, description="BM25: how often the title's words count; 0 leaves the title out")
    ] = 1
    fold_accents: Annotated[bool, Field(description="BM25: 'cafe' finds 'café'")] = True
    hyphens: Annotated[
        Literal["split", "join", "both"],
        Field(description="BM25: 'log-in' is `log in` (split), `login` (join), or all three words (both)"),
    ] = "split"
    stem: Annotated[bool, Field(description="BM25: 'refunds' finds 'refunded'; English")] = True
    drop_stop_words: Annotated[bool, Field(description="BM25: 'the', 'of' and the like don't count; English")] = True

    model: Annotated[
        str | None, Field(min_length=1, description="sentence-transformers model, name or folder; default: bundled")
    ] = None

    rrf_k: Annotated[float, Field(ge=0, le=10_000, description="fusion: a larger k flattens the top ranks")] = 60.0
    weights: Annotated[Weights, Field(description="fusion: how much each ranking counts")] = Weights()

    rerank: Annotated[
        Literal["late_interaction", "cross_encoder"] | None, Field(description="order the best candidates anew")
    ] = None
    rerank_model: Annotated[
        str | None, Field(min_length=1, description="model of the reranker; a cross-encoder has no default")
    ] = None
    rerank_depth: Annotated[int, Field(ge=1, le=1000, description="candidates that are reranked")] = 50

    mmr: Annotated[
        float | None,
        Field(ge=0, le=1, description="maximal marginal relevance: 1 is relevance alone, 0 is difference alone"),
    ] = None

    routes: Annotated[tuple[Route, ...], Field(description="rules that send a query elsewhere; the first counts")] = ()
    default_route: Annotated[
        str, Field(min_length=1, description="name of the route of queries that no rule matches")
    ] = "default"

    @field_validator("aliases")
    @classmethod
    def _terms_have_words(cls, aliases: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for term, expansions in aliases.items():
            if not words(term) or not expansions or not all(map(words, expansions)):
                raise ValueError(f"term and expansions of {term!r} need at least one word each")
        return aliases

    @model_validator(mode="after")
    def _every_key_takes_effect(self) -> RetrievalConfig:
        known = {*_READS[self.kind], *(_MEANING if self.mmr is not None else ())}
        unread = (_WORDS | _MEANING | _FUSION) - known
        unread |= set() if self.rerank else {"rerank_model", "rerank_depth"}
        unread |= set() if self.routes else {"default_route"}
        if idle := sorted(unread & self.model_fields_set):
            raise ValueError(f"{', '.join(idle)}: not read by kind {self.kind} with these options")
        if self.rerank == "cross_encoder" and self.rerank_model is None:
            raise ValueError("rerank: cross_encoder needs rerank_model, the name or folder of a cross-encoder")
        names = [route.name for route in self.routes] + [self.default_route]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"route {twice[0]!r} is given twice")
        return self


class Route(Noun):
    """Queries that a rule matches, and what becomes of them."""

    name: Annotated[str, Field(min_length=1, description="as a response's `route` says it")]
    when: Annotated[str, Field(min_length=1, description="regular expression, looked for in the query in any case")]
    use: Annotated[
        RetrievalConfig | Literal["nothing"], Field(description="a retriever, or `nothing`: no retrieval is needed")
    ]

    @field_validator("when")
    @classmethod
    def _is_a_pattern(cls, when: str) -> str:
        try:
            re.compile(when)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return when

    @field_validator("use")
    @classmethod
    def _does_not_route_on(cls, use: RetrievalConfig | Literal["nothing"]) -> RetrievalConfig | Literal["nothing"]:
        if use != "nothing" and use.routes:
            raise ValueError("a route's own retriever has no routes")
        return use


RetrievalConfig.model_rebuild()
