"""What is known of node agents: where they are, and which way they go."""

from __future__ import annotations

from itertools import permutations

import orjson
import pytest

from kubeio.store import Entry, Store, parse
from syncer import agents
from syncer.agents import BY_NODE, Agent, Agents, node_of
from tenancy import marks

SPACE = "vc-manager"
BEGAN = "2026-01-02T00:00:00Z"


def pod(uid: str = "u1", **metadata: str) -> Entry:
    body = {
        "metadata": {"name": "vn-agent-x", "namespace": SPACE, "uid": uid, **metadata},
        "spec": {"nodeName": "n1"},
        "status": {"podIP": "10.2.0.5", "startTime": BEGAN},
    }
    body["metadata"].setdefault("resourceVersion", "7")
    return parse(orjson.dumps(body))


def told(way: str, minute: int, *, uid: str = "u1", namespace: str = SPACE) -> Entry:
    body = {
        "metadata": {"name": f"e{minute}", "namespace": namespace, "uid": f"e{minute}"},
        "involvedObject": {"kind": "Pod", "namespace": SPACE, "name": "vn-agent-x", "uid": uid},
        "reason": way,
        "firstTimestamp": at(minute),
    }
    body["metadata"]["resourceVersion"] = "8"
    return parse(orjson.dumps(body))


def at(minute: int) -> str:
    return f"2026-01-02T03:{minute:02}:00Z"


@pytest.fixture
def pods() -> Store:
    return Store({BY_NODE: node_of})


@pytest.fixture
def found(pods: Store) -> Agents:
    return Agents(pods, SPACE)


def test_an_agent_that_has_told_nothing_goes_straight(pods, found):
    assert found.on("n1") is None
    pods.put(pod(), live=True)
    assert found.on("n1") == Agent("10.2.0.5", "", BEGAN)
    pods.put(pod(deletionTimestamp=BEGAN, resourceVersion="9"), live=True)
    assert found.on("n1") is None


def test_what_an_agent_tells_counts_until_it_tells_otherwise(pods, found):
    pods.put(pod(), live=True)
    assert found.hear(told(marks.AGENT_AROUND, 1)) == "n1"
    assert found.on("n1") == Agent("10.2.0.5", marks.AGENT_AROUND, at(1))
    assert found.hear(told(marks.AGENT_AROUND, 31)) == ""  # told again
    assert found.on("n1") == Agent("10.2.0.5", marks.AGENT_AROUND, at(1))
    assert found.hear(told(marks.AGENT_STRAIGHT, 40)) == "n1"
    assert found.on("n1") == Agent("10.2.0.5", "", at(40))


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_the_last_word_counts_in_whatever_order_a_list_has_them(pods, found, order):
    pods.put(pod(), live=True)
    words = [
        told(marks.AGENT_AROUND, 1),
        told(marks.AGENT_AROUND, 31),
        told(marks.AGENT_STRAIGHT, 40),
        told(marks.AGENT_CONFIGURED, 50),
    ]
    for number in order:
        found.hear(words[number])
    agent = found.on("n1")
    assert agent is not None
    assert (agent.way, agent.since) == (marks.AGENT_CONFIGURED, at(50))


def test_what_is_told_before_the_pod_is_known_is_not_forgotten(pods, found):
    assert found.hear(told(marks.AGENT_AROUND, 1)) == ""
    pods.put(pod(), live=True)
    agent = found.on("n1")
    assert agent is not None
    assert agent.way == marks.AGENT_AROUND


@pytest.mark.parametrize(
    "event",
    [
        told(marks.AGENT_AROUND, 1, namespace="somewhere"),
        told(marks.AGENT_AROUND, 1, uid="another"),
        told(marks.AGENT_AROUND, 1, uid=""),
        told("Pulled", 1),
    ],
    ids=["elsewhere", "of another pod", "of no pod", "of something else"],
)
def test_what_is_not_an_agents_word_says_nothing(pods, found, event):
    pods.put(pod(), live=True)
    assert found.hear(event) == ""
    assert found.on("n1") == Agent("10.2.0.5", "", BEGAN)


def test_words_of_agents_that_are_gone_do_not_pile_up(found, monkeypatch):
    monkeypatch.setattr(agents, "_MANY", 3)
    for number in range(10):
        found.hear(told(marks.AGENT_AROUND, 1, uid=f"u{number}"))
    assert len(found._ways) == 3
