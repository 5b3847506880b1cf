"""Command line of the syncer, `python -m syncer`: flags and environment variables."""

import argparse
import importlib.metadata
import os
import socket
import sys
from collections.abc import Sequence

import uvloop

from kubeio import errors
from kubeio.cache.cache_budget import MIB
from kubeio.config import loading
from syncer import app
from syncer.handlers import resync
from syncer.model import tenant_view
from syncer.safety import cache_limits, memory_guard
from telemetry import logs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT. Returns 0 after an orderly end."""
    options = _parse_options(arguments)
    logs.configure_logging(options.log_level, is_queued=True)
    try:
        return uvloop.run(_run(options))
    except errors.CredentialsError as problem:
        sys.stderr.write(f"vc-syncer: {problem}\n")
        return 1


async def _run(options: argparse.Namespace) -> int:
    memory_limit = options.memory_limit_mib * MIB or memory_guard.read_cgroup_limit()
    tenant_bytes = options.tenant_cache_mib * MIB or cache_limits.choose_tenant_bytes(memory_limit)
    endpoint = await loading.load_super_endpoint(options.kubeconfig, options.context)
    return await app.run_with_leader_election(
        app.SyncerOptions(
            namespace=options.namespace,
            port=options.port,
            identity=os.environ.get("POD_NAME", socket.gethostname()),
            pod_uid=os.environ.get("POD_UID", ""),
            version=_read_version(),
            resync_seconds=options.resync_seconds,
            cluster_domain=options.cluster_domain,
            has_networks=options.network_attachments == "true",
            memory_limit=memory_limit,
            limits=cache_limits.TenantLimits(
                cache=cache_limits.build_cache_limits(tenant_bytes),
                away_base_seconds=options.tenant_pause_seconds,
                away_max_seconds=max(cache_limits.AWAY_MAX_SECONDS, options.tenant_pause_seconds),
                write_bytes_per_second=options.tenant_write_mib_per_second * MIB,
                write_burst_bytes=options.tenant_write_burst_mib * MIB,
            ),
        ),
        endpoint,
    )


def _parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="vc-syncer",
        description="Syncs objects of tenants to the super cluster, and their statuses back.",
    )
    env = os.environ.get
    parser.add_argument(
        "--kubeconfig", default="", help="Kubeconfig of the super cluster, to run outside of it"
    )
    parser.add_argument("--context", default="", help="Context of that kubeconfig")
    parser.add_argument(
        "--namespace",
        default=env("POD_NAMESPACE", "vc-manager"),
        help="Namespace of the components, for the Lease and the agents",
    )
    parser.add_argument(
        "--cluster-domain",
        default=env("CLUSTER_DOMAIN", tenant_view.DEFAULT_CLUSTER_DOMAIN),
        help="DNS domain of the super cluster",
    )
    parser.add_argument(
        "--network-attachments",
        default=env("NETWORK_ATTACHMENTS", "false"),
        choices=["true", "false"],
        help="Whether NetworkAttachmentDefinitions and MultiNetworkPolicies are synced",
    )
    parser.add_argument(
        "--resync-seconds",
        type=float,
        default=float(env("PATROL_SECONDS", str(resync.RESYNC_SECONDS))),
        help="Seconds between two resyncs, which find changes that events missed",
    )
    parser.add_argument(
        "--memory-limit-mib",
        type=int,
        default=int(env("MEMORY_LIMIT_MIB", "0")),
        help="Memory limit of the process in MiB. 0: the limit of its cgroup",
    )
    parser.add_argument(
        "--tenant-cache-mib",
        type=int,
        default=int(env("TENANT_CACHE_MIB", "0")),
        help="Limit in MiB of the caches of one tenant. 0: a quarter of the memory limit, and 256"
        " at most",
    )
    parser.add_argument(
        "--tenant-pause-seconds",
        type=float,
        default=float(env("TENANT_PAUSE_SECONDS", str(cache_limits.AWAY_BASE_SECONDS))),
        help="First pause in seconds of a tenant that is over that limit",
    )
    parser.add_argument(
        "--tenant-write-mib-per-second",
        type=float,
        default=float(
            env("TENANT_WRITE_MIB_PER_SECOND", str(cache_limits.WRITE_BYTES_PER_SECOND / MIB))
        ),
        help="Rate in MiB/s at which one tenant may write into super clusters after a burst."
        " 0: no limit",
    )
    parser.add_argument(
        "--tenant-write-burst-mib",
        type=int,
        default=int(env("TENANT_WRITE_BURST_MIB", str(cache_limits.WRITE_BURST_BYTES // MIB))),
        help="Size in MiB of that burst",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=int(env("PORT", "8080")),
        help="Port of /healthz, /readyz and /metrics",
    )
    parser.add_argument("--log-level", default=env("LOG_LEVEL", "info"))
    parser.add_argument("--version", action="version", version=_read_version())
    return parser.parse_args(arguments)


def _read_version() -> str:
    return importlib.metadata.version("virtual-cluster")


if __name__ == "__main__":
    sys.exit(main())
