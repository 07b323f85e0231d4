"""The bundled model on onnxruntime beside the same weights in sentence-transformers: start, texts per second, memory.

    python benchmarks/embeddings.py [--rounds 5] [--page docs/performance.md]

Texts are those of ``benchmarks/llm/gen_dataset.py``: the sentences that the local judge embeds, and whole contexts as a dense
retriever does. In each round both run once, each in a process of its own, with as many threads as they choose; a ratio is
taken inside a round, and the median of the rounds is reported. Vectors must agree to 1e-5. The table goes into PAGE, between its
two markers. Exits 1 below 1.8 times the texts per second. Needs the extra ``models``.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measured import load, machine, put

sys.path.insert(0, str(Path(__file__).parent / "llm"))
LEAST = 1.8
TOOLS = ("sentence-transformers", "ragassay")
KINDS = {"sentences": 600, "contexts": 150}


def texts_of(kind):
    import gen_dataset

    from ragassay.judges.text import sentences

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "items.jsonl"
        gen_dataset.write(60, file)
        items = [json.loads(line) for line in file.read_text().splitlines()]
    whole = [text for item in items for text in item["contexts"]]
    cut = [
        s for item in items for text in (item["query"], item["answer"], item["ground_truth"]) for s in sentences(text)
    ]
    found = dict.fromkeys(whole if kind == "contexts" else cut + [s for text in whole for s in sentences(text)])
    return list(found)[: KINDS[kind]]


def one(tool):
    """Load the model and encode both kinds of texts; prints times, peak memory and a few numbers of the vectors."""
    texts = {kind: texts_of(kind) for kind in KINDS}
    began, cpu = time.perf_counter(), time.process_time()
    if tool == "ragassay":
        from ragassay.embeddings import LocalEmbedder

        embed = LocalEmbedder().embed
    else:
        from sentence_transformers import SentenceTransformer

        from ragassay.embeddings import bundled_model

        model = SentenceTransformer(str(bundled_model()), device="cpu", local_files_only=True)

        def embed(given):
            return model.encode(given, normalize_embeddings=True, show_progress_bar=False)

    embed(["The first text."])
    line = {"start": time.perf_counter() - began, "start_cpu": time.process_time() - cpu}
    for kind, given in texts.items():
        began, cpu = time.perf_counter(), time.process_time()
        vectors = embed(given)
        line[kind] = len(given) / (time.perf_counter() - began)
        line[f"{kind}_cpu"] = len(given) / (time.process_time() - cpu)
        line[f"{kind}_vectors"] = vectors[:: len(given) // 20, ::16].tolist()
    scale = 1024 if sys.platform != "darwin" else 1 << 20
    line["mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale
    print(json.dumps(line))


def rounds_of(count):
    rows = {tool: [] for tool in TOOLS}
    for number in range(count):
        for tool in TOOLS[:: 1 if number % 2 else -1]:
            done = subprocess.run([sys.executable, __file__, "--one", tool], check=True, capture_output=True, text=True)
            rows[tool].append(json.loads(done.stdout.splitlines()[-1]))
            print(
                f"round {number + 1}: {tool} {rows[tool][-1]['sentences']:.0f} sentences/s", file=sys.stderr, flush=True
            )
    for kind in KINDS:
        pairs = zip(*(rows[tool][0][f"{kind}_vectors"] for tool in TOOLS), strict=True)
        if max(abs(a - b) for ours, theirs in pairs for a, b in zip(ours, theirs, strict=True)) > 1e-5:
            sys.exit(f"the vectors of {kind} do not agree")
    return rows


def table(rows):
    """A table in Markdown, and the targets that were missed."""
    keys = {
        "start, s": ("start", ".2f"),
        "of it processor time, s": ("start_cpu", ".2f"),
        "sentences per second": ("sentences", ",.0f"),
        "per second of processor time": ("sentences_cpu", ",.0f"),
        "contexts per second": ("contexts", ",.0f"),
        "per second of processor time ": ("contexts_cpu", ",.0f"),
        "peak memory, MB": ("mb", ",.0f"),
    }
    lines, missed = [f"| | {' | '.join(TOOLS)} | ratio (min to max) |", "|---|---|---|---|"], []
    for title, (key, form) in keys.items():
        theirs, ours = ([row[key] for row in rows[tool]] for tool in TOOLS)
        ratios = [
            o / t if key in (*KINDS, "sentences_cpu", "contexts_cpu") else t / o
            for t, o in zip(theirs, ours, strict=True)
        ]
        middle = [format(statistics.median(values), form) for values in (theirs, ours)]
        ratio = f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
        lines.append(f"| {title.strip()} | {' | '.join(middle)} | {ratio} |")
        if key in KINDS and statistics.median(ratios) < LEAST:
            missed.append(f"{title}: {ratio} times sentence-transformers, wanted {LEAST}")
    return "\n".join(lines), missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--one", choices=TOOLS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return one(options.one)
    before = load()
    text, missed = table(rounds_of(options.rounds))
    about = (
        f"{machine(before)}; {options.rounds} rounds, {KINDS['sentences']} sentences, {KINDS['contexts']} contexts.\n\n"
    )
    print(about + text, flush=True)
    if options.page:
        put(options.page, "embeddings", f"{about}{text}\n")
    print("\n".join(missed) or "all targets met", file=sys.stderr)
    return sys.exit(bool(missed))


if __name__ == "__main__":
    main()
