"""Whether the super cluster enforces NetworkPolicies is probed, not guessed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from vcmanager.phases import policy_enforcement
from vcmanager.phases.policy_enforcement import (
    ENFORCED,
    NOT_ENFORCED,
    UNKNOWN,
    PolicyEnforcementProbe,
)
from vcmanager.runtime.observed import ObservedObjects


def observed(*, ready: bool = True) -> ObservedObjects:
    """Return a root namespace with an etcd and an API server."""
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    pods: dict[str, Any] = {
        f"{name}-0": {
            "metadata": {"name": f"{name}-0", "labels": {"component-name": name}},
            "status": {"podIP": ip, "conditions": conditions},
        }
        for name, ip in (("etcd", "10.244.0.1"), ("apiserver", "10.244.0.2"))
    }
    return ObservedObjects(namespace={}, objects={"Pod": pods})


class Network:
    """A network that accepts some connections."""

    def __init__(self, *accepted: tuple[str, int]) -> None:
        self.accepted, self.tried = accepted, list[tuple[str, int]]()

    async def connect(self, host: str, port: int) -> bool:
        self.tried.append((host, port))
        return (host, port) in self.accepted


ETCD, API = ("10.244.0.1", 2380), ("10.244.0.2", 6443)


@pytest.mark.parametrize(
    ("accepted", "result"),
    [
        ((API,), ENFORCED),
        ((ETCD, API), NOT_ENFORCED),
        ((ETCD,), NOT_ENFORCED),
        ((), UNKNOWN),
    ],
)
async def test_a_connection_that_a_policy_refuses_beside_one_that_it_allows(accepted, result):
    """SEC-44: the allowed one is the positive control."""
    network = Network(*accepted)
    assert await PolicyEnforcementProbe(network.connect).probe(observed()) == result
    assert sorted(network.tried) == [ETCD, API]


def test_a_good_result_names_what_it_does_not_cover():
    """SEC-44: the VPC CNI leaves out pods without an owner, and etcd has one."""
    assert "Run `kubectl vc audit` to check such pods" in ENFORCED.message


async def test_one_result_stands_for_all_tenants_for_a_while(monkeypatch: pytest.MonkeyPatch):
    network = Network(API)
    probe = PolicyEnforcementProbe(network.connect)
    for _ in range(3):
        assert await probe.probe(observed()) == ENFORCED
    assert len(network.tried) == 2
    monkeypatch.setattr(policy_enforcement, "PROBE_INTERVAL_SECONDS", -1.0)
    probe = PolicyEnforcementProbe(network.connect)
    await probe.probe(observed())
    await probe.probe(observed())
    assert len(network.tried) == 6


async def test_without_ready_pods_there_is_no_result():
    network = Network(API)
    assert await PolicyEnforcementProbe(network.connect).probe(observed(ready=False)) is None
    assert not network.tried


async def test_a_real_connection():
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        assert await policy_enforcement.connect("127.0.0.1", port)
    assert not await policy_enforcement.connect("127.0.0.1", port)
