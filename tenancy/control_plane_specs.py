"""Typed views of the parts of `ClusterVersion.spec` about pods, encryption, audit logs and rollout.

Only the short form has them, except `rollout`. Must not know how a control plane is rendered.
"""

from typing import Annotated, Any, Literal

import msgspec

EncryptionProvider = Literal["aescbc", "secretbox"]
AuditLevel = Literal["None", "Metadata", "Request", "RequestResponse"]
AuditOutput = Literal["Stdout", "File"]
Weekday = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
_PositiveInt = Annotated[int, msgspec.Meta(ge=1)]


class ComponentResources(msgspec.Struct, frozen=True, kw_only=True):
    """Requests and limits of the one container of a component."""

    requests: dict[str, str | int] | None = None
    """Quantities by resource. None: the defaults. A given resource replaces the default of it."""
    limits: dict[str, str | int] | None = None
    """As `requests`. An empty map means no limits."""


class ControlPlaneResources(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Requests and limits per component."""

    etcd: ComponentResources = ComponentResources()
    api_server: ComponentResources = ComponentResources()
    controller_manager: ComponentResources = ComponentResources()
    dns: ComponentResources = ComponentResources()
    metrics_server: ComponentResources = ComponentResources()


class PullSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A Secret of type kubernetes.io/dockerconfigjson in the components' namespace."""

    name: str


class EncryptionSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Encryption of the tenant's Secrets in etcd."""

    provider: EncryptionProvider


class AuditLog(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The log backend of the audit."""

    output: AuditOutput = "Stdout"
    """`Stdout`: the log of the API server's container. `File`: a rotated file in an emptyDir."""
    max_size_mib: _PositiveInt = msgspec.field(default=100, name="maxSizeMiB")
    """Size in MiB after which the file is rotated."""
    max_backups: _PositiveInt = 3
    """Number of rotated files that are kept."""


class AuditWebhook(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The webhook backend of the audit."""

    secret_name: str
    """A Secret of type tenancy.x-k8s.io/audit-webhook in the components' namespace.

    Its key `kubeconfig` has the address and the credential of the receiver.
    """


class AuditSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Audit log of the tenant's API server."""

    level: AuditLevel = "Metadata"
    """Recorded part of each request. Requests about credentials are never above Metadata."""
    policy: dict[str, Any] | None = None
    """Fields of an audit.k8s.io/v1 Policy. They replace `level`."""
    log: AuditLog | None = None
    webhook: AuditWebhook | None = None
    """With neither `log` nor `webhook`, the log goes to stdout."""


class RolloutWindow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Time of a day or week in which tenants may begin a change of their control plane."""

    start: str
    """Time of the day in UTC, such as 22:00."""
    duration_minutes: Annotated[int, msgspec.Meta(ge=1, le=1440)]
    days: tuple[Weekday, ...] = ()
    """Days on which the window begins. Empty: every day."""


class RolloutSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a changed control plane is rolled out to the tenants of a ClusterVersion."""

    max_unavailable: int | str = "10%"
    """Number or percentage of tenants whose control plane changes at the same time. At least 1."""
    max_failed: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Number of tenants that may exceed the deadline before the rollout stops."""
    deadline_seconds: Annotated[int, msgspec.Meta(ge=60)] = 900
    """Time in seconds in which a changed tenant must be ready again."""
    paused: bool = False
    """True: no further tenant begins. Tenants that have begun continue."""
    window: RolloutWindow | None = None
    """None: at any time."""


class RolloutSlot(msgspec.Struct, frozen=True, kw_only=True):
    """Mark of a tenant whose control plane may change now.

    It has no name, because users who may read ClusterVersions must not see the names of tenants.
    """

    uid: str
    """UID of the VirtualCluster."""
    since: str
    """RFC 3339. The deadline begins here."""


class RolloutStatus(msgspec.Struct, frozen=True, kw_only=True):
    """State of a rollout, which vc-manager writes."""

    tenants: int = 0
    """Number of VirtualClusters that use the ClusterVersion."""
    waiting: int = 0
    """Number of tenants that wait for a slot."""
    slots: tuple[RolloutSlot, ...] = ()
    """Tenants that change now."""


class ClusterVersionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of `ClusterVersion.status`."""

    rollout: RolloutStatus = RolloutStatus()
    conditions: tuple[dict[str, Any], ...] = ()
