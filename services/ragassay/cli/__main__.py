"""``python -m ragassay.cli``."""

from ragassay.cli import main

if __name__ == "__main__":  # a process that the API starts beside itself imports this file too
    main()
