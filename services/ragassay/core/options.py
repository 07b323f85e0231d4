"""The options of an evaluation, each declared once: type, bounds, default, what it does, and who may set it.

The configuration document, a run's specification, the command line, the variables ``RAGASSAY_*``, the JSON schemas,
``ragassay info init`` and the pages take them from here. Without pydantic, so that ``ragassay --help`` stays fast: the
models inherit these classes, and pydantic takes their annotations and defaults as its own.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, Predicate

from ragassay.core.addresses import is_bare_address, is_extra
from ragassay.core.declarations import Declarations, Option
from ragassay.core.limits import LARGEST_GRADE, MAX_JUDGES, SMALLEST

SYSTEMS = Option(
    "by its name, a file of responses, the address of an endpoint or a built-in system; without any, the responses in the data",
    flags=("--system",),
    metavar="NAME=FILE|URL",
    usage="responses of a system, or where it answers; repeatable",
    set_by="files",
    example="systems: {ours: responses/ours.jsonl, bm25: {kind: bm25, answer: extractive}}",
)


COMPOSITES = Option(
    "further metrics made of others, by name: a weighted mean (`{faithfulness: 2, relevance: 1}`) or a harmonic mean "
    "(`{harmonic_mean: [faithfulness, completeness]}`)",
    example="composites: {quality: {faithfulness: 2, relevance: 1}}",
)

LABELS = Option(
    "what people say of some of the responses, from 0 to 1, by metric; corrects the judge's means",
    flags=("--labels",),
    metavar="FILE",
    set_by="files",
    example="labels: labels.csv",
)
JUDGES = Option(
    "all that judge, in place of `judge`: each a `model` or `cross_encoder` and, if you like, how many `samples` of its verdict "
    "are drawn; several vote. With `role: reference` and `on: 0.2` it judges that share of the queries, and the means are "
    "corrected by it",
    flags=("--judge",),
    metavar="local|MODEL",
    usage="a judge: local, or a model that LiteLLM supports; MODEL,samples=3 or MODEL,role=reference,on=0.2; repeatable",
    example="""\
judges:
  - {model: gpt-4o-mini, samples: 3}
  - {model: gpt-4o, role: reference, on: 0.2}""",
)
REQUESTS_PER_MINUTE = Option(
    "most requests to the judge's model in a minute; in a service, of all its workers", variable=True, set_by="operator"
)
TOKENS_PER_MINUTE = Option("most tokens that these may take", variable=True, set_by="operator")


class FileOptions(Declarations):
    """What is read and written."""

    data: Annotated[
        Path | None, Option("queries, with or without responses", set_by="files", example="data: queries.jsonl")
    ] = None
    datasets: Annotated[
        dict[str, Path],
        Option(
            "by its name, a file of queries or a stored dataset, in the place of `data`",
            flags=("--dataset",),
            metavar="NAME=FILE",
            usage="a file of queries, or a stored dataset; repeatable",
            set_by="files",
            example="datasets: {faq: faq.jsonl, handbook: handbook@3f21}",
        ),
    ] = {}  # noqa: RUF012 - a default of a model
    corpus: Annotated[
        Path | None,
        Option("passages that built-in systems search, as JSON lines", set_by="files", example="corpus: corpus.jsonl"),
    ] = None
    systems: Annotated[dict[str, Any], SYSTEMS]  # Configuration declares what a system is, and its default
    format: Annotated[
        Literal["auto", "json", "jsonl", "csv", "tsv", "parquet", "trec", "traces"],
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
    judge_prompt: Annotated[
        Path | None,
        Option(
            "instructions for the judge's model in place of ours; `{{ verdict }}` in the file stands for ours",
            flags=("--judge-prompt",),
            metavar="FILE",
            variable=True,
            set_by="files",
            example="judge_prompt: prompts/own.md",
        ),
    ] = None
    labels: Annotated[Path | None, LABELS] = None
    plugins: Annotated[
        tuple[str, ...],
        Option(
            "Python files and modules that register metrics, judges, systems and exporters; they are run",
            flags=("--import",),
            metavar="FILE.py|MODULE",
            usage="run a file, or import a module, that registers metrics, judges, systems or exporters; repeatable",
            set_by="files",
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
            example="output: [report.json, report.md]",
        ),
    ] = ()


CROSS_ENCODER = "cross_encoder:"


def judge_name(given: object) -> object:
    """``{cross_encoder: MODEL}`` as the text that names this judge everywhere; anything else as it is."""
    if isinstance(given, Mapping) and given.keys() == {"cross_encoder"} and isinstance(given["cross_encoder"], str):
        return f"{CROSS_ENCODER}{given['cross_encoder']}"
    return given


class _JudgeName:
    """Reads a judge by ``judge_name``; pydantic asks for the schema, and is not imported before."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        key, name = core_schema.literal_schema(["cross_encoder"]), core_schema.str_schema(min_length=1)
        mapping = core_schema.dict_schema(key, name, min_length=1, max_length=1)
        given = core_schema.union_schema([name, mapping])
        return core_schema.no_info_before_validator_function(
            judge_name, handler(source), json_schema_input_schema=given
        )


class ShortOptions(Declarations):
    """Short forms of other keys."""

    judge: Annotated[
        str,
        MinLen(1),
        _JudgeName(),
        Option(
            "the only judge: `local`, a model that LiteLLM supports, or `{cross_encoder: MODEL}`; short for "
            "`judges: [{model: ...}]`",
            variable=True,
        ),
    ] = "local"


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
            usage="metrics to compute; see: ragassay info metrics; default: every usual one that the rows have the input for",
            variable=True,
            example="metrics: [ndcg@10, mrr, faithfulness, correctness, accurate]",
        ),
    ] = None
    judges: Annotated[tuple[Any, ...], MaxLen(MAX_JUDGES), JUDGES]  # EvaluationOptions declares what one is
    api_base: Annotated[
        str | None,
        Predicate(is_bare_address),
        Option(
            "address of an OpenAI-compatible provider",
            flags=("--api-base",),
            metavar="URL",
            variable=True,
            set_by="operator",
        ),
    ] = None
    embeddings: Annotated[
        str | None,
        MinLen(1),
        Option(
            "a sentence-transformers model, folder or name, in place of the bundled all-MiniLM-L6-v2; needs the extra `models`",
            flags=("--embeddings",),
            metavar="MODEL",
            variable=True,
            set_by="operator",
            example="embeddings: sentence-transformers/all-mpnet-base-v2",
        ),
    ] = None
    bertscore_model: Annotated[
        str | None,
        MinLen(1),
        Option(
            "a model that `bertscore_f1` reads by bert-score, folder or name, not the bundled one; needs the extra `models`",
            set_by="operator",
            example="bertscore_model: microsoft/deberta-xlarge-mnli",
        ),
    ] = None
    judge_mode: Annotated[
        Literal["verdict", "probe"],
        Option("how a model is asked, and how its reply is read", flags=("--judge-mode",), variable=True),
    ] = "verdict"
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
    composites: Annotated[
        dict[str, Any], MaxLen(20), COMPOSITES
    ]  # EvaluationOptions declares what one is, and its default
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
    max_missing: Annotated[
        float,
        Ge(0),
        Le(1),
        Option(
            "largest share of rows per metric, or of responses or of a reference judge, that may fail; beyond it: exit code 3",
            flags=("--max-missing",),
            metavar="X",
            variable=True,
        ),
    ] = 0.05
    baseline: Annotated[
        str | None,
        Option(
            "run, RUN#SYSTEM or report file that gates compare with; or the system that the others are compared with",
            flags=("--baseline",),
            metavar="SYSTEM|RUN",
            usage="what gates compare with: a run, RUN#SYSTEM or a report; of several datasets, the baseline system",
            variable=True,
            example="baseline: last-release.json",
        ),
    ] = None


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
    sample_timeout_s: Annotated[
        float | None,
        Gt(0),
        Le(86_400),
        Option(
            "seconds that judging one row may take from its first call on; waits for a turn in the minute are not counted"
        ),
    ] = None
    attempts: Annotated[
        int, Ge(1), Le(20), Option("how often a judge call is tried in all when its provider fails", variable=True)
    ] = 5
    requests_per_minute: Annotated[int | None, Ge(1), Le(10**6), REQUESTS_PER_MINUTE] = None
    tokens_per_minute: Annotated[int | None, Ge(1), Le(10**9), TOKENS_PER_MINUTE] = None
    give_up_s: Annotated[
        float,
        Gt(0),
        Le(86_400),
        Option(
            "seconds that a provider may fail before the rows left are given up",
            flags=("--give-up-s",),
            metavar="S",
            variable=True,
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
        Option("most that judge calls may cost, in USD", flags=("--budget-usd",), metavar="USD"),
    ] = None
    tokens: Annotated[
        int | None,
        Gt(0),
        Le(10**15),
        Option("most tokens, input and output together", flags=("--budget-tokens",), metavar="N"),
    ] = None
