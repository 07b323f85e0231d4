"""The pages of live traffic, and what they lead to."""

import pytest

from api_server import serving
from browsing import Elements
from live_traffic import WRONG, received, set_rule, spans_of, trace_id
from ragassay.core.settings import Settings
from ragassay.live import store as live_store
from ragassay.live.traffic import LiveTraffic


@pytest.fixture(scope="module")
def served(server):
    with serving(server.url, Settings()) as served:
        served.jobs.store.redis.flushall()
        yield served


@pytest.fixture(scope="module")
def live(served):
    """A stream with twelve requests that are evaluated, one of them badly answered, and one without an answer."""
    live = LiveTraffic(served.jobs, Settings())
    set_rule(live, budget_usd=5)
    bad = spans_of(99, context=WRONG), spans_of(98, answer=None, other="<script>")
    live.store.append(received(*(spans_of(n) for n in range(11)), *bad))
    for _ in range(4):
        live.tick_all()
        served.work()
    return live


def page(served, address, status=200):
    answer = served.http.get(address)
    assert answer.status_code == status, answer.text[:500]
    return answer.text


def test_streams_link_to_each(served, live):
    text = page(served, "/ui/live")
    assert 'href="/ui/live/shop"' in text
    assert "100 % of the requests" in text


def test_stream_shows_windows_states_and_the_worst_rows_whose_links_work(served, live):
    text = page(served, "/ui/live/shop?kind=day")
    assert "no question or answer found</a></th><td>1" in text
    assert "12</td>" in text
    assert "<svg" in text
    rows = [given["href"] for tag, given in Elements(text).found if tag == "a" and "/row?" in given["href"]]
    assert trace_id(99) in rows[0]  # the worst one comes first
    assert "(99)" in page(served, rows[0])
    worst = text.partition("Worst rows by faithfulness")[2].partition("</section>")[0]
    assert "are they kept? (99)</a>" in worst
    assert worst.count("/row?") == 1  # the others have the best score
    assert "Lines are 95 % intervals." in text
    assert "&lt;script" not in page(served, "/ui/live/shop?status=evaluated")
    assert "attributes seen" in page(served, "/ui/live/shop?status=no_answer")


@pytest.mark.parametrize(
    ("path", "asked", "entries"),
    [
        ("/v1/live/streams", {}, 1),
        ("/v1/live/streams/shop/windows", {}, 2),
        ("/v1/live/streams/shop/requests", {}, 13),
        ("/v1/live/streams/shop/requests", {"status": "no_answer"}, 1),
        ("/v1/live/streams/shop/requests", {"status": "evaluated"}, 12),
    ],
)
def test_lists_are_read_page_by_page(served, live, monkeypatch, path, asked, entries):
    key = path.rpartition("/")[2]
    monkeypatch.setattr(live_store, "MAX_LOOKED_AT", 5)
    earlier = live.store.key("hours", "shop")
    live.store.redis.zadd(earlier, {"2023-11-14T22": 1.7e12})
    listed, parameters = [], {"limit": 1, **asked}
    while "cursor" not in parameters or parameters["cursor"]:
        page = served.http.get(path, params=parameters).json()
        assert len(page[key]) <= 1
        listed += page[key]
        parameters["cursor"] = page["next"]
    monkeypatch.setattr(live_store, "MAX_LOOKED_AT", 1000)
    assert listed == served.http.get(path, params={"limit": 48, **asked}).json()[key]
    live.store.redis.zrem(earlier, "2023-11-14T22")
    assert len(listed) == entries
    for cursor in ("?", f"{'٣' * 15}-x"):  # digits, but none of Redis's
        problem = served.http.get(path, params={"cursor": cursor})
        assert (problem.status_code, "cursor" in problem.json()["detail"]) == (422, True)


def test_add_puts_a_row_into_a_dataset(served, live):
    form = {"trace": trace_id(99), "dataset": "hard"}
    answer = served.http.post("/ui/live/shop/dataset", data=form)
    assert answer.headers["location"] == "/ui/live/shop?added=hard"
    assert 'href="/ui/datasets/hard"' in page(served, answer.headers["location"])
    assert "(99)" in page(served, "/ui/datasets/hard")
    assert served.http.post("/ui/live/other/dataset", data=form).status_code == 404


def test_stream_without_requests_or_rule(served, live):
    page(served, "/ui/live/nothing", 404)
    live.store.append(received(spans_of(500), stream="new"))
    assert "it has no rule" in page(served, "/ui/live")
    assert "PUT /v1/live/streams/new" in page(served, "/ui/live/new")
