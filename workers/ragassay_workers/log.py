"""How workers and beat log: Celery makes the handlers, the settings say what they write.

To import it is to listen to Celery's signals.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import signals

from ragassay.core import logs
from ragassay.core.settings import Settings

VERBOSE_LIBRARIES = ("LiteLLM", "httpx", "httpcore", "openai", "sentence_transformers", "transformers")


@signals.after_setup_logger.connect
@signals.after_setup_task_logger.connect
def _prepare(logger: logging.Logger, **_: Any) -> None:
    """What is logged holds text from data, such as names of systems and slices."""
    for handler in logger.handlers:
        logs.prepare(handler, Settings())


@signals.after_setup_logger.connect
def _set_levels(logger: logging.Logger, **_: Any) -> None:
    """Of libraries that log every call at level INFO, log warnings only."""
    if logger is logging.getLogger():
        logs.set_levels(Settings())
    for name in VERBOSE_LIBRARIES:
        logging.getLogger(name).setLevel(logging.WARNING)
