"""The data models: queries, responses, verdicts, scores, usage and results."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ragassay.core.grades import LARGEST_GRADE, SMALLEST

Support = Literal["supported", "partly", "contradicted", "not_found"]
Truth = Literal["agrees", "conflicts", "absent"]
Covered = Literal["yes", "partly", "no"]
Step = Literal["none", "barely", "partly", "mostly", "full"]
MissingCause = Literal["no_input", "undefined", "failed"]
Role = Literal["judge", "reference"]
PEOPLE = "people"  # the rater whose labels come with responses, or from the page where people label
LARGEST_NUMBER = 1e100  # of what is computed: squares and sums over many rows stay numbers
MAX_DOCUMENTS = 1_000_000  # of one query
MAX_TURNS = 1000  # of the conversation before one query
TEXT_KEYS = ("text", "content", "page_content")  # of a context that comes as a document
YEARS_1_TO_9999 = (-62_135_596_800, 253_402_300_800)  # seconds since 1970
EMPTY: Any = Field(default_factory=dict, json_schema_extra={"default": {}})  # {} would be copied deeply, in 1 us


class FrozenModel(BaseModel):
    """Frozen, closed to unknown fields, and free of NaN and infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _as_text(value: object) -> object:
    """Ids are opaque and compared as strings, so a number becomes its text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _as_list(value: object) -> object:
    """One or several: a lone string is a list of one; None is an empty list."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else value


def _as_context(value: object) -> object:
    """A context may come as a document object; its text is what counts."""
    if isinstance(value, Mapping):
        for key in TEXT_KEYS:
            if isinstance(value.get(key), str):
                return value[key]
    return value


def _zero_or_at_least(least: float) -> AfterValidator:
    """What is nearer to 0 is refused: a number divided by it may be none."""

    def check(value: float) -> float:
        if 0 < abs(value) < least:
            raise ValueError(f"should be 0 or at least {least:g}, is the number {value}")
        return value

    return AfterValidator(check)


def seconds(timestamp: str | float) -> float:
    """Seconds since 1970 of such a number, or of an ISO 8601 date or time, in UTC unless it has an offset."""
    if not isinstance(timestamp, str):
        earliest, latest = YEARS_1_TO_9999
        if not earliest <= timestamp <= latest:
            raise ValueError(f"{timestamp!r} lies outside the years 1 to 9999; write seconds since 1970")
        return timestamp
    try:
        time = datetime.fromisoformat(timestamp)
    except ValueError:
        raise ValueError(f"{timestamp!r} is neither an ISO 8601 date nor seconds since 1970") from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


_ONE_OR_MANY = BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
Id = Annotated[str, Field(min_length=1), BeforeValidator(_as_text)]
Context = Annotated[str, BeforeValidator(_as_context)]
Texts = Annotated[tuple[str, ...], Field(max_length=1000), BeforeValidator(_as_list)]
Contexts = Annotated[Annotated[tuple[Context, ...], Field(max_length=2000)] | None, _ONE_OR_MANY]
DocumentIds = Annotated[Annotated[tuple[Id, ...], Field(max_length=MAX_DOCUMENTS)] | None, _ONE_OR_MANY]
Grade = Annotated[float, Field(ge=-LARGEST_GRADE, le=LARGEST_GRADE), _zero_or_at_least(SMALLEST)]
TokenCount = Annotated[int, Field(ge=0, le=10**12)]
Milliseconds = Annotated[float, Field(ge=0, le=10**9), _zero_or_at_least(SMALLEST)]
Dollars = Annotated[float, Field(ge=0, le=10**6), _zero_or_at_least(SMALLEST)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Chance = Annotated[float, Field(ge=0, le=1)]
History = Annotated[tuple["Message", ...], Field(max_length=MAX_TURNS)]
ReferenceLabels = dict[str, Chance]  # by metric, what people say
Amount = Annotated[float, Field(ge=0, le=LARGEST_NUMBER), _zero_or_at_least(1 / LARGEST_NUMBER)]


class Message(FrozenModel):
    """An earlier turn of a conversation. ``role``: such as ``user``, ``assistant``, ``system`` or ``tool``."""

    role: Annotated[str, Field(min_length=1, max_length=100)]
    content: str


class RequestTiming(FrozenModel):
    """How a live system was asked for one response.

    ``attempts``: requests that were made, the last one included. ``queue_ms``: from when the query was due until one of
    the ``concurrency`` was free, under a ``rate`` only. ``wall_ms``: wall time since the answer before this one, so
    that those of a run add up to the time that was spent asking.
    """

    attempts: Count = 1
    queue_ms: Amount = 0.0
    wall_ms: Amount = 0.0
    warm_up: bool = False


class Response(FrozenModel):
    """The output of a system under test for one query. Latencies in ms, cost in USD; None is unknown, not zero.

    ``timing``: how a run asked for it, if one did.
    """

    answer: str | None = None
    contexts: Contexts = None
    retrieved_doc_ids: DocumentIds = None
    doc_ids_before_reranking: DocumentIds = None
    retrieved_scores: tuple[Annotated[float, Field(ge=-1e40, le=1e40)], ...] | None = None
    model: str | None = None
    input_tokens: TokenCount | None = None
    output_tokens: TokenCount | None = None
    cost_usd: Dollars | None = None
    latency_ms: Milliseconds | None = None
    first_token_ms: Milliseconds | None = None
    retrieval_latency_ms: Milliseconds | None = None
    generation_latency_ms: Milliseconds | None = None
    route: str | None = None
    clicks: DocumentIds = None
    dwell_ms: Milliseconds | None = None
    reference_labels: ReferenceLabels = EMPTY
    error: str | None = None
    metadata: dict[str, Any] = EMPTY
    timing: RequestTiming | None = None

    @field_validator("retrieved_doc_ids", "doc_ids_before_reranking")
    @classmethod
    def _no_duplicates(cls, ids: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if ids is not None and len(set(ids)) < len(ids):
            twice = next(i for i, count in Counter(ids).items() if count > 1)
            raise ValueError(f"document id {twice!r} is listed twice (set duplicates=keep_first)")
        return ids

    @model_validator(mode="after")
    def _scores_match_ids(self) -> Response:
        ids, scores = self.retrieved_doc_ids, self.retrieved_scores
        if scores is not None and len(scores) != len(ids or ()):
            raise ValueError(f"retrieved_scores has {len(scores)} entries, retrieved_doc_ids {len(ids or ())}")
        return self


class Sample(FrozenModel):
    """One query with its ground truth and, once a system has answered, its response.

    ``history``: the turns before the query, oldest first. ``conversation_id``: shared by the queries of one conversation.
    """

    query_id: Id
    query: Annotated[str, Field(min_length=1)]
    history: History = ()
    conversation_id: Id | None = None
    ground_truth_answer: Texts = ()
    key_facts: Texts = ()
    relevant_doc_ids: DocumentIds = None
    relevance_scores: Annotated[dict[Id, Grade], Field(max_length=MAX_DOCUMENTS)] | None = None
    primary_relevant: Id | None = None
    reference_contexts: Contexts = None
    category: Annotated[str | None, AfterValidator(lambda c: "troubleshooting" if c == "troubleshoot" else c)] = None
    difficulty: str | None = None
    description: str | None = None
    split: str | None = None
    answerable: bool | None = None
    best_route: str | None = None
    retrieval_needed: bool | None = None
    subtopics: Annotated[dict[Id, tuple[str, ...]], Field(max_length=10_000)] | None = None
    doc_timestamps: Annotated[dict[Id, str | float], Field(max_length=MAX_DOCUMENTS)] | None = None
    labels: dict[str, Any] = EMPTY
    metadata: dict[str, Any] = EMPTY
    response: Response | None = None

    @field_validator("query")
    @classmethod
    def _query_is_not_blank(cls, query: str) -> str:
        if not query.strip():
            raise ValueError("the query is blank")
        return query

    @field_validator("doc_timestamps")
    @classmethod
    def _times(cls, timestamps: dict[str, str | float] | None) -> dict[str, str | float] | None:
        for timestamp in (timestamps or {}).values():
            seconds(timestamp)
        return timestamps

    @property
    def judgments(self) -> dict[str, float] | None:
        """Grade of each judged document: the given scores; ids without one count 1. None: nothing was judged."""
        if self.relevant_doc_ids is None and self.relevance_scores is None:
            return None
        return {**dict.fromkeys(self.relevant_doc_ids or (), 1.0), **(self.relevance_scores or {})}

    @property
    def answer(self) -> str | None:
        """What the system answered; None without a response."""
        return self.response.answer if self.response else None

    @property
    def contexts(self) -> tuple[str, ...] | None:
        """What the system read before it answered, in retrieved order."""
        return self.response.contexts if self.response else None

    @property
    def retrieved_doc_ids(self) -> tuple[str, ...] | None:
        """Ids of the retrieved documents, best first."""
        return self.response.retrieved_doc_ids if self.response else None


class Score(FrozenModel):
    """A number, or no number and the reason why. Never NaN."""

    value: Annotated[float, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)] | None = None
    reason: str | None = None
    missing: MissingCause | None = None
    details: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _missing_has_a_reason(self, _: ValidationInfo) -> Score:
        if self.value is None and not (self.reason and self.missing):
            raise ValueError("a missing score needs a reason and a cause")
        if self.value is not None and self.missing:
            raise ValueError("a score with a value is not missing")
        return self

    @classmethod
    def absent(cls, reason: str, cause: MissingCause = "undefined") -> Score:
        """No score: ``no_input`` (the row lacks it), ``undefined`` (by definition) or ``failed`` (something broke)."""
        return cls(reason=reason, missing=cause)


class Usage(FrozenModel):
    """What calls to a provider spent. A cost of None means that at least one call has no known price."""

    calls: Count = 0
    cache_hits: Count = 0
    retries: Count = 0
    uncertain_calls: Count = 0
    input_tokens: Count = 0
    output_tokens: Count = 0
    cost_usd: Amount | None = 0.0
    latency_ms: Amount = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage.total((self, other))

    @classmethod
    def total(cls, usages: Iterable[Usage]) -> Usage:
        """The exact sum, whatever the order."""
        usages = list(usages)
        whole = {n: sum(getattr(u, n) for u in usages) for n in cls.model_fields if n not in ("cost_usd", "latency_ms")}
        costs = [u.cost_usd for u in usages]
        known = [c for c in costs if c is not None]
        cost = math.fsum(known) if len(known) == len(costs) else None
        return cls(**whole, cost_usd=cost, latency_ms=math.fsum(u.latency_ms for u in usages))


class SentenceVerdict(FrozenModel):
    """One sentence of the answer: do the contexts support it, and does it agree with the ground truth?

    ``support_score`` and ``truth_score``: the probability of a yes, from a judge that was asked yes or no
    (``judge_mode: probe``); a metric counts them in place of the label.
    """

    id: str
    text: str
    support: Support | None = None
    evidence: tuple[str, ...] = ()
    truth: Truth | None = None
    why: str = ""
    support_score: Chance | None = None
    truth_score: Chance | None = None


class FactVerdict(FrozenModel):
    """One key fact of the ground truth: does the answer cover it, and where do the contexts hold it?

    ``covered_score``: the probability of a yes; see ``SentenceVerdict``.
    """

    id: str
    text: str
    covered: Covered | None = None
    evidence: tuple[str, ...] = ()
    why: str = ""
    covered_score: Chance | None = None


class CriterionVerdict(FrozenModel):
    """One criterion in the user's words: how far does the answer meet it?"""

    id: str
    name: str
    step: Step | None = None
    why: str = ""


class Verdict(FrozenModel):
    """A judge's verdict on one sample. What was not asked, or not answered, is None.

    ``answerable`` False: the query can't be answered, so that there is no ground truth and a refusal is right.
    ``probability``: by metric, the chance that people would call the whole answer so, where the judge can tell.
    """

    judge: str
    sentences: tuple[SentenceVerdict, ...] = ()
    facts: tuple[FactVerdict, ...] = ()
    relevance: Step | None = None
    refusal: bool | None = None
    criteria: tuple[CriterionVerdict, ...] = ()
    why: str = ""
    answerable: bool = True
    has_contexts: bool = False
    has_truth: bool = False
    suspicious: tuple[str, ...] = ()
    probability: dict[str, Chance] = EMPTY


class Rating(FrozenModel):
    """One opinion on one row: of a judge, of one of its draws, of a reference judge, or of people.

    ``rater``: the judge's name, or ``people``. ``sample``: its number, from 1, where a judge rates a row several times. A
    rating of a judge without ``verdict`` failed, and ``reason`` says why. ``scores``: by metric, what people say, or what the
    row would score by this rating alone. ``waste``: usage of replies that could not be used. ``left_out``: what the judge
    asked of its provider and that does not take.
    """

    rater: str = ""
    role: Role = "judge"
    sample: Annotated[int, Field(ge=1)] = 1
    verdict: Verdict | None = None
    reason: str | None = None
    usage: Usage = Usage()
    waste: Usage = Usage()
    left_out: tuple[str, ...] = ()
    scores: dict[str, float] = EMPTY


class Result(FrozenModel):
    """All that is known of one query and one system after evaluation; a chunk's results are stored at once.

    ``duration_ms``: its own response and judge calls, and an equal share of what is computed for the chunk at once.
    ``verdict``: the one that its judges' ratings make together. ``ratings``: all of them where there are several, those of
    reference judges included, and what people say; the rating of a judge that is alone is the row's verdict.
    """

    query_id: str
    system: str
    query: str
    history: History = ()
    conversation_id: str | None = None
    answer: str | None = None
    ground_truth_answer: tuple[str, ...] = ()
    category: str | None = None
    difficulty: str | None = None
    metadata: dict[str, Any] = EMPTY
    retrieved_doc_ids: tuple[str, ...] | None = None
    number_of_results: Count | None = None
    responded: bool = True
    error: str | None = None
    answerable: bool | None = None
    model: str | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cost_usd: Amount | None = None
    priced_by_us: bool = False
    latency_ms: Amount | None = None
    first_token_ms: Amount | None = None
    retrieval_latency_ms: Amount | None = None
    generation_latency_ms: Amount | None = None
    timing: RequestTiming | None = None
    relevant: int | None = None
    relevant_ranks: tuple[int, ...] | None = None
    scores: dict[str, Score] = EMPTY
    ratings: tuple[Rating, ...] = ()
    verdict: Verdict | None = None
    evaluation: Usage = Usage()
    waste: Usage = Usage()
    left_out: tuple[str, ...] = ()
    duration_ms: Amount = 0.0

    @property
    def failed(self) -> bool:
        """Did its response fail, or lacks it a score because something broke, rather than for want of an input?"""
        return self.error is not None or any(score.missing == "failed" for score in self.scores.values())

    def label(self, metric: str) -> float | None:
        """What people say of a metric; without them the mean of what the row scores by its reference judges."""
        references = [one for one in self.ratings if one.role == "reference" and metric in one.scores]
        people = [one for one in references if one.rater == PEOPLE]
        labels = [one.scores[metric] for one in people or references]
        return math.fsum(labels) / len(labels) if labels else None

    @property
    def labels(self) -> dict[str, float]:
        """``label`` of each metric that has one."""
        names = {name for one in self.ratings if one.role == "reference" for name in one.scores}
        return {name: label for name in names if (label := self.label(name)) is not None}

    def with_labels(self, labels: Mapping[str, float]) -> Result:
        """The row with what people say of it, by metric, in addition to what they said before."""
        before = next((one for one in self.ratings if one.rater == PEOPLE), Rating(rater=PEOPLE, role="reference"))
        people = before.model_copy(update={"scores": {**before.scores, **labels}})
        judges = (one for one in self.ratings if one.rater != PEOPLE)
        return self.model_copy(update={"ratings": (*judges, people)})

    @property
    def by_reference_judges(self) -> tuple[Rating, ...]:
        """The ratings of reference judges; none if none was asked about the row."""
        return tuple(one for one in self.ratings if one.role == "reference" and one.rater != PEOPLE)

    @property
    def reference_failure(self) -> str | None:
        """Why no reference judge that was asked gave a verdict; None if one did, or none was asked."""
        ratings = self.by_reference_judges
        if not ratings or any(one.verdict for one in ratings):
            return None
        return ratings[0].reason or "it gave no verdict"

    def samples(self, metric: str) -> tuple[tuple[float, ...], ...]:
        """For each judge that rated the row several times, what the row scores by each of these ratings alone."""
        by_rater: dict[str, list[float]] = {}
        for one in self.ratings:
            if one.role == "judge" and metric in one.scores:
                by_rater.setdefault(one.rater, []).append(one.scores[metric])
        return tuple(tuple(scores) for scores in by_rater.values() if len(scores) > 1)
