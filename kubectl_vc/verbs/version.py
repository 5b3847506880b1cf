"""`kubectl vc version`: the versions of this program and of the super cluster."""

import importlib.metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubectl_vc.client.config_flags import Access
    from kubectl_vc.output.terminal import Terminal

DISTRIBUTION = "virtual-cluster"


def own() -> str:
    """Return `v0.1.0`, the version of the installed package."""
    return f"v{importlib.metadata.version(DISTRIBUTION)}"


def line() -> str:
    """Return the line that `--version` prints."""
    return f"kubectl-vc version {own()}"


async def run(access: "Access", terminal: "Terminal", *, client_only: bool) -> None:
    """Print this program's version, and the super cluster's."""
    terminal.say(line())
    if client_only:
        return
    from kubectl_vc.client.connection import connected  # noqa: PLC0415 - `--version` needs no client

    async with connected(access) as connection:
        terminal.say(f"super cluster version {await connection.super_client.version()}")
