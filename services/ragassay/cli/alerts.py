"""``ragassay alerts`` and ``ragassay webhook``: what people were told by a service, and who is."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from ragassay.cli.client import Server, connected
from ragassay.cli.configured import AsJson
from ragassay.cli.terminal import print_json
from ragassay.errors import BadSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragassay.notices import NoticeKind, Webhook, WebhookSecret

KindNames = Annotated[
    list[str] | None, typer.Option("--kind", metavar="KIND", help="A kind of notice. Repeatable. [all alerts]")
]
WebhookArgument = Annotated[str, typer.Argument(metavar="WEBHOOK", help="The id that add printed.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many are shown at the most.")]

webhook = typer.Typer(help="Say who is told of alerts.", no_args_is_help=True, rich_markup_mode=None)


def alerts(
    kind: Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only notices of this kind.")] = None,
    limit: Limit = 20,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List what a service told of its jobs and schedules, newest first."""
    with connected(server) as service:
        found = list(islice(service.alerts.list(_kinds([kind])[0] if kind else None), limit))
    if as_json:
        print_json(found)
        return
    for notice in found:
        typer.echo(f"{notice.at[:19]}  {notice.headline}" + (f"  (job {notice.job})" if notice.job else ""))


@webhook.command("add")
def add(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where notices are sent, by POST.")],
    kind: KindNames = None,
    slack: Annotated[bool, typer.Option("--slack", help='Send {"text": ...} as Slack takes it, not signed.')] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Have a URL told of notices; prints the webhook's id, and the secret that signs them, this once."""
    with connected(server) as service:
        added = service.webhooks.add(url, _kinds(kind) if kind else None, format="slack" if slack else "standard")
    _print_secret(added, as_json=as_json)


@webhook.command("list")
def list_(server: Server = None, as_json: AsJson = False) -> None:
    """List the webhooks, with what became of the last try of each."""
    with connected(server) as service:
        found = service.webhooks.list()
    if as_json:
        print_json(found)
        return
    for each in found:
        typer.echo(_line(each))


@webhook.command("set")
def set_(
    name: WebhookArgument,
    url: Annotated[str | None, typer.Option("--url", metavar="URL", help="Another address.")] = None,
    kind: KindNames = None,
    enable: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Enabled again, what waits goes on. [as it is]")
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Change a webhook: its address, its kinds, or whether it is enabled."""

    if url is None and not kind and enable is None:
        raise BadSettings("nothing is to be changed", hint="give --url, --kind, --enable or --disable")
    with connected(server) as service:
        changed = service.webhooks.change(name, url=url, kinds=_kinds(kind) if kind else None, enabled=enable)
    _print(changed, as_json=as_json)


@webhook.command("delete")
def delete(name: WebhookArgument, server: Server = None, as_json: AsJson = False) -> None:
    """Forget a webhook and all that waits for it."""
    with connected(server) as service:
        _print(service.webhooks.delete(name), as_json=as_json)


@webhook.command("rotate")
def rotate(name: WebhookArgument, server: Server = None, as_json: AsJson = False) -> None:
    """Print a new secret, this once; the one before signs beside it for a day."""
    with connected(server) as service:
        _print_secret(service.webhooks.rotate(name), as_json=as_json)


@webhook.command("test")
def try_out(name: WebhookArgument, server: Server = None) -> None:
    """Send a webhook a notice that says that nothing happened; prints the delivery's id."""
    with connected(server) as service:
        typer.echo(service.webhooks.test(name))
    typer.echo(f"what became of it: ragassay webhook deliveries {name}", err=True)


@webhook.command("deliveries")
def deliveries(name: WebhookArgument, limit: Limit = 20, server: Server = None, as_json: AsJson = False) -> None:
    """List what a webhook was sent, or has to get, newest first."""
    with connected(server) as service:
        found = list(islice(service.webhooks.deliveries(name), limit))
    if as_json:
        print_json(found)
        return
    for each in found:
        typer.echo(f"{each.created_at[:19]}  {each.id}  {each.kind}  {each.outcome}")


@webhook.command("replay")
def replay(
    name: WebhookArgument,
    delivery: Annotated[str | None, typer.Argument(metavar="[DELIVERY]", help="One delivery.")] = None,
    since: Annotated[
        str | None, typer.Option("--failed-since", metavar="TIME", help="All that failed since then: 2026-01-31T14:05.")
    ] = None,
    server: Server = None,
) -> None:
    """Send a delivery, or all that failed since a time, again, under the ids that they had; prints these."""
    from datetime import datetime

    try:
        moment = datetime.fromisoformat(since) if since else None
    except ValueError:
        raise BadSettings(f"{since!r} is no time", where="--failed-since", hint="write 2026-01-31T14:05") from None
    if (delivery is None) == (moment is None):
        raise BadSettings("name a DELIVERY, or give --failed-since TIME")
    with connected(server) as service:
        for each in service.webhooks.replay(name, delivery, failed_since=moment):
            typer.echo(each)


def _kinds(names: Sequence[str]) -> list[NoticeKind]:
    """The kinds of these names; raises UnknownName."""
    from ragassay.errors import UnknownName
    from ragassay.notices import KINDS

    known = {str(kind): kind for kind in KINDS}
    if unknown := next((name for name in names if name not in known), None):
        raise UnknownName("kind of notice", unknown, known, where="--kind")
    return [known[name] for name in names]


def _line(one: Webhook) -> str:
    return f"{one.id}  {one.url}  {one.format}  {one.state}  {', '.join(one.kinds)}; {one.last_try}"


def _print(one: Webhook, *, as_json: bool) -> None:
    if as_json:
        typer.echo(one.model_dump_json())
    else:
        typer.echo(_line(one))


def _print_secret(given: WebhookSecret, *, as_json: bool) -> None:
    if as_json:
        typer.echo(given.model_dump_json())
        return
    typer.echo(given.webhook.id)
    if given.secret is not None:
        typer.echo(given.secret)
        until = f"; the one before signs until {given.previous_until[:19]}" if given.previous_until else ""
        typer.echo(f"keep the secret: it is not shown again{until}", err=True)
