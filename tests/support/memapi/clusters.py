"""Clusters as they are when they are fresh: a super cluster with nodes, and tenants.

Owns which kinds are served, address ranges and what is there before anyone comes.
"""

import random
import time
from collections.abc import Callable, Mapping

from tenancy import resources
from tenancy.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    NODES,
    PRIORITY_CLASSES,
    SERVICE_ACCOUNTS,
    SERVICE_CIDRS,
    SERVICES,
    Resource,
)
from tests.support import kwok_nodes
from tests.support.load_shapes import LoadShape
from tests.support.memapi import verbs
from tests.support.memapi.cluster import Collection, MemoryCluster
from tests.support.memapi.defaults import AdmissionDefaults
from tests.support.memapi.loads import NAMESPACE
from tests.support.memapi.watches import Object

_SUPER_RANGE = "10.96.0.0/12"
_NODE_COUNT = 10
NODE_NAMES = tuple(str(node["metadata"]["name"]) for node in kwok_nodes.nodes(_NODE_COUNT))
_SERVED: Mapping[str, Resource] = {
    found.build_path(): found for found in vars(resources).values() if isinstance(found, Resource)
}
_OF_CRDS = "snapshot.storage.k8s.io"  # whose CRDs these clusters lack until `define`


def super_cluster() -> MemoryCluster:
    """Return a cluster with nodes."""
    made = fresh("super", _SUPER_RANGE, accounts=False)
    for node in kwok_nodes.nodes(_NODE_COUNT):
        _make(made, NODES, node)
    return made


def service_range(number: int) -> str:
    """Return a tenant's part of the super cluster's range. The first part stays free."""
    first = 4 * (number + 1)
    return f"10.{96 + first // 256}.{first % 256}.0/22"


def tenant(number: int, shape: LoadShape) -> MemoryCluster:
    """Return a tenant with what the pods of a shape need."""
    made = fresh(f"tenant-{number}", service_range(number), accounts=shape.has_account)
    for kind, body in shape.companions():
        if kind is not SERVICE_ACCOUNTS:
            _make(made, kind, body, NAMESPACE)
    return made


def empty(
    name: str,
    slice_: str,
    *,
    accounts: bool = False,
    crds: bool = False,
    clock: Callable[[], float] = time.time,
    chance: random.Random | None = None,
    keeps_events: bool = False,
) -> MemoryCluster:
    """Return a cluster without any object. `clock` and the other arguments are those of `Cluster`.

    With `crds` it serves the kinds of CRDs from the start.
    """
    served = {path: kind for path, kind in _SERVED.items() if crds or kind.group != _OF_CRDS}
    return MemoryCluster(
        name,
        served,
        AdmissionDefaults(service_range=slice_, accounts=accounts),
        clock=clock,
        chance=chance,
        keeps_events=keeps_events,
    )


def fresh(
    name: str,
    slice_: str,
    *,
    accounts: bool,
    clock: Callable[[], float] = time.time,
    chance: random.Random | None = None,
    keeps_events: bool = False,
) -> MemoryCluster:
    """Return a cluster with the objects of a new one. Arguments such as `clock` are those of
    `Cluster`.
    """
    made = empty(
        name, slice_, accounts=accounts, clock=clock, chance=chance, keeps_events=keeps_events
    )
    for space in ("default", "kube-node-lease", "kube-public", "kube-system"):
        _make(made, NAMESPACES, {"metadata": {"name": space}})
        _make(made, SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, space)
    for number, level in enumerate(("system-cluster-critical", "system-node-critical")):
        value = 2_000_000_000 + 1000 * number
        _make(made, PRIORITY_CLASSES, {"metadata": {"name": level}, "value": value})
    cidr = {"metadata": {"name": "kubernetes"}, "spec": {"cidrs": [slice_]}}
    _make(made, SERVICE_CIDRS, cidr)
    ports = [{"name": "https", "port": 443, "targetPort": 6443}]
    _make(made, SERVICES, {"metadata": {"name": "kubernetes"}, "spec": {"ports": ports}}, "default")
    return made


def define(cluster: MemoryCluster, kind: Resource) -> None:
    """Serve a kind from now on, as an API server does once it has the kind's CRD."""
    cluster.collections[kind.build_path()] = Collection(cluster, kind)
    _make(cluster, CUSTOM_RESOURCE_DEFINITIONS, {"metadata": {"name": _definition_of(kind)}})


def undefine(cluster: MemoryCluster, kind: Resource) -> None:
    """Delete a kind's CRD, and with it the kind's objects and watches."""
    definitions = cluster.of(CUSTOM_RESOURCE_DEFINITIONS)
    verbs.delete(definitions, verbs.found(definitions, "", _definition_of(kind)), {})
    cluster.collections.pop(kind.build_path()).cut()


def _definition_of(kind: Resource) -> str:
    return f"{kind.plural}.{kind.group}"


def _make(cluster: MemoryCluster, kind: Resource, body: Object, namespace: str = "") -> None:
    verbs.create(cluster, cluster.of(kind), namespace, body, "kube-apiserver")
