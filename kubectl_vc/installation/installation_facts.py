"""Facts about an installation and one tenant, which `kubectl vc doctor` decides on. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kubectl_vc.diagnosis.object_facts import Body, parse_time


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookServer:
    """A webhook that refuses writes while its Service does not answer."""

    configuration: Body
    webhook: Body
    service: Body | None
    """None if it does not exist."""
    has_endpoint: bool
    """Whether a pod or an address behind the Service is ready."""


ReadableBodies = Sequence[Body] | None
"""Objects of one kind. None if the user may not read them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantControlPlane:
    """Facts of the super cluster about one tenant."""

    virtual_cluster: Body
    pods: ReadableBodies = ()
    """Pods of the root namespace."""
    claims: ReadableBodies = ()
    """PersistentVolumeClaims of the root namespace."""
    certificates: ReadableBodies = ()
    """The ConfigMap with the table of certificates, or nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationFacts:
    """Facts of one super cluster. The field names are kinds in messages about missing rights."""

    now: datetime
    manager_namespace: str
    custom_resource_definitions: ReadableBodies = ()
    deployments: ReadableBodies = ()
    leases: ReadableBodies = ()
    daemon_sets: ReadableBodies = ()
    pods: ReadableBodies = ()
    """Pods of the components."""
    agent_events: ReadableBodies = ()
    """Events of node agents that do not call their kubelet directly."""
    nodes: ReadableBodies = ()
    webhook_servers: Sequence[WebhookServer] | None = ()
    """None if the user may not read webhooks, their Services or EndpointSlices."""
    storage_classes: ReadableBodies = ()
    service_cidrs: ReadableBodies = ()
    cluster_versions: ReadableBodies = ()
    tenant_policies: ReadableBodies = ()
    super_clusters: ReadableBodies = ()
    tenant: TenantControlPlane | None = None
    """None: only the installation is checked."""

    def get_age_seconds(self, stamp: str) -> float:
        """Return the age of a time in seconds. An unreadable time is infinitely old."""
        when = parse_time(stamp)
        return (self.now - when).total_seconds() if when is not None else float("inf")
