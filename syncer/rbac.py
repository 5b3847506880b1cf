"""RBAC of the syncer in super clusters and in tenants, with a reason per row.

Owns the tables. The chart's RBAC and the tenants' ClusterRole are generated from them. Rows that
follow from the table of kinds are derived from it, so a new kind brings its verbs. Hazard: the
tables must contain exactly the verbs that the code uses. A missing verb is a 403 in a user's
cluster, and an unused verb is a security hole.
"""

from collections.abc import Iterator

from kubeio.cache.crd_reflector import crd_name
from syncer.model.mirrored_kinds import MIRRORS
from syncer.rules.registry import KINDS, SyncDirection, SyncedKind, UpdateMethod
from syncer.safety.store_guard import CONFIG_MAP
from tenancy.rbac import RbacRule

_WATCH_VERBS = ("get", "list", "watch")
_UPDATE_VERBS = {
    UpdateMethod.REPLACE: ("update",),
    UpdateMethod.MERGE: ("patch",),
    UpdateMethod.OWN: ("patch",),
}


def _build_super_rules() -> Iterator[RbacRule]:
    for kind in KINDS:
        yield RbacRule(
            kind.resource.group,
            (kind.resource.plural,),
            (*_WATCH_VERBS, "create", *_UPDATE_VERBS[kind.update_method], "delete"),
            f"Twins of tenant objects: {kind.resource.kind}.",
        )


def _build_tenant_rules() -> Iterator[RbacRule]:
    for kind in KINDS:
        yield RbacRule(
            kind.resource.group,
            (kind.resource.plural,),
            (*_WATCH_VERBS, *_get_tenant_verbs(kind)),
            f"Read to carry it down: {kind.resource.kind}.",
        )
        if kind.direction is SyncDirection.DOWN_UP:
            yield RbacRule(
                kind.resource.group,
                (f"{kind.resource.plural}/status",),
                ("patch",),
                f"What the super cluster says about it goes up: {kind.resource.kind}.",
            )


def _get_tenant_verbs(kind: SyncedKind) -> tuple[str, ...]:
    if kind.resource.plural == "pods":
        return ("delete",)  # a pod that ended in the super cluster is deleted in the tenant
    return ("patch",) if kind.build_spec_up is not None else ()


def _build_mirror_rules(verbs: tuple[str, ...], why: str) -> Iterator[RbacRule]:
    for mirror in MIRRORS:
        resource = mirror.resource
        yield RbacRule(resource.group, (resource.plural,), verbs, f"{why}: {resource.kind}.")
    definitions = tuple(crd_name(mirror.resource) for mirror in MIRRORS if mirror.needs_crd)
    yield RbacRule(
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        _WATCH_VERBS,
        "Whether a kind that comes with a CRD is served at all.",
        names=definitions,
    )


SUPER_RBAC_RULES: tuple[RbacRule, ...] = (
    *_build_super_rules(),
    *_build_mirror_rules(_WATCH_VERBS, "Shown to tenants as far as their policies say"),
    RbacRule(
        "",
        ("persistentvolumes",),
        (*_WATCH_VERBS, "create", "patch", "delete"),
        "Volumes of tenants' claims are shown to them. A reclaim policy that a tenant sets is"
        " written here. Volumes that a policy lets a tenant write are created here, for its claim.",
    ),
    RbacRule(
        "",
        ("pods/status",),
        ("patch",),
        "Conditions of readiness gates are a tenant's to set.",
    ),
    RbacRule(
        "",
        ("pods/ephemeralcontainers", "pods/resize"),
        ("patch",),
        "A tenant debugs and resizes pods that run.",
    ),
    RbacRule(
        "",
        ("serviceaccounts",),
        ("list", "watch", "create", "patch"),
        "One powerless account in each super namespace.",
    ),
    RbacRule(
        "", ("nodes",), _WATCH_VERBS, "Virtual nodes show the nodes that a tenant's pods run on."
    ),
    RbacRule("", ("events",), ("list", "watch"), "Events about twins are told in the tenant."),
    RbacRule(
        "networking.k8s.io",
        ("ipaddresses",),
        ("list", "watch"),
        "Addresses of a slice that others have are kept free in the tenant.",
    ),
    RbacRule(
        "networking.k8s.io",
        ("servicecidrs",),
        ("list", "watch"),
        "Addresses of the super cluster are taken out of network policies and endpoints.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("virtualclusters",),
        ("list", "watch", "patch"),
        "Tenants are declared here; patch takes a confirmation off once it was used.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("virtualclusters/status",),
        ("patch",),
        "The conditions Synced and DeletesHeld, by server-side apply.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("tenantpolicies",),
        ("list", "watch"),
        "What each tenant may ask for.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("superclusters",),
        ("list", "watch", "patch"),
        "Which other clusters there are; their Secrets are read in the components' namespace. Patch"
        " takes a confirmation off once it was used.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("superclusters/status",),
        ("patch",),
        "The conditions Followed and LossesHeld, by server-side apply.",
    ),
    RbacRule(
        "coordination.k8s.io",
        ("leases",),
        ("get", "create", "update"),
        "One syncer at a time.",
        namespaced=True,
    ),
)

_TARGET_PLURALS = frozenset(
    {
        *(kind.resource.plural for kind in KINDS if kind.is_in_targets),
        "events",
        "nodes",
        "serviceaccounts",
        "servicecidrs",
    }
)
"""Resources that a pod needs where it runs. Services, claims and classes stay in the home
cluster.
"""

TARGET_RBAC_RULES: tuple[RbacRule, ...] = tuple(
    row
    for row in SUPER_RBAC_RULES
    if not row.namespaced and {each.partition("/")[0] for each in row.resources} <= _TARGET_PLURALS
)
"""Rights that a target must grant, also to vc-manager, which probes the target with them."""

TENANT_RBAC_RULES: tuple[RbacRule, ...] = (
    *_build_tenant_rules(),
    *_build_mirror_rules(
        (*_WATCH_VERBS, "create", "update", "delete"), "What the super cluster offers is shown"
    ),
    RbacRule(
        "",
        ("persistentvolumes",),
        (*_WATCH_VERBS, "create", "update", "patch", "delete"),
        "The volumes of claims are shown; those of the tenant's own are read and named a claim.",
    ),
    RbacRule("", ("persistentvolumes/status",), ("patch",), "And how they are."),
    RbacRule("", ("pods/binding",), ("create",), "A pod is bound to the node its twin runs on."),
    RbacRule(
        "",
        ("pods/eviction",),
        ("create",),
        "Pods leave a super cluster that is granted no more, as their budgets let them.",
    ),
    RbacRule("", ("configmaps",), ("create",), "The ConfigMap by which the store is known again."),
    RbacRule(
        "",
        ("configmaps",),
        ("patch",),
        "Its epoch is counted up.",
        names=(CONFIG_MAP,),
    ),
    RbacRule("", ("serviceaccounts",), _WATCH_VERBS, "Pods run as these."),
    RbacRule(
        "",
        ("serviceaccounts/token",),
        ("create",),
        "Pods get tokens of their own cluster's API.",
    ),
    RbacRule(
        "",
        ("nodes",),
        (*_WATCH_VERBS, "create", "patch", "delete"),
        "The nodes that pods run on are shown here.",
    ),
    RbacRule("", ("nodes/status",), ("patch",), "And how they are."),
    RbacRule(
        "networking.k8s.io",
        ("ipaddresses",),
        ("list", "watch", "create", "delete"),
        "Addresses that are taken below are reserved.",
    ),
    RbacRule(
        "coordination.k8s.io",
        ("leases",),
        ("create", "patch"),
        "Since when a node's cluster answers, renewed with each answer, where a node stands for a"
        " whole other cluster.",
    ),
    RbacRule("", ("events",), ("get", "create", "patch"), "What became of an object, and why."),
)
