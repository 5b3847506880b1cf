"""The API proxy: real HAProxy processes with the chart's configuration, and a real super cluster.

The tenants' API servers are TLS servers of the test, and one of them is a real kube-apiserver.
"""

import asyncio
import contextlib
import itertools
import json
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kubeio import Object
from kubeio.api.client import Client
from kubeio.errors import NotFound
from tenancy import resources, wellknown
from tests.integration.vcmanager.conftest import installed
from tests.support import grants
from tests.support.api_proxies import WATCH, ProxyReplica, ServiceRotation, TenantApi
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.own_address import OWN, needs_address
from tools.testbed.artifacts import binaries
from vcmanager.rbac import API_PROXY_RBAC_RULES

pytestmark = needs_address
BASE_DOMAIN = "clusters.example.com"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
TENANTS = 100
TOGETHER = 30
"""Tenants that are served at the same time."""
ASKING = 4
"""Clients that ask tenants all the time."""
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    with installed(tmp_path_factory.mktemp("home")) as made:
        yield made


@dataclass
class Stage:
    """The super cluster, and two replicas of the proxy."""

    admin: Client
    kubeconfig: Path
    folder: Path
    namespace: str
    rotation: ServiceRotation
    started: list[ProxyReplica] = field(default_factory=list)
    servers: list[asyncio.Server] = field(default_factory=list)

    async def serve(self, name: str, host: str) -> TenantApi:
        """Start the API of a tenant that is not declared. It ends with the test."""
        api = TenantApi(name, host)
        self.servers.append(await api.start())
        return api

    async def serve_plain(self, handler: Handler) -> str:
        """Start a server without TLS, and return its address."""
        server = await asyncio.start_server(handler, OWN, 0)
        self.servers.append(server)
        return f"{OWN}:{server.sockets[0].getsockname()[1]}"

    async def add_replica(self) -> ProxyReplica:
        """Start a replica, and put it into the rotation when it is ready."""
        folder = self.folder / f"r{len(self.started)}"
        replica = ProxyReplica(folder, self.kubeconfig, BASE_DOMAIN)
        self.started.append(replica)
        replica.start()
        await eventually(replica.is_ready, within=60)
        self.rotation.replicas.append(replica)
        return replica

    async def declare(self, name: str, *, hostname: str = "", address: str = "") -> Object:
        """Create a VirtualCluster, with the address that vc-manager writes."""
        body = {
            "apiVersion": resources.VIRTUAL_CLUSTERS.api_version,
            "kind": "VirtualCluster",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "clusterVersionName": "v",
                **({"endpoint": {"hostname": hostname}} if hostname else {}),
            },
        }
        made = await self.admin.create(resources.VIRTUAL_CLUSTERS, body, namespace=self.namespace)
        await self.write_address(name, address)
        return made

    async def write_address(self, name: str, address: str) -> None:
        """Write what vc-manager writes."""
        await self.admin.patch(
            resources.VIRTUAL_CLUSTERS,
            name,
            {"status": {"apiServerAddress": address}},
            namespace=self.namespace,
            subresource="status",
        )

    async def delete(self, name: str) -> None:
        """Delete a VirtualCluster."""
        with contextlib.suppress(NotFound):
            await self.admin.delete(resources.VIRTUAL_CLUSTERS, name, namespace=self.namespace)

    async def publish(self, name: str, *, hostname: str = "") -> TenantApi:
        """Start a tenant's API, declare it, and wait until all replicas serve it."""
        api = await self.serve(name, hostname or f"{name}.{self.namespace}.{BASE_DOMAIN}")
        await self.declare(name, hostname=hostname, address=api.address)
        await self.wait_served(api.host)
        return api

    async def wait_served(self, host: str, *, is_served: bool = True) -> None:
        """Wait until each replica in the rotation has a host name, or has it no longer."""

        async def look() -> bool:
            maps = [await each.read_hosts() for each in self.rotation.replicas]
            return all((host in found) is is_served for found in maps)

        await eventually(look, within=30)

    async def is_refused(
        self, api: TenantApi, *, host: str = "", replica: ProxyReplica | None = None
    ) -> bool:
        """Return whether a new connection is closed before any answer."""
        try:
            async with api.connect((replica or self.rotation.choose()).port, host):
                return False
        except ssl.SSLCertVerificationError:
            return False
        except OSError:
            return True


@pytest.fixture
async def stage(home: LocalControlPlane, tmp_path: Path) -> AsyncIterator[Stage]:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_bytes(home.kubeconfig(wellknown.API_PROXY, group=""))
    kubeconfig.chmod(0o600)
    async with Client(home.endpoint) as admin:
        await grants.grant(admin, API_PROXY_RBAC_RULES, wellknown.API_PROXY)
        namespace = f"proxy-{next(_numbers)}"
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await admin.create(resources.NAMESPACES, space)
        made = Stage(admin, kubeconfig, tmp_path, namespace, ServiceRotation())
        try:
            await asyncio.gather(made.add_replica(), made.add_replica())
            yield made
        finally:
            for replica in made.started:
                await replica.close()
            for server in made.servers:
                server.close()
            await asyncio.sleep(0.1)  # connections of servers see the end of the proxy
            await admin.delete(resources.NAMESPACES, namespace)


async def test_no_request_fails_while_tenants_come_and_go_and_replicas_are_replaced(stage: Stage):
    """A hundred tenants, both replicas replaced, and a watch that is silent meanwhile."""
    first = await stage.publish("watched")
    served: dict[str, TenantApi] = {}
    failed: list[str] = []
    asked = 0
    is_over = asyncio.Event()

    async def ask_all_the_time() -> None:
        nonlocal asked
        while not is_over.is_set():
            for name, api in list(served.items()):
                if name not in served:
                    continue
                try:
                    answer = await api.ask(stage.rotation.choose().port)
                except (OSError, TimeoutError) as problem:
                    answer = repr(problem)
                asked += 1
                if answer != name and name in served:
                    failed.append(f"{name}: {answer}")
            await asyncio.sleep(0)

    async def come_and_go(numbers: range) -> None:
        for number in numbers:
            name = f"t{number}"
            served[name] = await stage.publish(name)
            leaving = f"t{number - TOGETHER}"
            if leaving in served:
                api = served.pop(leaving)
                await stage.delete(leaving)
                await stage.wait_served(api.host, is_served=False)
                assert await stage.is_refused(api)
                api.close()

    async def replace(old: ProxyReplica) -> None:
        await stage.add_replica()
        stage.rotation.replicas.remove(old)  # the endpoint controller, during the hook preStop
        await asyncio.sleep(0.5)
        old.stop_softly()

    old = list(stage.rotation.replicas)
    async with contextlib.AsyncExitStack() as open_watches:
        watches = []
        for replica in old:
            reader, writer = await open_watches.enter_async_context(first.connect(replica.port))
            writer.write(WATCH)
            assert await reader.readline() == b"watching\n"
            watches.append(reader)
        clients = [asyncio.ensure_future(ask_all_the_time()) for _ in range(ASKING)]
        await come_and_go(range(TENANTS // 3))
        await replace(old[0])
        await come_and_go(range(TENANTS // 3, 2 * TENANTS // 3))
        await replace(old[1])
        await come_and_go(range(2 * TENANTS // 3, TENANTS))
        is_over.set()
        await asyncio.gather(*clients)
        assert failed == []
        assert asked > 10 * TENANTS
        assert len(served) == TOGETHER
        print(f"{asked} requests of {TENANTS} tenants, {len(failed)} failed")
        for replica in old:  # they accept nothing, and keep the open watches
            assert replica.haproxy is not None
            assert not replica.haproxy.has_ended
            with pytest.raises(OSError):
                await first.ask(replica.port)
        first.events.set()
        assert [await each.readline() for each in watches] == [b"watched\n"] * 2
    for replica in old:
        assert replica.haproxy is not None
        await eventually(lambda each=replica.haproxy: each.has_ended, within=20)


async def test_an_unknown_name_no_name_and_no_tls_are_refused(stage: Stage):
    api = await stage.publish("one")
    port = stage.rotation.choose().port
    assert await api.ask(port) == "one"
    assert await stage.is_refused(api, host=f"two.{stage.namespace}.{BASE_DOMAIN}")
    assert await stage.is_refused(api, host=BASE_DOMAIN)
    assert await stage.is_refused(api, host="127.0.0.1")  # a client sends no SNI for an address
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: one\r\n\r\n")
    async with asyncio.timeout(20):
        assert await reader.read() == b""
    writer.close()


async def test_case_of_a_name_does_not_matter(stage: Stage):
    api = await stage.publish("one")
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.rotation.choose().port)
    writer.write(_build_hello(api.host.upper()))
    assert (await reader.read(1))[0] == 22  # a TLS handshake record
    writer.close()


async def test_a_name_stays_with_the_older_tenant_and_addresses_are_checked(stage: Stage):
    host = "shop.example.com"
    older = await stage.publish("older", hostname=host)
    newer = await stage.serve("newer", host)
    # Timestamps have seconds, and the UID decides within one. Thieves are created in a later one.
    await asyncio.sleep(1.1)
    await stage.declare("newer", hostname=host, address=newer.address)
    generated = f"older.{stage.namespace}.{BASE_DOMAIN}"
    await stage.declare("thief", hostname=generated, address=newer.address)
    for number, text in enumerate(("127.0.0.1:2379", "169.254.169.254:80", "etcd:2379", OWN)):
        await stage.declare(f"bad{number}", address=text)
    await stage.publish("last")
    for replica in stage.rotation.replicas:
        assert await older.ask(replica.port) == "older"
        found = await replica.read_hosts()
        assert generated not in found
        assert not [each for each in found if each.startswith("bad")]
    await stage.delete("older")  # then the name is free
    await eventually(lambda: newer.try_ask(stage.rotation.replicas[0].port), within=20)
    assert await newer.ask(stage.rotation.replicas[0].port) == "newer"


async def test_a_changed_address_is_followed(stage: Stage):
    old = await stage.publish("moved")
    new = await stage.serve("moved-again", old.host)
    await stage.write_address("moved", new.address)

    async def ask() -> str:
        return await new.try_ask(stage.rotation.replicas[0].port)

    assert await eventually(ask, until=lambda found: found == "moved-again") == "moved-again"


async def test_each_direction_ends_by_itself(stage: Stage):
    """A client that has sent everything still gets the answer, and the other way round."""
    done = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello = await reader.read()  # until the client has closed its direction
        await done.wait()
        writer.write(b"answer to %d bytes" % len(hello))
        writer.close()

    async def close_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write_eof()
        received.extend(await reader.read())
        writer.close()

    received = bytearray()
    for name, handler in (("late", answer), ("early", close_first)):
        address = await stage.serve_plain(handler)
        await stage.declare(name, hostname=f"{name}.example.com", address=address)
        await stage.wait_served(f"{name}.example.com")
    port = stage.rotation.choose().port
    hello = _build_hello("late.example.com")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(hello)
    writer.write_eof()
    await asyncio.sleep(6)  # longer than the time for a ClientHello
    done.set()
    assert await reader.read() == b"answer to %d bytes" % len(hello)
    writer.close()
    hello = _build_hello("early.example.com")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(hello)
    assert await reader.read() == b""
    await asyncio.sleep(6)
    writer.write(b"more")
    writer.write_eof()
    await eventually(lambda: bytes(received), until=lambda found: found == hello + b"more")
    writer.close()


async def test_restarts_of_either_process_lose_no_tenant(stage: Stage):
    api = await stage.publish("kept")
    replica = stage.rotation.replicas[0]
    assert replica.haproxy is not None
    assert replica.sidecar is not None
    replica.haproxy.kill()
    replica.start_haproxy()  # with the map of the file
    await eventually(lambda: api.try_ask(replica.port), within=20)
    replica.sidecar.kill()
    assert await api.ask(replica.port) == "kept"
    await stage.delete("kept")  # while the sidecar is away
    replica.start_sidecar()
    await stage.wait_served(api.host, is_served=False)
    assert await replica.is_ready()


async def test_one_tenant_cannot_take_all_connections(stage: Stage):
    greedy, other = await stage.publish("greedy"), await stage.publish("other")
    port = stage.rotation.replicas[0].port
    async with contextlib.AsyncExitStack() as opened:
        for _ in range(101):  # the limit of the replica is 100
            with contextlib.suppress(OSError):
                _, writer = await opened.enter_async_context(greedy.connect(port))
                writer.write(WATCH)
        with pytest.raises(OSError):
            await greedy.ask(port)
        assert await other.ask(port) == "other"
    await eventually(lambda: greedy.try_ask(port), within=20)


async def test_haproxy_has_metrics(stage: Stage):
    replica = stage.rotation.replicas[0]
    assert await stage.is_refused(TenantApi("none", "none.example.com"), replica=replica)
    answer = await replica.fetch(replica.status_port, "/metrics")
    assert 'haproxy_frontend_requests_denied_total{proxy="apis"} 1\n' in answer
    assert 'haproxy_frontend_current_sessions{proxy="apis"}' in answer
    assert "404" in (await replica.fetch(replica.status_port, "/stats")).splitlines()[0]
    assert "vc_api_proxy_hosts" in await replica.fetch(replica.probe_port, "/metrics")


async def test_kubectl_and_a_watch_of_a_real_api_server(stage: Stage, tmp_path: Path):
    """One tenant with a real kube-apiserver: kubectl sends the name of `tls-server-name` as SNI."""
    plane = LocalControlPlane(tmp_path / "plane", name="real")
    host = "kubernetes.default.svc"  # a name in the certificate of the plane
    await plane.start()
    try:
        address = await stage.serve_plain(_relay_to(plane))
        await stage.declare("real", hostname=host, address=address)
        await stage.wait_served(host)
        old = stage.rotation.replicas[0]
        kubeconfig = json.loads(plane.kubeconfig())
        cluster = kubeconfig["clusters"][0]["cluster"]
        cluster |= {"server": f"https://127.0.0.1:{old.port}", "tls-server-name": host}
        file = tmp_path / "kubeconfig-of-tenant"
        file.write_text(json.dumps(kubeconfig))
        kubectl = [str(binaries.path("kubectl")), "--kubeconfig", str(file)]
        watch = await asyncio.create_subprocess_exec(
            *(*kubectl, "get", "configmaps", "-w", "-o", "name"), stdout=subprocess.PIPE
        )
        assert watch.stdout is not None

        async def run(*words: str) -> str:
            process = await asyncio.create_subprocess_exec(
                *kubectl, *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            output, _ = await process.communicate()
            assert process.returncode == 0, output.decode()
            return output.decode()

        await run("create", "configmap", "before")
        async with asyncio.timeout(60):
            while await watch.stdout.readline() != b"configmap/before\n":
                pass
        await stage.add_replica()
        stage.rotation.replicas.remove(old)
        old.stop_softly()
        cluster["server"] = f"https://127.0.0.1:{stage.rotation.replicas[-1].port}"
        file.write_text(json.dumps(kubeconfig))
        await run("create", "configmap", "after")
        async with asyncio.timeout(60):
            assert await watch.stdout.readline() == b"configmap/after\n"
        watch.kill()
        await watch.wait()
    finally:
        await plane.stop()


def _relay_to(plane: LocalControlPlane) -> Handler:
    """Return a handler that passes bytes to the API server, which listens on loopback."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = int(plane.server.rpartition(":")[2])
        there, back = await asyncio.open_connection("127.0.0.1", port)
        try:
            await asyncio.gather(_pump(reader, back), _pump(there, writer))
        finally:
            for each in (back, writer):
                each.transport.abort()

    return handle


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
        target.write_eof()


def _build_hello(host: str) -> bytes:
    """Return the first record of a TLS client with this server name."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    peer = context.wrap_bio(incoming, outgoing, server_hostname=host)
    with contextlib.suppress(ssl.SSLWantReadError):
        peer.do_handshake()
    return outgoing.read()
