from tenancy import ownership
from tests.support.vcmanager.factories import TENANT
from vcmanager.runtime import keys
from vcmanager.runtime.keys import ReconcileKey


def test_an_object_in_a_root_namespace_enqueues_its_virtual_cluster():
    metadata = {"labels": ownership.build_owner_labels(TENANT, "")}
    assert keys.get_owner_key(metadata) == ReconcileKey("VirtualCluster", "default", "vc-1")


def test_an_object_without_an_owner_enqueues_nothing():
    assert keys.get_owner_key({}) is None
    assert keys.get_owner_key({"labels": {"tenancy.x-k8s.io/vcname": "x"}}) is None


def test_each_tenant_is_a_group_and_the_rest_share_one_per_kind():
    assert keys.build_virtual_cluster_key("a", "b").group == "a/b"
    assert keys.build_content_key("a", "b").group == "a/b"
    assert (
        ReconcileKey("ClusterVersion", "", "x").group
        == ReconcileKey("ClusterVersion", "", "y").group
    )


def test_logs_call_it_by_kind_and_name():
    assert keys.build_virtual_cluster_key("a", "b").build_log_fields() == {
        "kind": "VirtualCluster",
        "namespace": "a",
        "name": "b",
    }
    assert "namespace" not in ReconcileKey("ClusterVersion", "", "x").build_log_fields()
