"""The scope of a session with the home cluster, which has every object."""

from __future__ import annotations

from syncer.model.keys import ASSIGNMENT
from tests.support.syncer.sessions import SessionWorld
from tests.support.syncer.two_clusters import SplitWorld


async def test_the_home_cluster_needs_every_object_and_holds_no_loss():
    world = SessionWorld()
    scope = world.session.scope
    entry = world.tenant_has("ConfigMap", "c")
    assert scope.is_concerned("ConfigMap", entry)
    assert (scope.get_shown_node("n"), scope.get_status_node("n")) == ("n", "n")
    assert scope.list_shown_nodes() is world.session.stores["Node"]
    assert [scope.is_unreachable, scope.is_grant_withdrawn] == [False, False]
    scope.prepare_start()
    scope.check_losses_not_held()
    await scope.prove_missing(0.0)
    scope.request_namespace(world.key("Namespace", "", "web"))
    assert world.session.queue.take() is None


def test_only_pods_of_the_home_cluster_are_its_own():
    split = SplitWorld()
    near, far, none = (split.pod(name) for name in ("a", "b", "c"))
    split.twin(split.session, "a")
    split.twin(split.far, "b")
    sessions = (split.session, split.far)
    for pod, clusters in ((near, [True, False]), (far, [False, True]), (none, [False, False])):
        assert [each.scope.is_assigned_here(pod) for each in sessions] == clusters
    keys = set(split.session.scope.iterate_unassigned())
    assert keys == {split.session.build_key(ASSIGNMENT, "web", "c")}
