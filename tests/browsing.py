"""The pages as a browser gets them, and texts that try to become more than text."""

from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser

import httpx

from api_server import listening
from ragassay.api.view import create_view
from ragassay.core.settings import Settings
from ragassay.dashboard.folder import FolderLibrary
from ragassay.storage.folder import FolderStore

PAYLOADS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "javascript:alert(1)",
    "</title><script>alert(1)</script>",
    "{{ 7 * 7 }} {% raw %}",
    "</textarea><iframe src=//evil.example>",
    '" autofocus onfocus=alert(1) x="',
]


class Elements(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


@dataclass(frozen=True)
class Home:
    """A folder of runs; by name, their ids."""

    folder: str
    runs: dict[str, str]


@contextmanager
def browsing(*only):
    """The pages over HTTP, as `ragassay view` serves them."""
    app = create_view(FolderLibrary(FolderStore(Settings().home), only))
    with listening(app) as url, httpx.Client(base_url=url, trust_env=False, timeout=30) as http:
        yield http
