"""A tenant's summary: its own pods, its own names, nothing of the node."""

import json
from datetime import datetime

import pytest

from tests.support.vnagent import kubelet_answers
from tests.support.vnagent.kubelet_answers import (
    LATER,
    THEN,
    TWO,
    by_uid,
    owned,
    pod_figures,
    uid,
)
from vnagent.nodeapi import stats_summary
from vnagent.nodeapi.cpu_counters import PodUsage
from vnagent.protocol.http_heads import InvalidResponseError

GUEST = owned(2, vc_uid=TWO, tenant_namespace="guest", super_namespace="default-b41df0-two-web")


def added(used):
    """Count nothing but what is there."""
    return sum(one.nanoseconds for one in used.values())


def reduced(document: bytes, *pods, total=added):
    """Return what the first tenant gets, as text and read."""
    text = stats_summary.filter_summary(document, by_uid(*pods), total).decode()
    return text, json.loads(text)


def test_own_pods_pass_in_the_tenants_words():
    """All that a pod uses, down to its volume. Nothing that tells of the disk it lies on."""
    text, found = reduced(kubelet_answers.summary(pod_figures(owned(), 5)), owned())
    (pod,) = found["pods"]
    assert pod["podRef"] == {
        "name": "shop",
        "namespace": "web",
        "uid": kubelet_answers.tenant_uid(1),
    }
    cpu = {"time": THEN, "usageNanoCores": 5, "usageCoreNanoSeconds": 5_000_000_000}
    memory = {"time": THEN, "workingSetBytes": 5000, "rssBytes": 5}
    disk = {"time": THEN, "usedBytes": 5, "inodesUsed": 5}
    swap = {"time": THEN, "swapUsageBytes": 5}
    assert (pod["cpu"], pod["memory"], pod["swap"]) == (cpu, memory, swap)
    assert pod["ephemeral-storage"] == disk
    assert pod["process_stats"] == {"process_count": 5}
    assert [container["name"] for container in pod["containers"]] == ["main", "side"]
    own = {"startTime": THEN, "cpu": cpu, "memory": memory, "swap": swap, "rootfs": disk}
    assert pod["containers"][0] == {"name": "main", **own, "logs": disk}
    eth0 = {"name": "eth0", "rxBytes": 5, "txBytes": 5}
    assert pod["network"] == {"time": THEN, **eth0, "interfaces": [eth0]}
    (volume,) = pod["volume"]
    assert volume["pvcRef"] == {"name": "data", "namespace": "web"}
    room = ("capacityBytes", "availableBytes", "inodesFree")
    assert [volume[name] for name in room] == [4096, 1, 2]
    assert not [word for word in kubelet_answers.SECRETS if word in text]


def test_the_node_is_the_tenants_pods_together():
    """SEC-04: what the node does in all tells of the others."""
    second = owned(3, name="cart")
    pods = [pod_figures(owned(), 5), pod_figures(second, 7, LATER), pod_figures(GUEST, 999999)]
    text, found = reduced(kubelet_answers.summary(*pods), owned(), second, total=lambda _: 77)
    assert found["node"] == {
        "nodeName": "n1",
        "startTime": THEN,
        "cpu": {"time": LATER, "usageNanoCores": 12, "usageCoreNanoSeconds": 77},
        "memory": {"time": LATER, "workingSetBytes": 12000, "rssBytes": 12},
        "swap": {"time": LATER, "swapUsageBytes": 12},
    }
    assert [pod["podRef"]["name"] for pod in found["pods"]] == ["shop", "cart"]
    assert not [word for word in kubelet_answers.SECRETS if word in text]


def test_the_total_is_made_of_own_pods():
    """By the UID that the kubelet knows."""
    seen = []
    pods = [pod_figures(owned(), 5), pod_figures(GUEST, 7)]
    reduced(kubelet_answers.summary(*pods), owned(), total=lambda used: seen.append(used) or 0)
    at = datetime.fromisoformat(THEN).timestamp()
    assert seen == [{uid(1): PodUsage(5_000_000_000, at)}]


def test_a_name_proves_nothing():
    """SEC-06: the same place and name with another UID, and the UID at another place."""
    later = pod_figures(owned(9), 5)
    moved = pod_figures(owned(1, super_namespace="default-b41df0-two-web"), 5)
    renamed = pod_figures(owned(1, name="other"), 5)
    for odd in (later, moved, renamed):
        _, found = reduced(kubelet_answers.summary(odd), owned())
        assert (found["pods"], "cpu" in found["node"]) == ([], False)
    twice = kubelet_answers.summary(pod_figures(owned(), 5), pod_figures(owned(), 6))
    assert reduced(twice, owned())[1]["pods"] == []


def test_the_hosts_packets_are_not_the_pods():
    """A pod on the host's network counts everyone's."""
    host = owned(is_on_host_network=True)
    (pod,) = reduced(kubelet_answers.summary(pod_figures(host, 5)), host)[1]["pods"]
    assert "network" not in pod
    assert "cpu" in pod


def test_what_a_later_kubelet_adds_does_not_pass():
    """Closed by default: it may be about the node."""
    now = kubelet_answers.summary(pod_figures(owned(), 5))
    assert reduced(kubelet_answers.with_news(now), owned()) == reduced(now, owned())


def test_a_claim_of_another_namespace_is_not_shown():
    """It would carry a super name."""
    odd = pod_figures(owned(), 5)
    odd["volume"][1]["pvcRef"]["namespace"] = "kube-system"
    text, found = reduced(kubelet_answers.summary(odd), owned())
    assert "volume" not in found["pods"][0]
    assert "kube-system" not in text


@pytest.mark.parametrize(
    "value", [-1, 2**64, 1.5, "5", True, None, [5], {"a": 5}, "2026-11-22T17:00:00+02:00"]
)
def test_what_has_another_shape_is_left_out(value):
    """Leaf by leaf: nothing passes because of where it stands."""
    odd = pod_figures(owned(), 5)
    odd["cpu"] = {"time": value, "usageNanoCores": value, "usageCoreNanoSeconds": value}
    odd["memory"] = odd["network"] = odd["startTime"] = value
    odd["containers"][0] = odd["volume"][0] = value
    _, found = reduced(kubelet_answers.summary(odd), owned())
    (pod,) = found["pods"]
    assert pod["cpu"] == {}
    assert "startTime" not in pod
    assert [container["name"] for container in pod["containers"]] == ["side"]
    assert "cpu" not in found["node"]


def test_large_figures_stay_numbers_of_64_bits():
    """A sum of hostile ones is still JSON that Go reads."""
    most = pod_figures(owned(), 1)
    most["memory"]["workingSetBytes"] = 2**64 - 1
    second = pod_figures(owned(3, name="cart"), 1)
    second["memory"]["workingSetBytes"] = 2**64 - 1
    _, found = reduced(kubelet_answers.summary(most, second), owned(), owned(3, name="cart"))
    assert found["node"]["memory"]["workingSetBytes"] == 2**64 - 1


def test_a_tenant_without_pods_gets_an_empty_node():
    """Not an error: the node is one of its nodes."""
    _, found = reduced(kubelet_answers.summary(pod_figures(GUEST, 5)))
    assert found == {"node": {"nodeName": "n1", "startTime": THEN}, "pods": []}
    assert reduced(b'{"node": {}, "pods": null}')[1] == {"node": {}, "pods": []}


@pytest.mark.parametrize(
    "document",
    [
        *(b"", b"{", b"[]", b"null", b"5", b"{}", b'{"node": {}}', b'{"pods": []}', b"\x1f\x8b"),
        *(b'{"node": null, "pods": []}', b'{"node": {}, "pods": 5}', b'{"node": {}, "pods": "ab"}'),
        *(b'{"node": {}, "pods": [{}]}', b'{"node": {}, "pods": [{"podRef": {"uid": []}}]}'),
        *(b'{"node": {}, "pods": {"a": 1}}', b'{"node": {}, "pods": [{"podRef": null}]}'),
        b'{"node":' * 3000,
    ],
)
def test_what_is_no_summary_is_noticed(document):
    """It would look like a node without pods."""
    with pytest.raises(InvalidResponseError):
        stats_summary.filter_summary(document, by_uid(owned()), added)
