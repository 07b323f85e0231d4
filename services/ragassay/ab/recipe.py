"""An A/B configuration: a document of its own, which is read and never written."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from ragassay import config
from ragassay.core.models import FrozenModel
from ragassay.systems.options import RetrievalConfig


class Reported(FrozenModel):
    """What of a run's performance may be reported."""

    report_memory: Annotated[bool, Field(description="traces need it")] = False


class Perf(FrozenModel):
    """Whether a run may be observed."""

    enabled: Annotated[bool, Field(description="traces need it")] = False
    metrics: Annotated[Reported, Field(description="what may be reported")] = Reported()


class Quality(FrozenModel):
    """Whether single queries may be looked at."""

    shadow: Annotated[bool, Field(description="beside the system in use; traces need this or `enabled`")] = False
    enabled: Annotated[bool, Field(description="in the system in use; traces need this or `shadow`")] = False


class Tier2(FrozenModel):
    """The second tier of observation."""

    quality: Annotated[Quality, Field(description="quality of single queries")] = Quality()


class Recipe(FrozenModel):
    """How to retrieve, or the file with what was retrieved; and whether it may be traced.

    Paths are relative to the folder of the configuration.
    """

    retrieval: Annotated[RetrievalConfig | None, Field(description="how to retrieve from the corpus")] = None
    run: Annotated[Path | None, Field(description="ranked lists: a TREC run, or .jsonl with retrieved_doc_ids")] = None
    corpus: Annotated[Path | None, Field(description="passages, unless --corpus is given")] = None
    perf: Annotated[Perf, Field(description="may be observed?")] = Perf()
    t2: Annotated[Tier2, Field(description="second tier of observation")] = Tier2()

    @model_validator(mode="after")
    def _one_source(self) -> Recipe:
        if (self.retrieval is None) is (self.run is None):
            raise ValueError("give either retrieval (how to retrieve) or run (a file with what was retrieved)")
        return self

    def trace_lacks(self) -> str | None:
        """The switches that traces need and that are off; None when there may be traces."""
        quality = self.t2.quality
        switches = {
            "perf.enabled": self.perf.enabled,
            "perf.metrics.report_memory": self.perf.metrics.report_memory,
            "t2.quality.shadow or .enabled": quality.shadow or quality.enabled,
        }
        return ", ".join(name for name, on in switches.items() if not on) or None


def read(typed: str) -> tuple[Recipe, str]:
    """The configuration in a file, and the SHA-256 of its meaning: canonical JSON, in which empty keys are left out.

    Raises NotFound, and BadSettings that names the line.
    """
    path = Path(typed)
    layer = config.parse(path)
    meaning = json.dumps(_given(layer.values), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    try:
        recipe = Recipe.model_validate_json(meaning, strict=True)
    except ValidationError as error:
        raise config.first_problem(error, layer.where, Recipe) from None
    places = {key: path.parent / file for key in ("run", "corpus") if (file := getattr(recipe, key))}
    return recipe.model_copy(update=places), sha256(meaning.encode()).hexdigest()


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _given(value) if isinstance(value, dict) else value for key, value in values.items() if value is not None
    }
