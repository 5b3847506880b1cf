"""RBAC of the syncer in super clusters and in tenants, with a reason per row.

Owns the tables. The chart's RBAC and the tenants' ClusterRole are generated from them. Rows that
follow from the table of kinds are derived from it, so a new kind brings its verbs. Hazard: the
tables must contain exactly the verbs that the code uses. A missing verb is a 403 in a user's
cluster, and an unused verb is a security hole.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kubeio.cache.crd_reflector import crd_name
from syncer.model.mirrored_kinds import MIRRORS
from syncer.rules.registry import (
    KINDS,
    NETWORK_KINDS,
    SyncDirection,
    SyncedKind,
    UpdateMethod,
)
from syncer.safety.store_guard import CONFIG_MAP
from tenancy import names, wellknown
from tenancy.rbac import RbacRule
from tenancy.resources import CUSTOM_RESOURCE_DEFINITIONS, SECRETS

_WATCH_VERBS = ("get", "list", "watch")
_UPDATE_VERBS = {
    UpdateMethod.REPLACE: ("update",),
    UpdateMethod.MERGE: ("patch",),
    UpdateMethod.OWN: ("patch",),
}


def _build_super_rules(kinds: Iterable[SyncedKind]) -> Iterator[RbacRule]:
    for kind in kinds:
        yield RbacRule(
            kind.resource.group,
            (kind.resource.plural,),
            (*_WATCH_VERBS, "create", *_UPDATE_VERBS[kind.update_method], "delete"),
            f"Writes twins of tenant objects: {kind.resource.kind}.",
        )


def _build_network_rules() -> Iterator[RbacRule]:
    """Yield the rights to additional networks, which the chart grants only if it enables them."""
    enabled_by = ("networkAttachments.enabled", ("true",))
    for row in (
        *_build_super_rules(NETWORK_KINDS),
        RbacRule(
            CUSTOM_RESOURCE_DEFINITIONS.group,
            (CUSTOM_RESOURCE_DEFINITIONS.plural,),
            _WATCH_VERBS,
            "Checks whether additional networks are served.",
            names=tuple(crd_name(kind.resource) for kind in NETWORK_KINDS),
        ),
    ):
        yield replace(row, enabled_by=enabled_by)


def _build_tenant_rules() -> Iterator[RbacRule]:
    for kind in (*KINDS, *NETWORK_KINDS):
        yield RbacRule(
            kind.resource.group,
            (kind.resource.plural,),
            (*_WATCH_VERBS, *_get_tenant_verbs(kind)),
            _explain_tenant_rule(kind),
        )
        if kind.direction is SyncDirection.DOWN_UP:
            yield RbacRule(
                kind.resource.group,
                (f"{kind.resource.plural}/status",),
                ("patch",),
                f"Writes the status that is synced back to the tenant: {kind.resource.kind}.",
            )


def _explain_tenant_rule(kind: SyncedKind) -> str:
    reason = f"Reads objects that are synced to the super cluster: {kind.resource.kind}."
    if kind.direction is not SyncDirection.DOWN_UP:
        return reason
    return f"{reason} Writes labels and annotations that are synced back."


def _get_tenant_verbs(kind: SyncedKind) -> tuple[str, ...]:
    if kind.resource.plural == "pods":
        return ("patch", "delete")  # a pod that ended in the super cluster is deleted in the tenant
    return ("patch",) if kind.direction is SyncDirection.DOWN_UP else ()


def _build_mirror_rules(verbs: tuple[str, ...], why: str) -> Iterator[RbacRule]:
    for mirror in MIRRORS:
        resource = mirror.resource
        yield RbacRule(resource.group, (resource.plural,), verbs, f"{why}: {resource.kind}.")
    definitions = tuple(crd_name(mirror.resource) for mirror in MIRRORS if mirror.needs_crd)
    yield RbacRule(
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        _WATCH_VERBS,
        "Checks whether a kind that comes with a CRD is served.",
        names=definitions,
    )


NAMESPACE_RBAC_RULES: tuple[RbacRule, ...] = tuple(
    _build_super_rules(kind for kind in KINDS if kind.resource == SECRETS)
)
"""Rights in super namespaces only, by a RoleBinding in each. The syncer creates it (ADR 32)."""

CREDENTIAL_RBAC_RULES: tuple[RbacRule, ...] = (
    RbacRule(
        "",
        ("secrets",),
        _WATCH_VERBS,
        "Reads the syncer's kubeconfig of a tenant.",
        names=(wellknown.SYNCER_KUBECONFIG,),
    ),
)
"""Rights in root namespaces only, by a RoleBinding in each. vc-manager creates it."""

SUPER_RBAC_RULES: tuple[RbacRule, ...] = (
    *_build_super_rules(kind for kind in KINDS if kind.resource != SECRETS),
    *_build_network_rules(),
    RbacRule(
        "rbac.authorization.k8s.io",
        ("rolebindings",),
        ("create",),
        "Binds the role for Secrets in each super namespace. The admission policy refuses all"
        " others.",
    ),
    RbacRule(
        "rbac.authorization.k8s.io",
        ("clusterroles",),
        ("bind",),
        "Binds this one role, whose rights it does not have elsewhere.",
        names=(wellknown.SYNCER_NAMESPACE_ROLE,),
    ),
    *_build_mirror_rules(
        _WATCH_VERBS, "Reads objects that are shown to tenants if their policies allow it"
    ),
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
        "Sets conditions of readiness gates, which belong to the tenant.",
    ),
    RbacRule(
        "",
        ("pods/ephemeralcontainers", "pods/resize"),
        ("patch",),
        "Debugs and resizes running pods for the tenant.",
    ),
    RbacRule(
        "",
        ("serviceaccounts",),
        ("list", "watch", "create", "patch"),
        "Keeps one account without rights in each super namespace.",
    ),
    RbacRule(
        "",
        ("limitranges", "resourcequotas"),
        (*_WATCH_VERBS, "create", "update", "delete"),
        "Writes the quota of a tenant into each super namespace, as a second check.",
    ),
    RbacRule("", ("nodes",), _WATCH_VERBS, "Reads nodes to show them as virtual nodes."),
    RbacRule(
        "", ("events",), ("list", "watch"), "Reads Events about twins to copy them to the tenant."
    ),
    RbacRule(
        "networking.k8s.io",
        ("ipaddresses",),
        ("list", "watch"),
        "Reads Services to reserve addresses of a service range that other owners use.",
    ),
    RbacRule(
        "networking.k8s.io",
        ("servicecidrs",),
        ("list", "watch"),
        "Reads addresses of the super cluster to remove them from network policies and endpoints.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("virtualclusters",),
        ("list", "watch", "patch"),
        "Reads tenants, and removes a used confirmation (patch).",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("virtualclusters/status",),
        ("patch",),
        "Writes the conditions Synced and DeletesHeld by server-side apply.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("tenantpolicies",),
        ("list", "watch"),
        "Reads the policy of each tenant.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("syncrules",),
        ("list", "watch", "patch"),
        "Reads SyncRules, and removes its finalizer when their copies are deleted (patch).",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("superclusters",),
        ("list", "watch", "patch"),
        "Reads targets, and removes a used confirmation (patch). vc-manager lets the syncer read"
        " their Secrets.",
    ),
    RbacRule(
        "tenancy.x-k8s.io",
        ("superclusters/status",),
        ("patch",),
        "Writes the conditions Followed, LossesHeld and SyncRulesServed by server-side apply.",
    ),
    RbacRule(
        "coordination.k8s.io",
        ("leases",),
        ("get", "create", "update"),
        "Elects the leader.",
        namespaced=True,
    ),
)

_TARGET_PLURALS = frozenset(
    {
        *(kind.resource.plural for kind in KINDS if kind.is_in_targets),
        "events",
        "nodes",
        "rolebindings",
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
"""Rights that a target must grant, also to vc-manager, which probes the target with them.

The right to bind the role for Secrets is added by `kubectl vc target join`, which names the role.
"""

TENANT_RBAC_RULES: tuple[RbacRule, ...] = (
    *_build_tenant_rules(),
    *_build_mirror_rules(
        (*_WATCH_VERBS, "create", "update", "delete"),
        "Writes objects that the super cluster offers",
    ),
    RbacRule(
        CUSTOM_RESOURCE_DEFINITIONS.group,
        (CUSTOM_RESOURCE_DEFINITIONS.plural,),
        _WATCH_VERBS,
        "Checks whether the tenant has the kinds of additional networks.",
        names=tuple(crd_name(kind.resource) for kind in NETWORK_KINDS),
    ),
    RbacRule(
        CUSTOM_RESOURCE_DEFINITIONS.group,
        (CUSTOM_RESOURCE_DEFINITIONS.plural,),
        ("create",),
        "Creates the kinds of additional networks if the policy offers them.",
    ),
    RbacRule(
        "",
        ("persistentvolumes",),
        (*_WATCH_VERBS, "create", "update", "patch", "delete"),
        "Writes the volumes of claims. Reads the tenant's own volumes and names a claim in them.",
    ),
    RbacRule("", ("persistentvolumes/status",), ("patch",), "Writes their status."),
    RbacRule("", ("pods/binding",), ("create",), "Binds a pod to the node that runs its twin."),
    RbacRule(
        "",
        ("pods/eviction",),
        ("create",),
        "Evicts pods from a target that is no longer granted, within their disruption budgets.",
    ),
    RbacRule(
        "", ("configmaps",), ("create",), "Keeps the ConfigMap that identifies the tenant's etcd."
    ),
    RbacRule(
        "",
        ("configmaps",),
        ("patch",),
        "Increments its epoch.",
        names=(CONFIG_MAP,),
    ),
    RbacRule(
        "",
        ("configmaps",),
        ("patch", "delete"),
        "Shows the tenant its quota, and deletes the ConfigMap when there is none.",
        names=(names.QUOTA,),
    ),
    RbacRule("", ("serviceaccounts",), _WATCH_VERBS, "Reads the ServiceAccounts of pods."),
    RbacRule(
        "",
        ("serviceaccounts/token",),
        ("create",),
        "Requests tokens of the tenant's API for pods.",
    ),
    RbacRule(
        "",
        ("nodes",),
        (*_WATCH_VERBS, "create", "patch", "delete"),
        "Writes virtual nodes.",
    ),
    RbacRule("", ("nodes/status",), ("patch",), "Writes their status."),
    RbacRule(
        "networking.k8s.io",
        ("ipaddresses",),
        ("list", "watch", "create", "delete"),
        "Reserves addresses that are used in the super cluster.",
    ),
    RbacRule(
        "coordination.k8s.io",
        ("leases",),
        ("create", "patch"),
        "Renews the Lease of a node that represents a target, while the target answers.",
    ),
    RbacRule(
        "", ("events",), ("get", "create", "patch"), "Posts Events about the sync of an object."
    ),
)
