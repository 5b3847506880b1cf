"""What the syncer may do, in the super cluster and in each tenant, and why.

Owns both tables; the chart's RBAC and the tenants' ClusterRole are generated from them. What
follows from the table of kinds is derived from it, so that a new row brings its verbs along.
Hazard: a verb used in the code and missing here is a 403 on somebody's cluster; one never used is a
hole.
"""

from collections.abc import Iterator

from syncer.brake import CONFIG_MAP
from syncer.kinds import KINDS, Flow, Kind, Method
from tenancy.access import Access

_FOLLOW = ("get", "list", "watch")
_CHANGES = {Method.REPLACE: ("update",), Method.MERGE: ("patch",), Method.OWN: ("patch",)}


def _super_rows() -> Iterator[Access]:
    for kind in KINDS:
        yield Access(
            kind.resource.group,
            (kind.resource.plural,),
            (*_FOLLOW, "create", *_CHANGES[kind.method], "delete"),
            f"Twins of tenant objects: {kind.resource.kind}.",
        )


def _tenant_rows() -> Iterator[Access]:
    for kind in KINDS:
        yield Access(
            kind.resource.group,
            (kind.resource.plural,),
            (*_FOLLOW, *_tenant_verbs(kind)),
            f"Read to carry it down: {kind.resource.kind}.",
        )
        if kind.flow is Flow.DOWN_UP:
            yield Access(
                kind.resource.group,
                (f"{kind.resource.plural}/status",),
                ("patch",),
                f"What the super cluster says about it goes up: {kind.resource.kind}.",
            )


def _tenant_verbs(kind: Kind) -> tuple[str, ...]:
    if kind.resource.plural == "pods":
        return ("delete",)  # a pod that is gone below is let go above
    return ("patch",) if kind.up_spec is not None else ()


SUPER_ACCESS: tuple[Access, ...] = (
    *_super_rows(),
    Access(
        "",
        ("pods/status",),
        ("patch",),
        "Conditions of readiness gates are a tenant's to set.",
    ),
    Access(
        "",
        ("serviceaccounts",),
        ("list", "watch", "create", "patch"),
        "One powerless account in each super namespace.",
    ),
    Access("", ("nodes",), _FOLLOW, "Virtual nodes show the nodes that a tenant's pods run on."),
    Access("", ("events",), ("list", "watch"), "Events about twins are told in the tenant."),
    Access(
        "networking.k8s.io",
        ("ipaddresses",),
        ("list", "watch"),
        "Addresses of a slice that others have are kept free in the tenant.",
    ),
    Access(
        "tenancy.x-k8s.io",
        ("virtualclusters",),
        ("list", "watch", "patch"),
        "Tenants are declared here; patch takes a confirmation off once it was used.",
    ),
    Access(
        "tenancy.x-k8s.io",
        ("virtualclusters/status",),
        ("patch",),
        "The conditions Synced and DeletesHeld, by server-side apply.",
    ),
    Access(
        "coordination.k8s.io",
        ("leases",),
        ("get", "create", "update"),
        "One syncer at a time.",
        namespaced=True,
    ),
)

TENANT_ACCESS: tuple[Access, ...] = (
    *_tenant_rows(),
    Access("", ("pods/binding",), ("create",), "A pod is bound to the node its twin runs on."),
    Access("", ("configmaps",), ("create",), "The ConfigMap by which the store is known again."),
    Access(
        "",
        ("configmaps",),
        ("patch",),
        "Its epoch is counted up.",
        names=(CONFIG_MAP,),
    ),
    Access("", ("serviceaccounts",), _FOLLOW, "Pods run as these."),
    Access(
        "",
        ("serviceaccounts/token",),
        ("create",),
        "Pods get tokens of their own cluster's API.",
    ),
    Access(
        "",
        ("nodes",),
        ("list", "watch", "create", "patch", "delete"),
        "The nodes that pods run on are shown here.",
    ),
    Access("", ("nodes/status",), ("patch",), "And how they are."),
    Access(
        "networking.k8s.io",
        ("ipaddresses",),
        ("list", "watch", "create", "delete"),
        "Addresses that are taken below are reserved.",
    ),
    Access("", ("events",), ("get", "create"), "What became of an object, and why."),
)
