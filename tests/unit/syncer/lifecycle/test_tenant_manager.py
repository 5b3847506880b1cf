"""Keeping tenants: pauses that hold, words that stay true, and one tenant's trouble kept apart."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubeio.controller.fair_queue import FairQueue, QueueOptions
from syncer.app import Syncer, SyncerOptions
from syncer.lifecycle import tenant_manager
from syncer.lifecycle.supervisor import SupervisedLoop
from syncer.lifecycle.tenant_manager import TenantManager
from syncer.lifecycle.tenant_plan import TenantPlan
from syncer.model.keys import HOME, Key, build_group
from tenancy import wellknown
from tenancy.policies import BASELINE_POLICY
from tests.support.syncer.sessions import BODY, CLUSTER, TENANT, SessionWorld, put

SYNCED = {"type": wellknown.SYNCED, "status": "True", "reason": "Engaged", "message": "x"}


PLAN = TenantPlan(cluster=CLUSTER, kubeconfig=b"", service_range="10.96.8.0/22")


@contextlib.asynccontextmanager
async def keeping(world: SessionWorld, **replaced: Any) -> AsyncIterator[asyncio.Task[None]]:
    """Run the keeper of the one tenant for a moment, with parts of it replaced."""
    queue: FairQueue[Key] = FairQueue(QueueOptions(name="test", max_in_flight=8), group=build_group)
    keeper = TenantManager(world.super_cluster, queue)
    for name, function in replaced.items():
        setattr(keeper, name, function)
    task = asyncio.ensure_future(keeper.run())
    await asyncio.sleep(0.2)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_virtual_cluster_that_cannot_be_worked_on_ends_no_work():
    world = SessionWorld()
    world.declared()
    asked = []

    def plan(_: object) -> None:
        asked.append(1)
        raise TypeError("of a shape that nobody thought of")

    async with keeping(world, _build_plan=plan) as task:
        assert not task.done()
        assert len(asked) == 1  # and it is not asked in a circle


async def test_our_own_words_do_not_cut_a_pause_short():
    world = SessionWorld()
    world.declared()
    tried = []

    async def engage(*_: object) -> str:
        tried.append(1)
        return "no route"

    async def say(*_: object) -> None:
        world.declared([{**SYNCED, "message": str(len(tried))}])

    async with keeping(
        world, _build_plan=lambda _: PLAN, _run_connection=engage, _write_unreachable=say
    ) as task:
        assert len(tried) == 1
        assert not task.done()


async def test_sessions_that_end_at_once_follow_each_other_slowly():
    world = SessionWorld()
    world.declared()
    tried = []

    async def engage(*_: object) -> str:
        tried.append(1)
        return ""

    async with keeping(world, _build_plan=lambda _: PLAN, _run_connection=engage):
        assert len(tried) == 1


@pytest.mark.parametrize(("before", "told"), [([SYNCED], 1), ([], 0)])
async def test_a_tenant_that_was_followed_and_has_no_credential_is_reported(before, told):
    world = SessionWorld()
    world.declared(before)
    async with keeping(world):
        written = world.below.writes("VirtualCluster")
        assert len(written) == told
    for body in world.below.bodies:
        condition = body["status"]["conditions"][0]
        assert (condition["status"], condition["reason"]) == ("False", "TenantUnreachable")


def bound_to(world: SessionWorld, policy: str) -> None:
    """Declare the VirtualCluster bound to a policy, with a credential for the syncer."""
    root = {"namespace": TENANT.root, "uid": "s", "resourceVersion": "1"}
    data = {tenant_manager.KUBECONFIG_NAME: base64.b64encode(b"config").decode()}
    put(
        world.super_cluster.credentials,
        {
            "kind": "Secret",
            "metadata": {**root, "name": tenant_manager.KUBECONFIG_NAME},
            "data": data,
        },
    )
    spec = {**BODY["spec"], **({"policyRef": {"name": policy}} if policy else {})}
    put(world.super_cluster.virtual_clusters, {**BODY, "spec": spec})


def declare_policy(world: SessionWorld, name: str, revision: int = 1, **spec: Any) -> None:
    """Put a TenantPolicy into the cache."""
    metadata = {"name": name, "uid": f"{name}-uid", "resourceVersion": str(revision)}
    body = {"kind": "TenantPolicy", "metadata": metadata, "spec": spec}
    put(world.super_cluster.policies, body)


def plan_of(world: SessionWorld) -> TenantPlan | None:
    """Return what a session of the one tenant would be made of."""
    queue: FairQueue[Key] = FairQueue(QueueOptions(name="test", max_in_flight=8), group=build_group)
    (entry,) = world.super_cluster.virtual_clusters.list()
    return TenantManager(world.super_cluster, queue)._build_plan(entry)


def test_without_a_word_the_object_baseline_binds_and_the_built_in_one_when_it_is_missing():
    world = SessionWorld()
    bound_to(world, "")
    built_in = plan_of(world)
    assert built_in is not None
    assert built_in.policy == BASELINE_POLICY
    declare_policy(world, "baseline", nodes={"view": "Full"})
    own = plan_of(world)
    assert own is not None
    assert own.policy.nodes.view == "Full"
    assert own.compute_digest() != built_in.compute_digest()


def test_another_policy_is_another_plan():
    world = SessionWorld()
    declare_policy(world, "own", sync={"secrets": "All"})
    bound_to(world, "own")
    first = plan_of(world)
    declare_policy(world, "own", 2, sync={"secrets": "All"})
    same = plan_of(world)
    declare_policy(world, "own", 3, daemonSets="Refuse")
    changed = plan_of(world)
    assert first is not None
    assert same is not None
    assert changed is not None
    assert first.compute_digest() == same.compute_digest() != changed.compute_digest()
    assert changed.policy.daemon_sets == "Refuse"


async def test_a_policy_gives_its_tenants_turns_and_another_weight_needs_no_other_link():
    """As the syncer has its queue, a tenant with weight 4 has four turns for one."""
    world = SessionWorld()
    options = SyncerOptions(namespace="vc-manager", port=0, identity="unit", version="unit")
    program = Syncer(world.below, options)  # type: ignore[arg-type]
    world.super_cluster = program.home
    declare_policy(world, "own", weight=4)
    bound_to(world, "own")
    plan = plan_of(world)
    assert plan is not None
    keeper = program.tenants
    loop = SupervisedLoop(TENANT.uid, max_retry_seconds=1.0)
    linked = asyncio.ensure_future(
        keeper._wait_until_changed(TENANT.uid, plan.compute_digest(), loop)
    )
    await asyncio.sleep(0)
    assert turns(program.queue, 50) == [40, 10]
    assert keeper.get_weight(f"{TENANT.uid}@far") == 4
    declare_policy(world, "own", 2)
    loop.wake()
    await asyncio.sleep(0)
    assert turns(program.queue, 50) == [25, 25]
    assert not linked.done()
    assert keeper.get_weight(f"{TENANT.uid}@far") == keeper.get_weight("nobody") == 1
    linked.cancel()


def turns(queue: FairQueue[Key], count: int) -> list[int]:
    """Have the one tenant and another always want something. Return how often each is served."""
    uids = (TENANT.uid, "another")
    for uid in uids:
        for number in range(2 * count):
            queue.add(Key(uid, HOME, "Pod", "web", f"p{number}"))
    served: list[str] = []
    for _ in range(count):
        key = queue.take()
        assert key is not None
        served.append(key.tenant)
        queue.done(key)
    for uid in uids:
        queue.drop_group(uid)
    return [served.count(uid) for uid in uids]


@pytest.mark.parametrize("name", ["own", "baseline"])
async def test_a_tenant_whose_named_policy_is_missing_is_reported_and_waits_for_it(name):
    world = SessionWorld()
    bound_to(world, name)
    engaged = []

    async def engage(_: object, plan: TenantPlan, __: object) -> str:
        engaged.append(plan.policy)
        await asyncio.sleep(60)
        return ""

    queue: FairQueue[Key] = FairQueue(QueueOptions(name="test", max_in_flight=8), group=build_group)
    keeper = TenantManager(world.super_cluster, queue)
    keeper._run_connection = engage  # type: ignore[method-assign]
    task = asyncio.ensure_future(keeper.run())
    await asyncio.sleep(0.1)
    (body,) = world.below.bodies
    told = body["status"]["conditions"][0]
    assert (told["status"], told["reason"]) == ("False", "PolicyMissing")
    assert f"TenantPolicy {name} in spec.policyRef does not exist" in told["message"]
    assert "Create it, or use another one" in told["message"]
    assert engaged == []
    declare_policy(world, name, sync={"secrets": "All"})
    await asyncio.sleep(0.1)
    assert [policy.sync.secrets for policy in engaged] == ["All"]
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("name", ["", "own"])
async def test_a_policy_that_cannot_be_read_allows_nothing(name):
    world = SessionWorld()
    bound_to(world, name)
    declare_policy(world, name or "baseline", security={"level": "own"})
    assert plan_of(world) is None
    async with keeping(world):
        (body,) = world.below.bodies
    told = body["status"]["conditions"][0]
    assert told["reason"] == "PolicyUnreadable"
    assert "security.level" in told["message"]
    assert "Correct the TenantPolicy" in told["message"]
