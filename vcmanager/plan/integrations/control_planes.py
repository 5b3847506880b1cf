"""Control plane provider of Cluster API: from a VirtualClusterControlPlane to a VirtualCluster.

Pure. The rules are those of the contract v1beta2 for ControlPlane:
https://cluster-api.sigs.k8s.io/developer/providers/contracts/control-plane. Hazard: the name of the
ClusterVersion must be computed as the admission policy of the chart computes it. Otherwise a user
gets a ClusterVersion without the verb `use` on it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from tenancy import conditions, wellknown
from tenancy.conditions import Condition, ConditionStatus
from tenancy.resources import VIRTUAL_CLUSTER_CONTROL_PLANES, VIRTUAL_CLUSTERS, Resource

Manifest = dict[str, Any]

AVAILABLE, ROLLING_OUT, PAUSED = "Available", "RollingOut", "Paused"
"""Condition types that the contract defines."""
PAUSED_ANNOTATION = "cluster.x-k8s.io/paused"
CLUSTER_NAME_LABEL = "cluster.x-k8s.io/cluster-name"
CLUSTER_GROUP = "cluster.x-k8s.io"
_CLUSTER_VERSIONS = ("v1beta1", "v1beta2")
"""Versions of the kind Cluster in which `spec.paused` has the same meaning."""
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.\d+(?:[-+].*)?")

Refusal = tuple[str, str]
"""Reason and message of a control plane that cannot be created or changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOwner:
    """The Cluster that owns a control plane."""

    name: str
    uid: str
    resource: Resource


def find_cluster(body: Mapping[str, Any]) -> ClusterOwner | None:
    """Return the owner of the kind Cluster. None until Cluster API has set it."""
    for each in body["metadata"].get("ownerReferences") or ():
        group, _, version = each["apiVersion"].rpartition("/")
        if (group, each["kind"]) == (CLUSTER_GROUP, "Cluster") and version in _CLUSTER_VERSIONS:
            resource = Resource(group, version, "clusters", "Cluster")
            return ClusterOwner(name=each["name"], uid=each["uid"], resource=resource)
    return None


def is_paused(body: Mapping[str, Any], cluster: Mapping[str, Any] | None) -> bool:
    """Return whether the control plane or its Cluster is paused."""
    annotations = body["metadata"].get("annotations") or {}
    is_cluster_paused = bool(((cluster or {}).get("spec") or {}).get("paused"))
    return PAUSED_ANNOTATION in annotations or is_cluster_paused


def choose_cluster_version(spec: Mapping[str, Any]) -> str:
    """Return `spec.clusterVersionName`, or `v` and the minor of `spec.version`: v1.36."""
    named = spec.get("clusterVersionName")
    if named:
        return str(named)
    found = _VERSION.fullmatch(str(spec.get("version", "")))
    return f"v{found[1]}.{found[2]}" if found else ""


def build_virtual_cluster(body: Mapping[str, Any], cluster: ClusterOwner) -> Manifest:
    """Return the fields of the VirtualCluster that the control plane decides.

    It has the name of the Cluster, because the Secret with its kubeconfig must have that name.
    """
    spec, metadata = body["spec"], body["metadata"]
    copied = {field: spec[field] for field in ("policyRef", "endpoint") if spec.get(field)}
    reference = {
        "apiVersion": VIRTUAL_CLUSTER_CONTROL_PLANES.api_version,
        "kind": VIRTUAL_CLUSTER_CONTROL_PLANES.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    return {
        "apiVersion": VIRTUAL_CLUSTERS.api_version,
        "kind": VIRTUAL_CLUSTERS.kind,
        "metadata": {
            "name": cluster.name,
            "namespace": metadata["namespace"],
            "labels": {CLUSTER_NAME_LABEL: cluster.name},
            "ownerReferences": [reference],
        },
        "spec": {
            "clusterVersionName": choose_cluster_version(spec),
            "kubeconfigSecrets": ["ClusterAPI"],
            **copied,
        },
    }


def is_owned(virtual_cluster: Mapping[str, Any], uid: str) -> bool:
    """Return whether a VirtualCluster belongs to the control plane of this UID."""
    return any(
        each.get("uid") == uid and each.get("controller") is True
        for each in virtual_cluster["metadata"].get("ownerReferences") or ()
    )


def parse_endpoint(url: str) -> Manifest | None:
    """Return host and port of a URL as `spec.controlPlaneEndpoint`. None without a host."""
    parts = urlsplit(url)
    if not parts.hostname:
        return None
    return {"host": parts.hostname, "port": parts.port or 443}


def build_status(
    body: Mapping[str, Any],
    virtual_cluster: Mapping[str, Any] | None,
    *,
    refusal: Refusal | None,
    paused: bool,
    now: str,
) -> Manifest:
    """Return the status of a control plane.

    `controlPlaneInitialized` stays true once it was. Cluster API waits for it only once.
    """
    old = body.get("status") or {}
    generation = body["metadata"].get("generation", 0)
    source = (virtual_cluster or {}).get("status") or {}
    listed = source.get("conditions") or ()
    made = _build_conditions(listed, refusal, paused=paused, now=now, generation=generation)
    version = _format_version(str(source.get("version") or "")) or str(old.get("version") or "")
    is_known = bool((old.get("initialization") or {}).get("controlPlaneInitialized"))
    is_initialized = is_known or all(
        conditions.is_true(listed, kind)
        for kind in (wellknown.READY, wellknown.KUBECONFIG_SECRETS_READY)
    )
    return {
        "observedGeneration": generation,
        "externalManagedControlPlane": True,
        "initialization": {"controlPlaneInitialized": is_initialized},
        **({"version": version, "versions": [{"version": version}]} if version else {}),
        "conditions": conditions.carry_transition_times(old.get("conditions"), made),
    }


def _build_conditions(
    listed: Sequence[Mapping[str, Any]],
    refusal: Refusal | None,
    *,
    paused: bool,
    now: str,
    generation: int,
) -> list[Condition]:
    status, reason, message = _judge_availability(listed, refusal)
    rolling = _judge_rollout(listed)
    rows: list[tuple[str, ConditionStatus, str, str]] = [
        (AVAILABLE, status, reason, message),
        (wellknown.READY, status, reason, message),
        (ROLLING_OUT, *rolling),
        (
            (PAUSED, "True", "Paused", "The Cluster or the control plane is paused.")
            if paused
            else (PAUSED, "False", "NotPaused", "Neither the Cluster nor this object is paused.")
        ),
    ]
    stalled = conditions.find_condition(listed, wellknown.STALLED) or {}
    if refusal is not None:
        rows.append((wellknown.STALLED, "True", *refusal))
    elif stalled.get("status") == "True":
        rows.append((wellknown.STALLED, "True", stalled["reason"], stalled["message"]))
    return [conditions.build_condition(*row, now=now, generation=generation) for row in rows]


def _judge_availability(
    listed: Sequence[Mapping[str, Any]], refusal: Refusal | None
) -> tuple[ConditionStatus, str, str]:
    ready = conditions.find_condition(listed, wellknown.READY)
    secrets = conditions.find_condition(listed, wellknown.KUBECONFIG_SECRETS_READY)
    if ready is None:
        reason, message = refusal or ("Pending", "The control plane has not been created yet.")
        return "False", reason, message
    if ready["status"] == "True" and secrets is not None and secrets["status"] != "True":
        return "False", secrets["reason"], secrets["message"]
    return ready["status"], ready["reason"], ready["message"]


def _judge_rollout(
    listed: Sequence[Mapping[str, Any]],
) -> tuple[Literal["True", "False"], str, str]:
    found = conditions.find_condition(listed, wellknown.CONTROL_PLANE_UP_TO_DATE)
    if found is not None and found["status"] == "False":
        return "True", found["reason"], found["message"]
    return "False", "NotRollingOut", "The control plane runs as its ClusterVersion describes it."


def _format_version(version: str) -> str:
    """Return a version with the prefix that Cluster API requires."""
    return f"v{version.removeprefix('v')}" if version else ""
