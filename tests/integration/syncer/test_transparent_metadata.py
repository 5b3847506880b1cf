"""Labels and annotations that the super cluster writes, on the tenant's own objects."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubeio import Object
from syncer.model import object_meta
from tenancy import wellknown
from tenancy.policies import MetadataSpec, TenantPolicySpec
from tenancy.resources import (
    INGRESSES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SERVICES,
    VIRTUAL_CLUSTERS,
    Resource,
)
from tests.integration.syncer.objects import pod
from tests.integration.syncer.storage import claim, offer_class, reasons
from tests.integration.syncer.world import SyncerWorld, policed
from tests.support.eventually import eventually
from tests.support.names import fresh_name

PREFIX = "k8s.net.status"
KEY = f"{PREFIX}/address"
SERVICE_SPEC = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
BODIES: dict[str, tuple[Resource, Object]] = {
    "Pod": (PODS, pod("x")),
    "Service": (SERVICES, {"spec": SERVICE_SPEC}),
    "PersistentVolumeClaim": (PERSISTENT_VOLUME_CLAIMS, claim("x")),
    "Ingress": (
        INGRESSES,
        {
            "spec": {
                "rules": [
                    {
                        "host": "transparent.example.com",
                        "http": {
                            "paths": [
                                {
                                    "path": "/",
                                    "pathType": "Prefix",
                                    "backend": {"service": {"name": "w", "port": {"number": 80}}},
                                }
                            ]
                        },
                    }
                ]
            }
        },
    ),
}


@contextlib.asynccontextmanager
async def prefixed(world: SyncerWorld, *prefixes: str) -> AsyncIterator[None]:
    """Set `spec.transparentMetaPrefixes` of the tenant for the length of a block."""

    async def write(value: list[str] | None) -> None:
        await world.super_client.patch(
            VIRTUAL_CLUSTERS,
            world.tenant.name,
            {"spec": {"transparentMetaPrefixes": value}},
            namespace=world.tenant.namespace,
        )

    await write(list(prefixes))
    try:
        yield
    finally:
        await write(None)


async def create(world: SyncerWorld, kind: str, space: str, **metadata: Any) -> Resource:
    """Create the tenant object of a kind, and wait for its copy."""
    resource, body = BODIES[kind]
    if kind == "PersistentVolumeClaim":
        body = claim("x", await offer_class(world))
    await world.tenant_client.create(
        resource, {**body, "metadata": {"name": "x", **metadata}}, namespace=space
    )
    await eventually(lambda: world.twin(resource, space, "x"))
    return resource


async def write_below(
    world: SyncerWorld, resource: Resource, space: str, **fields: dict[str, str | None]
) -> None:
    """Write labels and annotations of a copy, as an add-on of the super cluster does."""
    await world.super_client.patch(
        resource, "x", {"metadata": fields}, namespace=world.super_namespace(space)
    )


async def annotation_is(
    world: SyncerWorld, resource: Resource, space: str, key: str, value: str | None
) -> Object:
    """Wait until the tenant's object has a value of an annotation."""
    return await eventually(
        lambda: world.tenant_client.get(resource, "x", namespace=space),
        until=lambda body: (body["metadata"].get("annotations") or {}).get(key) == value,
    )


@pytest.mark.parametrize("kind", BODIES)
async def test_keys_of_a_prefix_come_change_and_go_and_nothing_is_written_in_the_super_cluster(
    world: SyncerWorld, kind: str
):
    async with prefixed(world, PREFIX), world.syncer():
        space = await world.namespace()
        # Any unknown annotation of the tenant holds an Ingress back.
        mine = {} if kind == "Ingress" else {f"{PREFIX}/own": "mine"}
        resource = await create(world, kind, space, annotations=mine)
        await world.idle()
        since = world.mark("super")
        super_space = world.super_namespace(space)
        await write_below(
            world,
            resource,
            space,
            labels={f"{PREFIX}/zone": "a"},
            annotations={
                KEY: f"192.0.2.1 in {super_space}",
                **dict.fromkeys(mine, "theirs"),
                "other.example/x": "hidden",
            },
        )
        own = await annotation_is(world, resource, space, KEY, f"192.0.2.1 in {space}")
        assert own["metadata"]["labels"][f"{PREFIX}/zone"] == "a"
        assert mine.items() <= own["metadata"]["annotations"].items()
        assert "other.example/x" not in own["metadata"]["annotations"]
        await write_below(world, resource, space, annotations={KEY: "192.0.2.2"})
        await annotation_is(world, resource, space, KEY, "192.0.2.2")
        await world.idle()
        own_below = (await world.twin(resource, space, "x"))["metadata"]["annotations"]
        assert wellknown.TRANSPARENT_KEYS not in own_below
        assert KEY not in (own_below.get(wellknown.SYNCED_KEYS) or "")
        # A pod's label is selected by under its translated key, which is the one write.
        written = [
            write for write in world.writes("super", since) if write.namespace == super_space
        ]
        assert len([w for w in written if w.resource == resource.plural]) == (kind == "Pod")
        await write_below(
            world, resource, space, labels={f"{PREFIX}/zone": None}, annotations={KEY: None}
        )
        own = await annotation_is(world, resource, space, KEY, None)
        await eventually(
            lambda: world.tenant_client.get(resource, "x", namespace=space),
            until=lambda body: (
                f"{PREFIX}/zone" not in (body["metadata"].get("labels") or {})
                and wellknown.TRANSPARENT_KEYS not in (body["metadata"].get("annotations") or {})
            ),
        )
        own = await world.tenant_client.get(resource, "x", namespace=space)
        assert (own["metadata"].get("annotations") or {}) == mine


async def test_a_value_that_the_tenant_changes_becomes_its_own(world: SyncerWorld):
    async with prefixed(world, PREFIX), world.syncer():
        space = await world.namespace()
        await create(world, "Service", space)
        await write_below(world, SERVICES, space, annotations={KEY: "1"})
        await annotation_is(world, SERVICES, space, KEY, "1")
        await world.tenant_client.patch(
            SERVICES, "x", {"metadata": {"annotations": {KEY: "mine"}}}, namespace=space
        )
        await annotation_is(world, SERVICES, space, wellknown.TRANSPARENT_KEYS, None)
        await write_below(world, SERVICES, space, annotations={KEY: None})
        await asyncio.sleep(0.3)
        await world.idle()
        own = await world.tenant_client.get(SERVICES, "x", namespace=space)
        assert own["metadata"]["annotations"] == {KEY: "mine"}


async def test_without_the_prefix_the_keys_leave_also_where_they_would_hold_an_object_back(
    world: SyncerWorld,
):
    space = ""
    async with prefixed(world, PREFIX), world.syncer():
        space = await world.namespace()
        await create(world, "Ingress", space)
        await write_below(world, INGRESSES, space, annotations={KEY: "1"})
        await annotation_is(world, INGRESSES, space, KEY, "1")
    async with world.syncer():
        await annotation_is(world, INGRESSES, space, KEY, None)
        assert "SyncRejected" not in await reasons(world, space, "x")
        assert (await world.twin(INGRESSES, space, "x"))["metadata"]["annotations"][KEY] == "1"


async def test_a_pod_at_the_limit_of_annotations_keeps_its_own_and_is_reported(world: SyncerWorld):
    own = {"own": "x" * (object_meta.MAX_ANNOTATIONS_BYTES - 100)}
    async with prefixed(world, PREFIX), world.syncer():
        space = await world.namespace()
        await create(world, "Pod", space, annotations=own)
        await write_below(world, PODS, space, annotations={KEY: "1"})
        await eventually(lambda: told(world, space), until=lambda said: KEY in said)
        body = await world.tenant_client.get(PODS, "x", namespace=space)
        assert body["metadata"]["annotations"] == own


async def told(world: SyncerWorld, space: str) -> str:
    """Return the texts of the syncer's Events in a namespace."""
    return " ".join(event["message"] for event in await world.events(space))


async def test_annotations_of_the_policy_and_of_the_built_in_list(world: SyncerWorld):
    policy = TenantPolicySpec(
        metadata=MetadataSpec(transparent_annotations={"Service": ("lb.example.com/id",)})
    )
    async with policed(world, policy), world.syncer():
        space = await world.namespace()
        await create(world, "Service", space)
        added = {
            "lb.example.com/id": "7",
            "lb.example.com/secret": "no",
            "metallb.io/ip-allocated-from-pool": "pool",
            "external-dns.alpha.kubernetes.io/hostname": "web.example.com",
        }
        await write_below(world, SERVICES, space, annotations=added)
        own = await annotation_is(world, SERVICES, space, "lb.example.com/id", "7")
        kept = {k: v for k, v in own["metadata"]["annotations"].items() if "tenancy" not in k}
        assert kept == {key: value for key, value in added.items() if "secret" not in key}
        await world.tenant_client.patch(
            SERVICES, "x", {"spec": {"type": "LoadBalancer"}}, namespace=space
        )
        twin = await eventually(
            lambda: world.twin(SERVICES, space, "x"),
            until=lambda body: body["spec"]["type"] == "LoadBalancer",
        )
        assert twin["metadata"]["annotations"]["lb.example.com/id"] == "7"


async def test_tektons_annotation_reaches_the_file_of_its_pod(synced: SyncerWorld):
    """Its controller sets the annotation once the sidecars run, and the first step reads it."""
    space, path = await synced.namespace(), "metadata.annotations['tekton.dev/ready']"
    volume = {
        "name": "tekton-internal-downward",
        "downwardAPI": {"items": [{"path": "ready", "fieldRef": {"fieldPath": path}}]},
    }
    body = pod("x", volumes=[volume])
    await synced.tenant_client.create(PODS, body, namespace=space)
    twin = await eventually(lambda: synced.twin(PODS, space, "x"))
    read = twin["spec"]["volumes"][0]["downwardAPI"]["items"][0]["fieldRef"]["fieldPath"]
    key = read.removeprefix("metadata.annotations['").removesuffix("']")
    assert twin["metadata"]["annotations"][key] == ""
    change = {"metadata": {"annotations": {"tekton.dev/ready": "READY"}}}
    await synced.tenant_client.patch(PODS, "x", change, namespace=space)
    await eventually(
        lambda: synced.twin(PODS, space, "x"),
        until=lambda found: found["metadata"]["annotations"][key] == "READY",
    )


ARGO_SELECTOR = {"app": "web", "rollouts-pod-template-hash": "789c"}
ENVOY_LABELS = {
    "app.kubernetes.io/managed-by": "envoy-gateway",
    "gateway.envoyproxy.io/owning-gateway-name": "eg",
}
GENERATED = {
    "argo-rollouts": (
        {"annotations": {"argo-rollouts.argoproj.io/managed-by-rollouts": "web"}},
        ARGO_SELECTOR,
    ),
    "envoy-gateway": ({"labels": ENVOY_LABELS}, ENVOY_LABELS),
    "istio": (
        {"labels": {"gateway.istio.io/managed": "istio.io-gateway-controller"}},
        {"gateway.networking.k8s.io/gateway-name": "web"},
    ),
}


@pytest.mark.parametrize("case", GENERATED)
async def test_services_that_controllers_generate_select_their_pods(synced: SyncerWorld, case: str):
    metadata, selector = GENERATED[case]
    space, name = await synced.namespace(), fresh_name("gen")
    labelled = pod(name)
    labelled["metadata"]["labels"] = selector
    await synced.tenant_client.create(PODS, labelled, namespace=space)
    spec = {"type": "LoadBalancer", "selector": selector, "ports": [{"port": 80}]}
    body = {"metadata": {"name": name, **metadata}, "spec": spec}
    await synced.tenant_client.create(SERVICES, body, namespace=space)
    super_service = await eventually(lambda: synced.twin(SERVICES, space, name))
    twin = await eventually(lambda: synced.twin(PODS, space, name))
    assert super_service["spec"]["selector"].items() <= twin["metadata"]["labels"].items()
    address = {"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}]}}
    await synced.super_client.patch(
        SERVICES,
        name,
        {"status": address},
        namespace=synced.super_namespace(space),
        subresource="status",
    )
    await eventually(
        lambda: synced.tenant_client.get(SERVICES, name, namespace=space),
        until=lambda found: found["status"].get("loadBalancer", {}).get("ingress"),
    )
    assert "SyncRejected" not in await reasons(synced, space, name)
