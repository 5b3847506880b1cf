"""Real packets through a real gateway, to the Service that a tenant's route names.

Traefik runs beside the real API servers. `tests/node/test_gateway_api.py` has it in
a cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import http.server
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenancy.resources import ENDPOINT_SLICES, NAMESPACES, SERVICES
from tests.integration.syncer.test_gateway_api import (
    EDGE,
    GATEWAYS,
    HTTP_ROUTES,
    SHARED,
    SHOWN,
    build_gateway,
    build_route,
    create,
    ensure,
    fresh_host,
    gateways,
)
from tests.integration.syncer.world import SyncerWorld
from tests.support.eventually import eventually
from tests.support.names import fresh_name
from tests.support.processes import free_port
from tools.testbed.artifacts import binaries

pytestmark = pytest.mark.thorough


def find_address() -> str:
    """Return an address of this machine. Endpoints cannot have a loopback address."""
    words = ["ip", "-4", "-o", "addr", "show", "scope", "global"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return shown.split()[3].partition("/")[0]


@contextlib.contextmanager
def serve(words: str) -> Iterator[tuple[str, int]]:
    """Serve one line by HTTP on this machine. Yield address and port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(words.encode())

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = http.server.ThreadingHTTPServer((find_address(), 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield str(server.server_address[0]), server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def run_traefik(kubeconfig: Path, port: int) -> Iterator[None]:
    """Run Traefik as the gateway of the super cluster."""
    words = [
        str(binaries.path("traefik")),
        "--providers.kubernetesgateway",
        f"--entrypoints.web.address=127.0.0.1:{port}",
        "--global.checknewversion=false",
    ]
    environment = {"PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig)}
    with (
        kubeconfig.with_name("traefik.log").open("wb") as log,
        subprocess.Popen(words, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            yield
        finally:
            process.terminate()


def fetch(port: int, host: str) -> str:
    """Return what the gateway answers for a host."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/", headers={"Host": host})
        return connection.getresponse().read().decode()
    except OSError as problem:
        return str(problem)
    finally:
        connection.close()


async def back(world: SyncerWorld, namespace: str, address: str, port: int) -> None:
    """Give the Service `web` of a super namespace an endpoint, as a controller does."""
    body = {
        "metadata": {"name": "web-real", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"port": port, "name": "", "protocol": "TCP"}],
    }
    await create(world.super_client, ENDPOINT_SLICES, body, namespace=namespace)


async def test_the_real_gateway_serves_the_tenants_service_and_no_other(
    world: SyncerWorld, tmp_path: Path
):
    """Traefik delivers real packets, and its verdicts reach the tenant."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_bytes(world.super_plane.kubeconfig())
    port, service = free_port(), {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    async with gateways(world) as space:
        real = build_gateway(fresh_name("real"), SHARED, port)
        name = real["metadata"]["name"]
        await ensure(world, GATEWAYS, real, EDGE)
        await eventually(
            lambda: world.tenant_client.get(GATEWAYS, name, namespace=SHOWN), within=30
        )
        foreign = fresh_name("foreign")  # a namespace that is not the tenant's
        await create(world.super_client, NAMESPACES, {"metadata": {"name": foreign}})
        await create(world.super_client, SERVICES, service, namespace=foreign)
        await create(world.tenant_client, SERVICES, service, namespace=space)
        await eventually(lambda: world.twin(SERVICES, space, "web"))
        with serve("own") as own, serve("stolen") as stolen, run_traefik(kubeconfig, port):
            await back(world, world.super_namespace(space), *own)
            await back(world, foreign, *stolen)
            host, theft = fresh_host(), fresh_host()
            await create(
                world.tenant_client,
                HTTP_ROUTES,
                build_route("web", host, gateway=name),
                namespace=space,
            )
            refs = [{"name": "web", "namespace": foreign, "port": 80}]
            stealing = build_route("theft", theft, gateway=name, backendRefs=refs)
            await create(world.tenant_client, HTTP_ROUTES, stealing, namespace=space)

            async def read_conditions(route: str) -> dict[str, str]:
                found = await world.tenant_client.get(HTTP_ROUTES, route, namespace=space)
                parents = (found.get("status") or {}).get("parents") or ()
                assert all(each["parentRef"]["namespace"] == SHOWN for each in parents)
                return {
                    each["type"]: each["status"] for one in parents for each in one["conditions"]
                }

            await eventually(
                lambda: asyncio.to_thread(fetch, port, host),
                until=lambda answer: answer == "own",
                within=60,
            )
            for route, resolved in (("web", "True"), ("theft", "False")):
                await eventually(
                    lambda route=route: read_conditions(route),
                    until=lambda found, resolved=resolved: (
                        (found.get("Accepted"), found.get("ResolvedRefs")) == ("True", resolved)
                    ),
                    within=60,
                )
            assert "stolen" not in await asyncio.to_thread(fetch, port, theft)
