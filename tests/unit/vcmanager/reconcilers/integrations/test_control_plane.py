"""Faults around a control plane of Cluster API. The usual way is in the integration test."""

import pytest

from kubeio import errors
from kubeio.controller.worker import Done, RequeueAfter
from tenancy import wellknown
from tests.support.vcmanager.factories import RecordingClient, fake_means
from vcmanager.reconcilers.integrations.control_plane import reconcile_control_plane
from vcmanager.runtime import keys

KEY = keys.build_control_plane_key("default", "cp")
OWNER = {
    "apiVersion": "cluster.x-k8s.io/v1beta2",
    "kind": "Cluster",
    "name": "shop",
    "uid": "cluster-uid",
}


class ObjectsByKind(RecordingClient):
    """Knows objects by plural."""

    def __init__(self, **objects):
        super().__init__()
        self.by_plural = objects

    async def get(self, resource, name, **_):
        self._fail("get", name)
        if resource.plural not in self.by_plural:
            raise errors.NotFound(f"there is no {name}")
        return self.by_plural[resource.plural]

    async def patch(self, _resource, name, body, **_):
        self._write("patch", name, body)
        return {"metadata": {"generation": 5}}


def control_plane(owners=(OWNER,), **metadata):
    return {
        "metadata": {
            "name": "cp",
            "namespace": "default",
            "uid": "cp-uid",
            "resourceVersion": "1",
            "finalizers": [wellknown.FINALIZER],
            "ownerReferences": list(owners),
            **metadata,
        },
        "spec": {"version": "v1.36.4"},
    }


def tenant(**metadata):
    owner = {"uid": "cp-uid", "controller": True, "kind": "VirtualClusterControlPlane"}
    head = {"name": "shop", "namespace": "default", "uid": "vc-uid", "ownerReferences": [owner]}
    return {"metadata": {**head, **metadata}, "spec": {}}


DELETED = {"deletionTimestamp": "2026-03-01T12:00:00Z"}


async def reconcile(client):
    return await reconcile_control_plane(fake_means(client), KEY)


async def test_without_its_owner_nothing_is_written():
    client = ObjectsByKind(virtualclustercontrolplanes=control_plane(owners=()))
    assert isinstance(await reconcile(client), Done)
    assert client.calls == []


async def test_a_deleted_one_without_an_owner_is_released():
    client = ObjectsByKind(virtualclustercontrolplanes=control_plane(owners=(), **DELETED))
    await reconcile(client)
    assert client.bodies[0]["metadata"]["finalizers"] == []


async def test_a_cluster_of_the_same_name_does_not_pause_it():
    other = {"metadata": {"uid": "a-new-one"}, "spec": {"paused": True}}
    client = ObjectsByKind(virtualclustercontrolplanes=control_plane(), clusters=other)
    await reconcile(client)
    assert ("apply", "shop") in client.calls


async def test_the_finalizer_stays_until_the_tenant_is_deleted():
    source = control_plane(**DELETED)
    client = ObjectsByKind(virtualclustercontrolplanes=source, virtualclusters=tenant())
    assert isinstance(await reconcile(client), RequeueAfter)
    assert client.calls[0] == ("delete", "shop")
    client = ObjectsByKind(virtualclustercontrolplanes=source, virtualclusters=tenant(**DELETED))
    await reconcile(client)
    assert ("delete", "shop") not in client.calls
    assert all("finalizers" not in body["metadata"] for body in client.bodies)
    client = ObjectsByKind(virtualclustercontrolplanes=source)
    assert isinstance(await reconcile(client), Done)
    assert client.bodies[0]["metadata"]["finalizers"] == []


async def test_the_end_does_not_touch_a_tenant_of_another_owner():
    foreign = tenant(ownerReferences=[])
    client = ObjectsByKind(
        virtualclustercontrolplanes=control_plane(**DELETED), virtualclusters=foreign
    )
    await reconcile(client)
    assert ("delete", "shop") not in client.calls


@pytest.mark.parametrize("problem", [errors.Invalid, errors.Forbidden])
async def test_a_refused_tenant_is_a_condition(problem):
    client = ObjectsByKind(virtualclustercontrolplanes=control_plane())
    client.problems["apply", "shop"] = problem("the name is too long")
    assert isinstance(await reconcile(client), RequeueAfter)
    listed = client.bodies[-1]["status"]["conditions"]
    assert {each["type"] for each in listed} >= {"Stalled", "Available"}


@pytest.mark.parametrize(
    ("spec", "is_applied"),
    [
        ({"kubeconfigSecrets": ["ClusterAPI"]}, False),
        ({"kubeconfigSecrets": ["ArgoCD", "ClusterAPI"], "dns": "none"}, False),
        ({"kubeconfigSecrets": ["ArgoCD"]}, True),
        ({"kubeconfigSecrets": ["ClusterAPI"], "clusterVersionName": "v1.35"}, True),
    ],
)
async def test_only_a_difference_is_applied(spec, is_applied):
    found = {
        "metadata": {**tenant()["metadata"], "labels": {"cluster.x-k8s.io/cluster-name": "shop"}},
        "spec": {"clusterVersionName": "v1.36", **spec},
    }
    owner = found["metadata"]["ownerReferences"][0]
    owner |= {"apiVersion": "controlplane.cluster.x-k8s.io/v1alpha1", "name": "cp"}
    client = ObjectsByKind(virtualclustercontrolplanes=control_plane(), virtualclusters=found)
    await reconcile(client)
    assert (("apply", "shop") in client.calls) is is_applied
