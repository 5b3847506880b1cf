"""Keeping tenants: pauses that hold, words that stay true, and one tenant's trouble kept apart."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kubeio import errors
from kubeio.cache.crd_reflector import OptionalReflector
from kubeio.cache.reflector import Reflector
from kubeio.cache.store import Store
from kubeio.config import loading
from kubeio.controller.fair_queue import FairQueue
from syncer.app import Options, Syncer
from syncer.lifecycle import tenant_manager
from syncer.lifecycle.tenant_manager import Plan, Tenants
from syncer.model.keys import HOME, Key, group_of
from syncer.safety.circuit_breaker import FAILURES
from syncer.tenants import connection as links
from tenancy import wellknown
from tenancy.policies import BASELINE
from tenancy.resources import PODS
from tests.support.eventually import eventually
from tests.unit.syncer.sessions import BODY, CLUSTER, TENANT, World, put
from tests.unit.syncer.splits import Split, key_of

SYNCED = {"type": wellknown.SYNCED, "status": "True", "reason": "Engaged", "message": "x"}
PLAN = Plan(cluster=CLUSTER, kubeconfig=b"", slice="10.96.8.0/22")


@contextlib.asynccontextmanager
async def keeping(world: World, **replaced: Any) -> AsyncIterator[asyncio.Task[None]]:
    """Run the keeper of the one tenant for a moment, with parts of it replaced."""
    queue: FairQueue[Key] = FairQueue(name="test", group=group_of, in_flight=8)
    keeper = Tenants(world.super_cluster, queue)
    for name, function in replaced.items():
        setattr(keeper, name, function)
    changed = keeper._changed[TENANT.uid] = asyncio.Event()
    world.super_cluster.virtual_clusters.subscribe(lambda *_: changed.set())
    task = asyncio.ensure_future(keeper._keep(TENANT.uid))
    await asyncio.sleep(0.2)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_virtual_cluster_that_cannot_be_worked_on_ends_no_work():
    world = World()
    world.declared()
    asked = []

    def plan(_: object) -> None:
        asked.append(1)
        raise TypeError("of a shape that nobody thought of")

    async with keeping(world, _plan=plan) as task:
        assert not task.done()
        assert len(asked) == 1  # and it is not asked in a circle


async def test_our_own_words_do_not_cut_a_pause_short():
    world = World()
    world.declared()
    tried = []

    async def engage(*_: object) -> str:
        tried.append(1)
        return "no route"

    async def say(*_: object) -> None:
        world.declared([{**SYNCED, "message": str(len(tried))}])

    async with keeping(world, _plan=lambda _: PLAN, _engage=engage, _say_unreachable=say) as task:
        assert len(tried) == 1
        assert not task.done()


async def test_sessions_that_end_at_once_follow_each_other_slowly():
    world = World()
    world.declared()
    tried = []

    async def engage(*_: object) -> str:
        tried.append(1)
        return ""

    async with keeping(world, _plan=lambda _: PLAN, _engage=engage):
        assert len(tried) == 1


@pytest.mark.parametrize(("before", "told"), [([SYNCED], 1), ([], 0)])
async def test_a_tenant_that_was_followed_and_has_no_credential_is_told_so(before, told):
    world = World()
    world.declared(before)
    async with keeping(world):
        written = world.below.writes("VirtualCluster")
        assert len(written) == told
    for body in world.below.bodies:
        condition = body["status"]["conditions"][0]
        assert (condition["status"], condition["reason"]) == ("False", "TenantUnreachable")


def bound_to(world: World, policy: str) -> None:
    """Declare the VirtualCluster bound to a policy, with a credential for the syncer."""
    root = {"namespace": TENANT.root, "uid": "s", "resourceVersion": "1"}
    data = {tenant_manager.KUBECONFIG: base64.b64encode(b"config").decode()}
    put(
        world.super_cluster.credentials,
        {"kind": "Secret", "metadata": {**root, "name": tenant_manager.KUBECONFIG}, "data": data},
    )
    spec = {**BODY["spec"], **({"policyRef": {"name": policy}} if policy else {})}
    put(world.super_cluster.virtual_clusters, {**BODY, "spec": spec})


def declare_policy(world: World, name: str, revision: int = 1, **spec: Any) -> None:
    """Put a TenantPolicy into the cache."""
    metadata = {"name": name, "uid": f"{name}-uid", "resourceVersion": str(revision)}
    body = {"kind": "TenantPolicy", "metadata": metadata, "spec": spec}
    put(world.super_cluster.policies, body)


def plan_of(world: World) -> Plan | None:
    """Return what a session of the one tenant would be made of."""
    queue: FairQueue[Key] = FairQueue(name="test", group=group_of, in_flight=8)
    (entry,) = world.super_cluster.virtual_clusters.list()
    return Tenants(world.super_cluster, queue)._plan(entry)


def test_without_a_word_the_object_baseline_binds_and_the_built_in_one_when_it_is_missing():
    world = World()
    bound_to(world, "")
    built_in = plan_of(world)
    assert built_in is not None
    assert built_in.policy == BASELINE
    declare_policy(world, "baseline", nodes={"view": "Full"})
    own = plan_of(world)
    assert own is not None
    assert own.policy.nodes.view == "Full"
    assert own.digest() != built_in.digest()


@pytest.mark.parametrize(("field", "value"), [("dns", "none"), ("metrics", "managed")])
def test_what_is_provided_for_the_tenant_is_part_of_its_plan(field, value):
    spec = msgspec.structs.replace(CLUSTER.spec, **{field: value})
    other = replace(PLAN, cluster=msgspec.structs.replace(CLUSTER, spec=spec))
    assert other.digest() != PLAN.digest()


def test_another_policy_is_another_plan():
    world = World()
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
    assert first.digest() == same.digest() != changed.digest()
    assert changed.policy.daemon_sets == "Refuse"


async def test_a_policy_gives_its_tenants_turns_and_another_weight_needs_no_other_link():
    """As the syncer has its queue, a tenant with weight 4 has four turns for one."""
    world = World()
    options = Options(namespace="vc-manager", port=0, identity="unit", version="unit")
    program = Syncer(world.below, options)  # type: ignore[arg-type]
    world.super_cluster = program.home
    declare_policy(world, "own", weight=4)
    bound_to(world, "own")
    plan = plan_of(world)
    assert plan is not None
    keeper = program.tenants
    changed = keeper._changed[TENANT.uid] = asyncio.Event()
    linked = asyncio.ensure_future(keeper._until_changed(TENANT.uid, plan.digest()))
    await asyncio.sleep(0)
    assert turns(program.queue, 50) == [40, 10]
    assert keeper.weight(f"{TENANT.uid}@far") == 4
    declare_policy(world, "own", 2)
    changed.set()
    await asyncio.sleep(0)
    assert turns(program.queue, 50) == [25, 25]
    assert not linked.done()
    assert keeper.weight(f"{TENANT.uid}@far") == keeper.weight("nobody") == 1
    linked.cancel()


def turns(queue: FairQueue[Key], count: int) -> list[int]:
    """Have the one tenant and another always want something; return how often each is served."""
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
async def test_a_tenant_whose_named_policy_is_missing_is_told_so_and_waits_for_it(name):
    world = World()
    bound_to(world, name)
    engaged = []

    async def engage(_: object, plan: Plan) -> str:
        engaged.append(plan.policy)
        await asyncio.sleep(60)
        return ""

    queue: FairQueue[Key] = FairQueue(name="test", group=group_of, in_flight=8)
    keeper = Tenants(world.super_cluster, queue)
    keeper._engage = engage  # type: ignore[method-assign]
    task = asyncio.ensure_future(keeper.run())
    await asyncio.sleep(0.1)
    (body,) = world.below.bodies
    told = body["status"]["conditions"][0]
    assert (told["status"], told["reason"]) == ("False", "PolicyMissing")
    assert f"TenantPolicy {name} that spec.policyRef names is not there" in told["message"]
    assert "create it, or name another one" in told["message"]
    assert engaged == []
    declare_policy(world, name, sync={"secrets": "All"})
    await asyncio.sleep(0.1)
    assert [policy.sync.secrets for policy in engaged] == ["All"]
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("name", ["", "own"])
async def test_a_policy_that_cannot_be_read_allows_nothing(name):
    world = World()
    bound_to(world, name)
    declare_policy(world, name or "baseline", security={"level": "own"})
    assert plan_of(world) is None
    async with keeping(world):
        (body,) = world.below.bodies
    told = body["status"]["conditions"][0]
    assert told["reason"] == "PolicyUnreadable"
    assert "security.level" in told["message"]
    assert "correct the TenantPolicy" in told["message"]


async def test_first_lists_that_a_tenant_refuses_end_the_session_with_the_reason(monkeypatch):
    monkeypatch.setattr(links, "UNREACHABLE_SECONDS", 0.02)
    link = World().link
    with pytest.raises(TimeoutError):  # slow is no reason
        await asyncio.wait_for(link._first_lists(), 0.2)
    link._reflectors[3].problem = "403"
    with pytest.raises(errors.Unavailable, match="403"):
        await link._first_lists()


async def test_what_a_link_promised_to_its_pods_ends_with_it(monkeypatch):
    world = World()
    promised = world.super_cluster.inventory._promised
    before = []

    async def run(link: links.Link) -> None:
        link.seats.promise("u", world.super_cluster.inventory, {})
        before.append(dict(promised))

    async def nothing(_: object) -> None:
        return

    monkeypatch.setattr(links.Link, "run", run)
    monkeypatch.setattr(links.Link, "drained", nothing)
    monkeypatch.setattr(loading, "tenant_kubeconfig", lambda *_, **__: world.link.client)
    queue: FairQueue[Key] = FairQueue(name="test", group=group_of, in_flight=8)
    keeper = Tenants(world.super_cluster, queue)
    monkeypatch.setattr(links, "TenantClient", lambda *_, **__: world.above)
    await asyncio.wait_for(keeper._engage(TENANT.uid, PLAN), 5)
    assert (before, promised) == ([{"u": {}}], {})


class Watch:
    """A watch whose first list comes when the test says so."""

    resource, problem = "things", ""

    def __init__(self) -> None:
        self.is_open = False
        self.listed = asyncio.Event()

    async def run(self) -> None:
        self.is_open = True

    @property
    def synced(self) -> bool:
        return self.listed.is_set()

    async def wait_synced(self) -> None:
        await self.listed.wait()


async def test_few_tenants_open_their_watches_together_and_a_slow_one_loses_its_turn(monkeypatch):
    """REL-78: a hundred at once would keep the loop from renewing the lease."""
    monkeypatch.setattr(links, "TURN_SECONDS", 0.2)
    turns, watches = asyncio.Semaphore(1), [Watch(), Watch(), Watch()]
    async with asyncio.TaskGroup() as group:
        opening = []
        for watch in watches:
            link = World().link
            link._turns, link._reflectors = turns, (watch,)
            opening.append(group.create_task(link._watch(group)))
        await asyncio.sleep(0.05)
        assert [watch.is_open for watch in watches] == [True, False, False]
        watches[0].listed.set()
        await asyncio.sleep(0.05)
        assert [watch.is_open for watch in watches] == [True, True, False]
        await asyncio.sleep(0.3)  # the second never answers
        assert watches[2].is_open
        assert not opening[1].done()
        for watch in watches:
            watch.listed.set()


async def test_a_watch_that_broke_is_a_doubt_and_one_that_stays_so_is_told(monkeypatch):
    monkeypatch.setattr(links, "UNREACHABLE_SECONDS", 0.1)
    monkeypatch.setattr(links, "_LOOK_SECONDS", 0.01)
    link = World().link
    task = asyncio.ensure_future(link._watch_health())
    await asyncio.sleep(0.05)
    assert not link.store_in_doubt
    link._reflectors[2].restarts += 1
    link._reflectors[2].problem = "403"
    await asyncio.sleep(0.05)
    assert link.store_in_doubt
    await asyncio.sleep(0.2)
    assert link.problem == "403"
    link._reflectors[2].problem = ""
    await asyncio.sleep(0.05)
    assert not link.problem
    task.cancel()


@pytest.mark.parametrize("who", ["tenant", "target"])
async def test_what_failed_in_an_outage_is_tried_as_soon_as_it_is_over(monkeypatch, who):
    """Its own delay has grown to minutes; REL-15."""
    monkeypatch.setattr(links, "_LOOK_SECONDS", 0.01)
    split = Split()
    link, session = split.link, split.far
    patient = link._reflectors[2] if who == "tenant" else session.target
    key = key_of(session)
    for _ in range(12):
        link.queue.retry(key)
    task = asyncio.ensure_future(link._watch_health())
    await asyncio.sleep(0.05)
    patient.problem = "Connection refused"
    await asyncio.sleep(0.05)
    assert str(key) in link.queue.snapshot()["delayed"]
    patient.problem = ""
    await asyncio.sleep(0.05)
    assert str(key) not in link.queue.snapshot()["delayed"]
    assert link.queue.failures(key) == 0
    task.cancel()


async def test_a_watch_that_stands_again_wakes_the_others_and_the_breaker(monkeypatch):
    """REL-15: each waits for half a minute of its own meanwhile."""
    for name in ("_LOOK_SECONDS", "_SOON_SECONDS"):
        monkeypatch.setattr(links, name, 0.01)
    link = World().link
    hurried: list[Reflector] = []

    def hurry(watch: Reflector, returned: float) -> None:
        hurried.append(watch)

    monkeypatch.setattr(Reflector, "hurry", hurry)
    task = asyncio.ensure_future(link._watch_returns())
    first, second = link._reflectors[:2]
    optional = next(each for each in link._reflectors if isinstance(each, OptionalReflector))
    optional._inner = Reflector(link.client, PODS, Store())  # its kind is served
    for watch in (first, second, optional._inner):
        watch.problem = "Connection refused"
    for _ in range(FAILURES):
        link.client.breaker.failed()
    await asyncio.sleep(0.05)
    assert hurried == []
    first.problem = ""
    await eventually(lambda: hurried)
    assert {second, optional._definition, optional._inner} <= set(hurried)
    assert link.client.breaker.is_open
    second.problem = ""
    await eventually(lambda: not link.client.breaker.is_open)
    task.cancel()


async def test_what_a_tenant_refused_is_tried_by_a_few_and_by_all_once_it_takes_writes(monkeypatch):
    world = World()
    link, session = world.link, world.session
    refusals, queue = link.client.refused_writes, link.queue
    monkeypatch.setattr(refusals, "problem", lambda: "writes of pods are refused: no")
    keys = [session.key("Pod", "web", f"p{number}") for number in range(5)]
    for key in keys:
        for _ in range(8):
            queue.retry(key)
    link._notice_refusals()
    assert link.refusing
    tried = {key for key in iter(queue.take, None) if key.kind == "Pod"}
    assert len(tried) == 2
    for key in tried:
        queue.done(key)
        queue.retry(key)
    monkeypatch.setattr(refusals, "problem", lambda: "")
    link._notice_refusals()
    assert not link.refusing
    assert {key for key in iter(queue.take, None) if key.kind == "Pod"} == set(keys)
    assert [queue.failures(key) for key in keys] == [0] * 5
