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

from collections.abc import Iterator, Mapping
from typing import Any

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model import object_meta
from syncer.model.field_rules import ALLOW, Drop, Each, Fields, Only, Verdict, Walk, Written
from syncer.model.rejections import Problem, RefusedError, RejectedError
from syncer.model.replace_update import replacement
from syncer.model.tenant_view import TenantView
from syncer.model.unstructured import mapping, mappings
from syncer.rules.network import forbidden_addresses
from tenancy import wellknown

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SELECTOR_CONTROLLER = "endpointslice-controller.k8s.io"
WATCHED = f"{MANAGED_BY}!={SELECTOR_CONTROLLER}"
"""Label selector of the watch. The excluded slices are many, change with every pod and are never
synced."""
OURS = f"{wellknown.SYNCER}.{wellknown.DOMAIN}"
"""Value of the managed-by label of a twin. Controllers of the super cluster ignore the slice."""

ENDPOINT_SLICE: Mapping[str, Verdict] = {
    "addressType": Only(
        frozenset({"IPv4", "IPv6"}), "endpoint-address", "only addresses go down; use IPv4 or IPv6"
    ),
    "endpoints": Each(
        {
            "addresses": ALLOW,
            "conditions": Fields({"ready": ALLOW, "serving": ALLOW, "terminating": ALLOW}),
            "deprecatedTopology": Drop("belongs to a removed API version"),
            "hints": Fields(
                {"forNodes": Drop("names nodes"), "forZones": Each({"name": ALLOW})},
            ),
            "hostname": ALLOW,
            "nodeName": Written(
                "endpoint_slices", "is synced if it is a node that your cluster shows"
            ),
            "targetRef": Drop(
                "names an object of your cluster, which the super cluster does not use"
            ),
            "zone": ALLOW,
        }
    ),
    "ports": Each({"appProtocol": ALLOW, "name": ALLOW, "port": ALLOW, "protocol": ALLOW}),
}
_IDENTITY = frozenset({"apiVersion", "kind", "metadata"})
MAX_ADDRESSES = 1000
"""Maximum number of addresses in one slice: as many as the controllers of Kubernetes write into
one."""


def wants(entry: Entry, view: TenantView) -> bool:
    """Return whether a slice is synced: it has a Service and no controller computes it.

    The slices of the provided Services are excluded, because they have addresses of the root
    namespace.
    """
    service = entry.labels.get(SERVICE_NAME, "")
    return bool(service) and not (
        is_hidden({"labels": entry.labels}) or view.is_provided(entry.namespace, service)
    )


def is_hidden(metadata: Mapping[str, Any]) -> bool:
    """Return whether the watch leaves out an existing slice."""
    return mapping(metadata.get("labels")).get(MANAGED_BY) == SELECTOR_CONTROLLER


def endpoint_slice(tenant_slice: Mapping[str, Any], view: TenantView) -> Object:
    """Return the twin of a slice.

    Raises RejectedError, and RefusedError for an address that is not allowed.
    """
    metadata = tenant_slice["metadata"]
    walk = Walk()
    said = {key: value for key, value in tenant_slice.items() if key not in _IDENTITY}
    body = walk.fields(said, ENDPOINT_SLICE, "")
    problems = [Problem(p.rule, p.path.lstrip("."), p.text) for p in walk.problems]
    problems = problems or list(_too_large(body))
    if problems:
        raise RejectedError(*problems)
    problems = list(_addresses(body, view))
    if problems:
        raise RefusedError(*problems)
    for endpoint, own in zip(
        body.get("endpoints") or (), mappings(tenant_slice.get("endpoints")), strict=False
    ):
        node = own.get("nodeName")
        if isinstance(node, str) and node in view.nodes():
            endpoint["nodeName"] = node
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": object_meta.super_metadata(
            "EndpointSlice",
            view.tenant,
            metadata,
            super_namespace=view.super_namespace(metadata["namespace"]),
            passing=view.policy.metadata,
            extra_labels={SERVICE_NAME: metadata["labels"][SERVICE_NAME], MANAGED_BY: OURS},
        ),
        **body,
    }


def _too_large(body: Mapping[str, Any]) -> Iterator[Problem]:
    count = 0
    for number, endpoint in enumerate(body.get("endpoints") or ()):
        found = endpoint.get("addresses")
        if isinstance(found, list):
            count += len(found)
        else:
            yield Problem("malformed", f"endpoints[{number}].addresses", "must be a list of them")
    if count > MAX_ADDRESSES:
        text = f"has {count} addresses, and {MAX_ADDRESSES} are carried; use several slices"
        yield Problem("too-large", "endpoints", text)


def _addresses(body: Mapping[str, Any], view: TenantView) -> Iterator[Problem]:
    taken = forbidden_addresses.of_the_super_cluster(view)
    for number, endpoint in enumerate(body.get("endpoints") or ()):
        for index, address in enumerate(endpoint["addresses"]):
            why = forbidden_addresses.reason(address, taken)
            if why:
                text = f"{str(address)[:60]} {why}; use an address of a pod, or one outside"
                path = f"endpoints[{number}].addresses[{index}]"
                yield Problem("endpoint-address", path, text)
                return  # a single problem of possibly a thousand is enough


def change(live: Mapping[str, Any], twin: Object) -> Object | None:
    """Return the slice to put in place of the live one, or None."""
    return replacement(live, twin, table=ENDPOINT_SLICE)
