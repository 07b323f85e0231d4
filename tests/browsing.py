"""The pages as a browser gets them."""

import html
import re
from contextlib import contextmanager
from html.parser import HTMLParser

import httpx

from api_server import listening
from ragassay.api.view import create_view
from ragassay.core.settings import Settings
from ragassay.dashboard.folder import FolderLibrary
from ragassay.storage.folder import FolderStore


class Elements(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


@contextmanager
def browsing(*only):
    """The pages over HTTP, as `ragassay view` serves them."""
    app = create_view(FolderLibrary(FolderStore(Settings().home), only))
    with listening(app) as url, httpx.Client(base_url=url, trust_env=False, timeout=30) as http:
        yield http


def plain(part):
    """A part of a page as it is read: without elements, blanks folded."""
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", part)).replace("\u00a0", " ").split())


def linked(page, pattern):
    """The address behind a text."""
    return html.unescape(re.search(rf'href="([^"]*)"[^>]*>\s*{pattern}', page)[1])
