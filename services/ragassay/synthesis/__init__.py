"""Questions with ground truth, made from documents."""

from ragassay.synthesis.generate import Candidate, GenerationReport, draw
from ragassay.synthesis.offline import VERSION, candidates
from ragassay.synthesis.passages import read_passages

__all__ = ["VERSION", "Candidate", "GenerationReport", "candidates", "draw", "read_passages"]
