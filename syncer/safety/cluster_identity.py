"""Identity check of a target by the UID of its `kube-system`.

While a different cluster answers, nothing is concluded from what it lacks. The delete protection
guards deletes in the super cluster, when a tenant lacks an object. This check guards conclusions in
the tenant, when a target lacks an object. Must not know kinds. Hazard: the identity must be
verified *after* a live 404 was read, so `verify_identity` expects the time of the read. Otherwise
the 404 may be that of a different cluster.
"""

import asyncio
import time
from collections.abc import Callable

from kubeio import errors
from kubeio.api.client import Client
from kubeio.controller.worker import NotReadyYet
from syncer.safety.store_guard import SYSTEM_NAMESPACE
from tenancy.resources import NAMESPACES

IDENTITY_RETRY_SECONDS = 30.0
"""Retry interval in seconds while a different cluster answers at the target's address."""


class ClusterIdentity:
    """Verifies the identity of one target."""

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        identity: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`identity` is the UID of kube-system that vc-manager found in the target."""
        self._client = client
        self._name = name
        self._identity = identity
        self._clock = clock
        self._lock = asyncio.Lock()
        self._verified_at = float("-inf")

    async def verify_identity(self, since: float) -> None:
        """Return when the cluster's identity was verified later than `since`.

        Raises Wait if a different cluster answers, and KubeError if none does.
        """
        async with self._lock:
            if self._verified_at >= since:
                return
            started = self._clock()
            found = await self._fetch_identity()
            if found != self._identity:
                raise NotReadyYet(
                    f"another cluster answers for {self._name}: its kube-system is"
                    f" {found or 'missing'}, and not {self._identity}",
                    IDENTITY_RETRY_SECONDS,
                )
            self._verified_at = started

    async def _fetch_identity(self) -> str:
        try:
            system = await self._client.get(NAMESPACES, SYSTEM_NAMESPACE, metadata_only=True)
        except errors.NotFound:
            return ""
        return str((system.get("metadata") or {}).get("uid") or "")
