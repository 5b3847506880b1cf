"""Writes to a root namespace while the change of the control plane waits for its rollout."""

import copy
from types import SimpleNamespace

import pytest

from tenancy import wellknown
from tests.support.vcmanager.factories import TENANT, RecordingClient, fake_means, wish
from vcmanager.phases.owned_objects import OwnedObjects
from vcmanager.runtime import object_metadata
from vcmanager.runtime.observed import ObservedObjects


def manifest(kind, name, **fields):
    api = "apps/v1" if kind == "StatefulSet" else "v1"
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **fields}


def workload(image):
    container = {"name": "etcd", "image": image}
    volumes = [
        {"name": "certificate", "secret": {"secretName": "etcd-ca"}},
        {"name": "config", "configMap": {"name": "config"}},
    ]
    pod = {"containers": [container], "volumes": volumes}
    return manifest("StatefulSet", "etcd", spec={"replicas": 1, "template": {"spec": pod}})


def certificate(value):
    return manifest("Secret", "etcd-ca", data={"tls.crt": value})


def setting(value):
    return manifest("ConfigMap", "config", data={"a": value})


TRUST = manifest("ConfigMap", "trust", data={})
ROOTS = SimpleNamespace(list_immutable=list)


def observed(**missing):
    """Return what an earlier reconcile wrote."""
    contents = {
        **object_metadata.digest_contents([certificate("old")], "Secret"),
        **object_metadata.digest_contents([setting("old")], "ConfigMap"),
    }
    live = {
        "StatefulSet": {"etcd": workload("etcd:1")},
        "Secret": {"etcd-ca": certificate("old"), "unwanted": manifest("Secret", "unwanted")},
        "ConfigMap": {"config": setting("old")},
    }
    made = {
        kind: {
            name: object_metadata.add_metadata(copy.deepcopy(each), TENANT, contents)
            for name, each in listed.items()
            if name not in missing.get(kind, ())
        }
        for kind, listed in live.items()
    }
    for each in made["StatefulSet"].values():
        each["metadata"]["uid"] = "u"
    for each in made["Secret"].values():
        each["metadata"]["uid"] = "u"
    return ObservedObjects(namespace=None, objects=made)


async def write(snapshot, *, is_held, value="old"):
    super_client = RecordingClient()
    objects = OwnedObjects(fake_means(super_client), wish(), snapshot)
    objects.is_held = is_held
    made = (workload("etcd:2"), setting("new"))
    plan = SimpleNamespace(workloads=made, has_member_config=False)
    material = SimpleNamespace(secrets=(certificate(value),), trust=TRUST, validities={})
    await objects.write_mounted(plan, material, ROOTS)
    await objects.write_workloads(plan)
    await objects.delete_unwanted()
    return super_client


async def test_an_admitted_change_is_written_and_the_rest_deleted():
    super_client = await write(observed(), is_held=False)
    assert {("apply", "etcd"), ("apply", "config"), ("delete", "unwanted")} <= {*super_client.calls}


async def test_a_held_change_leaves_workloads_settings_and_what_they_may_mount():
    super_client = await write(observed(), is_held=True)
    touched = {name for _, name in super_client.calls}
    assert touched.isdisjoint({"etcd", "config", "unwanted", "etcd-ca"})


async def test_a_renewed_certificate_recreates_the_pods_of_the_old_template():
    super_client = await write(observed(), is_held=True, value="new")
    assert ("apply", "etcd-ca") in super_client.calls
    (patch,) = [
        body
        for call, body in zip(super_client.calls, super_client.bodies, strict=True)
        if call == ("patch", "etcd")
    ]
    assert patch["metadata"] == {"uid": "u"}
    assert set(patch["spec"]) == {"template"}
    assert set(patch["spec"]["template"]["metadata"]["annotations"]) == {wellknown.SECRETS_DIGEST}


@pytest.mark.parametrize("value", ["old", "new"])
async def test_a_missing_workload_is_created_although_the_change_is_held(value):
    super_client = await write(observed(StatefulSet={"etcd"}), is_held=True, value=value)
    assert ("apply", "etcd") in super_client.calls
    assert ("patch", "etcd") not in super_client.calls
