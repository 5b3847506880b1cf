"""A target that is no longer granted: its node is shut and its pods are evicted."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, RequeueAfter
from syncer.controllers.nodes import drain, target_node_reconciler
from syncer.controllers.pods import pod_reconciler as pod_flow
from syncer.handlers import split_tenant_events
from syncer.model.keys import HOME, NODE
from syncer.rules.pods import lifecycle, pod_status
from tenancy import wellknown
from tenancy.specs import TargetGrant
from tests.support.syncer.sessions import put
from tests.support.syncer.two_clusters import POD, SplitWorld, key_of

OWNER = [{"kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True, "apiVersion": "v1"}]


@pytest.fixture
def split() -> SplitWorld:
    made = SplitWorld()
    made.link.grants.update_granted({HOME: TargetGrant(name=HOME)})
    made.above.refusals["get Event"] = errors.NotFound("none")
    return made


def bound(split: SplitWorld, *, is_owned: bool = True, **metadata: Any) -> Entry:
    """Have a pod that runs in the target."""
    split.twin(split.far, nodeName="n", containers=[])
    owner = {"ownerReferences": OWNER} if is_owned else {}
    return split.pod(nodeName="target-c2", metadata={**owner, **metadata})


async def drained(split: SplitWorld, entry: Entry, session: Any = None) -> Any:
    side = lifecycle.build_pod_state(entry.decode())
    return await drain.evict_from_target(entry, side, session or split.far)


def evictions(split: SplitWorld) -> list[Any]:
    return [b for b in split.above.bodies if b and b.get("kind") == "Eviction"]


async def test_one_with_a_controller_is_evicted_as_its_budgets_let_it(split: SplitWorld):
    entry = bound(split)
    split.above.refusals["create Pod/eviction"] = errors.TooManyRequests("a budget")
    assert await drained(split, entry) == RequeueAfter(drain.BUDGET_RETRY_SECONDS)
    assert split.told() == [drain.EVICTION_BLOCKED]
    split.above.refusals.pop("create Pod/eviction")
    assert await drained(split, entry) == Done()
    body = evictions(split)[-1]
    assert body["metadata"] == {"name": "p", "namespace": "web"}
    assert body["deleteOptions"] == {"preconditions": {"uid": "p-uid"}}
    for problem in (errors.NotFound("gone"), errors.Conflict("another")):
        split.above.refusals["create Pod/eviction"] = problem
        assert await drained(split, entry) == Done()


async def test_one_that_no_one_would_make_again_stays_and_is_reported_once(split: SplitWorld):
    entry = bound(split, is_owned=False)
    for _ in range(3):
        assert await drained(split, entry) == Done()
    assert split.told() == [drain.TARGET_WITHDRAWN]
    assert evictions(split) == []


@pytest.mark.parametrize(
    ("problem", "is_told"),
    [
        (errors.TooManyRequests("slow down", retry_after=3.0), False),
        (errors.ServerError("two budgets", status=500), True),
        (errors.ServerError("no leader", status=503), False),
        (errors.Forbidden("a webhook"), True),
    ],
)
async def test_other_refusals_are_reported_in_other_words_and_a_busy_api_is_not_a_budget(
    split: SplitWorld, problem: errors.ApiError, is_told: bool
):
    entry = bound(split)
    split.above.refusals["create Pod/eviction"] = problem
    if not is_told:
        with pytest.raises(type(problem)):
            await drained(split, entry)
        assert split.told() == []
        return
    assert await drained(split, entry) == RequeueAfter(drain.REFUSED_RETRY_SECONDS)
    assert split.told() == [drain.EVICTION_BLOCKED]
    assert "two disruption budgets" in split.above.bodies[-1]["message"]


@pytest.mark.parametrize("what", ["Succeeded", "Failed"])
async def test_those_that_are_over_go_whoever_controls_them(split: SplitWorld, what: str):
    body = bound(split, is_owned=False).decode()
    body["metadata"]["resourceVersion"] = "51"
    put(split.link.stores["Pod"], {**body, "status": {"phase": what}})
    await drained(split, split.link.stores["Pod"].list()[0])
    assert len(evictions(split)) == 1
    assert split.told() == []


@pytest.mark.parametrize("what", ["finished", "lost"])
async def test_those_without_a_twin_are_drained_as_well(split: SplitWorld, what: str):
    entry = bound(split, is_owned=False)
    body = entry.decode()
    status = (
        pod_status.build_lost_patch(body)["status"] if what == "lost" else {"phase": "Succeeded"}
    )
    body["metadata"]["resourceVersion"] = "51"
    put(split.link.stores["Pod"], {**body, "status": status})
    for twin in split.far.twins.get_store("Pod").list():
        split.far.twins.get_store("Pod").discard(twin, live=True)
    await pod_flow.reconcile_pod(POD, key_of(split.far), split.far)
    assert len(evictions(split)) == 1


@pytest.mark.parametrize("what", ["granted", "home", "deleting", "unbound"])
async def test_no_one_else_is_drained(split: SplitWorld, what: str):
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    entry = bound(split, **(gone if what == "deleting" else {}))
    if what == "granted":
        split.link.grants.update_granted({"c2": TargetGrant(name="c2")})
    if what == "unbound":
        entry = split.pod("q", metadata={"ownerReferences": OWNER})
    session = split.session if what == "home" else split.far
    assert await drained(split, entry, session) == Done()
    assert split.above.writes() == []


async def test_the_pods_own_key_does_it_and_is_queued_when_the_grant_goes(split: SplitWorld):
    split.ready()
    bound(split)
    split.taken()
    split_tenant_events.enqueue_assignments(split.link)
    assert key_of(split.far) in split.taken()
    assert key_of(split.session) not in split.taken(), "nothing is to be done at home"
    await pod_flow.reconcile_pod(POD, key_of(split.far), split.far)
    assert len(evictions(split)) == 1


# --- the node -------------------------------------------------------------------------------------


def shown(split: SplitWorld, body: Any, **spec: Any) -> str:
    """Have the node in the tenant's cache as it was written, and as someone changed it."""
    split.above.cluster.revision += 1
    version = str(split.above.revision)
    found = {**body, "metadata": {**body["metadata"], "uid": "n", "resourceVersion": version}}
    status = {"status": split.said}  # type: ignore[attr-defined]
    put(split.link.stores["Node"], {**found, **status, "spec": {**body["spec"], **spec}})
    return version


async def looked(split: SplitWorld) -> Any:
    target: Any = split.far.target
    target.get_unreachable_seconds, target.version, target.answered_at = lambda: 0.0, "v1.36.4", 0.0
    split.above.bodies.clear()
    await target_node_reconciler.reconcile_target_node(
        split.far.build_key(NODE, "", "target-c2"), split.far
    )
    split.said = next(  # type: ignore[attr-defined]
        (b["status"] for b in split.above.bodies if "status" in b), getattr(split, "said", {})
    )
    return next((b for b in split.above.bodies if "spec" in b), None)


async def test_its_node_is_shut_while_it_is_granted_no_more(split: SplitWorld):
    bound(split)
    split.link.grants.update_granted({"c2": TargetGrant(name="c2")})
    first = await looked(split)
    assert "unschedulable" not in first["spec"]
    assert "resourceVersion" not in first["metadata"]
    version = shown(split, first)
    assert await looked(split) is None
    split.link.grants.update_granted({HOME: TargetGrant(name=HOME)})
    shut = await looked(split)
    assert shut["spec"]["unschedulable"] is True
    assert shut["metadata"]["resourceVersion"] == version, "or what the tenant writes now is lost"
    shown(split, shut)
    assert await looked(split) is None
    shown(split, shut, unschedulable=False)
    assert (await looked(split))["spec"]["unschedulable"] is True, "nobody opens it"
    shown(split, shut)
    split.link.grants.update_granted({"c2": TargetGrant(name="c2")})
    opened = await looked(split)
    assert "unschedulable" not in opened["spec"], "what nobody applies any more goes"
    assert opened["metadata"]["annotations"][wellknown.CORDONED] == "false"
