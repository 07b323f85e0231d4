"""The options of an evaluation, each declared once: type, bounds, default, what it does, and who may set it.

The configuration document, a run's specification, the command line, the variables ``RAGASSAY_*``, the JSON schemas,
``ragassay init`` and the pages take them from here. Without pydantic, so that ``ragassay --help`` stays fast: the
models inherit these classes, and pydantic takes their annotations and defaults as its own.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_type_hints
from urllib.parse import urlsplit

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, Predicate

from ragassay.limits import LARGEST_GRADE, SMALLEST

if TYPE_CHECKING:
    from pydantic import BaseModel as Declarations  # what they are once a model inherits them
else:
    Declarations = object

HALF_LIFE_DAYS = 365.0
LARGEST_BODY = 10_000  # characters of what a request's body holds beside our own fields


@dataclass(frozen=True)
class Option:
    """What is known of an option beside its type, bounds and default.

    ``flags``: its names on the command line, the long one last. ``usage`` is its help there where ``about`` does not
    fit. ``variable``: ``RAGASSAY_<KEY>`` sets it. ``set_by``: a ``job`` may bring it in its body; what is about
    ``files`` stays on the machine that reads them; the ``operator`` of a service decides the rest.
    ``resumable``: ``--resume`` takes it. ``example``: a line, or lines, of a configuration.
    """

    about: str
    _: KW_ONLY
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    usage: str | None = None
    variable: bool = False
    set_by: Literal["job", "files", "operator"] = "job"
    resumable: bool = False
    example: str | None = None

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return {**handler(schema), "description": self.about}


def is_address(text: str | None) -> bool:
    """True for an address that can be connected to, and for none; ValueError where its host or port can't be read."""
    try:
        urlsplit(text if "://" in (text or "") else f"//{text}").port  # noqa: B018 - it raises
    except ValueError:  # whose text may hold a part of the password
        raise ValueError("no address: write http://HOST:PORT, the port a number up to 65535") from None
    return True


SYSTEMS = Option(
    "by its name, a file of responses or a built-in system; without any, the responses in the data",
    flags=("--system",),
    metavar="NAME=FILE",
    usage="responses of a system; repeatable",
    set_by="files",
    example="systems: {ours: responses/ours.jsonl, bm25: {kind: bm25, answer: extractive}}",
)


class FileOptions(Declarations):
    """What is read and written."""

    data: Annotated[
        Path | None, Option("queries, with or without responses", set_by="files", example="data: queries.jsonl")
    ] = None
    corpus: Annotated[
        Path | None,
        Option("passages that built-in systems search, as JSON lines", set_by="files", example="corpus: corpus.jsonl"),
    ] = None
    systems: Annotated[dict[str, Any], SYSTEMS]  # Configuration declares what a system is, and its default
    format: Annotated[
        Literal["auto", "json", "jsonl", "csv", "tsv", "parquet", "trec"],
        Option("format of the files", flags=("--format",), set_by="files"),
    ] = "auto"
    map: Annotated[
        dict[str, str],
        Option(
            "their column for each of our fields that isn't recognized",
            flags=("--map",),
            metavar="OURS=THEIRS",
            usage="column of a field that isn't recognized; repeatable",
            set_by="files",
            example="map: {answer: reply}",
        ),
    ] = {}  # noqa: RUF012 - a default of a model
    duplicates: Annotated[
        Literal["error", "keep_first"],
        Option("what becomes of a document that a response lists twice", flags=("--duplicates",), set_by="files"),
    ] = "error"
    limit: Annotated[
        int | None,
        Ge(1),
        Le(10**12),
        Option(
            "only the first so many rows; default: all", flags=("--limit",), metavar="N", variable=True, set_by="files"
        ),
    ] = None
    plugins: Annotated[
        tuple[str, ...],
        Option(
            "Python files and modules that register metrics; they are run",
            flags=("--import",),
            metavar="FILE.py|MODULE",
            usage="run a file, or import a module, that registers metrics; repeatable",
            set_by="files",
            resumable=True,
            example="plugins: [metrics/own.py, our_package.metrics]",
        ),
    ] = ()
    output: Annotated[
        tuple[Path, ...],
        Option(
            "report files; the extension picks the format",
            flags=("-o", "--output"),
            metavar="FILE",
            set_by="files",
            resumable=True,
            example="output: [report.json, report.md]",
        ),
    ] = ()


class JobOptions(Declarations):
    """What determines the numbers of an evaluation, apart from the data."""

    name: Annotated[
        str | None,
        MinLen(1),
        MaxLen(200),
        Option("name of the runs; default: that of the data", flags=("--name",), metavar="NAME"),
    ] = None
    metrics: Annotated[
        tuple[str, ...] | None,
        MaxLen(200),
        Option(
            "what to compute; default: every usual metric that the rows have the input for",
            flags=("--metrics",),
            metavar="A,B",
            usage="metrics to compute; see: ragassay metrics; default: every usual one that the rows have the input for",
            variable=True,
            example="metrics: [ndcg@10, mrr, faithfulness, correctness, accurate]",
        ),
    ] = None
    judge: Annotated[
        str,
        MinLen(1),
        Option(
            "judge: `local`, or a model that LiteLLM supports", flags=("--judge",), metavar="local|MODEL", variable=True
        ),
    ] = "local"
    api_base: Annotated[
        str | None,
        Predicate(is_address),
        Option(
            "address of an OpenAI-compatible provider",
            flags=("--api-base",),
            metavar="URL",
            variable=True,
            set_by="operator",
            resumable=True,
        ),
    ] = None
    passes: Annotated[Literal[1, 2], Option("how often the judge is asked about each row", variable=True)] = 1
    context_window: Annotated[
        int | None,
        Ge(256),
        Le(100_000_000),
        Option(
            "tokens that the judge's model reads, its reply included; rows that are longer get a warning; "
            "default: that of LiteLLM's table",
            example="context_window: 4096",
        ),
    ] = None
    seed: Annotated[
        int,
        Ge(0),
        Lt(2**32),
        Option("seed of the judge and of every random draw", flags=("--seed",), metavar="N", variable=True),
    ] = 0
    accurate: Annotated[
        str,
        MaxLen(1000),
        Option("the rule by which an answer counts as accurate", flags=("--accurate",), metavar="RULE", variable=True),
    ] = "correctness >= 0.5 else semantic_similarity >= 0.8"
    criteria: Annotated[
        dict[str, Annotated[str, MaxLen(500)]],
        MaxLen(10),
        Option(
            "further metrics of the judge's verdict, in your own words, by name; a model judges them in the same call",
            flags=("--criterion",),
            metavar="NAME=TEXT",
            usage="a criterion in your own words that a model judges answers by; repeatable",
            example='criteria: {polite: "The answer is polite and addresses the reader directly."}',
        ),
    ] = {}  # noqa: RUF012 - a default of a model
    relevant_from: Annotated[
        float | None,
        Ge(SMALLEST),
        Le(LARGEST_GRADE),
        Option("grade from which a document is relevant; default: any above 0"),
    ] = None
    max_grade: Annotated[
        float,
        Ge(SMALLEST),
        Le(LARGEST_GRADE),
        Option("the highest grade that there is", flags=("--max-grade",), metavar="X"),
    ] = 3.0
    graded: Annotated[bool, Option("use grades of relevance; false: what is relevant counts 1")] = True
    stop_when: Annotated[
        str | None,
        Option(
            "ends judging early: `width <= 0.1` or `decided against baseline`, metric names may stand before",
            flags=("--stop-when",),
            metavar="RULE",
            example="stop_when: correctness width <= 0.1",
        ),
    ] = None
    half_life_days: Annotated[
        float, Ge(0.001), Le(1_000_000), Option("days after which time_decayed_ndcg counts a document half")
    ] = HALF_LIFE_DAYS
    max_missing: Annotated[
        float,
        Ge(0),
        Le(1),
        Option(
            "largest share of rows per metric, or of a called system's responses, that may fail; beyond it: exit code 3",
            flags=("--max-missing",),
            metavar="X",
            variable=True,
        ),
    ] = 0.05
    baseline: Annotated[
        str | None,
        Option(
            "run, RUN#SYSTEM or report file that gates compare with; `stop_when` takes a system's name too",
            flags=("--baseline",),
            metavar="SYSTEM|RUN",
            usage="what --stop-when decides against: a system, a run, RUN#SYSTEM or a report file",
            variable=True,
            example="baseline: last-release.json",
        ),
    ] = None


_OURS = frozenset(
    """model models fallbacks messages prompt input stream n response_format tools tool_choice functions function_call
    max_tokens max_completion_tokens temperature top_p top_k frequency_penalty presence_penalty reasoning_effort seed
    """.split()
)
_ADDRESS_OR_KEY = re.compile(
    r"(?:key|token|secret|password|credentials?|authorization|headers?|url|api_?base|endpoint|host)$", re.IGNORECASE
)


def is_extra(body: Mapping[str, Any]) -> bool:
    """True for an ``extra_body``; ValueError where it changes what or who is asked, or holds a key: reports print it."""
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
    return True


class ParameterOptions(Declarations):
    """What the judge's model is sent beside the messages. None: nothing is sent, and the provider's default holds."""

    temperature: Annotated[float, Ge(0), Le(2), Option("how freely the judge's model draws its words")] = 0.0
    top_p: Annotated[
        float | None, Gt(0), Le(1), Option("only the likeliest words that have this probability together")
    ] = None
    top_k: Annotated[int | None, Ge(1), Le(10_000), Option("only so many of the likeliest words")] = None
    frequency_penalty: Annotated[float | None, Ge(-2), Le(2), Option("against words that are frequent so far")] = None
    presence_penalty: Annotated[float | None, Ge(-2), Le(2), Option("against words that have occurred")] = None
    reasoning_effort: Annotated[
        str | None,
        MinLen(1),
        MaxLen(20),
        Option("how long a model thinks that can: `low`, `medium`, `high` or what its provider calls it"),
    ] = None
    max_tokens: Annotated[
        int | None, Ge(16), Le(1_000_000), Option("longest reply, in tokens; default: by the number of sentences")
    ] = None
    extra_body: Annotated[
        dict[str, Any],
        Predicate(is_extra),
        Option(
            "what only this provider knows, put into the body of each request as it is",
            set_by="operator",
            example="extra_body: {chat_template_kwargs: {enable_thinking: false}}",
        ),
    ] = {}  # noqa: RUF012 - a default of a model


class IntervalOptions(Declarations):
    """How wide intervals are."""

    confidence: Annotated[float, Gt(0.5), Le(0.9999), Option("level of the intervals", variable=True)] = 0.95


class PerformanceOptions(Declarations):
    """How fast it goes. Nothing here changes a number."""

    concurrency: Annotated[
        int, Ge(1), Le(256), Option("judge calls at once", flags=("-j", "--concurrency"), metavar="N", variable=True)
    ] = 8
    timeout_s: Annotated[float, Gt(0), Le(3600), Option("seconds that a judge call may take", variable=True)] = 60.0
    attempts: Annotated[
        int, Ge(1), Le(20), Option("how often a judge call is tried in all when its provider fails", variable=True)
    ] = 5
    give_up_s: Annotated[
        float,
        Gt(0),
        Le(86_400),
        Option(
            "seconds that a provider may fail before the rows left are given up",
            flags=("--give-up-s",),
            metavar="S",
            variable=True,
            resumable=True,
        ),
    ] = 600.0
    cache: Annotated[
        bool,
        Option(
            "take finished judge calls from earlier runs",
            flags=("--no-cache",),
            usage="ask the judge again, also what earlier runs have cached",
            variable=True,
        ),
    ] = True
    batch: Annotated[int, Ge(1), Le(1000), Option("rows that are evaluated and stored at once", variable=True)] = 50


class BudgetOptions(Declarations):
    """The most that calls may spend. None: no cap."""

    usd: Annotated[
        float | None,
        Gt(0),
        Le(1_000_000_000),
        Option("most that judge calls may cost, in USD", flags=("--budget-usd",), metavar="USD", resumable=True),
    ] = None
    tokens: Annotated[
        int | None,
        Gt(0),
        Le(10**15),
        Option("most tokens, input and output together", flags=("--budget-tokens",), metavar="N", resumable=True),
    ] = None


class Declaration(NamedTuple):
    """An option with its type and default."""

    type: Any
    default: Any
    option: Option


def with_flags() -> dict[str, Declaration]:
    """The options that the command line has, by their keys."""
    declared = {
        key: Declaration(hint.__origin__, getattr(group, key, None), hint.__metadata__[-1])
        for group in (FileOptions, JobOptions, PerformanceOptions, BudgetOptions)
        for key, hint in get_type_hints(group, include_extras=True).items()
    }
    return {key: declaration for key, declaration in declared.items() if declaration.option.flags}
