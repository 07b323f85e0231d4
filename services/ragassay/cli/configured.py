"""The configuration of a command: its options over the environment over a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragassay.config import Configuration

_LABELS = {
    "data": "DATA",
    "systems": "--system",
    "cache": "--no-cache",
    "usd": "--budget-usd",
    "tokens": "--budget-tokens",
}


def configured(path: Path | None, options: Mapping[str, Any], *, remote: bool = False) -> Configuration:
    """What holds for this command; options that are None or empty say nothing.

    Without ``path`` the folder's own configuration is read, but only where the options name no data: a command that
    names its data means the same in every folder. ``remote``: a service does the work, so RAGASSAY_API_BASE is not its business.
    Raises BadSettings, UnknownName, NotFound.
    """
    from ragassay import config
    from ragassay.config.document import SECTIONS
    from ragassay.settings import JobSettings

    given = {key: value for key, value in options.items() if value is not None and value != {}}
    if path is None and "data" not in given:
        path = config.find(Path())
    values: dict[str, Any] = {}
    places: dict[tuple[str | int, ...], str] = {}
    for key, value in given.items():
        section = next((name for name, model in SECTIONS.items() if key in model.model_fields), None)
        into = values if section is None else values.setdefault(section, {})
        into[key] = _json(value)
        label = _LABELS.get(key, f"--{key.replace('_', '-')}")
        places[(key,) if section is None else (section, key)] = label
    said = JobSettings()
    if path is None or remote:  # wiring reads this variable too; a report names it only where it beats a file's address
        said = said.model_copy(update={"api_base": None})
    layers = [config.environment(said), config.Layer(values, "command line", places)]
    return config.resolve([config.read(path), *layers] if path else layers)


def _json(value: Any) -> Any:
    if isinstance(value, list):
        return [_json(item) for item in value]
    return str(value) if isinstance(value, Path) else value
