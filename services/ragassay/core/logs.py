"""Log lines of the service: text for people, or one JSON object a line for what collects them."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from ragassay.core import telemetry
from ragassay.core.formatting import bounded, one_line
from ragassay.core.settings import Settings, secrets, without

MOST_OF_A_TRACEBACK = 8000
TEXT_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_OF_EVERY_RECORD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message"}


class JsonLines(logging.Formatter):
    """One JSON object: time, level, logger, message, the event's own fields, and those of the work under way."""

    def format(self, record: logging.LogRecord) -> str:
        """The line. ASCII only, so that no reader of lines takes a character of the data for an end."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": bounded(record.getMessage()),
            **telemetry.fields(),
            **{name: _plain(value) for name, value in _given(record).items() if value is not None},
        }
        if record.exc_info:
            line["traceback"] = bounded(record.exc_text or self.formatException(record.exc_info), MOST_OF_A_TRACEBACK)
        return json.dumps(line)


def _given(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of the event: what ``extra`` of the call gave."""
    return {name: value for name, value in vars(record).items() if name not in _OF_EVERY_RECORD}


def _plain(value: object) -> object:
    if isinstance(value, bool | int | float):
        return value if value == value and abs(value) != float("inf") else str(value)
    return bounded(str(value))


class WithoutSecrets(logging.Filter):
    """Takes keys, tokens and passwords of this process's settings out of what is logged, whoever logs it."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        own = settings.api_key, settings.bootstrap_key, settings.key_pepper, settings.server_key, settings.metrics_key
        passwords = (urlsplit(address).password for address in (settings.state, settings.broker))
        self._secrets = {*secrets(), *filter(None, (*own, *passwords))}

    def filter(self, record: logging.LogRecord) -> bool:
        """Lets everything pass, changed where it has to be."""
        text = record.getMessage()
        if (cleaned := without(text, self._secrets)) != text:
            record.msg, record.args = cleaned, ()
        if record.exc_info and not record.exc_text:
            record.exc_text = without(logging.Formatter().formatException(record.exc_info), self._secrets)
        for name, value in _given(record).items():
            if isinstance(value, str):
                setattr(record, name, without(value, self._secrets))
        return True


def prepare(handler: logging.Handler, settings: Settings) -> None:
    """Make a handler write lines of the form that the settings name."""
    handler.addFilter(WithoutSecrets(settings))
    if settings.log_format == "json":
        handler.setFormatter(JsonLines())
    else:
        handler.addFilter(one_line)


def set_levels(settings: Settings) -> None:
    """Log our events from the level of the settings on; libraries say no more than INFO of what they do."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    logging.getLogger("ragassay").setLevel(level)
    logging.getLogger().setLevel(max(level, logging.INFO))


def set_up(settings: Settings) -> None:
    """Log to stderr. For a process whose log nobody else sets up."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(TEXT_FORMAT))
    prepare(handler, settings)
    logging.getLogger().handlers[:] = [handler]
    set_levels(settings)


def line(settings: Settings, level: int, message: str) -> str:
    """A line for what is written past the loggers: as it is, or as JSON."""
    if settings.log_format == "text":
        return message
    record = logging.makeLogRecord(
        {"name": "ragassay", "levelno": level, "levelname": logging.getLevelName(level), "msg": message}
    )
    return JsonLines().format(record)
