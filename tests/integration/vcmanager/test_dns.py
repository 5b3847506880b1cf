"""What a pod is called in the super cluster resolves in the tenant's DNS, by a real CoreDNS."""

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
from tools.testbed import binaries
from vcmanager.plan import coredns

ROOT = "default-fd1b34-vc-1"
DOMAIN = "corp.example"
POD = "10.244.1.7"
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
    """Ask a name server on loopback; what comes back, record by record."""
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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port on which the CoreDNS of a tenant answers."""
    folder: Path = tmp_path_factory.mktemp("dns")
    plane = LocalControlPlane(folder / "tenant", name="tenant")
    asyncio.run(furnish(plane))
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_bytes(plane.kubeconfig())
    port = free_port()
    text = coredns.build_corefile(root=ROOT, domain=DOMAIN)
    for ours, here in (
        (".:1053", f".:{port}"),
        (":8080", f"127.0.0.1:{free_port()}"),
        (":8181", f"127.0.0.1:{free_port()}"),
        ("/etc/coredns/kubeconfig/coredns-kubeconfig", str(kubeconfig)),
    ):
        assert ours in text
        text = text.replace(ours, here)
    corefile = folder / "Corefile"
    corefile.write_text(text)
    process = ProgramProcess(
        [str(binaries.path("coredns")), "-conf", str(corefile)], folder / "log"
    )

    def tried() -> list[DnsRecord]:
        try:
            return ask(port, f"web-0.web.shop.svc.{DOMAIN}")
        except OSError:
            return []  # it does not listen yet

    async def answers() -> None:
        await eventually(lambda: asyncio.to_thread(tried), within=30)

    try:
        asyncio.run(answers())
        yield port
    finally:
        asyncio.run(process.stop())
        asyncio.run(plane.stop())


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
