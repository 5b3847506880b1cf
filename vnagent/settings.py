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
from vnagent.authz.metrics import UpstreamMode
from vnagent.client.https_client import ServerAddress
from vnagent.limits.concurrency import MAX_STREAMS, MAX_STREAMS_PER_TENANT
from vnagent.stream.relay import RelayDeadlines
from vnagent.upstream import kubelet
from vnagent.upstream.upstream_mode import UpstreamSetting

HEALTH_PORT = 10551
METRICS_PORT = 10552
DRAIN_SECONDS = 9.0
"""Drain time in seconds. It is below the 10 s in which every component must end."""

_ACCOUNT_DIRECTORY = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TARGET_DIRECTORY = Path("/etc/vn-agent/target")
_UID_PATTERN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticCertificate:
    """A serving certificate in files that another program renews."""

    certificate_file: Path
    key_file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings:
    """A target: a further super cluster. The agent serves its pods in place of a node's."""

    registration: str
    """UID of its SuperCluster."""
    server: ServerAddress
    authorities_file: Path
    token_file: Path
    mode: UpstreamMode
    """The server that opens streams in the target: its API server, or its kubelets."""
    kubelet_port: int
    kubelet_authorities_file: Path
    """Certificate authorities of the target's kubelets, for mode `kubelet`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
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
    upstream: UpstreamSetting
    client_authorities_file: Path
    kubelet: ServerAddress
    kubelet_authorities_file: Path
    token_file: Path
    api: ServerAddress
    api_authorities_file: Path
    target: TargetSettings | None
    """None: the agent serves the pods of its node."""
    static_certificate: StaticCertificate | None
    streams: int
    streams_per_tenant: int
    deadlines: RelayDeadlines
    log_level: str


def parse_settings(
    arguments: Sequence[str], environment: Mapping[str, str], version: str
) -> AgentSettings:
    """Return the settings. Invalid ones end the program with exit code 2 and a message."""
    parser = _build_parser(environment)
    parser.add_argument("--version", action="version", version=version)
    given = parser.parse_args(arguments)
    pod = ("pod_name", "pod_namespace", "pod_ip")
    node = () if given.target_server else ("kubelet_host", "node_name")
    for name in ("client_ca_file", *node, *pod, "api_host"):
        if not getattr(given, name):
            parser.error(f"--{name.replace('_', '-')} is not set, and neither is its environment")
    if bool(given.tls_cert_file) != bool(given.tls_private_key_file):
        parser.error("--tls-cert-file and --tls-private-key-file must be used together")
    static = None
    if given.tls_cert_file:
        static = StaticCertificate(
            certificate_file=given.tls_cert_file, key_file=given.tls_private_key_file
        )
    return AgentSettings(
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
        kubelet=ServerAddress(
            given.kubelet_host, given.kubelet_port, given.kubelet_server_name or given.kubelet_host
        ),
        kubelet_authorities_file=given.kubelet_ca_file,
        token_file=given.token_file,
        api=ServerAddress(given.api_host, given.api_port, given.api_host),
        api_authorities_file=given.api_ca_file,
        target=_parse_target(parser, given) if given.target_server else None,
        static_certificate=static,
        streams=given.max_streams,
        streams_per_tenant=given.max_streams_per_tenant,
        deadlines=RelayDeadlines(
            idle_seconds=given.stream_idle_seconds, total_seconds=given.stream_total_seconds
        ),
        log_level=given.log_level,
    )


def _parse_target(parser: argparse.ArgumentParser, given: argparse.Namespace) -> TargetSettings:
    """Return the target. Invalid settings of it end the program."""
    if _UID_PATTERN.fullmatch(given.target_registration) is None:
        parser.error("--target-registration must be the UID of the target's SuperCluster")
    try:
        url = urlsplit(given.target_server)
        port = url.port or 443
    except ValueError:
        parser.error("--target-server is not a URL")
    is_bare = not (url.username or url.query or url.fragment)
    if url.scheme != "https" or not url.hostname or not is_bare:
        parser.error("--target-server must be a URL like https://10.0.0.5:6443")
    name = given.target_server_name or url.hostname
    return TargetSettings(
        registration=given.target_registration,
        server=ServerAddress(url.hostname, port, name, url.path.rstrip("/")),
        authorities_file=given.target_ca_file,
        token_file=given.target_token_file,
        # Only an explicit setting leads straight to kubelets, because the agent does not probe
        # whether they can be reached.
        mode=UpstreamMode.KUBELET
        if given.upstream is UpstreamSetting.KUBELET
        else UpstreamMode.APISERVER,
        kubelet_port=given.kubelet_port,
        kubelet_authorities_file=given.target_kubelet_ca_file,
    )


def _build_parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """Return the parser. A default that is text is parsed like a flag."""
    parser = argparse.ArgumentParser(
        prog="vn-agent",
        description="Answers kubelet calls of tenants for the pods of a node, or of a target.",
    )

    def add_flag(flag: str, variable: str, default: str | float | Path, about: str) -> None:
        chosen = environment.get(variable) or default
        kind = type(default)
        parser.add_argument(
            flag,
            type=kind if kind in (int, float) else Path if isinstance(default, Path) else str,
            default=str(chosen) if chosen != "" else "",
            help=f"{about} (${variable}; default: {default or 'none'})",
        )

    add_flag("--listen-host", "LISTEN_HOST", "", "Address to listen on (default: the pod's)")
    add_flag("--port", "PORT", wellknown.AGENT_PORT, "Port for tenant API servers")
    add_flag(
        "--health-port", "HEALTH_PORT", HEALTH_PORT, "Port of /healthz and /readyz, without TLS"
    )
    about = (
        "TLS port of /metrics, for bearer tokens. With 0, metrics are on the health port without"
        " TLS and tokens"
    )
    add_flag("--metrics-port", "METRICS_PORT", METRICS_PORT, about)
    add_flag("--pod-name", "POD_NAME", "", "Name of the agent's pod")
    add_flag(
        "--pod-namespace",
        "POD_NAMESPACE",
        "",
        "Namespace of the agent's pod, in which vc-manager writes for agents",
    )
    add_flag("--pod-uid", "POD_UID", "", "UID of the agent's pod, for Events on it")
    add_flag("--pod-ip", "POD_IP", "", "Address of the agent's pod, for its certificate")
    add_flag("--node-name", "NODE_NAME", "", "Name of the agent's node")
    parser.add_argument(
        "--upstream",
        type=UpstreamSetting,
        metavar="{auto,kubelet,apiserver}",
        default=environment.get("UPSTREAM") or UpstreamSetting.AUTO.value,
        help="Upstream mode for the node's pods. For a target's pods, auto is apiserver ($UPSTREAM,"
        " default: auto)",
    )
    parser.add_argument(
        "--client-ca-file",
        type=Path,
        default=environment.get("CLIENT_CA_FILE") or None,
        help="CA of the tenants' client certificates, required ($CLIENT_CA_FILE)",
    )
    add_flag("--kubelet-host", "HOST_IP", "", "Address of this node's kubelet")
    add_flag("--kubelet-port", "KUBELET_PORT", kubelet.KUBELET_PORT, "Port of kubelets")
    add_flag(
        "--kubelet-server-name",
        "KUBELET_SERVER_NAME",
        "",
        "Name in the kubelet's certificate, if not its address",
    )
    add_flag(
        "--kubelet-ca-file",
        "KUBELET_CA_FILE",
        _ACCOUNT_DIRECTORY / "ca.crt",
        "CA of kubelets",
    )
    add_flag("--token-file", "TOKEN_FILE", _ACCOUNT_DIRECTORY / "token", "Bound token of the agent")
    add_flag("--api-host", "KUBERNETES_SERVICE_HOST", "", "Host of the super cluster's API server")
    add_flag("--api-port", "KUBERNETES_SERVICE_PORT", 443, "Port of the super cluster's API server")
    add_flag("--api-ca-file", "API_CA_FILE", _ACCOUNT_DIRECTORY / "ca.crt", "CA of that API server")
    about = "URL of a target's API server. The agent then serves the target's pods, not a node's"
    add_flag("--target-server", "TARGET_SERVER", "", about)
    about = "Name in that server's certificate, if not in the URL"
    add_flag("--target-server-name", "TARGET_SERVER_NAME", "", about)
    add_flag("--target-registration", "TARGET_REGISTRATION", "", "UID of the target's SuperCluster")
    add_flag(
        "--target-ca-file", "TARGET_CA_FILE", _TARGET_DIRECTORY / "ca.crt", "CA of that API server"
    )
    about = "CA of the target's kubelets, if the agent connects to them"
    ca_file = _TARGET_DIRECTORY / "kubelet-ca.crt"
    add_flag("--target-kubelet-ca-file", "TARGET_KUBELET_CA_FILE", ca_file, about)
    add_flag(
        "--target-token-file",
        "TARGET_TOKEN_FILE",
        _TARGET_DIRECTORY / "token",
        "Token of the agent in the target",
    )
    parser.add_argument(
        "--tls-cert-file", type=Path, help="Serving certificate to use instead of requesting one"
    )
    parser.add_argument("--tls-private-key-file", type=Path, help="Key of that certificate")
    add_flag("--max-streams", "MAX_STREAMS", MAX_STREAMS, "Maximum number of streams")
    add_flag(
        "--max-streams-per-tenant",
        "MAX_STREAMS_PER_TENANT",
        MAX_STREAMS_PER_TENANT,
        "Maximum number of streams of one tenant",
    )
    usual = RelayDeadlines()
    idle, total = usual.idle_seconds, usual.total_seconds
    add_flag(
        "--stream-idle-seconds",
        "STREAM_IDLE_SECONDS",
        idle,
        "Seconds after which a stream without a byte ends",
    )
    add_flag(
        "--stream-total-seconds",
        "STREAM_TOTAL_SECONDS",
        total,
        "Seconds after which any stream ends",
    )
    add_flag("--log-level", "LOG_LEVEL", "INFO", "Log level: DEBUG, INFO, WARNING or ERROR")
    return parser
