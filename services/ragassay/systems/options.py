"""How a built-in retriever is configured. Every key takes effect: one that the kind does not read is refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from annotated_types import Predicate
from pydantic import BaseModel, Discriminator, Field, Tag, model_validator

from ragassay.core.addresses import check_bare_address
from ragassay.core.models import FrozenModel

RetrieverKind = Literal["bm25", "dense", "hybrid"]

# In pydantic's path to a wrong key; of no use to a reader of an error, so the configuration leaves them out.
WORD, KEYS, ENDPOINT, FUNCTION = "(word)", "(keys)", "(endpoint)", "(function)"
CHAT, REGISTERED = "(chat)", "(registered)"
WORD_OR_KEYS = Discriminator(lambda given: KEYS if isinstance(given, dict | BaseModel) else WORD)


class RetrievalConfig(FrozenModel):
    """A retriever: how candidates are found, then reranked, then made diverse."""

    kind: RetrieverKind = Field(description="how candidates are found")
    k1: float = Field(1.2, ge=0, le=10, description="BM25: how soon a repeated word stops counting")
    b: float = Field(0.75, ge=0, le=1, description="BM25: how far long passages are discounted")
    model: str | None = Field(
        None, min_length=1, description="sentence-transformers model, name or folder; default: bundled"
    )
    feedback: int = Field(
        0, ge=0, le=100, description="search twice: this many of the first passages are added to the query"
    )
    rerank: str | None = Field(
        None, min_length=1, description="a cross-encoder, name or folder, that orders the best 50 candidates again"
    )
    mmr: float | None = Field(
        None, ge=0, le=1, description="maximal marginal relevance: 1 is relevance alone, 0 is difference alone"
    )

    @model_validator(mode="after")
    def _every_key_takes_effect(self) -> RetrievalConfig:
        unused = {"k1", "b"} if self.kind == "dense" else set[str]()
        if self.kind == "bm25" and self.mmr is None:
            unused.add("model")
        fields = type(self).model_fields
        if found := sorted(key for key in unused if getattr(self, key) != fields[key].default):
            raise ValueError(f"{', '.join(found)}: not read by kind {self.kind} with these options")
        return self


class AnswerModel(FrozenModel):
    """A language model that answers from the passages that were retrieved."""

    model: str = Field(min_length=1, description="a model that LiteLLM supports")
    api_base: Annotated[str | None, Predicate(check_bare_address)] = Field(
        None, description="address of an OpenAI-compatible provider"
    )
    max_tokens: int = Field(400, ge=1, le=100_000, description="longest answer")
    parameters: dict[str, str | float | bool | dict[str, Any]] = Field(
        default_factory=dict, description="parameters for the provider, in addition to temperature 0 and the seed"
    )


class SystemConfig(RetrievalConfig):
    """A system under test that ragassay runs itself: a retriever and, where one is wanted, what answers."""

    k: int = Field(10, ge=1, le=1000, description="passages that are retrieved")
    contexts: int = Field(5, ge=0, le=100, description="passages, of those, that are read for the answer")
    answer: Annotated[
        Annotated[AnswerModel, Tag(KEYS)] | Annotated[Literal["extractive"] | None, Tag(WORD)], WORD_OR_KEYS
    ] = Field(None, description="`extractive` (sentences of the passages), or a model; default: no answer")
    concurrency: int = Field(4, ge=1, le=256, description="queries at once")
    timeout_s: float = Field(30.0, gt=0, le=3600, description="seconds that one query may take")
