"""`kubectl vc version`: the versions of this program and of the super cluster."""

import importlib.metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubectl_vc.client.config_flags import ConfigFlags
    from kubectl_vc.output.terminal import Terminal

DISTRIBUTION = "virtual-cluster"


def get_own_version() -> str:
    """Return `v0.1.0`, the version of the installed package."""
    return f"v{importlib.metadata.version(DISTRIBUTION)}"


def format_version() -> str:
    """Return the line that `--version` prints."""
    return f"kubectl-vc version {get_own_version()}"


async def run_version(access: "ConfigFlags", terminal: "Terminal", *, client_only: bool) -> None:
    """Print this program's version, and the super cluster's."""
    terminal.print_result(format_version())
    if client_only:
        return
    from kubectl_vc.client.connection import connect_super_cluster  # noqa: PLC0415 - `--version` needs no client

    async with connect_super_cluster(access) as connection:
        terminal.print_result(f"super cluster version {await connection.super_client.version()}")
