"""Checks of SyncRules: which kinds and fields no rule may open, and which rules contradict others.

Pure. The syncer and vc-manager both ask here. A rule that either of them refuses is never used.
Hazard: a kind that grants rights or runs code must be in these tables. Otherwise a tenant can write
such an object into the super cluster.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tenancy.sync_rules import field_paths
from tenancy.sync_rules.specs import SyncRule, list_body_paths, list_status_paths
from tenancy.sync_rules.status_rules import RESOURCE_CLAIM, is_device_claim

SYNCED_GROUPS = frozenset({"", "discovery.k8s.io", "networking.k8s.io", "policy"})
"""Groups whose kinds the product syncs itself, or keeps from tenants on purpose."""
CLOSED_GROUPS: Mapping[str, str] = {
    "admissionregistration.k8s.io": "its objects decide about requests of all users",
    "apiextensions.k8s.io": "its objects define the API of the super cluster",
    "apiregistration.k8s.io": "its objects redirect the API of the super cluster",
    "apps": "its objects create pods that the tenant's policy does not check",
    "authentication.k8s.io": "its objects prove identities",
    "authorization.k8s.io": "its objects decide about rights",
    "autoscaling": "its objects change workloads of the super cluster",
    "batch": "its objects create pods that the tenant's policy does not check",
    "certificates.k8s.io": "its objects issue credentials",
    "coordination.k8s.io": "its objects elect leaders and keep nodes alive",
    "events.k8s.io": "Events are synced already",
    "extensions": "its objects create pods that the tenant's policy does not check",
    "flowcontrol.apiserver.k8s.io": "its objects limit requests of all users",
    "internal.apiserver.k8s.io": "its objects belong to API servers",
    "k8s.cni.cncf.io": "its objects connect pods to networks of nodes",
    "node.k8s.io": "its objects select container runtimes",
    "rbac.authorization.k8s.io": "its objects grant rights",
    "scheduling.k8s.io": "its objects let pods evict those of other tenants",
    "storage.k8s.io": "its objects attach volumes of all tenants",
    "storagemigration.k8s.io": "its objects rewrite the store of the super cluster",
    "tenancy.x-k8s.io": "its objects declare tenants and their limits",
}
"""Groups of which no kind may be synced, with the reason."""
MIRROR_GROUPS = frozenset({"node.k8s.io", "scheduling.k8s.io", "storage.k8s.io"})
"""Closed groups whose classes `TenantPolicy.spec.sync` shows."""
CLOSED_FIELDS = frozenset(
    {
        "adminAccess",
        "automountServiceAccountToken",
        "containers",
        "ephemeralContainers",
        "externalIPs",
        "hostAliases",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "hostPath",
        "hostPort",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "ownerReferences",
        "podSpec",
        "podTemplate",
        "podTemplateSpec",
        "privileged",
        "securityContext",
        "serviceAccount",
        "serviceAccountName",
        "serviceAccountNames",
        "tolerations",
    }
)
"""Fields by which a controller of the super cluster would run code or use rights for a tenant."""
BUILT_IN_KINDS = frozenset(
    {
        "CSIDriver",
        "ConfigMap",
        "DefaultPolicy",
        "EndpointSlice",
        "Event",
        "IPAddress",
        "Ingress",
        "IngressClass",
        "Lease",
        "LimitRange",
        "Namespace",
        "NetworkPolicy",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Placement",
        "Pod",
        "PodDisruptionBudget",
        "PriorityClass",
        "QuotaReport",
        "ResourceQuota",
        "RuntimeClass",
        "Secret",
        "Service",
        "ServiceAccount",
        "ServiceVariables",
        "StorageClass",
        "Store",
        "Token",
        "VolumeSnapshotClass",
    }
)
"""Names of kinds that the syncer uses itself, in any group."""
PLACED_KINDS = frozenset({"ConfigMap", "Secret"})
"""Built-in kinds that a reference may name if copies follow pods. All others are in the home
cluster only."""
REFERENCE_KINDS = frozenset({"ConfigMap", "PersistentVolumeClaim", "Secret", "Service"})
"""Built-in kinds that a reference may name, in the core group."""
CLASS_KINDS: Mapping[str, str] = {
    "IngressClass": "networking.k8s.io",
    "StorageClass": "storage.k8s.io",
    "VolumeSnapshotClass": "snapshot.storage.k8s.io",
}
"""Built-in classes that a reference may name, with their groups."""


@dataclass(frozen=True, slots=True)
class RuleProblem:
    """Reason of the condition Ready with the status False."""

    reason: str
    message: str


def find_problem(rule: SyncRule, others: Iterable[SyncRule] = ()) -> RuleProblem | None:
    """Return why a rule must not be used, or None. `others` are all rules, in any order."""
    rules = [each for each in others if each.name != rule.name]
    return (
        _find_kind_problem(rule)
        or _find_scope_problem(rule)
        or _find_field_problem(rule)
        or _find_reference_problem(rule, rules)
        or _find_placement_problem(rule, rules)
        or _find_conflict(rule, rules)
    )


def _find_kind_problem(rule: SyncRule) -> RuleProblem | None:
    found = rule.spec.resource
    if found.group in SYNCED_GROUPS:
        return RuleProblem(
            "KindReserved",
            f"spec.resource: the product syncs the kinds of group {found.group or 'core'!r} itself,"
            " or keeps them from tenants. Use the fields of a TenantPolicy instead.",
        )
    if found.group in CLOSED_GROUPS:
        remedy = (
            "Use spec.sync of a TenantPolicy to show its classes."
            if found.group in MIRROR_GROUPS
            else "Delete the rule."
        )
        return RuleProblem(
            "KindForbidden",
            f"spec.resource.group: no kind of {found.group} may be synced, because"
            f" {CLOSED_GROUPS[found.group]}. {remedy}",
        )
    is_foreign_claim = found.kind == RESOURCE_CLAIM and not is_device_claim(rule.resource)
    if found.kind in BUILT_IN_KINDS or is_foreign_claim:
        return RuleProblem(
            "KindReserved",
            f"spec.resource.kind: {found.kind} is the name of a kind that the syncer uses itself. A"
            " rule for a kind of that name in another group is not supported. Delete the rule.",
        )
    return None


def _find_scope_problem(rule: SyncRule) -> RuleProblem | None:
    """Return the problem of a field that does not suit the direction or another field."""
    spec, is_down = rule.spec, rule.is_down
    problems: tuple[tuple[object, str], ...] = (
        (is_down and spec.mirror, "mirror: is for the direction Mirror only. Remove it."),
        (
            is_down and spec.mirror_owner,
            "mirrorOwner: is for the direction Mirror only. Remove it.",
        ),
        (
            spec.mirror and spec.mirror_owner,
            "mirrorOwner: is for kinds without namespaces. Remove it or spec.mirror.",
        ),
        (
            not is_down and spec.references,
            "references: are for the direction Down only. List the fields in spec.fields.",
        ),
        (
            not is_down and spec.hostnames,
            "hostnames: are for the direction Down only. List the fields in spec.fields.",
        ),
        (
            not is_down and spec.removal_policy == "Delete",
            "removalPolicy: Delete is for the direction Down only. Use Keep.",
        ),
    )
    found = next((text for is_found, text in problems if is_found), None)
    return RuleProblem("InvalidSpec", f"spec.{found}") if found is not None else None


def _find_field_problem(rule: SyncRule) -> RuleProblem | None:
    for path in list_body_paths(rule.spec):
        names = list(field_paths.iterate_names(path))
        if names[0] in field_paths.METADATA_FIELDS or names[0] == "status":
            return RuleProblem(
                "FieldForbidden",
                f"spec.fields: {path} must not pass, because the syncer builds the metadata itself"
                " and the status has its own list. Remove the path.",
            )
        closed = [name for name in names if name in CLOSED_FIELDS]
        if closed and rule.is_down:
            return RuleProblem(
                "FieldForbidden",
                f"spec.fields: {path} must not pass, because {closed[0]} would run code or use"
                " rights in the super cluster that the TenantPolicy does not check. Remove the"
                " path.",
            )
    for path in list_status_paths(rule.spec):
        if next(field_paths.iterate_names(path)) != "status":
            return RuleProblem(
                "FieldForbidden",
                f"spec.statusFields: {path} is not in the status. Move it to spec.fields.",
            )
    return None


def _find_reference_problem(rule: SyncRule, others: list[SyncRule]) -> RuleProblem | None:
    known = {each.spec.resource.kind for each in others} | {rule.spec.resource.kind}
    for reference in rule.spec.references:
        for kind in reference.kinds:
            if kind not in REFERENCE_KINDS and kind not in CLASS_KINDS and kind not in known:
                return RuleProblem(
                    "ReferenceUnknown",
                    f"spec.references: {reference.path} names the kind {kind}, which has no"
                    " SyncRule. Create one for it, or remove the kind.",
                )
    return None


def _find_placement_problem(rule: SyncRule, others: list[SyncRule]) -> RuleProblem | None:
    """Return what a rule needs that a target does not have."""
    if rule.spec.placement == "Home":
        return None
    if not rule.is_down:
        return RuleProblem(
            "InvalidSpec", "spec.placement: WithPods is for the direction Down only. Use Home."
        )
    if is_device_claim(rule.resource):
        return RuleProblem(
            "InvalidSpec",
            "spec.placement: WithPods is not for claims of devices, which are in the home cluster"
            " only. Use Home.",
        )
    if rule.spec.hostnames:
        return RuleProblem(
            "InvalidSpec",
            "spec.hostnames: are for the placement Home only, because the hosts of a target are not"
            " compared. Use the placement Home.",
        )
    followers = {each.spec.resource.kind for each in (*others, rule) if each.follows_pods}
    for reference in rule.spec.references:
        for kind in reference.kinds:
            if kind not in PLACED_KINDS and kind not in followers:
                return RuleProblem(
                    "PlacementConflict",
                    f"spec.references: {reference.path} names the kind {kind}, which is in the home"
                    " cluster only. Remove the kind, or use the placement Home.",
                )
    return None


def _find_conflict(rule: SyncRule, others: list[SyncRule]) -> RuleProblem | None:
    """Return the rule that has the kind already: the one whose name sorts first."""
    same = sorted(
        each.name for each in others if each.spec.resource.kind == rule.spec.resource.kind
    )
    if same and same[0] < rule.name:
        return RuleProblem(
            "Conflict",
            f"spec.resource.kind: the SyncRule {same[0]} has the kind {rule.spec.resource.kind}."
            " Delete one of the two rules.",
        )
    return None
