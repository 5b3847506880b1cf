"""Another super cluster is followed, and nothing is done there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tenancy.resources import CONFIG_MAPS, NODES, PODS, SUPER_CLUSTERS
from tests.integration.syncer import target_world as target_worlds
from tests.integration.syncer.objects import pod
from tests.integration.syncer.target_world import TargetWorld, open_target_world
from tests.integration.syncer.world import SYNCER, SyncerWorld
from tests.support.controlplane import AuditMark, LocalControlPlane
from tests.support.eventually import eventually
from tests.support.own_address import needs_address

pytestmark = needs_address


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    yield from target_worlds.running(tmp_path_factory.mktemp("second"))


@pytest.fixture
async def target_world(
    synced: SyncerWorld, second: LocalControlPlane
) -> AsyncIterator[TargetWorld]:
    async with open_target_world(synced, second) as found:
        yield found


def asked(plane: LocalControlPlane, user: str, since: AuditMark) -> list[tuple[str, str]]:
    """Return verb and path of what a user asked there."""
    events = plane.audit_events(since)
    return [(e["verb"], e["requestURI"]) for e in events if e["user"].get("username") == user]


async def test_a_target_is_followed_and_nothing_is_written_there(target_world: TargetWorld):
    since = target_world.plane.audit_mark()
    await target_world.secret()
    await target_world.declare()
    target = await eventually(target_world.target, within=30)
    assert target.problem == ""
    space = await target_world.world.namespace()
    await target_world.world.tenant_client.create(
        CONFIG_MAPS, {"metadata": {"name": "c"}}, namespace=space
    )
    await target_world.world.tenant_client.create(PODS, pod("web"), namespace=space)
    await eventually(lambda: target_world.world.twin(PODS, space, "web"))
    await target_worlds.has_node(target_world.target_client, "seen")
    await eventually(lambda: target.cluster.nodes.get("", "seen"))
    await target_world.target_client.delete(NODES, "seen")
    await target_world.world.idle()
    assert {verb for verb, _ in asked(target_world.plane, SYNCER, since)} <= {
        "get",
        "list",
        "watch",
    }


async def test_a_secret_that_is_changed_counts_at_once(target_world: TargetWorld):
    """A1-05."""
    await target_world.secret("nobody")
    await target_world.declare()
    await eventually(
        lambda: target_world.name in target_world.world.running[-1].targets._supervisor._loops
    )
    assert target_world.target() is None
    await target_world.secret()
    first = await eventually(target_world.target, within=10)
    session = target_world.world.session
    since = target_world.plane.audit_mark()
    await target_world.secret()  # a new key for the same user
    await eventually(lambda: target_world.target() not in (None, first), within=10)
    assert asked(target_world.plane, SYNCER, since)
    assert target_world.world.session is session, "no other tenant is disturbed"


async def test_one_that_is_not_the_cluster_that_was_meant_is_not_listed(target_world: TargetWorld):
    await target_world.secret()
    await target_world.declare()
    first = await eventually(target_world.target, within=30)
    since = target_world.plane.audit_mark()
    await target_world.judge(identity="another")
    await eventually(
        lambda: target_world.world.running[-1].targets.targets.get(target_world.name) is not first
    )
    await eventually(lambda: asked(target_world.plane, SYNCER, since))
    assert target_world.target() is None
    paths = {path for _, path in asked(target_world.plane, SYNCER, since)}
    # A list may be streamed, and is a watch then. Those of before go on for a while.
    lists = {path for path in paths if "watch" not in path or "sendInitialEvents" in path}
    assert {path for path in lists if "kube-system" not in path} == set()


async def test_one_that_is_taken_away_is_left(target_world: TargetWorld):
    await target_world.secret()
    await target_world.declare()
    await eventually(target_world.target, within=30)
    await target_world.world.super_client.delete(SUPER_CLUSTERS, target_world.name)
    await eventually(
        lambda: target_world.name not in target_world.world.running[-1].targets.targets
    )
    assert target_world.world.is_engaged()


async def test_a_target_that_falls_silent_is_away_and_comes_back(
    target_world: TargetWorld, monkeypatch: pytest.MonkeyPatch
):
    """A1-17."""
    monkeypatch.setattr("syncer.clusters.target_cluster.HEALTH_CHECK_SECONDS", 0.2)
    await target_world.secret()
    await target_world.declare()
    target = await eventually(target_world.target, within=30)
    target_world.plane.pause_apiserver()
    try:
        await eventually(lambda: target.problem, within=30)
        assert target_world.world.is_engaged()
    finally:
        target_world.plane.resume_apiserver()
    await eventually(lambda: not target.problem, within=30)
    assert target_world.target() is target
