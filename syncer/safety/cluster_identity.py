"""Is this still the cluster that we know? If not, nothing is concluded from what it lacks.

Owns the identity of a target, the UID of its `kube-system`. The brake guards what is deleted below
because a tenant lacks it; the anchor guards what is concluded above because a target lacks it. Must
not know kinds. Hazard: the order of proof. A live 404 is worth something only if the cluster is
found to be the one that we know *after* it was read; `verify` therefore takes the time of the read.
"""

import asyncio
import time
from collections.abc import Callable

from kubeio import errors
from kubeio.api.client import Client
from kubeio.controller.worker import Wait
from syncer.safety.store_guard import SYSTEM_NAMESPACE
from tenancy.resources import NAMESPACES

LOOK_AGAIN_SECONDS = 30.0
"""How long what rests on a cluster that is another one is left alone."""


class Anchor:
    """Knows one target again."""

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        identity: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`identity` is the UID of kube-system that was found when the target was judged."""
        self._client = client
        self._name = name
        self._identity = identity
        self._clock = clock
        self._lock = asyncio.Lock()
        self._verified_at = float("-inf")

    async def verify(self, since: float) -> None:
        """Return when the cluster was found to be the one that we know later than `since`.

        Raises Wait when another one answers, and KubeError when none does.
        """
        async with self._lock:
            if self._verified_at >= since:
                return
            started = self._clock()
            found = await self._found()
            if found != self._identity:
                raise Wait(
                    f"another cluster answers for {self._name}: its kube-system is"
                    f" {found or 'missing'}, and not {self._identity}",
                    LOOK_AGAIN_SECONDS,
                )
            self._verified_at = started

    async def _found(self) -> str:
        try:
            system = await self._client.get(NAMESPACES, SYSTEM_NAMESPACE, metadata_only=True)
        except errors.NotFound:
            return ""
        return str((system.get("metadata") or {}).get("uid") or "")
