"""The page at ``/docs``."""

import base64
import hashlib
import re
from html.parser import HTMLParser

from ragassay.api.app import create_app
from ragassay.api.page import page
from ragassay.settings import Settings


class Seen(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.ids, self.links, self.inline = set(), set(), set(), False

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.add(tag)
        self.ids.add(given.get("id"))
        self.links |= {given[key] for key in ("href", "src") if key in given}
        self.inline = self.inline or "style" in given or any(key.startswith("on") for key in given)


def test_the_page_loads_nothing_and_its_policy_allows_its_own_style_alone(served):
    answer = served.http.get("/docs")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = answer.headers["content-security-policy"]
    [style] = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
    seen = Seen()
    seen.feed(answer.text)
    assert not seen.inline
    assert not seen.tags & {"script", "link", "img", "iframe", "form", "object"}
    assert all(link == "openapi.json" or link[1:] in seen.ids for link in seen.links)


def test_the_page_shows_every_operation_and_schema():
    app = create_app(None, Settings())
    document = app.openapi()
    text = page(document)
    ids = {operation["operationId"] for methods in document["paths"].values() for operation in methods.values()}
    for name in (*ids, *document["components"]["schemas"]):
        assert f'id="{name}"' in text
    assert "/docs" not in document["paths"]


def test_text_of_the_document_is_no_markup():
    info = {"title": "<b>x", "version": "1", "description": "a & <script>"}
    text = page({"info": info, "paths": {}, "components": {"schemas": {"A": {"description": '"><img>'}}}})
    assert "<script>" not in text
    assert "<img>" not in text
    assert "<b>x" not in text
