"""Make docs/images/: pictures of the run that `ragassay demo` makes, after fourteen nightly runs of changed answers.

Beside each picture lies a text file with the answer that it shows; a test compares it with what the code says now.

    python scripts/screenshots.py [--all FOLDER]   # --all: every page, wide and narrow, light and dark, to look at

Needs Chromium (or its path in CHROMIUM). The runs are the same each time but for their ids; they are dated one day apart.
"""

import argparse
import json
import os
import random
import re
import shutil
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
NIGHTS, MENDED = 14, 8  # from this night on the systems answer more
SHOWN = {"runs": 860, "run": 1000, "compare": 1240, "row": 900}  # heights in pixels
LAST_NIGHT = datetime(2026, 11, 20, 3, tzinfo=UTC)


def night(folder, number):
    """The files of responses of one night, by system."""
    chance, files = random.Random(number), {}
    for name in ("baseline", "candidate"):
        lines = (ROOT / "datasets" / "quickstart" / "responses" / f"{name}.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        for row in rows:
            dearer = 1.4 if name == "candidate" else 1
            row |= {
                "cost_usd": round(chance.uniform(0.0006, 0.0021) * dearer, 6),
                "latency_ms": round(chance.lognormvariate(6.2, 0.5)),
            }
            if chance.random() > (0.72 if number < MENDED else 0.95):
                row["answer"] = "I can't say."
        files[name] = str(folder / f"{name}.jsonl")
        Path(files[name]).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return files


def dated(run, at):
    """Let a run have been made at a time."""
    document = json.loads((run / "run.json").read_text())["created_at"]
    for path in run.glob("*.json"):
        path.write_text(path.read_text().replace(document, at.isoformat(timespec="milliseconds")))


def runs(folder):
    """Evaluate the nights and then the demo's systems into a home in the folder; the ids of the runs, the oldest first."""
    import ragassay

    home, ids = folder / "home", []
    os.environ |= {"RAGASSAY_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    for number in range(NIGHTS):
        report = ragassay.evaluate(
            str(ROOT / "datasets" / "quickstart" / "queries.jsonl"),
            systems=night(folder, number),
            name=f"nightly {number + 1}",
        )
        dated(home / "runs" / report.run.id, LAST_NIGHT - timedelta(days=NIGHTS - 1 - number))
        ids.append(report.run.id)
    quickstart = ROOT / "datasets" / "quickstart"
    systems = {name: str(quickstart / "responses" / f"{name}.jsonl") for name in ("baseline", "candidate")}
    ids.append(ragassay.evaluate(str(quickstart / "queries.jsonl"), systems=systems, name="quickstart").run.id)
    dated(home / "runs" / ids[-1], LAST_NIGHT + timedelta(hours=12))
    return ids


def addresses(ids):
    last, before = ids[-1], ids[MENDED - 2]
    return {
        "runs": "/ui/runs",
        "run": f"/ui/runs/{last}",
        "queries": f"/ui/runs/{last}/queries?sort=correctness",
        "row": f"/ui/runs/{last}/row?system=baseline&id=qs-18",
        "label": f"/ui/runs/{last}/label",
        "compare": f"/ui/compare?run={last}",
        "changes": f"/ui/compare?run={before}%23candidate&run={last}%23candidate",
        "trends": "/ui/trends",
        "cost": "/ui/cost",
    }


def answers(http, pages):
    """What the page of each picture says first, by the picture's name; without dates, which change."""
    from browsing import plain

    texts = {}
    for name in SHOWN:
        page = http.get(pages[name]).raise_for_status().text
        card = re.search(r'<div class="card" role="region".*?</div>', page, re.DOTALL)
        said = r"<p(?: class=\"answer\")?>.*?</p>" if card else r'<(\w+) class="(?:question|said)">.*?</\1>'
        parts = re.finditer(said, card[0] if card else page, re.DOTALL)
        texts[name] = "".join(f"{plain(one[0])}\n" for one in parts)
    return texts


def show(page, address):
    """Open a page of ours."""
    if not page.goto(str(address)).ok:
        sys.exit(f"{address} can't be shown")


def small(path):
    """A picture in few colours."""
    from PIL import Image

    picture = Image.open(path).convert("RGB").quantize(160, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    picture.save(path, optimize=True)


def main():
    from playwright.sync_api import sync_playwright

    from browsing import browsing

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--all", type=Path, metavar="FOLDER")
    everything = parser.parse_args().all
    into = everything or ROOT / "docs" / "images"
    into.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder:
        pages = addresses(runs(Path(folder)))
        with (
            browsing() as http,
            sync_playwright() as playwright,
            playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]) as browser,
        ):
            for scheme, width in product(("light", "dark"), (1280, 390)) if everything else ():
                with browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800}) as context:
                    page = context.new_page()
                    for name, path in pages.items():
                        show(page, http.base_url.join(path))
                        page.screenshot(path=into / f"{name}-{width}-{scheme}.png", full_page=True)
            for name, text in () if everything else answers(http, pages).items():
                (into / f"{name}.txt").write_text(text)
            for name, height in () if everything else SHOWN.items():
                with browser.new_context(viewport={"width": 1280, "height": height}) as context:
                    page = context.new_page()
                    show(page, http.base_url.join(pages[name]))
                    page.screenshot(path=into / f"{name}.png")
                    small(into / f"{name}.png")


if __name__ == "__main__":
    main()
