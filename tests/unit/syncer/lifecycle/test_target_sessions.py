"""A tenant's sessions in other super clusters: in those that it is granted, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from kubeio import errors
from kubeio.cache.store import parse_entry
from syncer.controllers import tenant_status
from syncer.lifecycle import target_outages, target_statuses
from syncer.safety.pod_loss_guard import MIN_MISSING_PODS
from syncer.tenants import conditions
from syncer.tenants.conditions import NO_SUCH_TARGET
from tenancy import ownership, wellknown
from tests.support.eventually import eventually
from tests.support.syncer.idle import idle
from tests.support.syncer.sessions import BODY, TENANT, put
from tests.support.syncer.target_sessions import TargetWorldOfTenant, pod_of, running


@pytest.fixture
async def target_world() -> AsyncIterator[TargetWorldOfTenant]:
    async with running() as made:
        yield made


async def test_a_session_begins_once_the_status_names_its_target_and_that_is_ready(
    target_world: TargetWorldOfTenant,
):
    await target_world.declare("home", "c2")
    assert target_world.said() == [["c2"]]
    assert target_world.there == ["home"]
    target_world.ready()
    await idle()
    assert target_world.there == ["c2", "home"]
    session = target_world.sessions["c2"][TENANT.uid]
    assert session.work.is_ready
    assert target_world.world.link.store_guard._newest_written_revision == 0
    assert session.tenant.super_cluster_uid == "r1"


async def test_nothing_begins_where_no_one_would_look_for_it(target_world: TargetWorldOfTenant):
    target_world.ready()
    target_world.world.below.refusals["apply VirtualCluster"] = errors.Forbidden("no")
    await target_world.declare("c2")
    assert target_world.there == ["home"]
    target_world.world.below.refusals.clear()
    target_world.target_sessions.wake()
    await idle()
    assert target_world.there == ["c2", "home"]


async def test_a_link_that_is_not_ready_yet_starts_its_sessions_itself(
    target_world: TargetWorldOfTenant,
):
    target_world.world.link.is_ready = False
    target_world.ready()
    await target_world.declare("c2")
    assert not target_world.sessions["c2"][TENANT.uid].work.is_ready
    assert target_world.sessions["c2"][TENANT.uid] in target_world.world.link.sessions


async def test_another_client_means_another_session(target_world: TargetWorldOfTenant):
    first = target_world.ready()
    await target_world.declare("c2", named=("c2",))
    before = target_world.sessions["c2"][TENANT.uid]
    assert before.target is first
    second = target_world.ready()
    await idle()
    after = target_world.sessions["c2"][TENANT.uid]
    assert after.target is second
    assert not before.work.is_ready
    handlers = target_world.world.link.stores["Pod"]._handlers
    assert sum(before in getattr(each, "args", ()) for each in handlers) == 0


async def test_one_that_is_left_takes_its_sessions_along(target_world: TargetWorldOfTenant):
    target_world.ready()
    await target_world.declare("c2", named=("c2",))
    del target_world.targets.targets["c2"]
    target_world.targets._notify()
    await idle()
    assert target_world.there == ["home"]


async def test_what_is_granted_no_more_stays_until_nothing_is_left(
    target_world: TargetWorldOfTenant,
):
    target = target_world.ready()
    await target_world.declare("c2", named=("c2",))
    session = target_world.sessions["c2"][TENANT.uid]
    far = session.tenant
    body = {
        "metadata": {
            "name": session.view.get_super_namespace("web"),
            "uid": "s",
            "resourceVersion": "1",
            "labels": ownership.build_owner_labels(far, "web"),
            "annotations": ownership.build_owner_annotations(far, "web", "w"),
        }
    }
    left = put(target.cluster.stores["Namespace"], body)
    await target_world.declare("home", named=("c2",))
    assert target_world.there == ["c2", "home"]
    assert not target_world.world.link.grants.is_offered("c2")
    assert target_world.world.link.grants.is_known("c2")
    target.cluster.stores["Namespace"].discard(left, live=True)
    target.problem = "silent"
    target_world.target_sessions.wake()
    await idle()
    assert target_world.there == ["c2", "home"], "who does not answer may have anything"
    target.problem = ""
    target_world.target_sessions.wake()
    await idle()
    assert target_world.there == ["home"]
    assert target_world.said()[-1] == []


async def test_one_that_is_away_at_the_start_is_known_all_the_same(
    target_world: TargetWorldOfTenant,
):
    await target_world.declare("home", named=("c2",))
    assert target_world.world.link.grants.is_known("c2")
    record = {
        "annotations": {wellknown.ASSIGNED_CLUSTER: "c2/0"},
        "name": "p",
        "namespace": "web",
        "uid": "u",
    }
    pod = parse_entry(orjson.dumps({"metadata": record, "spec": {}}))
    assignments = target_world.world.link.assignments
    assert (assignments.get_cluster(pod), assignments.find_unproved_target(pod)) == ("", "c2"), (
        "nobody knows, and it waits"
    )
    bound = parse_entry(orjson.dumps({"metadata": record, "spec": {"nodeName": "target-c2"}}))
    assert assignments.get_cluster(bound) == "c2"
    assert target_world.said() == [], "and goes on being named"


async def test_what_is_named_and_not_declared_is_reported(target_world: TargetWorldOfTenant):
    await target_world.declare("home", "c9")
    await tenant_status.reconcile_tenant_status(
        target_world.world.key("Store", "", ""), target_world.world.session
    )
    told = {
        c["type"]: c
        for b in target_world.world.below.bodies
        for c in b.get("status", {}).get("conditions", ())
    }
    found = told[wellknown.TARGETS_GRANTED]
    assert (found["status"], found["reason"]) == ("False", NO_SUCH_TARGET)
    assert "There is no SuperCluster c9" in found["message"]
    assert target_world.said() == [], "nothing can be there"
    target_world.joined("c9")
    await tenant_status.reconcile_tenant_status(
        target_world.world.key("Store", "", ""), target_world.world.session
    )
    conditions = target_world.world.below.bodies[-1]["status"]["conditions"]
    assert conditions[-1]["status"] == "True"


async def test_one_that_is_no_longer_declared_is_named_while_pods_are_assigned_there(
    target_world: TargetWorldOfTenant,
):
    body = {"metadata": {"name": "p", "namespace": "web", "uid": "u"}, "spec": {}}
    pod = put(target_world.world.link.stores["Pod"], body)
    target_world.world.link.assignments.assign(pod, "gone")
    await target_world.declare("home", named=("gone",))
    assert target_world.said() == []
    target_world.world.link.assignments.forget_deleted_pod("u")
    target_world.target_sessions.wake()
    await idle()
    assert target_world.said() == [[]]


async def test_what_is_there_already_counts_for_the_guard(target_world: TargetWorldOfTenant):
    """Otherwise a restored etcd would pass for the one from which the twins were synced."""
    target = target_world.ready()
    guard = target_world.world.link.store_guard
    for number, stamp in enumerate(("0", "1", "99999")):
        put(target.cluster.stores["ConfigMap"], stamped(f"c{number}", stamp))
    await target_world.declare("c2", named=("c2",))
    assert guard._newest_written_revision == 1


def stamped(name: str, revision: str) -> dict[str, Any]:
    """Return a super object that was written from a revision of the tenant."""
    tenant = ownership.Tenant(
        name=TENANT.name, namespace=TENANT.namespace, uid=TENANT.uid, root=TENANT.root,
        super_cluster_uid="r1",
    )  # fmt: skip
    annotations = {
        **ownership.build_owner_annotations(tenant, "web", name),
        wellknown.STORE_REVISION: revision,
    }
    labels = ownership.build_owner_labels(tenant, "web")
    metadata = {"name": name, "namespace": "x", "uid": name, "resourceVersion": "1"}
    return {"metadata": {**metadata, "labels": labels, "annotations": annotations}}


async def test_the_condition_goes_with_the_last_grant(target_world: TargetWorldOfTenant):
    await target_world.declare("c2", named=("c2",))
    granted = {
        "type": wellknown.TARGETS_GRANTED,
        "status": "True",
        "reason": "Granted",
        "message": "m",
    }
    said = [granted]
    entry = put(
        target_world.world.super_cluster.virtual_clusters,
        {**BODY, "metadata": {**BODY["metadata"], "resourceVersion": "999"},  # type: ignore[dict-item]
         "status": {"conditions": said}},
    )  # fmt: skip
    before = len(target_world.world.below.bodies)
    await conditions.write_conditions(target_world.world.below, entry, [], store=None)  # type: ignore[arg-type]
    assert len(target_world.world.below.bodies) == before + 1


async def test_one_that_is_back_has_everything_looked_at_once(target_world: TargetWorldOfTenant):
    target = target_world.ready()
    await target_world.declare("c2", named=("c2",))
    queue, session = target_world.world.link.queue, target_world.sessions["c2"][TENANT.uid]
    put(target.cluster.stores["ConfigMap"], stamped("c", "1"))

    def taken() -> set[str]:
        found = set(iter(queue.take, None))
        for key in found:
            queue.done(key)
        return {key.kind for key in found if key.super_cluster == "c2"}

    taken()
    target.problem = "silent"
    target_world.targets._notify()
    await idle()
    assert taken() == {"Node"}
    target.problem = ""
    target_world.targets._notify()
    await idle()
    assert taken() == {"Node", "ConfigMap"}
    assert session.work.is_ready


async def test_what_is_missing_is_not_taken_for_gone_until_it_may_be(
    target_world: TargetWorldOfTenant,
):
    target = target_world.ready()
    await target_world.declare("c2", named=("c2",))
    session = target_world.sessions["c2"][TENANT.uid]
    for number in range(MIN_MISSING_PODS):
        target.pod_loss_guard.add_missing(TENANT.uid, str(number))
    await target_world.declare("home", named=("c2",))
    assert target_world.there == ["c2", "home"], "what is not there may come back"
    put(target.cluster.stores["ConfigMap"], stamped("c", "1"))
    queue = target_world.world.link.queue
    for key in set(iter(queue.take, None)):
        queue.done(key)
    target.pod_loss_guard.confirm_losses(target.pod_loss_guard.loss_state)
    target_world.targets._notify()
    await idle()
    kinds = {key.kind for key in iter(queue.take, None) if key.super_cluster == "c2"}
    assert "ConfigMap" in kinds, "everything is looked at once"
    assert session.work.is_ready


def phases(target_world: TargetWorldOfTenant) -> list[Any]:
    """Return what was said of the one target, each time."""
    bodies = [
        body["status"]["targets"] for body in target_world.world.below.bodies if "status" in body
    ]
    return [(each["phase"], each["pods"]) for listed in bodies for each in listed]


async def test_it_is_reported_how_a_target_is_and_how_many_pods_are_there(
    target_world: TargetWorldOfTenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(target_statuses, "STATUS_INTERVAL_SECONDS", 0.02)
    target = target_world.ready()
    await target_world.declare("c2")
    assert phases(target_world) == [("Granted", 0)]
    assignments = target_world.world.link.assignments
    for number in range(20):
        assignments.assign(pod_of(target_world, name=f"p{number}", uid=f"u{number}"), "c2")
    assignments.assign(pod_of(target_world, name="h", uid="h"), "home")
    assert len(phases(target_world)) == 1
    await asyncio.sleep(0.1)
    assert phases(target_world)[1:] == [("Granted", 20)], "once for all of them"
    assignments.forget_deleted_pod("u1")
    assignments.assign(pod_of(target_world, name="p1", uid="u1"), "c2")
    await asyncio.sleep(0.1)
    assert len(phases(target_world)) == 2, "nothing is new"
    await target_world.declare("c2", named=("c2",))
    for module in (target_outages, target_statuses):
        monkeypatch.setattr(module, "UNREACHABLE_SECONDS", 0.05)
    target.problem = "silent"
    target_world.targets._notify()
    await idle()
    target.problem = ""
    target_world.targets._notify()
    await asyncio.sleep(0.1)
    assert len(phases(target_world)) == 2, "one look that failed is nothing to tell of"
    target.problem = "silent"
    target_world.targets._notify()
    await asyncio.sleep(0)
    target.get_unreachable_seconds = lambda: 0.05
    await asyncio.sleep(0.1)
    assert phases(target_world)[-1] == ("Away", 20), "without an event"
    target.problem, target.get_unreachable_seconds = "", lambda: 0.0
    target_world.targets._notify()
    await idle()
    assert phases(target_world)[-1] == ("Granted", 20)
    target_world.world.link.grants.update_granted({})
    assert target_world.target_sessions._statuses.build("c2")["phase"] == "Draining"


async def test_what_is_reported_of_a_silent_target_is_reported_that_long_after_its_last_answer(
    target_world: TargetWorldOfTenant, monkeypatch: pytest.MonkeyPatch
):
    target = target_world.ready()
    await target_world.declare("c2")
    session = target_world.sessions["c2"][TENANT.uid]
    monkeypatch.setattr(session.pods, "has", lambda *_: True)
    pod_of(target_world)
    later: list[tuple[Any, float]] = []
    monkeypatch.setattr(session.queue, "add_after", lambda *asked, **_: later.append(asked))
    before = asyncio.get_running_loop().time()
    target.problem, target.get_unreachable_seconds = "silent", lambda: 12.0
    target_world.targets._notify()
    await idle()
    wake = target_world.target_sessions._outages._timers["c2"].when() - before
    assert 28.0 <= wake < 29.0, wake
    assert later == [(session.build_key("Pod", "web", "p"), 28.0)]


async def test_a_count_that_could_not_be_written_is_tried_again(
    target_world: TargetWorldOfTenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(target_statuses, "STATUS_INTERVAL_SECONDS", 0.02)
    target_world.ready()
    await target_world.declare("c2", named=("c2",))
    target_world.world.below.refusals["apply VirtualCluster"] = errors.Unavailable("silent")
    target_world.world.link.assignments.assign(pod_of(target_world), "c2")
    await asyncio.sleep(0.06)
    target_world.world.below.refusals.clear()
    await eventually(lambda: phases(target_world)[-1:], until=[("Granted", 1)].__eq__)


async def test_our_own_words_are_no_reason_to_count_again_at_once(
    target_world: TargetWorldOfTenant, monkeypatch: pytest.MonkeyPatch
):
    target_world.ready()
    await target_world.declare("c2", named=("c2",))
    target: Any = target_world.targets.get_ready("c2")
    apply, made = target_world.world.below.apply, iter(range(1000))

    async def echoed(resource: Any, body: Any, **options: Any) -> Any:
        """Show what was written, while one more pod comes."""
        answer = await apply(resource, body, **options)
        number = next(made)
        target_world.world.link.assignments.assign(
            pod_of(target_world, name=f"p{number}", uid=f"u{number}"), "c2"
        )
        shown = target_world.world.super_cluster.virtual_clusters.list()[0].decode()
        shown["metadata"]["resourceVersion"] = str(900 + number)
        shown["status"]["targets"] = body["status"]["targets"]
        put(target_world.world.super_cluster.virtual_clusters, shown)
        target_world.target_sessions.wake()
        return answer

    monkeypatch.setattr(target_statuses, "STATUS_INTERVAL_SECONDS", 3600.0)
    monkeypatch.setattr(target_world.world.below, "apply", echoed)
    target.problem, target.get_unreachable_seconds = "silent", lambda: 100.0
    target_world.targets._notify()
    await asyncio.sleep(0.05)
    assert phases(target_world) == [("Away", 0)]
    assert target_world.target_sessions._statuses._timer is not None, (
        "the pod is told of with the next count"
    )


async def test_what_the_cache_shows_may_be_older_than_what_was_reported(
    target_world: TargetWorldOfTenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(target_statuses, "STATUS_INTERVAL_SECONDS", 0.01)
    target_world.ready()
    await target_world.declare("c2", named=("c2",))
    target_world.world.link.assignments.assign(pod_of(target_world), "c2")
    await eventually(lambda: phases(target_world), until=[("Granted", 1)].__eq__)
    target_world.world.link.assignments.forget_deleted_pod("u")
    await eventually(lambda: phases(target_world), until=[("Granted", 1), ("Granted", 0)].__eq__)


# --- what changes while something is written ------------------------------------------------------


async def test_a_record_keeps_what_is_no_longer_declared(target_world: TargetWorldOfTenant):
    pod = pod_of(target_world, annotations={wellknown.ASSIGNED_CLUSTER: "gone/0"})
    await target_world.declare("home", named=("gone",))
    assert target_world.said() == []
    target_world.world.link.stores["Pod"].discard(pod, live=True)
    target_world.target_sessions.wake()
    await idle()
    assert target_world.said() == [[]]
