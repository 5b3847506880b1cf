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
from syncer.model.tenant_view import TenantView
from syncer.model.unstructured import as_mapping, as_mappings
from syncer.rules.network import forbidden_addresses
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
MAX_ADDRESSES = 1000
"""Maximum number of addresses in one slice: as many as the controllers of Kubernetes write into
one."""


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
    problems = list(_find_address_problems(body, view))
    if problems:
        raise ForbiddenObjectError(*problems)
    for endpoint, own in zip(
        body.get("endpoints") or (), as_mappings(tenant_slice.get("endpoints")), strict=False
    ):
        node = own.get("nodeName")
        if isinstance(node, str) and node in view.list_shown_nodes():
            endpoint["nodeName"] = node
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


def _find_address_problems(body: Mapping[str, Any], view: TenantView) -> Iterator[RejectionProblem]:
    taken = forbidden_addresses.list_super_cidrs(view)
    for number, endpoint in enumerate(body.get("endpoints") or ()):
        for index, address in enumerate(endpoint["addresses"]):
            why = forbidden_addresses.find_problem(address, taken)
            if why:
                text = f"{str(address)[:60]} {why}. Use an address of a pod, or one outside"
                path = f"endpoints[{number}].addresses[{index}]"
                yield RejectionProblem("endpoint-address", path, text)
                return  # a single problem of possibly a thousand is enough


def build_change(live: Mapping[str, Any], twin: Object) -> Object | None:
    """Return the slice to put in place of the live one, or None."""
    return build_replacement(live, twin, table=ENDPOINT_SLICE)
