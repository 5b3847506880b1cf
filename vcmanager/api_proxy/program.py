"""Command line and process of `vc-manager api-proxy`.

Owns the order of the parts. It needs no Lease, because each replica keeps the map of its own pod.
"""

import argparse
import asyncio
import importlib.metadata
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import structlog
import uvloop

from kubeio import errors
from kubeio.api.client import Client
from kubeio.config import loading
from kubeio.config.endpoint import Endpoint
from kubeio.http.rest import ClientOptions
from telemetry import logs
from telemetry.probes import HealthProbes
from tenancy import wellknown
from tenancy.access import hosts
from tenancy.access.hosts import HostClaim
from vcmanager.api_proxy import host_map
from vcmanager.api_proxy.map_sync import MapSync
from vcmanager.api_proxy.runtime_api import RuntimeApi
from vcmanager.runtime.host_watch import HostWatch

PROGRAM = wellknown.API_PROXY

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def main(arguments: Sequence[str]) -> int:
    """Run until a stop is requested. Return 0 after an orderly end."""
    options = _parse(arguments)
    logs.configure_logging(options.log_level, is_queued=True)
    try:
        return uvloop.run(_run(options))
    except errors.CredentialsError as problem:
        sys.stderr.write(f"{PROGRAM}: {problem}\n")
        return 1


async def _run(options: argparse.Namespace) -> int:
    endpoint = await loading.load_super_endpoint(options.kubeconfig, options.context)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    work = asyncio.ensure_future(_work(options, endpoint))
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait((work, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not work.done():
        work.cancel()
        await asyncio.wait((work,))
        return 0
    work.result()
    return 1


async def _work(options: argparse.Namespace, endpoint: Endpoint) -> None:
    """Follow the VirtualClusters and keep the map, until cancelled."""

    def build_map() -> host_map.HostMap:
        return host_map.build_map(watch.iterate_owners())

    def handle_change(_: HostClaim) -> None:
        sync.wake()

    sync = MapSync(RuntimeApi(options.runtime_socket), options.map_file, build_map)
    probes = HealthProbes()
    probes.add_readiness_check("map", sync.check_readiness)
    agent = ClientOptions(user_agent=PROGRAM, connections=2)
    async with Client(endpoint, agent) as client, probes.serve_in_block(options.port):
        watch = HostWatch(client, options.base_domain, handle_change)
        _log.info("api_proxy.started", version=importlib.metadata.version("virtual-cluster"))
        async with asyncio.TaskGroup() as group:
            group.create_task(watch.run())
            group.create_task(sync.run(watch.wait_synced))


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"vc-manager {PROGRAM}",
        description="Keeps the map of HAProxy equal to the host names of tenants' APIs.",
    )
    env = os.environ.get
    parser.add_argument(
        "--kubeconfig", default="", help="Kubeconfig of the super cluster, to run outside of it"
    )
    parser.add_argument("--context", default="", help="Context of that kubeconfig")
    parser.add_argument(
        "--base-domain",
        type=_parse_base_domain,
        default=env("BASE_DOMAIN", ""),
        help="Domain of generated host names",
    )
    parser.add_argument(
        "--runtime-socket",
        default=env("RUNTIME_SOCKET", "/run/haproxy/runtime.sock"),
        help="Socket of HAProxy's Runtime API",
    )
    parser.add_argument(
        "--map-file",
        type=Path,
        default=env("MAP_FILE", "/run/haproxy/hosts.map"),
        help="File of the map, which HAProxy reads at its start",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=int(env("PORT", "8080")),
        help="Port of /healthz, /readyz and /metrics",
    )
    parser.add_argument("--log-level", default=env("LOG_LEVEL", "info"))
    return parser.parse_args(arguments)


def _parse_base_domain(text: str) -> str:
    try:
        return hosts.parse_base_domain(text)
    except hosts.InvalidBaseDomainError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem
