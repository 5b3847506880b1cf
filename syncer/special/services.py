"""Services: the same cluster IP on both sides, node ports and load balancers up.

Pure. Owns which leaves of a Service go down, which may change later, and what of the super Service
the tenant gets to see. Must not know how a refusal reaches the tenant. Hazard: a Service never goes
down with another IP than the tenant's own; DNS and every client of it would lie.
"""

import ipaddress
from collections.abc import Mapping
from typing import Any

from kubeio import Object, errors
from kubeio.store import Entry
from syncer import translate
from syncer.leaves import ALLOW, FREE, Drop, Each, Fields, Refuse, Verdict, Walk, Written
from syncer.rejections import Problem, RejectedError
from syncer.view import TenantView

IP_UNAVAILABLE = "ServiceIPUnavailable"
"""Reason of the Event when the tenant's IP cannot be had in the super cluster."""

SERVICE_SPEC: Mapping[str, Verdict] = {
    "allocateLoadBalancerNodePorts": ALLOW,
    "clusterIP": ALLOW,
    "clusterIPs": ALLOW,
    "externalIPs": Refuse("external-ips", "would catch the traffic of others; remove them"),
    "externalName": ALLOW,
    "externalTrafficPolicy": ALLOW,
    "healthCheckNodePort": Drop("the super cluster picks its own"),
    "internalTrafficPolicy": ALLOW,
    "ipFamilies": ALLOW,
    "ipFamilyPolicy": ALLOW,
    "loadBalancerClass": Refuse("load-balancer", "is not offered; leave it out"),
    "loadBalancerIP": Refuse("load-balancer", "is not offered; leave it out"),
    "loadBalancerSourceRanges": ALLOW,
    "ports": Each(
        {
            "appProtocol": ALLOW,
            "name": ALLOW,
            "nodePort": ALLOW,
            "port": ALLOW,
            "protocol": ALLOW,
            "targetPort": ALLOW,
        }
    ),
    "publishNotReadyAddresses": ALLOW,
    "selector": FREE,
    "sessionAffinity": ALLOW,
    "sessionAffinityConfig": Fields({"clientIP": Fields({"timeoutSeconds": ALLOW})}),
    "trafficDistribution": ALLOW,
    "type": ALLOW,
}
SERVICE_STATUS: Mapping[str, Verdict] = {
    "conditions": Written("services"),
    "loadBalancer": Written("services"),
}


def wants(entry: Entry, view: TenantView) -> bool:
    """Tell whether a Service goes down: all but the provided ones."""
    return not view.is_provided(entry.namespace, entry.name)


def service(tenant_service: Mapping[str, Any], view: TenantView) -> Object:
    """Return the twin of a Service. Raises RejectedError."""
    metadata = tenant_service["metadata"]
    walk = Walk()
    spec = walk.fields(tenant_service.get("spec") or {}, SERVICE_SPEC, "spec")
    if walk.problems:
        raise RejectedError(*walk.problems)
    _refuse_addresses(spec, view)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": translate.super_metadata(
            "Service",
            view.tenant,
            metadata,
            super_namespace=view.super_namespace(metadata["namespace"]),
        ),
        "spec": spec,
    }


def _refuse_addresses(spec: Mapping[str, Any], view: TenantView) -> None:
    """Refuse an address outside the slice, and none at all: the super cluster would pick one."""
    address = spec.get("clusterIP") or ""
    others = spec.get("clusterIPs") or ()
    if not address and spec.get("type") != "ExternalName":
        text = "is empty; make the Service anew, so that it gets an address"
        raise RejectedError(Problem("service-ip", "spec.clusterIP", text))
    for each in (address, *others):
        if each and each != "None" and not _is_in_slice(each, view):
            text = (
                f"{each} is outside {view.slice}, the range of this cluster; make the Service anew"
            )
            raise RejectedError(Problem("service-ip", "spec.clusterIP", text))


def _is_in_slice(address: str, view: TenantView) -> bool:
    try:
        return ipaddress.ip_address(address) in view.slice
    except ValueError:
        return False


def patch(live: Mapping[str, Any], twin: Object) -> Object | None:
    """Return the merge patch of what differs, or None.

    Fields that the super cluster filled in by itself stay; those that a tenant's own API server
    would have filled in are there already, as the twin is made from its answer.
    """
    there, wanted = live.get("spec") or {}, twin["spec"]
    spec = {
        key: _changed(there.get(key), value)
        for key, value in wanted.items()
        if not _is_same(key, there.get(key), value)
    }
    for key in SERVICE_SPEC:
        if key in there and key not in wanted and key not in _KEPT:
            spec[key] = None
    metadata = translate.metadata_patch("Service", live["metadata"], twin["metadata"])
    if not spec and not metadata:
        return None
    body: Object = {"metadata": {"uid": live["metadata"]["uid"], **metadata}}
    return {**body, "spec": spec} if spec else body


_KEPT = frozenset({"healthCheckNodePort", "ipFamilies", "ipFamilyPolicy"})


def _changed(there: Any, wanted: Any) -> Any:
    """Return a value of the patch; keys that a map no longer has are named, or they would stay."""
    if isinstance(there, dict) and isinstance(wanted, dict):
        return translate.merge_patch(there, wanted)
    return wanted


def _is_same(key: str, there: Any, wanted: Any) -> bool:
    if key != "ports" or not isinstance(there, list) or len(there) != len(wanted):
        return bool(there == wanted)
    # A port that asks for no number keeps the one it was given.
    return all(
        {**here, "nodePort": here.get("nodePort", 0)}
        == {**asked, "nodePort": asked.get("nodePort") or here.get("nodePort", 0)}
        for here, asked in zip(there, wanted, strict=True)
    )


def without_node_ports(twin: Object) -> Object:
    """Return the twin asking for no node port of its own choice."""
    ports = [
        {key: value for key, value in port.items() if key != "nodePort"}
        for port in twin["spec"].get("ports") or ()
    ]
    return {**twin, "spec": {**twin["spec"], "ports": ports}}


def with_live_ports(twin: Object, live: Mapping[str, Any]) -> Object:
    """Return the twin with the node ports that the live object has, port by port."""
    given = {
        (port.get("port"), port.get("protocol")): port.get("nodePort")
        for port in (live.get("spec") or {}).get("ports") or ()
    }
    bare = without_node_ports(twin)
    for port in bare["spec"]["ports"]:
        number = given.get((port.get("port"), port.get("protocol")))
        if number:
            port["nodePort"] = number
    return bare


def is_allocation(problem: errors.ApiError) -> bool:
    """Tell whether a refusal is about an address or a node port that somebody else has."""
    return isinstance(problem, errors.Invalid) and bool(refusal(problem))


def refusal(problem: errors.Invalid) -> str:
    """Return which allocation a refusal is about: `address`, `port`, or empty for neither."""
    fields = [str(cause.get("field", "")) for cause in problem.causes]
    if any(field.endswith("nodePort") for field in fields):
        return "port"
    if any(field.startswith(("spec.clusterIP", "spec.clusterIPs")) for field in fields):
        return "address"
    return ""


def ports_up(tenant_service: Mapping[str, Any], live: Mapping[str, Any]) -> Object | None:
    """Return the merge patch that shows the tenant the node ports it really has, or None."""
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


def status_up(tenant_service: Mapping[str, Any], live: Mapping[str, Any]) -> Object | None:
    """Return the merge patch of the tenant's status, or None."""
    own = (tenant_service.get("status") or {}).get("loadBalancer") or {}
    there = (live.get("status") or {}).get("loadBalancer") or {}
    if own == there:
        return None
    changed = translate.merge_patch(own, there)
    return {
        "metadata": {"uid": tenant_service["metadata"]["uid"]},
        "status": {"loadBalancer": changed},
    }
