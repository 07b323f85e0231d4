"""``python -m ragassay.cli``."""

from ragassay.cli import main

main()
