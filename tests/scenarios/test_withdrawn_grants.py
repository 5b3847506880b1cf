"""A grant that is withdrawn, and what was there before: no pod is in two places, nor left alone."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter
from syncer.controllers import cached_objects
from syncer.controllers.pods import assign_cluster, candidates
from syncer.controllers.pods import pod_reconciler as pod_flow
from syncer.handlers import resync, split_tenant_events
from syncer.handlers.target_events import TargetEvents
from syncer.model.keys import ASSIGNMENT, HOME
from syncer.placement.assignments import UNASSIGNED
from syncer.placement.target_grants import CONNECTING_SECONDS
from syncer.rules import registry
from syncer.tenants.session import Session
from tenancy import wellknown
from tenancy.specs import TargetGrant
from tests.support.syncer.sessions import put
from tests.support.syncer.two_clusters import POD, SplitWorld, key_of


async def proved(*_: object) -> None:
    """The missing pod is deleted."""


def withdrawn(split: SplitWorld) -> None:
    """Have c2 no longer granted."""
    split.link.grants.update_granted({HOME: TargetGrant(name=HOME)})
    split.far.target.prove_missing = proved  # type: ignore[union-attr,method-assign]


async def test_who_waits_where_nothing_is_granted_any_more_is_placed_again(split: SplitWorld):
    pod = split.pod(record="c2/0")
    split.taken()
    withdrawn(split)
    with pytest.raises(NotReadyYet, match="not granted"):
        await pod_flow.reconcile_pod(POD, key_of(split.far), split.far)
    assert split.session.build_key(ASSIGNMENT, "web", "p") in split.taken()
    await split.place()
    await split.place()
    assert split.record().startswith("home/")
    assert split.link.assignments.get_cluster(pod) == HOME
    assert not split.link.assignments.has_pods_in("c2")


async def test_who_fits_nowhere_else_does_not_keep_the_target_either(split: SplitWorld):
    pod = split.pod(record="c2/0", nodeSelector={wellknown.TARGET: "c2"})
    withdrawn(split)
    split.link.grants.update_granted({"c3": TargetGrant(name="c3")})
    await split.place()
    assert split.link.assignments.get_leaving_cluster(pod) == "c2"
    split.above.catch_up("Pod")
    assert isinstance(await split.place(), RequeueAfter)
    assert split.link.assignments.get_cluster(pod) == UNASSIGNED
    assert not split.link.assignments.has_pods_in("c2")
    split.link.grants.update_granted({"c2": TargetGrant(name="c2")})
    split.above.catch_up("Pod")
    await split.place()
    assert split.record().startswith("c2/"), "and it is placed once it is granted again"


@pytest.mark.parametrize("forged", [{"record": "c2/x"}, {"nodeName": "target-c2"}])
def test_nothing_a_pod_needs_goes_where_nothing_is_granted(split: SplitWorld, forged: Any):
    withdrawn(split)
    split.tenant_has("Namespace", "web", namespace="")
    split.tenant_has("Secret", "s")
    split.pod(volumes=[{"name": "v", "secret": {"secretName": "s"}}], **forged)
    assert not split.far.pods.has_namespace("web")
    for kind, namespace, name in (("Namespace", "", "web"), ("Secret", "web", "s")):
        key = split.far.build_key(kind, namespace, name)
        assert not cached_objects.read_pair(registry.KINDS_BY_NAME[kind], key, split.far).wanted
        assert key not in set(split.far.all_keys.list_keys())
    is_bound = "nodeName" in forged
    assert (key_of(split.far) in set(split.far.all_keys.list_keys())) == is_bound, (
        "it may have to end there"
    )


def test_what_a_pod_that_runs_there_needs_stays_until_its_twin_goes(split: SplitWorld):
    split.pod(record="c2/0", volumes=[{"name": "v", "secret": {"secretName": "s"}}])
    withdrawn(split)
    split_tenant_events.enqueue_assignments(split.link)
    assert not split.far.view.is_referenced("Secret", "web", "s")
    below = TargetEvents(split.far.target, {split.far.tenant.uid: split.far})
    below.subscribe()
    twin = split.twin(split.far, nodeName="n")  # its create was on its way
    assert split.far.view.is_referenced("Secret", "web", "s")
    split.taken()
    split.far.twins.get_store("Pod").discard(twin, live=True)
    assert not split.far.view.is_referenced("Secret", "web", "s")
    assert split.far.build_key("Secret", "web", "s") in split.taken()
    assert split.far.build_key("Pod", "web", "p") in set(split.far.all_keys.list_keys()), (
        "it is ended there"
    )


async def test_a_record_that_does_not_count_is_read_after_live(split: SplitWorld):
    """It may be of a create whose answer never came, before we began."""
    split.pod(record="c2/0", version=49)
    split.link.assignments.forget_deleted_pod(
        "p-uid"
    )  # what was there at the start: it is not known to be new
    withdrawn(split)
    assert await split.place() == Done()
    assert split.there.asked == [("get", "Pod", "p")]
    assert split.record().startswith("home/")


async def test_a_pod_that_is_deleted_on_its_way_out_ends_where_it_was(split: SplitWorld):
    pod = split.pod(record="c2/0")
    split.twin(split.far, nodeName="n")
    split.link.assignments.close_assignment(pod)
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    pod = split.pod(record="c2/0", version=51, metadata=going)
    split.taken()
    await pod_flow.reconcile_pod(POD, key_of(split.session), split.session)
    assert split.session.build_key(ASSIGNMENT, "web", "p") in split.taken()
    assert await split.place() == Done()
    assert split.link.assignments.get_cluster(pod) == "c2"
    assert key_of(split.far) in split.taken()


def begun_before(split: SplitWorld, **fields: Any) -> Entry:
    """Have a pod there at the start, while the session in c2 is not there yet."""
    split.link.remove_session(split.far)
    body = split.pod(**fields).decode()
    split.link.assignments.forget_deleted_pod("p-uid")
    split.taken()
    return put(split.link.stores["Pod"], body)


@pytest.mark.parametrize("record", ["", "home/forged", "c2/0"])
async def test_after_a_start_nothing_is_made_before_every_target_was_seen(
    split: SplitWorld, record: str
):
    split.ready()
    pod = begun_before(split, record=record)
    assignments = split.link.assignments
    assert assignments.find_unproved_target(pod) == "c2"
    await pod_flow.reconcile_pod(POD, key_of(split.session), split.session)
    assert isinstance(await split.place(), RequeueAfter)
    assert split.above.writes() == split.below.writes() == []
    assert assignments.get_cluster(pod) == UNASSIGNED
    split.link.add_session(split.far)
    split.twin(split.far, nodeName="n")
    split.far_events.index_assigned_pods()
    assert assignments.get_cluster(pod) == "c2", "the twin is the fact"
    split.taken()
    split_tenant_events.enqueue_assignments(split.link)
    assert {key_of(split.far), split.session.build_key(ASSIGNMENT, "web", "p")} <= split.taken()
    if record != "c2/0":
        await split.place()
        assert split.record().startswith("c2/"), "and its record is put right"


async def test_one_that_is_deleted_is_not_let_go_before_either(split: SplitWorld):
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    begun_before(split, metadata=going)
    verdict = await pod_flow.reconcile_pod(POD, key_of(split.session), split.session)
    assert isinstance(verdict, RequeueAfter)
    assert split.above.writes() == []


async def test_a_bound_pod_is_not_made_before_either(split: SplitWorld):
    pod = begun_before(split, nodeName="n", record="home/0")
    with pytest.raises(NotReadyYet, match="c2 may have a twin"):
        assign_cluster.check_may_create(pod, split.session)


async def test_who_is_made_after_the_start_does_not_wait_for_a_target_that_is_away(
    split: SplitWorld,
):
    split.link.remove_session(split.far)
    pod = split.pod()
    assert await split.place() == Done()
    assert split.record().startswith("home/")
    assign_cluster.check_may_create(split.pod(record=split.record(), version=51), split.session)
    split.link.stores["Pod"].discard(pod, live=True)
    assert not split.link.assignments._new_pods


def test_no_pod_is_assigned_before_the_first_look(split: SplitWorld):
    split.link.grants._known = None
    pod = split.pod(record="home/0")
    assert split.link.assignments.get_cluster(pod) == UNASSIGNED
    split.link.assignments._new_pods.clear()
    assert split.link.assignments.find_unproved_target(pod)


def test_no_twin_is_made_beside_another(split: SplitWorld):
    pod = split.pod(nodeName="n", record="home/0")
    split.twin(split.far)
    assert split.link.assignments.get_cluster(pod) == HOME
    with pytest.raises(NotReadyYet, match="its twin in c2 must be deleted first"):
        assign_cluster.check_may_create(pod, split.session)


def test_a_record_that_another_owner_wrote_is_put_right(split: SplitWorld):
    split.pod(record="c2/0")
    split.taken()
    split.pod(record="c2/0", version=51)
    assert split.session.build_key(ASSIGNMENT, "web", "p") not in split.taken()
    split.pod(record="home/forged", version=52)
    assert split.session.build_key(ASSIGNMENT, "web", "p") in split.taken()


def test_the_resync_passes_by_what_is_seated_elsewhere(split: SplitWorld):
    split.pod(record="c2/0")
    assert not resync.has_work(key_of(split.session), split.session)
    assert resync.has_work(key_of(split.far), split.far), "it is to be made there"
    split.twin(split.session)
    assert resync.has_work(key_of(split.session), split.session), "but what is stale goes"


@pytest.mark.parametrize("is_gone", [False, True])
async def test_a_pod_waits_a_moment_for_a_target_that_opens_and_no_longer(
    split: SplitWorld, monkeypatch: pytest.MonkeyPatch, is_gone: bool
):
    """Whether its session has not begun, or is not ready. Each time again."""
    if is_gone:
        split.link.remove_session(split.far)
    monkeypatch.setattr(candidates, "_find_refusal", lambda *_: candidates._NOT_REACHED_YET)
    split.pod()
    now = split.session.now()
    monkeypatch.setattr(Session, "now", lambda _: now)
    for _ in range(2):
        split.link.grants.mark_connecting("c3", now)
        split.link.grants.mark_connecting("c2", now)
        assert await split.place() == RequeueAfter(assign_cluster.CONNECTING_RETRY_SECONDS)
        assert split.above.bodies == []
        now += CONNECTING_SECONDS
    await split.place()
    assert split.record().startswith("home/")
    split.pod("q")
    monkeypatch.setattr(candidates, "_find_refusal", lambda *_: "does not answer")
    split.link.grants.mark_connecting("c2", now)
    if not is_gone:
        await split.place("q")
        assert len(split.above.bodies) == 2, "it will not come in a moment"
