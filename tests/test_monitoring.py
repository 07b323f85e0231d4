"""What lies in ``deploy/`` for Prometheus and Grafana names metrics and labels that there are, in expressions that are whole."""

import json
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "monitoring.md").read_text()
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "ragassay.json").read_text())
RULES = [
    rule
    for group in yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [
    *((panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]),
    *((rule["alert"], rule["expr"]) for rule in RULES),
]


def exported():
    """Each name that an expression may have, with its labels: the page's table, which a test compares with ``/metrics``."""
    names = {}
    for name, kind, labels in re.findall(r"^\| `(ragassay_\w+)` \| (\w+) \|([^|]*)\|", PAGE, re.M):
        known = set(re.findall(r"`(\w+)`", labels))
        if kind == "histogram":
            names |= {f"{name}_bucket": known | {"le"}, f"{name}_sum": known, f"{name}_count": known}
        else:
            names[name] = known
    return names


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS)
def test_every_expression_is_of_metrics_and_labels_that_there_are(where, expression):
    names, known = re.findall(r"ragassay_\w+", expression), exported()
    assert names
    assert set(names) <= set(known), where
    scraped = {"job", "instance"}
    for name, selector in re.findall(r"(ragassay_\w+)\{([^}]*)\}", expression):
        assert set(re.findall(r"(\w+)\s*[=!]", selector)) <= known[name] | scraped, where
    for grouped in re.findall(r"by \(([^)]*)\)", expression):
        assert set(re.split(r"\s*,\s*", grouped)) <= set.intersection(*(known[name] for name in names)) | scraped, where
    text = re.sub(r'"[^"]*"', "", expression)
    assert [text.count(mark) for mark in "([{"] == [text.count(mark) for mark in ")]}"], where
    for counter in re.findall(r"(?<!rate\()(?<!increase\()\bragassay_\w+_(?:total|bucket)\b", expression):
        pytest.fail(f"{where}: {counter} is a counter, and its value says nothing without rate() or increase()")
