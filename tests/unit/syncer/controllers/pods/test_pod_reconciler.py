"""The reconcile of a pod with missing dependencies or an unexpected state on either side."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from kubeio.controller.worker import NotReadyYet
from syncer.controllers import cached_objects
from syncer.controllers.pods import pod_reconciler
from syncer.handlers import home_events
from syncer.rules import registry
from tests.support.syncer.sessions import CONTAINERS, SessionWorld, use_tenant_client


def pod_with(world: SessionWorld, **spec: object) -> None:
    """Have a tenant pod that is to be made below."""
    world.ready()
    world.tenant_has(
        "Pod", "p", spec={"containers": CONTAINERS, **spec}, status={"phase": "Pending"}
    )


MOUNT = [{"name": "x", "secret": {"secretName": "registry"}}]


async def test_a_pod_that_names_a_foreign_object_is_not_made():
    world = SessionWorld()
    pod_with(world, volumes=MOUNT)
    world.below.has("Secret", "registry", {"metadata": {"uid": "s", "resourceVersion": "1"}})
    with pytest.raises(NotReadyYet):
        await pod_reconciler.reconcile_pod(
            registry.KINDS_BY_NAME["Pod"], world.key("Pod", "web", "p"), world.session
        )
    assert not world.below.writes()
    assert world.told() == [cached_objects.NAME_TAKEN]


async def test_a_refused_object_leaves_its_name_to_a_foreign_object_but_not_the_pod():
    world = SessionWorld()
    world.tenant_has("Secret", "registry", type="bootstrap.kubernetes.io/token")
    pod_with(world, volumes=MOUNT)
    world.below.has("Secret", "registry", {"metadata": {"uid": "s", "resourceVersion": "1"}})
    with pytest.raises(NotReadyYet):
        await pod_reconciler.reconcile_pod(
            registry.KINDS_BY_NAME["Pod"], world.key("Pod", "web", "p"), world.session
        )
    assert not world.below.writes()


async def test_a_pod_that_names_what_no_one_has_is_the_kubelets_to_judge():
    world = SessionWorld()
    pod_with(world, volumes=MOUNT)
    await pod_reconciler.reconcile_pod(
        registry.KINDS_BY_NAME["Pod"], world.key("Pod", "web", "p"), world.session
    )
    assert [(verb, kind) for verb, kind, _ in world.below.writes()] == [("create", "Pod")]


TOKEN_VOLUME = {"serviceAccountToken": {"path": "t", "expirationSeconds": "soon"}}


@pytest.mark.parametrize(
    "spec",
    [
        {"dnsConfig": "none"},
        {"initContainers": [{"image": "i"}]},
        {"readinessGates": 7},
        {"nodeName": {"a": 1}},
        {"volumes": [{"name": "v", "projected": {"sources": [TOKEN_VOLUME]}}]},
        {"volumes": [{"name": "v", "projected": {"sources": 1}}]},
        {"volumes": 1},
    ],
)
async def test_a_pod_without_the_shape_of_one_is_refused_and_stops_no_worker(spec):
    """REL-14."""
    world = SessionWorld()
    pod_with(world, **spec)
    await pod_reconciler.reconcile_pod(
        registry.KINDS_BY_NAME["Pod"], world.key("Pod", "web", "p"), world.session
    )
    assert not world.below.writes()
    assert world.told() == ["SyncRejected"]
    assert "(rule malformed)" in world.above.bodies[-1]["message"]


async def test_a_status_that_the_tenants_api_refuses_goes_up_without_its_containers():
    world = SessionWorld()
    world.ready()
    bound = {"containers": CONTAINERS, "nodeName": "n"}
    ended = [{"name": "main", "state": {"terminated": {"exitCode": 0}}}]
    runs = [{"name": "main", "state": {"running": {}}}]
    world.tenant_has(
        "Pod", "p", spec=bound, status={"phase": "Succeeded", "containerStatuses": ended}
    )
    status = {"phase": "Running", "containerStatuses": runs}
    world.super_has("Pod", "p", spec=bound, status=status)
    use_tenant_client(world.session, RefusingApi(world.above))
    key = world.key("Pod", "web", "p")
    await pod_reconciler.reconcile_pod(registry.KINDS_BY_NAME["Pod"], key, world.session)
    assert world.above.bodies[-1]["status"]["phase"] == "Running"
    assert "containerStatuses" not in world.above.bodies[-1]["status"]


class RefusingApi:
    """An API server that takes back no end of a container."""

    def __init__(self, api: Any) -> None:
        self.api = api

    async def patch(self, resource: Any, name: str, body: Any, **options: Any) -> Any:
        if "containerStatuses" in (body.get("status") or {}):
            raise errors.Invalid("may not be transitioned to non-terminated state")
        return await self.api.patch(resource, name, body, **options)


async def test_a_bound_pod_whose_twin_was_seen_to_go_is_lost_before_it_reported_anything():
    world = SessionWorld()
    world.ready()
    spec = {"containers": CONTAINERS, "nodeName": "n"}
    world.tenant_has("Pod", "p", spec=spec, status={"phase": "Pending"})
    key = world.key("Pod", "web", "p")
    twin = world.super_has("Pod", "p", spec=spec, status={})
    home_events.HomeEvents(world.super_cluster, {"vc-uid": world.session}).subscribe()
    world.super_cluster.stores["Pod"].discard(twin, live=True)
    await pod_reconciler.reconcile_pod(registry.KINDS_BY_NAME["Pod"], key, world.session)
    assert world.above.bodies[-1]["status"]["reason"] == "SuperPodLost"
    assert not world.below.writes()


@pytest.mark.parametrize("is_another", [True, False])
async def test_a_pod_is_not_taken_away_whose_twin_is_another_one_by_now(is_another):
    """Seed 30005678: a backup was played back below while the tenant was told why its pod goes."""
    world = SessionWorld()
    world.ready()
    bound, status = {"containers": CONTAINERS, "nodeName": "n"}, {"phase": "Running"}
    world.tenant_has("Pod", "p", spec=bound, status=status)
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    world.super_has("Pod", "p", spec=bound, status=status, metadata=gone)

    async def told(*_: Any, **__: Any) -> None:
        if is_another:
            world.super_has("Pod", "p", spec=bound, status=status, metadata={"uid": "played back"})
        else:
            world.super_cluster.stores["Pod"].discard(twin, live=True)

    twin = world.super_cluster.stores["Pod"].list()[0]
    world.session.event_recorder.record = told  # type: ignore[method-assign]
    key = world.key("Pod", "web", "p")
    if is_another:
        with pytest.raises(NotReadyYet, match="was replaced"):
            await pod_reconciler.reconcile_pod(registry.KINDS_BY_NAME["Pod"], key, world.session)
    else:
        await pod_reconciler.reconcile_pod(registry.KINDS_BY_NAME["Pod"], key, world.session)
    assert (("delete", "Pod", "p") in world.above.asked) is not is_another
