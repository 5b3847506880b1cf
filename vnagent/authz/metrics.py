"""Prometheus metrics of the agent.

Hazard: every label value must be from a closed set, because a label made from a request grows
without end. Otherwise the metrics exhaust memory. Tenants beyond a number share one label, and the
agent's own metrics have at most 200 series (SEC-14). The metrics port may require no identity. A
tenant's label is therefore the six digits of its UID that are in its root namespace, and never a
name.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from prometheus_client import Counter, Gauge, Histogram

from telemetry.bounded_labels import BoundedLabels
from tenancy import names
from vnagent.protocol.routes import RouteVerb

MAX_TENANT_LABELS = 8
"""Number of tenants with a label of their own. The first tenants keep theirs until the agent ends.
"""
OTHER_TENANTS_LABEL = "other"
UNKNOWN_TENANT_LABEL = "unknown"
"""Label of a caller without a certificate of a tenant."""
OUTCOMES = ("served", "refused", "failed")


class UpstreamMode(StrEnum):
    """Upstream of the node's pods. The set is closed."""

    KUBELET = "kubelet"
    APISERVER = "apiserver"


class ModeReason(StrEnum):
    """Reason for the present upstream. The set is closed."""

    CONFIGURED = "configured"
    NOT_CONNECTED = "unseen"
    """No handshake has been completed yet."""
    VERIFIED = "verified"
    UNTRUSTED = "untrusted"


class PermissionsState(StrEnum):
    """State of the tenants' policies in the agent. The set is closed."""

    WATCHED = "followed"
    LAST_KNOWN = "kept"
    STALE = "stale"
    UNKNOWN = "unknown"


class RejectedConnection(StrEnum):
    """Reason for which a connection ended before a request was read. The set is closed."""

    HANDSHAKE = "handshake"
    CERTIFICATE = "certificate"
    TOO_MANY = "crowded"
    REPEATED = "repeated"


SESSIONS = Counter(
    "vc_agent_sessions",
    "Requests of tenant API servers, by result.",
    ["result"],
)
CALLS = Counter(
    "vc_agent_calls",
    "The same requests, by verb and by result: served, refused or failed.",
    ["verb", "outcome"],
)
_OPEN_STREAMS = Gauge("vc_agent_open_streams", "Streams that are open now, by verb.", ["verb"])
OPEN_STREAMS = {verb: _OPEN_STREAMS.labels(verb.value) for verb in RouteVerb}
FIRST_BYTE_SECONDS = Histogram(
    "vc_agent_first_byte_seconds",
    "Seconds from a request's head to the kubelet's answer, for requests that switch protocols.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
_UPSTREAM = Gauge(
    "vc_agent_upstream",
    "1 for the upstream mode of the node's pods, kubelet or apiserver, and its reason.",
    ["mode", "reason"],
)

TENANT_SESSIONS = Counter(
    "vc_agent_tenant_sessions",
    "Requests of a tenant's API server that were served, refused or failed.",
    ["tenant", "outcome"],
)
TENANT_BYTES = Counter(
    "vc_agent_tenant_stream_bytes",
    "Bytes of a tenant's streams. Direction up is to the kubelet, down is to the caller.",
    ["tenant", "direction"],
)
TENANT_OPEN_STREAMS = Gauge(
    "vc_agent_tenant_open_streams", "Streams of a tenant that are open now.", ["tenant"]
)
CONNECTIONS_REFUSED = Counter(
    "vc_agent_connections_refused",
    "Connections that ended before a request was read, by tenant if a certificate names one."
    " Reasons: no handshake, an unknown certificate, too many at once, refused repeatedly.",
    ["tenant", "reason"],
)

_POLICIES = Gauge(
    "vc_agent_policies",
    "1 for the state of the tenants' policies: followed, kept (not updated, but still applied),"
    " stale or unknown (nothing new is served).",
    ["state"],
)

_TENANT_LABELS = BoundedLabels(
    MAX_TENANT_LABELS, other=OTHER_TENANTS_LABEL, build=names.shorten_uid
)


def get_tenant_label(vc_uid: str) -> str:
    """Return the label of a tenant: one of its own while any are left, else `other`."""
    return _TENANT_LABELS.get(vc_uid)


def count_refused_connection(why: RejectedConnection, vc_uid: str = "") -> None:
    """Count a refused connection. Without a UID its tenant is unknown."""
    CONNECTIONS_REFUSED.labels(
        get_tenant_label(vc_uid) if vc_uid else UNKNOWN_TENANT_LABEL, why.value
    ).inc()


def get_outcome(status: int) -> str:
    """Return the outcome of a request by the status that its caller received, 0 for no status."""
    if 100 <= status < 400:
        return "served"
    return "refused" if 400 <= status < 500 else "failed"


@contextmanager
def count_open_stream(vc_uid: str, verb: RouteVerb) -> Iterator[None]:
    """Count a stream as open."""
    tenant = TENANT_OPEN_STREAMS.labels(get_tenant_label(vc_uid))
    with OPEN_STREAMS[verb].track_inprogress(), tenant.track_inprogress():
        yield


def set_upstream(mode: UpstreamMode, why: ModeReason) -> None:
    """Set the metric of the present upstream and clear all others."""
    _UPSTREAM.clear()
    _UPSTREAM.labels(mode.value, why.value).set(1)


def set_policies_state(state: PermissionsState) -> None:
    """Set the metric of the present state and clear all others."""
    _POLICIES.clear()
    _POLICIES.labels(state.value).set(1)
