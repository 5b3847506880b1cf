"""Devices by the rules that the chart ships, on real API servers.

The tenant has the real controller of ResourceClaims. The tests write allocations as a scheduler
does, because no node has devices here.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest

from kubeio import Object
from kubeio.errors import Forbidden, NotFound
from syncer.rules.custom.ruled_kinds import RuledMirror
from syncer.safety.quota_accounting import QUOTA_EXCEEDED
from tenancy import names, wellknown
from tenancy.policies import BASELINE_POLICY, ClassFilter
from tenancy.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    PODS,
    RESOURCE_QUOTAS,
    SYNC_RULES,
    Resource,
)
from tenancy.sync_rules.specs import parse_sync_rule
from tests.integration.syncer.control_planes import own_world
from tests.integration.syncer.objects import pod
from tests.integration.syncer.test_sync_rules import manage
from tests.integration.syncer.world import SYNCER, SyncerWorld, policed
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.helm import render
from tests.support.names import fresh_name

pytestmark = pytest.mark.thorough

GROUP = "resource.k8s.io"
CLAIMS = Resource(GROUP, "v1", "resourceclaims", "ResourceClaim")
TEMPLATES = Resource(GROUP, "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
CLASSES = Resource(GROUP, "v1", "deviceclasses", "DeviceClass", namespaced=False)
DRIVER = "devices.example.com"
OFFERED = {"tenancy.x-k8s.io/offered": "true"}
OFFERING = msgspec.structs.replace(
    BASELINE_POLICY, sync_rules=ClassFilter(names=("resourceclaims", "deviceclasses"))
)


def claim_spec(class_name: str, **exactly: Any) -> Object:
    """Return the spec of a claim for one device."""
    request = {"name": "gpu", "exactly": {"deviceClassName": class_name, **exactly}}
    return {"devices": {"requests": [request]}}


def claim(name: str, spec: Object) -> Object:
    """Return a ResourceClaim."""
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": spec,
    }


def pod_with(name: str, **source: str) -> Object:
    """Return a pod whose container uses one claim."""
    body = pod(name, resourceClaims=[{"name": "device", **source}])
    body["spec"]["containers"][0]["resources"] = {"claims": [{"name": "device"}]}
    return body


def allocation(device: str) -> Object:
    """Return the part of a status that a scheduler writes."""
    result = {"request": "gpu", "driver": DRIVER, "pool": "node-1", "device": device}
    config = {
        "source": "FromClass",
        "requests": ["gpu"],
        "opaque": {"driver": DRIVER, "parameters": {"secret": "of the platform"}},
    }
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    return {
        "devices": {"results": [result], "config": [config]},
        "nodeSelector": {"nodeSelectorTerms": [term]},
    }


@contextlib.asynccontextmanager
async def offering(world: SyncerWorld) -> AsyncIterator[None]:
    """Have the rules and the rights of the chart, for a tenant whose policy selects the rules."""
    shipped = render(
        *("--set", "syncRules.dynamicResources.enabled=true"),
        *("--api-versions", "tenancy.x-k8s.io/v1alpha1/SyncRule"),
    )
    granted = [
        rule
        for each in shipped
        if each["kind"] == "ClusterRole"
        and wellknown.AGGREGATE_TO_SYNCER in (each["metadata"].get("labels") or {})
        for rule in each["rules"]
    ]
    await bind_rules(world, granted)
    rules = [each for each in shipped if each["kind"] == "SyncRule"]
    for rule in rules:
        await world.super_client.create(SYNC_RULES, rule, validation="Strict")
    try:
        async with policed(world, OFFERING):
            await eventually(
                lambda: manage(world),
                until=lambda found: all(
                    item["status"]["conditions"][0]["status"] == "True" for item in found
                ),
            )
            await manage(world)  # the rights in the tenant follow the condition
            yield
    finally:
        for rule in rules:
            await world.super_client.delete(SYNC_RULES, rule["metadata"]["name"])


async def bind_rules(world: SyncerWorld, granted: list[Object]) -> None:
    """Grant rules to the syncer. No controller aggregates ClusterRoles here."""
    name = wellknown.SYNCER_RULES_ROLE
    role = {
        "apiVersion": CLUSTER_ROLES.api_version,
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": granted,
    }
    await world.super_client.apply(CLUSTER_ROLES, role, field_manager="tests")
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": SYNCER}
    body = {
        "apiVersion": CLUSTER_ROLE_BINDINGS.api_version,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [subject],
    }
    await world.super_client.apply(CLUSTER_ROLE_BINDINGS, body, field_manager="tests")
    # In the tenant, the syncer of the tests has another user name than in the product.
    own = {**body, "metadata": {"name": "tests-rules"}}
    await world.tenant_client.apply(CLUSTER_ROLE_BINDINGS, own, field_manager="tests")


@contextlib.asynccontextmanager
async def device_class(world: SyncerWorld, labels: Mapping[str, str]) -> AsyncIterator[str]:
    """Have a DeviceClass in the super cluster for a block."""
    name = fresh_name("class")
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    body = {
        "apiVersion": CLASSES.api_version,
        "kind": "DeviceClass",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {
            "selectors": [selector],
            "config": [{"opaque": {"driver": DRIVER, "parameters": {"secret": "s"}}}],
        },
    }
    await world.super_client.create(CLASSES, body)
    try:
        yield name
    finally:
        await world.super_client.delete(CLASSES, name)


@pytest.fixture
async def devices(
    super_plane: LocalControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[SyncerWorld]:
    """A tenant that is offered devices, with a syncer."""
    folder = tmp_path_factory.mktemp("devices")
    controllers = ("resourceclaim-controller",)
    async with (
        own_world(super_plane, folder, controllers=controllers) as world,
        offering(world),
        world.syncer(),
    ):
        yield world


async def get_claim(world: SyncerWorld, space: str, name: str) -> Object:
    """Return a claim of the tenant."""
    return await world.tenant_client.get(CLAIMS, name, namespace=space)


async def allocate(world: SyncerWorld, space: str, name: str, device: str) -> None:
    """Allocate a device to a super claim."""
    await eventually(lambda: world.twin(CLAIMS, space, name))
    await set_status(world, space, name, {"allocation": allocation(device)})


async def set_status(world: SyncerWorld, space: str, name: str, status: Object) -> None:
    """Write the status of a super claim."""
    super_space = world.super_namespace(space)
    await world.super_client.patch(
        CLAIMS, name, {"status": status}, namespace=super_space, subresource="status"
    )


def list_devices(claim: Object) -> list[str]:
    """Return the allocated devices of a claim."""
    allocated = (claim.get("status") or {}).get("allocation") or {"devices": {"results": []}}
    return [each["device"] for each in allocated["devices"]["results"]]


def template(name: str, spec: Object) -> Object:
    """Return a ResourceClaimTemplate."""
    return {
        "apiVersion": TEMPLATES.api_version,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": spec},
    }


async def list_messages(
    world: SyncerWorld, space: str, name: str, reason: str = "SyncRejected"
) -> list[str]:
    """Return the refusals of one tenant object."""
    return [
        each["message"]
        for each in await world.events(space)
        if each["reason"] == reason and each["involvedObject"]["name"] == name
    ]


async def test_a_pod_waits_for_its_claim_and_the_allocation_comes_back(devices: SyncerWorld):
    async with device_class(devices, OFFERED) as class_name:
        shown = await eventually(lambda: devices.tenant_client.get(CLASSES, class_name), within=30)
        assert "config" not in shown["spec"]
        assert shown["spec"]["selectors"]
        space = await devices.namespace()
        await devices.tenant_client.create(
            PODS, pod_with("web", resourceClaimName="mine"), namespace=space
        )
        messages = await eventually(lambda: list_messages(devices, space, "web"), until=bool)
        assert len(messages) == 1
        assert "the ResourceClaim mine, does not exist. Create it (rule" in messages[0]
        assert not await devices.has_twin(PODS, space, "web")

        spec = claim_spec(class_name, count=1)
        await devices.tenant_client.create(CLAIMS, claim("mine", spec), namespace=space)
        twin = await eventually(lambda: devices.twin(PODS, space, "web"))
        assert twin["spec"]["resourceClaims"] == [{"name": "device", "resourceClaimName": "mine"}]
        assert twin["spec"]["containers"][0]["resources"]["claims"] == [{"name": "device"}]

        await allocate(devices, space, "mine", "device-0")
        node = await devices.super_node()
        await devices.start_pod(space, "web", node)
        own = await devices.tenant_client.get(PODS, "web", namespace=space)
        # The tenant's own controller reserves the claim for the tenant's own pod.
        found = await eventually(
            lambda: get_claim(devices, space, "mine"),
            until=lambda each: (each.get("status") or {}).get("reservedFor"),
        )
        assert [each["uid"] for each in found["status"]["reservedFor"]] == [own["metadata"]["uid"]]
        result = {"request": "gpu", "driver": DRIVER, "pool": "node-1", "device": "device-0"}
        assert found["status"]["allocation"] == {"devices": {"results": [result]}}

        # Another allocation cannot replace the first one in one write, and both arrive.
        await set_status(devices, space, "mine", {"allocation": None})
        await set_status(devices, space, "mine", {"allocation": allocation("device-1")})
        await eventually(
            lambda: get_claim(devices, space, "mine"),
            until=lambda each: list_devices(each) == ["device-1"],
        )
        await set_status(devices, space, "mine", {"allocation": None})
        await eventually(
            lambda: get_claim(devices, space, "mine"), until=lambda each: not each.get("status")
        )


async def test_a_claim_of_a_template_is_named_directly(devices: SyncerWorld):
    async with device_class(devices, OFFERED) as class_name:
        space = await devices.namespace()
        await eventually(lambda: devices.tenant_client.get(CLASSES, class_name), within=30)
        body = template("each", claim_spec(class_name))
        await devices.tenant_client.create(TEMPLATES, body, namespace=space)
        body = pod_with("web", resourceClaimTemplateName="each")
        await devices.tenant_client.create(PODS, body, namespace=space)
        twin = await eventually(lambda: devices.twin(PODS, space, "web"), within=30)
        own = await devices.tenant_client.get(PODS, "web", namespace=space)
        (made,) = own["status"]["resourceClaimStatuses"]
        name = made["resourceClaimName"]
        assert twin["spec"]["resourceClaims"] == [{"name": "device", "resourceClaimName": name}]
        copy = await devices.twin(CLAIMS, space, name)
        assert "ownerReferences" not in copy["metadata"]
        request = copy["spec"]["devices"]["requests"][0]
        assert request["exactly"]["deviceClassName"] == class_name
        with pytest.raises(NotFound):
            await devices.twin(TEMPLATES, space, "each")


async def test_devices_of_all_namespaces_are_within_the_quota(devices: SyncerWorld):
    """SEC-67: the claim of a template counts as well, and a release lets it through."""
    async with device_class(devices, OFFERED) as class_name:
        counted = f"{class_name}.deviceclass.resource.k8s.io/devices"
        quota = {counted: 3, "count/resourceclaims.resource.k8s.io": 9}
        async with policed(devices, msgspec.structs.replace(OFFERING, quota=quota)):
            await eventually(
                lambda: devices.is_engaged() and devices.session.quota.hard.get(counted)
            )
            await eventually(lambda: devices.tenant_client.get(CLASSES, class_name), within=30)
            one, two = await devices.namespace(), await devices.namespace()
            first = claim("first", claim_spec(class_name, count=2))
            await devices.tenant_client.create(CLAIMS, first, namespace=one)
            await eventually(lambda: devices.twin(CLAIMS, one, "first"))

            body = template("each", claim_spec(class_name, count=2))
            await devices.tenant_client.create(TEMPLATES, body, namespace=two)
            body = pod_with("web", resourceClaimTemplateName="each")
            await devices.tenant_client.create(PODS, body, namespace=two)
            own = await eventually(
                lambda: devices.tenant_client.get(PODS, "web", namespace=two),
                until=lambda found: found["status"].get("resourceClaimStatuses"),
            )
            (made,) = own["status"]["resourceClaimStatuses"]
            name = made["resourceClaimName"]
            for each in (name, "web"):
                (message,) = await eventually(
                    lambda each=each: list_messages(devices, two, each, QUOTA_EXCEEDED)
                )
                assert f"{counted}: requested 2, used 2, limit 3" in message
            await devices.idle()
            assert not await devices.has_twin(CLAIMS, two, name)
            assert not await devices.has_twin(PODS, two, "web")

            # The super cluster counts the same, and refuses it without the syncer.
            wall = await eventually(
                lambda: devices.twin(RESOURCE_QUOTAS, one, names.QUOTA),
                until=lambda found: (found.get("status") or {}).get("used", {}).get(counted) == "2",
                within=30,
            )
            assert wall["spec"]["hard"] == {key: str(value) for key, value in quota.items()}
            thief = claim("thief", claim_spec(class_name, allocationMode="All"))
            with pytest.raises(Forbidden, match=f"requested: {counted}=32"):
                await devices.super_client.create(
                    CLAIMS, thief, namespace=devices.super_namespace(one)
                )

            await devices.tenant_client.delete(CLAIMS, "first", namespace=one)
            await eventually(lambda: devices.twin(CLAIMS, two, name))
            await eventually(lambda: devices.twin(PODS, two, "web"))
            assert devices.session.quota.get_used(counted) == 2000


async def test_refused_claims_name_the_field_and_a_class_is_offered_later(devices: SyncerWorld):
    async with device_class(devices, {}) as hidden, device_class(devices, OFFERED) as shown:
        await eventually(lambda: devices.tenant_client.get(CLASSES, shown), within=30)
        space = await devices.namespace()
        opaque = {"opaque": {"driver": DRIVER, "parameters": {"path": "/etc"}}}
        taint = {"key": "x", "operator": "Exists", "effect": "NoSchedule"}
        configured = claim_spec(shown)
        configured["devices"]["config"] = [opaque]
        cases = {
            "hidden": (claim_spec(hidden), "exactly.deviceClassName"),
            "opaque": (configured, "spec.devices.config"),
            "tolerant": (claim_spec(shown, tolerations=[taint]), "exactly.tolerations"),
        }
        for name, (spec, path) in cases.items():
            await devices.tenant_client.create(CLAIMS, claim(name, spec), namespace=space)
            messages = await eventually(
                lambda name=name: list_messages(devices, space, name), until=bool
            )
            assert path in messages[0]
            assert not await devices.has_twin(CLAIMS, space, name)
        await devices.tenant_client.create(
            PODS, pod_with("web", resourceClaimName="hidden"), namespace=space
        )
        messages = await eventually(lambda: list_messages(devices, space, "web"), until=bool)
        assert "is not synced" in messages[0]
        await devices.super_client.patch(CLASSES, hidden, {"metadata": {"labels": dict(OFFERED)}})
        await eventually(lambda: devices.twin(CLAIMS, space, "hidden"))
        await eventually(lambda: devices.twin(PODS, space, "web"))
        await eventually(lambda: devices.tenant_client.get(CLASSES, hidden))


def test_a_tenants_own_class_is_not_offered_by_its_name():
    """The rule of classes shows labelled ones, so its selector decides, not a name."""
    rendered = render("--set", "syncRules.dynamicResources.enabled=true")
    (body,) = [
        each
        for each in rendered
        if each["kind"] == "SyncRule" and each["metadata"]["name"] == "deviceclasses"
    ]
    assert RuledMirror(parse_sync_rule(body)).rule.spec.selector.match_labels == OFFERED
