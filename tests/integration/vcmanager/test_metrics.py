"""The metrics API of a tenant: made and taken away by the manager, and a real metrics-server in it.

No one routes Service addresses here, so the real one is found by a name instead of its address, and
an agent of the test's own answers for a node. Both verify each other as they do in a super cluster.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import orjson
import pytest
from cryptography import x509
from kubernetes.utils.quantity import parse_quantity

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import resources, wellknown
from tenancy.resources import API_SERVICES, DEPLOYMENTS, NODES, PODS, SECRETS, SERVICES
from tests.integration.vcmanager.conftest import ManagerStage
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.processes import ProgramProcess, free_port
from tests.support.vcmanager.factories import FACTS, UID, wish
from tools.testbed.artifacts import binaries
from vcmanager.pki import authority, inventory
from vcmanager.pki.authority import KeyPair
from vcmanager.plan import control_plane, metrics_api, service_cidrs
from vnagent.authz import client_identity

MADE = {"metrics-server-serving", "metrics-server-agent-client", "metrics-server-kubeconfig"}
API = "/apis/metrics.k8s.io/v1beta1"


async def names_inside(client: Client) -> set[tuple[str, str]]:
    """Return what of the metrics API a tenant has."""
    wanted = [
        *metrics_api.build_rbac(),
        *metrics_api.build_service("10.96.0.11"),
        metrics_api.build_api_service(b""),
    ]
    found = set()
    for each in wanted:
        kind, metadata = each["kind"], each["metadata"]
        resource = metrics_api._RESOURCES_BY_KIND[kind]
        try:
            await client.get(resource, metadata["name"], namespace=metadata.get("namespace", ""))
        except errors.NotFound:
            continue
        found.add((kind, metadata["name"]))
    return found


@pytest.fixture
async def metered(stage: ManagerStage) -> AsyncIterator[ManagerStage]:
    """The stage, whose one tenant's API has no metrics from another test, before and after."""
    await metrics_api.delete_objects(stage.tenants.client)
    yield stage
    await metrics_api.delete_objects(stage.tenants.client)


async def switch(stage: ManagerStage, cluster: Object, metrics: str) -> None:
    patch = {"spec": {"metrics": metrics}}
    name = cluster["metadata"]["name"]
    await stage.admin.patch(resources.VIRTUAL_CLUSTERS, name, patch, namespace="default")
    await stage.work(cluster)


async def ready(stage: ManagerStage, cluster: Object) -> str:
    found = await stage.condition(cluster, "Ready")
    return found["status"] if found is not None else ""


async def reason(stage: ManagerStage, cluster: Object) -> str:
    found = await stage.condition(cluster, wellknown.METRICS_READY)
    return found["reason"] if found is not None else ""


async def test_it_comes_with_the_word_and_goes_whole_with_it(metered: ManagerStage):
    stage = metered
    cluster = await stage.declare(metrics="managed")
    await stage.bring_up(cluster)
    assert await ready(stage, cluster) == "True"

    async def is_registered() -> bool:
        await stage.work(cluster)
        await stage.run_pods(cluster)
        return ("APIService", metrics_api.API_SERVICE_NAME) in await names_inside(
            stage.tenants.client
        )

    await eventually(is_registered)
    assert await stage.names_of(DEPLOYMENTS, cluster) == {"coredns", "metrics-server"}
    assert await stage.names_of(SECRETS, cluster) >= MADE
    root = stage.root(cluster)
    below = await stage.admin.get(SERVICES, "metrics-server", namespace=root)
    inside = await stage.tenants.client.get(SERVICES, "metrics-server", namespace="kube-system")
    network = ip_network((await stage.fresh(cluster))["status"]["serviceCidr"])
    assert below["spec"]["clusterIP"] == inside["spec"]["clusterIP"] == str(network[11])
    # No one routes that address here, and so the API server says that it is not reached.
    await stage.work(cluster)
    assert await reason(stage, cluster) not in ("", "Ready")
    assert await ready(stage, cluster) == "True"

    await switch(stage, cluster, "none")
    assert await names_inside(stage.tenants.client) == set()
    assert await stage.names_of(DEPLOYMENTS, cluster) == {"coredns"}
    assert not await stage.names_of(SECRETS, cluster) & MADE
    assert "metrics-server" not in await stage.names_of(SERVICES, cluster)
    assert await stage.condition(cluster, wellknown.METRICS_READY) is None
    assert await ready(stage, cluster) == "True"


async def test_the_group_goes_while_it_has_no_endpoint(metered: ManagerStage):
    stage = metered
    cluster = await stage.declare(metrics="managed")
    await stage.bring_up(cluster)
    group = ("APIService", metrics_api.API_SERVICE_NAME)

    async def is_registered() -> bool:
        await stage.work(cluster)
        await stage.run_pods(cluster)
        return group in await names_inside(stage.tenants.client)

    await eventually(is_registered)
    page = await stage.admin.list(
        PODS,
        namespace=stage.root(cluster),
        label_selector=f"{wellknown.COMPONENT}=metrics-server",
    )
    for pod in page["items"]:
        await stage.admin.delete(
            PODS, pod["metadata"]["name"], namespace=stage.root(cluster), grace_seconds=0
        )

    async def is_gone() -> bool:
        await stage.work(cluster)
        return group not in await names_inside(stage.tenants.client)

    await eventually(is_gone)
    assert await ready(stage, cluster) == "True"


async def test_a_tenant_with_a_taken_eleventh_address_is_ready_without_it(metered: ManagerStage):
    stage = metered
    cluster = await stage.declare()
    await stage.bring_up(cluster)
    network = ip_network((await stage.fresh(cluster))["status"]["serviceCidr"])
    name = f"eleventh-{cluster['metadata']['name']}"
    spec = {"clusterIP": str(network[11]), "ports": [{"port": 80}]}
    somebodys = {"metadata": {"name": name}, "spec": spec}
    await stage.admin.create(SERVICES, somebodys, namespace="default")
    await switch(stage, cluster, "managed")
    assert await reason(stage, cluster) == "AddressTaken"
    assert await ready(stage, cluster) == "True"
    await stage.admin.delete(SERVICES, name, namespace="default")

    async def is_had() -> bool:
        await stage.work(cluster)
        return "metrics-server" in await stage.names_of(SERVICES, cluster)

    await eventually(is_had)
    assert await reason(stage, cluster) != "AddressTaken"


async def test_a_tenants_own_metrics_server_stays_until_the_managed_one_is_requested(
    metered: ManagerStage,
):
    stage = metered
    client = stage.tenants.client
    own = {
        "metadata": {"name": "metrics-server", "labels": {"app": "own"}},
        "spec": {"clusterIP": "10.96.250.250", "ports": [{"port": 443}]},
    }
    await client.create(SERVICES, own, namespace="kube-system")
    try:
        cluster = await stage.declare(metrics="managed")
        await stage.bring_up(cluster)
        await stage.work(cluster)
        assert await reason(stage, cluster) == "Refused"
        assert await ready(stage, cluster) == "True"
        await switch(stage, cluster, "none")
        found = await client.get(SERVICES, "metrics-server", namespace="kube-system")
        assert found["spec"]["clusterIP"] == "10.96.250.250"
    finally:
        await client.delete(SERVICES, "metrics-server", namespace="kube-system")


# A real metrics-server.


class MetricsAgent:
    """Stands for the agent of a node: one pod that takes a tenth of a core and 64 MiB."""

    def __init__(self, serving: KeyPair, clients: KeyPair, folder: Path) -> None:
        self.asked: list[tuple[str, bytes]] = []
        """Path and certificate of each request."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        (folder / "agent.crt").write_bytes(serving.certificate)
        (folder / "agent.key").write_bytes(serving.key)
        context.load_cert_chain(folder / "agent.crt", folder / "agent.key")
        context.load_verify_locations(cadata=clients.certificate.decode())
        context.verify_mode = ssl.CERT_REQUIRED
        agent = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                agent.asked.append((self.path, self.connection.getpeercert(binary_form=True)))
                body = _figures()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _figures() -> bytes:
    now = int(time.time() * 1000)
    labels = 'container="main",namespace="default",pod="busy"'
    cpu, memory = now / 1000 * 0.1, 64 << 20
    return (
        f"container_cpu_usage_seconds_total{{{labels}}} {cpu} {now}\n"
        f"container_memory_working_set_bytes{{{labels}}} {memory} {now}\n"
        f"container_start_time_seconds{{{labels}}} {now / 1000 - 3600}\n"
        f"node_cpu_usage_seconds_total {cpu} {now}\n"
        f"node_memory_working_set_bytes {memory} {now}\n"
        "resource_scrape_error 0\n"
    ).encode()


@dataclass(frozen=True, kw_only=True)
class MetricsTenant:
    """A tenant's API with a metrics-server."""

    plane: LocalControlPlane
    agent: MetricsAgent
    agents: KeyPair
    server: ProgramProcess


def _unpacked(deployment: Object, pairs: dict[str, KeyPair], trust: bytes, folder: Path) -> None:
    """Lay the files out that the pod would find."""
    for volume in deployment["spec"]["template"]["spec"]["volumes"]:
        for source in volume.get("projected", {}).get("sources", ()):
            for item in (source.get("secret") or source["configMap"])["items"]:
                path = folder / "pki" / item["path"]
                path.parent.mkdir(parents=True, exist_ok=True)
                if "secret" in source:
                    pair = pairs[source["secret"]["name"]]
                    content = pair.certificate if item["key"] == "tls.crt" else pair.key
                else:
                    content = trust
                path.write_bytes(content)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetricsTenant]:
    """A tenant's API and its metrics-server, as the manager would have them run."""
    folder: Path = tmp_path_factory.mktemp("metrics")
    now, lifetime = datetime.now(UTC), timedelta(days=1)
    roots = {
        name: authority.make_authority(name, now=now)
        for name in ("serving", "front-proxy", "agent-client", "agent-serving")
    }
    facts = replace(FACTS, has_metrics=True)
    pairs = {
        leaf.secret: authority.make_leaf(
            roots[leaf.authority], leaf.subject, lifetime=lifetime, now=now
        )
        for leaf in inventory.list_leaves(facts)
        if leaf.authority in roots
    }
    proxy = pairs["front-proxy-ca"]
    for name, content in (
        ("front-proxy.crt", roots["front-proxy"].certificate),
        ("proxy.crt", proxy.certificate),
        ("proxy.key", proxy.key),
    ):
        (folder / name).write_bytes(content)
    plane = LocalControlPlane(
        folder / "tenant",
        name="tenant",
        api_args={
            "requestheader-client-ca-file": str(folder / "front-proxy.crt"),
            "requestheader-allowed-names": "front-proxy-client",
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "proxy-client-cert-file": str(folder / "proxy.crt"),
            "proxy-client-key-file": str(folder / "proxy.key"),
        },
    )
    host = authority.CertificateSubject(
        common_name="vn-agent", addresses=("127.0.0.1",), usages=frozenset({"server"})
    )
    agent = MetricsAgent(
        authority.make_leaf(roots["agent-serving"], host, lifetime=lifetime, now=now),
        roots["agent-client"],
        folder,
    )
    slice_ = service_cidrs.ServiceRange(ip_network("10.96.8.0/22"))
    _, deployment = control_plane.build_plan(wish(metrics="managed"), slice_).metrics
    _unpacked(deployment, pairs, roots["agent-serving"].certificate, folder)
    (folder / "kubeconfig").mkdir()
    port = free_port()

    async def furnish() -> None:
        await plane.start()
        user = plane.kubeconfig(wellknown.METRICS_USER, group="")
        (folder / "kubeconfig" / "metrics-server-kubeconfig").write_bytes(user)
        async with Client(plane.endpoint) as client:
            await metrics_api.apply_objects(client, metrics_api.build_rbac())
            service = metrics_api.build_service(slice_.metrics_address)[0]
            service["spec"] = {"type": "ExternalName", "externalName": "localhost"}
            group = metrics_api.build_api_service(roots["serving"].certificate)
            group["spec"]["service"]["port"] = port
            await metrics_api.apply_objects(client, [service, group])

    asyncio.run(furnish())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    replaced = {
        "/etc/kubernetes/kubeconfig": str(folder / "kubeconfig"),
        "/etc/kubernetes/pki": str(folder / "pki"),
        f"--secure-port={service_cidrs.METRICS_PORT}": f"--secure-port={port}",
    }
    words = [str(binaries.path("metrics-server"))]
    for word in container["args"]:
        for ours, here in replaced.items():
            word = word.replace(ours, here)  # noqa: PLW2901 - one word, several places
        words.append(word)
    env = {each["name"]: each["value"] for each in container["env"]}
    server = ProgramProcess(words, folder / "metrics-server.log", env)
    try:
        yield MetricsTenant(plane=plane, agent=agent, agents=roots["agent-client"], server=server)
    finally:
        asyncio.run(server.stop())
        asyncio.run(plane.stop())
        agent.close()


async def items(client: Client, path: str) -> list[Object]:
    """Return what the metrics API lists."""
    found: list[Object] = orjson.loads(await client.raw("GET", f"{API}{path}"))["items"]
    return found


async def is_reached(real: MetricsTenant, client: Client) -> None:
    """Wait until the API server has found the metrics-server."""

    async def look() -> metrics_api.MetricsApiReachability:
        assert not real.server.has_ended, real.server.tail()
        return metrics_api.read_reachability(
            await client.get(API_SERVICES, metrics_api.API_SERVICE_NAME)
        )

    await eventually(look, until=lambda found: found.is_reached, within=90)


async def test_the_group_answers_without_nodes_and_then_has_what_the_agent_of_one_reports(
    real: MetricsTenant,
):
    """Otherwise the API server would report it as unavailable, and delete no namespace."""
    async with Client(real.plane.endpoint) as client:
        await is_reached(real, client)
        assert await items(client, "/nodes") == []
        assert await items(client, "/pods") == []
        await client.create(NODES, {"metadata": {"name": "node-1"}})
        status = {
            "addresses": [
                {"type": "InternalIP", "address": "192.0.2.7"},
                {"type": wellknown.AGENT_ADDRESS, "address": "127.0.0.1"},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": real.agent.port}},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        await client.patch(NODES, "node-1", {"status": status}, subresource="status")
        pod = {
            "metadata": {"name": "busy"},
            "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "x"}]},
        }
        await client.create(PODS, pod, namespace="default")
        running = {"status": {"phase": "Running"}}
        await client.patch(PODS, "busy", running, namespace="default", subresource="status")
        (found,) = await eventually(lambda: items(client, "/nodes"), within=120)
        assert found["metadata"]["name"] == "node-1"
        assert parse_quantity(found["usage"]["memory"]) == 64 * 2**20
        (found,) = await eventually(lambda: items(client, "/namespaces/default/pods"), within=60)
        assert [each["name"] for each in found["containers"]] == ["main"]
        assert found["containers"][0]["usage"]["cpu"] != "0"
    assert {path for path, _ in real.agent.asked} == {"/metrics/resource"}
    trusted = [x509.load_pem_x509_certificate(real.agents.certificate)]
    callers = {
        client_identity.read_identity(certificate, trusted, datetime.now(UTC)).vc_uid
        for _, certificate in real.agent.asked
    }
    assert callers == {UID}


async def test_who_may_not_read_pods_reads_no_figures_of_them(real: MetricsTenant):
    async with (
        Client(real.plane.endpoint) as admin,
        Client(real.plane.endpoint_for("nobody")) as client,
    ):
        await is_reached(real, admin)
        with pytest.raises(errors.Forbidden):
            await client.raw("GET", f"{API}/pods")


async def test_the_group_of_the_scraper_reads_metrics_and_nothing_else(inside: LocalControlPlane):
    facts = replace(FACTS, has_scrapers=True)
    leaves = {each.secret: each.subject for each in inventory.list_leaves(facts)}
    subject = leaves["apiserver-scraper-client"]
    (group,) = subject.organizations
    endpoint = inside.endpoint_for(subject.common_name, group=group)
    async with Client(endpoint) as client:
        assert b"apiserver_request_total" in await client.raw("GET", "/metrics", accept="*/*")
        for resource in (resources.NAMESPACES, resources.SECRETS, resources.NODES):
            with pytest.raises(errors.Forbidden):
                await client.list(resource)
