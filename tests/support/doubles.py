"""Whether a tenant's pod is in two clusters at one moment, as an observer of both sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from kubeio.api.client import Client
from kubeio.errors import KubeError
from tenancy import wellknown
from tenancy.resources import PODS


async def twins(client: Client, namespace: str) -> set[str]:
    """Return the UIDs of the tenant pods that have a twin there."""
    found = (await client.list(PODS, namespace=namespace))["items"]
    return {each["metadata"]["annotations"][wellknown.UID] for each in found}


@dataclass
class ObservedDoubles:
    """Results of an observer."""

    twice: list[str] = field(default_factory=list)
    """UIDs of pods that were in both."""
    rounds: int = 0
    """Number of comparisons of both sides. An observer without any has seen nothing."""


async def observe(clients: Iterable[Client], namespace: str, seen: ObservedDoubles) -> None:
    """Read one cluster, then the other, and the first one again, for ever.

    A pod that the first one had before and after the other one had it was in both. A twin that
    moves is deleted in the old cluster before it is created in the new one, and takes longer than
    this to return. A cluster that does not answer is asked again.
    """
    pair = list(clients)
    while True:
        for first, then in (pair, pair[::-1]):
            try:
                before = await twins(first, namespace)
                both = before & await twins(then, namespace)
                seen.twice += sorted(both & await twins(first, namespace))
                seen.rounds += first is pair[-1]
            except KubeError:
                await asyncio.sleep(0.1)
        await asyncio.sleep(0)
