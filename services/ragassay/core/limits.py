"""Bounds that packages share; beyond most of them arithmetic would not stay a number."""

SMALLEST = 1e-60  # of what is divided by
LARGEST_GRADE = 1000  # 2^grade must stay a number
LARGEST_WEIGHT = 1e6  # of a metric in a composite one
MAX_JUDGES = 9  # of one row
MAX_SAMPLES = 10  # of one judge on one row
