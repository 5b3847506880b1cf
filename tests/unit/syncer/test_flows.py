"""What keys do when an API, a tenant or a stranger is not as it should be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubeio import errors
from kubeio.controller.worker import Again
from syncer.controllers import namespaces, rejection_events, sync_down, sync_up
from syncer.controllers.network import cluster_ips, services
from syncer.controllers.pods import tokens
from syncer.handlers import tenant_events
from syncer.handlers.resync import Patrol
from syncer.model.keys import Key
from syncer.model.references import ACCOUNT_TOKEN, Ref
from syncer.rules import registry
from syncer.rules.pods.token_specs import TokenSpec
from syncer.safety.hot_loop_guard import WRITES
from tenancy import names, wellknown
from tests.unit.syncer.sessions import CONTAINERS, TOKEN_MARKS, World, is_counted, put


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("Secret", f"{names.TOKEN_SECRET_PREFIX}0123456789"),
        ("ConfigMap", names.SUPER_ROOT_CA),
    ],
)
async def test_a_tenant_object_of_a_reserved_name_has_none_of_our_objects_as_twin(kind, name):
    world = World()
    world.super_has(kind, name, uid="another-uid", metadata={"annotations": TOKEN_MARKS})
    world.tenant_has(kind, name)
    world.above.objects[kind, name] = {"metadata": {"uid": f"{name}-uid"}}
    key = world.key(kind, "web", name)
    world.session.grace_timers.linger_seconds = 0
    await sync_down.reconcile(registry.BY_NAME[kind], key, world.session)
    assert not world.below.writes()
    assert not world.below.asked


@pytest.mark.parametrize("spec", [{"ports": [7]}, {"ports": {"a": 1}}, {"clusterIP": {}}, []])
async def test_a_service_without_the_shape_of_one_is_refused_and_stops_no_worker(spec):
    world = World()
    world.ready()
    world.tenant_has("Service", "s", spec=spec)
    key = world.key("Service", "web", "s")
    await services.reconcile(registry.BY_NAME["Service"], key, world.session)
    assert not world.below.writes()
    assert world.told() == ["SyncRejected"]


def short_lived_token() -> tuple[World, Key, str]:
    """Return a world in which a pod needs a token of ten minutes, its key, and when it ends."""
    world = World()
    world.ready()
    session = world.session
    token = TokenSpec(namespace="web", account="robot", account_uid="robot-uid")
    session.pods.references.set("web", "p", {Ref(ACCOUNT_TOKEN, "robot")})
    key = tokens.demand(token, session)
    assert key is not None
    ends = (datetime.now(UTC) + timedelta(seconds=600)).isoformat()
    answer = {"status": {"token": "t", "expirationTimestamp": ends}}
    world.above.objects["create token", "robot"] = answer
    return world, key, ends


async def test_a_short_lived_token_is_renewed_at_half_its_life_and_not_at_its_echo():
    world, key, _ = short_lived_token()
    session = world.session
    made = await tokens.reconcile(key, session)
    assert isinstance(made, Again)
    assert 290 < made.after <= 300
    body = world.below.bodies[-1]
    metadata = {"annotations": body["metadata"]["annotations"], "resourceVersion": "1001"}
    world.super_has("Secret", key.name, uid="robot-uid", metadata=metadata, data=body["data"])
    echoed = await tokens.reconcile(key, session)
    assert isinstance(echoed, Again)
    assert 290 < echoed.after <= 300
    assert len(world.below.writes()) == 1
    for _ in range(WRITES):
        session.fuse.wrote(key)
    assert session.fuse.pause(key) > 0  # the token's own write was counted, too


@pytest.mark.parametrize("data", [{}, {"token": "bm9uZQ=="}, {"token": "dA==", "more": "dA=="}])
async def test_a_token_that_was_changed_below_is_asked_for_anew(data: dict[str, str]):
    world, key, _ = short_lived_token()
    await tokens.reconcile(key, world.session)
    body = world.below.bodies[-1]
    assert body["data"] == {"token": "dA=="}
    metadata = {"annotations": body["metadata"]["annotations"], "resourceVersion": "1002"}
    world.super_has("Secret", key.name, uid="robot-uid", metadata=metadata, data=data)
    repaired = await tokens.reconcile(key, world.session)
    assert isinstance(repaired, Again)
    assert repaired.after > 290
    assert [verb for verb, *_ in world.below.writes()] == ["create", "replace"]
    assert world.below.bodies[-1]["data"] == {"token": "dA=="}


async def test_a_token_that_was_made_immutable_below_is_made_anew_when_it_is_due():
    world, key, ends = short_lived_token()
    session = world.session
    await tokens.reconcile(key, session)
    annotations = world.below.bodies[-1]["metadata"]["annotations"]
    annotations = {**annotations, wellknown.TOKEN_RENEW: ends.replace("20", "19", 1)}
    metadata = {"annotations": annotations, "resourceVersion": "1001"}
    entry = world.super_has("Secret", key.name, uid="robot-uid", metadata=metadata, immutable=True)
    world.below.objects["Secret", key.name] = entry.decode()
    await tokens.reconcile(key, session)
    assert [verb for verb, *_ in world.below.writes()] == ["create", "delete"]
    world.super_cluster.stores["Secret"].discard(entry, live=True)
    await tokens.reconcile(key, session)
    assert [verb for verb, *_ in world.below.writes()] == ["create", "delete", "create"]


async def test_the_patrol_leaves_what_it_cannot_read_to_a_worker():
    world = World()
    world.ready()
    world.tenant_has("Pod", "p", spec=None, status={})
    world.super_has("Pod", "p", spec={"containers": CONTAINERS}, status={})
    world.tenant_has("Pod", "q", spec={"containers": CONTAINERS}, status={})
    assert await Patrol({}).look(world.session) >= 2


async def test_a_refused_change_of_a_service_is_told_and_its_address_goes_up_all_the_same():
    world = World()
    world.ready()
    given = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}
    port = {"port": 80, "protocol": "TCP", "targetPort": 80}
    spec = {"clusterIP": "10.96.8.9", "ports": [port], "type": "LoadBalancer"}
    world.tenant_has("Service", "s", spec={**spec, "selector": {"a": "new"}}, status={})
    world.super_has("Service", "s", spec=spec, status=given)
    world.below.refusals["patch"] = errors.Forbidden("where: admission says no (403)")
    key = world.key("Service", "web", "s")
    with pytest.raises(errors.Forbidden):
        await services.reconcile(registry.BY_NAME["Service"], key, world.session)
    assert ("patch", "Service", "s") in world.above.writes()
    assert world.told() == [rejection_events.SYNC_FAILED]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('pods "p" is forbidden: exceeded quota: gold, used: cpu=9', "is used up"),
        ('admission webhook "secret.example" denied the request: no', "refuses it"),
        (
            'pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces',
            'violates PodSecurity "baseline:latest": host namespaces',
        ),
    ],
)
async def test_a_refusal_is_told_without_what_refused(said, told):
    """REL-36, REL-43, V-10."""
    world = World()
    entry = world.tenant_has("Pod", "p", spec={"containers": CONTAINERS})
    problem = errors.Forbidden(f"POST: {said} (403)", said=said)
    await rejection_events.tell_failed(registry.BY_NAME["Pod"], entry, problem, world.session)
    message = world.above.bodies[-1]["message"]
    assert told in message
    assert not any(name in message for name in ("gold", "secret.example"))


@pytest.mark.parametrize(
    "given",
    [
        {"automountServiceAccountToken": True},
        {"secrets": [{"name": "s"}]},
        {"imagePullSecrets": [{"name": "s"}]},
    ],
)
async def test_an_account_that_was_given_something_is_put_back(given):
    world = World()
    world.ready()
    powerless = {"automountServiceAccountToken": False, "metadata": {"resourceVersion": "61"}}
    key, kind = world.key("Namespace", "", "web"), registry.BY_NAME["Namespace"]
    world.super_has("ServiceAccount", names.WORKLOAD_ACCOUNT, **powerless)
    await namespaces.reconcile(kind, key, world.session)
    assert not world.below.writes("ServiceAccount")
    world.session.expectations.forget()  # of the namespace itself
    changed = {**powerless, "metadata": {"resourceVersion": "62"}, **given}
    world.super_has("ServiceAccount", names.WORKLOAD_ACCOUNT, **changed)
    await namespaces.reconcile(kind, key, world.session)
    assert world.below.writes("ServiceAccount") == [
        ("patch", "ServiceAccount", names.WORKLOAD_ACCOUNT)
    ]
    body = world.below.bodies[-1]
    assert body["automountServiceAccountToken"] is False
    assert body["secrets"] is body["imagePullSecrets"] is None


async def test_the_end_of_what_has_no_twin_is_not_remembered():
    world = World()
    tenant_events.wire_tenant(world.session)
    world.super_has("ConfigMap", "twin")
    for name in ("twin", "other"):
        entry = world.tenant_has("ConfigMap", name)
        world.session.stores["ConfigMap"].discard(entry, live=True)
    assert list(world.session.deletions._gone) == [world.key("ConfigMap", "web", "twin")]


@pytest.mark.parametrize(
    ("spec", "goes_down"),
    [
        ({"clusterIP": "10.96.8.9", "clusterIPs": ["10.96.8.9"]}, True),
        ({"clusterIP": "None", "clusterIPs": ["None"]}, True),
        ({"type": "ExternalName", "externalName": "x.example"}, True),
        ({"type": "ClusterIP"}, False),
        ({"clusterIP": "10.96.8.9", "clusterIPs": ["10.96.8.9", "10.96.0.1"]}, False),
        ({"clusterIP": "10.96.0.1"}, False),
    ],
)
async def test_a_service_goes_down_with_addresses_of_the_slice_only(spec, goes_down):
    world = World()
    world.ready()
    world.tenant_has("Service", "s", spec=spec, status={})
    key = world.key("Service", "web", "s")
    await services.reconcile(registry.BY_NAME["Service"], key, world.session)
    assert bool(world.below.writes("Service")) == goes_down


async def test_writes_of_an_address_are_counted():
    world = World()
    below = {"metadata": {"name": "10.96.8.77", "uid": "i", "resourceVersion": "3"}}
    reference = {"group": "", "resource": "services", "namespace": "other", "name": "s"}
    put(world.super_cluster.addresses, {**below, "spec": {"parentRef": reference}})
    key = world.key("IPAddress", "", "10.96.8.77")
    await cluster_ips.reconcile(key, world.session)
    assert len(world.above.writes("IPAddress")) == 1
    assert is_counted(world, key, 1)


async def test_writes_of_a_namespaces_account_are_counted():
    world = World()
    key = world.key("Namespace", "", "web")
    world.tenant_has("Namespace", "web", namespace="")
    kind = registry.BY_NAME["Namespace"]
    assert kind.build is not None
    twin = kind.build(world.session.stores["Namespace"].list()[0].decode(), world.session.view)
    put(
        world.super_cluster.stores["Namespace"],
        twin | {"metadata": {**twin["metadata"], "uid": "b", "resourceVersion": "60"}},
    )
    await namespaces.reconcile(kind, key, world.session)
    assert world.below.writes() == [("create", "ServiceAccount", names.WORKLOAD_ACCOUNT)]
    assert is_counted(world, key, 1)


async def test_writes_upward_are_counted():
    world = World()
    key = world.key("Pod", "web", "p")
    await sync_up.write(registry.BY_NAME["Pod"], key, {"status": {}}, world.session)
    assert is_counted(world, key, 1)


async def test_a_key_is_tried_from_the_start_when_its_object_changes_and_not_at_its_status():
    world = World()
    tenant_events.wire_tenant(world.session)
    key, queue = world.key("Pod", "web", "p"), world.session.queue

    def seen(revision: int, generation: int, **fields: Any) -> int:
        for _ in range(5):
            queue.retry(key)
        metadata = {"generation": generation, "resourceVersion": str(revision)}
        world.tenant_has("Pod", "p", spec={}, metadata=metadata, **fields)
        return queue.failures(key)

    seen(1, 1)
    assert seen(2, 1, status={"phase": "Running"}) > 0
    assert seen(3, 2) == 0
