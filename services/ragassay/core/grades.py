"""The numbers that a grade may be, known without pydantic to what reads files of them."""

SMALLEST = 1e-60  # of what is divided by
LARGEST_GRADE = 1000  # 2^grade must stay a number
