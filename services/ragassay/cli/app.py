"""The command ``ragassay``: stdout is data, stderr is progress, errors are one line and an exit code."""

from __future__ import annotations

import inspect
import logging
import os
import re
import signal
import sys
import warnings
from functools import cache
from importlib import import_module
from typing import Any, NoReturn

import typer
from typer import Option
from typer.core import TyperGroup

from ragassay.core.errors import AssayError, BadData, BadSettings, class_and_reason

logger = logging.getLogger("ragassay")

_COMMANDS = {
    "evaluate": ("evaluate", "Evaluate systems on a dataset and print a report."),
    "demo": ("evaluate", "Evaluate the systems of the quickstart dataset; needs no key."),
    "gate": ("gate", "Check the gates of a configuration; exit code 1 if one is missed."),
    "compare": ("compare", "Compare systems of runs, jobs and data files with the first one."),
    "runs": ("runs", "List the runs, newest first."),
    "show": ("runs", "Show a report or a comparison, or its rows, or write it with -o."),
    "cost": ("trends", "Show what accurate answers cost over the runs so far."),
    "trend": ("trends", "Show a metric over the runs so far, and where its level changed."),
    "view": ("view", "Show runs in the browser."),
    "data": ("data", "Import, list, show, compare, split and generate datasets."),
    "judge": ("judge", "Measure a judge."),
    "trec": ("trec", "Compute retrieval metrics from TREC qrels and run files."),
    "ab": ("ab", "Compare two retrieval configurations on the same queries, offline."),
    "job": ("jobs", "List, resume, retry and cancel jobs of a service."),
    "schedule": ("schedules", "Plan jobs of a service: nightly runs."),
    "live": ("live", "Evaluate requests in files of OpenTelemetry spans."),
    "serve": ("serve", "Run the service on this machine, or one of its parts."),
    "admin": (
        "admin",
        "Look after a running service: that of this folder, or of RAGASSAY_STATE_URL.",
    ),
    "info": ("info", "List metrics, print schemas, check this machine, write a configuration."),
}  # by word, the module that has the command, and the first line of its help


@cache
def _command(word: str) -> Any:
    """The command or group of that word, whose module is imported now; a docstring's first line is that of the table."""
    module, about = _COMMANDS[word]
    thing = getattr(import_module(f"ragassay.cli.{module}"), word)
    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    if isinstance(thing, typer.Typer):
        alone.add_typer(thing, name=word, help=about)
    else:
        more = inspect.cleandoc(thing.__doc__ or "").partition("\n\n")[2]
        alone.command(word, help=f"{about}\n\n{more}")(thing)
    return typer.main.get_group(alone).commands[word]


class _Commands(TyperGroup):
    """The commands, of which only the one that is called is imported, so that help is quick."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = dict.fromkeys(_COMMANDS)  # whose keys are listed, and suggested for a word that is none

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - as typer calls it
        return _command(cmd_name) if cmd_name in _COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as typer calls it
        with formatter.section("Commands"):
            formatter.write_dl([(word, about) for word, (_, about) in _COMMANDS.items()])


app = typer.Typer(
    name="ragassay", cls=_Commands, add_completion=True, rich_markup_mode=None, pretty_exceptions_enable=False
)

_INSTEAD = {
    "run": "ragassay evaluate --config FILE",
    "submit": "ragassay evaluate DATA --server URL",
    "report": "ragassay show RUN",
    "results": "ragassay show RUN --rows",
    "export": "ragassay show RUN -o FILE",
    "power": "ragassay compare RUN --detect X",
    "comment": "gh pr comment --edit-last --create-if-none --body-file gates.md",
    "status": "ragassay job show JOB",
    "retry": "ragassay job retry JOB",
    "cancel": "ragassay job cancel JOB",
    "alerts": "GET /v1/alerts, see docs/alerts.md",
    "webhook": "POST /v1/webhooks, see docs/alerts.md",
    "up": "ragassay serve",
    "worker": "ragassay serve worker",
    "beat": "ragassay serve scheduler",
    "alive": "ragassay serve worker --check",
    "init": "ragassay info init",
    "doctor": "ragassay info doctor",
    "metrics": "ragassay info metrics",
    "schema": "ragassay info schema",
    "completion": "ragassay --install-completion",
    "data check": "ragassay data show DATA",
    "data describe": "ragassay data show DATA",
    "data versions": "ragassay data show NAME",
    "judge attack": "the script of docs/judge-accuracy.md#attacks-on-a-judge",
    "judge calibrate": "ragassay judge agreement DATA",
    "judge prefer": "ragassay compare A B --pairwise MODEL",
    "schedule pause": "ragassay schedule set NAME --pause",
    "schedule resume": "ragassay schedule set NAME --resume",
    "admin alive": "ragassay serve worker --check",
    "admin keys rotate": "ragassay admin keys make NAME, then ragassay admin keys revoke ID",
    "admin requeue": "ragassay job retry JOB",
    "admin retention": "RAGASSAY_KEEP_RESULTS_DAYS and RAGASSAY_KEEP_REPORTS_DAYS, see docs/operations.md",
}  # commands of development builds: their refusal says what to write


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"ragassay {version('ragassay')}")
        raise typer.Exit


_HINTS: dict[str | None, str] = {  # by the option that resolves an error
    "baseline": "for one dataset: ragassay compare RUN --baseline SYSTEM",
    "data": "name a file: ragassay evaluate DATA, 'data:' in the configuration, or a system's: --system NAME=FILE",
    "metric": "name one that is, such as --metric faithfulness",
    "metrics": "see: ragassay data show FILE",
    "name": "--name gives it another one",
    "systems": "name a system: --system NAME=FILE or NAME=URL; or the column of the answers: --map answer=COLUMN",
}
_MAPPED = re.compile(r"(?<!-)\bmap (?='?\w+=)")  # in an error that the option ``map`` corrects


@app.callback(invoke_without_command=True)
def _about(
    context: typer.Context,
    version: bool = Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),  # noqa: ARG001 - its callback acts
    verbose: int = Option(0, "-v", "--verbose", count=True, help="Log events on stderr; -vv also every query."),
) -> None:
    """Judges RAG systems: retrieval, answer quality, latency and cost, and how far each number can be trusted."""
    if verbose:
        from ragassay import observability
        from ragassay.core.settings import Settings

        handler = logging.StreamHandler()
        observability.prepare_handler(handler, Settings())
        logging.basicConfig(format="%(levelname)s %(message)s", handlers=[handler])
        logging.getLogger("ragassay").setLevel(logging.DEBUG if verbose > 1 else logging.INFO)
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _print_problems(error: BadData) -> None:
    """A line for each bad row; a long list is cut and the rest counted."""
    from ragassay.core.formatting import shortlist

    *lines, last = shortlist(error.problems)
    for line in (*lines, f"{last}; {error.hint}" if error.hint else last):
        typer.echo(f"error: {_with_flags(error, line)}", err=True)


def _with_flags(error: AssayError, text: str) -> str:
    """What is said of an error, with the flag where it says which columns to map, so that a shell takes it."""
    return _MAPPED.sub("--map ", text) if error.option == "map" else text


def _unforeseen(error: Exception) -> tuple[str, int]:
    """What is said of an error that is none of ours, and the exit code."""
    from ragassay.core.files import FULL

    if hasattr(error, "format_message"):  # of the parser
        return f"{error.format_message().rstrip('.')}; see: ragassay --help", 2
    if isinstance(error, OSError) and error.errno in FULL:
        if error.filename is None:
            _close_stdout()
        return f"{error.filename or 'stdout'}: no room is left on the disk ({error.strerror}); make room", 74
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}", 2
    what = f"internal error: {class_and_reason(error)}"
    return f"{what}; please report it; ragassay -v shows the traceback", 70


def _close_stdout() -> None:
    """What stdout still holds would fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _one_line(message: Warning | str, *_: object, **__: object) -> None:
    """A Python warning without the place in the code."""
    typer.echo(f"warning: {message}", err=True)


def _refuse_old_words(words: list[str]) -> None:
    """Raise BadSettings that names the command in place of one that is gone."""
    for old in (" ".join(words[:count]) for count in (3, 2, 1)):
        if instead := _INSTEAD.get(old):
            raise BadSettings(f"there is no command {old!r} any more", hint=f"use: {instead}")


def main() -> NoReturn:
    """Run the command line.

    Exit codes: 0 ok, 1 gate missed, 2 bad input or usage, 3 unscored, 4 budget, 5 nothing to evaluate, 70 internal
    error, 74 disk full, 130 interrupted, 141 nobody reads on from stdout, as in ``ragassay ... | head``.
    """
    logger.addHandler(logging.NullHandler())  # warnings are in the report; -v prints them too
    warnings.showwarning = _one_line
    try:
        _refuse_old_words(sys.argv[1:4])
        code = app(standalone_mode=False)
        if sys.stdout:
            sys.stdout.flush()
    except BadData as error:
        _print_problems(error)
        code = error.exit_code
    except AssayError as error:
        error.hint = _HINTS.get(error.option, error.hint)
        typer.echo(f"error: {_with_flags(error, str(error))}", err=True)
        code = error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except (BrokenPipeError, SystemExit) as ended:
        # the parser takes a closed pipe for an error of its own
        if isinstance(ended, SystemExit) and not isinstance(ended.__context__, BrokenPipeError):
            raise
        _close_stdout()
        code = 128 + signal.SIGPIPE
    except Exception as error:
        what, code = _unforeseen(error)
        logger.info(what, exc_info=True)
        typer.echo(f"error: {what}", err=True)
    sys.exit(code if isinstance(code, int) else 0)
