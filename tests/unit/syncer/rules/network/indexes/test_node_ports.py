"""The index of a tenant's node ports."""

from __future__ import annotations

from syncer.rules.network.indexes.node_ports import NodePorts
from tests.support.syncer.tenant_views import entry_of, object_of


def service(name, *ports):
    return entry_of(
        object_of(
            "Service", metadata={"namespace": "web", "name": name}, spec={"ports": list(ports)}
        )
    )


def test_ports_are_listed_while_a_service_has_them():
    index = NodePorts()
    first = service("a", {"port": 80, "nodePort": 30080}, {"port": 53, "protocol": "UDP"})
    second = service("b", {"port": 80, "nodePort": 30080}, {"port": 81, "nodePort": 30081})
    assert index.set_service(first.key, first)
    assert not index.set_service(first.key, first), "an unchanged Service queues nothing"
    assert index.set_service(second.key, second)
    assert index.list_ports() == [("TCP", 30080), ("TCP", 30081)]
    assert not index.set_service(first.key, None), "another Service has the port"
    assert index.set_service(second.key, service("b", {"port": 80}))
    assert index.list_ports() == []


def test_protocols_are_kept_apart():
    index = NodePorts()
    entry = service(
        "dns",
        {"port": 53, "nodePort": 30053},
        {"port": 53, "protocol": "UDP", "nodePort": 30053},
    )
    assert index.set_service(entry.key, entry)
    assert index.list_ports() == [("TCP", 30053), ("UDP", 30053)]


def test_a_service_without_spec_has_none():
    index = NodePorts()
    entry = entry_of(
        {"kind": "Service", "metadata": {"name": "x", "annotations": {"a": "nodePort"}}}
    )
    assert not index.set_service(entry.key, entry)
