"""ConfigMaps with service variables: made when a pod needs one, and kept as the Services are."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from kubeio import errors
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter
from syncer.controllers.pods import pod_variables
from syncer.handlers import dependents
from syncer.model.keys import SERVICE_VARIABLES, Key
from syncer.rules.configuration import service_variables
from tenancy import names, ownership
from tests.support.syncer.reconciles import reconcile
from tests.support.syncer.sessions import CONTAINERS, TENANT, SessionWorld

VERSIONS = itertools.count(100)
ADDRESS = "REDIS_SERVICE_HOST"


def has_service(world: SessionWorld, name: str = "redis", namespace: str = "web", port: int = 80):
    """Have a Service in the tenant."""
    spec = {"clusterIP": "10.96.8.20", "ports": [{"port": port}]}
    metadata = {"resourceVersion": f"{next(VERSIONS)}"}
    return world.tenant_has("Service", name, namespace, metadata=metadata, spec=spec)


@pytest.fixture
def world() -> SessionWorld:
    """Have a pod in a namespace with one Service, and no ConfigMap yet."""
    found = SessionWorld()
    found.ready()
    store = found.session.twins.get_store("ConfigMap")
    for entry in store.list(found.below.space):
        store.discard(entry, live=True)
    has_service(found, "kubernetes", "default", 443)
    has_service(found)
    found.tenant_has("Pod", "p", spec={"containers": CONTAINERS})
    return found


def key_of(world: SessionWorld, name: str = names.SERVICE_VARIABLES) -> Key:
    return world.key(SERVICE_VARIABLES, "web", name)


async def work(world: SessionWorld, name: str = names.SERVICE_VARIABLES) -> Any:
    return await reconcile(world, SERVICE_VARIABLES, name)


def shown(world: SessionWorld, **fields: Any) -> None:
    """Have the last written ConfigMap in the cache and at the server."""
    body = {**world.below.bodies[-1], **fields}
    version = {
        "resourceVersion": f"{next(VERSIONS) + 2000}",
        "annotations": body["metadata"]["annotations"],
    }
    name = body["metadata"]["name"]
    data = {key: body[key] for key in ("data", "immutable") if key in body}
    entry = world.super_has("ConfigMap", name, uid="web-uid", metadata=version, **data)
    world.below.has("ConfigMap", name, entry.decode())


async def test_it_is_made_for_the_pods_of_a_namespace(world):
    assert await work(world) == Done()
    (body,) = world.below.bodies
    assert body["metadata"]["namespace"] == world.below.space
    assert body["data"][ADDRESS] == "10.96.8.20"
    assert body["data"]["KUBERNETES_SERVICE_HOST"] == "10.96.8.20"
    assert ownership.read_owner(body["metadata"]) == (TENANT.uid, "web-uid", "web")
    assert await work(world, names.API_VARIABLES) == Done()
    assert ADDRESS not in world.below.bodies[-1]["data"], "without links"
    assert "KUBERNETES_SERVICE_HOST" in world.below.bodies[-1]["data"]


async def test_none_is_made_or_kept_where_there_is_no_pod(world):
    (pod,) = world.session.stores["Pod"].list("web")
    world.session.stores["Pod"].discard(pod, live=True)
    assert await work(world) == Done()
    assert world.below.writes() == []


async def test_it_is_made_again_while_a_super_pod_names_it(world):
    (pod,) = world.session.stores["Pod"].list("web")
    world.session.stores["Pod"].discard(pod, live=True)
    sources = [{"configMapRef": {"name": names.SERVICE_VARIABLES}}]
    twin = world.super_has("Pod", "p", spec={"containers": [{"name": "m", "envFrom": sources}]})
    pod_variables.enqueue_missing("web", twin.decode(), world.session)
    assert world.session.queue.take() == key_of(world)
    assert await work(world) == Done()
    assert world.below.writes() == [("create", "ConfigMap", names.SERVICE_VARIABLES)]
    shown(world)
    world.session.queue.done(key_of(world))
    pod_variables.enqueue_missing("web", twin.decode(), world.session)
    assert world.session.queue.take() is None


@pytest.mark.parametrize("spec", [{}, {"containers": []}, {"containers": [{"envFrom": []}]}])
def test_a_pod_of_an_earlier_version_needs_none(world, spec):
    pod_variables.enqueue_missing("web", {"spec": spec}, world.session)
    assert world.session.queue.take() is None


@pytest.mark.parametrize("count", [1, 100], ids=["whole in the cache", "an outline in the cache"])
async def test_it_follows_the_services(world, count):
    for number in range(count):
        has_service(world, f"s{number}")
    await work(world)
    shown(world)
    world.below.asked.clear()
    assert await work(world) == Done()
    assert world.below.asked == [], "it is as it should be"
    has_service(world, port=6379)
    await work(world)
    assert world.below.writes() == [("replace", "ConfigMap", names.SERVICE_VARIABLES)]
    body = world.below.bodies[-1]
    assert body["data"]["REDIS_SERVICE_PORT"] == "6379"
    assert len(body["data"]) >= 7 * count
    assert body["metadata"]["uid"]
    assert body["metadata"]["resourceVersion"]
    assert not set(body) - {"apiVersion", "kind", "metadata", "data"}


@pytest.mark.parametrize(
    ("namespace", "name", "queued"),
    [
        ("web", "redis", {names.SERVICE_VARIABLES}),
        ("other", "redis", set()),
        ("web", "kubernetes", {names.SERVICE_VARIABLES}),
        ("default", "kubernetes", service_variables.NAMES),
    ],
)
async def test_a_changed_service_queues_what_holds_its_variables(world, namespace, name, queued):
    for each in service_variables.NAMES:
        await work(world, each)
        shown(world)
    old = has_service(world, name, namespace, 1)
    new = has_service(world, name, namespace, 2)
    session = world.session
    dependents.enqueue_tenant_dependents(session, "Service", old, new, low=False)
    await asyncio.sleep(0)
    assert session.queue.take() is None, "changes in a row are written once"
    await asyncio.sleep(dependents.VARIABLES_BATCH_SECONDS + 0.05)
    found = set(iter(session.queue.take, None))
    assert found == {key_of(world, each) for each in queued}
    dependents.enqueue_tenant_dependents(session, "Service", new, new, low=False)
    assert not session.queue._due


def outdated(world: SessionWorld, *, links: bool = True) -> Key | None:
    return pod_variables.get_outdated_key("web", links=links, session=world.session)


async def test_a_pod_waits_until_it_has_the_services_of_now(world):
    assert outdated(world) == key_of(world)
    assert outdated(world, links=False) == key_of(world, names.API_VARIABLES)
    await work(world)
    shown(world)
    assert outdated(world) is None
    has_service(world, "late")
    assert outdated(world) == key_of(world)
    await work(world)
    shown(world)
    assert outdated(world) is None
    world.super_has("ConfigMap", names.SERVICE_VARIABLES, uid="web-uid")
    assert outdated(world) == key_of(world), "it was emptied"


async def test_without_the_service_of_the_api_nothing_is_written(world):
    """A kubelet would give the super cluster's address to a container."""
    await work(world)
    shown(world)
    world.below.asked.clear()
    api = world.session.stores["Service"].get("default", "kubernetes")
    world.session.stores["Service"].discard(api, live=True)
    found = await work(world)
    assert isinstance(found, RequeueAfter)
    assert world.below.asked == []
    assert outdated(world) == key_of(world), "a new pod waits"
    has_service(world, "kubernetes", "default", 443)
    assert await work(world) == Done()
    assert outdated(world) is None


async def test_one_that_waits_is_enqueued_when_nothing_is_left_to_write(world):
    await work(world)
    shown(world)
    pod = world.key("Pod", "web", "p")
    world.session.work.add_waiter(key_of(world), pod)
    await work(world)
    assert world.session.queue.take() == pod


async def test_a_pod_is_not_made_before_its_variables(world):
    with pytest.raises(NotReadyYet):
        await reconcile(world, "Pod", "p")
    assert world.below.writes("Pod") == []
    assert world.session.queue.take() == key_of(world)
    await work(world)
    shown(world)
    await reconcile(world, "Pod", "p")
    (made,) = [body for body in world.below.bodies if body["kind"] == "Pod"]
    sources = made["spec"]["containers"][0]["envFrom"]
    assert sources == [{"configMapRef": {"name": names.SERVICE_VARIABLES}}]


async def test_too_many_services_are_reported_with_their_size_and_the_limit(world, monkeypatch):
    monkeypatch.setattr(service_variables, "MAX_VARIABLE_BYTES", 300)
    assert await work(world) == Done()
    await reconcile(world, "Pod", "p")
    assert world.below.writes() == []
    (event,) = [body for body in world.above.bodies if body.get("reason")]
    assert event["reason"] == "SyncRejected"
    size = pod_variables.count_bytes("web", links=True, session=world.session)
    assert size > 300
    assert f"{size} bytes of variables of Services, and the limit is 300" in event["message"]
    world.tenant_has("Pod", "q", spec={"containers": CONTAINERS, "enableServiceLinks": False})
    with pytest.raises(NotReadyYet):
        await reconcile(world, "Pod", "q")


async def test_an_immutable_one_is_recreated(world):
    await work(world)
    shown(world, immutable=True)
    assert await work(world) == Done()
    has_service(world, "late")
    await work(world)
    assert world.below.writes()[-1] == ("delete", "ConfigMap", names.SERVICE_VARIABLES)
    assert outdated(world) == key_of(world)


def waiting(world: SessionWorld, count: int = 2) -> None:
    for number in range(count):
        world.tenant_has("Pod", f"w{number:02}", spec={"containers": CONTAINERS})
        world.session.work.add_waiter(key_of(world), world.key("Pod", "web", f"w{number:02}"))


async def test_a_refusal_is_reported_to_who_waits(world):
    waiting(world, 30)
    refusal = errors.Forbidden("exceeded quota: q")
    world.below.refusals["create ConfigMap"] = refusal
    with pytest.raises(errors.Forbidden):
        await work(world)
    assert world.told() == ["SyncFailed"] * pod_variables.MAX_REPORTED_PODS
    assert len(world.session.work.waiters.pop_waiters(key_of(world))) == 30, "they go on waiting"


@pytest.mark.parametrize("is_cached", [True, False])
async def test_a_foreign_is_reported_and_not_touched(world, is_cached):
    waiting(world)
    name = names.SERVICE_VARIABLES
    foreign = {"metadata": {"name": name, "annotations": {"tenancy.x-k8s.io/vcuid": "x"}}}
    if is_cached:
        world.super_has("ConfigMap", name, metadata=foreign["metadata"])
    else:
        world.below.has("ConfigMap", name, {"data": {"a": "b"}})
    found = await work(world)
    assert isinstance(found, RequeueAfter)
    assert found.after == 60
    assert world.told() == ["NameTaken"] * 2
    assert [asked for asked in world.below.writes() if asked[0] != "create"] == []


async def test_one_that_lost_its_labels_gets_them_back(world):
    await work(world)
    body = world.below.bodies[-1]
    bare = {**body["metadata"], "labels": {}, "uid": "u"}
    world.below.lacks("ConfigMap", names.SERVICE_VARIABLES)
    world.below.has("ConfigMap", names.SERVICE_VARIABLES, {**body, "metadata": bare})
    world.session.expectations.clear()
    await work(world)
    labels = world.below.object("ConfigMap", names.SERVICE_VARIABLES)["metadata"]["labels"]
    assert labels == ownership.build_owner_labels(TENANT, "web")


async def test_nothing_is_made_for_a_namespace_that_is_gone(world):
    (space,) = world.session.stores["Namespace"].list()
    world.session.stores["Namespace"].discard(space, live=True)
    assert await work(world) == Done()
    assert world.below.writes() == []
    assert outdated(world) == key_of(world)


async def test_a_namespace_that_ends_is_waited_for(world):
    refusal = errors.Forbidden("no", details={"causes": [{"reason": "NamespaceTerminating"}]})
    world.below.refusals["create ConfigMap"] = refusal
    with pytest.raises(NotReadyYet):
        await work(world)
    assert world.told() == []
