"""Alerts by mail: a real SMTP server with STARTTLS and a login."""

import ssl
import subprocess
from dataclasses import replace
from email import message_from_bytes
from email.policy import default

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from ragassay import wiring
from ragassay.alerts import MOST_TRIES, Alerts
from ragassay.channels import MailServer
from ragassay.errors import BadSettings
from ragassay.settings import Settings
from redis_server import free_port

USER, PASSWORD = "ragassay", "planted-password"


class Inbox:
    """Keeps mail; ``refuses``: what it answers to the next."""

    def __init__(self):
        self.mail, self.logins, self.refuses = [], [], []

    async def handle_DATA(self, server, session, envelope):  # noqa: N802 - so it is called
        if self.refuses:
            return self.refuses.pop(0)
        self.mail.append((envelope, message_from_bytes(envelope.content, policy=default)))
        return "250 OK"

    def login(self, server, session, envelope, mechanism, data):
        self.logins.append((data.login.decode(), data.password.decode()))
        return AuthResult(success=self.logins[-1] == (USER, PASSWORD), handled=False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    )
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    return folder


@pytest.fixture
def inbox():
    return Inbox()


@pytest.fixture
def serve(inbox, certificate, monkeypatch):
    """Starts a server; returns how to reach it."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    started = []

    def start(**options):
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
        of_login = {"authenticator": inbox.login, "auth_required": True}
        options = {"tls_context": tls, "require_starttls": True, **of_login} if options.pop("tls", True) else options
        controller = Controller(inbox, hostname="127.0.0.1", port=free_port(), **options)
        controller.start()
        started.append(controller)
        return MailServer(
            host="127.0.0.1",
            port=controller.port,
            sender="ragassay@example.org",
            receivers=("one@example.org", "two@example.org"),
            user=USER,
            password=PASSWORD,
        )

    yield start
    for controller in started:
        controller.stop()


@pytest.fixture
def by_mail(store, queue):
    def alerts(server):
        return Alerts(store, queue, mail=server)

    return alerts


def last(store):
    """What the outbox says of the last try."""
    return {
        name.decode(): value.decode() for name, value in store.redis.hgetall("ra:p:{default}:webhook:email").items()
    }


def deliver(alerts, queue):
    while queue.delivered:
        alerts.deliver(*queue.delivered.pop(0))


def test_an_alert_is_mailed_over_starttls_after_a_login_and_its_text_is_short_and_plain(
    serve, by_mail, inbox, queue, notice, store
):
    alerts = by_mail(serve())
    alerts.tell(notice())
    deliver(alerts, queue)
    assert last(store)["last_error"] == ""
    ((envelope, mail),) = inbox.mail
    assert inbox.logins == [(USER, PASSWORD)]
    assert envelope.mail_from == "ragassay@example.org"
    assert envelope.rcpt_tos == ["one@example.org", "two@example.org"]
    assert mail["Subject"] == "[ragassay] gate missed: v2: mrr >= 0.800: 0.750"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail.get_content_type() == "text/plain"
    assert mail.get_content().replace("\r\n", "\n") == (
        "gate missed: v2: mrr >= 0.800: 0.750\nproject: default\njob: job-1\n"
        "more: ragassay job show job-1, GET /v1/jobs/job-1/gates\n"
    )


def test_the_operator_gets_alerts_of_all_projects_and_no_end_of_a_job(serve, by_mail, inbox, queue, notice):
    alerts = by_mail(serve())
    alerts.tell(notice(1, project="other"))
    alerts.tell(notice(2, kind="job_finished"))
    alerts.tell(notice(3, kind="run_missed", job=None, schedule="nightly", slot="2026-01-31T02:00:00Z"))
    deliver(alerts, queue)
    subjects = [mail["Subject"] for _, mail in inbox.mail]
    assert subjects[1] == "[ragassay] no run: schedule nightly began none for 2026-01-31T02:00:00Z"
    assert len(subjects) == 2
    assert "GET /v1/schedules/nightly" in inbox.mail[1][1].get_content()


def test_mail_that_is_refused_is_tried_again_under_the_same_id_and_never_disabled(
    serve, by_mail, inbox, queue, notice, store, make_due
):
    alerts = by_mail(serve())
    inbox.refuses += ["451 later"] * MOST_TRIES
    alerts.tell(notice(1))
    for _ in range(MOST_TRIES):
        deliver(alerts, queue)
        make_due("email")
        alerts.wake()
    assert "451" in last(store)["last_error"]
    assert (last(store)["enabled"], inbox.mail) == ("1", [])
    inbox.refuses.append("451 later")
    alerts.tell(notice(2))
    deliver(alerts, queue)
    make_due("email")
    alerts.wake()
    deliver(alerts, queue)
    ((_, mail),) = inbox.mail
    assert mail["Message-ID"].startswith("<msg_")


def test_no_password_is_sent_where_the_server_offers_no_tls(serve, by_mail, inbox, queue, notice, store):
    alerts = by_mail(serve(tls=False))
    alerts.tell(notice())
    deliver(alerts, queue)
    assert "STARTTLS" in last(store)["last_error"]
    assert (inbox.logins, inbox.mail) == ([], [])


def test_no_password_is_sent_to_a_server_with_another_certificate(
    serve, by_mail, inbox, queue, notice, store, monkeypatch
):
    alerts = by_mail(serve())
    monkeypatch.delenv("SSL_CERT_FILE")
    alerts.tell(notice())
    deliver(alerts, queue)
    assert "certificate" in last(store)["last_error"].lower()
    assert inbox.logins == []


def test_a_wrong_password_is_a_failed_try_and_stands_in_no_error(serve, by_mail, inbox, queue, notice, store, caplog):
    alerts = by_mail(replace(serve(), password="wrong-planted"))
    alerts.tell(notice())
    deliver(alerts, queue)
    assert "535" in last(store)["last_error"]
    assert "wrong-planted" not in caplog.text + str(last(store))


def test_the_settings_name_the_server(monkeypatch):
    assert wiring.mail_server(Settings()) is None
    of = {"host": "mail.example.org", "from": "a@example.org", "to": "b@example.org, c@example.org", "user": "u"}
    for name, value in {**of, "password": PASSWORD}.items():
        monkeypatch.setenv(f"RAGASSAY_SMTP_{name.upper()}", value)
    server = wiring.mail_server(Settings())
    assert (server.host, server.port, server.tls, server.receivers) == (
        "mail.example.org", 587, "starttls", ("b@example.org", "c@example.org"),
    )  # fmt: skip
    assert PASSWORD not in repr(server) + repr(Settings())
    monkeypatch.setenv("RAGASSAY_SMTP_TLS", "none")
    with pytest.raises(BadSettings, match="over TLS only"):
        wiring.mail_server(Settings())
    for name in ("TO", "FROM"):
        monkeypatch.setenv(f"RAGASSAY_SMTP_{name}", "")
        with pytest.raises(BadSettings) as missing:
            wiring.mail_server(Settings())
        assert missing.value.where == f"RAGASSAY_SMTP_{name}"
