"""Views of a virtual node: Minimal, Standard and Full."""

from __future__ import annotations

from typing import Any

from syncer.rules.nodes import virtual_nodes
from syncer.rules.nodes.node_agents import NodeAgent
from tenancy import wellknown
from tests.unit.syncer.rules.nodes.test_virtual_nodes import NOW, super_node

# Nodes.


def shown(view: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return (
        virtual_nodes.build_node(super_node(), view),  # type: ignore[arg-type]
        virtual_nodes.build_status(super_node(), NodeAgent("10.2.0.5"), view, now=NOW),  # type: ignore[arg-type]
    )


def test_a_minimal_view_shows_the_agents_address_and_hardly_a_label():
    node, status = shown("Minimal")
    assert node["metadata"]["labels"] == {
        "kubernetes.io/hostname": "n1",
        wellknown.VIRTUAL_NODE: "true",
    }
    assert status["addresses"] == [{"type": wellknown.AGENT_ADDRESS, "address": "10.2.0.5"}]


def test_a_full_view_shows_every_label():
    node, status = shown("Full")
    own = super_node()["metadata"]["labels"]
    assert node["metadata"]["labels"] == {**own, wellknown.VIRTUAL_NODE: "true"}
    assert {"type": "InternalIP", "address": "192.0.2.1"} in status["addresses"]
    assert "ExternalIP" not in str(status)


def test_a_node_without_addresses_can_still_be_bound_to():
    status = virtual_nodes.build_status(super_node(), None, "Minimal", now=NOW)
    assert "addresses" not in status  # as the API hands it out
    assert virtual_nodes.has_own_status({"status": status})
    assert not virtual_nodes.has_own_status(
        {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}}}
    )


def test_a_narrower_view_takes_labels_off_again():
    full, standard = shown("Full")[0], shown("Standard")[0]
    assert not virtual_nodes.is_node_current(full, standard)
    assert virtual_nodes.is_node_current(full, full)
