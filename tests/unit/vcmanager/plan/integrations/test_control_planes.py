"""Contract of a control plane of Cluster API."""

import pytest

from tenancy import wellknown
from vcmanager.plan.integrations import control_planes

OWNER = {
    "apiVersion": "cluster.x-k8s.io/v1beta2",
    "kind": "Cluster",
    "name": "shop",
    "uid": "cluster-uid",
}


def body(owners=(OWNER,), annotations=None, status=None, **spec):
    metadata = {
        "name": "shop-cp",
        "namespace": "default",
        "uid": "cp-uid",
        "generation": 3,
        "ownerReferences": list(owners),
        "annotations": annotations or {},
    }
    return {"metadata": metadata, "spec": {"version": "v1.36.4", **spec}, "status": status or {}}


def tenant(*conditions, **status):
    listed = [
        {"type": kind, "status": value, "reason": reason, "message": "m"}
        for kind, value, reason in conditions
    ]
    return {"metadata": {}, "status": {"conditions": listed, **status}}


def built(source, virtual_cluster, refusal=None, *, paused=False):
    return control_planes.build_status(
        source, virtual_cluster, refusal=refusal, paused=paused, now="2026-03-01T12:00:00Z"
    )


def states(status):
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


@pytest.mark.parametrize(
    "owner",
    [
        {**OWNER, "kind": "ClusterClass"},
        {**OWNER, "apiVersion": "example.com/v1beta2"},
        {**OWNER, "apiVersion": "cluster.x-k8s.io/../../v1"},
    ],
)
def test_only_a_cluster_of_cluster_api_is_the_owner(owner):
    assert control_planes.find_cluster(body(owners=[owner])) is None
    found = control_planes.find_cluster(body(owners=[owner, OWNER]))
    assert found is not None
    assert (found.name, found.uid, found.resource.version) == ("shop", "cluster-uid", "v1beta2")


@pytest.mark.parametrize(
    ("annotations", "cluster", "paused"),
    [
        ({}, None, False),
        ({}, {"spec": {}}, False),
        ({}, {"spec": {"paused": True}}, True),
        ({"cluster.x-k8s.io/paused": ""}, None, True),
    ],
)
def test_either_of_two_may_pause(annotations, cluster, paused):
    assert control_planes.is_paused(body(annotations=annotations), cluster) is paused


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({"version": "v1.36.4"}, "v1.36"),
        ({"version": "1.36.4"}, "v1.36"),
        ({"version": "v1.37.0-rc.1"}, "v1.37"),
        ({"version": "v1.36.4", "clusterVersionName": "gold"}, "gold"),
        ({"version": "latest"}, ""),
    ],
)
def test_the_minor_selects_the_cluster_version(spec, name):
    assert control_planes.choose_cluster_version(spec) == name


def test_the_tenant_has_the_name_of_the_cluster_and_one_controller():
    source = body(policyRef={"name": "restricted"})
    owner = control_planes.find_cluster(source)
    assert owner is not None
    made = control_planes.build_virtual_cluster(source, owner)
    assert made["metadata"]["name"] == "shop"
    assert made["spec"]["policyRef"] == {"name": "restricted"}
    assert "endpoint" not in made["spec"]
    assert control_planes.is_owned(made, "cp-uid")
    assert not control_planes.is_owned(made, "another")


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("https://192.0.2.1:31000", {"host": "192.0.2.1", "port": 31000}),
        ("https://shop.example.com", {"host": "shop.example.com", "port": 443}),
        ("https://[2001:db8::1]:6443", {"host": "2001:db8::1", "port": 6443}),
        ("", None),
    ],
)
def test_the_endpoint_is_host_and_port(url, endpoint):
    assert control_planes.parse_endpoint(url) == endpoint


def test_initialized_needs_the_secret_and_stays():
    ready = (wellknown.READY, "True", "TenantControlPlaneRunning")
    missing = (wellknown.KUBECONFIG_SECRETS_READY, "False", "NamespaceNotEnabled")
    written = (wellknown.KUBECONFIG_SECRETS_READY, "True", "Written")
    made = built(body(), tenant(ready, missing))
    assert made["initialization"] == {"controlPlaneInitialized": False}
    assert states(made)["Available"] == ("False", "NamespaceNotEnabled")
    made = built(body(), tenant(ready, written, version="1.36.4"))
    assert made["initialization"] == {"controlPlaneInitialized": True}
    assert (made["version"], made["versions"]) == ("v1.36.4", [{"version": "v1.36.4"}])
    later = built(body(status=made), tenant((wellknown.READY, "False", "Asleep")))
    assert later["initialization"] == {"controlPlaneInitialized": True}
    assert states(later)["Available"] == ("False", "Asleep")
    assert later["version"] == "v1.36.4"


def test_a_rollout_and_a_pause_are_reported():
    late = (wellknown.CONTROL_PLANE_UP_TO_DATE, "False", "WaitingForRollout")
    made = built(body(), tenant((wellknown.READY, "True", "Running"), late), paused=True)
    found = states(made)
    assert found["RollingOut"] == ("True", "WaitingForRollout")
    assert found["Paused"] == ("True", "Paused")
    assert found["Available"][0] == "True"


def test_a_refusal_is_stalled_while_the_tenant_runs_on():
    ready = (wellknown.READY, "True", "TenantControlPlaneRunning")
    found = states(built(body(), tenant(ready), ("VirtualClusterRefused", "m")))
    assert found["Available"][0] == "True"
    assert found["Stalled"] == ("True", "VirtualClusterRefused")
    found = states(built(body(), None, ("VirtualClusterTaken", "m")))
    assert found["Available"] == ("False", "VirtualClusterTaken")
