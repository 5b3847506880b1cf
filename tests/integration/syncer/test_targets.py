"""Another super cluster is followed, and nothing is done there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tenancy.resources import CONFIG_MAPS, NODES, PODS, SUPER_CLUSTERS
from tests.integration.syncer import far as fars
from tests.integration.syncer.far import TargetWorld, far_of
from tests.integration.syncer.objects import pod
from tests.integration.syncer.world import SYNCER, SyncerWorld
from tests.support.controlplane import AuditMark, LocalControlPlane
from tests.support.eventually import eventually
from tests.support.own_address import needs_address

pytestmark = needs_address


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    yield from fars.running(tmp_path_factory.mktemp("second"))


@pytest.fixture
async def far(synced: SyncerWorld, second: LocalControlPlane) -> AsyncIterator[TargetWorld]:
    async with far_of(synced, second) as found:
        yield found


def asked(plane: LocalControlPlane, user: str, since: AuditMark) -> list[tuple[str, str]]:
    """Return verb and path of what a user asked there."""
    events = plane.audit_events(since)
    return [(e["verb"], e["requestURI"]) for e in events if e["user"].get("username") == user]


async def test_a_target_is_followed_and_nothing_is_written_there(far: TargetWorld):
    since = far.plane.audit_mark()
    await far.secret()
    await far.declare()
    target = await eventually(far.target, within=30)
    assert target.problem == ""
    space = await far.world.namespace()
    await far.world.tenant_client.create(CONFIG_MAPS, {"metadata": {"name": "c"}}, namespace=space)
    await far.world.tenant_client.create(PODS, pod("web"), namespace=space)
    await eventually(lambda: far.world.twin(PODS, space, "web"))
    await fars.has_node(far.there, "seen")
    await eventually(lambda: target.cluster.nodes.get("", "seen"))
    await far.there.delete(NODES, "seen")
    await far.world.idle()
    assert {verb for verb, _ in asked(far.plane, SYNCER, since)} <= {"get", "list", "watch"}


async def test_a_secret_that_is_changed_counts_at_once(far: TargetWorld):
    """A1-05."""
    await far.secret("nobody")
    await far.declare()
    await eventually(lambda: far.name in far.world.running[-1].targets._supervisor._loops)
    assert far.target() is None
    await far.secret()
    first = await eventually(far.target, within=10)
    session = far.world.session
    since = far.plane.audit_mark()
    await far.secret()  # a new key for the same user
    await eventually(lambda: far.target() not in (None, first), within=10)
    assert asked(far.plane, SYNCER, since)
    assert far.world.session is session, "nobody else is disturbed"


async def test_one_that_is_not_the_cluster_that_was_meant_is_not_listed(far: TargetWorld):
    await far.secret()
    await far.declare()
    first = await eventually(far.target, within=30)
    since = far.plane.audit_mark()
    await far.judge(identity="another")
    await eventually(lambda: far.world.running[-1].targets.targets.get(far.name) is not first)
    await eventually(lambda: asked(far.plane, SYNCER, since))
    assert far.target() is None
    paths = {path for _, path in asked(far.plane, SYNCER, since)}
    # A list may be streamed, and is a watch then; those of before go on for a while.
    lists = {path for path in paths if "watch" not in path or "sendInitialEvents" in path}
    assert {path for path in lists if "kube-system" not in path} == set()


async def test_one_that_is_taken_away_is_left(far: TargetWorld):
    await far.secret()
    await far.declare()
    await eventually(far.target, within=30)
    await far.world.super_client.delete(SUPER_CLUSTERS, far.name)
    await eventually(lambda: far.name not in far.world.running[-1].targets.targets)
    assert far.world.is_engaged()


async def test_a_target_that_falls_silent_is_away_and_comes_back(
    far: TargetWorld, monkeypatch: pytest.MonkeyPatch
):
    """A1-17."""
    monkeypatch.setattr("syncer.clusters.target_cluster.HEALTH_CHECK_SECONDS", 0.2)
    await far.secret()
    await far.declare()
    target = await eventually(far.target, within=30)
    far.plane.pause_apiserver()
    try:
        await eventually(lambda: target.problem, within=30)
        assert far.world.is_engaged()
    finally:
        far.plane.resume_apiserver()
    await eventually(lambda: not target.problem, within=30)
    assert far.target() is target
