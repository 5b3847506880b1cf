"""Resources, memory limits and scheduling of control plane pods (T2-21)."""

import pytest

from tenancy.specs import ClusterVersionSpec, InvalidSpecError, parse_cluster_version
from tests.support.vcmanager.factories import wish
from vcmanager.plan import control_plane, service_cidrs
from vcmanager.plan.service_cidrs import ServiceRange
from vcmanager.short_form import pod_settings

SLICE = ServiceRange(service_cidrs.ip_network("10.96.8.0/22"))


def version(**spec) -> ClusterVersionSpec:
    body = {"metadata": {"name": "v"}, "spec": {"kubernetesVersion": "1.36", **spec}}
    return parse_cluster_version(body)


def pods(**spec):
    plan = control_plane.build_plan(wish(version=version(**spec), metrics="managed"), SLICE)
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in (*plan.workloads, *plan.metrics)
        if each["kind"] in ("StatefulSet", "Deployment")
    }


def container(pod):
    return pod["containers"][0]


def go_limit(pod):
    return {each["name"]: each.get("value") for each in container(pod)["env"]}.get("GOMEMLIMIT")


@pytest.mark.parametrize(
    ("name", "limit", "go"),
    [
        ("etcd", "1Gi", "921MiB"),
        ("apiserver", "2Gi", "1843MiB"),
        ("controller-manager", "1Gi", "921MiB"),
        ("coredns", "170Mi", "153MiB"),
        ("metrics-server", "100Mi", "90MiB"),
    ],
)
def test_every_component_has_a_memory_limit_and_a_go_limit_below_it(name, limit, go):
    """SEC-80."""
    pod = pods()[name]
    assert container(pod)["resources"]["limits"] == {"memory": limit}
    assert container(pod)["resources"]["requests"].keys() == {"cpu", "memory"}
    assert go_limit(pod) == go


def test_given_values_replace_the_defaults_resource_by_resource():
    pod = pods(
        resources={
            "apiServer": {"requests": {"cpu": "0.5"}, "limits": {"memory": "4096Mi", "cpu": 2}}
        }
    )["apiserver"]
    assert container(pod)["resources"] == {
        # As the API server stores them. Any other form would be written at each reconcile.
        "requests": {"cpu": "500m", "memory": "192Mi"},
        "limits": {"memory": "4Gi", "cpu": "2"},
    }
    assert go_limit(pod) == "3686MiB"


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("2048Mi", "2Gi"),
        ("1.5Gi", "1536Mi"),
        ("1G", "1G"),
        ("1000M", "1G"),
        ("1e3", "1k"),
        (2, "2"),
    ],
)
def test_quantities_are_written_as_the_api_server_stores_them(given, stored):
    pod = pods(resources={"etcd": {"limits": {"ephemeral-storage": given}}})["etcd"]
    assert container(pod)["resources"]["limits"] == {"ephemeral-storage": stored}


def test_an_empty_map_means_no_limit():
    pod = pods(resources={"etcd": {"limits": {}}})["etcd"]
    assert "limits" not in container(pod)["resources"]
    assert go_limit(pod) is None


def test_a_limit_below_a_default_request_lowers_the_request():
    pod = pods(resources={"apiServer": {"limits": {"memory": "128Mi"}}})["apiserver"]
    assert container(pod)["resources"]["requests"]["memory"] == "128Mi"


def test_a_request_above_the_default_limit_raises_the_limit():
    pod = pods(resources={"dns": {"requests": {"memory": "1Gi"}}})["coredns"]
    assert container(pod)["resources"]["limits"] == {"memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "told"),
    [
        ({"etcd": {"limits": {"memory": "much"}}}, "resources.etcd.limits.memory: 'much' is not"),
        ({"dns": {"requests": {"cpu": "-1"}}}, "resources.dns.requests.cpu"),
        (
            {"etcd": {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}},
            r"resources.etcd: the request for memory \(2Gi\) is above its limit \(1Gi\)",
        ),
    ],
)
def test_resources_that_cannot_be_meant_are_refused_with_their_field(resources, told):
    with pytest.raises(InvalidSpecError, match=told):
        pod_settings.build_pod_values("v1", version(resources=resources), "")


def test_scheduling_fields_are_on_every_pod():
    tolerations = [{"key": "pool", "operator": "Exists"}]
    found = pods(
        nodeSelector={"pool": "control"},
        tolerations=tolerations,
        priorityClassName="high",
        imagePullSecrets=[{"name": "registry"}],
    )
    assert len(found) == 5
    for pod in found.values():
        assert pod["nodeSelector"] == {"pool": "control"}
        assert pod["tolerations"] == tolerations
        assert pod["priorityClassName"] == "high"
        assert pod["imagePullSecrets"] == [{"name": "pull-registry"}]


def test_without_them_no_pod_has_one():
    for pod in pods().values():
        assert not {"nodeSelector", "tolerations", "priorityClassName", "imagePullSecrets"} & set(
            pod
        )


def test_the_class_of_the_installation_is_the_default():
    values = pod_settings.build_pod_values("v1", version(), "control-plane")
    assert values["pod_fields"] == {"priorityClassName": "control-plane"}


def test_service_annotations_are_on_the_service_of_the_api_server_alone():
    given = version(serviceAnnotations={"example.com/lb": "internal"})
    plan = control_plane.build_plan(wish(version=given), SLICE)
    found = {
        each["metadata"]["name"]: each["metadata"].get("annotations") for each in plan.services
    }
    assert found == {
        "apiserver-svc": {"example.com/lb": "internal"},
        "etcd": None,
        "etcd-client": None,
    }
