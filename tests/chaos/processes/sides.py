"""One tenant of a drill: its servers, its admin's hand, and what it asked to delete.

Owns the ledger: a UID stands in it before the request to delete it is sent, so that the judge
a delete below never comes too early. Must not know the syncer.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field

from kubeio import errors
from kubeio.api.client import Client
from tenancy.ownership import Tenant
from tenancy.resources import CONFIG_MAPS, NAMESPACES, PODS, SECRETS, SERVICES, Resource
from tests.chaos.edits import ChaosTenant
from tests.support.controlplane import LocalControlPlane

SYNCED = (NAMESPACES, PODS, SERVICES, CONFIG_MAPS, SECRETS)
"""Kinds that are compared, and whose deletes are judged."""


@dataclass
class DrillTenant(ChaosTenant):
    """One tenant."""

    number: int
    plane: LocalControlPlane
    tenant: Tenant
    client: Client
    """Of its administrator."""
    asked: dict[str, float] = field(default_factory=dict)
    """Since when each UID was asked to be deleted, in seconds of the wall clock."""
    asked_twice: set[str] = field(default_factory=set)
    """UIDs that another request asked for meanwhile, which may have been the one that worked."""
    is_judged: bool = True
    """False while its store is another one: what it lacks then no one has deleted."""

    async def delete(
        self, resource: Resource, space: str, name: str, grace: int | None = None
    ) -> None:
        """Delete an object, if it is there. Whether that was done is not told."""
        with contextlib.suppress(errors.KubeError):
            found = await self.client.get(resource, name, namespace=space)
            uid = found["metadata"]["uid"]
            is_new = uid not in self.asked
            self.asked.setdefault(uid, time.time())
            if not is_new:
                self.asked_twice.add(uid)
            try:
                await self.client.delete(
                    resource, name, namespace=space, uid=uid, grace_seconds=grace
                )
            except (errors.NotSent, errors.Conflict):
                if is_new and uid not in self.asked_twice:
                    del self.asked[uid]  # certainly not done
                raise
