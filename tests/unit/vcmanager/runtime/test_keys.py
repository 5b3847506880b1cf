from tenancy import ownership
from tests.support.vcmanager.factories import TENANT
from vcmanager.runtime import keys
from vcmanager.runtime.keys import Key


def test_an_object_in_a_root_namespace_wakes_its_virtual_cluster():
    metadata = {"labels": ownership.labels(TENANT, "")}
    assert keys.parent_of(metadata) == Key("VirtualCluster", "default", "vc-1")


def test_an_object_of_nobody_wakes_nobody():
    assert keys.parent_of({}) is None
    assert keys.parent_of({"labels": {"tenancy.x-k8s.io/vcname": "x"}}) is None


def test_each_tenant_is_a_group_and_the_rest_share_one_per_kind():
    assert keys.virtual_cluster("a", "b").group == "a/b"
    assert Key("ClusterVersion", "", "x").group == Key("ClusterVersion", "", "y").group


def test_logs_call_it_by_kind_and_name():
    assert keys.virtual_cluster("a", "b").fields() == {
        "kind": "VirtualCluster",
        "namespace": "a",
        "name": "b",
    }
    assert "namespace" not in Key("ClusterVersion", "", "x").fields()
