"""The variables that a tenant's Services add to its pods, and the ConfigMaps that hold them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kubeio.cache.store import Entry
from syncer.rules.configuration import service_variables
from tenancy import names, ownership
from tests.support.syncer.sessions import SessionWorld

VERSIONS = itertools.count(100)


def tenant_service(world: SessionWorld, name: str, address: str, namespace: str = "web") -> None:
    """Have a Service in the tenant."""
    spec = {"clusterIP": address, "ports": [{"port": 80}]}
    metadata = {"resourceVersion": f"{next(VERSIONS)}"}
    world.tenant_has("Service", name, namespace, metadata=metadata, spec=spec)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> SessionWorld:
    found = SessionWorld()
    found.decoded = []  # type: ignore[attr-defined]
    decode = Entry.decode

    def counted(entry: Entry) -> dict[str, Any]:
        found.decoded.append(entry.name)  # type: ignore[attr-defined]
        return decode(entry)

    monkeypatch.setattr(Entry, "decode", counted)
    tenant_service(found, "kubernetes", "10.96.8.1", "default")
    for number in range(3):
        tenant_service(found, f"s{number}", f"10.96.8.{number + 20}")
    return found


def hosts(world: SessionWorld, namespace: str = "web", *, links: bool = True) -> dict[str, str]:
    session = world.session
    found = service_variables.list_tenant_variables(
        session.view, namespace, links=links, cache=session.service_variables
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
    tenant_service(world, "s1", "10.96.8.99")
    assert hosts(world)["S1"] == "10.96.8.99"
    tenant_service(world, "s9", "10.96.8.29")
    assert hosts(world)["S9"] == "10.96.8.29"
    gone = world.session.stores["Service"].get("web", "s0")
    world.session.stores["Service"].discard(gone, live=True)
    assert "S0" not in hosts(world)
    tenant_service(world, "kubernetes", "10.96.8.2", "default")
    assert hosts(world)["KUBERNETES"] == "10.96.8.2"


def test_namespaces_and_pods_without_links_do_not_get_each_others(world):
    tenant_service(world, "other", "10.96.8.50", "shop")
    for _ in range(2):
        assert set(hosts(world)) == {"KUBERNETES", "S0", "S1", "S2"}
        assert set(hosts(world, "shop")) == {"KUBERNETES", "OTHER"}
        assert set(hosts(world, links=False)) == {"KUBERNETES"}
        assert set(hosts(world, "default")) == {"KUBERNETES"}


def test_a_service_without_the_shape_of_one_adds_nothing(world):
    version = {"resourceVersion": f"{next(VERSIONS)}"}
    spec = {"clusterIP": "10.96.8.30", "ports": [7]}
    world.tenant_has("Service", "odd", metadata=version, spec=spec)
    assert set(hosts(world)) == {"KUBERNETES", "S0", "S1", "S2"}


def test_one_changed_service_is_read_and_no_other(world):
    hosts(world)
    world.decoded.clear()
    tenant_service(world, "s1", "10.96.8.99")
    assert hosts(world)["S1"] == "10.96.8.99"
    assert world.decoded == ["s1"]


def test_a_pod_without_links_reads_no_services(world):
    assert set(hosts(world, links=False)) == {"KUBERNETES"}
    assert world.decoded == ["kubernetes"]


def service(name: str, address: str, *ports: dict[str, object], namespace: str = "web"):
    """Return a Service."""
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": address, "ports": list(ports)},
    }


MASTER = service("kubernetes", "10.0.0.1", {"name": "https", "port": 443}, namespace="default")


def test_service_variables_are_those_of_a_kubelet():
    db = service(
        "my-db",
        "10.0.0.9",
        {"name": "sql", "port": 5432, "protocol": "TCP"},
        {"name": "dns-udp", "port": 53, "protocol": "UDP"},
    )
    found = service_variables.build_service_variables([MASTER, db], "web", links=True)
    assert {key: value for key, value in found.items() if key.startswith("MY_DB")} == {
        "MY_DB_SERVICE_HOST": "10.0.0.9",
        "MY_DB_SERVICE_PORT": "5432",
        "MY_DB_SERVICE_PORT_SQL": "5432",
        "MY_DB_SERVICE_PORT_DNS_UDP": "53",
        "MY_DB_PORT": "tcp://10.0.0.9:5432",
        "MY_DB_PORT_5432_TCP": "tcp://10.0.0.9:5432",
        "MY_DB_PORT_5432_TCP_PROTO": "tcp",
        "MY_DB_PORT_5432_TCP_PORT": "5432",
        "MY_DB_PORT_5432_TCP_ADDR": "10.0.0.9",
        "MY_DB_PORT_53_UDP": "udp://10.0.0.9:53",
        "MY_DB_PORT_53_UDP_PROTO": "udp",
        "MY_DB_PORT_53_UDP_PORT": "53",
        "MY_DB_PORT_53_UDP_ADDR": "10.0.0.9",
    }


@pytest.mark.parametrize(
    ("links", "expected"), [(True, {"DB", "KUBERNETES"}), (False, {"KUBERNETES"})]
)
def test_which_services_a_pod_sees(links, expected):
    services = [
        MASTER,
        service("db", "10.0.0.9", {"port": 1}),
        service("bare", "None", {"port": 1}),
        service("pending", "", {"port": 1}),
        service("kubernetes", "10.0.0.66", {"port": 1}),
        service("elsewhere", "10.0.0.8", {"port": 1}, namespace="other"),
    ]
    found = service_variables.build_service_variables(services, "web", links=links)
    assert service_variables.build_service_variables(services[::-1], "web", links=links) == found
    assert {key.partition("_")[0] for key in found} == expected
    assert found["KUBERNETES_SERVICE_HOST"] == "10.0.0.1"


def test_an_ipv6_address_is_bracketed():
    found = service_variables.build_service_variables(
        [service("six", "fd00::1", {"port": 80})], "web", links=True
    )
    assert found["SIX_PORT"] == "tcp://[fd00::1]:80"
    assert found["SIX_PORT_80_TCP_ADDR"] == "fd00::1"


@pytest.mark.parametrize(
    ("endpoint", "host", "port"),
    [
        ("https://vc.example.org:6443", "vc.example.org", 6443),
        ("https://vc.example.org", "vc.example.org", 443),
        ("https://[fd00::1]:8443", "fd00::1", 8443),
        ("", "kubernetes.invalid", 443),
        ("https://:6443", "kubernetes.invalid", 6443),
        ("https://vc.example.org:70000", "kubernetes.invalid", 443),
        ("https://[fd00", "kubernetes.invalid", 443),
    ],
)
def test_the_tenants_api_is_reached_from_elsewhere_by_its_url(endpoint, host, port):
    (found,) = service_variables.build_external_api_services(MASTER, endpoint)
    assert found["metadata"] == MASTER["metadata"]
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    assert found["spec"] == {"clusterIP": host, "ports": ports}
    assert MASTER["spec"]["clusterIP"] == "10.0.0.1", "others have it as it is"


# --- the ConfigMaps -------------------------------------------------------------------------------


@pytest.mark.parametrize("variables", [{"A_PORT": "1"}, {}])
def test_a_config_map_records_its_namespace_as_owner(world, variables):
    namespace = world.tenant_has("Namespace", "web", namespace="")
    view = world.session.view
    found = service_variables.build_config_map(names.SERVICE_VARIABLES, namespace, view, variables)
    assert found.get("data", {}) == variables
    metadata = found["metadata"]
    assert (metadata["name"], metadata["namespace"]) == (
        "vc-service-variables",
        view.get_super_namespace("web"),
    )
    owner = ownership.read_owner(metadata)
    assert owner is not None
    assert (owner.vc_uid, owner.uid, owner.namespace) == (view.tenant.uid, "web-uid", "web")
    assert ownership.build_owner_labels(view.tenant, "web") == metadata["labels"]


def test_names_and_values_are_counted():
    assert service_variables.count_bytes({}) == 0
    assert service_variables.count_bytes({"AB": "c", "D": "e"}) == 5


def test_a_change_of_a_status_alone_changes_no_variable(world):
    def entry(**fields: Any) -> Entry:
        version = {"resourceVersion": f"{next(VERSIONS)}"}
        world.tenant_has("Service", "s", metadata=version, **fields)
        found = world.session.stores["Service"].get("web", "s")
        assert found is not None
        return found

    first = entry(spec={"clusterIP": "10.96.8.30", "ports": [{"port": 80}]})
    same = entry(spec={"clusterIP": "10.96.8.30", "ports": [{"port": 80}], "x": 1}, status={"a": 1})
    other = entry(spec={"clusterIP": "10.96.8.30", "ports": [{"port": 81}]})
    bare = entry(spec={"clusterIP": "None", "ports": [{"port": 81}]})
    odd = entry(spec={"clusterIP": "10.96.8.30", "ports": [7]})
    assert not service_variables.is_changed(first, same)
    assert service_variables.is_changed(first, other)
    assert service_variables.is_changed(other, bare)
    assert service_variables.is_changed(None, first)
    assert service_variables.is_changed(first, None)
    assert not service_variables.is_changed(None, bare)
    assert not service_variables.is_changed(bare, odd), "a hostile API stops nothing"
