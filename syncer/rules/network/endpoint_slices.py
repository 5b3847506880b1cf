"""EndpointSlices that no controller of the tenant computes from a selector.

Pure. Owns the selection of slices, and the rules on their addresses. Must not know Services.

A slice of a Service with a selector is not synced, because the super cluster computes its own.
Endpoints that are written by hand are synced as the slices that the tenant's own mirroring
controller creates from them. Endpoints themselves are never synced, because the super cluster's
mirroring controller would create a second set of slices from them.

Hazard: an address that is refused must delete the whole slice, including an earlier version.
Otherwise the super cluster keeps sending traffic to the address. A slice that is only malformed
leaves the twin as it is.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model import object_meta
from syncer.model.field_rules import (
    ALLOW_SCALAR,
    AllowValues,
    BuiltField,
    DropField,
    FieldRule,
    FieldWalk,
    ListOfObjects,
    ObjectFields,
)
from syncer.model.rejections import ForbiddenObjectError, RejectedError, RejectionProblem
from syncer.model.replace_update import build_replacement
from syncer.model.super_cidrs import SuperCidrs
from syncer.model.tenant_view import TenantView
from syncer.model.unstructured import as_mapping, as_mappings, as_strings
from syncer.rules.network import forbidden_addresses, policy_peers
from syncer.rules.network.indexes import pod_addresses
from syncer.rules.network.indexes.pod_addresses import MAX_ADDRESSES
from tenancy import wellknown

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SELECTOR_CONTROLLER = "endpointslice-controller.k8s.io"
WATCHED_SELECTOR = f"{MANAGED_BY}!={SELECTOR_CONTROLLER}"
"""Label selector of the watch. The excluded slices are many, change with every pod and are never
synced."""
TWIN_MANAGED_BY = f"{wellknown.SYNCER}.{wellknown.DOMAIN}"
"""Value of the managed-by label of a twin. Controllers of the super cluster ignore the slice."""

ENDPOINT_SLICE: Mapping[str, FieldRule] = {
    "addressType": AllowValues(
        frozenset({"IPv4", "IPv6"}),
        "endpoint-address",
        "only addresses are synced. Use IPv4 or IPv6",
    ),
    "endpoints": ListOfObjects(
        {
            "addresses": ALLOW_SCALAR,
            "conditions": ObjectFields(
                {"ready": ALLOW_SCALAR, "serving": ALLOW_SCALAR, "terminating": ALLOW_SCALAR}
            ),
            "deprecatedTopology": DropField("belongs to a removed API version"),
            "hints": ObjectFields(
                {
                    "forNodes": DropField("names nodes"),
                    "forZones": ListOfObjects({"name": ALLOW_SCALAR}),
                },
            ),
            "hostname": ALLOW_SCALAR,
            "nodeName": BuiltField(
                "endpoint_slices", "is synced if it is a node that your cluster shows"
            ),
            "targetRef": DropField(
                "names an object of your cluster, which the super cluster does not use"
            ),
            "zone": ALLOW_SCALAR,
        }
    ),
    "ports": ListOfObjects(
        {
            "appProtocol": ALLOW_SCALAR,
            "name": ALLOW_SCALAR,
            "port": ALLOW_SCALAR,
            "protocol": ALLOW_SCALAR,
        }
    ),
}
_IDENTITY = frozenset({"apiVersion", "kind", "metadata"})


def is_wanted(entry: Entry, view: TenantView) -> bool:
    """Return whether a slice is synced: it has a Service and no controller computes it.

    The slices of the provided Services are excluded, because they have addresses of the root
    namespace.
    """
    service = entry.labels.get(SERVICE_NAME, "")
    return bool(service) and not (
        is_hidden({"labels": entry.labels}) or view.is_provided_service(entry.namespace, service)
    )


def is_hidden(metadata: Mapping[str, Any]) -> bool:
    """Return whether the watch leaves out an existing slice."""
    return as_mapping(metadata.get("labels")).get(MANAGED_BY) == SELECTOR_CONTROLLER


def build_endpoint_slice(tenant_slice: Mapping[str, Any], view: TenantView) -> Object:
    """Return the twin of a slice.

    Raises RejectedError, and RefusedError for an address that is not allowed.
    """
    metadata = tenant_slice["metadata"]
    walk = FieldWalk()
    said = {key: value for key, value in tenant_slice.items() if key not in _IDENTITY}
    body = walk.walk_fields(said, ENDPOINT_SLICE, "")
    problems = [RejectionProblem(p.rule, p.path.lstrip("."), p.text) for p in walk.problems]
    problems = problems or list(_find_size_problems(body))
    if problems:
        raise RejectedError(*problems)
    ranges = view.get_super_cidrs()
    problems = list(_find_address_problems(body, view, ranges))
    if problems:
        raise ForbiddenObjectError(*problems)
    for endpoint, own in zip(
        body.get("endpoints") or (), as_mappings(tenant_slice.get("endpoints")), strict=False
    ):
        node = own.get("nodeName")
        if isinstance(node, str) and node in view.list_shown_nodes():
            endpoint["nodeName"] = node
    _leave_out_foreign_pods(body, view, ranges)
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": object_meta.build_super_metadata(
            "EndpointSlice",
            view.tenant,
            metadata,
            super_namespace=view.get_super_namespace(metadata["namespace"]),
            passing=view.policy.metadata,
            extra_labels={
                SERVICE_NAME: metadata["labels"][SERVICE_NAME],
                MANAGED_BY: TWIN_MANAGED_BY,
            },
        ),
        **body,
    }


def _find_size_problems(body: Mapping[str, Any]) -> Iterator[RejectionProblem]:
    count = 0
    for number, endpoint in enumerate(body.get("endpoints") or ()):
        found = endpoint.get("addresses")
        if isinstance(found, list):
            count += len(found)
        else:
            yield RejectionProblem(
                "malformed",
                f"endpoints[{number}].addresses",
                "must be a list of addresses. Correct the object",
            )
    if count > MAX_ADDRESSES:
        text = f"has {count} addresses, and the limit is {MAX_ADDRESSES}. Use several slices"
        yield RejectionProblem("too-large", "endpoints", text)


def find_adjustments(
    tenant_slice: Mapping[str, Any], view: TenantView
) -> Collection[RejectionProblem]:
    """Return the first address that the twin leaves out, for an Event."""
    foreign = _build_foreign_test(view, view.get_super_cidrs())
    for number, endpoint in enumerate(as_mappings(tenant_slice.get("endpoints"))):
        for index, address in enumerate(as_strings(endpoint.get("addresses"))):
            if foreign(address):
                text = f"{address[:60]} {_FOREIGN_POD_TEXT}"
                path = f"endpoints[{number}].addresses[{index}]"
                return (RejectionProblem("endpoint-address", path, text),)
    return ()


_FOREIGN_POD_TEXT = (
    "is in the range of pods and is not the address of a running pod of this cluster, so it is left"
    " out. Use an address of one of your pods, or one outside. Your platform administrator may"
    " allow other addresses (spec.network.endpoints of the TenantPolicy)"
)


def _build_foreign_test(view: TenantView, ranges: SuperCidrs) -> Callable[[str], bool]:
    """Return whether an address is in the range of pods, and no running pod of the tenant has it.

    While the ranges of pods are unknown or incomplete, further addresses may be those of pods.
    """
    if view.policy.network.endpoints != "OwnPods":
        return lambda _: False
    pods = policy_peers.build_possible_pod_networks(view, ranges)

    def is_foreign(text: str) -> bool:
        found = pod_addresses.parse_address(text)
        if found is None:
            return False
        embedded = forbidden_addresses.expand_embedded_ipv4(found)
        return any(pods.contains(each) for each in embedded) and not view.is_own_pod(found)

    return is_foreign


def _leave_out_foreign_pods(body: dict[str, Any], view: TenantView, ranges: SuperCidrs) -> None:
    """Remove the addresses of foreign pods, in place. Raises ForbiddenObjectError without a rest.

    The rest of a slice stays. Otherwise the end of one pod would make the others unreachable.
    """
    foreign, endpoints = _build_foreign_test(view, ranges), body.get("endpoints") or ()
    kept: list[dict[str, Any]] = []
    for endpoint in endpoints:
        left = [text for text in endpoint["addresses"] if not foreign(text)]
        if left:
            kept.append({**endpoint, "addresses": left})
    if endpoints and not kept:
        first = endpoints[0]["addresses"]
        text = f"{first[0] if first else ''} {_FOREIGN_POD_TEXT}"
        raise ForbiddenObjectError(
            RejectionProblem("endpoint-address", "endpoints[0].addresses[0]", text)
        )
    if "endpoints" in body:
        body["endpoints"] = kept


def _find_address_problems(
    body: Mapping[str, Any], view: TenantView, ranges: SuperCidrs
) -> Iterator[RejectionProblem]:
    if view.policy.network.endpoints == "Refuse":
        text = (
            "is not offered to this cluster (spec.network.endpoints of the TenantPolicy). Use a"
            " Service with a selector"
        )
        yield RejectionProblem("endpoints", "endpoints", text)
        return
    taken = forbidden_addresses.list_super_cidrs(view, ranges)
    for number, endpoint in enumerate(body.get("endpoints") or ()):
        for index, address in enumerate(endpoint["addresses"]):
            found = pod_addresses.parse_address(address)
            if found is not None and view.is_own_pod(found):
                continue
            why = forbidden_addresses.find_problem(address, taken)
            if why:
                text = f"{str(address)[:60]} {why}. Use an address of a pod, or one outside"
                path = f"endpoints[{number}].addresses[{index}]"
                yield RejectionProblem("endpoint-address", path, text)
                return  # a single problem of possibly a thousand is enough


def build_change(live: Mapping[str, Any], twin: Object) -> Object | None:
    """Return the slice to put in place of the live one, or None."""
    return build_replacement(live, twin, table=ENDPOINT_SLICE)
