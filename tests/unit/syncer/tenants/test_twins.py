"""Twins of one tenant: by the recorded UIDs, and about to go."""

from __future__ import annotations

import pytest

from kubeio.controller.worker import NotReadyYet
from syncer.model.references import ObjectReference
from syncer.safety.expectations import ClusterSide
from tenancy import wellknown
from tests.support.syncer.sessions import SessionWorld, put


@pytest.fixture
def world() -> SessionWorld:
    found = SessionWorld()
    found.ready()
    return found


def test_an_object_is_a_twin_by_the_recorded_uid_alone(world: SessionWorld):
    twins = world.session.twins
    entry = world.super_has("Pod", "p", uid="one")
    assert twins.get_store("Pod").get(world.below.space, "p") is entry
    assert [twins.is_twin(entry, uid) for uid in ("one", "two")] == [True, False]
    assert not twins.is_twin(None, "one")
    state = twins.build_state(entry)
    assert state is not None
    assert (state.vc_uid, state.uid) == (world.session.tenant.uid, "one")


def test_a_pod_has_a_twin_once_the_cache_shows_it(world: SessionWorld):
    pod = world.tenant_has("Pod", "p")
    assert not world.session.twins.has_twin(pod)
    world.super_has("Pod", "p", uid="another")
    assert not world.session.twins.has_twin(pod)
    world.super_has("Pod", "p", metadata={"resourceVersion": "61"})
    assert world.session.twins.has_twin(pod)


async def test_a_twin_leaves_until_the_cache_shows_it_and_wakes_who_waits(world: SessionWorld):
    session, key, pod = world.session, world.key("Secret", "web", "s"), world.key("Pod", "web", "p")
    entry = world.super_has("Secret", "s")
    session.work.add_waiter(key, pod)
    assert not session.twins.is_leaving(key, entry)
    with session.twins.mark_leaving(key, entry):
        assert session.twins.is_leaving(key, entry)
        assert session.queue.take() is None
    assert session.queue.take() == pod
    # The answer to the delete may be lost, so it counts as sent.
    assert session.twins.is_leaving(key, entry)
    assert session.twins.is_behind(key, None, entry)


async def test_a_twin_that_is_not_deleted_yet_stays(world: SessionWorld):
    key, entry = world.key("Secret", "web", "s"), world.super_has("Secret", "s")
    with pytest.raises(NotReadyYet), world.session.twins.mark_leaving(key, entry):
        raise NotReadyYet("held")
    assert not world.session.twins.is_leaving(key, entry)


async def test_a_cache_of_either_side_may_be_behind(world: SessionWorld):
    key = world.key("Pod", "web", "p")
    pod, twin = world.tenant_has("Pod", "p"), world.super_has("Pod", "p")
    twins = world.session.twins
    assert not twins.is_behind(key, pod, twin)
    world.session.expectations.expect_delete(ClusterSide.TENANT, key, pod, taken=True)
    assert twins.is_behind(key, pod, twin)
    assert not twins.is_leaving(key, twin)


def test_the_recorded_revisions_of_the_tenants_twins_are_listed(world: SessionWorld):
    before = sorted(world.session.twins.iterate_stamps())
    body = world.super_has("ConfigMap", "c").decode()
    body["metadata"]["resourceVersion"] = "61"
    body["metadata"]["annotations"][wellknown.STORE_REVISION] = "70"
    put(world.session.twins.get_store("ConfigMap"), body)
    assert sorted(world.session.twins.iterate_stamps()) == sorted([*before, 70])


@pytest.mark.parametrize(("secret", "named"), [("mounted", True), ("other", False)])
def test_an_object_is_named_while_a_super_pod_mounts_it(
    world: SessionWorld, secret: str, named: bool
):
    volume = {"name": "v", "secret": {"secretName": "mounted"}}
    world.super_has("Pod", "p", spec={"volumes": [volume]})
    ref = ObjectReference("Secret", secret)
    assert world.session.twins.is_named_by_pod(ref, world.below.space) is named
