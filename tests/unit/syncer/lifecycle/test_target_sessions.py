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
async def yard() -> AsyncIterator[TargetWorldOfTenant]:
    async with running() as made:
        yield made


async def test_a_session_begins_once_the_status_names_its_target_and_that_is_ready(
    yard: TargetWorldOfTenant,
):
    await yard.declare("home", "c2")
    assert yard.said() == [["c2"]]
    assert yard.there == ["home"]
    yard.ready()
    await idle()
    assert yard.there == ["c2", "home"]
    session = yard.sessions["c2"][TENANT.uid]
    assert session.is_ready
    assert yard.world.link.store_guard._newest_written_revision == 0
    assert session.tenant.super_cluster_uid == "r1"


async def test_nothing_begins_where_no_one_would_look_for_it(yard: TargetWorldOfTenant):
    yard.ready()
    yard.world.below.refusals["apply VirtualCluster"] = errors.Forbidden("no")
    await yard.declare("c2")
    assert yard.there == ["home"]
    yard.world.below.refusals.clear()
    yard.outposts.wake()
    await idle()
    assert yard.there == ["c2", "home"]


async def test_a_link_that_is_not_ready_yet_starts_its_sessions_itself(yard: TargetWorldOfTenant):
    yard.world.link.is_ready = False
    yard.ready()
    await yard.declare("c2")
    assert not yard.sessions["c2"][TENANT.uid].is_ready
    assert yard.sessions["c2"][TENANT.uid] in yard.world.link.sessions


async def test_another_client_means_another_session(yard: TargetWorldOfTenant):
    first = yard.ready()
    await yard.declare("c2", named=("c2",))
    before = yard.sessions["c2"][TENANT.uid]
    assert before.target is first
    second = yard.ready()
    await idle()
    after = yard.sessions["c2"][TENANT.uid]
    assert after.target is second
    assert not before.is_ready
    handlers = yard.world.link.stores["Pod"]._handlers
    assert sum(before in getattr(each, "args", ()) for each in handlers) == 0


async def test_one_that_is_left_takes_its_sessions_along(yard: TargetWorldOfTenant):
    yard.ready()
    await yard.declare("c2", named=("c2",))
    del yard.targets.targets["c2"]
    yard.targets._notify()
    await idle()
    assert yard.there == ["home"]


async def test_what_is_granted_no_more_stays_until_nothing_is_left(yard: TargetWorldOfTenant):
    target = yard.ready()
    await yard.declare("c2", named=("c2",))
    session = yard.sessions["c2"][TENANT.uid]
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
    await yard.declare("home", named=("c2",))
    assert yard.there == ["c2", "home"]
    assert not yard.world.link.grants.is_offered("c2")
    assert yard.world.link.grants.is_known("c2")
    target.cluster.stores["Namespace"].discard(left, live=True)
    target.problem = "silent"
    yard.outposts.wake()
    await idle()
    assert yard.there == ["c2", "home"], "who does not answer may have anything"
    target.problem = ""
    yard.outposts.wake()
    await idle()
    assert yard.there == ["home"]
    assert yard.said()[-1] == []


async def test_one_that_is_away_at_the_start_is_known_all_the_same(yard: TargetWorldOfTenant):
    await yard.declare("home", named=("c2",))
    assert yard.world.link.grants.is_known("c2")
    record = {
        "annotations": {wellknown.ASSIGNED_CLUSTER: "c2/0"},
        "name": "p",
        "namespace": "web",
        "uid": "u",
    }
    pod = parse_entry(orjson.dumps({"metadata": record, "spec": {}}))
    seats = yard.world.link.assignments
    assert (seats.get_cluster(pod), seats.find_unproved_target(pod)) == ("", "c2"), (
        "nobody knows, and it waits"
    )
    bound = parse_entry(orjson.dumps({"metadata": record, "spec": {"nodeName": "target-c2"}}))
    assert seats.get_cluster(bound) == "c2"
    assert yard.said() == [], "and goes on being named"


async def test_what_is_named_and_not_declared_is_reported(yard: TargetWorldOfTenant):
    await yard.declare("home", "c9")
    await tenant_status.reconcile_tenant_status(yard.world.key("Store", "", ""), yard.world.session)
    told = {
        c["type"]: c
        for b in yard.world.below.bodies
        for c in b.get("status", {}).get("conditions", ())
    }
    found = told[wellknown.TARGETS_GRANTED]
    assert (found["status"], found["reason"]) == ("False", NO_SUCH_TARGET)
    assert "There is no SuperCluster c9" in found["message"]
    assert yard.said() == [], "nothing can be there"
    yard.joined("c9")
    await tenant_status.reconcile_tenant_status(yard.world.key("Store", "", ""), yard.world.session)
    conditions = yard.world.below.bodies[-1]["status"]["conditions"]
    assert conditions[-1]["status"] == "True"


async def test_one_that_is_no_longer_declared_is_named_while_pods_are_assigned_there(
    yard: TargetWorldOfTenant,
):
    body = {"metadata": {"name": "p", "namespace": "web", "uid": "u"}, "spec": {}}
    pod = put(yard.world.link.stores["Pod"], body)
    yard.world.link.assignments.assign(pod, "gone")
    await yard.declare("home", named=("gone",))
    assert yard.said() == []
    yard.world.link.assignments.forget_deleted_pod("u")
    yard.outposts.wake()
    await idle()
    assert yard.said() == [[]]


async def test_what_is_there_already_counts_for_the_guard(yard: TargetWorldOfTenant):
    """Or a restored store would pass for the one that it was carried down from."""
    target = yard.ready()
    brake = yard.world.link.store_guard
    for number, stamp in enumerate(("0", "1", "99999")):
        put(target.cluster.stores["ConfigMap"], stamped(f"c{number}", stamp))
    await yard.declare("c2", named=("c2",))
    assert brake._newest_written_revision == 1


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


async def test_the_condition_goes_with_the_last_grant(yard: TargetWorldOfTenant):
    await yard.declare("c2", named=("c2",))
    granted = {
        "type": wellknown.TARGETS_GRANTED,
        "status": "True",
        "reason": "Granted",
        "message": "m",
    }
    said = [granted]
    entry = put(
        yard.world.super_cluster.virtual_clusters,
        {**BODY, "metadata": {**BODY["metadata"], "resourceVersion": "999"},  # type: ignore[dict-item]
         "status": {"conditions": said}},
    )  # fmt: skip
    before = len(yard.world.below.bodies)
    await conditions.write_conditions(yard.world.below, entry, [], store=None)  # type: ignore[arg-type]
    assert len(yard.world.below.bodies) == before + 1


async def test_one_that_is_back_has_everything_looked_at_once(yard: TargetWorldOfTenant):
    target = yard.ready()
    await yard.declare("c2", named=("c2",))
    queue, session = yard.world.link.queue, yard.sessions["c2"][TENANT.uid]
    put(target.cluster.stores["ConfigMap"], stamped("c", "1"))

    def taken() -> set[str]:
        found = set(iter(queue.take, None))
        for key in found:
            queue.done(key)
        return {key.kind for key in found if key.super_cluster == "c2"}

    taken()
    target.problem = "silent"
    yard.targets._notify()
    await idle()
    assert taken() == {"Node"}
    target.problem = ""
    yard.targets._notify()
    await idle()
    assert taken() == {"Node", "ConfigMap"}
    assert session.is_ready


async def test_what_is_missing_is_not_taken_for_gone_until_it_may_be(yard: TargetWorldOfTenant):
    target = yard.ready()
    await yard.declare("c2", named=("c2",))
    session = yard.sessions["c2"][TENANT.uid]
    for number in range(MIN_MISSING_PODS):
        target.pod_loss_guard.add_missing(TENANT.uid, str(number))
    await yard.declare("home", named=("c2",))
    assert yard.there == ["c2", "home"], "what is not there may come back"
    put(target.cluster.stores["ConfigMap"], stamped("c", "1"))
    queue = yard.world.link.queue
    for key in set(iter(queue.take, None)):
        queue.done(key)
    target.pod_loss_guard.confirm_losses(target.pod_loss_guard.loss_state)
    yard.targets._notify()
    await idle()
    kinds = {key.kind for key in iter(queue.take, None) if key.super_cluster == "c2"}
    assert "ConfigMap" in kinds, "everything is looked at once"
    assert session.is_ready


def phases(yard: TargetWorldOfTenant) -> list[Any]:
    """Return what was said of the one target, each time."""
    bodies = [body["status"]["targets"] for body in yard.world.below.bodies if "status" in body]
    return [(each["phase"], each["pods"]) for listed in bodies for each in listed]


async def test_it_is_reported_how_a_target_is_and_how_many_pods_are_there(
    yard: TargetWorldOfTenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(target_statuses, "STATUS_INTERVAL_SECONDS", 0.02)
    target = yard.ready()
    await yard.declare("c2")
    assert phases(yard) == [("Granted", 0)]
    seats = yard.world.link.assignments
    for number in range(20):
        seats.assign(pod_of(yard, name=f"p{number}", uid=f"u{number}"), "c2")
    seats.assign(pod_of(yard, name="h", uid="h"), "home")
    assert len(phases(yard)) == 1
    await asyncio.sleep(0.1)
    assert phases(yard)[1:] == [("Granted", 20)], "once for all of them"
    seats.forget_deleted_pod("u1")
    seats.assign(pod_of(yard, name="p1", uid="u1"), "c2")
    await asyncio.sleep(0.1)
    assert len(phases(yard)) == 2, "nothing is new"
    await yard.declare("c2", named=("c2",))
    for module in (target_outages, target_statuses):
        monkeypatch.setattr(module, "UNREACHABLE_SECONDS", 0.05)
    target.problem = "silent"
    yard.targets._notify()
    await idle()
    target.problem = ""
    yard.targets._notify()
    await asyncio.sleep(0.1)
    assert len(phases(yard)) == 2, "one look that failed is nothing to tell of"
    target.problem = "silent"
    yard.targets._notify()
    await asyncio.sleep(0)
    target.get_unreachable_seconds = lambda: 0.05
    await asyncio.sleep(0.1)
    assert phases(yard)[-1] == ("Away", 20), "with nobody telling"
    target.problem, target.get_unreachable_seconds = "", lambda: 0.0
    yard.targets._notify()
    await idle()
    assert phases(yard)[-1] == ("Granted", 20)
    yard.world.link.grants.update_granted({})
    assert yard.outposts._statuses.build("c2")["phase"] == "Draining"


async def test_what_is_reported_of_a_silent_target_is_reported_that_long_after_its_last_answer(
    yard: TargetWorldOfTenant, monkeypatch: pytest.MonkeyPatch
):
    target = yard.ready()
    await yard.declare("c2")
    session = yard.sessions["c2"][TENANT.uid]
    monkeypatch.setattr(session.pods, "has", lambda *_: True)
    pod_of(yard)
    later: list[tuple[Any, float]] = []
    monkeypatch.setattr(session.queue, "add_after", lambda *asked, **_: later.append(asked))
    before = asyncio.get_running_loop().time()
    target.problem, target.get_unreachable_seconds = "silent", lambda: 12.0
    yard.targets._notify()
    await idle()
    wake = yard.outposts._outages._timers["c2"].when() - before
    assert 28.0 <= wake < 29.0, wake
    assert later == [(session.build_key("Pod", "web", "p"), 28.0)]


async def test_a_count_that_could_not_be_written_is_tried_again(
    yard: TargetWorldOfTenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(target_statuses, "STATUS_INTERVAL_SECONDS", 0.02)
    yard.ready()
    await yard.declare("c2", named=("c2",))
    yard.world.below.refusals["apply VirtualCluster"] = errors.Unavailable("silent")
    yard.world.link.assignments.assign(pod_of(yard), "c2")
    await asyncio.sleep(0.06)
    yard.world.below.refusals.clear()
    await eventually(lambda: phases(yard)[-1:], until=[("Granted", 1)].__eq__)


async def test_our_own_words_are_no_reason_to_count_again_at_once(
    yard: TargetWorldOfTenant, monkeypatch: pytest.MonkeyPatch
):
    yard.ready()
    await yard.declare("c2", named=("c2",))
    target: Any = yard.targets.get_ready("c2")
    apply, made = yard.world.below.apply, iter(range(1000))

    async def echoed(resource: Any, body: Any, **options: Any) -> Any:
        """Show what was written, while one more pod comes."""
        answer = await apply(resource, body, **options)
        number = next(made)
        yard.world.link.assignments.assign(pod_of(yard, name=f"p{number}", uid=f"u{number}"), "c2")
        shown = yard.world.super_cluster.virtual_clusters.list()[0].decode()
        shown["metadata"]["resourceVersion"] = str(900 + number)
        shown["status"]["targets"] = body["status"]["targets"]
        put(yard.world.super_cluster.virtual_clusters, shown)
        yard.outposts.wake()
        return answer

    monkeypatch.setattr(target_statuses, "STATUS_INTERVAL_SECONDS", 3600.0)
    monkeypatch.setattr(yard.world.below, "apply", echoed)
    target.problem, target.get_unreachable_seconds = "silent", lambda: 100.0
    yard.targets._notify()
    await asyncio.sleep(0.05)
    assert phases(yard) == [("Away", 0)]
    assert yard.outposts._statuses._timer is not None, "the pod is told of with the next count"


async def test_what_the_cache_shows_may_be_older_than_what_was_reported(
    yard: TargetWorldOfTenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(target_statuses, "STATUS_INTERVAL_SECONDS", 0.01)
    yard.ready()
    await yard.declare("c2", named=("c2",))
    yard.world.link.assignments.assign(pod_of(yard), "c2")
    await eventually(lambda: phases(yard), until=[("Granted", 1)].__eq__)
    yard.world.link.assignments.forget_deleted_pod("u")
    await eventually(lambda: phases(yard), until=[("Granted", 1), ("Granted", 0)].__eq__)


# --- what changes while something is written ------------------------------------------------------


async def test_a_record_keeps_what_is_no_longer_declared(yard: TargetWorldOfTenant):
    pod = pod_of(yard, annotations={wellknown.ASSIGNED_CLUSTER: "gone/0"})
    await yard.declare("home", named=("gone",))
    assert yard.said() == []
    yard.world.link.stores["Pod"].discard(pod, live=True)
    yard.outposts.wake()
    await idle()
    assert yard.said() == [[]]
