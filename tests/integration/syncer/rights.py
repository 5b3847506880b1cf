"""Rights of the syncer in the servers of the tests: exactly those of its own tables.

A missing verb, or a write outside of its tenants, fails a test by that.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubeio.api.client import Client
from syncer.rbac import SUPER_RBAC_RULES
from tenancy.rbac import RbacRule
from tests.integration.syncer.world import HOME, SYNCER, SyncerWorld
from tests.support import grants


async def grant(client: Client, rows: Sequence[RbacRule]) -> None:
    """Let the syncer's user do what a table says, and nothing else."""
    await grants.grant(client, rows, SYNCER)


async def grant_lease(world: SyncerWorld) -> None:
    """Let the syncer have its Lease, as the chart does in the components' namespace."""
    rows = [row for row in SUPER_RBAC_RULES if row.namespaced]
    await grants.grant(world.super_client, rows, SYNCER, namespace=HOME)
