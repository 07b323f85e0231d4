"""What systems, models and people write is shown by a real browser, and nothing of it happens."""

import json
from urllib.parse import urlencode

import pytest

import ragassay
from payloads import PAYLOADS
from provider import Answer, Provider, verdicts
from ragassay.storage.protocol import system_name

# elements that our pages have none of, attributes that do something, and addresses that lead elsewhere
MADE = """() => {
  const all = [...document.querySelectorAll("*")];
  const tags = new Set(("img image iframe object embed base audio video source style math form[action*=evil] template marquee "
    + "noscript foreignobject use animate dialog option[onload]").split(" "));
  const leads = (e) => ["href", "src", "action", "xlink:href", "srcset", "formaction", "ping"].some((name) => {
    const to = e.getAttribute(name);
    return to !== null && !(to.startsWith("#") || new URL(to, location).origin === location.origin);
  });
  return all.filter((e) => tags.has(e.localName.toLowerCase()) || leads(e)
    || (e.localName === "script" && !e.getAttribute("src")?.startsWith("/ui/static/"))
    || (e.localName === "link" && !e.getAttribute("href").startsWith("/ui/static/"))
    || (e.localName === "meta" && e.hasAttribute("http-equiv"))
    || [...e.attributes].some((a) => a.name.startsWith("on") || a.name === "style" || a.name === "autofocus" || a.name === "srcdoc")
  ).map((e) => e.outerHTML.slice(0, 200));
}"""


def rows():
    for n, text in enumerate(PAYLOADS):
        yield {
            "query_id": f"q{n} {text}",
            "query": text,
            "ground_truth_answer": text,
            "answer": f"{text} Sentence {n} says more.",
            "contexts": [text, f"Sentence {n} says more. {text}"],
            "retrieved_doc_ids": [text, "d1"],
            "relevant_doc_ids": [text],
            "category": text,
            "difficulty": text,
            "model": text,
            "route": text,
            "cost_usd": 0.001,
            "latency_ms": 100 + n,
            **({"error": text} if n % 10 == 9 else {}),
        }


def play(seen):
    """A judge whose every word is a payload."""
    reply, text = verdicts(seen), PAYLOADS[seen.n % len(PAYLOADS)]
    for units in reply.values():
        for unit in units if isinstance(units, list) else ():
            if isinstance(unit, dict):
                unit["why"] = text
    return Answer(json.dumps(reply | {"why": text}))


@pytest.fixture(scope="session")
def home(made_once):
    """Two runs of rows made of payloads, judged by a model that writes payloads, and datasets of them."""

    def make():
        with pytest.MonkeyPatch.context() as patched, Provider(then=play) as provider:
            patched.setenv("OPENAI_API_KEY", "sk-test")
            asked = {
                "judge": "openai/a",
                "api_base": provider.url,
                "metrics": ["faithfulness", "accurate", "correctness"],
            }
            runs = {text: ragassay.evaluate(list(rows()), name=text, **asked).run.id for text in PAYLOADS[9:11]}
        for n, text in enumerate(PAYLOADS[:2]):
            given = [{**row, "split": row["query"]} for row in rows()]
            ragassay.Datasets().import_(given[n:], name="hostile", description=text)
        return runs

    return made_once("payloads", make)


def test_sixty_payloads_in_every_field_are_read_as_written_and_do_nothing_on_any_page(watched, runs):
    run, other = runs.values()
    where = f"/ui/runs/{run}"
    paths = ["/ui/runs", where, f"{where}/queries", f"{where}/queries?from=50", f"{where}/label", "/ui/compare"]
    paths += [f"/ui/compare?run={run}&run={other}", "/ui/trends", "/ui/cost?by=category", "/ui/cost?by=model"]
    paths += [f"{where}/row?at={n}" for n in range(len(PAYLOADS))]
    paths += [f"{where}/label?{urlencode({'row': row['query_id']})}" for row in list(rows())[::8]]
    paths += ["/ui/datasets", "/ui/datasets/hostile", "/ui/datasets/hostile?from=50"]
    for n, text in enumerate(PAYLOADS[::2]):  # in an address, each page and field in turn
        place, field = [
            ("/ui/runs", "q"),
            (f"{where}/queries", "text"),
            (f"{where}/queries", "category"),
            (f"{where}/queries", "where"),
            (f"{where}/queries", "sort"),
            ("/ui/trends", "metric"),
            ("/ui/compare", "run"),
            ("/ui/cost", "by"),
            (f"{where}/label", "metric"),
            (f"{where}/queries", "system"),
            ("/ui/trends", "system"),
            ("/ui/cost", "system"),
            ("/ui/datasets", "q"),
            ("/ui/datasets/hostile", "text"),
            ("/ui/datasets/hostile", "version"),
        ][n % 15]
        paths.append(f"{place}?{urlencode({field: text[:200]})}")
    assert len(PAYLOADS) >= 60
    made = {}
    for path in paths:
        watched.page.goto(path)
        if found := watched.page.evaluate(MADE):
            made[path] = found
        if "/row?at=" in path:
            assert watched.page.locator("h1").text_content() == PAYLOADS[int(path.rpartition("=")[2])]
        watched.assert_quiet()
    assert not made


@pytest.mark.parametrize("text", PAYLOADS)
def test_no_system_has_such_a_name(text):
    with pytest.raises(ValueError, match="system name"):
        system_name(text)


def test_rows_of_payloads_are_labelled(watched, runs):
    page = watched.page
    page.goto(f"/ui/runs/{runs[PAYLOADS[9]]}/label")
    page.get_by_label("Your name, kept").fill(PAYLOADS[9])
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Next row").wait_for()
    assert page.evaluate(MADE) == []
