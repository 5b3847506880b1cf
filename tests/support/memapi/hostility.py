"""One tenant that does everything that costs others something, from inside of its own API server.

Owns the table of acts. Must not know figures. Hazard: an act that the API server refuses counts as
well, because a hostile client does not stop for that. It must not end the load.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tenancy.resources import (
    CONFIG_MAPS,
    EVENTS,
    INGRESSES,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    SERVICES,
    Resource,
)
from tests.support.memapi import verbs
from tests.support.memapi.cluster import MemoryCluster
from tests.support.memapi.loads import NAMESPACE
from tests.support.memapi.refusals import StatusError
from tests.support.memapi.watches import Object

USER = "hostile"
_KEPT = 40
"""Number of objects of one act that exist at the same time."""
_LARGE_CHARACTERS = 100_000
_BATCH = 5
"""Acts in one turn of the loop when it is behind."""

Act = Callable[[MemoryCluster, int], None]
_CONTAINERS = [{"name": "main", "image": "registry.example/app:1"}]


def _rotate(
    word: str, resource: Resource, build: Callable[[int], Object], *, kept: int = _KEPT
) -> Act:
    """Return the act that creates an object and deletes an old one."""

    def act(cluster: MemoryCluster, number: int) -> None:
        collection = cluster.of(resource)
        namespace = NAMESPACE if resource.namespaced else ""
        old = collection.get(namespace, f"{USER}-{word}-{number - kept}")
        if old is not None:
            verbs.delete(collection, old, {})
        body = {"metadata": {"name": f"{USER}-{word}-{number}"}} | build(number)
        verbs.create(cluster, collection, namespace, body, USER)

    return act


def _change_pods(build: Callable[[int], Object], subresource: str = "") -> Act:
    """Return the act that changes a pod that exists."""

    def act(cluster: MemoryCluster, number: int) -> None:
        _patch(cluster, PODS, number, build(number), subresource)

    return act


def _patch(
    cluster: MemoryCluster, resource: Resource, number: int, change: Object, subresource: str = ""
) -> None:
    collection = cluster.of(resource)
    stored = collection.all()
    if not stored:
        return

    def changed(body: Object) -> Object:
        for part, fields in change.items():
            body[part] = {**(body.get(part) or {}), **fields}
        return body

    there = stored[number % len(stored)]
    verbs.patch(collection, there, changed, change, USER, subresource=subresource)


def _change_config_map(cluster: MemoryCluster, number: int) -> None:
    """Replace the content of one ConfigMap, which pods of the tenant refer to."""
    collection, name = cluster.of(CONFIG_MAPS), f"{USER}-settings"
    data = {"data": {"a": f"{number}" * (_LARGE_CHARACTERS // 10)}}
    there = collection.get(NAMESPACE, name)
    if there is None:
        verbs.create(cluster, collection, NAMESPACE, {"metadata": {"name": name}} | data, USER)
    else:
        verbs.patch(collection, there, lambda body: {**body, **data}, data, USER)


def _label_node(cluster: MemoryCluster, number: int) -> None:
    """Write a label of a virtual node, which belongs to the super cluster."""
    collection = cluster.of(NODES)
    stored = collection.all()
    if stored:
        there = stored[number % len(stored)]
        label = {"kubernetes.io/hostname": f"{USER}-{number}"}

        def changed(body: Object) -> Object:
            body["metadata"]["labels"] = {**(body["metadata"].get("labels") or {}), **label}
            return body

        verbs.patch(collection, there, changed, {"metadata": {"labels": label}}, USER)


def _pod(**spec: Any) -> Object:
    return {"spec": {"containers": _CONTAINERS, **spec}}


def _large(name: str) -> Object:
    return {"metadata": {"name": name, "annotations": {"example.com/x": "y" * _LARGE_CHARACTERS}}}


ACTS: Mapping[str, Act] = {
    "pods created and deleted": _rotate("pod", PODS, lambda _: _pod()),
    "pods that are refused": _rotate("refused", PODS, lambda _: _pod(hostNetwork=True)),
    "large pods": _rotate(
        "large", PODS, lambda number: _large(f"{USER}-large-{number}") | _pod(), kept=5
    ),
    "statuses forged": _change_pods(lambda number: {"status": {"phase": str(number)}}, "status"),
    "labels of pods changed": _change_pods(
        lambda number: {"metadata": {"labels": {"a": str(number)}}}
    ),
    "labels of nodes forged": _label_node,
    "a ConfigMap changed": _change_config_map,
    "Secrets created and deleted": _rotate(
        "secret", SECRETS, lambda _: {"data": {"a": "eA==" * 2_000}}
    ),
    "large NetworkPolicies": _rotate(
        "policy",
        NETWORK_POLICIES,
        lambda number: _large(f"{USER}-policy-{number}") | {"spec": {"podSelector": {}}},
    ),
    "Services created and deleted": _rotate(
        "service", SERVICES, lambda _: {"spec": {"ports": [{"port": 80}]}}
    ),
    "Ingresses that are refused": _rotate(
        "ingress",
        INGRESSES,
        lambda _: {"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 1}}}}},
    ),
    "claims of classes that are missing": _rotate(
        "claim",
        PERSISTENT_VOLUME_CLAIMS,
        lambda _: {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "missing",
                "resources": {"requests": {"storage": "1Gi"}},
            }
        },
    ),
    "namespaces created and deleted": _rotate("space", NAMESPACES, lambda _: {}, kept=5),
    "Events without end": _rotate(
        "event", EVENTS, lambda _: {"involvedObject": {"kind": "Pod", "name": "a"}}
    ),
}
"""Acts, in turn."""


async def run_acts(cluster: MemoryCluster, per_second: float, seconds: float) -> dict[str, Any]:
    """Run all acts in turn without pause. Return the number of each act, and the times."""
    done: Counter[str] = Counter()
    begun, number = time.monotonic(), 0
    acts = list(ACTS.items())
    while (now := time.monotonic() - begun) < seconds:
        if number >= now * per_second:
            await asyncio.sleep(1 / per_second)
            continue
        name, act = acts[number % len(acts)]
        try:
            act(cluster, number // len(acts))
            done[name] += 1
        except StatusError:
            done["refused by the API server"] += 1
        number += 1
        if number % _BATCH == 0:
            await asyncio.sleep(0)
    return {"acts": done, "begun_at": begun, "ended_at": time.monotonic()}
