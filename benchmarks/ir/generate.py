"""Made-up TREC files: generate.py FOLDER QUERIES. Seeded; 100 documents a query, 10 judged, of which 6 were retrieved."""

import sys
from pathlib import Path

import numpy as np

DEPTH, JUDGED, FOUND, DOCUMENTS = 100, 10, 6, 8_841_823


def generate(folder: Path, queries: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([20261121, queries])
    with (folder / "qrels.txt").open("w") as qrels, (folder / "run.txt").open("w") as run:
        for n in range(queries):
            steps = rng.integers(1, DOCUMENTS // (DEPTH + JUDGED), DEPTH + JUDGED - FOUND)
            documents = rng.permutation((rng.integers(DOCUMENTS) + np.cumsum(steps)) % DOCUMENTS).tolist()
            scores = (np.cumsum(rng.integers(1, 2000, DEPTH))[::-1] + 10_000) / 10_000
            top = rng.choice(DEPTH, FOUND, replace=False, p=WEIGHTS)
            judged = [documents[rank] for rank in top] + documents[DEPTH:]
            grades = rng.choice(4, JUDGED, p=[0.4, 0.3, 0.2, 0.1]).tolist()
            run.writelines(
                f"q{n:07} Q0 d{document} {rank} {score:.4f} made\n"
                for rank, (document, score) in enumerate(zip(documents[:DEPTH], scores.tolist(), strict=True), 1)
            )
            qrels.writelines(f"q{n:07} 0 d{document} {grade}\n" for document, grade in zip(judged, grades, strict=True))


WEIGHTS = 1 / (1 + np.arange(DEPTH) / 6)  # relevant documents stand near the top more often
WEIGHTS /= WEIGHTS.sum()

if __name__ == "__main__":
    generate(Path(sys.argv[1]), int(sys.argv[2]))
