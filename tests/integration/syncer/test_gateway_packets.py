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
import socket
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from kubeio import Object
from tenancy.resources import CONFIG_MAPS, ENDPOINT_SLICES, NAMESPACES, SERVICES, Resource
from tests.integration.syncer.test_gateway_api import (
    EDGE,
    GATEWAYS,
    GRANTS,
    GROUP,
    GRPC_ROUTES,
    HTTP_ROUTES,
    SHARED,
    SHOWN,
    TLS_POLICIES,
    TLS_ROUTES,
    WEB,
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

LOADED = 60.0
"""Seconds until Traefik has read a change, on a busy machine."""
EMPTY_MESSAGE = bytes(5)
"""Frame of an empty gRPC message: a byte without compression, and a length of zero."""


def find_address() -> str:
    """Return an address of this machine. Endpoints cannot have a loopback address."""
    words = ["ip", "-4", "-o", "addr", "show", "scope", "global"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return shown.split()[3].partition("/")[0]


@contextlib.contextmanager
def serve(words: str, context: ssl.SSLContext | None = None) -> Iterator[tuple[str, int]]:
    """Serve one line by HTTP, or HTTPS, on this machine. Yield address and port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(words.encode())

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = http.server.ThreadingHTTPServer((find_address(), 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield str(server.server_address[0]), server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def serve_grpc(folder: Path) -> Iterator[tuple[str, int]]:
    """Run an etcd, which has the health service of gRPC. Yield address and port."""
    address, port, peer = find_address(), free_port(), free_port()
    words = [
        str(binaries.path("etcd")),
        *("--data-dir", str(folder / "grpc")),
        f"--listen-client-urls=http://{address}:{port}",
        f"--advertise-client-urls=http://{address}:{port}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        "--unsafe-no-fsync",
    ]
    with (
        (folder / "grpc.log").open("wb") as log,
        subprocess.Popen(words, stdout=log, stderr=log) as process,
    ):
        try:
            yield address, port
        finally:
            process.terminate()


@contextlib.contextmanager
def run_traefik(kubeconfig: Path, **ports: int) -> Iterator[None]:
    """Run Traefik as the gateway of the super cluster, with a port for each listener."""
    words = [
        str(binaries.path("traefik")),
        "--providers.kubernetesgateway",
        *(f"--entrypoints.{name}.address=127.0.0.1:{port}" for name, port in ports.items()),
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


@dataclass(frozen=True, kw_only=True)
class RealGateway:
    """A Gateway that Traefik serves, a tenant namespace, and a namespace of another owner."""

    world: SyncerWorld
    space: str
    foreign: str
    name: str
    web: int
    """Port of the listener for HTTP."""
    tls: int
    """Port of the listener that passes TLS through."""

    async def route(
        self, resource: Resource, name: str, host: str, *refs: Object, section: str = "web"
    ) -> None:
        """Create a route of the tenant to these Services."""
        body = build_route(name, host, gateway=self.name, section=section, backendRefs=list(refs))
        await create(self.world.tenant_client, resource, body, namespace=self.space)

    async def offer(self, name: str, address: str, port: int, *, space: str = "") -> Object:
        """Create a Service of the tenant that ends at an address. Return a reference to it."""
        space = space or self.space
        await create(self.world.tenant_client, SERVICES, build_service(name), namespace=space)
        await eventually(lambda: self.world.twin(SERVICES, space, name))
        await self._back(name, self.world.super_namespace(space), address, port)
        return {"name": name, "port": 80}

    async def offer_foreign(self, name: str, address: str, port: int) -> Object:
        """Create a Service of another owner that ends at an address. Return a reference to it."""
        client = self.world.super_client
        await create(client, SERVICES, build_service(name), namespace=self.foreign)
        await self._back(name, self.foreign, address, port)
        return {"name": name, "namespace": self.foreign, "port": 80}

    async def _back(self, name: str, namespace: str, address: str, port: int) -> None:
        """Give a Service of the super cluster an endpoint, as a controller does."""
        labels = {"kubernetes.io/service-name": name}
        body = {
            "metadata": {"name": f"{name}-real", "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": [{"port": port, "name": "", "protocol": "TCP"}],
        }
        await create(self.world.super_client, ENDPOINT_SLICES, body, namespace=namespace)

    async def wait_for_verdict(self, resource: Resource, name: str, resolved: str) -> None:
        """Wait until the tenant sees the gateway's verdict on the references of a route."""

        async def read_conditions() -> dict[str, str]:
            found = await self.world.tenant_client.get(resource, name, namespace=self.space)
            parents = (found.get("status") or {}).get("parents") or ()
            assert all(each["parentRef"]["namespace"] == SHOWN for each in parents)
            return {each["type"]: each["status"] for one in parents for each in one["conditions"]}

        await eventually(
            read_conditions,
            until=lambda found: (
                (found.get("Accepted"), found.get("ResolvedRefs")) == ("True", resolved)
            ),
            within=LOADED,
        )

    async def expect(self, host: str, status: int, text: str = "") -> None:
        """Wait until the gateway answers for a host with a status and a text."""
        await eventually(
            lambda: asyncio.to_thread(fetch, self.web, host),
            until=lambda answer: answer[0] == status and text in answer[1],
            within=LOADED,
        )


def build_service(name: str) -> Object:
    """Return a Service without a selector."""
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}


@contextlib.asynccontextmanager
async def real_gateway(world: SyncerWorld, folder: Path) -> AsyncIterator[RealGateway]:
    """Have a Gateway that Traefik serves, for a block."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_bytes(world.super_plane.kubeconfig())
    ports = {"web": free_port(), "tls": free_port()}
    async with gateways(world) as space:
        passing = {"name": "tls", "port": ports["tls"], "protocol": "TLS"}
        passing["tls"] = {"mode": "Passthrough"}
        listeners = ({**WEB, "port": ports["web"]}, passing)
        real = build_gateway(fresh_name("real"), SHARED, *listeners)
        name = real["metadata"]["name"]
        await ensure(world, GATEWAYS, real, EDGE)
        await eventually(
            lambda: world.tenant_client.get(GATEWAYS, name, namespace=SHOWN), within=30
        )
        foreign = fresh_name("foreign")  # a namespace that is not the tenant's
        await create(world.super_client, NAMESPACES, {"metadata": {"name": foreign}})
        with run_traefik(kubeconfig, **ports):
            yield RealGateway(world=world, space=space, foreign=foreign, name=name, **ports)


def fetch(port: int, host: str) -> tuple[int, str]:
    """Return status and text of the gateway's answer for a host. The status is 0 without one."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/", headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError as problem:
        return 0, str(problem)
    finally:
        connection.close()


def check_health(port: int, host: str, folder: Path) -> str:
    """Ask the health service of gRPC through the gateway. Return headers and trailers."""
    frame = folder / "frame"
    frame.write_bytes(EMPTY_MESSAGE)
    words = ["curl", "-sS", "-i", "--http2-prior-knowledge", "--max-time", "10"]
    words += ["-H", "content-type: application/grpc", "-H", "te: trailers", "-H", f"host: {host}"]
    words += ["--data-binary", f"@{frame}"]
    words += [f"http://127.0.0.1:{port}/grpc.health.v1.Health/Check"]
    shown = subprocess.run(words, capture_output=True, check=False)
    return (shown.stdout + shown.stderr).decode(errors="replace").lower()


def read_peer(port: int, host: str) -> bytes:
    """Return the certificate that the server of a host shows. Empty if the handshake fails."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            return secured.getpeercert(binary_form=True) or b""
    except OSError:
        return b""


def build_context(certificate: trustme.LeafCert) -> ssl.SSLContext:
    """Return the context of a server with a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


async def test_the_real_gateway_serves_the_tenants_service_and_no_other(
    world: SyncerWorld, tmp_path: Path
):
    """Traefik delivers real packets, and its verdicts reach the tenant."""
    with serve("own") as own, serve("stolen") as stolen:
        async with real_gateway(world, tmp_path) as gateway:
            host, theft = fresh_host(), fresh_host()
            await gateway.route(HTTP_ROUTES, "web", host, await gateway.offer("web", *own))
            foreign = await gateway.offer_foreign("web", *stolen)
            await gateway.route(HTTP_ROUTES, "theft", theft, foreign)
            await gateway.expect(host, 200, "own")
            await gateway.wait_for_verdict(HTTP_ROUTES, "web", "True")
            await gateway.wait_for_verdict(HTTP_ROUTES, "theft", "False")
            status, text = await asyncio.to_thread(fetch, gateway.web, theft)
            assert status >= 400
            assert "stolen" not in text


async def test_a_grpc_route_reaches_the_tenants_service_and_no_other(
    world: SyncerWorld, tmp_path: Path
):
    """A call through the gateway ends with the status 0, and never at a foreign Service."""
    with serve_grpc(tmp_path) as backend:
        async with real_gateway(world, tmp_path) as gateway:
            host, theft = fresh_host(), fresh_host()
            await gateway.route(GRPC_ROUTES, "rpc", host, await gateway.offer("rpc", *backend))
            foreign = await gateway.offer_foreign("rpc", *backend)
            await gateway.route(GRPC_ROUTES, "theft", theft, foreign)
            await eventually(
                lambda: asyncio.to_thread(check_health, gateway.web, host, tmp_path),
                until=lambda answer: "grpc-status: 0" in answer,
                within=LOADED,
            )
            await gateway.wait_for_verdict(GRPC_ROUTES, "theft", "False")
            answer = await asyncio.to_thread(check_health, gateway.web, theft, tmp_path)
            assert answer.startswith("http/2 "), answer
            assert "grpc-status: 0" not in answer


async def test_a_tls_route_ends_at_the_tenants_server(world: SyncerWorld, tmp_path: Path):
    """The gateway passes TLS through, so the peer has the tenant's certificate."""
    authority = trustme.CA()
    own, stolen = (authority.issue_cert(name) for name in ("own.example", "stolen.example"))
    with (
        serve("own", build_context(own)) as backend,
        serve("stolen", build_context(stolen)) as foreign_backend,
    ):
        async with real_gateway(world, tmp_path) as gateway:
            host, theft = fresh_host(), fresh_host()
            ref = await gateway.offer("secure", *backend)
            await gateway.route(TLS_ROUTES, "secure", host, ref, section="tls")
            foreign = await gateway.offer_foreign("secure", *foreign_backend)
            await gateway.route(TLS_ROUTES, "theft", theft, foreign, section="tls")
            expected = ssl.PEM_cert_to_DER_cert(own.cert_chain_pems[0].bytes().decode())
            await eventually(
                lambda: asyncio.to_thread(read_peer, gateway.tls, host),
                until=lambda found: found == expected,
                within=LOADED,
            )
            await gateway.wait_for_verdict(TLS_ROUTES, "theft", "False")
            assert await asyncio.to_thread(read_peer, gateway.tls, theft) == b""


async def test_a_backend_is_verified_by_the_authority_of_the_tenant(
    world: SyncerWorld, tmp_path: Path
):
    """A BackendTLSPolicy with another authority keeps the gateway from the server."""
    right, wrong = trustme.CA(), trustme.CA()
    context = build_context(right.issue_cert("backend.example"))
    with serve("verified", context) as backend:
        async with real_gateway(world, tmp_path) as gateway:
            hosts = {"right": fresh_host(), "wrong": fresh_host()}
            client, space = world.tenant_client, gateway.space
            for name, authority in (("right", right), ("wrong", wrong)):
                data = {"ca.crt": authority.cert_pem.bytes().decode()}
                body = {"metadata": {"name": name}, "data": data}
                await create(client, CONFIG_MAPS, body, namespace=space)
                ref = {"group": "", "kind": "ConfigMap", "name": name}
                validation = {"hostname": "backend.example", "caCertificateRefs": [ref]}
                target = {"group": "", "kind": "Service", "name": name}
                spec = {"targetRefs": [target], "validation": validation}
                policy = {"metadata": {"name": name}, "spec": spec}
                await create(client, TLS_POLICIES, policy, namespace=space)
                await eventually(lambda name=name: world.twin(TLS_POLICIES, space, name))
                await eventually(lambda name=name: world.twin(CONFIG_MAPS, space, name))
                service = await gateway.offer(name, *backend)
                await gateway.route(HTTP_ROUTES, name, hosts[name], service)
            await gateway.expect(hosts["right"], 200, "verified")
            status, text = await eventually(
                lambda: asyncio.to_thread(fetch, gateway.web, hosts["wrong"]),
                until=lambda answer: answer[0] >= 500,
                within=LOADED,
            )
            assert (status, "verified" in text) in ((500, False), (502, False))


async def test_a_grant_opens_a_second_namespace_of_the_tenant(world: SyncerWorld, tmp_path: Path):
    """The gateway refuses a Service of another namespace until a ReferenceGrant allows it."""
    with serve("far") as backend:
        async with real_gateway(world, tmp_path) as gateway:
            host, other = fresh_host(), await world.namespace()
            ref = await gateway.offer("far", *backend, space=other)
            await gateway.route(HTTP_ROUTES, "web", host, {**ref, "namespace": other})
            await gateway.wait_for_verdict(HTTP_ROUTES, "web", "False")
            await gateway.expect(host, 500)
            froms = [{"group": GROUP, "kind": "HTTPRoute", "namespace": gateway.space}]
            spec = {"from": froms, "to": [{"group": "", "kind": "Service", "name": "far"}]}
            body = {"metadata": {"name": "web"}, "spec": spec}
            await create(world.tenant_client, GRANTS, body, namespace=other)
            await gateway.expect(host, 200, "far")
            await gateway.wait_for_verdict(HTTP_ROUTES, "web", "True")
