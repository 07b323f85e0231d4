"""RAGASSAY_* variables and .env as a layer of the configuration."""

from __future__ import annotations

import json
from typing import Any

from ragassay.config.document import SECTIONS
from ragassay.config.layers import Layer, Place
from ragassay.settings import JobSettings

_TEXTS = ("judge", "api_base", "accurate", "baseline")


def environment(settings: JobSettings) -> Layer:
    """What the variables say that are set; RAGASSAY_METRICS holds names with commas between them."""
    values: dict[str, Any] = {}
    places: dict[Place, str] = {}
    for key, text in settings.model_dump(exclude_none=True).items():
        section = next((name for name, model in SECTIONS.items() if key in model.model_fields), None)
        value = _value(key, text)
        if section is None:
            values[key] = value
        else:
            values.setdefault(section, {})[key] = value
        places[(key,) if section is None else (section, key)] = f"RAGASSAY_{key.upper()}"
    return Layer(values, "environment", places)


def _value(key: str, text: str) -> Any:
    if key == "metrics":
        return [name.strip() for name in text.split(",") if name.strip()]
    if key in _TEXTS:
        return text
    try:
        value = json.loads(text.strip().lower())
    except ValueError:
        return text
    return value if isinstance(value, bool | int) or (isinstance(value, float) and abs(value) < float("inf")) else text
