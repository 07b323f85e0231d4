"""Which of two retrieval configurations ranks better, offline: queries, judgments and two recipes in, one document out.

The document depends on the bytes of its inputs alone: no clock, no network, one fixed seed. docs/ab.md shows it.
"""

from ragassay.ab.recipe import Recipe
from ragassay.ab.trial import Outcome, Trial, run
from ragassay.ab.writing import to_csv, to_json, to_traces

__all__ = ["Outcome", "Recipe", "Trial", "run", "to_csv", "to_json", "to_traces"]
