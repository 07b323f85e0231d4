"""Questions with ground truth, made from documents."""

from ragassay.testset.generate import Candidate, GenerationReport, draw
from ragassay.testset.offline import VERSION, candidates
from ragassay.testset.passages import read_passages

__all__ = ["VERSION", "Candidate", "GenerationReport", "candidates", "draw", "read_passages"]
