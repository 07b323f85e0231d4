"""A page of a real browser, and what it does that a page of ours must not."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import axe_playwright_python
import pytest
from playwright.sync_api import sync_playwright

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
_RULES = "only => axe.run(document, {preload: false, resultTypes: ['violations'], runOnly: only ?? undefined})"


CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")


@contextmanager
def browser():
    """Chromium, or the test is skipped. Until the block ends nothing else in its thread can run a loop of asyncio."""
    if not CHROMIUM:
        pytest.skip("there is no Chromium: apt-get install chromium, or its path in CHROMIUM")
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]) as running,
    ):
        yield running


@contextmanager
def watched_page(chromium, site):
    """A page that is watched; what it did wrong fails the test at the end."""
    with chromium.new_context(base_url=site) as context:
        page = context.new_page()
        page.set_default_timeout(15_000)
        watching = Watched(page, site)
        yield watching
        watching.assert_quiet()


class Watched:
    """Remembers errors of a page, requests to other hosts, what the policy refused, and dialogs.

    That an address of ours answers with a problem is no error of the page that tells of it.
    """

    def __init__(self, page, site):
        self.page, self.site, self.wrong = page, site, []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.wrong.append(f"script failed: {error}"))
        page.on("request", self._asked)
        page.on("dialog", self._opened)

    def _said(self, message):
        problem = message.location["url"] == self.page.url and "the server responded with a status of" in message.text
        if message.type in ("error", "warning") and not problem:
            self.wrong.append(f"console, {message.type}: {message.text}")

    def _asked(self, request):
        there, here = urlsplit(request.url), urlsplit(self.site)
        if (there.scheme, there.netloc) != (here.scheme, here.netloc):
            self.wrong.append(f"asked another host: {request.url[:200]}")

    def _opened(self, dialog):
        self.wrong.append(f"opened a dialog: {dialog.message}")
        dialog.dismiss()

    def assert_quiet(self):
        """Nothing of the kind happened up to now."""
        assert not self.wrong, f"{self.page.url}: {self.wrong}"

    def barriers(self, only=None):
        """What axe finds, by all its rules or by some, a line for each element."""
        if not self.page.evaluate("typeof axe === 'object'"):
            self.page.evaluate(AXE)
        return [
            f"{rule['id']}: {node['html'][:160]}: {' '.join(node['failureSummary'].split())[:240]}"
            for rule in self.page.evaluate(_RULES, only)["violations"]
            for node in rule["nodes"]
        ]

    def in_the_way(self):
        """What is in the way of readers with wide and narrow windows, light and dark; the dark differs in its colours alone."""
        found = []
        for scheme, width in (("light", 1280), ("dark", 1280), ("dark", 390), ("light", 390)):
            rules = None if scheme == "light" else ["color-contrast"]
            self.page.emulate_media(color_scheme=scheme)
            self.page.set_viewport_size({"width": width, "height": 900})
            wider = self.overflow()
            sideways = [f"wider than the window by {wider} px"] if wider > 0 else []
            found += [f"{scheme}, {width} px: {one}" for one in self.barriers(rules) + sideways]
        return found

    def overflow(self):
        """By how many pixels the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
