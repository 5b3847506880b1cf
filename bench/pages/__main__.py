"""Time of each page of `kubectl vc ui` with many tenants and pods in a real API server.

    python -m bench.pages --tenants 100 --pods 10000 --repeats 50

Creates the VirtualClusters with their tables of certificates, and the pods in one super namespace
for each tenant. One tenant has a kubeconfig. Its own objects are in the same API server. Fetches
each page `--repeats` times, one after the other, and prints the median and the 95th percentile in
ms. Beside them it prints the time of one list of 25 pods by the same client.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.ui.page_facts import OBJECTS_PER_PAGE
from kubeio import Object
from kubeio.api.client import Client
from tenancy import names, ownership, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    SECRETS,
    VIRTUAL_CLUSTERS,
    Resource,
)
from tests.support.controlplane import LocalControlPlane
from tests.support.declared_tenants import install_crds
from tests.support.eventually import eventually
from tests.support.kubectl_vc.page_client import serving

PLACE = "tenants"
SPACE = "shop"
_WRITERS = 16


def namespace(name: str, **metadata: Any) -> Object:
    """Return a namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


def pod(name: str, place: str, **metadata: Any) -> Object:
    """Return a pod on a node."""
    spec = {"nodeName": "node-1", "containers": [{"name": "a", "image": "a"}]}
    head = {"name": name, "namespace": place, **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": spec}


def certificates(tenant: Tenant) -> Object:
    """Return the table of certificates of a tenant."""
    now = datetime.now(UTC)
    rows = [
        {
            "name": f"certificate-{each}",
            "kind": "certificate",
            "issued": now.isoformat(),
            "expires": (now + timedelta(days=90)).isoformat(),
            "renewal": (now + timedelta(days=60)).isoformat(),
        }
        for each in range(20)
    ]
    metadata = {"name": wellknown.CERTIFICATES, "namespace": tenant.root}
    data = {wellknown.CERTIFICATES_KEY: json.dumps(rows)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def create_all(client: Client, resource: Resource, bodies: Iterable[Object]) -> list[Object]:
    """Create objects, some at a time."""
    slots = asyncio.Semaphore(_WRITERS)

    async def create(body: Object) -> Object:
        async with slots:
            return await client.create(resource, body)

    return await asyncio.gather(*map(create, bodies))


async def furnish(plane: LocalControlPlane, tenants: int, pods: int) -> Tenant:
    """Create everything, and return the tenant that has a kubeconfig."""
    async with Client(plane.endpoint) as client:
        await install_crds(client)
        await eventually(lambda: client.list(VIRTUAL_CLUSTERS))
        await create_all(client, NAMESPACES, [namespace(PLACE), namespace(SPACE)])
        wanted = [
            {
                "apiVersion": VIRTUAL_CLUSTERS.api_version,
                "kind": "VirtualCluster",
                "metadata": {"name": f"tenant-{each:03d}", "namespace": PLACE},
                "spec": {"clusterVersionName": "v1.36"},
            }
            for each in range(tenants)
        ]
        found = [build_tenant(each) for each in await create_all(client, VIRTUAL_CLUSTERS, wanted)]
        await create_all(client, NAMESPACES, [namespace(each.root) for each in found])
        await create_all(client, CONFIG_MAPS, map(certificates, found))
        spaces = [
            namespace(
                names.build_super_namespace(each.root, each.uid, SPACE),
                labels=ownership.build_owner_labels(each, SPACE),
                annotations=ownership.build_owner_annotations(each, SPACE, "u"),
            )
            for each in found
        ]
        await create_all(client, NAMESPACES, spaces)
        first, share = found[0], pods // tenants
        above = await create_all(client, PODS, (pod(f"p-{n:05d}", SPACE) for n in range(share)))
        uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in above}
        await create_all(
            client,
            PODS,
            (
                pod(
                    f"p-{n:05d}",
                    names.build_super_namespace(each.root, each.uid, SPACE),
                    labels=ownership.build_owner_labels(each, SPACE),
                    annotations=ownership.build_owner_annotations(each, SPACE, uids[f"p-{n:05d}"]),
                )
                for each in found
                for n in range(share)
            ),
        )
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "admin-kubeconfig", "namespace": first.root},
            "stringData": {"admin-kubeconfig": plane.kubeconfig().decode()},
        }
        await client.create(SECRETS, secret)
        return first


def build_tenant(body: Object) -> Tenant:
    """Return the identity of a created VirtualCluster."""
    name, uid = body["metadata"]["name"], body["metadata"]["uid"]
    root = names.build_root_namespace(PLACE, name, uid)
    return Tenant(name=name, namespace=PLACE, uid=uid, root=root)


async def measure(repeats: int, fetch: Callable[[], Awaitable[object]]) -> dict[str, float]:
    """Return the times of repeated calls in ms."""
    await fetch()  # the first one opens connections and compiles the template
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        await fetch()
        times.append((time.perf_counter() - start) * 1000)
    quantiles = statistics.quantiles(times, n=20)
    return {"p50": round(statistics.median(times), 1), "p95": round(quantiles[-1], 1)}


async def run(tenants: int, pods: int, repeats: int, folder: Path) -> dict[str, Any]:
    """Return the times of all pages."""
    plane = LocalControlPlane(folder / "plane", name="super")
    try:
        await plane.start()
        first = await furnish(plane, tenants, pods)
        path = folder / "kubeconfig"
        path.write_bytes(plane.kubeconfig())
        async with (
            serving(ConfigFlags(kubeconfig=str(path))) as pages,
            Client(plane.endpoint) as client,
        ):
            urls, place = pages.urls, (first.namespace, first.name)
            paths = {
                "tenants": urls.build_tenants(),
                "tenant": urls.build_tenant(*place),
                "namespace": urls.build_namespace(*place, SPACE),
                "namespace, by copies": urls.build_namespace(*place, SPACE, by="copies"),
                "pod": urls.build_pod(*place, SPACE, "p-00000"),
            }

            async def fetch(path: str) -> None:
                page = await pages.fetch(path)
                assert page.status == 200, page.text

            found = {
                name: await measure(repeats, partial(fetch, path)) for name, path in paths.items()
            }
            found[f"one list of {OBJECTS_PER_PAGE} pods"] = await measure(
                repeats, lambda: client.list(PODS, namespace=SPACE, limit=OBJECTS_PER_PAGE)
            )
            return {"tenants": tenants, "pods": pods, "milliseconds": found}
    finally:
        await plane.stop()


def main(arguments: list[str]) -> None:
    """Measure and print the times as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenants", type=int, default=100)
    parser.add_argument("--pods", type=int, default=10_000, help="in the super cluster")
    parser.add_argument("--repeats", type=int, default=50)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(run(options.tenants, options.pods, options.repeats, Path(folder)))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
