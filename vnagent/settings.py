"""Settings of the agent: flags, each with a default from the environment.

The module must not know how a setting is used. Hazard: no setting may turn a check off, and the
client authority has no default. Without the client authority, callers could not be identified.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tenancy import wellknown
from vnagent.authz.metrics import Mode
from vnagent.client.https_client import Address
from vnagent.limits.concurrency import STREAMS, STREAMS_PER_TENANT
from vnagent.stream.relay import Deadlines
from vnagent.upstream import kubelet
from vnagent.upstream.upstream_mode import Wish

HEALTH_PORT = 10551
METRICS_PORT = 10552
DRAIN_SECONDS = 9.0
"""Drain time in seconds. It is below the 10 s in which every component must end."""

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TARGET = Path("/etc/vn-agent/target")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticCertificate:
    """A serving certificate in files that another program renews."""

    certificate_file: Path
    key_file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetCluster:
    """A target: a further super cluster. The agent serves its pods in place of a node's."""

    registration: str
    """UID of its SuperCluster."""
    server: Address
    authorities_file: Path
    token_file: Path
    mode: Mode
    """The server that opens streams in the target: its API server, or its kubelets."""
    kubelet_port: int
    kubelet_authorities_file: Path
    """Certificate authorities of the target's kubelets, for mode `kubelet`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of the agent."""

    listen_host: str
    port: int
    health_port: int
    metrics_port: int
    """Port of the metrics over TLS, for callers that RBAC allows to read them. With 0 the health
    port serves the metrics.
    """
    pod_name: str
    pod_namespace: str
    pod_uid: str
    pod_address: str
    node: str
    upstream: Wish
    client_authorities_file: Path
    kubelet: Address
    kubelet_authorities_file: Path
    token_file: Path
    api: Address
    api_authorities_file: Path
    target: TargetCluster | None
    """None: the agent serves the pods of its node."""
    static_certificate: StaticCertificate | None
    streams: int
    streams_per_tenant: int
    deadlines: Deadlines
    log_level: str


def parse(arguments: Sequence[str], environment: Mapping[str, str], version: str) -> Settings:
    """Return the settings. Invalid ones end the program with exit code 2 and a message."""
    parser = _parser(environment)
    parser.add_argument("--version", action="version", version=version)
    given = parser.parse_args(arguments)
    pod = ("pod_name", "pod_namespace", "pod_ip")
    node = () if given.target_server else ("kubelet_host", "node_name")
    for name in ("client_ca_file", *node, *pod, "api_host"):
        if not getattr(given, name):
            parser.error(f"--{name.replace('_', '-')} is not set, and neither is its environment")
    if bool(given.tls_cert_file) != bool(given.tls_private_key_file):
        parser.error("--tls-cert-file and --tls-private-key-file go together")
    static = None
    if given.tls_cert_file:
        static = StaticCertificate(
            certificate_file=given.tls_cert_file, key_file=given.tls_private_key_file
        )
    return Settings(
        listen_host=given.listen_host or given.pod_ip,
        port=given.port,
        health_port=given.health_port,
        metrics_port=given.metrics_port,
        pod_name=given.pod_name,
        pod_namespace=given.pod_namespace,
        pod_uid=given.pod_uid,
        pod_address=given.pod_ip,
        node=given.node_name,
        upstream=given.upstream,
        client_authorities_file=given.client_ca_file,
        kubelet=Address(
            given.kubelet_host, given.kubelet_port, given.kubelet_server_name or given.kubelet_host
        ),
        kubelet_authorities_file=given.kubelet_ca_file,
        token_file=given.token_file,
        api=Address(given.api_host, given.api_port, given.api_host),
        api_authorities_file=given.api_ca_file,
        target=_target(parser, given) if given.target_server else None,
        static_certificate=static,
        streams=given.max_streams,
        streams_per_tenant=given.max_streams_per_tenant,
        deadlines=Deadlines(
            idle_seconds=given.stream_idle_seconds, total_seconds=given.stream_total_seconds
        ),
        log_level=given.log_level,
    )


def _target(parser: argparse.ArgumentParser, given: argparse.Namespace) -> TargetCluster:
    """Return the target. Invalid settings of it end the program."""
    if _UID.fullmatch(given.target_registration) is None:
        parser.error("--target-registration must be the UID of the target's SuperCluster")
    try:
        url = urlsplit(given.target_server)
        port = url.port or 443
    except ValueError:
        parser.error("--target-server is no URL")
    is_bare = not (url.username or url.query or url.fragment)
    if url.scheme != "https" or not url.hostname or not is_bare:
        parser.error("--target-server must be a URL like https://10.0.0.5:6443")
    name = given.target_server_name or url.hostname
    return TargetCluster(
        registration=given.target_registration,
        server=Address(url.hostname, port, name, url.path.rstrip("/")),
        authorities_file=given.target_ca_file,
        token_file=given.target_token_file,
        # Only an explicit setting leads straight to kubelets, because the agent does not probe
        # whether they can be reached.
        mode=Mode.KUBELET if given.upstream is Wish.KUBELET else Mode.APISERVER,
        kubelet_port=given.kubelet_port,
        kubelet_authorities_file=given.target_kubelet_ca_file,
    )


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """Return the parser. A default that is text is parsed like a flag."""
    parser = argparse.ArgumentParser(
        prog="vn-agent",
        description="Answers the kubelet calls of tenant API servers for the pods of one node, or"
        " of one other cluster.",
    )

    def add(flag: str, variable: str, default: str | float | Path, about: str) -> None:
        chosen = environment.get(variable) or default
        kind = type(default)
        parser.add_argument(
            flag,
            type=kind if kind in (int, float) else Path if isinstance(default, Path) else str,
            default=str(chosen) if chosen != "" else "",
            help=f"{about} (${variable}; default: {default or 'none'})",
        )

    add("--listen-host", "LISTEN_HOST", "", "address to listen on, if not the pod's")
    add("--port", "PORT", wellknown.AGENT_PORT, "port for tenant API servers")
    add("--health-port", "HEALTH_PORT", HEALTH_PORT, "plain port of /healthz and /readyz")
    about = "TLS port of /metrics, for bearer tokens; 0: without either, on the health port"
    add("--metrics-port", "METRICS_PORT", METRICS_PORT, about)
    add("--pod-name", "POD_NAME", "", "our pod's name")
    add("--pod-namespace", "POD_NAMESPACE", "", "its namespace, where vc-manager writes for us")
    add("--pod-uid", "POD_UID", "", "its UID, for Events on it")
    add("--pod-ip", "POD_IP", "", "our pod's address, which the certificate names")
    add("--node-name", "NODE_NAME", "", "our node's name")
    parser.add_argument(
        "--upstream",
        type=Wish,
        metavar="{auto,kubelet,apiserver}",
        default=environment.get("UPSTREAM") or Wish.AUTO.value,
        help="the way to the node's pods; to a target's, auto is apiserver ($UPSTREAM; default:"
        " auto)",
    )
    parser.add_argument(
        "--client-ca-file",
        type=Path,
        default=environment.get("CLIENT_CA_FILE") or None,
        help="authority of the tenants' identities; required ($CLIENT_CA_FILE)",
    )
    add("--kubelet-host", "HOST_IP", "", "address of this node's kubelet")
    add("--kubelet-port", "KUBELET_PORT", kubelet.PORT, "port of kubelets")
    add("--kubelet-server-name", "KUBELET_SERVER_NAME", "", "name in its certificate, if not that")
    add("--kubelet-ca-file", "KUBELET_CA_FILE", _ACCOUNT / "ca.crt", "authority of kubelets")
    add("--token-file", "TOKEN_FILE", _ACCOUNT / "token", "our bound token")
    add("--api-host", "KUBERNETES_SERVICE_HOST", "", "super API server")
    add("--api-port", "KUBERNETES_SERVICE_PORT", 443, "its port")
    add("--api-ca-file", "API_CA_FILE", _ACCOUNT / "ca.crt", "its authority")
    about = "URL of another cluster's API server, whose pods are served and not a node's"
    add("--target-server", "TARGET_SERVER", "", about)
    about = "name in that server's certificate, if not the URL's"
    add("--target-server-name", "TARGET_SERVER_NAME", "", about)
    add("--target-registration", "TARGET_REGISTRATION", "", "UID of its SuperCluster")
    add("--target-ca-file", "TARGET_CA_FILE", _TARGET / "ca.crt", "its authority")
    about = "authority of its kubelets, where they are asked"
    ca_file = _TARGET / "kubelet-ca.crt"
    add("--target-kubelet-ca-file", "TARGET_KUBELET_CA_FILE", ca_file, about)
    add("--target-token-file", "TARGET_TOKEN_FILE", _TARGET / "token", "our token there")
    parser.add_argument(
        "--tls-cert-file", type=Path, help="serve this certificate instead of asking for one"
    )
    parser.add_argument("--tls-private-key-file", type=Path, help="the key that belongs to it")
    add("--max-streams", "MAX_STREAMS", STREAMS, "streams in all")
    add("--max-streams-per-tenant", "MAX_STREAMS_PER_TENANT", STREAMS_PER_TENANT, "of one tenant")
    usual = Deadlines()
    idle, total = usual.idle_seconds, usual.total_seconds
    add("--stream-idle-seconds", "STREAM_IDLE_SECONDS", idle, "end a stream without a byte")
    add("--stream-total-seconds", "STREAM_TOTAL_SECONDS", total, "end any stream")
    add("--log-level", "LOG_LEVEL", "INFO", "DEBUG, INFO, WARNING or ERROR")
    return parser
