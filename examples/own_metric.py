"""A custom metric."""

from ragassay import Sample, metric


@metric(better="higher", binary=True)
def short_enough(sample: Sample) -> float:
    """1 when the answer has at most ten words."""
    return float(len((sample.answer or "").split()) <= 10)
