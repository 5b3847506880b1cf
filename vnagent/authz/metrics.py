"""The agent's metrics.

Hazard: a label value made from a request grows without end; every label here is from a closed set,
tenants beyond a number share one, and all of its own is at most 200 series (SEC-14). The port
that shows them may ask nobody who he is, so a tenant is called by the six digits that its root
namespace has of its UID, and never by a name.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from prometheus_client import Counter, Gauge, Histogram

from tenancy import names
from vnagent.protocol.routes import Verb

TENANTS = 8
"""Tenants with a label of their own; whoever comes first keeps his until the agent ends."""
OTHERS = "other"
UNKNOWN = "unknown"
"""Whoever showed no certificate of a tenant's."""
OUTCOMES = ("served", "refused", "failed")


class Mode(StrEnum):
    """The way to the node's pods; a closed set."""

    KUBELET = "kubelet"
    APISERVER = "apiserver"


class Why(StrEnum):
    """Why it is that way; a closed set."""

    CONFIGURED = "configured"
    UNSEEN = "unseen"
    """No handshake has been completed yet."""
    VERIFIED = "verified"
    UNTRUSTED = "untrusted"


class Policies(StrEnum):
    """How the agent stands to the tenants' policies; a closed set."""

    FOLLOWED = "followed"
    KEPT = "kept"
    STALE = "stale"
    UNKNOWN = "unknown"


class Unheard(StrEnum):
    """Why a connection ended before a request was read; a closed set."""

    HANDSHAKE = "handshake"
    CERTIFICATE = "certificate"
    CROWDED = "crowded"
    REPEATED = "repeated"


SESSIONS = Counter(
    "vc_agent_sessions",
    "Requests of tenant API servers, by how they ended.",
    ["result"],
)
CALLS = Counter(
    "vc_agent_calls",
    "The same requests, by verb and whether they were served, refused or failed.",
    ["verb", "outcome"],
)
_OPEN_STREAMS = Gauge("vc_agent_open_streams", "Streams open now, by verb.", ["verb"])
OPEN_STREAMS = {verb: _OPEN_STREAMS.labels(verb.value) for verb in Verb}
FIRST_BYTE_SECONDS = Histogram(
    "vc_agent_first_byte_seconds",
    "From a request's head to the kubelet's answer, for requests that switch protocols.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
_UPSTREAM = Gauge(
    "vc_agent_upstream",
    "1 for the way to the node's pods, kubelet or apiserver, and why it is that way.",
    ["mode", "reason"],
)

TENANT_SESSIONS = Counter(
    "vc_agent_tenant_sessions",
    "Requests of a tenant's API server that were served, refused or failed.",
    ["tenant", "outcome"],
)
TENANT_BYTES = Counter(
    "vc_agent_tenant_stream_bytes",
    "Bytes of a tenant's streams: up to the kubelet, down to the caller.",
    ["tenant", "direction"],
)
TENANT_OPEN_STREAMS = Gauge(
    "vc_agent_tenant_open_streams", "Streams of a tenant that are open now.", ["tenant"]
)
CONNECTIONS_REFUSED = Counter(
    "vc_agent_connections_refused",
    "Connections that ended before a request was read, by tenant where a certificate names one:"
    " no handshake, a certificate that stands for nobody, too many at once, refused over and over.",
    ["tenant", "reason"],
)

_POLICIES = Gauge(
    "vc_agent_policies",
    "1 for how the agent stands to the tenants' policies: followed; kept while nobody tells of"
    " changes; stale and unknown, by which nothing new is served.",
    ["state"],
)

_labels: dict[str, str] = {}


def tenant_label(vc_uid: str) -> str:
    """Return what a tenant is called here: its own label while there are any."""
    label = _labels.get(vc_uid)
    if label is None:
        if len(_labels) >= TENANTS:
            return OTHERS
        label = _labels[vc_uid] = names.short_digest(vc_uid)
    return label


def refused(why: Unheard, vc_uid: str = "") -> None:
    """Count a connection; without a UID nobody knows whose it was."""
    CONNECTIONS_REFUSED.labels(tenant_label(vc_uid) if vc_uid else UNKNOWN, why.value).inc()


def outcome(status: int) -> str:
    """Return how a request ended, by the status that its caller saw; 0 when it saw none."""
    if 100 <= status < 400:
        return "served"
    return "refused" if 400 <= status < 500 else "failed"


@contextmanager
def streaming(vc_uid: str, verb: Verb) -> Iterator[None]:
    """Count a stream as open."""
    tenant = TENANT_OPEN_STREAMS.labels(tenant_label(vc_uid))
    with OPEN_STREAMS[verb].track_inprogress(), tenant.track_inprogress():
        yield


def show_upstream(mode: Mode, why: Why) -> None:
    """Show the present way, and no other."""
    _UPSTREAM.clear()
    _UPSTREAM.labels(mode.value, why.value).set(1)


def show_policies(state: Policies) -> None:
    """Show the present state, and no other."""
    _POLICIES.clear()
    _POLICIES.labels(state.value).set(1)
