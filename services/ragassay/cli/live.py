"""``ragassay live``: requests in files of spans, here without a service; and the rules of streams of a service."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ragassay.cli.options import AsJson, Config, Server, configured, takes_options, without_none
from ragassay.cli.terminal import Terminal, print_json, print_table
from ragassay.client import Client
from ragassay.core.errors import BadSettings, BudgetReached
from ragassay.core.eval_config import EvalConfig
from ragassay.core.formatting import number, split_names
from ragassay.core.report import Source
from ragassay.core.settings import Settings
from ragassay.datasets.dataset import digest_of_dataset
from ragassay.evaluation.inputs import recorded
from ragassay.live.files import OpenRequest, SpanFiles
from ragassay.live.models import Counts, LiveRule, LiveStream
from ragassay.live.store import ChosenRow, Figures
from ragassay.live.windows import WindowRows, figures_of
from ragassay.sdk import evaluation
from ragassay.sdk.loop import finished

_EVERY_S = 5.0
_NO_FILES = ("name", "system", "dataset", "baseline", "limit", "map", "output")  # flags of commands that read a dataset


class _WithDefault(TyperGroup):
    """``ragassay live PATH`` is ``ragassay live run PATH``."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is named first, else ``run``."""
        known = args and (args[0] in self.commands or args[0].startswith("-"))
        return super().resolve_command(ctx, args if known else ["run", *args])


live = typer.Typer(help="Evaluate requests in files of OpenTelemetry spans.", cls=_WithDefault, no_args_is_help=True)
PathArgument = Annotated[
    Path, typer.Argument(metavar="PATH", help="A file of spans (OTLP), or a folder of such files.")
]
Rate = Annotated[float, typer.Option("--rate", metavar="SHARE", min=0, max=1, help="Share of the requests. [1]")]
LowScore = Annotated[
    float | None,
    typer.Option(
        "--low-score", metavar="SHARE", min=0, max=1, help="Also answers with fewer of their words in the contexts."
    ),
]


def _rule(rate: float, low_score: float | None) -> LiveRule:
    return LiveRule(rate=rate, low_score=low_score)


def _files(path: Path) -> SpanFiles:
    return SpanFiles(path, Settings().redacted_attributes)


@live.command("check")
def check(path: PathArgument, rate: Rate = 1.0, low_score: LowScore = None, as_json: AsJson = False) -> None:
    """Show what would happen to each request in files, and which spans are read; nothing is sent or evaluated."""
    rule, keys = _rule(rate, low_score), ("trace", "stream", "status", "reason", "read_from")
    decided = [(one, one.decide(rule)) for one in _files(path).complete()]
    rows = [(one.trace, one.stream, made.status, made.reason, made.read_from) for one, made in decided]
    if as_json:
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    table = [(*cells, ", ".join(f"{what}: {name}" for what, name in spans.items())) for *cells, spans in rows]
    columns = ("trace", "stream", "status", "why", "read from")
    print_table(columns, table, least=("read from", "stream"), empty="there is no request")


@live.command("run")
@takes_options(without=_NO_FILES)
def run(
    path: PathArgument,
    follow: Annotated[bool, typer.Option("--follow", help="Go on as the files grow, until Ctrl-C.")] = False,
    rate: Rate = 1.0,
    low_score: LowScore = None,
    config: Config = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Evaluate requests in files of spans, and print windows and states. ``live PATH`` is short for it."""
    if follow and as_json:
        raise BadSettings("--follow prints tables", hint="leave out --json")
    configuration = configured(config, options)
    files, evaluated = _files(path), _Evaluated(configuration.evaluation, _rule(rate, low_score))
    rounds = int(Settings().live_silence_s / _EVERY_S) if follow else None
    while True:
        new = files.complete(silent_rounds=rounds)
        evaluated.add(new)
        if new or not follow:
            evaluated.show(files, as_json=as_json)
        if not follow:
            return
        time.sleep(_EVERY_S)


class _Evaluated:
    """What was evaluated so far: by stream and hour the figures of each run, and the states of requests."""

    def __init__(self, spec: EvalConfig, rule: LiveRule) -> None:
        self._spec, self._rule = spec, rule
        self._figures: dict[tuple[str, str], dict[str, Figures]] = {}
        self._states: dict[tuple[str, str], Counter[str]] = {}
        self._reasons: Counter[tuple[str, str]] = Counter()
        self._spent_usd = 0.0

    def add(self, requests: list[OpenRequest]) -> None:
        """Decide on requests, and evaluate those that are chosen, a run for each hour of a stream."""
        chosen: dict[tuple[str, str], dict[str, ChosenRow]] = {}
        for one in requests:
            decision, window = one.decide(self._rule), (one.stream, one.hour)
            if decision.sample is not None and decision.cause is not None:
                chosen.setdefault(window, {})[one.trace] = ChosenRow(decision.cause, decision.sample)
            else:
                self._count(window, decision.status, decision.reason.partition(";")[0])
        for window, rows in sorted(chosen.items()):
            self._evaluate(window, rows)

    def _evaluate(self, window: tuple[str, str], rows: dict[str, Any]) -> None:
        samples = [row.sample for row in rows.values()]
        source = Source(name=window[0], digest=digest_of_dataset(samples), rows=len(samples))
        spec, usd = self._spec, self._spec.budget.usd
        if usd is not None:
            left = usd - self._spent_usd
            if left <= 0:
                self._count(window, "budget_reached", f"{usd:g} USD are spent", len(rows))
                return
            spec = spec.model_copy(update={"budget": spec.budget.model_copy(update={"usd": left})})
        runtime, inputs = evaluation.runtime_for(), recorded(source, samples)
        try:
            kept, report = finished(partial(evaluation.evaluated, runtime, spec, inputs, Terminal(quiet=True)))
        except BudgetReached as error:
            self._spent_usd = usd or 0.0
            self._count(window, "budget_reached", error.message, len(rows))
            return
        self._spent_usd += report.systems["default"].evaluation.usage.cost_usd or 0.0
        self._figures.setdefault(window, {})[kept.record.id] = figures_of(rows, report.results["default"])
        self._count(window, "evaluated", "", len(rows))

    def _count(self, window: tuple[str, str], status: str, reason: str, number: int = 1) -> None:
        self._states.setdefault(window, Counter())[status] += number
        self._reasons[status, reason] += number

    def show(self, files: SpanFiles, *, as_json: bool) -> None:
        """Print the windows, by stream and hour, and the states of requests."""
        windows = [
            WindowRows.of(place[1], self._figures.get(place, {})).window(*place, Counts(received=one.total(), **one))
            for place, one in sorted(self._states.items())
        ]
        if as_json:
            print_json(windows)
            return
        metrics = list(dict.fromkeys(name for one in windows for name in one.metrics))
        rows = []
        for one in windows:
            scores = [one.metrics.get(name) for name in metrics]
            cells = ["" if score is None else f"{number(score.value)} ({score.interval})" for score in scores]
            rows.append((one.stream, one.window, str(one.counts.received), str(one.rows), *cells))
        print_table(("stream", "window", "requests", "rows", *metrics), rows, empty="there is no request")
        states = [(status, str(count), reason) for (status, reason), count in sorted(self._reasons.items())]
        states += [("waiting", str(files.waiting), "")] if files.waiting else []
        states += [("late spans", str(files.late), "after their request was complete")] if files.late else []
        print_table(("state", "requests", "why"), states, least=("why",), empty="")


@live.command("set")
def set_rule(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The service.name of its spans.")],
    rate: Annotated[float | None, typer.Option("--rate", metavar="SHARE", min=0, max=1, help="[0.1]")] = None,
    budget_usd: Annotated[
        float | None, typer.Option("--budget-usd", metavar="USD", help="Most that judging a day's requests costs.")
    ] = None,
    low_score: LowScore = None,
    metrics: Annotated[str | None, typer.Option("--metrics", metavar="NAMES", help="With commas between them.")] = None,
    judge: Annotated[str | None, typer.Option("--judge", metavar="local|MODEL", help="The judge.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Have a service evaluate requests of a stream; what is left out has its default."""
    job = without_none({"metrics": split_names(metrics) if metrics else None, "judge": judge})
    body = without_none({"rate": rate, "budget_usd": budget_usd, "low_score": low_score, "job": job})
    with Client(server) as service:
        put = service.request(LiveStream, "PUT", "live", "streams", stream, body=body)
    if as_json:
        print_json(put)
    else:
        typer.echo(f"{put.name}: {put.rule.rate:.4g} of its requests are evaluated" if put.rule else put.name)
