import copy
from ipaddress import ip_network

import pytest
import yaml

from clusterversions import catalog
from tenancy.specs import ClusterVersionSpec
from tests.support.vcmanager.factories import bundled, wish
from vcmanager.phases.etcd import etcd_members
from vcmanager.plan import control_plane
from vcmanager.plan.service_cidrs import ServiceRange
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.observed import ObservedObjects

SLICE = ServiceRange(ip_network("10.96.8.0/22"))


def short(replicas):
    version = ClusterVersionSpec(kubernetes_version="1.36", replicas=replicas)
    return control_plane.build_plan(wish(version=version), SLICE)


def whole(replicas):
    sample = yaml.safe_load(catalog.read_sample("upstream-shape"))
    sample["spec"]["etcd"]["statefulset"]["spec"]["replicas"] = replicas
    return control_plane.build_plan(bundled(sample), SLICE)


def live(plan, **spec):
    """Return what is there when a plan was carried out, and then changed by hand."""
    found = copy.deepcopy(next(e for e in plan.workloads if e["metadata"]["name"] == "etcd"))
    found["spec"] |= spec
    return ObservedObjects(namespace=None, objects={"StatefulSet": {"etcd": found}})


@pytest.mark.parametrize("made", [short, whole])
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1)])
def test_another_number_of_members_is_refused_with_a_way_out(made, before, after):
    with pytest.raises(
        PhaseBlocked, match="cannot change, because that would split its etcd"
    ) as caught:
        etcd_members.check_replicas(made(after), live(made(before)), "mine")
    held = caught.value
    assert (held.reason, held.needs_admin, held.retry_after) == ("EtcdReplicasChanged", True, 60)
    assert (
        f"asks for {after} etcd members, but this tenant was created with {before}" in held.message
    )
    assert "ClusterVersion mine" in held.message


def test_a_bundle_is_compared_with_a_short_form():
    with pytest.raises(PhaseBlocked):
        etcd_members.check_replicas(whole(1), live(short(3)), "mine")
    etcd_members.check_replicas(whole(3), live(short(3)), "mine")


@pytest.mark.parametrize("made", [short, whole])
@pytest.mark.parametrize("scaled", [0, 3])
def test_a_store_that_was_scaled_by_hand_is_put_back(made, scaled):
    etcd_members.check_replicas(made(1), live(made(1), replicas=scaled), "mine")


def test_a_new_tenant_has_any_number():
    etcd_members.check_replicas(short(3), ObservedObjects(namespace=None), "mine")


def test_a_store_that_was_told_nothing_has_its_pods_for_members():
    found = live(short(1), replicas=3)
    container = found.get("StatefulSet", "etcd")["spec"]["template"]["spec"]["containers"][0]
    container["args"] = ["--name", "x"]
    with pytest.raises(PhaseBlocked, match="was created with 3"):
        etcd_members.check_replicas(short(1), found, "mine")
