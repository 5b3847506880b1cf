"""The agent's metrics.

Hazard: a label value made from a request grows without end; every label here is from a closed set.
"""

from prometheus_client import Counter, Gauge, Histogram

from vnagent.routes import Verb

SESSIONS = Counter(
    "vc_agent_sessions",
    "Requests of tenant API servers, by verb and by how they ended.",
    ["verb", "result"],
)
_OPEN_STREAMS = Gauge("vc_agent_open_streams", "Streams open now, by verb.", ["verb"])
OPEN_STREAMS = {verb: _OPEN_STREAMS.labels(verb.value) for verb in Verb}
BYTES = Counter(
    "vc_agent_stream_bytes",
    "Bytes of streams: up to the kubelet, down to the caller.",
    ["verb", "direction"],
)
HANDSHAKES_REFUSED = Counter(
    "vc_agent_handshakes_refused",
    "Connections that ended before a tenant was known: no TLS, no certificate that verifies.",
)
FIRST_BYTE_SECONDS = Histogram(
    "vc_agent_first_byte_seconds",
    "From a request's head to the kubelet's answer, for requests that switch protocols.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
