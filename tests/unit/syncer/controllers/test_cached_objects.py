"""Both sides of a key from the caches, and keys that wait for the caches."""

from __future__ import annotations

import pytest

from syncer.controllers import cached_objects
from syncer.rules import registry
from syncer.safety.expectations import CACHE_BEHIND_SECONDS, ClusterSide
from tests.support.syncer.sessions import SessionWorld
from tests.support.syncer.two_clusters import SplitWorld

KIND = registry.KINDS_BY_NAME["ConfigMap"]


def test_a_pair_has_both_sides_of_one_name():
    world = SessionWorld()
    above, below = world.tenant_has("ConfigMap", "c"), world.super_has("ConfigMap", "c")
    found = cached_objects.read_pair(KIND, world.key("ConfigMap", "web", "c"), world.session)
    assert (found.tenant_x, found.super_x) == (above, below)
    none = cached_objects.read_pair(KIND, world.key("ConfigMap", "web", "d"), world.session)
    assert (none.tenant_x, none.super_x, none.wanted) == (None, None, False)


def test_an_object_with_a_reserved_name_is_no_twin():
    world = SessionWorld()
    world.super_has("ConfigMap", "vc-service-variables")
    key = world.key("ConfigMap", "web", "vc-service-variables")
    assert cached_objects.read_pair(KIND, key, world.session).super_x is None


def test_a_target_wants_objects_of_its_pods_only():
    split = SplitWorld()
    split.tenant_has("Namespace", "web", namespace="")
    kind = registry.KINDS_BY_NAME["Namespace"]
    wanted = [
        cached_objects.read_pair(kind, each.build_key("Namespace", "", "web"), each).wanted
        for each in (split.session, split.far)
    ]
    assert wanted == [True, False]


def test_an_object_has_its_own_twin_by_the_recorded_uid():
    world = SessionWorld()
    key = world.key("ConfigMap", "web", "c")
    world.tenant_has("ConfigMap", "c")
    assert not cached_objects.has_own_twin(key, world.session)
    world.super_has("ConfigMap", "c", uid="another")
    assert not cached_objects.has_own_twin(key, world.session)
    world.super_has("ConfigMap", "c", metadata={"resourceVersion": "61"})
    assert cached_objects.has_own_twin(key, world.session)
    assert not cached_objects.has_own_twin(key._replace(kind="Widget"), world.session)


@pytest.mark.parametrize(("is_ready", "is_behind"), [(True, False), (True, True), (False, False)])
async def test_a_key_is_queued_once_the_caches_show_the_last_write(
    monkeypatch: pytest.MonkeyPatch, is_ready: bool, is_behind: bool
):
    world = SessionWorld()
    session, key = world.session, world.key("ConfigMap", "web", "c")
    entry = world.super_has("ConfigMap", "c")
    if is_behind:
        session.expectations.expect_delete(ClusterSide.SUPER, key, entry, taken=True)
    session.work.is_ready = is_ready
    later: list[object] = []
    monkeypatch.setattr(session.queue, "add_after", lambda *asked: later.append(asked))
    cached_objects.enqueue(KIND, key, session)
    assert (session.queue.take() == key) is (is_ready and not is_behind)
    assert later == ([(key, CACHE_BEHIND_SECONDS)] if is_behind else [])
