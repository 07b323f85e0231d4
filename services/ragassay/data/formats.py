"""Reads files into rows: JSON, JSON Lines, CSV, TSV and Parquet, each behind the same function.

A reader knows nothing of columns; it hands over plain rows and says where each one stands. JSON Lines and CSV are read
line by line, Parquet batch by batch; a JSON document has to be read whole, so it is limited in size. A further format
(TREC, BEIR) is one more ``Format`` in ``FORMATS``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from ragassay.data.problems import shown
from ragassay.data.separated import read_csv, read_tsv
from ragassay.data.source import Source, decoded
from ragassay.errors import AssayError, BadData, BadInput, NotFound, NothingToEvaluate, TooLarge, UnknownName

LARGEST_JSON = 2**30
ROW_KEYS = ("examples", "queries")
