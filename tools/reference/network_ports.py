"""Page of the ports: each port that a component listens on, and its clients."""

from __future__ import annotations

from dataclasses import dataclass

from tenancy import wellknown
from tools.reference import markdown
from vcmanager.plan import service_cidrs
from vcmanager.plan.network import root_policies
from vnagent import settings
from vnagent.upstream import kubelet

MANAGER_PORT = 8080
"""Port of vc-manager, the syncer and the api-proxy. The chart has it."""
PROXY_STATUS_PORT = 8404
"""Port of HAProxy's metrics. The chart has it."""
_HEAD = markdown.build_head(
    "Ports",
    "`tools/reference/network_ports.py`, whose numbers are those of the code",
    "A firewall between the nodes must let these connections pass. NetworkPolicies of the chart and"
    " of vc-manager allow them, and refuse others to the same ports.",
)


@dataclass(frozen=True, slots=True)
class ListeningPort:
    """One port of a component."""

    component: str
    number: int
    protocol: str
    clients: str
    purpose: str


PORTS = (
    ListeningPort(
        "vc-manager, vc-syncer, api-proxy",
        MANAGER_PORT,
        "HTTP",
        "kubelet, Prometheus",
        "Probes and metrics. No data of tenants.",
    ),
    ListeningPort(
        "vn-agent",
        wellknown.AGENT_PORT,
        "HTTPS",
        "API servers of tenants",
        "Logs, exec, attach, port-forward and metrics, with a client certificate.",
    ),
    ListeningPort(
        "vn-agent",
        settings.HEALTH_PORT,
        "HTTP",
        "kubelet",
        "Probes. Also metrics, if the chart value agent.metrics.secure is false.",
    ),
    ListeningPort(
        "vn-agent", settings.METRICS_PORT, "HTTPS", "Prometheus", "Metrics, with a token."
    ),
    ListeningPort(
        "kubelet",
        kubelet.KUBELET_PORT,
        "HTTPS",
        "vn-agent",
        "Pods of the node, if the chart value agent.upstream is kubelet or auto.",
    ),
    ListeningPort(
        "API server of a tenant",
        wellknown.API_SERVER_PORT,
        "HTTPS",
        "users, vc-manager, vc-syncer, pods of the tenant",
        "The Kubernetes API of the tenant. Users reach it by its Service, for example a node port.",
    ),
    ListeningPort(
        "API proxy",
        wellknown.API_SERVER_PORT,
        "TLS",
        "users",
        "The APIs of all tenants by host name. Only with the chart value apiProxy.enabled.",
    ),
    ListeningPort(
        "API proxy", PROXY_STATUS_PORT, "HTTP", "kubelet, Prometheus", "Probes and metrics."
    ),
    ListeningPort(
        "etcd of a tenant",
        root_policies.ETCD_CLIENT_PORT,
        "HTTPS",
        "API server of the same tenant, vc-manager",
        "Data of the tenant, with a client certificate.",
    ),
    ListeningPort(
        "etcd of a tenant",
        root_policies.ETCD_PEER_PORT,
        "HTTPS",
        "etcd of the same tenant",
        "Replication between members.",
    ),
    ListeningPort(
        "etcd of a tenant",
        root_policies.ETCD_METRICS_PORT,
        "HTTP",
        "kubelet, peers in controlPlane.networkPolicies.scrapers",
        "Probes and metrics, without authentication.",
    ),
    ListeningPort(
        "CoreDNS of a tenant",
        root_policies.DNS_PORT,
        "UDP, TCP",
        "pods of the tenant",
        "Names of the tenant. Pods use port 53 of the Service.",
    ),
    ListeningPort(
        "metrics-server of a tenant",
        service_cidrs.METRICS_PORT,
        "HTTPS",
        "API server of the same tenant",
        "The metrics API, with spec.metrics: managed.",
    ),
)


def build_page() -> str:
    """Return the page."""
    rows = [
        (each.component, str(each.number), each.protocol, each.clients, each.purpose)
        for each in PORTS
    ]
    columns = ("component", "port", "protocol", "clients", "purpose")
    return f"{_HEAD}\n{markdown.build_table(columns, rows)}"
