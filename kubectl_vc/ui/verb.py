"""`kubectl vc ui`: serve the pages until the user stops them.

Owns the socket, the printed URL and the end. Hazard: the URL has a secret. It must never be an
argument of a program, because every user of this machine can list arguments.
"""

import asyncio
import contextlib
import html
import shutil
import signal
import socket
import tempfile
import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.ui.connection_renewal import RenewedConnection
from kubectl_vc.ui.request_guard import LOOPBACK
from kubectl_vc.ui.server import serve_pages


@dataclass(frozen=True, slots=True, kw_only=True)
class UiOptions:
    """Options of `kubectl vc ui`."""

    port: int
    """0: any free port."""
    browser: bool
    manager_namespace: str


async def run_ui(access: ConfigFlags, terminal: Terminal, *, options: UiOptions) -> None:
    """Serve the pages until SIGINT or SIGTERM. Raises CliError if the port is in use."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    with listen(options.port) as listening:
        async with (
            RenewedConnection(access, options.manager_namespace) as renewed,
            serve_pages(renewed, listening) as secret,
        ):
            for each in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(each, stop.set)
            terminal.print_result(secret.url)
            terminal.print_warning(
                "This URL is a key: do not share it. Press Ctrl-C to stop the pages."
            )
            with redirect_file(secret.url) as path:
                if options.browser:
                    await asyncio.to_thread(open_browser, path)
                await stop.wait()


@contextlib.contextmanager
def listen(port: int) -> Iterator[socket.socket]:
    """Yield a socket on loopback. 0 stands for any free port. Raises CliError."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((LOOPBACK, port))
        except (OSError, OverflowError) as problem:
            raise CliError(
                f"port {port} of {LOOPBACK} cannot be used ({problem}). Choose another one with"
                " --port, or leave it out."
            ) from problem
        listening.listen()
        yield listening


@contextlib.contextmanager
def redirect_file(url: str) -> Iterator[Path]:
    """Yield a private file that leads a browser to the URL."""
    folder = Path(tempfile.mkdtemp(prefix="kubectl-vc-ui-"))  # readable by this user only
    try:
        path = folder / "open.html"
        target = html.escape(url, quote=True)
        path.write_text(
            f'<!doctype html><meta charset="utf-8"><title>kubectl vc ui</title>'
            f'<meta http-equiv="refresh" content="0;url={target}"><a href="{target}">Open</a>'
        )
        yield path
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def open_browser(path: Path) -> None:
    """Open a file in the user's browser. Without one, the printed URL is enough."""
    with contextlib.suppress(webbrowser.Error):
        webbrowser.open(path.as_uri())
