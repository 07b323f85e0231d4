"""``ragassay ab`` under the name and options of a script: python scripts/rq_eval.py --queries Q.tsv --truth QRELS.tsv ..."""

import sys

from ragassay.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "ab")
    main()
