"""Services: the same cluster IP on both sides, node ports and load balancers synced back.

Pure. Owns the leaves of a Service that are synced, the leaves that may change later, and the part
of the super Service that the tenant sees. Must not know how a refusal is reported to the tenant.

A Service has no twin if the policy does not offer its type or its load balancer class. An earlier
type of the Service does not matter, because the twin follows the current tenant object. An
administrator who withdraws node ports sees them closed.

Hazard: a Service must never be synced with another IP than the tenant's own. Otherwise DNS and
every client use a wrong address.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from kubeio import Object, errors
from kubeio.cache.store import Entry
from syncer.model import builtin_policy, object_meta
from syncer.model.field_rules import (
    ALLOW_MAP,
    ALLOW_SCALAR,
    BuiltField,
    DropField,
    FieldRule,
    FieldWalk,
    ListOfObjects,
    ObjectFields,
    RefuseField,
)
from syncer.model.rejections import ForbiddenObjectError, RejectedError, RejectionProblem
from syncer.model.tenant_view import ServiceCidr, TenantView
from syncer.model.unstructured import as_mapping, as_mappings
from syncer.rules import status_ownership
from syncer.rules.network import external_names
from syncer.rules.network.attachments import network_limits
from syncer.rules.network.cluster_ips import parse_address
from syncer.rules.status_ownership import SERVICE_OWNERSHIP
from tenancy import wellknown

PORT_REPLACED = "NodePortReplaced"
"""Reason of the Event when the super cluster assigns another node port than the tenant's."""
IP_UNAVAILABLE = "ServiceIPUnavailable"
"""Reason of the Event when the tenant's IP is not available in the super cluster."""

SERVICE_SPEC: Mapping[str, FieldRule] = {
    "allocateLoadBalancerNodePorts": ALLOW_SCALAR,
    "clusterIP": ALLOW_SCALAR,
    "clusterIPs": ALLOW_SCALAR,
    "externalIPs": RefuseField(
        "external-ips", "would receive traffic of other tenants. Remove them"
    ),
    "externalName": BuiltField(
        "external_names",
        "is synced. A name in your cluster's domain becomes the name in the super cluster",
    ),
    "externalTrafficPolicy": ALLOW_SCALAR,
    "healthCheckNodePort": DropField("the super cluster assigns its own"),
    "internalTrafficPolicy": ALLOW_SCALAR,
    "ipFamilies": ALLOW_SCALAR,
    "ipFamilyPolicy": ALLOW_SCALAR,
    "loadBalancerClass": BuiltField(
        "services", "is synced if it is a class that is offered to your cluster"
    ),
    "loadBalancerIP": RefuseField("load-balancer", "is not offered. Leave it out"),
    "loadBalancerSourceRanges": ALLOW_SCALAR,
    "ports": ListOfObjects(
        {
            "appProtocol": ALLOW_SCALAR,
            "name": ALLOW_SCALAR,
            "nodePort": ALLOW_SCALAR,
            "port": ALLOW_SCALAR,
            "protocol": ALLOW_SCALAR,
            "targetPort": ALLOW_SCALAR,
        }
    ),
    "publishNotReadyAddresses": ALLOW_SCALAR,
    "selector": ALLOW_MAP,
    "sessionAffinity": ALLOW_SCALAR,
    "sessionAffinityConfig": ObjectFields(
        {"clientIP": ObjectFields({"timeoutSeconds": ALLOW_SCALAR})}
    ),
    "trafficDistribution": ALLOW_SCALAR,
    "type": ALLOW_SCALAR,
}
SERVICE_STATUS: Mapping[str, FieldRule] = {
    "conditions": BuiltField("services", "are synced back without names of the super cluster"),
    "loadBalancer": BuiltField("services", "is synced back"),
}


def is_wanted(entry: Entry, view: TenantView) -> bool:
    """Return whether a Service is synced. Provided Services are not."""
    return not view.is_provided_service(entry.namespace, entry.name)


def build_service(tenant_service: Mapping[str, Any], view: TenantView) -> Object:
    """Return the twin of a Service. Raises RejectedError."""
    metadata = tenant_service["metadata"]
    walk = FieldWalk()
    spec = walk.walk_fields(tenant_service.get("spec") or {}, SERVICE_SPEC, "spec")
    said = as_mapping(tenant_service.get("spec"))
    refused = list(_find_policy_problems(said, view))
    unreachable = network_limits.find_service_problem(tenant_service, view)
    if unreachable is not None:
        refused.append(unreachable)
    if refused:
        raise ForbiddenObjectError(*refused)
    name, problem = external_names.translate_name(said, view)
    problems = [
        *walk.problems,
        *([problem] if problem is not None else ()),
    ]
    if problems:
        raise RejectedError(*problems)
    _refuse_addresses(spec, view)
    if spec.get("selector"):
        spec["selector"] = object_meta.translate_labels(spec["selector"], view.policy.metadata)
    if name:
        spec["externalName"] = name
    if said.get("loadBalancerClass"):
        spec["loadBalancerClass"] = said["loadBalancerClass"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": object_meta.build_super_metadata(
            "Service",
            view.tenant,
            metadata,
            super_namespace=view.get_super_namespace(metadata["namespace"]),
            passing=view.policy.metadata,
            is_exposed=_is_exposed(said),
        ),
        "spec": spec,
    }


def _is_exposed(spec: Mapping[str, Any]) -> bool:
    """Return whether clients outside of the cluster reach a Service by its type."""
    return spec.get("type") in builtin_policy.EXPOSED_SERVICE_TYPES


def find_adjustments(tenant_service: Mapping[str, Any], view: TenantView) -> list[RejectionProblem]:
    """Return the parts of a Service that its twin does not have, if the tenant should know."""
    if _is_exposed(as_mapping(tenant_service.get("spec"))):
        return []  # such an annotation holds the Service back
    annotations = tenant_service["metadata"].get("annotations") or {}
    found = object_meta.find_left_out_annotations("Service", annotations, view.policy.metadata)
    return [found] if found is not None else []


def _find_policy_problems(spec: Mapping[str, Any], view: TenantView) -> Iterator[RejectionProblem]:
    """Yield a problem for each field of a Service that the policy does not offer."""
    offered, kind = view.policy.network.service_types, spec.get("type") or "ClusterIP"
    if kind not in offered:
        text = f"{str(kind)[:60]} is not offered to this cluster. Use {' or '.join(offered)}"
        yield RejectionProblem("service-type", "spec.type", text)
    name, classes = spec.get("loadBalancerClass"), view.policy.network.load_balancer_classes
    if name and name not in classes:
        text = f"is not offered to this cluster. {_format_choices(classes)}"
        yield RejectionProblem("load-balancer", "spec.loadBalancerClass", text)


def _format_choices(classes: tuple[str, ...]) -> str:
    return f"use {' or '.join(classes)}" if classes else "Leave it out"


def _refuse_addresses(spec: Mapping[str, Any], view: TenantView) -> None:
    """Raise RejectedError for an address outside of the service range, or for no address.

    Without an address the super cluster would choose one.
    """
    address = spec.get("clusterIP") or ""
    others = spec.get("clusterIPs") or ()
    if not isinstance(others, list | tuple):
        text = "must be a list. Correct the object"
        raise RejectedError(RejectionProblem("malformed", "spec.clusterIPs", text))
    if not address and spec.get("type") != "ExternalName":
        text = "is empty. Recreate the Service, so that it gets an address"
        raise RejectedError(RejectionProblem("service-ip", "spec.clusterIP", text))
    for each in (address, *others):
        if each and each != "None" and not _is_in_range(each, view.service_range):
            text = (
                f"{each} is outside {view.service_range}, the service range of this cluster."
                " Recreate the Service"
            )
            raise RejectedError(RejectionProblem("service-ip", "spec.clusterIP", text))


def _is_in_range(address: str, part: ServiceCidr) -> bool:
    found = parse_address(address)
    return found is not None and found in part


def build_patch(live: Mapping[str, Any], twin: Object) -> Object | None:
    """Return the merge patch of the differences, or None.

    Fields that the super cluster filled in by itself stay. The twin already has the defaults of the
    tenant's API server, because it is built from that server's answer.
    """
    there, wanted = live.get("spec") or {}, twin["spec"]
    spec = {
        key: _build_changed_value(there.get(key), value)
        for key, value in wanted.items()
        if not _is_equal(key, there.get(key), value)
    }
    for key in SERVICE_SPEC:
        if key in there and key not in wanted and key not in _SUPER_FILLED_FIELDS:
            spec[key] = None
    metadata = object_meta.build_metadata_patch("Service", live["metadata"], twin["metadata"])
    if not spec and not metadata:
        return None
    body: Object = {"metadata": {"uid": live["metadata"]["uid"], **metadata}}
    return {**body, "spec": spec} if spec else body


_SUPER_FILLED_FIELDS = frozenset(
    {"healthCheckNodePort", "ipFamilies", "ipFamilyPolicy", "loadBalancerClass"}
)
"""Fields that the super cluster fills in, and removes together with the type that needs them."""


def must_recreate(live: Mapping[str, Any], twin: Object) -> bool:
    """Return whether a twin differs in a field that the API never changes on an existing Service.

    The tenant's Service can differ only by way of another type. A new twin is needed only if the
    syncer saw both changes as one.
    """
    there, wanted = as_mapping(live.get("spec")), twin["spec"]
    fixed = [(there.get("clusterIP"), wanted.get("clusterIP"))]
    fixed += [(_get_first(there.get("ipFamilies")), _get_first(wanted.get("ipFamilies")))]
    if there.get("type") == wanted.get("type") == "LoadBalancer":
        before, after = there.get("loadBalancerClass"), wanted.get("loadBalancerClass")
        if after and before != after:
            return True
    return any(old and new and old != new for old, new in fixed)


def _get_first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None


def _build_changed_value(there: Any, wanted: Any) -> Any:
    """Return a value for the patch.

    Keys that a map no longer has are set to null, because they would stay otherwise.
    """
    if isinstance(there, dict) and isinstance(wanted, dict):
        return object_meta.build_merge_patch(there, wanted)
    return wanted


def _is_equal(key: str, there: Any, wanted: Any) -> bool:
    if key != "ports" or not isinstance(there, list) or len(there) != len(wanted):
        return bool(there == wanted)
    # A port that requests no number keeps the number that it was assigned.
    return all(
        {**here, "nodePort": here.get("nodePort", 0)}
        == {**asked, "nodePort": asked.get("nodePort") or here.get("nodePort", 0)}
        for here, asked in zip(there, wanted, strict=True)
    )


def strip_node_ports(twin: Object, refused: Collection[int]) -> Object:
    """Return the twin without requested node ports at these positions."""
    ports = [
        {key: value for key, value in port.items() if key != "nodePort" or index not in refused}
        for index, port in enumerate(twin["spec"].get("ports") or ())
    ]
    return {**twin, "spec": {**twin["spec"], "ports": ports}}


def copy_live_ports(twin: Object, live: Mapping[str, Any], refused: Collection[int]) -> Object:
    """Return the twin with the node ports of the live object at these positions."""
    given = {
        (port.get("port"), port.get("protocol")): port.get("nodePort")
        for port in (live.get("spec") or {}).get("ports") or ()
    }
    bare = strip_node_ports(twin, refused)
    for index in refused:
        port = bare["spec"]["ports"][index]
        number = given.get((port.get("port"), port.get("protocol")))
        if number:
            port["nodePort"] = number
    return bare


def parse_refused_ports(problem: errors.Invalid, twin: Object) -> frozenset[int]:
    """Return the positions of the ports that a refusal names. All ports if it names none."""
    fields = (str(cause.get("field", "")) for cause in problem.causes)
    found = [_PORT_PATH.fullmatch(field) for field in fields]
    there = range(len(twin["spec"].get("ports") or ()))
    named = {int(match[1]) for match in found if match is not None}
    return frozenset(named & set(there)) or frozenset(there)


def list_requested_ports(tenant_service: Mapping[str, Any], places: Collection[int]) -> list[str]:
    """Return the node ports that a tenant requested at these positions, each with its path."""
    ports = as_mappings(as_mapping(tenant_service.get("spec")).get("ports"))
    return [
        f"spec.ports[{index}].nodePort {port['nodePort']}"
        for index, port in enumerate(ports)
        if index in places and port.get("nodePort")
    ]


_IMMUTABLE_FIELDS = ("spec.loadBalancerClass", "spec.ipFamil")
_PORT_PATH = re.compile(r"spec\.ports\[(\d{1,4})\]\.nodePort")


def is_allocation_refusal(problem: errors.ApiError) -> bool:
    """Return whether a refusal is about an address or a node port that another Service uses."""
    return isinstance(problem, errors.Invalid) and bool(classify_refusal(problem))


def classify_refusal(problem: errors.Invalid) -> str:
    """Return the subject of a refusal: `address`, `port`, `fixed`, or empty for any other.

    `fixed` is a property that a Service keeps for life: its load balancer class and its address
    family.
    """
    fields = [str(cause.get("field", "")) for cause in problem.causes]
    if any(field.endswith("nodePort") for field in fields):
        return "port"
    if any(field.startswith("spec.clusterIP") for field in fields):
        return "address"
    return "fixed" if any(field.startswith(_IMMUTABLE_FIELDS) for field in fields) else ""


def build_ports_up(tenant_service: Mapping[str, Any], live: Mapping[str, Any]) -> Object | None:
    """Return the merge patch that shows the tenant the assigned node ports, or None."""
    own = (tenant_service.get("spec") or {}).get("ports") or []
    there = (live.get("spec") or {}).get("ports") or []
    if len(own) != len(there):
        return None
    shown = [
        {**port, "nodePort": real["nodePort"]} if real.get("nodePort") else port
        for port, real in zip(own, there, strict=True)
    ]
    if shown == own:
        return None
    metadata = tenant_service["metadata"]
    return {
        "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
        "spec": {"ports": shown},
    }


def build_status_up(
    tenant_service: Mapping[str, Any], live: Mapping[str, Any], synced_types: Collection[str] = ()
) -> Object | None:
    """Return the merge patch of the tenant's status, or None."""
    own, there = as_mapping(tenant_service.get("status")), as_mapping(live.get("status"))
    own = {**own, "loadBalancer": as_mapping(own.get("loadBalancer"))}
    shown = {
        "loadBalancer": as_mapping(there.get("loadBalancer")),
        "conditions": _build_conditions_up(live, there),
    }
    status = status_ownership.build_patch(SERVICE_OWNERSHIP, own, shown, synced_types)
    if not status:
        return None
    return {"metadata": {"uid": tenant_service["metadata"]["uid"]}, "status": status}


_CONDITION_FIELDS = ("type", "status", "reason", "message", "lastTransitionTime")


def _build_conditions_up(live: Mapping[str, Any], status: Mapping[str, Any]) -> list[Object]:
    """Return the conditions of a super Service for the tenant, without names of the super cluster.

    Their observed generation refers to the super Service and is left out.
    """
    found = as_mappings(status.get("conditions"))
    if not found:
        return []
    below, marked = live["metadata"], as_mapping(live["metadata"].get("annotations"))
    root = str(marked.get(wellknown.CLUSTER, ""))
    pairs = [
        (str(below["namespace"]), str(marked.get(wellknown.NAMESPACE, ""))),
        (f"{root}-" if root else "", ""),
        (root, ""),
        (str(below["uid"]), str(marked.get(wellknown.UID, ""))),
    ]
    kept = ({key: item[key] for key in _CONDITION_FIELDS if key in item} for item in found)
    return [object_meta.replace_names_in(item, pairs) for item in kept]
