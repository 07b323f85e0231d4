"""What somebody typed in leads to no private address: not by its form, its name, a redirect, nor a second look."""

import ipaddress
import socket
import ssl
import subprocess
import threading
import time
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler

import pytest

from loopback import LoopbackServer, Quiet
from ragassay.core.errors import BadInput, BadSettings, TimedOut, Unavailable
from ragassay.core.http_guard import Allowed, check_url, is_own, is_public, post

PUBLIC = "93.184.215.14"


def send(url, *allowed, timeout_s=5):
    """The status that the address answers."""
    return post(url, b"{}", {}, allowed=Allowed.read(allowed), timeout_s=timeout_s)


class Sink(LoopbackServer):
    """A server that nobody should reach: counts connections, and answers what ``answer`` writes."""

    address_family = socket.AF_INET6  # and IPv4: it listens on ::, so every private address of this machine leads here

    def __init__(self, answer=None, port=0):
        self.connections, self.requests, self.answer = 0, [], answer or (lambda handler: handler.plain(200, b"ok"))
        super().__init__(_Answers, port, host="::")

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def get_request(self):
        self.connections += 1
        return super().get_request()


class _Answers(Quiet, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.server.requests.append((self.path, dict(self.headers)))
        self.server.answer(self)

    def plain(self, status, body, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def sink():
    with Sink() as server:
        yield server


@pytest.fixture
def names(monkeypatch):
    """Names and what each resolves to, look-up by look-up; the last stays. Other hosts are looked up as ever."""
    real, answers, asked = socket.getaddrinfo, {}, []

    def look_up(host, port, *args, **kwargs):
        name = host.decode() if isinstance(host, bytes) else host
        if name not in answers:
            return real(host, port, *args, **kwargs)
        asked.append(name)
        now = answers[name].pop(0) if len(answers[name]) > 1 else answers[name][0]
        families = {4: socket.AF_INET, 6: socket.AF_INET6}
        return [(families[ipaddress.ip_address(a).version], socket.SOCK_STREAM, 6, "", (a, port)) for a in now]

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    answers["asked"] = asked
    return answers


FORMS = """
    http://127.0.0.1:PORT/ http://127.0.0.1:PORT http://127.0.0.2:PORT/ http://127.255.255.254:PORT/
    http://127.1:PORT/ http://127.0.1:PORT/ http://0177.0.0.1:PORT/ http://0x7f.0.0.1:PORT/ http://0x7f.1:PORT/
    http://2130706433:PORT/ http://017700000001:PORT/ http://0x7f000001:PORT/ http://0X7F000001:PORT/
    http://0000000000127.0.0.1:PORT/ http://127.0.0.01:PORT/ http://0:PORT/ http://0.0.0.0:PORT/ http://00000:PORT/
    http://localhost:PORT/ http://LOCALHOST:PORT/ http://localhost.:PORT/ http://127.0.0.1.:PORT/ http://LocalHost:PORT/a
    http://localhost.localdomain:PORT/ http://ip6-localhost:PORT/
    http://[::1]:PORT/ http://[0:0:0:0:0:0:0:1]:PORT/ http://[0000::0001]:PORT/ http://[::]:PORT/ http://[::1%25lo]:PORT/
    http://[::1%251]:PORT/ http://[fe80::1%25lo]:PORT/ http://[fe80::1%25eth0]:PORT/ http://[fe80::1]:PORT/
    http://[::ffff:127.0.0.1]:PORT/ http://[::ffff:7f00:1]:PORT/ http://[0:0:0:0:0:ffff:127.0.0.1]:PORT/
    http://[::127.0.0.1]:PORT/ http://[::ffff:0:127.0.0.1]:PORT/ http://[64:ff9b::127.0.0.1]:PORT/
    http://[64:ff9b::a9fe:a9fe]/ http://[64:ff9b:1::a9fe:a9fe]/ http://[2002:7f00:1::1]:PORT/ http://[2002:a9fe:a9fe::]/
    http://[2001:0:7f00:1::]:PORT/ http://[fec0::1]:PORT/ http://[fc00::1]:PORT/ http://[fd00:ec2::254]/
    http://[ff02::1]:PORT/ http://[2001:db8::1]:PORT/ http://[100::1]:PORT/ http://[5f00::1]:PORT/
    http://169.254.169.254/latest/meta-data/ http://2852039166/ http://0xa9fea9fe/ http://169.254.43518/
    http://168.63.129.16/ http://100.100.100.200/ http://192.0.0.192/ http://10.0.0.1/ http://172.16.0.1/ http://172.31.255.1/
    http://192.168.0.1/ http://100.64.0.1/ http://198.18.0.1/ http://192.0.2.1/ http://198.51.100.1/ http://203.0.113.1/
    http://192.88.99.1/ http://224.0.0.1/ http://240.0.0.1/ http://255.255.255.255/
    http://127。0。0。1:PORT/ http://127．0．0．1:PORT/ http://１２７.0.0.1:PORT/ http://①②⑦.⓪.⓪.①:PORT/ http://ⓛocalhost:PORT/
    http://ｌｏｃａｌｈｏｓｔ:PORT/ http://xn--:PORT/ http://127.0.0.1%2f.example:PORT/ http://%31%32%37.0.0.1:PORT/
    http://example.com@127.0.0.1:PORT/ http://127.0.0.1:PORT@127.0.0.1:PORT/ http://user:password@localhost:PORT/
    http://127.0.0.1:PORT#@example.com/ http://127.0.0.1:PORT?@example.com/ http://example.com\\@127.0.0.1:PORT/
    http://127.0.0.1:PORT\\@example.com/ http://@127.0.0.1:PORT/ http://:@[::1]:PORT/
    HTTP://127.0.0.1:PORT/ hTTps://127.0.0.1:PORT/ https://localhost:PORT/ http:/127.0.0.1:PORT/ http:127.0.0.1:PORT/
    //127.0.0.1:PORT/ ///127.0.0.1:PORT/ http:///127.0.0.1:PORT/ http://127.0.0.1:0PORT/ 127.0.0.1:PORT localhost
    ftp://127.0.0.1:PORT/ gopher://127.0.0.1:PORT/ file:///etc/passwd dict://127.0.0.1:PORT/ ws://127.0.0.1:PORT/
    unix:///var/run/docker.sock http+unix://%2Fvar%2Frun%2Fdocker.sock/ data:text/plain,a jar:http://127.0.0.1:PORT/
    http://.:PORT/ http://..:PORT/ http://a..b:PORT/ http://[:PORT/ http://]:PORT/ http://[]:PORT/ http://:PORT/
    """.split()
WRITTEN = ["", " ", *(f"http://{host}:PORT/" for host in ("127.0.0.1\t", "127.0.0.1\n", "\x00127.0.0.1", "127.0.0.1 "))]


@pytest.fixture
def untouched(sink):
    """Nobody connects to the sink in this test."""
    before = sink.connections
    yield
    assert sink.connections == before


@pytest.mark.parametrize("form", FORMS + WRITTEN)
def test_no_form_of_an_address_leads_to_a_private_one(sink, form, untouched):
    with pytest.raises(BadInput):
        send(form.replace("PORT", str(sink.port)))


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], [PUBLIC, "127.0.0.1"], ["127.0.0.1", PUBLIC], ["64:ff9b::7f00:1"]]
)
def test_a_name_with_one_address_that_is_not_public_is_refused(sink, names, addresses, untouched):
    names["hooks.example"] = [addresses]
    with pytest.raises(BadInput, match="not on the public internet"):
        send(f"http://hooks.example:{sink.port}/")


def test_a_name_that_changes_between_two_looks_is_looked_up_once(sink, names, monkeypatch, untouched):
    """DNS rebinding: public when it is checked, private when it is connected to. We connect to what was checked."""
    names["rebinding.example"] = [[PUBLIC], ["127.0.0.1"]]
    dialled = []

    def connect(address, *args, **kwargs):
        dialled.append(address)
        raise ConnectionRefusedError(111, "refused by the test")

    monkeypatch.setattr("socket.create_connection", connect)
    with pytest.raises(Unavailable):
        send(f"http://rebinding.example:{sink.port}/")
    assert (dialled, names["asked"]) == ([(PUBLIC, sink.port)], ["rebinding.example"])
    with pytest.raises(BadInput, match="not on the public internet"):
        send(f"http://rebinding.example:{sink.port}/")
    assert len(dialled) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_answer_and_leads_nowhere(sink, status, untouched):
    target = f"http://127.0.0.1:{sink.port}/"
    with Sink(lambda handler: handler.plain(status, b"", Location=target)) as public:
        assert send(f"http://localhost:{public.port}/", f"localhost:{public.port}") == status


def test_a_proxy_of_the_environment_is_not_asked(sink, monkeypatch, names, untouched):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{sink.port}")
    names["hooks.example"] = [["10.0.0.1"]]
    for scheme in ("http", "https"):
        with pytest.raises(BadInput):
            send(f"{scheme}://hooks.example/")


@pytest.mark.parametrize(
    ("allowed", "url", "reached"),
    [
        ("localhost", "http://localhost:PORT/", True),
        ("localhost:PORT", "http://localhost:PORT/", True),
        ("localhost:1", "http://localhost:PORT/", False),
        ("localhost", "http://127.0.0.1:PORT/", False),
        ("127.0.0.1", "http://127.0.0.1:PORT/", True),
        ("127.0.0.1:PORT", "http://2130706433:PORT/", True),
        ("127.0.0.1:2", "http://127.0.0.1:PORT/", False),
        ("127.0.0.0/8", "http://127.0.0.1:PORT/", True),
        ("10.0.0.0/8", "http://127.0.0.1:PORT/", False),
        ("[::1]:PORT", "http://[::1]:PORT/", True),
        ("127.0.0.0/8", "http://[::ffff:127.0.0.1]:PORT/", False),
    ],
)
def test_the_operator_allows_hosts_ports_and_networks(sink, allowed, url, reached):
    before, port = sink.connections, str(sink.port)
    with nullcontext() if reached else pytest.raises(BadInput):
        assert send(url.replace("PORT", port), allowed.replace("PORT", port)) == 200
    assert sink.connections - before == reached


@pytest.mark.parametrize(
    "entry", ["", "a b", "http://x/", "x:0", "x:70000", "x:y", "10.0.0.0/40", "[::1", "*.internal"]
)
def test_an_allow_list_that_can_not_be_read_is_refused(entry):
    with pytest.raises(BadSettings, match="can't read"):
        Allowed.read(["fine.example", entry])


@pytest.mark.parametrize("port", [22, 25])
def test_ports_of_other_services_are_refused_unless_the_operator_names_them(port, names):
    names["mail.example"] = [[PUBLIC]]
    for use in (check_url, send):
        with pytest.raises(BadInput, match=f"port {port} is refused"):
            use(f"http://mail.example:{port}/")
    check_url(f"http://mail.example:{port}/", allowed=Allowed.read([f"mail.example:{port}"]))
    check_url(f"http://10.0.0.1:{port}/", allowed=Allowed.read(["10.0.0.0/8"]))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://hooks.example/", "its scheme should be https or http"),
        ("https://me:secret@hooks.example/", "a user or a password"),
        ("https:///path", "names no host"),
        ("https://xn--/", "no address"),
        ("https://hooks.example:99999/", "there is no port 99999"),
        ("https://10.0.0.1/", "not on the public internet"),
        ("http://localhost:9188/", "not on the public internet"),
    ],
)
def test_a_url_is_checked_as_far_as_it_can_be_without_looking_it_up(url, said, names):
    check_url("https://hooks.example/a?b=c")
    with pytest.raises(BadInput, match=said) as refused:
        check_url(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        (PUBLIC, True),
        ("8.8.8.8", True),
        ("172.32.0.1", True),
        ("100.128.0.1", True),
        ("2606:4700::1111", True),
        ("64:ff9b::808:808", True),  # 8.8.8.8 behind the well-known prefix, as networks without IPv4 have it
        ("64:ff9b::a00:1", False),
        ("2001:db7::1", True),
        ("2001:1ff::1", False),
        ("4000::1", False),
        ("168.63.129.16", False),
    ],
)
def test_what_is_public_is_our_own_list(address, public):
    assert is_public(ipaddress.ip_address(address)) is public


def test_an_address_of_this_machine_is_not_public_whatever_it_is():
    assert is_own(ipaddress.ip_address("127.0.0.1"))
    assert not is_own(ipaddress.ip_address(PUBLIC))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((PUBLIC, 9))
        except OSError:
            return  # this machine has no other address
        assert is_own(ipaddress.ip_address(probe.getsockname()[0]))


def test_a_look_up_that_takes_long_ends_with_the_time(monkeypatch):
    over = threading.Event()
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: over.wait(20))
    began = time.monotonic()
    with pytest.raises(TimedOut, match=r"no answer within 0\.3 s"):
        send("https://hooks.example/", timeout_s=0.3)
    assert time.monotonic() - began < 5
    over.set()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_answer_that_drips_ends_with_the_time(scheme, certified, names):
    hung_up, before = threading.Event(), set(threading.enumerate())
    names["hooks.example"] = [["127.0.0.1"]]

    def drip(handler):
        try:
            for _ in range(400):
                handler.wfile.write(b"H")
                time.sleep(0.05)
        except OSError:
            hung_up.set()

    with Sink(drip) if scheme == "http" else secure(certified, drip) as slow:
        began = time.monotonic()
        with pytest.raises(TimedOut, match=r"no answer within 0\.5 s"):
            send(f"{scheme}://hooks.example:{slow.port}/", "127.0.0.1", timeout_s=0.5)
        for thread in set(threading.enumerate()) - before:
            if thread.name == "outgoing request":
                thread.join(15)
                assert not thread.is_alive()
        assert hung_up.wait(15)
        assert time.monotonic() - began < 15, "it would drip for 20 s"


def test_a_body_without_end_is_not_read():
    sent = []

    def flood(handler):
        handler.send_response(200)
        handler.end_headers()
        while sum(sent) < 100_000_000:
            sent.append(handler.wfile.write(b"." * 100_000))

    with Sink(flood) as server:
        assert send(f"http://localhost:{server.port}/", "localhost") == 200
        assert sum(sent) < 50_000_000  # what fits into the sockets' buffers


@pytest.fixture
def certified(tmp_path, monkeypatch):
    """What a server needs to be hooks.example over TLS."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=hooks.example",
         "-addext", "subjectAltName=DNS:hooks.example", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def test_over_tls_the_name_is_what_the_certificate_is_checked_for(certified, names):
    named = []
    certified.sni_callback = lambda _, name, __: named.append(name)
    names["hooks.example"] = names["other.example"] = [["127.0.0.1"]]
    with secure(certified) as server:
        assert send(f"https://hooks.example:{server.port}/", "127.0.0.1") == 200
        assert server.requests[0][1]["Host"] == f"hooks.example:{server.port}"
        with pytest.raises(Unavailable, match="certificate"):
            send(f"https://other.example:{server.port}/", "127.0.0.1")
        assert named == ["hooks.example", "other.example"]
        assert len(server.requests) == 1


@contextmanager
def secure(context, answer=None):
    class Secure(Sink):
        def get_request(self):
            connection, address = super().get_request()
            return context.wrap_socket(connection, server_side=True), address

    with Secure(answer) as server:
        yield server
