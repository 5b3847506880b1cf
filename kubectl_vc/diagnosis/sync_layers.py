"""Layers between a tenant object and its copy. Pure.

Owns the rows about the sync of one object: refusals, quotas, parked writes, missing needs and
targets. They read the Events that the syncer records in the tenant, so they match in a tenant's
view, too. Their texts have no name of the super cluster.
"""

from kubectl_vc.diagnosis.layer_table import Layer, LayerFinding
from kubectl_vc.diagnosis.object_facts import (
    SETTLING_SECONDS,
    ObjectFacts,
    find_event,
    get_event_time,
    get_message,
    get_metadata,
    get_spec,
    get_status,
    is_from_syncer,
)
from tenancy import conditions, super_clusters

SYNCED_KINDS = frozenset(
    {
        "ConfigMap",
        "EndpointSlice",
        "Ingress",
        "Namespace",
        "NetworkPolicy",
        "PersistentVolumeClaim",
        "Pod",
        "PodDisruptionBudget",
        "Secret",
        "Service",
    }
)
"""Kinds that the syncer syncs to the super cluster. A contract test compares them."""

SYNC_REJECTED = "SyncRejected"
SYNC_FAILED = "SyncFailed"
SYNC_PARKED = "SyncParked"
QUOTA_EXCEEDED = "QuotaExceeded"
NAME_TAKEN = "NameTaken"
WAITING_FOR_DELETION = "WaitingForDeletion"
DATA_SOURCE_MISSING = "DataSourceMissing"
SERVICE_IP_UNAVAILABLE = "ServiceIPUnavailable"
TARGET_REASONS = ("TargetUnreachable", "TargetInDoubt")
SYNCER_REASONS = (
    SYNC_REJECTED,
    SYNC_FAILED,
    SYNC_PARKED,
    QUOTA_EXCEEDED,
    NAME_TAKEN,
    WAITING_FOR_DELETION,
    DATA_SOURCE_MISSING,
    SERVICE_IP_UNAVAILABLE,
)
"""Reasons of the syncer's Events about an object that is not synced as it is."""

_EVENT_TEXTS = {
    SYNC_REJECTED: "The TenantPolicy of this cluster does not allow the object as it is:",
    SYNC_FAILED: "The super cluster rejected the copy, for example by a webhook of its own:",
    SYNC_PARKED: "The write to the copy is parked, because it would change nothing:",
    QUOTA_EXCEEDED: "The object exceeds the quota of this cluster:",
    NAME_TAKEN: "The name of the copy is used by an object of another owner:",
    WAITING_FOR_DELETION: "The object waits until its earlier copy is deleted:",
    DATA_SOURCE_MISSING: "The source of the volume is missing:",
    SERVICE_IP_UNAVAILABLE: "The cluster IP of the Service is in use:",
}


def build_object_command(facts: ObjectFacts, verb: str = "describe") -> str:
    """Return a kubectl command about the tenant object, for the tenant's kubeconfig."""
    place = f" -n {facts.namespace}" if facts.namespace else ""
    return f"kubectl {verb} {facts.kind.lower()} {facts.name}{place}"


def _find_absent(facts: ObjectFacts) -> LayerFinding | None:
    if facts.tenant_object is not None or facts.copy is None or not facts.is_tenant_known:
        return None
    since = str(get_metadata(facts.copy).get("deletionTimestamp") or "")
    said = (
        "The object is deleted in the tenant, and its copy is still being deleted."
        if since
        else "The object is deleted in the tenant, and the syncer has not deleted its copy yet."
    )
    return LayerFinding(said, _build_copy_command(facts), since)


def _find_tenant_admission(facts: ObjectFacts) -> LayerFinding | None:
    """Match a workload whose controller cannot create pods in the tenant."""
    event = find_event(facts.tenant_events, "FailedCreate")
    if _is_synced(facts) or event is None:
        return None
    return LayerFinding(
        "A quota, a webhook or an admission policy of the tenant itself refuses the pods:"
        f" {get_message(event)}",
        build_object_command(facts),
        get_event_time(event),
    )


def _is_synced(facts: ObjectFacts) -> bool:
    return facts.kind in SYNCED_KINDS or bool(facts.ruled)


def _find_unusable_rule(facts: ObjectFacts) -> LayerFinding | None:
    """Match an object of a kind that has a SyncRule, which does not sync this object."""
    for rule in facts.super_facts.sync_rules if facts.super_facts is not None else ():
        name, spec = get_metadata(rule).get("name"), get_spec(rule)
        command = f"kubectl get syncrule {name} -o yaml"
        ready = conditions.find_condition(get_status(rule).get("conditions"), "Ready")
        if ready is None or ready.get("status") != "True":
            said = get_message(ready or {}) or "vc-manager has not reported about it yet."
            since = str((ready or {}).get("lastTransitionTime") or "")
            return LayerFinding(f"The SyncRule {name} is not used: {said}", command, since)
        if not _is_synced(facts):
            return LayerFinding(
                f"The SyncRule {name} does not apply to this tenant. Check syncRules of its"
                " TenantPolicy, virtualClusterSelector of the rule, and the Events of the"
                " VirtualCluster.",
                command,
            )
        selected = (spec.get("selector") or {}).get("matchLabels") or {}
        labels = get_metadata(facts.tenant_object).get("labels") or {}
        if facts.ruled == "Down" and not selected.items() <= labels.items():
            wanted = ", ".join(f"{key}={value}" for key, value in sorted(selected.items()))
            return LayerFinding(
                f"The SyncRule {name} selects objects with the labels {wanted} only.", command
            )
    return None


def _find_unsynced_kind(facts: ObjectFacts) -> LayerFinding | None:
    command = build_object_command(facts)
    if facts.ruled == "Mirror":
        return LayerFinding(
            "The object is a mirror of an object of the super cluster. A SyncRule writes it, and"
            " changes in the tenant are reverted.",
            command,
        )
    if _is_synced(facts) or not facts.is_ruled_known:
        return None
    return LayerFinding(
        f"Objects of the kind {facts.kind} stay in the tenant. They have no copy in the super"
        " cluster.",
        command,
    )


def _find_namespace(facts: ObjectFacts) -> LayerFinding | None:
    space = facts.tenant_namespace
    since = get_metadata(space).get("deletionTimestamp")
    if space is None or not since:
        return None
    return LayerFinding(
        f"The namespace {facts.namespace} is being deleted, and no new object of it is synced.",
        f"kubectl get namespace {facts.namespace} -o yaml",
        str(since),
    )


def _find_finalizer(facts: ObjectFacts) -> LayerFinding | None:
    """Match a deleted object without a copy that finalizers of the tenant keep."""
    finalizers = get_metadata(facts.tenant_object).get("finalizers") or ()
    if not facts.is_deleting or not finalizers or facts.copy is not None:
        return None
    since = facts.wanted_since
    if facts.get_age_seconds(since) < SETTLING_SECONDS:
        return None
    return LayerFinding(
        f"Finalizers in the tenant keep the deleted object: {', '.join(map(str, finalizers))}.",
        build_object_command(facts, "get") + " -o yaml",
        since,
    )


def _find_rejected_create(facts: ObjectFacts) -> LayerFinding | None:
    if facts.has_placed_copy:
        return None  # the Event is about a later change, see CHANGE_LAYERS
    return _find_syncer_event(facts, SYNC_REJECTED)


def _find_quota(facts: ObjectFacts) -> LayerFinding | None:
    if facts.has_placed_copy:
        return None
    found = _find_syncer_event(facts, QUOTA_EXCEEDED)
    if found is not None:
        return found
    for line in ((facts.quota_report or {}).get("waiting") or "").splitlines():
        where, _, reason = line.partition(": ")
        if where == f"{facts.kind} {facts.namespace}/{facts.name}":
            return LayerFinding(
                f"{_EVENT_TEXTS[QUOTA_EXCEEDED]} {reason}",
                "kubectl -n kube-public get configmap vc-quota -o yaml",
            )
    return None


def _find_held_create(facts: ObjectFacts) -> LayerFinding | None:
    if facts.has_placed_copy:
        return None
    return _find_syncer_event(
        facts,
        NAME_TAKEN,
        WAITING_FOR_DELETION,
        DATA_SOURCE_MISSING,
        SERVICE_IP_UNAVAILABLE,
    )


def _find_failed_create(facts: ObjectFacts) -> LayerFinding | None:
    if facts.has_placed_copy:
        return None
    return _find_syncer_event(facts, SYNC_FAILED)


def _find_parked(facts: ObjectFacts) -> LayerFinding | None:
    return _find_syncer_event(facts, SYNC_PARKED)


def _find_syncer_event(facts: ObjectFacts, *reasons: str) -> LayerFinding | None:
    """Return the newest Event of the syncer if it has one of the reasons."""
    newest = find_event(facts.tenant_events, *SYNCER_REASONS)
    if newest is None or newest.get("reason") not in reasons:
        return None
    return LayerFinding(
        f"{_EVENT_TEXTS[newest['reason']]} {get_message(newest)}",
        build_object_command(facts),
        str(newest.get("firstTimestamp") or get_event_time(newest)),
    )


def _find_missing_needs(facts: ObjectFacts) -> LayerFinding | None:
    if facts.kind != "Pod" or not facts.missing_needs or _is_running(facts):
        return None
    first = facts.missing_needs[0]
    kind, _, name = first.partition(" ")
    return LayerFinding(
        f"The pod needs objects that do not exist: {', '.join(facts.missing_needs)}.",
        f"kubectl get {kind.lower()} {name} -n {facts.namespace}",
    )


def _is_running(facts: ObjectFacts) -> bool:
    return get_status(facts.pod).get("phase") in ("Running", "Succeeded")


def _find_node_choice(facts: ObjectFacts) -> LayerFinding | None:
    event = find_event(facts.events, "FailedScheduling")
    bound = get_spec(facts.pod).get("nodeName")
    if facts.kind != "Pod" or event is None or bound or not is_from_syncer(event):
        return None
    return LayerFinding(
        "Labels, taints and cordons of the tenant on its nodes leave no node:"
        f" {get_message(event)}",
        "kubectl get nodes --show-labels",
        get_event_time(event),
    )


def _find_target(facts: ObjectFacts) -> LayerFinding | None:
    if facts.kind != "Pod":
        return None
    found = facts.super_facts
    if found is not None and found.copy is None:
        for target in found.targets:
            ready = conditions.find_condition(
                get_status(target).get("conditions"), super_clusters.READY
            )
            if ready is not None and ready.get("status") != "True":
                name = get_metadata(target).get("name")
                return LayerFinding(
                    f"The target {name}, which may have the copy, is not ready:"
                    f" {get_message(ready)}",
                    f"kubectl vc target doctor {name}",
                    str(ready.get("lastTransitionTime") or ""),
                )
    event = find_event(facts.tenant_events, *TARGET_REASONS)
    if event is None:
        return None
    if event is not find_event(facts.tenant_events, *TARGET_REASONS, "Started", "Scheduled"):
        return None  # the pod started since
    command = "kubectl vc target doctor" if found is not None else "kubectl get nodes"
    return LayerFinding(
        f"The cluster that the pod runs in does not answer: {get_message(event)}",
        command,
        get_event_time(event),
    )


def _is_copy_missing(facts: ObjectFacts) -> bool:
    """Return whether it is known that no copy exists. A tenant knows it of pods only."""
    if facts.super_facts is None:
        return facts.kind == "Pod" and not facts.has_placed_copy
    return facts.super_facts.is_copy_known and facts.copy is None


def _find_no_copy(facts: ObjectFacts) -> LayerFinding | None:
    """Match an object without a copy and without any sign of a reason."""
    found = facts.super_facts
    if not _is_copy_missing(facts) or facts.kind == "EndpointSlice":
        return None
    if found is not None and facts.kind in ("ConfigMap", "Secret"):
        return LayerFinding(
            f"The {facts.kind} has no copy. With the setting Referenced of the TenantPolicy it is"
            " synced as soon as a pod or an Ingress refers to it.",
            "kubectl get tenantpolicies -o yaml",
        )
    if facts.get_age_seconds(facts.wanted_since) < SETTLING_SECONDS:
        return None
    if found is None:
        return LayerFinding(
            "The pod is not synced yet, and no Event states a reason. Contact your platform"
            " administrator if this lasts.",
            build_object_command(facts),
            facts.wanted_since,
        )
    return LayerFinding(
        "The syncer has not created the copy, and no Event states a reason.",
        "kubectl -n vc-manager logs deployment/vc-syncer",
        facts.wanted_since,
    )


def _find_new(facts: ObjectFacts) -> LayerFinding | None:
    is_new = facts.get_age_seconds(facts.wanted_since) < SETTLING_SECONDS
    if facts.kind != "Pod" or not is_new or not _is_copy_missing(facts):
        return None
    return LayerFinding(
        "The pod was created a moment ago and is being synced.", build_object_command(facts)
    )


def _build_copy_command(facts: ObjectFacts) -> str:
    found = facts.super_facts
    if found is None:
        return build_object_command(facts)
    metadata = get_metadata(found.copy)
    name = metadata.get("name") or facts.name
    place = f" -n {metadata['namespace']}" if metadata.get("namespace") else ""
    return f"kubectl describe {facts.kind.lower()} {name}{place}"


def build_copy_command(facts: ObjectFacts) -> str:
    """Return a kubectl command about the copy, or about the tenant object in a tenant's view."""
    return _build_copy_command(facts)


def _find_change(facts: ObjectFacts, *reasons: str) -> LayerFinding | None:
    found = _find_syncer_event(facts, *reasons)
    if found is None:
        return None
    return LayerFinding(
        f"The object runs as it was before. {found.sentence}", found.next_command, found.since
    )


def _find_changed_policy(facts: ObjectFacts) -> LayerFinding | None:
    return _find_change(facts, SYNC_REJECTED)


def _find_changed_quota(facts: ObjectFacts) -> LayerFinding | None:
    return _find_change(facts, QUOTA_EXCEEDED)


def _find_changed_admission(facts: ObjectFacts) -> LayerFinding | None:
    return _find_change(facts, SYNC_FAILED)


SYNC_LAYERS: tuple[Layer, ...] = (
    Layer("deleting", _find_absent),
    Layer("tenant-admission", _find_tenant_admission),
    Layer("sync-rule", _find_unusable_rule),
    Layer("not-synced", _find_unsynced_kind, is_fault=False),
    Layer("namespace", _find_namespace),
    Layer("finalizer", _find_finalizer),
    Layer("policy", _find_rejected_create),
    Layer("quota", _find_quota),
    Layer("name", _find_held_create),
    Layer("super-admission", _find_failed_create),
    Layer("needs", _find_missing_needs),
    Layer("node-choice", _find_node_choice),
    Layer("target", _find_target),
    Layer("new", _find_new, is_fault=False),
    Layer("syncer-backlog", _find_no_copy),
)
"""Rows before the copy exists."""

CHANGE_LAYERS: tuple[Layer, ...] = (
    Layer("parked", _find_parked),
    Layer("policy", _find_changed_policy),
    Layer("quota", _find_changed_quota),
    Layer("super-admission", _find_changed_admission),
)
"""Rows about a later change of an object that runs."""
