"""Layers of a virtual cluster as a whole, which hold all of its objects. Pure.

Owns the rows about the VirtualCluster, its control plane and the syncer. They read facts of the
super cluster only, so a tenant's view never matches one of them.
"""

from collections.abc import Callable

from kubectl_vc.client import readiness
from kubectl_vc.diagnosis.layer_table import Layer, LayerFinding
from kubectl_vc.diagnosis.object_facts import (
    Body,
    ObjectFacts,
    SuperFacts,
    get_message,
    get_metadata,
    get_spec,
    get_status,
)
from tenancy import conditions, wellknown

STALE_LEASE_SECONDS = 60.0
"""Age in seconds of the last renewal after which a component counts as stopped.

Leases last 7 s. The rest allows for the clock of the user's machine.
"""

_PAUSE_REASONS = frozenset({"Suspended", wellknown.ASLEEP})
"""Reasons of the condition Synced of a tenant that is not synced by intention."""
_POLICY_REASONS = frozenset({"PolicyMissing", "PolicyUnreadable"})
_NO_CONDITION: Body = {}


def _get_condition(super_facts: SuperFacts, kind: str) -> Body:
    found = get_status(super_facts.virtual_cluster).get("conditions")
    return conditions.find_condition(found, kind) or _NO_CONDITION


def name_tenant(super_facts: SuperFacts) -> str:
    """Return name and `-n` of the VirtualCluster for a command."""
    metadata = get_metadata(super_facts.virtual_cluster)
    return f"{metadata.get('name')} -n {metadata.get('namespace')}"


def _with_super(
    find: Callable[[ObjectFacts, SuperFacts], LayerFinding | None],
) -> Callable[[ObjectFacts], LayerFinding | None]:
    def find_in_super(facts: ObjectFacts) -> LayerFinding | None:
        return find(facts, facts.super_facts) if facts.super_facts is not None else None

    return find_in_super


def _find_deletion(_: ObjectFacts, found: SuperFacts) -> LayerFinding | None:
    metadata = get_metadata(found.virtual_cluster)
    name = name_tenant(found)
    if metadata.get("deletionTimestamp"):
        return LayerFinding(
            "The virtual cluster is being deleted, and nothing is synced any longer.",
            f"kubectl vc get {name}",
            str(metadata["deletionTimestamp"]),
        )
    due = (metadata.get("annotations") or {}).get(wellknown.DELETE_AFTER)
    if due:
        return LayerFinding(
            f"The virtual cluster is scheduled for deletion at {due}. It is stopped until then.",
            f"kubectl vc undelete {name}",
        )
    return None


def _find_restore(_: ObjectFacts, found: SuperFacts) -> LayerFinding | None:
    annotations = get_metadata(found.virtual_cluster).get("annotations") or {}
    synced = _get_condition(found, wellknown.SYNCED)
    if wellknown.RESTORE_SNAPSHOT in annotations or synced.get("reason") == wellknown.RESTORING:
        return LayerFinding(
            "A snapshot of the virtual cluster is being restored. The sync waits for its end.",
            f"kubectl vc get {name_tenant(found)}",
            str(synced.get("lastTransitionTime") or ""),
        )
    return None


def _find_pause(_: ObjectFacts, found: SuperFacts) -> LayerFinding | None:
    synced = _get_condition(found, wellknown.SYNCED)
    is_paused = synced.get("status") == "False" and synced.get("reason") in _PAUSE_REASONS
    spec = get_spec(found.virtual_cluster)
    if not spec.get("suspend") and not spec.get("sleep") and not is_paused:
        return None
    said = get_message(synced) if is_paused else ""
    metadata = get_metadata(found.virtual_cluster)
    if not spec.get("suspend") and spec.get("sleep"):
        return LayerFinding(
            f"The virtual cluster is asleep, and nothing is synced. {said}".rstrip(),
            f"kubectl vc wake {name_tenant(found)}",
            str(synced.get("lastTransitionTime") or ""),
        )
    return LayerFinding(
        f"The virtual cluster is paused, and nothing is synced. {said}".rstrip(),
        f"kubectl -n {metadata.get('namespace')} patch virtualcluster {metadata.get('name')}"
        """ --type merge -p '{"spec":{"suspend":false}}'""",
        str(synced.get("lastTransitionTime") or ""),
    )


def _find_control_plane(_: ObjectFacts, found: SuperFacts) -> LayerFinding | None:
    state = readiness.assess_readiness(found.virtual_cluster)
    name = name_tenant(found)
    if not state.has_conditions:
        return LayerFinding(
            "The virtual cluster has no conditions, so vc-manager has not started it.",
            "kubectl vc doctor",
        )
    blocker = state.failure or state.blocker
    if state.is_ready or blocker is None or blocker.part in ("syncer", "VirtualCluster"):
        return None
    return LayerFinding(
        f"The control plane of the virtual cluster is not ready: {blocker}",
        f"kubectl vc doctor {name}",
        str(_get_condition(found, wellknown.READY).get("lastTransitionTime") or ""),
    )


def is_lease_stale(facts: ObjectFacts, lease: Body | None) -> bool:
    """Return whether no replica has renewed a Lease for STALE_LEASE_SECONDS."""
    spec = get_spec(lease)
    if not spec.get("holderIdentity"):
        return True
    return facts.get_age_seconds(str(spec.get("renewTime") or "")) > STALE_LEASE_SECONDS


def _find_syncer(facts: ObjectFacts, found: SuperFacts) -> LayerFinding | None:
    if not found.is_lease_known or not is_lease_stale(facts, found.syncer_lease):
        return None
    return LayerFinding(
        "The syncer does not run: no replica renews its Lease.",
        "kubectl vc doctor",
        str(get_spec(found.syncer_lease).get("renewTime") or ""),
    )


def _find_policy_missing(_: ObjectFacts, found: SuperFacts) -> LayerFinding | None:
    synced = _get_condition(found, wellknown.SYNCED)
    if synced.get("status") != "False" or synced.get("reason") not in _POLICY_REASONS:
        return None
    return _describe_unsynced(synced, "kubectl get tenantpolicies")


def _find_unsynced(_: ObjectFacts, found: SuperFacts) -> LayerFinding | None:
    synced = _get_condition(found, wellknown.SYNCED)
    if synced.get("status") == "True":
        return None
    if not synced:
        return LayerFinding(
            "The syncer has not connected to the virtual cluster yet.",
            f"kubectl vc doctor {name_tenant(found)}",
        )
    return _describe_unsynced(synced, f"kubectl vc doctor {name_tenant(found)}")


def _describe_unsynced(synced: Body, command: str) -> LayerFinding:
    return LayerFinding(
        f"The syncer does not sync the virtual cluster: {synced.get('reason')}:"
        f" {get_message(synced)}",
        command,
        str(synced.get("lastTransitionTime") or ""),
    )


def _find_held_deletes(facts: ObjectFacts, found: SuperFacts) -> LayerFinding | None:
    """Match only an object that is deleted in the tenant and still has its copy."""
    held = _get_condition(found, wellknown.DELETES_HELD)
    is_absent = facts.is_tenant_known and facts.tenant_object is None
    is_deleted = is_absent or facts.is_deleting
    if held.get("status") != "True" or not is_deleted or found.copy is None:
        return None
    return LayerFinding(
        f"Deletes are held for the virtual cluster: {get_message(held)}",
        f"kubectl vc confirm-deletes {name_tenant(found)}",
        str(held.get("lastTransitionTime") or ""),
    )


def _find_tenant_access(_: ObjectFacts, found: SuperFacts) -> LayerFinding | None:
    if not found.missing_kubeconfig:
        return None
    return LayerFinding(
        f"The virtual cluster cannot be read, because the {found.missing_kubeconfig} with its"
        " kubeconfig does not exist. vc-manager creates it.",
        f"kubectl vc doctor {name_tenant(found)}",
    )


def _find_tenant_api(facts: ObjectFacts) -> LayerFinding | None:
    if not facts.tenant_problem:
        return None
    found = facts.super_facts
    return LayerFinding(
        f"The API of the virtual cluster does not answer: {facts.tenant_problem}",
        f"kubectl vc doctor {name_tenant(found)}"
        if found is not None
        else "kubectl get --raw /readyz",
    )


TENANT_LAYERS: tuple[Layer, ...] = (
    Layer("deletion", _with_super(_find_deletion)),
    Layer("restore", _with_super(_find_restore)),
    Layer("paused", _with_super(_find_pause)),
    Layer("control-plane", _with_super(_find_control_plane)),
    Layer("syncer", _with_super(_find_syncer)),
    Layer("policy-missing", _with_super(_find_policy_missing)),
    Layer("sync", _with_super(_find_unsynced)),
    Layer("deletes-held", _with_super(_find_held_deletes)),
    Layer("tenant-access", _with_super(_find_tenant_access)),
    Layer("tenant-api", _find_tenant_api),
)
"""The outermost cause first. A later row would only show its effects."""
