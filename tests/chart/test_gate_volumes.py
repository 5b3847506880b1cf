"""The gate on the syncer's account: volumes, which are in no namespace of a tenant."""

from __future__ import annotations

import dataclasses

import pytest

from tenancy import names, resources
from tests.chart.gate import marked, refused, sample, tenant
from tests.support.names import fresh_name

pytestmark = pytest.mark.integration


async def test_only_volumes_of_tenants_are_written_where_no_namespace_is(stage):
    own = marked(stage.own)
    volume = sample(resources.PERSISTENT_VOLUMES, "", own)
    await stage.thief.create(resources.PERSISTENT_VOLUMES, volume, dry_run=True)
    for name in (fresh_name("pvc"), "vc-volume", f"a-{names.VOLUME_PREFIX}a"):
        other = {**volume, "metadata": {**volume["metadata"], "name": name}}
        await refused(
            lambda o=other: stage.thief.create(resources.PERSISTENT_VOLUMES, o, dry_run=True)
        )
        made = await stage.admin.create(resources.PERSISTENT_VOLUMES, other)
        identity = {"uid": made["metadata"]["uid"]}
        for write in (
            lambda n=name: stage.thief.delete(resources.PERSISTENT_VOLUMES, n, dry_run=True),
            lambda n=name, i=identity: stage.thief.patch(
                resources.PERSISTENT_VOLUMES, n, {"metadata": i}, dry_run=True
            ),
        ):
            await refused(write)
        await stage.admin.delete(resources.PERSISTENT_VOLUMES, name)


CSI = {"driver": "csi.example", "volumeHandle": "h"}


@pytest.mark.parametrize(
    "spec",
    [
        {"nfs": None, "hostPath": {"path": "/"}},
        {"nfs": None, "csi": {**CSI, "nodeStageSecretRef": {"name": "a", "namespace": "b"}}},
        {"storageClassName": "standard"},
        {"claimRef": None},
        {"claimRef": {"namespace": "monitoring", "name": "data"}},
        {"claimRef": {"name": "data"}},
    ],
)
async def test_a_volume_that_others_could_get_is_not_made(stage, spec):
    volume = sample(resources.PERSISTENT_VOLUMES, "", marked(stage.own))
    wrong = {**volume, "spec": {**volume["spec"], **spec}}
    await refused(lambda: stage.thief.create(resources.PERSISTENT_VOLUMES, wrong, dry_run=True))


async def test_a_volume_of_forged_marks_is_kept_for_no_other_tenant(stage):
    for cluster, namespace, name in (
        ("prod", "prod", ""),
        ("prod-worker-web", "prod", "web"),
        ("", "", ""),
    ):
        forged = dataclasses.replace(stage.own, root=cluster, namespace=namespace, name=name)
        volume = sample(resources.PERSISTENT_VOLUMES, "", marked(forged))
        volume["spec"]["claimRef"]["namespace"] = f"{cluster or 'prod'}-1"
        await refused(
            lambda v=volume: stage.thief.create(resources.PERSISTENT_VOLUMES, v, dry_run=True)
        )


@pytest.mark.parametrize("length", [1, 20, 40])
async def test_volumes_of_tenants_with_long_names_are_made(stage, length):
    own = tenant("v" * length)
    volume = sample(resources.PERSISTENT_VOLUMES, "", marked(own))
    for namespace in ("a", "web", "z" * 63):
        below = names.build_super_namespace(own.root, own.uid, namespace)
        volume["spec"]["claimRef"]["namespace"] = below
        await stage.thief.create(resources.PERSISTENT_VOLUMES, volume, dry_run=True)
    without = {key: value for key, value in volume["spec"].items() if key != "nfs"}
    driven = {**volume, "spec": {**without, "csi": CSI}}
    await stage.thief.create(resources.PERSISTENT_VOLUMES, driven, dry_run=True)


async def test_of_a_volume_without_marks_only_the_reclaim_policy_is_changed(stage):
    retain = {"persistentVolumeReclaimPolicy": "Retain"}
    place = {"namespace": stage.namespace(stage.own), "name": "data", "uid": "claim-uid"}
    volume = sample(resources.PERSISTENT_VOLUMES, "", {"labels": {"zone": "a"}})
    name = fresh_name("pvc")
    volume = {
        **volume,
        "metadata": {**volume["metadata"], "name": name},
        "spec": {**volume["spec"], "claimRef": place, "persistentVolumeReclaimPolicy": "Delete"},
    }
    made = await stage.admin.create(resources.PERSISTENT_VOLUMES, volume)
    identity = {"uid": made["metadata"]["uid"]}

    async def patch(spec: object, **metadata: object) -> object:
        body = {"metadata": {**identity, **metadata}, "spec": spec}
        return await stage.thief.patch(resources.PERSISTENT_VOLUMES, name, body, dry_run=True)

    await patch(retain)
    for spec, metadata in (
        ({"persistentVolumeReclaimPolicy": "Recycle"}, {}),
        ({**retain, "capacity": {"storage": "9Ti"}}, {}),
        ({**retain, "claimRef": None}, {}),
        ({**retain, "mountOptions": ["x"]}, {}),
        (retain, {"labels": {"zone": None}}),
        (retain, {"labels": {"mine": "1"}}),
        (retain, {"annotations": {"mine": "1"}}),
        (retain, {"finalizers": []}),
    ):
        await refused(lambda s=spec, m=metadata: patch(s, **m))
    await refused(lambda: stage.thief.delete(resources.PERSISTENT_VOLUMES, name, dry_run=True))
    await stage.admin.delete(resources.PERSISTENT_VOLUMES, name)


@pytest.mark.parametrize("namespace", ["monitoring", "kube-system", "default", "shop-web", ""])
async def test_the_reclaim_policy_of_others_is_not_changed(stage, namespace):
    volume = sample(resources.PERSISTENT_VOLUMES, "", {})
    name, claim = fresh_name("pvc"), {"namespace": namespace, "name": "data", "uid": "claim-uid"}
    spec = {**volume["spec"], "claimRef": claim if namespace else None}
    body = {**volume, "metadata": {"name": name}, "spec": spec}
    made = await stage.admin.create(resources.PERSISTENT_VOLUMES, body)
    patch = {
        "metadata": {"uid": made["metadata"]["uid"]},
        "spec": {"persistentVolumeReclaimPolicy": "Delete"},
    }
    await refused(
        lambda: stage.thief.patch(resources.PERSISTENT_VOLUMES, name, patch, dry_run=True)
    )
    await stage.admin.delete(resources.PERSISTENT_VOLUMES, name)
