"""Addresses of node agents, and the path that they use."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import orjson
import pytest

from kubeio.cache.store import Entry, Store, parse_entry
from syncer.rules.nodes.node_agents import (
    BY_NODE_INDEX,
    BY_POD_INDEX,
    BY_TARGET_INDEX,
    NodeAgent,
    NodeAgents,
    index_by_node,
    index_by_pod,
    index_by_target,
)
from tenancy import wellknown

SPACE = "vc-manager"


def entry(version: int, **body: Any) -> Entry:
    body["metadata"] = {
        "namespace": SPACE,
        "name": "e",
        "uid": "e",
        "resourceVersion": str(version),
        **body.get("metadata", {}),
    }
    return parse_entry(orjson.dumps(body))


def pod(version: int = 7, *, uid: str = "u1", status: Any = None, **metadata: str) -> Entry:
    return entry(
        version,
        metadata={"name": "vn-agent-x", "uid": uid, **metadata},
        spec={"nodeName": "n1"},
        status={"podIP": "10.2.0.5", "phase": "Running"} if status is None else status,
    )


def told(way: str, version: int, *, uid: str = "u1") -> Entry:
    return entry(
        version,
        metadata={"name": f"e{version}", "uid": f"e{version}"},
        involvedObject={"kind": "Pod", "namespace": SPACE, "name": "vn-agent-x", "uid": uid},
        reason=way,
        # Of the agent's clock, which goes backwards here.
        firstTimestamp=f"2026-01-02T03:{59 - version:02}:00Z",
    )


class EmptyCluster:
    """An empty cluster."""

    def __init__(self) -> None:
        self.pods = Store({BY_NODE_INDEX: index_by_node, BY_TARGET_INDEX: index_by_target})
        self.events = Store({BY_POD_INDEX: index_by_pod})
        self.agents = NodeAgents(self.pods, self.events)


@pytest.fixture
def known() -> EmptyCluster:
    return EmptyCluster()


def test_an_agent_that_has_told_nothing_goes_straight(known):
    assert known.agents.get_for_node("n1") is None
    known.pods.put(pod(), live=True)
    assert known.agents.get_for_node("n1") == NodeAgent("10.2.0.5", wellknown.UPSTREAM_KUBELET)
    assert known.agents.get_for_node("n2") is None


@pytest.mark.parametrize(
    "away",
    [
        pod(8, deletionTimestamp="2026-01-02T00:00:00Z"),
        pod(8, status={}),
        pod(8, status={"phase": "Pending"}),
        pod(8, status={"podIP": "10.2.0.5", "phase": "Failed"}),
    ],
    ids=["being deleted", "new", "waits for its image", "evicted"],
)
def test_an_agent_that_cannot_be_called_is_none(known, away):
    known.pods.put(away, live=True)
    assert known.agents.get_for_node("n1") is None


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_the_last_word_counts_in_whatever_order_a_list_has_them(known, order):
    known.pods.put(pod(), live=True)
    words = [
        told(wellknown.UPSTREAM_API_SERVER, 9),
        told(wellknown.UPSTREAM_API_SERVER, 11),
        told(wellknown.UPSTREAM_KUBELET, 12),
        told(wellknown.UPSTREAM_CONFIGURED, 103),
    ]
    for number in order:
        known.events.put(words[number], live=False)
    assert known.agents.get_for_node("n1") == NodeAgent("10.2.0.5", wellknown.UPSTREAM_CONFIGURED)


def test_what_no_event_reports_any_more_holds_no_more(known):
    """API servers forget them after an hour. What still holds is told again before."""
    known.pods.put(pod(), live=True)
    word = told(wellknown.UPSTREAM_API_SERVER, 9)
    known.events.put(word, live=True)
    assert known.agents.get_for_node("n1") == NodeAgent("10.2.0.5", wellknown.UPSTREAM_API_SERVER)
    known.events.discard(word, live=True)
    assert known.agents.get_for_node("n1") == NodeAgent("10.2.0.5", wellknown.UPSTREAM_KUBELET)


@pytest.mark.parametrize(
    "event",
    [
        told(wellknown.UPSTREAM_API_SERVER, 9, uid="another"),
        told("Pulled", 9),
        entry(9, reason="x"),
    ],
    ids=["of another pod", "of something else", "of nothing"],
)
def test_what_is_not_this_agents_word_reports_nothing_of_it(known, event):
    known.pods.put(pod(), live=True)
    known.events.put(event, live=True)
    assert known.agents.get_for_node("n1") == NodeAgent("10.2.0.5", wellknown.UPSTREAM_KUBELET)


def test_an_event_concerns_the_node_of_its_agent(known):
    assert known.agents.get_event_node(told(wellknown.UPSTREAM_API_SERVER, 9)) == ""
    known.pods.put(pod(), live=True)
    assert known.agents.get_event_node(told(wellknown.UPSTREAM_API_SERVER, 9)) == "n1"
    assert known.agents.get_event_node(entry(9, reason="x")) == ""


REGISTRATION = "cccccccc-0000-4000-8000-000000000000"


def serving(
    name: str, address: str, version: int = 7, *, made: str = "01", ready: bool = True, **metadata
) -> Entry:
    """Return a pod of the agent of a target, which runs on n1 as well."""
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    status = {"podIP": address, "phase": "Running", "conditions": [condition]}
    return pod(
        version,
        uid=name,
        status=status,
        name=name,
        labels={wellknown.SUPER_CLUSTER: REGISTRATION},
        creationTimestamp=f"2026-01-{made}T00:00:00Z",
        **metadata,
    )


def test_the_agent_of_a_target_is_no_nodes(known):
    known.pods.put(serving("t", "10.2.0.9"), live=True)
    assert known.agents.get_for_node("n1") is None
    assert known.agents.get_target_address(REGISTRATION) == "10.2.0.9"
    assert known.agents.get_target_address("another") == ""
    known.pods.put(pod(), live=True)
    assert known.agents.get_for_node("n1") == NodeAgent("10.2.0.5", wellknown.UPSTREAM_KUBELET)
    assert known.agents.get_target_address(REGISTRATION) == "10.2.0.9"


def test_of_several_the_newest_that_is_ready_is_called(known):
    """An agent that is replaced is left as soon as the next one serves."""
    known.pods.put(serving("a", "10.2.0.1", made="01"), live=True)
    known.pods.put(serving("b", "10.2.0.2", made="02"), live=True)
    known.pods.put(serving("c", "10.2.0.3", made="03", ready=False), live=True)
    assert known.agents.get_target_address(REGISTRATION) == "10.2.0.2"
    gone = serving("b", "10.2.0.2", 8, made="02", deletionTimestamp="2026-01-04T00:00:00Z")
    known.pods.put(gone, live=True)
    assert known.agents.get_target_address(REGISTRATION) == "10.2.0.1"
    known.pods.discard(gone, live=True)
    known.pods.put(serving("a", "", 9, made="01"), live=True)
    assert known.agents.get_target_address(REGISTRATION) == "10.2.0.3"
