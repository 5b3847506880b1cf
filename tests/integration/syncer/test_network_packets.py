"""Packets of two tenants with equal networks, through the real plugins, in network namespaces.

The stand-in for Multus runs by itself, with a real API server, the plugins bridge and Whereabouts,
and two nodes that are connected by a trunk. The networks are those that the rules of the syncer
build. There is no kubelet.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from kubeio.api.client import Client
from kubeio.errors import AlreadyExists
from syncer.model.tenant_view import TenantView
from syncer.rules.network.attachments import (
    definitions,
    network_status,
    primary_networks,
    segments,
    selections,
)
from syncer.rules.network.attachments.network_status import STATUS_ANNOTATIONS
from syncer.rules.network.attachments.selections import DEFAULT_NETWORK, NETWORKS, SelectionContext
from tenancy.ownership import Tenant
from tenancy.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    NETWORK_ATTACHMENTS,
    PODS,
    SERVICE_ACCOUNTS,
    Resource,
)
from tests.integration.syncer.objects import pod
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.forwarding import reachable_in
from tests.support.names import fresh_name
from tests.support.syncer.attachments import NETWORK, OWN, attachment_view, bridge, definition
from tests.support.syncer.tenant_views import entry_of
from tools.testbed.artifacts import binaries
from tools.testbed.networks import meta_plugin, node_networks

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="creates network namespaces"),
]

PACKETS = 5_000
ACROSS = 25_000
"""Datagrams between two pods of a tenant, beside another tenant with equal addresses."""
PODS_PER_TENANT = 50
NODES = 2
POOLS = Resource("whereabouts.cni.cncf.io", "v1alpha1", "ippools", "IPPool")
SAME = bridge(bridge=OWN, vlan=0, ipam={"type": "whereabouts", "range": "10.20.0.0/24"})
POOL = {"type": "whereabouts", "range": "10.100.0.0/16"}
SHARED = {
    "bridge": bridge(vlan=0, ipam=POOL),
    "macvlan": {"type": "macvlan", "master": "br-shared", "mode": "bridge", "ipam": POOL},
}
"""Untagged networks that tenants share, by the plugin."""
SERVER = """
import socket, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("0.0.0.0", 7777))
print("ready", flush=True)
while True:
    data, place = server.recvfrom(64)
    server.sendto(sys.argv[1].encode() + b":" + data, place)
"""
CLIENT = """
import socket, sys
target, count = sys.argv[1], int(sys.argv[2])
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(0.3)
found = {}
for number in range(count):
    client.sendto(b"%d" % number, (target, 7777))
    try:
        said = client.recv(64).decode().split(":")[0]
    except OSError:
        said = "nothing"
    found[said] = found.get(said, 0) + 1
    if said == "nothing" and number > 20:
        break
import json
print(json.dumps(found))
"""
COUNTER = """
import collections, json, socket, sys
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
raw.bind((sys.argv[1], 0))
raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 26)
raw.settimeout(0.2)
print("ready", flush=True)
import select
found = collections.Counter()
while True:
    try:
        frame = raw.recv(64)
    except TimeoutError:
        if select.select([sys.stdin], [], [], 0)[0]:
            break
        continue
    found[frame[6:12].hex(":")] += 1
print(json.dumps(found))
"""
"""Counts the frames of an interface by the address that sent them, until its input ends."""


def ip(*words: str) -> None:
    """Run ip."""
    subprocess.run(["ip", *words], check=True)


@dataclass(kw_only=True)
class Machines:
    """Two nodes and a hub as network namespaces, and the pods on them."""

    client: Client
    folder: Path
    mark: str
    views: dict[str, TenantView]
    pods: list[str] = field(default_factory=list)
    servers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def space(self, name: str) -> str:
        """Return the name of a network namespace of this test."""
        return f"{self.mark}-{name}"

    def config(self, node: int) -> dict[str, Any]:
        """Return the stand-in's configuration on a node, over an ordinary default network."""
        delegate = {
            "cniVersion": "1.0.0",
            "name": "default",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": "cni0",
                    "ipam": {
                        "type": "host-local",
                        "subnet": f"10.250.{node}.0/24",
                        "dataDir": str(self.folder / f"host-local-{node}"),
                    },
                }
            ],
        }
        found = node_networks.build_config(
            delegate,
            kubeconfig=self.folder / "kubeconfig",
            state=self.folder / f"state-{node}",
        )
        return {"cniVersion": "1.0.0", "name": "meta", **found}

    def call(
        self, command: str, node: int, namespace: str, name: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the stand-in on a node as a runtime does. The way to the API needs the event loop."""
        space = self.space(name)
        environment = {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": space,
            "CNI_NETNS": f"/run/netns/{space}",
            "CNI_IFNAME": "eth0",
            "CNI_ARGS": f"IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name}",
            "CNI_PATH": f"{self.folder}/bin:{binaries.path('bridge').parent}",
            "PATH": os.environ["PATH"],
        }
        program = str(self.folder / "bin" / node_networks.PLUGIN)
        return subprocess.run(
            ["ip", "netns", "exec", self.space(f"node{node}"), program],
            input=json.dumps(self.config(node)),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    async def namespace(self, space: str) -> None:
        """Create a super namespace, and wait for the account of its pods."""
        with contextlib.suppress(AlreadyExists):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
            await self.client.create(NAMESPACES, body)
        await eventually(lambda: self.client.get(SERVICE_ACCOUNTS, "default", namespace=space))

    async def network(self, tenant: str, config: dict[str, Any], name: str = "lab") -> None:
        """Create the twin of a tenant's network."""
        view = self.views[tenant]
        await self.namespace(view.get_super_namespace("web"))
        twin = definitions.build_definition(definition(config, name=name), view)
        await self.client.create(NETWORK_ATTACHMENTS, twin)

    async def attach(
        self, tenant: str, name: str, node: int, networks: str = "lab"
    ) -> dict[str, Any]:
        """Create a pod with additional networks, attach it, and return the status by network."""
        view = self.views[tenant]
        context = SelectionContext(
            attachments=view.policy.network.attachments,
            get_super_namespace=view.get_super_namespace,
            find_segment=lambda *_: None,
        )
        annotations = selections.translate_annotations({NETWORKS: networks}, "web", context)
        return await self.attach_annotated(tenant, name, node, annotations)

    async def attach_annotated(
        self, tenant: str, name: str, node: int, annotations: dict[str, str]
    ) -> dict[str, Any]:
        """Create a super pod with these annotations, attach it, and return its status."""
        space = self.views[tenant].get_super_namespace("web")
        body = pod(name, automountServiceAccountToken=False)
        body["metadata"]["annotations"] = annotations
        await self.client.create(PODS, body, namespace=space)
        ip("netns", "add", self.space(name))
        self.pods.append(name)
        done = await asyncio.to_thread(self.call, "ADD", node, space, name)
        assert done.returncode == 0, done.stdout + done.stderr
        seen = await self.client.get(PODS, name, namespace=space)
        annotations = seen["metadata"]["annotations"]
        assert annotations[meta_plugin.STAND_IN] == "meta_plugin"
        text = network_status.translate_status(annotations[STATUS_ANNOTATIONS[0]], {space: "web"})
        entries = json.loads(text)
        return {each["name"]: each for each in entries}

    def list_links(self, name: str) -> list[str]:
        """Return the interfaces of a pod."""
        words = ["ip", "-n", self.space(name), "-json", "link"]
        done = subprocess.run(words, capture_output=True, check=True)
        return [each["ifname"] for each in json.loads(done.stdout)]

    def serve(self, name: str, word: str) -> None:
        """Answer datagrams in a pod with a word."""
        server = subprocess.Popen(
            ["ip", "netns", "exec", self.space(name), sys.executable, "-c", SERVER, word],
            stdout=subprocess.PIPE,
        )
        assert server.stdout is not None
        server.stdout.readline()
        server.stdout.close()
        self.servers.append(server)

    def count_frames(self, name: str, interface: str = "net1") -> subprocess.Popen[bytes]:
        """Start to count the frames of an interface. End it with `read_frames`."""
        words = ["ip", "netns", "exec", self.space(name), sys.executable, "-c", COUNTER, interface]
        counter = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert counter.stdout is not None
        counter.stdout.readline()
        return counter

    async def ask(self, name: str, address: str, count: int = PACKETS) -> dict[str, int]:
        """Send datagrams from a pod. Return how often each word answered."""
        words = ["ip", "netns", "exec", self.space(name), sys.executable, "-c", CLIENT]
        done = await asyncio.to_thread(
            subprocess.run, [*words, address, str(count)], capture_output=True, check=True
        )
        found: dict[str, int] = json.loads(done.stdout)
        return found


def tenants(mark: str) -> dict[str, TenantView]:
    """Return two tenants, each with a service range of its own."""
    return {
        name: attachment_view(
            tenant=Tenant(name=name, namespace=mark, uid=f"{mark}-{name}", root=f"{mark}-{name}"),
            service_range=service_range,
        )
        for name, service_range in (("a", "10.96.8.0/22"), ("b", "10.96.12.0/22"))
    }


@pytest.fixture
def spaces() -> Iterator[Callable[[str], str]]:
    """Network namespaces that end with the test."""
    made: list[str] = []

    def make(name: str) -> str:
        ip("netns", "add", name)
        made.append(name)
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        return name

    yield make
    for name in made:
        ip("netns", "delete", name)


def test_nodes_that_have_the_trunk_are_connected_again_without_a_change(
    spaces: Callable[[str], str],
):
    mark = fresh_name("t")[:8]
    hub, node = (f"/run/netns/{spaces(f'{mark}-{each}')}" for each in ("hub", "node"))
    assert not node_networks.has_trunk(node)
    for _ in range(2):
        node_networks.connect_hub(hub)
        node_networks.connect_node(1, hub, node)
    assert node_networks.has_trunk(hub)
    words = ["ip", "-n", Path(node).name, "-o", "link", "show", "master", node_networks.TRUNK]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert [line.split()[1].partition("@")[0] for line in shown.splitlines()] == ["trunk0"]


@pytest.fixture
async def machines(
    super_plane: LocalControlPlane, tmp_path: Path, spaces: Callable[[str], str]
) -> AsyncIterator[Machines]:
    mark = fresh_name("t")[:8]
    (tmp_path / "kubeconfig").write_bytes(super_plane.kubeconfig())
    node_networks.write_program(tmp_path / "bin")
    nodes = [spaces(f"{mark}-node{number}") for number in range(1, NODES + 1)]
    hub = f"/run/netns/{spaces(f'{mark}-hub')}"
    node_networks.connect_hub(hub)
    for number, node in enumerate(nodes, 1):
        node_networks.connect_node(number, hub, f"/run/netns/{node}")
        ip("-n", node, "link", "add", "br-shared", "type", "bridge")
        ip("-n", node, "link", "set", "br-shared", "up")
    port = urlsplit(super_plane.server).port
    assert port is not None
    async with Client(super_plane.endpoint) as client, reachable_in(nodes, port, tmp_path):
        for crd in node_networks.list_crds():
            with contextlib.suppress(AlreadyExists):
                await client.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
        for resource in (NETWORK_ATTACHMENTS, POOLS):
            await eventually(lambda resource=resource: client.list(resource))
        made = Machines(client=client, folder=tmp_path, mark=mark, views=tenants(mark))
        try:
            yield made
        finally:
            for server in made.servers:
                server.kill()
                server.wait()
            for name in made.pods:
                ip("netns", "delete", made.space(name))


def read_frames(counter: subprocess.Popen[bytes]) -> dict[str, int]:
    """Return the frames that a counter has seen, by the address that sent them."""
    output, _ = counter.communicate(timeout=30)
    found: dict[str, int] = json.loads(output)
    return found


async def test_equal_networks_of_two_tenants_carry_no_packet_across(machines: Machines):
    """The same name, the same VLAN number and the same range, on two nodes."""
    found, senders = {}, {}
    for tenant in ("a", "b"):
        await machines.network(tenant, SAME)
        for number in (1, 2):
            name = f"{tenant}{number}"
            status = await machines.attach(tenant, name, number)
            assert set(status) == {"", "web/lab"}
            found[name], senders[name] = status["web/lab"]["ips"][0], status["web/lab"]["mac"]
            machines.serve(name, tenant)
    assert (found["a1"], found["a2"]) == (found["b1"], found["b2"])  # equal addresses
    counters = {name: machines.count_frames(name) for name in found}
    for name, other in (("a1", "a2"), ("a2", "a1"), ("b1", "b2"), ("b2", "b1")):
        assert await machines.ask(name, found[other], ACROSS) == {name[0]: ACROSS}
    for name, counter in counters.items():
        frames = await asyncio.to_thread(read_frames, counter)
        peers = {senders[each] for each in found if each[0] == name[0]}
        assert peers <= set(frames)
        assert sum(frames[each] for each in peers) >= 4 * ACROSS
        assert {each for each in senders.values() if each in frames} == peers
    # With the peers of one tenant gone, the other tenant's pod of that address answers nothing.
    space = machines.views["a"].get_super_namespace("web")
    done = await asyncio.to_thread(machines.call, "DEL", 2, space, "a2")
    assert done.returncode == 0
    assert set(await machines.ask("a1", found["a2"], 30)) == {"nothing"}


async def test_each_of_a_hundred_pods_has_a_second_interface_and_an_address_of_its_own(
    machines: Machines,
):
    for tenant in ("a", "b"):
        await machines.network(tenant, SAME)
    at_once = asyncio.Semaphore(8)

    async def attach(tenant: str, number: int) -> tuple[str, dict[str, Any]]:
        async with at_once:
            return tenant, await machines.attach(tenant, f"{tenant}{number}", 1 + number % NODES)

    found = await asyncio.gather(
        *(attach(tenant, number) for number in range(PODS_PER_TENANT) for tenant in ("a", "b"))
    )
    assert all("net1" in machines.list_links(name) for name in machines.pods)
    assert len(machines.pods) == 2 * PODS_PER_TENANT
    for tenant, view in machines.views.items():
        entries = [status["web/lab"] for owner, status in found if owner == tenant]
        assert {each["interface"] for each in entries} == {"net1"}
        assert len({each["ips"][0] for each in entries}) == PODS_PER_TENANT
        assert view.get_super_namespace("web") not in json.dumps(entries)


async def test_the_own_networks_of_two_tenants_with_one_range_carry_no_packet_across(
    machines: Machines,
):
    """`spec.network`: the network is the first interface of each pod, on two nodes."""
    addresses = {}
    for tenant, view in machines.views.items():
        owner = dataclasses.replace(view, spec=replace(view.spec, network=NETWORK))
        space = owner.get_super_namespace("web")
        await machines.namespace(space)
        entry = entry_of({"metadata": {"name": "web", "uid": "web-uid"}})
        await machines.client.create(
            NETWORK_ATTACHMENTS, primary_networks.build_network(entry, owner)
        )
        annotations = {DEFAULT_NETWORK: primary_networks.build_annotation(owner, "web")}
        for number in (1, 2):
            name = f"{tenant}{number}"
            status = await machines.attach_annotated(tenant, name, number, annotations)
            (only,) = status.values()
            assert only["interface"] == "eth0"
            assert machines.list_links(name) == ["lo", "eth0"]
            addresses[name] = only["ips"][0]
            machines.serve(name, tenant)
    assert addresses["a2"] == addresses["b2"]
    for name, other in (("a1", "a2"), ("b1", "b2")):
        assert await machines.ask(name, addresses[other]) == {name[0]: PACKETS}
    space = machines.views["a"].get_super_namespace("web")
    assert (await asyncio.to_thread(machines.call, "DEL", 2, space, "a2")).returncode == 0
    assert set(await machines.ask("a1", addresses["a2"], 30)) == {"nothing"}


@pytest.mark.parametrize("plugin", SHARED)
async def test_a_shared_network_gives_no_address_twice(machines: Machines, plugin: str):
    addresses = {}
    for tenant in ("a", "b"):
        await machines.network(tenant, SHARED[plugin])
        for number in range(3):
            name = f"{tenant}{number}"
            addresses[name] = (await machines.attach(tenant, name, 1))["web/lab"]["ips"][0]
            machines.serve(name, tenant)
    assert len(set(addresses.values())) == 6
    assert all(each.startswith("10.100.8.") for name, each in addresses.items() if name[0] == "a")
    assert all(each.startswith("10.100.12.") for name, each in addresses.items() if name[0] == "b")
    for name, other in (("a0", "a1"), ("b2", "b0")):
        assert await machines.ask(name, addresses[other]) == {name[0]: PACKETS}
    pools = {each["metadata"]["name"] for each in (await machines.client.list(POOLS))["items"]}
    for view in machines.views.values():
        network = segments.build_network_name(view.tenant.uid, "br-shared", 0)
        assert f"{network}-10.100.0.0-16" in pools


async def test_a_detached_pod_gives_its_address_back_and_a_failure_leaves_nothing(
    machines: Machines,
):
    await machines.network("a", SHARED["bridge"])
    first = await machines.attach("a", "a1", 1)
    space = machines.views["a"].get_super_namespace("web")
    for _ in range(2):  # DEL is idempotent
        done = await asyncio.to_thread(machines.call, "DEL", 1, space, "a1")
        assert done.returncode == 0
        assert "[error]" not in done.stderr, done.stderr
    again = await machines.attach("a", "a2", 1)
    assert again["web/lab"]["ips"] == first["web/lab"]["ips"]
    body = pod("a3", automountServiceAccountToken=False)
    body["metadata"]["annotations"] = {NETWORKS: "lab,gone"}
    await machines.client.create(PODS, body, namespace=space)
    ip("netns", "add", machines.space("a3"))
    machines.pods.append("a3")
    before = machines.list_links("a3")
    done = await asyncio.to_thread(machines.call, "ADD", 1, space, "a3")
    assert done.returncode == 1
    assert "gone" in json.loads(done.stdout)["msg"]
    assert machines.list_links("a3") == before
