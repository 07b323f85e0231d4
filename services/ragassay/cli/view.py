"""``ragassay view``: runs in a browser, from their folder, without a service."""

from __future__ import annotations

import socket
import webbrowser
from typing import Annotated

import typer
from typer import Argument, Option

from ragassay.cli.options import Plugins, import_plugins
from ragassay.core.errors import BadSettings

Runs = Annotated[list[str] | None, Argument(metavar="[RUN]...", help="Only these runs. [all]")]
Port = Annotated[int, Option("--port", metavar="N", min=0, max=65535, help="Port to listen on. [any free one]")]
NoBrowser = Annotated[bool, Option("--no-browser", help="Print the address and open nothing.")]


def view(run: Runs = None, port: Port = 0, no_browser: NoBrowser = False, plugin: Plugins = None) -> None:
    """Show runs in the browser.

    Figures with intervals, and each answer with its verdicts. Ctrl-C ends it.
    """
    from ragassay.api.server import server
    from ragassay.api.view import create_view
    from ragassay.core.settings import Settings
    from ragassay.dashboard.folder import FolderLibrary
    from ragassay.storage.folder import FolderStore

    import_plugins(plugin)
    store = FolderStore(Settings().home)
    only = [store.open(reference).record.id for reference in run or ()]
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise BadSettings(f"port {port} can't be listened on ({error.strerror})", where="--port") from None
    page = f"/ui/runs/{only[0]}" if len(only) == 1 else "/ui/runs"
    address = f"http://127.0.0.1:{listener.getsockname()[1]}{page}"
    typer.echo(address)
    typer.echo("Ctrl-C ends it", err=True)
    if not no_browser:
        webbrowser.open(address)
    app = create_view(FolderLibrary(store, only))
    server(app, host="127.0.0.1", port=port, log_level="warning").run(sockets=[listener])
