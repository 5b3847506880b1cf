from ipaddress import ip_network

import pytest

from kubeio import errors
from tenancy.specs import VirtualCluster
from tests.support.vcmanager.factories import TENANT, RecordingClient, fake_means, wish
from vcmanager.phases import validation
from vcmanager.runtime.blocked import PhaseBlocked

BODY = {
    "apiVersion": "tenancy.x-k8s.io/v1alpha1",
    "kind": "VirtualCluster",
    "metadata": {"name": "vc-1", "namespace": "default", "uid": TENANT.uid},
    "spec": {"clusterVersionName": "v1.36"},
}
VERSION = {
    "apiVersion": "tenancy.x-k8s.io/v1alpha1",
    "kind": "ClusterVersion",
    "metadata": {"name": "v1.36"},
    "spec": {"kubernetesVersion": "1.36"},
}


def cluster(**spec) -> VirtualCluster:
    return validation.parse_cluster({**BODY, "spec": {**BODY["spec"], **spec}})


def blocked(raised) -> tuple[str, bool]:
    return raised.value.reason, raised.value.needs_admin


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({**BODY, "spec": {}}, "InvalidSpec"),
        ({**BODY, "spec": {"clusterVersionName": 7}}, "InvalidSpec"),
        ({**BODY, "metadata": {**BODY["metadata"], "name": "VC_1"}}, "InvalidName"),
    ],
    ids=["no version", "a wrong type", "a wrong name"],
)
def test_object_that_is_no_virtual_cluster_is_refused(body, reason):
    with pytest.raises(PhaseBlocked) as raised:
        validation.parse_cluster(body)
    assert blocked(raised) == (reason, True)


async def test_plan_input_has_the_version_and_the_spec():
    means = fake_means(RecordingClient({"v1.36": VERSION}))
    found = await validation.fetch_plan_input(means, cluster(), is_new=True)
    assert (found.version_name, found.version.kubernetes_version) == ("v1.36", "1.36")
    assert (found.tenant.root, found.is_new) == (TENANT.root, True)


@pytest.mark.parametrize(
    ("listed", "text"),
    [
        ([{"metadata": {"name": "v1.36"}}, {"metadata": {"name": "v1.35"}}], "v1.35, v1.36"),
        ([], "Create a ClusterVersion first"),
    ],
    ids=["others exist", "none exists"],
)
async def test_missing_version_names_the_existing_ones(listed, text):
    client = RecordingClient()
    client.listed = listed
    with pytest.raises(PhaseBlocked) as raised:
        await validation.fetch_plan_input(fake_means(client), cluster(), is_new=True)
    assert blocked(raised) == ("ClusterVersionNotFound", True)
    assert text in str(raised.value)


async def test_invalid_version_is_refused():
    broken = {**VERSION, "spec": {"kubernetesVersion": 1.36}}
    means = fake_means(RecordingClient({"v1.36": broken}))
    with pytest.raises(PhaseBlocked) as raised:
        await validation.fetch_plan_input(means, cluster(), is_new=True)
    assert blocked(raised) == ("InvalidClusterVersion", True)


async def test_service_range_is_that_of_the_super_cluster():
    client = RecordingClient({"kubernetes": {"spec": {"cidrs": ["10.96.0.0/16", "fd00::/108"]}}})
    assert await validation.fetch_super_range(fake_means(client)) == ip_network("10.96.0.0/16")


@pytest.mark.parametrize(
    "objects", [{}, {"kubernetes": {"spec": {"cidrs": []}}}], ids=["not there", "empty"]
)
async def test_super_cluster_without_a_service_range_is_refused(objects):
    with pytest.raises(PhaseBlocked) as raised:
        await validation.fetch_super_range(fake_means(RecordingClient(objects)))
    assert blocked(raised) == ("NoServiceRange", True)


@pytest.mark.parametrize(
    ("whole", "requested", "reason"),
    [
        ("10.96.0.0/16", "", None),
        ("10.96.0.0/16", "10.96.8.0/22", None),
        ("10.96.0.0/16", "10.112.0.0/22", "InvalidServiceCidr"),
        ("10.96.0.0/30", "", "InvalidServiceCidr"),
    ],
    ids=["any range", "a free range", "a range of elsewhere", "too small"],
)
def test_plan_is_possible_with_a_service_range(whole, requested, reason):
    wanted = wish(service_cidr=requested)
    if reason is None:
        validation.check_plan(wanted, ip_network(whole))
        return
    with pytest.raises(PhaseBlocked) as raised:
        validation.check_plan(wanted, ip_network(whole))
    assert blocked(raised) == (reason, True)


async def test_version_without_templates_needs_no_dry_run():
    client = RecordingClient()
    client.problems["create", "vc-1-etcd"] = errors.Invalid("no", status=422)
    await validation.dry_run_bundles(fake_means(client), wish())
    assert client.calls == []
