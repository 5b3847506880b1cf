"""Entry point `python -m vcmanager`: reads flags and environment, and runs the manager."""

import argparse
import importlib.metadata
import os
import socket
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import uvloop

from kubeio import errors
from kubeio.config import loading
from telemetry import logs
from tenancy.access import hosts
from vcmanager import app
from vcmanager.api_proxy import program as api_proxy
from vcmanager.plan.network import root_policies
from vcmanager.runtime.options import AgentPodSettings, ApiProxySettings, OperatorSettings
from vcmanager.snapshots import worker


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a stop is requested. Return 0 after an orderly end."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == [worker.PROGRAM]:
        return worker.main(words[1:])
    if words[:1] == [api_proxy.PROGRAM]:
        return api_proxy.main(words[1:])
    options = _parse_options(words)
    logs.configure_logging(options.log_level, is_queued=True)
    try:
        return uvloop.run(_run(options))
    except errors.CredentialsError as problem:
        sys.stderr.write(f"vc-manager: {problem}\n")
        return 1


async def _run(options: argparse.Namespace) -> int:
    endpoint = await loading.load_super_endpoint(options.kubeconfig, options.context)
    return await app.run_with_leader_election(
        app.ManagerOptions(
            namespace=options.namespace,
            settings=OperatorSettings(
                registry=options.control_plane_registry,
                node_ports=options.node_ports,
                own_image=options.own_image,
                own_image_pull_policy=options.own_image_pull_policy,
                priority_class=options.control_plane_priority_class,
                network_policies=options.network_policies == "true",
                egress=options.egress,
                api_proxy=options.api_proxy,
                scrapers=options.scrapers,
                cluster_manager=options.cluster_manager,
                cluster_api=options.cluster_api == "true",
            ),
            port=options.port,
            identity=os.environ.get("POD_NAME", socket.gethostname()),
            pod_uid=os.environ.get("POD_UID", ""),
            version=_read_version(),
            agent_pods=options.agent_pods,
        ),
        endpoint,
    )


def _parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="vc-manager",
        description="Creates, upgrades and deletes the control planes of VirtualClusters.",
    )
    env = os.environ.get
    parser.add_argument(
        "--kubeconfig", default="", help="Kubeconfig of the super cluster, to run outside of it"
    )
    parser.add_argument("--context", default="", help="Context of that kubeconfig")
    parser.add_argument(
        "--namespace",
        default=env("POD_NAMESPACE", "vc-manager"),
        help="Namespace of the components, for the Lease and the agents' CA",
    )
    parser.add_argument(
        "--control-plane-registry",
        default=env("CONTROL_PLANE_REGISTRY", ""),
        help="Prefix of the images etcd, kube-apiserver, kube-controller-manager and coredns",
    )
    parser.add_argument(
        "--node-ports",
        default=env("NODE_PORTS", "30000-32767"),
        help="Node port range of the super cluster, which tenants use too",
    )
    parser.add_argument(
        "--own-image",
        default=env("OWN_IMAGE", ""),
        help="Image of this program, for the Jobs of snapshots",
    )
    parser.add_argument(
        "--own-image-pull-policy",
        default=env("OWN_IMAGE_PULL_POLICY", "IfNotPresent"),
        help="Pull policy of that image",
    )
    parser.add_argument(
        "--control-plane-priority-class",
        default=env("CONTROL_PLANE_PRIORITY_CLASS", ""),
        help="PriorityClass of control plane pods whose ClusterVersion names none",
    )
    parser.add_argument(
        "--network-policies",
        choices=("true", "false"),
        default=env("NETWORK_POLICIES", "true"),
        help="Whether the namespaces of control planes have NetworkPolicies",
    )
    parser.add_argument(
        "--egress",
        type=root_policies.parse_egress,
        default=env("CONTROL_PLANE_EGRESS", ""),
        help="Comma-separated private networks that API servers of tenants may connect to",
    )
    parser.add_argument(
        "--scrapers",
        type=_parse_scrapers,
        default=env("CONTROL_PLANE_SCRAPERS") or "[]",
        help="NetworkPolicy peers that may read the metrics of tenants' etcd, as a JSON list",
    )
    parser.add_argument(
        "--cluster-manager",
        default=env("CLUSTER_MANAGER", ""),
        help="Name of the cluster manager in ClusterProfiles. Empty: none are written",
    )
    parser.add_argument(
        "--cluster-api",
        choices=("true", "false"),
        default=env("CLUSTER_API", "false"),
        help="Whether this is the control plane provider of Cluster API",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=int(env("PORT", "8080")),
        help="Port of /healthz, /readyz and /metrics",
    )
    parser.add_argument(
        "--agent-pods",
        type=_parse_agent_pods,
        default=env("AGENT_PODS") or None,
        help="Settings of the agents of targets as JSON (image and more, written by the chart)",
    )
    parser.add_argument(
        "--api-proxy",
        type=_parse_api_proxy,
        default=env("API_PROXY") or None,
        help="Settings of the API proxy as JSON (written by the chart). Without it there is none",
    )
    parser.add_argument("--log-level", default=env("LOG_LEVEL", "info"))
    parser.add_argument("--version", action="version", version=_read_version())
    return parser.parse_args(arguments)


def _parse_api_proxy(text: str) -> ApiProxySettings:
    try:
        found = msgspec.json.decode(text, type=ApiProxySettings)
        hosts.parse_base_domain(found.base_domain)
    except (msgspec.MsgspecError, hosts.InvalidBaseDomainError) as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem
    return found


def _parse_agent_pods(text: str) -> AgentPodSettings:
    try:
        return msgspec.json.decode(text, type=AgentPodSettings)
    except msgspec.MsgspecError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem


def _parse_scrapers(text: str) -> tuple[dict[str, Any], ...]:
    try:
        return msgspec.json.decode(text, type=tuple[dict[str, Any], ...])
    except msgspec.MsgspecError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem


def _read_version() -> str:
    return importlib.metadata.version("virtual-cluster")


if __name__ == "__main__":
    sys.exit(main())
