"""Names that no other test uses."""

from __future__ import annotations

import secrets

from kubeio.api.client import Client
from tenancy.resources import NAMESPACES


def fresh_name(prefix: str = "t") -> str:
    """Return a DNS label that is not in use."""
    return f"{prefix}-{secrets.token_hex(4)}"


async def fresh_namespace(client: Client, prefix: str = "t") -> str:
    """Make a namespace and return its name."""
    name = fresh_name(prefix)
    await client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    return name
