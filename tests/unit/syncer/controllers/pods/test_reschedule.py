"""Another try for a pod: one assignment is closed for certain before the next one begins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubeio import errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter
from syncer.controllers.pods import pod_reconciler as pod_flow
from syncer.controllers.pods import reschedule
from syncer.model.keys import ASSIGNMENT, HOME
from syncer.placement.assignments import UNASSIGNED
from syncer.rules.placement import reschedule_timeouts
from syncer.safety.pod_loss_guard import MIN_MISSING_PODS
from tenancy import wellknown
from tenancy.specs import TargetGrant
from tests.support.syncer.sessions import TENANT
from tests.support.syncer.two_clusters import POD, SplitWorld, key_of

LONG_AGO = "2026-01-01T00:00:00Z"


class CountedProof:
    """A proof that always holds, and counts its calls."""

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self, *_: object) -> None:
        self.asked += 1


@pytest.fixture
def split(split: SplitWorld) -> SplitWorld:
    split.far.target.prove_missing = CountedProof()  # type: ignore[union-attr,assignment]
    return split


def refused(split: SplitWorld, since: str = LONG_AGO, **spec: Any) -> Entry:
    """Assign a pod to c2, where its scheduler finds no node for its twin."""
    pod = split.pod(record="c2/0")
    twin = split.twin(split.far, **spec).decode()
    condition = {
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "lastTransitionTime": since,
    }  # fmt: skip
    twin["status"] = {"conditions": [condition]}
    twin["metadata"]["resourceVersion"] = "61"
    from tests.support.syncer.sessions import put  # noqa: PLC0415 - only here

    put(split.far.twins.get_store("Pod"), twin)
    split.taken()
    return pod


def gone(split: SplitWorld) -> None:
    """Have the twin at c2 go, as its event says."""
    store = split.far.twins.get_store("Pod")
    store.discard(store.list()[0], live=True)


async def test_a_pod_moves_on_once_the_old_twin_is_proved_gone(split: SplitWorld):
    pod = refused(split)
    assert isinstance(await split.place(), RequeueAfter)
    assert split.link.assignments.get_cluster(pod) == UNASSIGNED
    assert key_of(split.far) in split.taken()
    for session in (split.session, split.far):
        await pod_flow.reconcile_pod(POD, key_of(session), session)
    assert split.there.writes() == [("delete", "Pod", "p")]
    assert split.below.writes() == []
    assert isinstance(await split.place(), RequeueAfter), "it is still in the cache"
    assert split.above.writes() == []
    gone(split)
    assert await split.place() == Done()
    assert split.there.asked[-1] == ("get", "Pod", "p"), "read live before it counts as gone"
    assert split.far.target.prove_missing.asked == 1  # type: ignore[union-attr]
    assert split.record().startswith("home/")
    assert split.link.assignments.get_cluster(pod) == HOME
    assert split.session.pods.has("web", "p"), "with no further event of it"
    assert not split.far.pods.has("web", "p")
    assert split.far.build_key("Namespace", "", "web") in split.taken()


@pytest.mark.parametrize("is_granted", [True, False])
@pytest.mark.parametrize("is_refused", [True, False])
async def test_a_pod_that_is_bound_stays_whatever_becomes_of_its_cluster(
    split: SplitWorld, is_refused: bool, is_granted: bool
):
    """Its twin says that no node is found for it, as one does that was evicted and lies so."""
    refused(split, nodeName="n")
    pod = split.pod(record="c2/0", nodeName="target-c2", version=70)
    if is_refused:
        split.link.assignments.get_reschedule_state(pod.uid).record_refused()
    if not is_granted:
        split.link.grants.update_granted({HOME: TargetGrant(name=HOME)})
    split.taken()
    assert await split.place() == Done()
    assert (
        split.link.assignments.get_cluster(pod),
        split.link.assignments.get_leaving_cluster(pod),
    ) == ("c2", "")
    assert key_of(split.far) not in split.taken()
    assert split.above.writes() == split.there.writes() == []


async def test_while_many_are_missing_there_nothing_is_read(split: SplitWorld):
    refused(split)
    await split.place()
    gone(split)
    assert split.far.target is not None
    for number in range(MIN_MISSING_PODS):
        split.far.target.pod_loss_guard.add_missing(TENANT.uid, str(number))
    before = len(split.there.asked)
    with pytest.raises(NotReadyYet, match="many pods"):
        await split.place()
    assert len(split.there.asked) == before


async def test_the_cluster_stays_closed_while_the_new_record_is_on_its_way(split: SplitWorld):
    """The old record is still in the cache, and would restore the old assignment."""
    pod = refused(split)
    await split.place()
    gone(split)
    seen: list[str] = []
    patch = split.above.patch

    async def slow(*args: Any, **options: Any) -> Any:
        seen.append(split.link.assignments.get_cluster(pod))
        return await patch(*args, **options)

    split.above.patch = slow  # type: ignore[method-assign]
    await split.place()
    assert seen == [UNASSIGNED]
    assert split.link.assignments.get_cluster(pod) == HOME, "whatever its record in the cache says"


async def test_a_twin_that_is_bound_in_the_moment_stays(split: SplitWorld):
    pod = refused(split)
    await split.place()
    split.twin(split.far, nodeName="n")
    split.pod(record="c2/0", version=51)  # and is heard of meanwhile
    assert not split.far.pods.has("web", "p")
    await pod_flow.reconcile_pod(POD, key_of(split.far), split.far)
    assert split.there.writes() == []
    assert await split.place() == Done()
    assert split.link.assignments.get_cluster(pod) == "c2"
    assert split.far.pods.has("web", "p"), "what it needs stays, too"


async def test_what_is_there_after_all_keeps_the_cluster_closed(split: SplitWorld):
    refused(split)
    await split.place()
    twin = split.far.twins.get_store("Pod").list()[0].decode()
    gone(split)
    split.there.has("Pod", "p", twin)
    with pytest.raises(NotReadyYet, match="exists"):
        await split.place()
    assert split.above.writes() == []


async def test_a_create_without_an_answer_keeps_its_cluster_for_a_minute(
    split: SplitWorld, monkeypatch: Any
):
    pod = refused(split)
    await split.place()
    gone(split)
    now = split.session.now()
    monkeypatch.setattr(split.session, "now", lambda: now)
    reschedule.record_failed_create(errors.Timeout("no answer"), pod, split.session)
    verdict = await split.place()
    assert isinstance(verdict, RequeueAfter)
    assert 0 < verdict.after <= reschedule_timeouts.UNANSWERED_CREATE_SECONDS
    assert split.there.asked == []
    now += reschedule_timeouts.UNANSWERED_CREATE_SECONDS
    assert await split.place() == Done()
    assert split.record().startswith("home/")


async def test_a_pod_is_given_its_time_first(split: SplitWorld):
    ago = datetime.now(UTC) - timedelta(seconds=10)
    pod = refused(split, ago.strftime("%Y-%m-%dT%H:%M:%SZ"))
    verdict = await split.place()
    assert isinstance(verdict, RequeueAfter)
    assert 15 < verdict.after <= 21
    assert split.link.assignments.get_cluster(pod) == "c2"


async def test_who_makes_room_for_it_is_waited_for(split: SplitWorld):
    pod = refused(split)
    about = {"kind": "Pod", "namespace": "x", "name": "p", "uid": "p-below"}
    reschedule.record_scale_up(
        {"reason": "TriggeredScaleUp", "involvedObject": about}, "web", split.far
    )
    verdict = await split.place()
    assert isinstance(verdict, RequeueAfter)
    assert verdict.after > 800
    assert split.link.assignments.get_cluster(pod) == "c2"


async def test_a_quota_that_is_used_up_ends_a_try_at_once(split: SplitWorld):
    pod = split.pod(record="c2/0")
    split.taken()
    problem = errors.Forbidden('pods "p" is forbidden: exceeded quota: q')
    reschedule.record_failed_create(problem, pod, split.far)
    assert split.session.build_key(ASSIGNMENT, "web", "p") in split.taken()
    await split.place()
    assert await split.place() == Done()
    assert split.record().startswith("home/")


async def test_when_all_were_tried_it_stays_and_rests(split: SplitWorld):
    pod = refused(split)
    split.link.grants.update_granted({"c2": TargetGrant(name="c2")})
    verdict = await split.place()
    assert isinstance(verdict, RequeueAfter)
    assert verdict.after == reschedule_timeouts.RETRY_ALL_SECONDS
    assert split.link.assignments.get_cluster(pod) == "c2"
    again = await split.place()
    assert isinstance(again, RequeueAfter)
    assert again.after > reschedule_timeouts.RETRY_ALL_SECONDS - 5


async def test_a_target_that_is_away_keeps_what_it_may_have(split: SplitWorld):
    pod = refused(split)
    split.far.target.problem = "silent"  # type: ignore[union-attr]
    assert await split.place() == Done()
    assert split.link.assignments.get_cluster(pod) == "c2"
    split.far.target.problem = ""  # type: ignore[union-attr]
    await split.place()
    split.far.target.problem = "silent"  # type: ignore[union-attr]
    gone(split)
    assert await split.place() == RequeueAfter(reschedule.UNREACHABLE_RETRY_SECONDS)
    assert split.above.writes() == []


async def test_a_cluster_that_is_granted_no_more_is_left_by_who_waits(split: SplitWorld):
    split.pod(record="c2/0")
    split.link.grants.update_granted({HOME: TargetGrant(name=HOME)})
    split.link.grants.update_known({"c2"}, {"c2"})
    await split.place()
    assert await split.place() == Done()
    assert split.record().startswith("home/")


async def test_the_twin_that_waits_has_its_pod_looked_at(split: SplitWorld):
    pod = refused(split)
    twin = split.far.twins.get_store("Pod").list()[0].decode()
    reschedule.watch_unschedulable(pod, twin, split.far)
    assert split.session.build_key(ASSIGNMENT, "web", "p") in split.taken()
    twin["spec"]["nodeName"] = "n"
    reschedule.watch_unschedulable(pod, twin, split.far)
    assert split.taken() == set()


def test_what_is_remembered_of_a_pod_goes_with_it(split: SplitWorld):
    pod = refused(split)
    split.link.assignments.get_reschedule_state(pod.uid).record_tried("c2")
    split.link.stores["Pod"].discard(pod, live=True)
    assert not split.link.assignments._reschedule_states
    assert wellknown.ASSIGNED_CLUSTER in pod.annotations


async def test_a_pod_that_goes_while_its_old_cluster_is_proved_empty_is_forgotten(
    split: SplitWorld,
):
    pod = refused(split)
    await split.place()
    gone(split)
    get = split.there.get

    async def slow(*args: Any, **options: Any) -> Any:
        split.link.stores["Pod"].discard(pod, live=True)
        return await get(*args, **options)

    split.there.get = slow  # type: ignore[method-assign]
    assert await split.place() == Done()
    assert split.above.writes() == []
    reschedule.record_failed_create(errors.Timeout("no answer"), pod, split.far)
    assignments = split.link.assignments
    assert not {
        **assignments._reschedule_states,
        **assignments._assigned,
        **assignments._leaving_pods,
    }
