"""Filters of watch events: only changes that a reconcile reads wake a key.

A starting control plane changes its pods and StatefulSets some forty times, and each reconcile of a
tenant costs the super cluster 16 requests. Pure except for the digests seen last. Hazard: each
field that a phase or a verdict reads must be in a digest here. Otherwise its change is noticed at
the next resync only.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from tenancy import conditions, resources, wellknown
from tenancy.policies import DEFAULT_POLICY_NAME
from tenancy.resources import Resource
from tenancy.super_clusters import LOSSES_HELD
from vcmanager.plan import component_status
from vcmanager.runtime import keys
from vcmanager.runtime.keys import ReconcileKey

WatchedBody = Mapping[str, Any]


class SeenDigests:
    """Digests of the last reported state of each object. Only one thread may use it.

    The digest (one number) of an object that is deleted while no watch runs stays in memory.
    """

    def __init__(self) -> None:
        """Start without digests."""
        self._digests: dict[str, int] = {}

    def has_changed(self, resource: Resource, kind: str | None, body: WatchedBody) -> bool:
        """Return whether an event is relevant.

        `kind` is the type of a watch event, or None for a listed object. Listed objects are always
        relevant, because a change may have happened while no watch ran.
        """
        digest_of = _REDUCE_FUNCTIONS.get(resource)
        if digest_of is None:
            return True
        uid = body["metadata"]["uid"]
        if kind == "DELETED":
            self._digests.pop(uid, None)
            return True
        before = self._digests.get(uid)
        self._digests[uid] = now = hash(msgspec.json.encode(digest_of(body)))
        return kind is None or now != before


class PolicyUse(NamedTuple):
    """A VirtualCluster, as far as its policy decides about it."""

    name: str
    """Name of the policy."""
    key: ReconcileKey
    """Key of the VirtualCluster."""


def get_policy_use(body: WatchedBody) -> PolicyUse:
    """Return how a VirtualCluster depends on its policy."""
    spec = body.get("spec") or {}
    name = (spec.get("policyRef") or {}).get("name") or DEFAULT_POLICY_NAME
    return PolicyUse(str(name), keys.build_key_of_listed(body))


def get_sync_state(body: WatchedBody) -> tuple[str, ...]:
    """Return status and reason of the syncer's conditions of a VirtualCluster."""
    listed = (body.get("status") or {}).get("conditions")
    found = (
        conditions.find_condition(listed, kind) or {}
        for kind in (wellknown.SYNCED, wellknown.DELETES_HELD)
    )
    return tuple(str(each.get(key, "")) for each in found for key in ("status", "reason"))


def get_published_state(body: WatchedBody) -> tuple[str, ...]:
    """Return the state of a VirtualCluster that a ClusterProfile or Cluster API repeats."""
    status = body.get("status") or {}
    listed = status.get("conditions")
    kinds = (
        wellknown.READY,
        wellknown.CONTROL_PLANE_UP_TO_DATE,
        wellknown.KUBECONFIG_SECRETS_READY,
        wellknown.STALLED,
    )
    found = (conditions.find_condition(listed, kind) or {} for kind in kinds)
    return (
        *(str(body["metadata"].get(field, "")) for field in ("generation", "deletionTimestamp")),
        *(str(status.get(field, "")) for field in ("version", "endpoint", "clusterNamespace")),
        *(str(each.get(field, "")) for each in found for field in ("status", "reason", "message")),
    )


def _reduce_control_plane(body: WatchedBody) -> object:
    """Return the metadata with the owner, which Cluster API sets, without the status."""
    return _strip_metadata(body), body["metadata"].get("ownerReferences")


def _strip_metadata(body: WatchedBody) -> dict[str, Any]:
    found = body["metadata"]
    wanted = ("generation", "labels", "annotations", "finalizers", "deletionTimestamp")
    return {field: found[field] for field in wanted if found.get(field)}


def _reduce_virtual_cluster(body: WatchedBody) -> object:
    """Return the relevant fields, without conditions.

    The woken reconcile writes the conditions itself. An edited condition is repaired later.
    """
    status = body.get("status") or {}
    wanted = ("phase", "clusterNamespace", "endpoint", "serviceCidr", "version")
    return _strip_metadata(body), [status.get(field) for field in wanted]


def _reduce_root_namespace(body: WatchedBody) -> object:
    """Return the metadata without the marks that the syncer updates several times a minute."""
    found = _strip_metadata(body)
    annotations = dict(found.get("annotations") or {})
    for mark in (wellknown.STORE_UID, wellknown.STORE_REVISION, wellknown.STORE_EPOCH):
        annotations.pop(mark, None)
    return {**found, "annotations": annotations}


def _reduce_workload(body: WatchedBody) -> object:
    status = body.get("status") or {}
    wanted = ("observedGeneration", "readyReplicas", "updatedReplicas", "updateRevision")
    return _strip_metadata(body), [status.get(field) for field in wanted]


def _reduce_pod(body: WatchedBody) -> object:
    status = body.get("status") or {}
    containers = [
        _reduce_container(each)
        for kind in ("initContainerStatuses", "containerStatuses")
        for each in status.get(kind) or ()
    ]
    unscheduled = [
        each.get("message")
        for each in status.get("conditions") or ()
        if each.get("type") == "PodScheduled" and each.get("reason") == "Unschedulable"
    ]
    failed = [status.get("reason"), status.get("message")] * (status.get("phase") == "Failed")
    return _strip_metadata(body), [each for each in containers if each], unscheduled, failed


def _reduce_super_cluster(body: WatchedBody) -> object:
    """Return the metadata and the syncer's condition.

    The woken reconcile writes the rest itself.
    """
    held = (
        conditions.find_condition((body.get("status") or {}).get("conditions"), LOSSES_HELD) or {}
    )
    return _strip_metadata(body), held.get("status"), held.get("lastTransitionTime")


def _reduce_container(status: WatchedBody) -> object:
    """Return the relevant state of a container, or None during its first start."""
    state = status.get("state") or {}
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    restarts, ready = status.get("restartCount", 0), bool(status.get("ready"))
    reason = waiting.get("reason", "")
    if not (restarts or ready or ended or "running" in state) and (
        reason in component_status.STARTING_REASONS or not reason
    ):
        return None
    # A new container of a pod that stays shows as a restart.
    told = (reason, waiting.get("message"), ended.get("exitCode"), ended.get("reason"))
    return status.get("name"), ready, "running" in state, restarts, told


_REDUCE_FUNCTIONS: Mapping[Resource, Callable[[WatchedBody], object]] = {
    resources.VIRTUAL_CLUSTERS: _reduce_virtual_cluster,
    # Without the status: each change of it would wake every tenant of the ClusterVersion.
    resources.CLUSTER_VERSIONS: _strip_metadata,
    # Without the status, which only the woken reconcile writes.
    resources.VIRTUAL_CLUSTER_SNAPSHOTS: _strip_metadata,
    resources.VIRTUAL_CLUSTER_CONTROL_PLANES: _reduce_control_plane,
    resources.SUPER_CLUSTERS: _reduce_super_cluster,
    resources.TENANT_POLICIES: _strip_metadata,
    resources.NAMESPACES: _reduce_root_namespace,
    resources.STATEFUL_SETS: _reduce_workload,
    resources.DEPLOYMENTS: _reduce_workload,
    resources.PODS: _reduce_pod,
}
