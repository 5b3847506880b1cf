"""Two real holders of one real Lease, in a time of the test's own."""

from __future__ import annotations

import asyncio

import pytest

from kubeio.api.client import Client
from kubeio.api.leader_election import LeaderElector
from tenancy.resources import LEASES
from tests.support.eventually import eventually
from tests.support.faketime import FakeTime
from tests.support.following import following
from tests.support.names import fresh_namespace


class LeaseHolder:
    """A candidate and what it does while it holds the lease."""

    def __init__(self, client, namespace, name, time):
        self.running = False
        self.lease = LeaderElector(
            client,
            namespace=namespace,
            name="l",
            identity=name,
            clock=time.clock,
            sleep=time.sleep,
            now=time.now,
        )

    async def run(self):
        await self.lease.run(self._scope)

    async def _scope(self):
        self.running = True
        try:
            await asyncio.Event().wait()
        finally:
            self.running = False


@pytest.fixture
async def client(tenant_plane):
    async with Client(tenant_plane.endpoint) as client:
        yield client


async def test_one_holds_while_it_lives_and_hands_over_when_it_leaves(client):
    namespace, time = await fresh_namespace(client), FakeTime()
    one, two = (LeaseHolder(client, namespace, name, time) for name in ("one", "two"))
    async with following(two.run()):
        async with following(one.run()) as first:
            await eventually(lambda: (one.running or two.running) and time.asleep == 2)
            holder, other = (one, two) if one.running else (two, one)
            for _ in range(30):
                time.pass_to_next()
                await eventually(lambda: time.asleep == 2)
                assert holder.running
                assert not other.running
            found = await client.get(LEASES, "l", namespace=namespace)
            assert found["spec"]["holderIdentity"] == holder.lease.identity
            assert found["spec"]["leaseTransitions"] == 0
            if holder is two:
                return  # the other order is what the next lines are about
            first.cancel()
            await eventually(first.done)
        assert not one.running
        found = await client.get(LEASES, "l", namespace=namespace)
        assert found["spec"]["holderIdentity"] == ""
        before = time.seconds
        time.pass_to_next()
        await eventually(lambda: two.running)
        assert time.seconds - before <= 2.4
    found = await client.get(LEASES, "l", namespace=namespace)
    assert found["spec"]["holderIdentity"] == ""
    assert found["spec"]["leaseTransitions"] == 1


async def test_a_holder_that_vanishes_is_followed_after_its_duration(client):
    namespace, time = await fresh_namespace(client), FakeTime()
    body = {
        "metadata": {"name": "l", "namespace": namespace, "labels": {"kept": "true"}},
        "spec": {
            "holderIdentity": "vanished",
            "leaseDurationSeconds": 15,
            "renewTime": "2020-01-01T00:00:00.000000Z",
            "leaseTransitions": 4,
        },
    }
    await client.create(LEASES, body)
    heir = LeaseHolder(client, namespace, "heir", time)
    began = time.seconds
    async with following(heir.run()):
        while not heir.running:
            await eventually(lambda: heir.running or time.asleep == 1)
            if not heir.running:
                time.pass_to_next()
        assert 15.0 <= time.seconds - began <= 18.0
        found = await client.get(LEASES, "l", namespace=namespace)
        assert found["spec"]["holderIdentity"] == "heir"
        assert found["spec"]["leaseTransitions"] == 5
        assert found["metadata"]["labels"] == {"kept": "true"}
        assert found["spec"]["acquireTime"].endswith("Z")


async def test_two_that_come_at_once_do_not_both_get_it(client):
    namespace, time = await fresh_namespace(client), FakeTime()
    holders = [LeaseHolder(client, namespace, f"h{number}", time) for number in range(5)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(holder.run()) for holder in holders]
        await eventually(lambda: time.asleep == 5)
        assert sum(holder.running for holder in holders) == 1
        for task in tasks:
            task.cancel()
