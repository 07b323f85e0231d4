"""``ragassay live``: requests in files of spans, as the service decides on them and evaluates them."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ragassay.cli.options import AsJson, Config, configured, takes_options
from ragassay.cli.terminal import Terminal, print_json, print_table
from ragassay.core.errors import BadSettings, BudgetReached

if TYPE_CHECKING:
    from ragassay.core.eval_config import RunConfig
    from ragassay.live.files import OpenRequest, SpanFiles
    from ragassay.live.models import LiveRule
    from ragassay.live.store import ChosenRow, Figures

_EVERY_S = 5.0
_NO_FILES = ("name", "system", "dataset", "baseline", "limit", "map", "output")  # flags of commands that read a dataset
Window = tuple[str, str]  # a stream, and an hour of it


@takes_options(without=_NO_FILES)
def live(
    path: Annotated[Path, Argument(metavar="PATH", help="A file of spans (OTLP), or a folder of such files.")],
    follow: Annotated[bool, Option("--follow", help="Go on as the files grow, until Ctrl-C.")] = False,
    dry_run: Annotated[
        bool,
        Option("--dry-run", help="Show what would happen to each request, and which spans are read; evaluate none."),
    ] = False,
    rate: Annotated[float, Option("--rate", metavar="SHARE", min=0, max=1, help="Share of the requests. [1]")] = 1.0,
    low_score: Annotated[
        float | None,
        Option(
            "--low-score", metavar="SHARE", min=0, max=1, help="Also answers with fewer of their words in the contexts."
        ),
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Evaluate requests in files of OpenTelemetry spans, and print windows and states."""
    from ragassay.core.settings import Settings
    from ragassay.live.files import SpanFiles
    from ragassay.live.models import LiveRule

    if follow and (as_json or dry_run):
        raise BadSettings("--follow prints tables", hint="leave out --json and --dry-run")
    settings = Settings()
    files, rule = SpanFiles(path, settings.live_redacted), LiveRule(rate=rate, low_score=low_score)
    evaluated = _Evaluated(configured(config, options).evaluation)
    if dry_run:
        _print_decisions(files, rule, as_json=as_json)
        return
    rounds = int(settings.live_silence_s / _EVERY_S) if follow else None
    while True:
        new = files.complete(silent_rounds=rounds)
        evaluated.add(new, rule)
        if new or not follow:
            evaluated.show(files, as_json=as_json)
        if not follow:
            return
        time.sleep(_EVERY_S)


def _print_decisions(files: SpanFiles, rule: LiveRule, *, as_json: bool) -> None:
    decided = [(one, one.decide(rule)) for one in files.complete()]
    rows = [(one.trace, one.stream, made.status, made.reason, made.read_from) for one, made in decided]
    if as_json:
        keys = ("trace", "stream", "status", "reason", "read_from")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    table = [(*cells, ", ".join(f"{what}: {name}" for what, name in spans.items())) for *cells, spans in rows]
    columns = ("trace", "stream", "status", "why", "read from")
    print_table(columns, table, least=("read from", "stream"), empty="there is no request")


class _Evaluated:
    """What was evaluated so far: by window the figures of each run and the states of requests, and why they have them."""

    def __init__(self, spec: RunConfig) -> None:
        self._spec, self._spent_usd = spec, 0.0
        self._figures: defaultdict[Window, dict[str, Figures]] = defaultdict(dict)
        self._states: defaultdict[Window, Counter[str]] = defaultdict(Counter)
        self._reasons: Counter[tuple[str, str]] = Counter()

    def add(self, requests: list[OpenRequest], rule: LiveRule) -> None:
        """Decide on requests, and evaluate those that are chosen, a run for each window."""
        from ragassay.live.store import ChosenRow

        chosen: defaultdict[Window, dict[str, ChosenRow]] = defaultdict(dict)
        for one in requests:
            decision, window = one.decide(rule), (one.stream, one.hour)
            if decision.sample is not None and decision.cause is not None:
                chosen[window][one.trace] = ChosenRow(decision.cause, decision.sample)
            else:
                self._count(window, decision.status, decision.reason.partition(";")[0])
        for window, rows in sorted(chosen.items()):
            self._count(window, *self._evaluate(window, rows), len(rows))

    def _evaluate(self, window: Window, rows: Mapping[str, ChosenRow]) -> tuple[str, str]:
        """The state of the rows after a run on them, and why they have it; a budget is that of all runs."""
        from ragassay.core.report import Source
        from ragassay.datasets.dataset import digest_of_dataset
        from ragassay.evaluation.inputs import recorded
        from ragassay.live.windows import figures_of
        from ragassay.sdk.evaluation import evaluated, runtime_for
        from ragassay.sdk.loop import finished

        samples, spec, usd = [row.sample for row in rows.values()], self._spec, self._spec.budget.usd
        if usd is not None and usd <= self._spent_usd:
            return "budget_reached", f"{usd:g} USD are spent"
        if usd is not None:
            left = spec.budget.model_copy(update={"usd": usd - self._spent_usd})
            spec = spec.model_copy(update={"budget": left})
        source = Source(name=window[0], digest=digest_of_dataset(samples), rows=len(samples))
        work = partial(evaluated, runtime_for(), spec, recorded(source, samples), Terminal(quiet=True))
        try:
            kept, report = finished(work)
        except BudgetReached as error:
            self._spent_usd = usd or 0.0
            return "budget_reached", error.message
        self._spent_usd += report.systems["default"].evaluation.usage.cost_usd or 0.0
        self._figures[window][kept.record.id] = figures_of(rows, report.results["default"])
        return "evaluated", ""

    def _count(self, window: Window, status: str, reason: str, requests: int = 1) -> None:
        self._states[window][status] += requests
        self._reasons[status, reason] += requests

    def show(self, files: SpanFiles, *, as_json: bool) -> None:
        """Print the windows, by stream and hour, and the states of requests."""
        from ragassay.live.models import Counts
        from ragassay.live.windows import WindowRows
        from ragassay.metrics.composite import custom_metrics
        from ragassay.reporting.figures import share

        windows, custom = [], custom_metrics(self._spec)
        for (stream, hour), counted in sorted(self._states.items()):
            rows_of_hour = WindowRows({hour: self._figures[stream, hour]}, custom)
            windows.append(rows_of_hour.window(stream, hour, Counts(received=counted.total(), **counted)))
        if as_json:
            print_json(windows)
            return
        metrics, rows = list(dict.fromkeys(name for one in windows for name in one.metrics)), []
        for one in windows:
            cells = [share(one.metrics[name], name) if name in one.metrics else "" for name in metrics]
            rows.append((one.stream, one.window, str(one.counts.received), str(one.rows), *cells))
        print_table(("stream", "window", "requests", "rows", *metrics), rows, empty="there is no request")
        late = ("late spans", str(files.late), "after their request was complete")
        states = [(status, str(count), reason) for (status, reason), count in sorted(self._reasons.items())]
        states += [row for row in (("waiting", str(files.waiting), ""), late) if row[1] != "0"]
        print_table(("state", "requests", "why"), states, least=("why",))
