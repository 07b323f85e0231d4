"""Questions with ground truth, made from documents."""

from ragassay.synthesis.generate import Candidate, GenerationReport, draw
from ragassay.synthesis.passages import read_passages
from ragassay.synthesis.templates import VERSION, candidates

__all__ = ["VERSION", "Candidate", "GenerationReport", "candidates", "draw", "read_passages"]
