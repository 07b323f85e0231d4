"""The command ``ragassay``: stdout is data, stderr is progress, errors are one line and an exit code."""

from __future__ import annotations

import logging
import os
import signal
import sys
import warnings
from typing import NoReturn

import typer

from ragassay.cli import (
    ab,
    admin,
    compare,
    cost,
    data,
    evaluate,
    gate,
    info,
    jobs,
    judge,
    live,
    runs,
    schedules,
    serve,
    trec,
    trend,
    view,
)
from ragassay.core.errors import AssayError, BadData, BadSettings, class_and_reason

logger = logging.getLogger("ragassay")

app = typer.Typer(
    name="ragassay",
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("evaluate")(evaluate.evaluate)
app.command("demo")(evaluate.demo)
app.command("gate")(gate.gate)
app.command("compare")(compare.compare)
app.command("runs")(runs.runs)
app.command("show")(runs.show)
app.command("cost")(cost.cost)
app.command("trend")(trend.trend)
app.command("view")(view.view)
app.add_typer(data.data, name="data")
app.add_typer(judge.judge, name="judge")
app.command("trec")(trec.trec)
app.command("ab")(ab.ab)
app.add_typer(jobs.job, name="job")
app.add_typer(schedules.schedule, name="schedule")
app.add_typer(live.live, name="live")
app.command("serve")(serve.serve)
app.add_typer(admin.admin, name="admin")
app.add_typer(info.info, name="info")

_INSTEAD = {
    "run": "ragassay evaluate --config FILE",
    "submit": "ragassay evaluate DATA --server URL",
    "report": "ragassay show RUN",
    "power": "ragassay compare RUN --detect X",
    "up": "ragassay serve",
    "worker": "ragassay serve worker",
    "beat": "ragassay serve scheduler",
    "init": "ragassay info init",
    "doctor": "ragassay info doctor",
    "metrics": "ragassay info metrics",
    "schema": "ragassay info schema",
    "data describe": "ragassay data show DATA",
    "data versions": "ragassay data show NAME",
    "judge prefer": "ragassay compare A B --pairwise MODEL",
    "schedule pause": "ragassay schedule set NAME --pause",
    "schedule resume": "ragassay schedule set NAME --resume",
    "admin alive": "ragassay serve worker --check",
}  # commands of development builds: their refusal says what to write


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"ragassay {version('ragassay')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _about(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),  # noqa: ARG001 - its callback acts
    verbose: int = typer.Option(0, "-v", "--verbose", count=True, help="Log events on stderr; -vv also every query."),
) -> None:
    """Judges RAG systems: retrieval, answer quality, latency and cost, and how far each number can be trusted."""
    if verbose:
        from ragassay.core.settings import Settings

        logging.basicConfig(format="%(levelname)s %(message)s")
        if (settings := Settings()).log_format == "json":
            from ragassay import observability

            observability.start_logging(settings)
        logging.getLogger("ragassay").setLevel(logging.DEBUG if verbose > 1 else logging.INFO)
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _print_problems(error: BadData) -> None:
    """A line for each bad row; a long list is cut and the rest counted."""
    from ragassay.core.formatting import shortlist

    *lines, last = shortlist(error.problems)
    for line in lines:
        typer.echo(f"error: {line}", err=True)
    typer.echo(f"error: {last}" + (f"; {error.hint}" if error.hint else ""), err=True)


def _unforeseen(error: Exception) -> tuple[str, int]:
    """What is said of an error that is none of ours, and the exit code."""
    from ragassay.core.files import FULL

    if hasattr(error, "format_message"):  # of the parser
        from ragassay.cli.options import instead_of

        flag = getattr(error, "option_name", None)
        instead = instead_of(flag) if flag else None
        return f"{error.format_message()}; {f'write: {instead}' if instead else 'see: ragassay --help'}", 2
    if isinstance(error, OSError) and error.errno in FULL:
        if error.filename is None:  # a write to stdout; what it still holds would fail again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return f"{error.filename or 'stdout'}: no room is left on the disk ({error.strerror}); make room", 74
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}", 2
    what = f"internal error: {class_and_reason(error)}"
    return f"{what}; please report it; ragassay -v shows the traceback", 70


def _one_line(message: Warning | str, *_: object, **__: object) -> None:
    """A Python warning without the place in the code."""
    typer.echo(f"warning: {message}", err=True)


def _refuse_old_words(words: list[str]) -> None:
    """Raise BadSettings that names the command in place of one that is gone."""
    for old in (" ".join(words), "".join(words[:1])):
        if instead := _INSTEAD.get(old):
            raise BadSettings(f"there is no command {old!r} any more", hint=f"use: {instead}")


def _end_of_pipe() -> NoReturn:
    """End as a program does that nobody reads on from, as in ``ragassay ... | head``."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what stdout still holds would fail again at exit
    sys.exit(128 + signal.SIGPIPE)


def main() -> NoReturn:
    """Run the command line.

    Exit codes: 0 ok, 1 gate missed, 2 bad input or usage, 3 unscored, 4 budget, 5 nothing to evaluate, 70 internal
    error, 74 disk full, 130 interrupted, 141 nobody reads on from stdout.
    """
    logger.addHandler(logging.NullHandler())  # warnings are in the report; -v prints them too
    warnings.showwarning = _one_line
    try:
        _refuse_old_words(sys.argv[1:3])
        code = app(standalone_mode=False)
        if sys.stdout:
            sys.stdout.flush()
    except BadData as error:
        _print_problems(error)
        sys.exit(error.exit_code)
    except AssayError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        _end_of_pipe()
    except SystemExit as ended:  # the parser's, which takes a closed pipe for an error of its own
        if isinstance(ended.__context__, BrokenPipeError):
            _end_of_pipe()
        raise
    except Exception as error:
        what, code = _unforeseen(error)
        logger.info(what, exc_info=True)
        typer.echo(f"error: {what}", err=True)
        sys.exit(code)
    sys.exit(code if isinstance(code, int) else 0)
