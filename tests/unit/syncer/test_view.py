"""What builders may know of a tenant: the variables of its Services."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kubeio.cache.store import Entry
from syncer.rules.pods import environment
from tests.unit.syncer.sessions import World

VERSIONS = itertools.count(100)


def service(world: World, name: str, address: str, namespace: str = "web") -> None:
    """Have a Service in the tenant."""
    spec = {"clusterIP": address, "ports": [{"port": 80}]}
    metadata = {"resourceVersion": f"{next(VERSIONS)}"}
    world.tenant_has("Service", name, namespace, metadata=metadata, spec=spec)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    found = World()
    found.decoded = []  # type: ignore[attr-defined]
    decode = Entry.decode

    def counted(entry: Entry) -> dict[str, Any]:
        found.decoded.append(entry.name)  # type: ignore[attr-defined]
        return decode(entry)

    monkeypatch.setattr(Entry, "decode", counted)
    service(found, "kubernetes", "10.96.8.1", "default")
    for number in range(3):
        service(found, f"s{number}", f"10.96.8.{number + 20}")
    return found


def hosts(world: World, namespace: str = "web", *, links: bool = True) -> dict[str, str]:
    session = world.session
    found = environment.tenant_variables(
        session.view, namespace, links=links, linked=session.linked
    )
    return {k.partition("_")[0]: v for k, v in found.items() if k.endswith("_SERVICE_HOST")}


def test_a_burst_of_pods_reads_the_services_of_its_namespace_once(world):
    everything = {
        "KUBERNETES": "10.96.8.1",
        **{f"S{number}": f"10.96.8.{number + 20}" for number in range(3)},
    }
    for _ in range(5):
        assert hosts(world) == everything
    assert len(world.decoded) == 4


def test_what_changes_is_read_again(world):
    hosts(world)
    service(world, "s1", "10.96.8.99")
    assert hosts(world)["S1"] == "10.96.8.99"
    service(world, "s9", "10.96.8.29")
    assert hosts(world)["S9"] == "10.96.8.29"
    gone = world.session.stores["Service"].get("web", "s0")
    world.session.stores["Service"].discard(gone, live=True)
    assert "S0" not in hosts(world)
    service(world, "kubernetes", "10.96.8.2", "default")
    assert hosts(world)["KUBERNETES"] == "10.96.8.2"


def test_namespaces_and_pods_without_links_do_not_get_each_others(world):
    service(world, "other", "10.96.8.50", "shop")
    for _ in range(2):
        assert set(hosts(world)) == {"KUBERNETES", "S0", "S1", "S2"}
        assert set(hosts(world, "shop")) == {"KUBERNETES", "OTHER"}
        assert set(hosts(world, links=False)) == {"KUBERNETES"}
        assert set(hosts(world, "default")) == {"KUBERNETES"}


def test_a_pod_without_links_reads_no_services(world):
    assert set(hosts(world, links=False)) == {"KUBERNETES"}
    assert world.decoded == ["kubernetes"]
