"""RBAC of the syncer in super clusters and in tenants, with a reason per row.

Owns the tables. The chart's RBAC and the tenants' ClusterRole are generated from them. Rows that
follow from the table of kinds are derived from it, so a new kind brings its verbs. Hazard: the
tables must contain exactly the verbs that the code uses. A missing verb is a 403 in a user's
cluster, and an unused verb is a security hole.
"""

from collections.abc import Iterator

from kubeio.cache.crd_reflector import definition_of
from syncer.model.mirrored_kinds import MIRRORS
from syncer.rules.registry import KINDS, Flow, Kind, Method
from syncer.safety.store_guard import CONFIG_MAP
from tenancy.rbac import Access

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
        return ("delete",)  # a pod that ended in the super cluster is deleted in the tenant
    return ("patch",) if kind.up_spec is not None else ()


def _mirror_rows(verbs: tuple[str, ...], why: str) -> Iterator[Access]:
    for mirror in MIRRORS:
        resource = mirror.resource
        yield Access(resource.group, (resource.plural,), verbs, f"{why}: {resource.kind}.")
    definitions = tuple(definition_of(mirror.resource) for mirror in MIRRORS if mirror.optional)
    yield Access(
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        _FOLLOW,
        "Whether a kind that comes with a CRD is served at all.",
        names=definitions,
    )


SUPER_ACCESS: tuple[Access, ...] = (
    *_super_rows(),
    *_mirror_rows(_FOLLOW, "Shown to tenants as far as their policies say"),
    Access(
        "",
        ("persistentvolumes",),
        (*_FOLLOW, "create", "patch", "delete"),
        "Volumes of tenants' claims are shown to them; those that a policy lets a tenant write are"
        " made here, pinned to its claim.",
    ),
    Access(
        "",
        ("pods/status",),
        ("patch",),
        "Conditions of readiness gates are a tenant's to set.",
    ),
    Access(
        "",
        ("pods/ephemeralcontainers", "pods/resize"),
        ("patch",),
        "A tenant debugs and resizes pods that run.",
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
        "networking.k8s.io",
        ("servicecidrs",),
        ("list", "watch"),
        "Addresses of the super cluster are taken out of network policies and endpoints.",
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
        "tenancy.x-k8s.io",
        ("tenantpolicies",),
        ("list", "watch"),
        "What each tenant may ask for.",
    ),
    Access(
        "tenancy.x-k8s.io",
        ("superclusters",),
        ("list", "watch", "patch"),
        "Which other clusters there are; their Secrets are read in the components' namespace. Patch"
        " takes a confirmation off once it was used.",
    ),
    Access(
        "tenancy.x-k8s.io",
        ("superclusters/status",),
        ("patch",),
        "The conditions Followed and LossesHeld, by server-side apply.",
    ),
    Access(
        "coordination.k8s.io",
        ("leases",),
        ("get", "create", "update"),
        "One syncer at a time.",
        namespaced=True,
    ),
)

_AT_TARGETS = frozenset(
    {
        *(kind.resource.plural for kind in KINDS if kind.at_targets),
        "events",
        "nodes",
        "serviceaccounts",
        "servicecidrs",
    }
)
"""Resources that a pod needs where it runs. Services, claims and classes stay in the home
cluster.
"""

TARGET_ACCESS: tuple[Access, ...] = tuple(
    row
    for row in SUPER_ACCESS
    if not row.namespaced and {each.partition("/")[0] for each in row.resources} <= _AT_TARGETS
)
"""Rights that a target must grant, also to vc-manager, which probes the target with them."""

TENANT_ACCESS: tuple[Access, ...] = (
    *_tenant_rows(),
    *_mirror_rows(
        ("list", "watch", "create", "update", "delete"), "What the super cluster offers is shown"
    ),
    Access(
        "",
        ("persistentvolumes",),
        (*_FOLLOW, "create", "update", "patch", "delete"),
        "The volumes of claims are shown; those of the tenant's own are read and named a claim.",
    ),
    Access("", ("persistentvolumes/status",), ("patch",), "And how they are."),
    Access("", ("pods/binding",), ("create",), "A pod is bound to the node its twin runs on."),
    Access(
        "",
        ("pods/eviction",),
        ("create",),
        "Pods leave a super cluster that is granted no more, as their budgets let them.",
    ),
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
    Access(
        "coordination.k8s.io",
        ("leases",),
        ("create", "patch"),
        "Since when a node's cluster answers, renewed with each answer, where a node stands for a"
        " whole other cluster.",
    ),
    Access("", ("events",), ("get", "create", "patch"), "What became of an object, and why."),
)
