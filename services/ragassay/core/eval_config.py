"""All that determines the numbers of an evaluation, apart from the data. A key's type, bounds, default and description stand here.

``EvalConfig`` is what anyone may set: ``ragassay.yaml`` (``config/model.py``) and a job's body (``api/submission.py``) add keys
of their own. ``RunConfig`` adds what the owner of the machine sets, in that file or as the service's operator; a report keeps it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from ragassay.core.addresses import check_bare_address
from ragassay.core.grades import LARGEST_GRADE, SMALLEST
from ragassay.core.models import Dollars, FrozenModel, Role, Usage

Correction: TypeAlias = Literal["none", "bonferroni", "holm", "benjamini_hochberg"]

CROSS_ENCODER = "cross_encoder:"
LARGEST_WEIGHT = 1e6  # of a metric in a composite one
MAX_JUDGES = 9  # of one row
MAX_SAMPLES = 10  # of one judge on one row
LARGEST_BODY = 10_000  # characters of what a request's body holds beside our own fields
_OURS = frozenset(
    """model models fallbacks messages prompt input stream n response_format tools tool_choice functions function_call
    max_tokens max_completion_tokens temperature top_p top_k frequency_penalty presence_penalty reasoning_effort seed
    """.split()
)
_ADDRESS_OR_KEY = re.compile(
    r"(?:key|token|secret|password|credentials?|authorization|headers?|url|api_?base|endpoint|host)$", re.IGNORECASE
)


def check_extra_body(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The ``extra_body``; ValueError if it changes what or who is asked, or holds a key: reports print it."""
    if taken := sorted(body.keys() & _OURS):
        raise ValueError(f"it can't set {', '.join(taken)}: that is set elsewhere or not at all")
    todo: list[Any] = [body]
    while todo:
        part = todo.pop()
        inner = list(part.values()) if isinstance(part, dict) else part if isinstance(part, list) else ()
        todo += inner
        for name in part if isinstance(part, dict) else ():
            if _ADDRESS_OR_KEY.search(name):
                raise ValueError(
                    f"it can't set {name}: addresses and keys are variables of the environment, and never here"
                )
    if len(json.dumps(body)) > LARGEST_BODY:
        raise ValueError(f"it should be at most {LARGEST_BODY:,} characters of JSON")
    return body


class Price(FrozenModel):
    """What a model costs, in USD per million tokens."""

    input_per_1m: Dollars
    output_per_1m: Dollars


class JudgeConfig(FrozenModel):
    """A judge: ``local``, a cross-encoder, the name of a plug-in's, or a model that LiteLLM can reach.

    It judges each row ``samples`` times. With the ``role`` of a reference it judges the share ``on`` of the queries, and its
    scores correct those of the other judges.
    """

    model: Annotated[str, Field(min_length=1), AfterValidator(lambda name: name.strip().removeprefix("llm:").strip())]
    samples: int = Field(1, ge=1, le=MAX_SAMPLES)
    role: Role = "judge"
    on: float | None = Field(None, gt=0, lt=1)

    @model_validator(mode="after")
    def _reference_has_a_share(self) -> Self:
        if self.role == "reference" and self.on is None:
            raise ValueError("a reference judge needs 'on', the share of the queries that it judges, such as on: 0.2")
        if self.role == "judge" and self.on is not None:
            raise ValueError("'on' is for a judge with role: reference; the others judge all rows")
        return self

    @property
    def cross_encoder(self) -> str | None:
        """Name or folder of the cross-encoder; None for another kind of judge."""
        return self.model.removeprefix(CROSS_ENCODER) if self.model.startswith(CROSS_ENCODER) else None

    @property
    def calls_model(self) -> bool:
        """Does it judge by calls to a language model, or by a plug-in that may make such calls?"""
        return self.model != "local" and self.cross_encoder is None

    def __str__(self) -> str:
        """Such as ``gpt-4o x 3``, or ``reference gpt-4o on 20%``."""
        named = self.model if self.samples == 1 else f"{self.model} x {self.samples}"
        return named if self.on is None else f"reference {named} on {self.on:.0%}"


def judge_of_text(value: object) -> object:
    """``MODEL,samples=3`` or ``{cross_encoder: MODEL}`` as the mapping that it is short for; anything else as it is."""
    if isinstance(value, Mapping) and isinstance(value.get("cross_encoder"), str) and "model" not in value:
        rest = dict(value)
        return {"model": f"{CROSS_ENCODER}{rest.pop('cross_encoder')}", **rest}
    if not isinstance(value, str):
        return value
    model, *options = value.split(",")
    judge: dict[str, str | float] = {"model": model}
    numbers: dict[str, Callable[[str], str | float]] = {"samples": int, "on": float}
    for option in options:
        key, _, text = option.strip().partition("=")
        judge[key] = text
        with suppress(ValueError):  # what is no number is refused as it is
            judge[key] = numbers.get(key, str)(text)
    return judge


HISTORY_TOKENS = 1000  # of a conversation's last turns
JudgeOrText = Annotated[JudgeConfig, BeforeValidator(judge_of_text, json_schema_input_type=str | JudgeConfig)]


class JudgePrompt(FrozenModel):
    """Instructions for the judge in a user's words: the file's name, and its text."""

    name: str
    text: str


Composite = Annotated[dict[str, Annotated[float, Field(gt=0, le=LARGEST_WEIGHT)]], Field(min_length=1, max_length=20)]


class JudgeParameters(FrozenModel):
    """What the judge's model is sent beside the messages. None: nothing is sent, and the provider's default holds."""

    temperature: float = Field(0.0, ge=0, le=2, description="how freely the judge's model draws its words")
    top_p: float | None = Field(
        None, gt=0, le=1, description="only the likeliest words that have this probability together"
    )
    top_k: int | None = Field(None, ge=1, le=10_000, description="sample from the k likeliest tokens")
    frequency_penalty: float | None = Field(None, ge=-2, le=2, description="against words that are frequent so far")
    presence_penalty: float | None = Field(None, ge=-2, le=2, description="against words that have occurred")
    reasoning_effort: str | None = Field(
        None,
        min_length=1,
        max_length=20,
        description="how long a reasoning model thinks: `low`, `medium`, `high` or what its provider calls it",
    )
    max_tokens: int | None = Field(
        None, ge=16, le=1_000_000, description="longest reply, in tokens; default: by the number of sentences"
    )


class Budget(FrozenModel):
    """The most that judge calls may spend. None: no cap."""

    usd: float | None = Field(None, gt=0, le=1_000_000_000, description="most that judge calls may cost, in USD")
    tokens: int | None = Field(None, gt=0, le=10**15, description="most tokens, input and output together")

    def over(self, spent: Usage, wanted: Usage) -> str | None:
        """The cap that ``wanted`` would exceed after ``spent``; None when it fits. A cost must be known where USD are capped."""
        if self.usd is not None and spent.cost_usd is None:
            return "the budget in USD can't be kept: some of what is spent has no known price"
        if self.usd is not None and (spent.cost_usd or 0.0) + (wanted.cost_usd or 0.0) > self.usd:
            return f"the budget of {self.usd:g} USD is reached: {spent.cost_usd or 0.0:.4f} USD are spent"
        tokens = spent.input_tokens + spent.output_tokens
        if self.tokens is not None and tokens + wanted.input_tokens + wanted.output_tokens > self.tokens:
            return f"the budget of {self.tokens:,} tokens is reached: {tokens:,} are spent"
        return None


class Statistics(FrozenModel):
    """How far numbers can be trusted."""

    intervals: bool = Field(True, description="give means, costs and differences an interval")
    tests: bool = Field(True, description="test differences; false: a comparison has means and differences alone")
    confidence: float = Field(0.95, gt=0.5, le=0.9999, description="level of the intervals")
    alpha: float = Field(
        0.05,
        ge=0.0001,
        lt=0.5,
        description="a difference is shown if p is at most this; a gate's interval of a drop is at level 1 - alpha",
    )
    correction: Correction = Field(
        "holm", description="of p for the number of tests: `holm`, `bonferroni`, `benjamini_hochberg` or `none`"
    )


class Performance(FrozenModel):
    """How fast it goes. Nothing here changes a number."""

    concurrency: int = Field(8, ge=1, le=256, description="judge calls at once")
    timeout_s: float = Field(60.0, gt=0, le=3600, description="seconds that a judge call may take")
    attempts: int = Field(5, ge=1, le=20, description="how often a judge call is tried in all when its provider fails")
    provider_outage_timeout_s: float = Field(
        600.0, gt=0, le=86_400, description="seconds that a provider may fail before the rows left are given up"
    )
    cache: bool = Field(True, description="take finished judge calls from earlier runs")
    batch: int = Field(50, ge=1, le=1000, description="rows that are evaluated and stored at once")


class EvalConfig(FrozenModel):
    """All that determines the numbers of an evaluation, apart from the data, and that a job of a service may set."""

    name: str | None = Field(
        None, min_length=1, max_length=200, description="name of the run; default: that of the data"
    )
    metrics: tuple[str, ...] | None = Field(
        None,
        max_length=200,
        description="metrics to compute; default: every usual metric that the rows have the input for",
        examples=[["ndcg@10", "mrr", "faithfulness", "correctness", "accurate"]],
    )
    judge: JudgeOrText | None = Field(
        None,
        exclude=True,
        description="the only judge: `local`, a model that LiteLLM supports, or `{cross_encoder: MODEL}`; short for "
        "`judges: [{model: ...}]`",
    )
    judges: tuple[JudgeOrText, ...] = Field(
        (JudgeConfig(model="local"),),
        min_length=1,
        max_length=MAX_JUDGES,
        description="all judges: each has a `model` or `cross_encoder`, and `samples` if its verdict is drawn several times; "
        "several vote. With `role: reference` and `on: 0.2` a judge judges that share of the queries and corrects the means",
        examples=[[{"model": "gpt-4o-mini", "samples": 3}, {"model": "gpt-4o", "role": "reference", "on": 0.2}]],
    )
    judge_mode: Literal["verdict", "probe"] = Field(
        "verdict", description="how a model is asked: for one verdict, or by yes-or-no questions"
    )
    history_tokens: int = Field(
        HISTORY_TOKENS,
        ge=0,
        le=1_000_000,
        description="tokens of a conversation's last turns that the judge reads, about four characters each; 0: none",
    )
    seed: int = Field(0, ge=0, lt=2**32, description="seed of the judge and of every random draw")
    accurate: str = Field(
        "correctness >= 0.5 else semantic_similarity >= 0.8",
        max_length=1000,
        description="the rule by which an answer counts as accurate",
    )
    criteria: dict[str, Annotated[str, Field(max_length=500)]] = Field(
        {},
        max_length=10,
        description="further metrics in your own words, by name; a model judges them in the same call",
        examples=[{"polite": "The answer is polite and addresses the reader directly."}],
    )
    composites: dict[str, Composite] = Field(
        {},
        max_length=20,
        description="further metrics made of others, by name: a weighted mean (`{faithfulness: 2, relevance: 1}`)",
        examples=[{"quality": {"faithfulness": 2, "relevance": 1}}],
    )
    relevant_from: float | None = Field(
        None, ge=SMALLEST, le=LARGEST_GRADE, description="grade from which a document is relevant; default: any above 0"
    )
    max_grade: float = Field(3.0, ge=SMALLEST, le=LARGEST_GRADE, description="the highest grade")
    graded: bool = Field(True, description="use grades of relevance; false: a relevant document counts 1")
    max_failed_share: float = Field(
        0.05,
        ge=0,
        le=1,
        description="largest share of rows per metric, of responses, or of a reference judge, that may fail; beyond it: "
        "exit code 3",
    )
    parameters: JudgeParameters = Field(
        JudgeParameters(),
        description="what the judge's model is sent beside the messages; what its provider refuses is left out",
    )
    prices: dict[str, Price] = Field(
        {},
        description="USD per million tokens, by model: `input_per_1m` and `output_per_1m`",
        examples=[{"my-model": {"input_per_1m": 0.15, "output_per_1m": 0.6}}],
    )
    budget: Budget = Field(
        Budget(),
        description="the most that judge calls, and answers of built-in systems, may spend; then the run waits",
    )
    statistics: Statistics = Field(Statistics(), description="how far numbers can be trusted")
    performance: Performance = Field(Performance(), description="how fast it goes; changes no number")

    @model_validator(mode="after")
    def _one_way_to_name_judges(self) -> Self:
        """``judge`` is a short form and stands nowhere else: what follows reads ``judges``."""
        if self.judge is not None:
            if "judges" in self.model_fields_set:
                raise ValueError("judge is short for judges: [{model: ...}]; write one of the two")
            self.__dict__ |= {"judge": None, "judges": (self.judge,)}
            self.__pydantic_fields_set__.remove("judge")
            self.__pydantic_fields_set__.add("judges")
        return self

    @property
    def highest_grade(self) -> float | None:
        """The grade beyond which a row is bad; None where every relevant document counts 1."""
        return self.max_grade if self.graded else None

    @property
    def scorers(self) -> tuple[JudgeConfig, ...]:
        """The judges of all rows, whose verdict the scores follow from."""
        return tuple(one for one in self.judges if one.role == "judge")

    @property
    def references(self) -> tuple[JudgeConfig, ...]:
        """The judges of a share of the rows, whose scores correct the others'."""
        return tuple(one for one in self.judges if one.role == "reference")

    @property
    def is_local(self) -> bool:
        """Does judging call no language model?"""
        return not any(one.calls_model for one in self.judges)

    @property
    def judged_by(self) -> str:
        """The judges as lists and trends name them."""
        return " + ".join(map(str, self.judges))

    @property
    def corrected_by(self) -> str:
        """What means are corrected by: ``labels``, or rows that reference judges judged."""
        return f"rows by {' + '.join(one.model for one in self.references)}" if self.references else "labels"


class RunParameters(JudgeParameters):
    """With the fields that only one provider knows."""

    extra_body: Annotated[dict[str, Any], AfterValidator(check_extra_body)] = Field(
        {},
        description="fields that only this provider knows, added to the body of each request unchanged",
        examples=[{"chat_template_kwargs": {"enable_thinking": False}}],
    )


class RunPerformance(Performance):
    """With the limits that all evaluations of a machine, or all workers of a service, share."""

    requests_per_minute: int | None = Field(
        None,
        ge=1,
        le=10**6,
        description="most requests to the judge's model in a minute; in a service, of all its workers",
    )
    tokens_per_minute: int | None = Field(
        None, ge=1, le=10**9, description="most tokens that these requests may take in a minute"
    )


class RunConfig(EvalConfig):
    """With what decides where requests go and what they hold: the effective configuration of a report."""

    judge_prompt: JudgePrompt | None = Field(
        None, description="instructions for the judge's model around ours, which are inserted at `{{ verdict }}`"
    )
    api_base: Annotated[str, AfterValidator(check_bare_address)] | None = Field(
        None, description="address of an OpenAI-compatible provider"
    )
    embeddings: str | None = Field(
        None,
        min_length=1,
        description="a sentence-transformers model, folder or name, in place of the bundled all-MiniLM-L6-v2; needs the "
        "extra `models`",
        examples=["sentence-transformers/all-mpnet-base-v2"],
    )
    bertscore_model: str | None = Field(
        None,
        min_length=1,
        description="a model that `bertscore_f1` reads by bert-score, folder or name, not the bundled one; needs the extra "
        "`models`",
        examples=["microsoft/deberta-xlarge-mnli"],
    )
    parameters: RunParameters = Field(
        RunParameters(),
        description="what the judge's model is sent beside the messages; what its provider refuses is left out",
    )
    performance: RunPerformance = Field(RunPerformance(), description="how fast it goes; changes no number")


DEFAULTS = RunConfig()
