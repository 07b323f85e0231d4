"""Endpoints that misbehave on the wire: the row has a reason, the others an answer, and memory stays bounded."""

import socket
import threading
import time
import tracemalloc

import pytest

from endpoint import CHAT, FAULTY, Endpoint
from live_systems import ask

REASONS = {
    "drips": "no answer within 1.5 s",
    "endless-headers": "no reply: ",
    "cuts": "the reply breaks off: peer closed connection",
    "resets": "no reply: ",
    "resets-midway": "the reply breaks off: ",
    "not-utf-8": 'the reply is not UTF-8 from byte 15: \'{"answer": "caf',
    "half-a-character": "the reply can't be kept: Error serializing to JSON: UnicodeEncodeError",
    "no-gzip": "the reply is not gzip, although it says so",
    "half-gzip": "the reply breaks off: its gzip is not whole",
    "brotli": "the reply is packed as 'br'; gzip, deflate or nothing was asked for",
    "bomb": "the reply is longer than 10 MB",
    "no-http": "no reply: ",
    "bottomless": "the reply is not JSON: '[[[[",
    "100-mb": "the reply is longer than 10 MB",
}


@pytest.fixture(scope="module")
def endpoint():
    with Endpoint() as running:
        yield running


@pytest.mark.parametrize("fault", FAULTY)
def test_a_faulty_reply_is_the_error_of_its_row_and_of_no_other(endpoint, fault):
    wrong, right = ask([fault, "capital?"], url=endpoint.url, timeout_s=1.5 if fault == "drips" else 30)
    assert wrong.answer is None
    assert wrong.error.startswith(REASONS[fault])
    assert (right.error, right.answer) == (None, "Paris is the capital.")


@pytest.mark.parametrize("fault", ["bomb", "100-mb"])
def test_what_is_long_is_not_taken_into_memory(endpoint, fault):
    """10 MB, as they grow, and a piece more; unpacked at once, a piece of the bomb has 64 MB."""
    ask([fault], url=endpoint.url)
    tracemalloc.start()
    try:
        ask([fault], url=endpoint.url)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 45_000_000


def test_a_cookie_of_one_reply_is_not_sent_with_the_next_query(endpoint):
    ask(["cookie", "capital?"], url=endpoint.url, concurrency=1)
    assert "Cookie" not in endpoint.headers[-1]


@pytest.mark.parametrize("shape", ["chat", "garbage"])
def test_a_stream_that_is_closed_in_the_middle_of_a_piece_breaks_off(shape):
    """A raw server: it announces a piece of 100 bytes, sends less, and closes."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listening.accept()
        connection.recv(65536)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        piece = CHAT[1] if shape == "chat" else b"zz"
        connection.sendall(head + (b"%x\r\n" % 1000 if shape == "chat" else b"") + piece)
        time.sleep(0.1)
        connection.close()

    threading.Thread(target=serve, daemon=True).start()
    [broken] = ask(["?"], url=f"http://127.0.0.1:{listening.getsockname()[1]}/", stream="sse", reply={"answer": "$.x"})
    listening.close()
    assert broken.error.startswith("the reply breaks off: ")


@pytest.mark.parametrize("value", ["a\r\nX-Other: b", "caf\xe9", "a\x00b"])
def test_a_header_that_can_not_be_sent_ends_the_run_before_it_begins(endpoint, monkeypatch, value):
    from ragassay.core.errors import BadSettings

    monkeypatch.setattr("os.environ", {"TOKEN": value})
    with pytest.raises(BadSettings, match="a header can't have line breaks"):
        ask(["capital?"], url=endpoint.url, headers={"X-Token": "${TOKEN}"})
