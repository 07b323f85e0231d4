"""Writes docs/reference/*.md from the code; ``--check`` only says whether they are current.

Command line from Typer, Python from the public names, HTTP from the OpenAPI document, configuration and environment from
the descriptions of the pydantic fields, errors from the classes. One table row for each thing.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
HEAD = "<!-- Written by scripts/reference.py from the code. Do not edit. -->"
SHARED_BY = 3  # an option that so many commands have in the same words is described once


def cell(text: object) -> str:
    """Text as one line that a table's cell takes as it is."""
    line = " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
    return re.sub(r"``(.+?)``", r"`\1`", line)


def code(text: object) -> str:
    """Text as code in a cell; a bar inside is an entity, which needs a tag in place of backticks."""
    line = " ".join(str(text).split())
    if "|" not in line:
        return f"`{line}`"
    return f"<code>{line.replace('<', '&lt;').replace('|', '&#124;').replace('*', '&#42;')}</code>"


def first_sentence(thing: Any) -> str:
    """The first paragraph of a docstring."""
    return cell((inspect.getdoc(thing) or "").partition("\n\n")[0])


def command_line() -> Iterator[str]:
    """Every command with its arguments and options; options of several commands stand once, at the top."""
    from typer.main import get_command

    from ragassay.cli.app import app

    root = get_command(app)
    commands = list(_commands(root, root.make_context("ragassay", [], resilient_parsing=True)))
    counts = Counter(option for *_, options in commands for option in options if option[0].startswith("-"))
    shared: dict[str, tuple[str, str]] = {}
    for option, count in counts.most_common():
        if count >= SHARED_BY:
            shared.setdefault(option[0], option)
    yield "\n| command | options |\n|---|---|"
    for path, usage, about, options in commands:
        common = [name.split(" ")[0].strip(",") for name, text in options if shared.get(name) == (name, text)]
        cells = [f"{code(name)}: {cell(text)}" for name, text in options if shared.get(name) != (name, text)]
        if common:
            cells.append(f"[common options](#common-options): {', '.join(map(code, common))}")
        what = code(f"{path} {usage}")
        yield f"| {what}<br>{cell(about)} | {'<br>'.join(cells)} |"
    yield "\n## Common options\n\n| option | effect |\n|---|---|"
    yield from (f"| {code(name)} | {cell(text)} |" for name, text in shared.values())


def _commands(command: Any, context: Any) -> Iterator[tuple[str, str, str, list[tuple[str, str]]]]:
    """Path, usage, help and options of a command that does something, then of those below it."""
    arguments, options = list[str](), list[tuple[str, str]]()
    for each in command.get_params(context):
        name, text = each.get_help_record(context) or ("--help", "")
        if each.param_type_name == "argument":
            name = _argument(each)
            arguments.append(name if name.startswith("[") else f"{{{name}}}")
        if name != "--help":
            options.append((name, text))
    below = command.list_commands(context) if hasattr(command, "list_commands") else []
    if below:
        arguments.append("COMMAND [ARGS]...")
    if options or not below:
        yield context.command_path, " ".join(arguments), command.help or "", options
    for name in below:
        each = command.get_command(context, name)
        if not each.hidden:
            yield from _commands(each, each.make_context(name, [], parent=context, resilient_parsing=True))


def _argument(parameter: Any) -> str:
    """As it is typed: typer's own form depends on its version."""
    name = parameter.metavar or parameter.name
    if parameter.nargs == -1 and not name.endswith("..."):
        name += "..."
    return name if parameter.required or name.startswith("[") else f"[{name}]"


def python() -> Iterator[str]:
    """Every public name, with the public methods of classes."""
    import ragassay

    names = sorted(ragassay._WHERE)
    things = {name: getattr(ragassay, name) for name in names}
    yield "\n## Functions\n\n| function | effect |\n|---|---|"
    for name, thing in things.items():
        if not isinstance(thing, type):
            yield f"| {code(f'{name}({parameters(thing)})')} | {first_sentence(thing)} |"
    yield "\n## Classes\n\n| class | holds | methods |\n|---|---|---|"
    for name, kind in things.items():
        if isinstance(kind, type):
            methods = ", ".join(code(f"{each}()") for each in public(kind))
            yield f"| `{name}` | {first_sentence(kind)} | {methods} |"


def parameters(function: Any) -> str:
    """The parameters of a function, without their types; ``*`` before those that are keywords only."""
    shown: list[str] = []
    for each in inspect.signature(function).parameters.values():
        if each.kind is each.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        is_plain = each.default in (None, ()) or isinstance(each.default, bool | int | float | str)
        default = f"={each.default!r}" if each.default is not each.empty and is_plain else ""
        shown.append(f"{stars}{each.name}{default}")
    return ", ".join(shown)


def public(kind: type) -> list[str]:
    """The public methods that our own classes define."""
    found: dict[str, None] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("ragassay."):
            for name, member in vars(base).items():
                plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
                if not name.startswith(("_", "model_")) and inspect.isfunction(plain):
                    found[name] = None
    return list(found)


def http() -> Iterator[str]:
    """Every route with its scope and parameters."""
    from ragassay.api.app import create_app
    from ragassay.core.settings import Settings

    document = create_app(None, Settings.model_construct()).openapi()  # type: ignore[arg-type]
    yield "\n| request | effect | query parameters |\n|---|---|---|"
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            named = [each["name"] for each in operation.get("parameters", []) if each["in"] == "query"]
            about = operation.get("description") or operation.get("summary", "")
            request, about = f"{method.upper()} {path}", cell(about.partition("\n\n")[0])
            yield f"| {code(request)} | {about} | {', '.join(map(code, named))} |"


def configuration() -> Iterator[str]:
    """Every key of ragassay.yaml with its default and its limits."""
    from ragassay.analysis.gates import Gate
    from ragassay.config import ProjectConfig
    from ragassay.core.schedules import PlannedJob

    for title, model, prefix in (
        ("Evaluation", ProjectConfig, ""),
        ("A gate", Gate, "gates."),
        ("A schedule", PlannedJob, "schedule."),
    ):
        yield f"\n## {title}\n\n| key | default | effect | limits |\n|---|---|---|---|"
        yield from _keys(model, prefix)


def _keys(model: type[BaseModel], prefix: str) -> Iterator[str]:
    from ragassay.config import ProjectConfig
    from ragassay.config.model import in_order
    from ragassay.core.eval_config import DEFAULTS

    schemas = model.model_json_schema()["properties"]
    for name in in_order(model) if model is ProjectConfig else model.model_fields:
        field = model.model_fields[name]
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _keys(field.annotation, f"{prefix}{name}.")
        else:
            about = (field.description or "").replace("|", "\\|")
            value = code(DEFAULTS.judged_by) if name == "judge" else "" if name == "judges" else default(field)
            yield f"| `{prefix}{name}` | {value} | {about} | {limits(schemas.get(name, {}))} |"


def default(field: FieldInfo) -> str:
    """A field's default as code; empty where there is none to name."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value == () or value == {}:
        return ""
    return code(str(value).lower() if isinstance(value, bool) else value)


def limits(schema: dict[str, Any]) -> str:
    """The words, or the bounds, that the JSON schema of a field allows."""
    forms = [schema, *schema.get("anyOf", [])]
    words = [str(word) for form in forms for word in form.get("enum", [])]
    if words:
        return ", ".join(map(code, words))
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {number(form[key])}" for form in forms for key, sign in signs.items() if key in form]
    return cell(", ".join(dict.fromkeys(bounds)))


def number(value: float) -> str:
    """A bound as people write it."""
    return f"{value:,}" if isinstance(value, int) or (value.is_integer() and abs(value) < 1e16) else f"{value:g}"


def environment() -> Iterator[str]:
    """Every variable of the environment."""
    from ragassay.core.settings import Settings

    yield "\n| variable | default | effect |\n|---|---|---|"
    for name, field in Settings.model_fields.items():
        yield f"| `RAGASSAY_{name.upper()}` | {default(field)} | {cell(field.description)} |"


def errors() -> Iterator[str]:
    """Every error class, and the exit codes of the commands."""
    from ragassay.core.errors import AssayError

    yield "\n| error | code | HTTP | exit code | retryable | meaning |\n|---|---|---|---|---|---|"

    def tree(kind: type[AssayError], depth: int = 0) -> Iterator[tuple[type[AssayError], int]]:
        yield kind, depth
        for below in kind.__subclasses__():
            if below.__module__ == AssayError.__module__:
                yield from tree(below, depth + 1)

    for kind, depth in tree(AssayError):
        place = "&nbsp;&nbsp;" * depth
        retry = "yes" if kind.retryable else ""
        yield f"| {place}`{kind.__name__}` | `{kind.code}` | {kind.status} | {kind.exit_code} | {retry} | {first_sentence(kind)} |"
    yield "\n## Exit codes\n\n| exit code | meaning |\n|---|---|"
    meanings = {
        0: "success; of `ragassay gate`: every gate passed",
        1: "a gate was missed",
        2: "bad input or usage",
        3: "more rows failed than `max_failed_share` allows, or a provider or service did not answer",
        4: "the budget is reached",
        5: "there is nothing to evaluate",
        70: "unexpected error: `ragassay -v` shows the traceback; please report it",
        74: "the disk is full; everything that was written before is complete",
        130: "interrupted by Ctrl-C",
        141: "the reader of the output closed the pipe, as `head` does",
    }
    missing = {kind.exit_code for kind, _ in tree(AssayError)} - set(meanings)
    if missing:
        sys.exit(f"scripts/reference.py: no meaning for the exit codes {sorted(missing)}")
    yield from (f"| {number_} | {cell(text)} |" for number_, text in meanings.items())


PAGES = {
    "cli": (
        command_line,
        "Command line",
        "Every command and option, from the source of `--help`. Values in square brackets are defaults.",
    ),
    "python": (
        python,
        "Python",
        "Every name of `import ragassay`. `help(ragassay.NAME)` has types, units and errors; [Python](../python.md) has examples.",
    ),
    "http": (
        http,
        "HTTP",
        (
            "Every route of the [service](../service.md). `/openapi.json` of a running service has all schemas.\n"
            "Every error is a problem document (RFC 9457) with `code`, `detail` and `status`; [errors](errors.md) lists the codes."
        ),
    ),
    "configuration": (
        configuration,
        "Configuration keys",
        (
            "Every key of `ragassay.yaml`, of `--set KEY=VALUE` and, as keywords, of `ragassay.evaluate`.\n"
            "[Configuration](../configuration.md) explains files and precedence. A value outside its limits is refused."
        ),
    ),
    "environment": (
        environment,
        "Environment variables",
        (
            "Each process reads these at start. LiteLLM reads the variables of providers, such as `OPENAI_API_KEY`;\n"
            "see [keys and addresses](../judges.md#keys-and-addresses)."
        ),
    ),
    "errors": (
        errors,
        "Errors and exit codes",
        "Everything that ragassay raises on purpose is a `ragassay.AssayError`. A retryable call may succeed later.",
    ),
}


def pages() -> dict[Path, str]:
    """The text of each page by its path."""
    return {
        FOLDER / f"{name}.md": "\n".join([f"# {title}", "", HEAD, "", about, *write(), ""])
        for name, (write, title, about) in PAGES.items()
    }


def main() -> None:
    """Write or check every page."""
    old = []
    for path, text in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            old.append(path.name)
        if "--check" not in sys.argv:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if old and "--check" in sys.argv:
        sys.exit(f"docs/reference: {', '.join(old)} not current; write them: python scripts/reference.py")


if __name__ == "__main__":
    main()
