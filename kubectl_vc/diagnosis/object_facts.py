"""Facts about one tenant object, which `kubectl vc why` decides on. Pure.

Owns the reading of pods, nodes and Events. Must not know how the facts were collected. Hazard:
facts of the super cluster must be in `SuperFacts` only. A tenant's view has no such facts, and
therefore its report can have no name of the super cluster.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from kubectl_vc.diagnosis.object_kinds import COPIED_KINDS
from tenancy import conditions, wellknown

Body = Mapping[str, Any]
RuledDirection = Literal["", "Down", "Mirror"]
"""Direction in which a SyncRule syncs a kind. Empty without a rule."""

SETTLING_SECONDS = 60.0
"""Age in seconds below which a state is still on its way and no fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuperFacts:
    """Facts of the super cluster. A tenant never sees one of them."""

    virtual_cluster: Body
    super_namespace: str
    is_copy_known: bool = True
    """False if the user may not read the super namespace."""
    copy: Body | None = None
    copy_events: Sequence[Body] = ()
    """Oldest first."""
    claims: Sequence[Body] = ()
    node: Body | None = None
    """Node of the copy. None also if the copy has no node, or the node does not exist."""
    is_node_known: bool = True
    is_lease_known: bool = True
    """False if the user may not read the Lease of the syncer."""
    syncer_lease: Body | None = None
    agent_pod: Body | None = None
    """Pod of the node agent on the node of the copy."""
    is_agent_known: bool = True
    sync_rules: Sequence[Body] = ()
    """SyncRules of the kind, whether or not they apply to the tenant."""
    targets: Sequence[Body] = ()
    """SuperClusters that `spec.targets` of the VirtualCluster names."""
    missing_kubeconfig: str = ""
    """The Secret with the tenant's kubeconfig if it does not exist."""
    unknown: tuple[str, ...] = ()
    """Kinds that the user may not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectFacts:
    """Facts about one object. Everything outside `super_facts` is from the tenant's own API."""

    kind: str
    """Such as `Pod`. A kind that is not built in has its group: `HTTPRoute.gateway.example.com`."""
    name: str
    namespace: str = ""
    now: datetime
    ruled: RuledDirection = ""
    is_ruled_known: bool = True
    """False if the user may not read which kinds the SyncRules of the tenant sync."""
    tenant_problem: str = ""
    """Reason why the tenant's API does not answer. Empty if it does."""
    is_tenant_known: bool = True
    """False if the user may not read the tenant's API."""
    tenant_object: Body | None = None
    tenant_namespace: Body | None = None
    tenant_events: Sequence[Body] = ()
    """Events about the object, oldest first."""
    tenant_node: Body | None = None
    is_tenant_node_known: bool = True
    """False if the user may not read nodes of the tenant."""
    tenant_claims: Sequence[Body] = ()
    claim_events: Sequence[Body] = ()
    """Events about the claims of the pod, oldest first."""
    missing_needs: tuple[str, ...] = ()
    """Objects that the pod needs and the tenant does not have, such as `ConfigMap settings`."""
    quota_report: Mapping[str, str] | None = None
    """Data of the ConfigMap that shows the tenant its quota."""
    super_facts: SuperFacts | None = None
    """None in a tenant's view."""

    @property
    def is_tenant_view(self) -> bool:
        """Return whether only the tenant's facts are present."""
        return self.super_facts is None

    @property
    def has_copies(self) -> bool:
        """Return whether objects of the kind have copies in the super cluster."""
        return self.kind in COPIED_KINDS or self.ruled == "Down"

    @property
    def copy(self) -> Body | None:
        """Return the super object, if it is known."""
        return self.super_facts.copy if self.super_facts is not None else None

    @property
    def is_deleting(self) -> bool:
        """Return whether the tenant object is marked for deletion."""
        return "deletionTimestamp" in get_metadata(self.tenant_object)

    @property
    def pod(self) -> Body | None:
        """Return the pod with the newest state: the copy, otherwise the tenant's."""
        if self.kind != "Pod":
            return None
        return self.copy or self.tenant_object

    @property
    def node(self) -> Body | None:
        """Return the node of the pod, as the user may see it."""
        return self.super_facts.node if self.super_facts is not None else self.tenant_node

    @property
    def events(self) -> Sequence[Body]:
        """Return the Events of both sides, oldest first."""
        other = self.super_facts.copy_events if self.super_facts is not None else ()
        return sorted([*self.tenant_events, *other], key=get_event_time)

    @property
    def has_placed_copy(self) -> bool:
        """Return whether a copy exists, as far as the user can see it.

        A tenant sees it by the status that is synced back. Other kinds than Pod show no such trace.
        """
        if self.super_facts is not None:
            return self.super_facts.copy is not None
        if self.kind != "Pod" or self.tenant_object is None:
            return False
        status = self.tenant_object.get("status") or {}
        bound = (self.tenant_object.get("spec") or {}).get("nodeName")
        return bool(bound or status.get("conditions"))

    @property
    def wanted_since(self) -> str:
        """Return since when the present wish exists, RFC 3339. Empty if unknown."""
        metadata = get_metadata(self.tenant_object)
        return str(metadata.get("deletionTimestamp") or metadata.get("creationTimestamp") or "")

    def get_age_seconds(self, stamp: str) -> float:
        """Return the age of a time in seconds. An unreadable time is 0 s old."""
        when = parse_time(stamp)
        return (self.now - when).total_seconds() if when is not None else 0.0


def get_metadata(body: Body | None) -> Body:
    """Return the metadata of an object, or an empty mapping without an object."""
    return ((body or {}).get("metadata")) or {}


def get_status(body: Body | None) -> Body:
    """Return the status of an object, or an empty mapping."""
    return ((body or {}).get("status")) or {}


def get_spec(body: Body | None) -> Body:
    """Return the spec of an object, or an empty mapping."""
    return ((body or {}).get("spec")) or {}


def parse_time(stamp: str) -> datetime | None:
    """Return a time of an API server. None if it is no time."""
    try:
        when = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def get_event_time(event: Body) -> str:
    """Return the last time of an Event, RFC 3339. Empty without one."""
    series = event.get("series") or {}
    return str(
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event.get("firstTimestamp")
        or get_metadata(event).get("creationTimestamp")
        or ""
    )


def is_from_syncer(event: Body) -> bool:
    """Return whether the syncer reported an Event."""
    source = (event.get("source") or {}).get("component")
    return wellknown.SYNCER in (source, event.get("reportingComponent"))


def find_event(events: Sequence[Body], *reasons: str, syncer: bool | None = None) -> Body | None:
    """Return the newest Event with one of the reasons.

    `syncer` selects Events of the syncer, or of everything else.
    """
    for event in reversed(events):
        if event.get("reason") in reasons and syncer in (None, is_from_syncer(event)):
            return event
    return None


def get_message(body: Body) -> str:
    """Return the message of an Event, condition or state as one line."""
    return " ".join(str(body.get("message") or "").split())


def find_pod_condition(pod: Body, kind: str) -> Body:
    """Return a condition of a pod, or an empty mapping."""
    return conditions.find_condition(get_status(pod).get("conditions"), kind) or {}


def iterate_container_states(pod: Body, *, init: bool | None = None) -> Iterator[tuple[str, Body]]:
    """Yield name and status of each container. `init` selects init containers, or all others."""
    status = get_status(pod)
    lists = {
        True: ("initContainerStatuses",),
        False: ("containerStatuses",),
        None: ("initContainerStatuses", "containerStatuses"),
    }[init]
    for field in lists:
        for each in status.get(field) or ():
            yield str(each.get("name") or ""), each


def find_waiting(pod: Body, reasons: Sequence[str]) -> tuple[str, str, str] | None:
    """Return container, reason and message of the first container that waits for a reason."""
    for name, each in iterate_container_states(pod):
        waiting = (each.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in reasons:
            return name, str(waiting["reason"]), get_message(waiting)
    return None
