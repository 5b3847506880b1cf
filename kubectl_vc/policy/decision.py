"""Decision whether the syncer would refuse an object under a TenantPolicy. Pure.

Owns the outside facts that the syncer's builders need, for a tenant that has nothing else. The
decision itself is the syncer's own code (ADR 0044). Must not repeat a rule of it.

Hazard: facts that only a cluster has are assumed to be in favour of the object, and are listed.
Otherwise a check without a cluster would refuse each named class.
"""

import ipaddress
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from kubectl_vc.policy import pod_security
from kubeio import Object
from kubeio.cache.store import Store, parse_entry
from syncer.model import mirrored_kinds
from syncer.model.rejections import (
    MALFORMED_OBJECT_ERRORS,
    RejectedError,
    RejectionProblem,
    UnschedulableError,
)
from syncer.model.tenant_view import TenantView
from syncer.rules.pods import dns, pod_build
from syncer.rules.pods.pod_build import PodBuildContext
from syncer.rules.pods.scheduling import SchedulingContext
from syncer.rules.registry import KINDS_BY_NAME
from tenancy import policies, wellknown
from tenancy.ownership import Tenant
from tenancy.policies import TenantPolicySpec
from tenancy.specs import VirtualClusterSpec

MALFORMED = "malformed"
"""Rule of an object that has not the structure of the API."""

_TENANT = Tenant(name="vc", namespace="default", uid="vc", root="default-000000-vc")
_STORES = ("Namespace", "Service", "ConfigMap", "Secret", "Node", "Pod", "PersistentVolume")
_SUPER_STORES = (
    *("Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "Pod"),
    *("PodDisruptionBudget", *mirrored_kinds.MIRRORS_BY_KIND),
)
_TEMPLATE_PATHS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            *("DaemonSet", "Deployment", "Job"),
            *("ReplicaSet", "ReplicationController", "StatefulSet"),
        ),
        ("spec", "template"),
    ),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
_CONTROLLERS = {"Deployment": "ReplicaSet", "CronJob": "Job"}
"""Kind of the controller that creates the pods, if it is another one."""
_CLASS_FIELDS = {
    "storageClassName": "StorageClass",
    "ingressClassName": "IngressClass",
    "runtimeClassName": "RuntimeClass",
    "priorityClassName": "PriorityClass",
}
_CLAIMS_ASSUMPTION = "SyncRule for ResourceClaim"
_SERVICE_CIDR = "10.96.8.0/22"
_CLUSTER_IP = "10.96.8.77"
_DEFAULT_CLASS = "default"
_DEFAULT_CLASS_KEYS = {
    "StorageClass": "storageclass.kubernetes.io/is-default-class",
    "IngressClass": "ingressclass.kubernetes.io/is-default-class",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectDecision:
    """The decision about one object."""

    kind: str
    namespace: str
    name: str
    is_synced: bool
    """False for a kind that stays in the tenant."""
    refusals: tuple[RejectionProblem, ...] = ()
    adjustments: tuple[RejectionProblem, ...] = ()
    """Parts that the copy would not have."""
    assumptions: tuple[str, ...] = ()
    """Objects of the cluster that the decision assumes, such as `StorageClass fast`."""

    @property
    def result(self) -> str:
        """Return the decision as one word."""
        if self.refusals:
            return "refused"
        if not self.is_synced:
            return "not-synced"
        return "adjusted" if self.adjustments else "allowed"


def decide_object(body: Mapping[str, Any], policy: TenantPolicySpec) -> list[ObjectDecision]:
    """Return the decisions about an object and the objects that its templates create."""
    kind, metadata = str(body["kind"]), body.get("metadata") or {}
    if kind not in _TEMPLATE_PATHS:
        return [_decide_one(kind, body, policy)]
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    found = [
        _decide_one("Pod", _build_pod(kind, name, metadata, template), policy)
        for template in _find_template(kind, body)
    ]
    claims = _as_mapping(body.get("spec")).get("volumeClaimTemplates")
    for claim in claims if isinstance(claims, list) else ():
        template = {"kind": "PersistentVolumeClaim", **_as_mapping(claim)}
        found.append(_decide_one("PersistentVolumeClaim", template, policy))
    return found


def _find_template(kind: str, body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    value: Any = body
    for field in _TEMPLATE_PATHS[kind]:
        value = _as_mapping(value).get(field)
    yield _as_mapping(value)


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _build_pod(
    kind: str, name: str, metadata: Mapping[str, Any], template: Mapping[str, Any]
) -> Object:
    """Return the pod that a controller creates from its template."""
    controller = _CONTROLLERS.get(kind, kind)
    owner = {
        "apiVersion": "batch/v1" if controller == "Job" else "apps/v1",
        "kind": controller,
        "name": name,
        "uid": str(uuid.UUID(int=1)),
        "controller": True,
    }
    return {
        "kind": "Pod",
        "metadata": {
            **_as_mapping(template.get("metadata")),
            "name": name,
            "namespace": metadata.get("namespace") or "default",
            "ownerReferences": [owner],
        },
        "spec": template.get("spec"),
    }


def _decide_one(kind: str, body: Mapping[str, Any], policy: TenantPolicySpec) -> ObjectDecision:
    given = _as_mapping(body.get("metadata"))
    name = str(given.get("name") or given.get("generateName") or "unnamed")
    namespace = "" if kind == "Namespace" else str(given.get("namespace") or "default")
    row = KINDS_BY_NAME.get(kind)
    if row is None:
        return ObjectDecision(kind=kind, namespace=namespace, name=name, is_synced=False)
    metadata = {"uid": str(uuid.UUID(int=2)), **given, "name": name, "namespace": namespace}
    tenant_x = _fill_server_fields({**body, "kind": kind, "metadata": metadata})
    classes = _list_classes(tenant_x)
    view = _build_view(policy, namespace, classes)
    refusals: tuple[RejectionProblem, ...] = ()
    adjustments: Collection[RejectionProblem] = ()
    try:
        if kind == "Pod":
            built = pod_build.build_super_pod(tenant_x, _build_context(tenant_x, view))
            adjustments = built.adjustments
            if policies.get_namespace_level(policy) == "restricted":
                refusals = _find_restricted_problems(tenant_x["spec"])
        else:
            row.build(tenant_x, view)
            if row.find_adjustments is not None:
                adjustments = row.find_adjustments(tenant_x, view)
    except RejectedError as rejected:
        refusals = rejected.problems
    except UnschedulableError as unplaced:
        adjustments = (RejectionProblem("nodes", "spec", str(unplaced)),)
    except MALFORMED_OBJECT_ERRORS:
        text = "does not have the structure of the API. Correct the object"
        refusals = (RejectionProblem(MALFORMED, "spec", text),)
    return ObjectDecision(
        kind=kind,
        namespace=namespace,
        name=name,
        is_synced=True,
        refusals=refusals,
        adjustments=tuple(adjustments),
        assumptions=(
            *(f"{each} {name}" for each, name in classes if name),
            *([_CLAIMS_ASSUMPTION] if kind == "Pod" and _has_claims(tenant_x) else ()),
        ),
    )


def _has_claims(pod: Mapping[str, Any]) -> bool:
    return bool(_as_mapping(pod.get("spec")).get("resourceClaims"))


def _find_restricted_problems(spec: Mapping[str, Any]) -> tuple[RejectionProblem, ...]:
    """Return what the pod security admission of the super cluster would refuse."""
    found = pod_security.find_violations(spec)
    if not found:
        return ()
    text = f"violates the level restricted of pod security: {'. '.join(found)}. Change that"
    return (RejectionProblem("pod-security", "spec", text),)


def _fill_server_fields(body: Object) -> Object:
    """Return an object with the fields that the tenant's control plane would set."""
    spec = body.get("spec")
    if body["kind"] == "PodDisruptionBudget" and "status" not in body:
        status = dict.fromkeys(
            ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"), 0
        )
        return {**body, "status": {**status, "observedGeneration": 1}}
    if body["kind"] != "Service" or not isinstance(spec, dict):
        return body
    filled = {"type": "ClusterIP", **spec}
    if filled["type"] != "ExternalName" and not filled.get("clusterIP"):
        filled |= {"clusterIP": _CLUSTER_IP, "clusterIPs": [_CLUSTER_IP], "ipFamilies": ["IPv4"]}
    return {**body, "spec": filled}


def _list_classes(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return kind and name of the classes that a spec names."""
    spec = _as_mapping(body.get("spec"))
    return [(kind, str(spec[field])) for field, kind in _CLASS_FIELDS.items() if spec.get(field)]


def _build_view(
    policy: TenantPolicySpec, namespace: str, classes: list[tuple[str, str]]
) -> TenantView:
    """Return the view of a tenant with one namespace, in a cluster that has the named classes."""
    stores = {kind: Store() for kind in _STORES}
    _add(stores["Namespace"], namespace or "default")
    super_stores = {kind: Store() for kind in _SUPER_STORES}
    for kind, name in classes:
        _add(super_stores[kind], name)
    for kind, key in _DEFAULT_CLASS_KEYS.items():
        if not super_stores[kind].list():
            _add(super_stores[kind], _DEFAULT_CLASS, **{key: "true"})
    return TenantView(
        tenant=_TENANT,
        spec=VirtualClusterSpec(cluster_version_name="v"),
        service_range=ipaddress.ip_network(_SERVICE_CIDR),
        stores=stores,
        policy=policy,
        super_stores=super_stores,
    )


def _add(store: Store, name: str, **annotations: str) -> None:
    metadata = {
        "name": name,
        "uid": name,
        "labels": {wellknown.SUPER_PUBLIC: "true"},
        "annotations": annotations,
    }
    store.put(parse_entry(orjson.dumps({"metadata": metadata})), live=True)


def _build_context(pod: Mapping[str, Any], view: TenantView) -> PodBuildContext:
    """Return the facts about a pod, whose node is assumed to be one that the tenant sees."""
    namespace = pod["metadata"]["namespace"]
    node = _as_mapping(pod.get("spec")).get("nodeName")
    return PodBuildContext(
        tenant=view.tenant,
        super_namespace=view.get_super_namespace(namespace),
        super_namespace_uid="namespace",
        resolver=dns.resolver_of(view),
        scheduling=SchedulingContext(
            vc_uid=view.tenant.uid,
            namespace=namespace,
            super_namespace=view.get_super_namespace,
            namespaces=view.list_namespace_labels(),
            nodes=[node] if isinstance(node, str) else (),
            node_view=view.policy.nodes.view,
            is_class_shown=view.shows_class,
            pool=view.policy.nodes,
            runtime_class=view.policy.security.runtime_class_name,
        ),
        account_uid=str(uuid.UUID(int=3)),
        policy=view.policy,
        device_claims=_has_claims(pod),
    )
