"""Two vc-managers on one API server, with the active one killed during its work.

Owns that work: tenants that were just declared, one of which has its store. No kubelet is
simulated, so the tenants stay in that state. The audit log shows objects that were created twice.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path

from kubeio import Object
from kubeio.api.client import Client
from tenancy import names, wellknown
from tenancy.resources import STATEFUL_SETS, VIRTUAL_CLUSTERS
from tests.integration.vcmanager.conftest import NAMESPACE, USER, installed
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.replicas import PATIENCE, ReplicaPair, SentWrite, SyncerProcess
from vcmanager.app import USER_AGENT

_CLUSTERS = 6
_STORE = "etcd"
_BY_DESIGN = frozenset({"virtualclusters/status", "events"})
"""Writes of the active manager that repeat by design."""
_WORDS = ("--namespace", NAMESPACE, "--control-plane-registry", "registry.example/vc")

PairFigures = dict[str, float]


def measure(folder: Path, count: int, say: Callable[[str], None]) -> list[PairFigures]:
    """Kill the holder so many times, each time of two new managers. Returns each result."""
    with installed(folder / "super") as plane:
        found = []
        for number in range(count):
            own = folder / f"pair-{number}"
            own.mkdir()
            found.append(asyncio.run(_followed(plane, own, number)))
            say(f"manager {number + 1}: {found[-1]}")
    return found


async def _followed(plane: LocalControlPlane, folder: Path, number: int) -> PairFigures:
    async with Client(plane.endpoint) as admin, _pair(plane, folder, admin, number) as pair:
        holder, standby = await pair.settled()
        marked = pair.mark()
        made = [_declared(admin, f"bench-{number}-{each}") for each in range(_CLUSTERS)]
        clusters = await asyncio.gather(*made)
        await eventually(lambda: _stores(admin, clusters), within=PATIENCE)
        killed = time.time()
        holder.process.kill()
        await eventually(pair.holder, until=standby.name.__eq__, within=PATIENCE)
        await eventually(lambda: _stores(admin, clusters), until=_CLUSTERS.__eq__, within=PATIENCE)
        writes = (*pair.writes(holder, marked), *pair.writes(standby, marked))
        return {
            "hand_over_s": pair.hand_over(standby, killed, marked),
            "writes": float(len(writes)),
            "made_twice": float(len(made_twice(writes))),
        }


@contextlib.asynccontextmanager
async def _pair(
    plane: LocalControlPlane, folder: Path, admin: Client, number: int
) -> AsyncIterator[ReplicaPair]:
    kubeconfig = plane.kubeconfig(USER, group="")
    # Names of their own: a Lease that an earlier pair left behind must not be taken for this one's.
    names = (f"{number}-one", f"{number}-two")
    one, two = (SyncerProcess("vcmanager", name, folder, kubeconfig, _WORDS) for name in names)
    lease = (NAMESPACE, wellknown.MANAGER)
    pair = ReplicaPair((one, two), client=admin, lease=lease, agent=USER_AGENT, planes=(plane,))
    try:
        yield pair
    finally:
        await pair.stop()


async def _declared(admin: Client, name: str) -> Object:
    body = {
        "apiVersion": VIRTUAL_CLUSTERS.api_version,
        "kind": "VirtualCluster",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterVersionName": "v1.36"},
    }
    return await admin.create(VIRTUAL_CLUSTERS, body)


async def _stores(admin: Client, clusters: Sequence[Object]) -> int:
    """Count the tenants whose etcd has been written: all their Secrets are there before it."""
    found = 0
    for metadata in (cluster["metadata"] for cluster in clusters):
        root = names.build_root_namespace(metadata["namespace"], metadata["name"], metadata["uid"])
        page = await admin.list(STATEFUL_SETS, namespace=root)
        found += any(each["metadata"]["name"] == _STORE for each in page.get("items") or ())
    return found


def made_twice(writes: Iterable[SentWrite]) -> dict[tuple[str, str, str], int]:
    """Return the objects created more than once, with the number, for both managers together.

    By design, a Service with a taken address is deleted, and another address is claimed.
    """
    made: Counter[tuple[str, str, str]] = Counter()
    for each in writes:
        if not each.was_accepted or each.resource in _BY_DESIGN:
            continue
        if each.verb == "create":
            made[each.place] += 1
        elif (each.verb, each.resource) == ("delete", "services"):
            made[each.place] -= 1
    return {place: count for place, count in made.items() if count > 1}
