"""A quota over all namespaces of a tenant, on real API servers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from kubeio import Object
from kubeio.errors import Forbidden
from syncer.rules.quota.usage import compute_usage
from syncer.safety.quota_accounting import QUOTA_EXCEEDED
from tenancy import names, wellknown
from tenancy.policies import BASELINE_POLICY, TenantPolicySpec
from tenancy.policy.quotas import format_amount
from tenancy.resources import (
    CONFIG_MAPS,
    LIMIT_RANGES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_QUOTAS,
    SERVICES,
    Resource,
)
from tests.integration.syncer.world import SyncerWorld, policed
from tests.support.eventually import eventually

MANY = 1000
LIMIT = 240
"""Number of Services that may exist. It is reached while most creates are still in work."""


def policy(quota: Mapping[str, Any], **parts: Any) -> TenantPolicySpec:
    """Return the policy baseline with a quota."""
    found = {**msgspec.to_builtins(BASELINE_POLICY), "quota": dict(quota), **parts}
    return msgspec.convert(found, TenantPolicySpec)


def pod(name: str, cpu: str = "") -> Object:
    """Return a pod."""
    resources = {"resources": {"requests": {"cpu": cpu}}} if cpu else {}
    containers = [{"name": "c", "image": "busybox", **resources}]
    return {
        "metadata": {"name": name},
        "spec": {"containers": containers, "automountServiceAccountToken": False},
    }


def service(name: str, kind: str = "ClusterIP", **spec: Any) -> Object:
    """Return a Service."""
    return {"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80}], **spec}}


async def count(world: SyncerWorld, resource: Resource, *spaces: str) -> int:
    """Count the objects in the super namespaces of some tenant namespaces."""
    found = 0
    for space in spaces:
        super_space = world.super_namespace(space)
        found += len(
            (await world.super_client.list(resource, namespace=super_space))["items"] or ()
        )
    return found


async def used(world: SyncerWorld, resource: Resource, name: str) -> int:
    """Return what earlier tests left to the tenant, in thousandths, once all of it is synced."""
    async with world.syncer():
        await world.idle()
    ours = f"{wellknown.VC_UID}={world.tenant.uid}"
    found = (await world.super_client.list(resource, label_selector=ours))["items"] or ()
    return sum(compute_usage(resource.kind, item).get(name, 0) for item in found)


async def refusals(world: SyncerWorld, space: str) -> list[str]:
    """Return the messages about the quota in a tenant namespace."""
    return [
        event["message"] for event in await world.events(space) if event["reason"] == QUOTA_EXCEEDED
    ]


async def report(world: SyncerWorld) -> Mapping[str, str]:
    """Return the data of the report in the tenant."""
    found = await world.tenant_client.get(CONFIG_MAPS, names.QUOTA, namespace="kube-public")
    return found["data"]


async def test_two_namespaces_are_each_within_and_together_over_the_quota(world: SyncerWorld):
    """SEC-62: the tenant reads the reason, and a release lets the held object through."""
    before = await used(world, PODS, "requests.cpu")
    limit = f"{1000 + before}m"
    async with policed(world, policy({"requests.cpu": limit})), world.syncer():
        one, two = await world.namespace(), await world.namespace()
        await world.tenant_client.create(PODS, pod("a", "600m"), namespace=one)
        await eventually(lambda: world.has_twin(PODS, one, "a"))
        await world.tenant_client.create(PODS, pod("b", "600m"), namespace=two)
        found = await eventually(lambda: refusals(world, two))
        shown = [format_amount("cpu", each + before) for each in (600, 1000, 400)]
        assert f"requests.cpu: requested 600m, used {shown[0]}, limit {shown[1]}" in found[0]
        assert "spec.quota" in found[0]
        await world.idle()
        assert not await world.has_twin(PODS, two, "b")
        data = await eventually(
            lambda: report(world), until=lambda data: f"Pod {two}/b" in data["waiting"], within=30
        )
        assert data["hard"] == f"requests.cpu: {shown[1]}\n"
        assert data["used"] == f"requests.cpu: {shown[0]}\n"
        assert data["left"] == "requests.cpu: 400m\n"
        assert data["waitingObjects"] == "1"
        await world.tenant_client.delete(PODS, "a", namespace=one, grace_seconds=0)
        await eventually(lambda: world.has_twin(PODS, two, "b"))
        # The super cluster refuses the same without the syncer.
        wall = await eventually(
            lambda: world.twin(RESOURCE_QUOTAS, one, names.QUOTA),
            until=lambda found: (found.get("status") or {}).get("hard"),
        )
        assert wall["spec"]["hard"] == {"requests.cpu": shown[1]}
        with pytest.raises(Forbidden, match="exceeded quota"):
            await world.super_client.create(
                PODS, pod("thief", f"{2000 + before}m"), namespace=world.super_namespace(one)
            )


async def test_parallel_creates_never_exceed(world: SyncerWorld):
    """SEC-60."""
    before = await used(world, SERVICES, "services") // 1000
    async with policed(world, policy({"services": LIMIT + before})), world.syncer():
        spaces = [await world.namespace() for _ in range(2)]
        seen = 0
        asked = [
            # Without addresses, because so many exceed the range of the tenant.
            world.tenant_client.create(
                SERVICES, service(f"s{number}", clusterIP="None"), namespace=spaces[number % 2]
            )
            for number in range(MANY)
        ]

        async def watch() -> None:
            nonlocal seen
            while True:
                seen = max(seen, await count(world, SERVICES, *spaces))
                await asyncio.sleep(0.05)

        watching = asyncio.create_task(watch())
        await asyncio.gather(*asked)
        await eventually(lambda: count(world, SERVICES, *spaces), until=lambda n: n >= LIMIT)
        await world.idle()
        watching.cancel()
        assert seen <= LIMIT
        assert await count(world, SERVICES, *spaces) == LIMIT
        accountant = world.session.quota
        assert accountant.waiting_count == MANY - LIMIT
        super_space = [
            item["metadata"]["name"]
            for item in (
                await world.super_client.list(SERVICES, namespace=world.super_namespace(spaces[0]))
            )["items"]
        ]
        for name in super_space[:5]:
            await world.tenant_client.delete(SERVICES, name, namespace=spaces[0])
        await eventually(lambda: accountant.waiting_count, until=lambda n: n == MANY - LIMIT - 5)
        await eventually(lambda: count(world, SERVICES, *spaces), until=lambda n: n == LIMIT)


async def test_a_restart_neither_forgets_nor_counts_twice(world: SyncerWorld):
    """SEC-61."""
    before = await used(world, PODS, "pods")
    memory = await used(world, PODS, "limits.memory")
    quota = {"pods": 3 + before // 1000, "limits.memory": 2**31 + memory // 1000}
    async with policed(world, policy(quota)):
        async with world.syncer():
            space = await world.namespace()
            for name in "ab":
                await world.tenant_client.create(PODS, pod(name), namespace=space)
                await eventually(lambda name=name: world.has_twin(PODS, space, name))
        async with world.syncer():
            assert world.session.quota.get_used("pods") == 2000 + before
            assert world.session.quota.get_used("limits.memory") == 2**30 * 1000 + memory
            for name in "cd":
                await world.tenant_client.create(PODS, pod(name), namespace=space)
            await eventually(lambda: refusals(world, space))
            await world.idle()
            assert await count(world, PODS, space) == 3
            # Containers without requests got those of the LimitRange.
            twin = await world.twin(PODS, space, "a")
            assert twin["spec"]["containers"][0]["resources"] == {
                "limits": {"memory": "512Mi"},
                "requests": {"memory": "128Mi"},
            }


async def test_changes_are_charged_and_the_rest_of_the_object_goes_on(world: SyncerWorld):
    names_used = ("services.loadbalancers", "services.nodeports")
    quota = {name: 1 + await used(world, SERVICES, name) // 1000 for name in names_used}
    async with policed(world, policy(quota)), world.syncer():
        space = await world.namespace()
        for name in ("one", "two"):
            await world.tenant_client.create(SERVICES, service(name), namespace=space)
            await eventually(lambda name=name: world.has_twin(SERVICES, space, name))
        change = {"spec": {"type": "LoadBalancer"}}
        await world.tenant_client.patch(SERVICES, "one", change, namespace=space)
        await eventually(
            lambda: world.twin(SERVICES, space, "one"),
            until=lambda twin: twin["spec"]["type"] == "LoadBalancer",
        )
        await world.tenant_client.patch(SERVICES, "two", change, namespace=space)
        assert await eventually(lambda: refusals(world, space))
        await world.idle()
        assert (await world.twin(SERVICES, space, "two"))["spec"]["type"] == "ClusterIP"
        await world.tenant_client.delete(SERVICES, "one", namespace=space)
        await eventually(
            lambda: world.twin(SERVICES, space, "two"),
            until=lambda twin: twin["spec"]["type"] == "LoadBalancer",
        )


async def test_a_retained_volume_still_counts(world: SyncerWorld):
    """SEC-63."""
    before = await used(world, PERSISTENT_VOLUME_CLAIMS, "requests.storage")
    quota = {"requests.storage": 3 * 2**30 + before // 1000}
    async with policed(world, policy(quota)), world.syncer():
        space = await world.namespace()
        super_space = world.super_namespace(space)
        claim = {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "2Gi"}},
            },
        }
        await world.tenant_client.create(PERSISTENT_VOLUME_CLAIMS, claim, namespace=space)
        twin = await eventually(lambda: world.twin(PERSISTENT_VOLUME_CLAIMS, space, "data"))
        accountant = world.session.quota
        assert accountant.get_used("requests.storage") == 2 * 2**30 * 1000 + before
        name = f"retained-{twin['metadata']['uid'][:8]}"
        volume = {
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "2Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": "/nothing"},
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": super_space,
                    "name": "data",
                    "uid": twin["metadata"]["uid"],
                },
            },
        }
        await world.super_client.create(PERSISTENT_VOLUMES, volume)
        try:
            await world.tenant_client.delete(PERSISTENT_VOLUME_CLAIMS, "data", namespace=space)
            await eventually(
                lambda: world.has_twin(PERSISTENT_VOLUME_CLAIMS, space, "data"),
                until=lambda there: not there,
            )
            await world.idle()
            assert accountant.get_used("requests.storage") == 2 * 2**30 * 1000 + before
        finally:
            await world.super_client.delete(PERSISTENT_VOLUMES, name)
        await eventually(
            lambda: accountant.get_used("requests.storage"), until=lambda found: found == before
        )


async def test_the_wall_is_kept_and_goes_with_the_quota(world: SyncerWorld):
    """SEC-64."""
    async with world.syncer():
        async with policed(world, policy({"pods": 7, "cpu": 5, "bytes/secrets": "1Mi"})):
            await eventually(lambda: world.is_engaged() and world.session.quota.hard.get("pods"))
            space = await world.namespace()
            super_space = world.super_namespace(space)
            wall = await eventually(lambda: world.twin(RESOURCE_QUOTAS, space, names.QUOTA))
            assert wall["spec"]["hard"] == {"pods": "7", "cpu": "5"}
            ranges = await eventually(lambda: world.twin(LIMIT_RANGES, space, names.QUOTA))
            assert ranges["spec"]["limits"][0]["defaultRequest"] == {"cpu": "100m"}
            await world.super_client.patch(
                RESOURCE_QUOTAS,
                names.QUOTA,
                {"spec": {"hard": {"pods": "900"}}},
                namespace=super_space,
            )
            await world.super_client.delete(LIMIT_RANGES, names.QUOTA, namespace=super_space)
            await eventually(
                lambda: world.twin(RESOURCE_QUOTAS, space, names.QUOTA),
                until=lambda found: found["spec"]["hard"]["pods"] == "7",
            )
            await eventually(lambda: world.twin(LIMIT_RANGES, space, names.QUOTA))
        for resource in (RESOURCE_QUOTAS, LIMIT_RANGES):
            await eventually(
                lambda resource=resource: world.has_twin(resource, space, names.QUOTA),
                until=lambda there: not there,
                within=30,
            )


async def test_one_pod_cannot_bring_more_bytes_than_the_quota(world: SyncerWorld):
    """SEC-65: a Pending pod names more ConfigMaps than fit."""
    before = await used(world, CONFIG_MAPS, "bytes/configmaps")
    quota = {"bytes/configmaps": 2**20 + before // 1000}
    async with policed(world, policy(quota)), world.syncer():
        space = await world.namespace()
        for number in range(6):
            body = {"metadata": {"name": f"m{number}"}, "data": {"k": "x" * 300_000}}
            await world.tenant_client.create(CONFIG_MAPS, body, namespace=space)
        body = pod("greedy")
        body["spec"]["volumes"] = [
            {"name": f"v{number}", "configMap": {"name": f"m{number}"}} for number in range(6)
        ]
        await world.tenant_client.create(PODS, body, namespace=space)
        assert await eventually(lambda: refusals(world, space))
        await world.idle()
        assert not await world.has_twin(PODS, space, "greedy")
        there = [await world.has_twin(CONFIG_MAPS, space, f"m{number}") for number in range(6)]
        assert sum(there) <= 3
        await world.tenant_client.delete(PODS, "greedy", namespace=space, grace_seconds=0)
