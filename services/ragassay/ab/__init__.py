"""Which of two retrieval configurations ranks better, offline: queries, judgments and two recipes in, one document out.

The document depends on the bytes of its inputs alone: no clock, no network, one fixed seed. docs/ab.md shows it.
"""

from ragassay.ab.output import to_csv, to_traces
from ragassay.ab.recipe import Recipe
from ragassay.ab.trial import Trial, TrialRun, run

__all__ = ["Recipe", "Trial", "TrialRun", "run", "to_csv", "to_traces"]
