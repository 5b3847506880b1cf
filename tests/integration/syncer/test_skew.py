"""A tenant of another minor than the super cluster: what one side does not know stops nothing.

Both directions of each pair, on API servers of either minor. The tenant has two fields switched on
besides: one that the syncer leaves out, and one that the super cluster's server leaves out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import wellknown
from tenancy.ownership import Tenant
from tenancy.resources import (
    CONFIG_MAPS,
    EVENTS,
    INGRESSES,
    NETWORK_POLICIES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    SERVICES,
)
from tests.integration.syncer.control_planes import (
    begin_super,
    begin_tenant,
    declare,
    super_plane_of,
    tenant_plane,
)
from tests.integration.syncer.objects import pod, running_status
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.test_running_pods import told
from tests.integration.syncer.world import SyncerWorld, SyncerWrite, names_of_others
from tests.support.controlplane import AuditMark, LocalControlPlane
from tests.support.eventually import eventually

pytestmark = pytest.mark.thorough

_GROUP: Object = {"schedulingGroup": {"podGroupName": "g"}}
_GATES = ("ContainerStopSignals", "GenericWorkload")
_GATES_1_37 = (
    *_GATES,
    "AtomicWriteVolumeUserFields",
    "EmptyDirVolumeMode",
    "EvictionRequestAPI",
    "GRPCContainerProbeTLS",
    "H2CContainerProbe",
    "VolumeBindMountOptions",
)


@dataclass(frozen=True)
class TenantMinor:
    """Feature gates that a test enables in a tenant of a minor."""

    only_in_tenant: Object
    """A field of a PodSpec that the syncer leaves out. Some minors of the super cluster lack it."""
    groups: tuple[str, ...]
    """The APIs that the tenant's server needs for it."""
    gates: tuple[str, ...] = _GATES


TENANTS = {
    "1.35": TenantMinor(
        {"workloadRef": {"name": "w", "podGroup": "g"}}, ("scheduling.k8s.io/v1alpha1",)
    ),
    "1.36": TenantMinor(_GROUP, ("scheduling.k8s.io/v1alpha2",)),
    "1.37": TenantMinor(
        {"evictionResponders": [{"name": "example.com/slow", "priority": 100000}]},
        ("scheduling.k8s.io/v1beta1", "lifecycle.k8s.io/v1alpha1"),
        _GATES_1_37,
    ),
}


@dataclass(frozen=True)
class VersionSkew:
    """The minors of a tenant and of a super cluster."""

    tenant: str
    super_minor: str

    @property
    def tenant_settings(self) -> TenantMinor:
        """Feature gates of the tenant."""
        return TENANTS[self.tenant]

    @property
    def only_tenant_is_1_36(self) -> bool:
        """Whether only the tenant's server has what became the default in 1.36."""
        return self.tenant != "1.35" and self.super_minor == "1.35"

    @property
    def only_super_is_1_36(self) -> bool:
        """Whether only the super cluster's server has what became the default in 1.36."""
        return self.tenant == "1.35" and self.super_minor != "1.35"


SKEWS = [
    pytest.param(
        VersionSkew(tenant, super_minor), id=f"tenant-{tenant}-on-{super_minor}", marks=marks
    )
    for tenant, super_minor, marks in (
        ("1.36", "1.35", ()),
        ("1.35", "1.36", ()),
        ("1.37", "1.36", ()),
        ("1.36", "1.37", ()),
        ("1.37", "1.35", pytest.mark.slow),
        ("1.35", "1.37", pytest.mark.slow),
    )
]


@dataclass(frozen=True)
class SkewedPlanes:
    """Two control planes of different minors."""

    skew: VersionSkew
    super_plane: LocalControlPlane
    tenant_plane: LocalControlPlane
    tenant: Tenant


@pytest.fixture(scope="module", params=SKEWS)
def planes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SkewedPlanes]:
    """Start both sides of a direction."""
    skew: VersionSkew = request.param
    super_server = super_plane_of(tmp_path_factory.mktemp("super"), skew.super_minor)
    groups = ",".join(f"{each}=true" for each in skew.tenant_settings.groups)
    gates = ",".join(f"{each}=true" for each in skew.tenant_settings.gates)
    tenant_server = tenant_plane(
        tmp_path_factory.mktemp("tenant"),
        "tenant",
        minor=skew.tenant,
        api_args={"feature-gates": gates, "runtime-config": groups},
    )

    async def begin() -> Tenant:
        await begin_super(super_server)
        await begin_tenant(tenant_server)
        async with Client(super_server.endpoint) as client:
            return await declare(client, tenant_server)

    try:
        yield SkewedPlanes(skew, super_server, tenant_server, asyncio.run(begin()))
    finally:
        for plane in (tenant_server, super_server):
            asyncio.run(plane.stop())


@pytest.fixture
async def world(planes: SkewedPlanes) -> AsyncIterator[SyncerWorld]:
    """The two sides. `synced` runs a syncer between them."""
    async with (
        Client(planes.super_plane.endpoint) as super_client,
        Client(planes.tenant_plane.endpoint) as tenant_client,
    ):
        yield SyncerWorld(
            super_plane=planes.super_plane,
            tenant_plane=planes.tenant_plane,
            tenant=planes.tenant,
            super_client=super_client,
            tenant_client=tenant_client,
            others=await names_of_others(super_client, tenant_client, planes.tenant),
        )


@pytest.fixture
def skew(planes: SkewedPlanes) -> VersionSkew:
    return planes.skew


async def warnings(world: SyncerWorld, space: str) -> list[tuple[str, str]]:
    """Return object and text of every warning of the syncer's."""
    return [
        (event["involvedObject"]["name"], event["message"])
        for event in await world.events(space)
        if event["type"] == "Warning"
    ]


def writes(world: SyncerWorld, side: str, since: AuditMark, space: str) -> list[SyncerWrite]:
    """Return the syncer's writes in a tenant namespace or its super namespace, Events apart."""
    namespace = world.super_namespace(space) if side == "super" else space
    return [
        write
        for write in world.writes(side, since)
        if write.namespace == namespace and write.resource != EVENTS.plural
    ]


async def at_rest(world: SyncerWorld) -> None:
    """Wait until nothing is done any longer, a while after the last echo."""
    await asyncio.sleep(0.5)
    await world.idle()


def left_out(skew: VersionSkew) -> tuple[Object, str]:
    """Return a pod with a field that the syncer leaves out."""
    fields = skew.tenant_settings.only_in_tenant
    return pod("web", **fields), f"spec.{next(iter(fields))}"


def signal(_: VersionSkew) -> tuple[Object, str]:
    """Return a pod with a field that the super cluster's server leaves out."""
    made = pod("web", os={"name": "linux"})
    made["spec"]["containers"][0]["lifecycle"] = {"stopSignal": "SIGUSR1"}
    return made, "spec.containers[main].lifecycle.stopSignal"


async def test_the_servers_are_of_their_minors(world: SyncerWorld, skew: VersionSkew):
    assert (await world.tenant_client.version()).startswith(f"v{skew.tenant}.")
    assert (await world.super_client.version()).startswith(f"v{skew.super_minor}.")


@pytest.mark.parametrize("make", [left_out, signal])
async def test_a_field_unknown_to_the_super_cluster_gives_one_event_and_a_running_pod(
    world: SyncerWorld, skew: VersionSkew, make
):
    body, path = make(skew)
    field = path.rpartition(".")[2]
    async with world.syncer():
        space, node = await world.namespace(), await world.super_node()
        since = world.mark("super")
        made = await world.tenant_client.create(PODS, body, namespace=space, validation="Strict")
        assert field in str(made["spec"])  # the tenant has it
        await world.start_pod(space, "web", node)
        assert field not in str((await world.twin(PODS, space, "web"))["spec"])
        await world.tenant_client.patch(
            PODS, "web", {"metadata": {"labels": {"b": "2"}}}, namespace=space
        )
        await eventually(
            lambda: world.twin(PODS, space, "web"),
            until=lambda twin: twin["metadata"]["labels"].get("b") == "2",
        )
        await at_rest(world)
        done = [write for write in writes(world, "super", since, space) if write.name == "web"]
        assert [write.verb for write in done] == ["create", "patch"]
    # Another life of the syncer finds nothing to do, and nothing to say.
    since, marked = world.mark("super"), world.mark("tenant")
    async with world.syncer():
        await at_rest(world)
        said = await warnings(world, space)
    assert [name for name, _ in said] == ["web"]
    assert said[0][1].startswith(path)
    assert writes(world, "super", since, space) == []
    assert writes(world, "tenant", marked, space) == []


async def test_new_leaves_of_a_pod_stop_nothing_in_an_older_super_cluster(
    synced: SyncerWorld, skew: VersionSkew
):
    if skew.tenant != "1.37":
        pytest.skip("the leaves are new in 1.37")
    space, node = await synced.namespace(), await synced.super_node()
    volumes = [
        {"name": "e", "emptyDir": {"mode": 0o700}},
        {"name": "c", "configMap": {"name": "x", "optional": True, "defaultUser": 1000}},
    ]
    body = pod("web", volumes=volumes)
    body["spec"]["containers"][0] |= {
        "volumeMounts": [{"name": "e", "mountPath": "/e", "bindMountOptions": ["noexec"]}],
        "livenessProbe": {"grpc": {"port": 1, "mode": "TLS"}},
        "readinessProbe": {"httpGet": {"port": 1, "protocol": "HTTP2"}},
    }
    made = await synced.tenant_client.create(PODS, body, namespace=space, validation="Strict")
    new = ("bindMountOptions", "defaultUser", "'mode': 448", "'mode': 'TLS'", "'protocol'")
    assert all(word in str(made["spec"]) for word in new)
    await synced.start_pod(space, "web", node)
    twin = await synced.twin(PODS, space, "web")
    assert not any(word in str(twin["spec"]) for word in new)
    await at_rest(synced)
    ((name, text),) = await warnings(synced, space)
    assert name == "web"
    assert "not known where the pod or object runs" in text
    assert any(
        path in text
        for path in (
            "spec.volumes[e].emptyDir.mode",
            "spec.containers[main].volumeMounts[e].bindMountOptions",
        )
    )


async def test_what_both_know_goes_down_and_up_in_one_write_each(synced: SyncerWorld):
    """REL-24: a minor apart, and no loop."""
    space, node = await synced.namespace(), await synced.super_node()
    port = {"name": "p", "port": 80}
    backend = {"service": {"name": "x", "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    rule = {"host": f"{space}.example.com", "http": {"paths": [path]}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    block = {"cidr": "198.51.100.0/24"}
    objects = (
        (CONFIG_MAPS, {"data": {"a": "1"}}),
        (SECRETS, {"data": {"a": "MQ=="}}),
        (SERVICES, {"spec": {"selector": {"a": "1"}, "ports": [port]}}),
        (PERSISTENT_VOLUME_CLAIMS, {"spec": claim}),
        (INGRESSES, {"spec": {"rules": [rule]}}),
        (
            NETWORK_POLICIES,
            {"spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": block}]}]}},
        ),
    )
    since = synced.mark("super")
    for resource, body in objects:
        await synced.tenant_client.create(
            resource, {**body, "metadata": {"name": "x"}}, namespace=space
        )
    volumes = [
        {"name": "c", "configMap": {"name": "x"}},
        {"name": "s", "secret": {"secretName": "x"}},
    ]
    await synced.tenant_client.create(PODS, pod("x", volumes=volumes), namespace=space)
    await synced.start_pod(space, "x", node)
    for resource, _ in objects:
        await eventually(lambda resource=resource: synced.twin(resource, space, "x"))
    await at_rest(synced)
    done = [write for write in writes(synced, "super", since, space) if write.name == "x"]
    assert sorted(write.resource for write in done) == sorted(
        [PODS.plural, *(resource.plural for resource, _ in objects)]
    )
    assert {write.verb for write in done} == {"create"}
    assert await warnings(synced, space) == []
    await synced.tenant_client.delete(SERVICES, "x", namespace=space)
    await gone(lambda: synced.twin(SERVICES, space, "x"))


async def test_a_name_that_only_the_newer_server_takes_is_reported_once(
    synced: SyncerWorld, skew: VersionSkew
):
    space = await synced.namespace()
    body = {"spec": {"selector": {"a": "1"}, "ports": [{"port": 80}]}}
    first, since = {**body, "metadata": {"name": "1st"}}, synced.mark("super")
    if skew.only_super_is_1_36:
        with pytest.raises(errors.Invalid):  # by itself
            await synced.tenant_client.create(SERVICES, first, namespace=space)
        return
    await synced.tenant_client.create(SERVICES, first, namespace=space)
    if not skew.only_tenant_is_1_36:
        await eventually(lambda: synced.twin(SERVICES, space, "1st"))
        assert await warnings(synced, space) == []
        return
    await synced.tenant_client.create(
        SERVICES, {**body, "metadata": {"name": "first"}}, namespace=space
    )
    await eventually(lambda: synced.twin(SERVICES, space, "first"))
    said = await eventually(lambda: warnings(synced, space))
    await asyncio.sleep(2)
    assert await warnings(synced, space) == said
    assert [name for name, _ in said] == ["1st"]
    assert "metadata.name" in said[0][1]
    tries = [write for write in writes(synced, "super", since, space) if write.name == "1st"]
    assert {write.code for write in tries} == {422}
    assert len(tries) <= 12  # each wait is longer than the one before


async def test_a_resize_that_only_the_newer_server_takes_is_reported_once_and_the_pod_runs(
    synced: SyncerWorld, skew: VersionSkew
):
    space, node = await synced.namespace(), await synced.super_node()
    await synced.tenant_client.create(
        PODS, pod("web", resources={"requests": {"cpu": "1"}}), namespace=space
    )
    await eventually(lambda: synced.twin(PODS, space, "web"))
    more = {"spec": {"resources": {"requests": {"cpu": "2"}}}}
    since = synced.mark("super")
    if skew.only_super_is_1_36:
        with pytest.raises(errors.ApiError):  # by itself
            await synced.tenant_client.patch(
                PODS, "web", more, namespace=space, subresource="resize"
            )
        return
    await synced.tenant_client.patch(PODS, "web", more, namespace=space, subresource="resize")
    if not skew.only_tenant_is_1_36:
        await eventually(
            lambda: synced.twin(PODS, space, "web"),
            until=lambda twin: twin["spec"]["resources"]["requests"]["cpu"] == "2",
        )
        assert await warnings(synced, space) == []
        return
    said = await eventually(lambda: warnings(synced, space))
    await synced.schedule(space, "web", node)
    status = running_status("web")
    status["containerStatuses"][0]["resources"] = {}  # as a kubelet that can resize says
    await synced.report(space, "web", **status)
    await eventually(
        lambda: synced.tenant_client.get(PODS, "web", namespace=space),
        until=lambda found: found["status"]["phase"] == "Running",
    )
    await asyncio.sleep(2)
    assert await warnings(synced, space) == said
    assert [name for name, _ in said] == ["web"]
    assert "resize of pods with pod-level resources" in said[0][1]
    tries = writes(synced, "super", since, space)
    assert {write.resource for write in tries} == {"pods/resize"}
    assert len(tries) <= 12


async def test_what_a_node_declares_arrives_and_its_heartbeats_cost_nothing(synced: SyncerWorld):
    """An API server of 1.35 knows the field, and has the feature switched off."""
    space, node = await synced.namespace(), await synced.super_node()
    await synced.tenant_client.create(PODS, pod("web"), namespace=space)
    await synced.start_pod(space, "web", node)
    await at_rest(synced)
    since = synced.mark("tenant")

    async def report(**status: object) -> None:
        await synced.super_client.patch(NODES, node, {"status": status}, subresource="status")

    await report(declaredFeatures=["SomethingNew"])
    await eventually(
        lambda: synced.tenant_client.get(NODES, node),
        until=lambda found: found["status"].get("declaredFeatures") == ["SomethingNew"],
    )
    for second in range(10):
        await report(
            conditions=[
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "lastHeartbeatTime": f"2026-01-01T00:01:{second:02}Z",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ]
        )
        await asyncio.sleep(0.05)
    await at_rest(synced)
    done = [write for write in synced.writes("tenant", since) if write.name == node]
    assert [write.resource for write in done] == ["nodes/status"]


async def test_a_status_field_that_the_tenant_does_not_know_is_parked_with_its_path(
    synced: SyncerWorld, skew: VersionSkew
):
    """REL-24: what cannot be shown is not written for ever."""
    space, node = await synced.namespace(), await synced.super_node()
    body = pod("web")
    device = "vendor.example/gpu"
    body["spec"]["containers"][0]["resources"] = {"limits": {device: "1"}}
    await synced.tenant_client.create(PODS, body, namespace=space)
    await synced.start_pod(space, "web", node)
    await at_rest(synced)
    since, super_space = synced.mark("tenant"), synced.super_namespace(space)
    health = [{"name": device, "resources": [{"resourceID": "0", "health": "Healthy"}]}]
    container = running_status("web")["containerStatuses"][0] | {"allocatedResourcesStatus": health}
    await synced.report(space, "web", containerStatuses=[container])
    twin = await synced.twin(PODS, space, "web")
    if skew.only_tenant_is_1_36:  # the super cluster's server leaves it out
        assert "allocatedResourcesStatus" not in twin["status"]["containerStatuses"][0]
        return
    assert twin["status"]["containerStatuses"][0]["allocatedResourcesStatus"] == health
    if not skew.only_super_is_1_36:
        await eventually(
            lambda: synced.tenant_client.get(PODS, "web", namespace=space),
            until=lambda found: (
                found["status"]["containerStatuses"][0].get("allocatedResourcesStatus") == health
            ),
        )
        assert await warnings(synced, space) == []
        return
    for number in range(8):  # whatever happens to the super pod
        mark = {"metadata": {"annotations": {"operator.example/look": str(number)}}}
        await synced.super_client.patch(PODS, "web", mark, namespace=super_space)
        await asyncio.sleep(0.2)
    path = "status.containerStatuses[main].allocatedResourcesStatus"
    event = await told(synced, space, "rule parked")
    assert path in event["message"]
    condition = await eventually(
        lambda: synced.condition(wellknown.SYNCED),
        until=lambda found: found is not None and path in found["message"],
    )
    assert condition["status"] == "True"
    await at_rest(synced)
    done = writes(synced, "tenant", since, space)
    assert [write.resource for write in done] == ["pods/status"] * 5
    assert len(await warnings(synced, space)) == 1
    # The rest of the status comes up all the same.
    await synced.report(space, "web", containerStatuses=[container | {"restartCount": 1}])
    shown = await eventually(
        lambda: synced.tenant_client.get(PODS, "web", namespace=space),
        until=lambda found: found["status"]["containerStatuses"][0]["restartCount"] == 1,
    )
    assert "allocatedResourcesStatus" not in shown["status"]["containerStatuses"][0]
