"""The host name of a pod resolves in the tenant's DNS, with a real CoreDNS."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kubeio.api.client import Client
from tenancy.resources import ENDPOINT_SLICES, NAMESPACES, SERVICES
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.processes import ProgramProcess, free_port
from tools.testbed.artifacts import binaries
from vcmanager.plan import coredns
from vcmanager.plan.network.dns_forwarding import DnsForwarding, DnsServer, StubZone

ROOT = "default-fd1b34-vc-1"
DOMAIN = "corp.example"
POD = "10.244.1.7"
OWN_NAME = f"web-0.web.shop.svc.{DOMAIN}"
_A, _PTR = 1, 12


@dataclass(frozen=True)
class DnsRecord:
    """One record of an answer."""

    name: str
    value: str


def _encoded(name: str) -> bytes:
    labels = name.rstrip(".").split(".")
    return b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"


def _name(message: bytes, at: int) -> tuple[str, int]:
    """Return the name that stands somewhere, and where it ends."""
    labels, end = [], 0
    while message[at]:
        if message[at] >= 0xC0:
            end = end or at + 2
            at = struct.unpack_from("!H", message, at)[0] & 0x3FFF
            continue
        labels.append(message[at + 1 : at + 1 + message[at]].decode())
        at += 1 + message[at]
    return ".".join(labels) + ".", end or at + 1


def ask(port: int, name: str, kind: int = _A) -> list[DnsRecord]:
    """Ask a name server on loopback. What comes back, record by record."""
    query = struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + _encoded(name) + struct.pack("!2H", kind, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.settimeout(2)
        wire.sendto(query, ("127.0.0.1", port))
        message = wire.recv(4096)
    count = struct.unpack_from("!H", message, 6)[0]
    _, at = _name(message, 12)
    at += 4
    found = []
    for _ in range(count):
        owner, at = _name(message, at)
        record, _, _, length = struct.unpack_from("!2HIH", message, at)
        at += 10
        if record == _A:
            found.append(DnsRecord(owner, str(ipaddress.ip_address(message[at : at + length]))))
        elif record == _PTR:
            found.append(DnsRecord(owner, _name(message, at)[0]))
        at += length
    return found


async def furnish(plane: LocalControlPlane) -> None:
    """Start a tenant with one headless Service and its only pod."""
    await plane.start()
    async with Client(plane.endpoint) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "shop"}})
        spec = {"clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 80}]}
        service = {"metadata": {"name": "web"}, "spec": spec}
        await client.create(SERVICES, service, namespace="shop")
        endpoints = {
            "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [POD], "hostname": "web-0", "conditions": {"ready": True}}],
            "ports": [{"port": 80, "protocol": "TCP"}],
        }
        await client.create(ENDPOINT_SLICES, endpoints, namespace="shop")


UPSTREAM = """\
.:{port} {{
    bind 127.0.0.1
    template IN A {{
        answer "{{{{ .Name }}}} 60 IN A {address}"
    }}
}}
"""


class TenantDns:
    """The CoreDNS of a tenant, and servers outside of it."""

    def __init__(self, folder: Path, plane: LocalControlPlane) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_bytes(plane.kubeconfig())
        self.running: list[ProgramProcess] = []

    def start(self, text: str) -> ProgramProcess:
        """Start a CoreDNS with a Corefile."""
        number = len(self.running)
        corefile = self.folder / f"Corefile-{number}"
        corefile.write_text(text)
        process = ProgramProcess(
            [str(binaries.path("coredns")), "-conf", str(corefile)], self.folder / f"log-{number}"
        )
        self.running.append(process)
        return process

    def start_tenant(self, forwarding: DnsForwarding) -> tuple[int, ProgramProcess]:
        """Start the tenant's CoreDNS with the file of the product, on ports of this machine."""
        port = free_port()
        text = coredns.build_corefile(root=ROOT, domain=DOMAIN, forwarding=forwarding)
        for ours, here in (
            (":1053 {", f":{port} {{"),
            (":8080", f"127.0.0.1:{free_port()}"),
            (":8181", f"127.0.0.1:{free_port()}"),
            ("/etc/coredns/kubeconfig/coredns-kubeconfig", str(self.kubeconfig)),
        ):
            assert ours in text
            text = text.replace(ours, here)
        return port, self.start(text)

    def start_upstream(self, address: str) -> DnsServer:
        """Start a server that answers each name with one address."""
        port = free_port()
        self.start(UPSTREAM.format(port=port, address=address))
        _await_answer(port, "any.example.org")
        return DnsServer(ipaddress.ip_address("127.0.0.1"), port)

    def stop(self) -> None:
        """Stop all of them."""
        for process in self.running:
            asyncio.run(process.stop())


def _await_answer(port: int, name: str) -> None:
    def tried() -> list[DnsRecord]:
        try:
            return ask(port, name)
        except OSError:
            return []  # it does not listen yet

    async def answers() -> None:
        await eventually(lambda: asyncio.to_thread(tried), within=30)

    asyncio.run(answers())


@pytest.fixture(scope="module")
def dns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TenantDns]:
    """A tenant with one pod that has a name."""
    folder: Path = tmp_path_factory.mktemp("dns")
    plane = LocalControlPlane(folder / "tenant", name="tenant")
    asyncio.run(furnish(plane))
    made = TenantDns(folder, plane)
    try:
        yield made
    finally:
        made.stop()
        asyncio.run(plane.stop())


@pytest.fixture(scope="module")
def server(dns: TenantDns) -> int:
    """The port on which the CoreDNS of a tenant answers."""
    port, _ = dns.start_tenant(DnsForwarding())
    _await_answer(port, OWN_NAME)
    return port


@pytest.mark.parametrize("super_domain", ["cluster.local", "other.example.org"])
def test_the_super_form_of_a_pods_name_resolves_under_that_name(server, super_domain):
    for host in ("web-0.web", "web"):
        name = f"{host}.{ROOT}-shop.svc.{super_domain}"
        assert ask(server, name) == [DnsRecord(f"{name}.", POD)]


def test_the_tenants_form_resolves_and_an_address_has_the_tenants_name(server):
    name = f"web-0.web.shop.svc.{DOMAIN}"
    assert ask(server, name) == [DnsRecord(f"{name}.", POD)]
    back = f"{ipaddress.ip_address(POD).reverse_pointer}."
    assert ask(server, back, _PTR) == [DnsRecord(back, f"{name}.")]


def test_names_of_other_tenants_and_namespaces_do_not(server):
    for space in (f"{ROOT}-other", "default-000000-vc-2-shop", f"x{ROOT}-shop"):
        assert ask(server, f"web-0.web.{space}.svc.{DOMAIN}") == []


def test_stub_domains_and_forwarders_are_asked_and_the_tenants_names_stay(dns):
    corp, world = dns.start_upstream("192.0.2.1"), dns.start_upstream("192.0.2.2")
    forwarding = DnsForwarding((StubZone("corp.internal", (corp,)),), (world,))
    port, _ = dns.start_tenant(forwarding)
    _await_answer(port, OWN_NAME)
    for name, address in (
        ("db.corp.internal", "192.0.2.1"),
        ("corp.internal", "192.0.2.1"),
        ("xcorp.internal", "192.0.2.2"),
        ("www.example.org", "192.0.2.2"),
        (OWN_NAME, POD),
        (f"web.{ROOT}-shop.svc.other.example.org", POD),
    ):
        assert ask(port, name) == [DnsRecord(f"{name}.", address)], name


def test_a_stub_domain_whose_servers_are_down_costs_no_other_name(dns):
    down = DnsServer(ipaddress.ip_address("127.0.0.1"), free_port())
    world = dns.start_upstream("192.0.2.2")
    port, _ = dns.start_tenant(DnsForwarding((StubZone("corp.internal", (down,)),), (world,)))
    _await_answer(port, OWN_NAME)
    assert ask(port, "db.corp.internal") == []
    assert ask(port, "www.example.org") == [DnsRecord("www.example.org.", "192.0.2.2")]
    assert ask(port, OWN_NAME) == [DnsRecord(f"{OWN_NAME}.", POD)]


def test_the_old_server_answers_until_the_new_one_does(dns):
    """The Deployment has maxUnavailable 0, so both run for a moment."""
    world = dns.start_upstream("192.0.2.2")
    old, process = dns.start_tenant(DnsForwarding())
    _await_answer(old, OWN_NAME)
    new, _ = dns.start_tenant(DnsForwarding((), (world,)))
    _await_answer(new, OWN_NAME)
    assert ask(old, OWN_NAME) == ask(new, OWN_NAME) == [DnsRecord(f"{OWN_NAME}.", POD)]
    asyncio.run(process.stop())
    assert ask(new, "www.example.org") == [DnsRecord("www.example.org.", "192.0.2.2")]
