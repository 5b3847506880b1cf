"""Typed views: both shapes of a ClusterVersion, defaults, and errors that name the field."""

import pytest

from tenancy import specs

METADATA = {"name": "vc-1", "namespace": "default", "uid": "d64ea0c0-91f8-46f5-8643-c0cab32ab0cd"}
BUNDLE = {"metadata": {"name": "etcd"}, "statefulset": {"kind": "StatefulSet"}}


def cluster_version(**spec: object) -> specs.ClusterVersionSpec:
    return specs.parse_cluster_version({"metadata": {"name": "cv"}, "spec": spec})


def test_a_virtual_cluster_has_its_defaults_and_its_computed_key():
    found = specs.parse_virtual_cluster(
        {"metadata": METADATA, "spec": {"clusterVersionName": "v1.36"}, "status": {}}
    )
    assert found.tenant.root == "default-fd1b34-vc-1"
    assert (found.spec.cluster_domain, found.spec.pki_expire_days) == ("cluster.local", 90)
    assert not found.deleting


def test_the_key_is_never_read_from_the_status():
    found = specs.parse_virtual_cluster(
        {
            "metadata": METADATA,
            "spec": {"clusterVersionName": "v1.36"},
            "status": {"clusterNamespace": "kube"},
        }
    )
    assert found.tenant.root == "default-fd1b34-vc-1"


def test_a_wrong_type_names_object_and_field():
    with pytest.raises(specs.InvalidSpecError, match=r"VirtualCluster default/vc-1.*pkiExpireDays"):
        specs.parse_virtual_cluster(
            {"metadata": METADATA, "spec": {"clusterVersionName": "v", "pkiExpireDays": "many"}}
        )


def test_the_short_form_has_its_defaults():
    found = cluster_version(kubernetesVersion="1.36")
    assert (found.replicas, found.service_type, found.etcd_storage.size) == (1, "NodePort", "2Gi")
    assert not found.is_bundled


def test_bundles_keep_fields_no_one_knows():
    found = cluster_version(
        etcd={**BUNDLE, "statefulset": {"kind": "StatefulSet", "brandNew": 1}}, apiServer=BUNDLE
    )
    assert found.is_bundled
    assert found.etcd is not None
    assert found.etcd.statefulset["brandNew"] == 1


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"kubernetesVersion": "1.36", "etcd": BUNDLE, "apiServer": BUNDLE}, "has both"),
        ({"etcd": BUNDLE}, "lacks the bundle apiServer"),
        ({"apiServer": BUNDLE}, "lacks the bundle etcd"),
        ({}, "has no kubernetesVersion"),
    ],
)
def test_a_shape_that_is_neither_is_refused(spec: dict[str, object], sentence: str):
    with pytest.raises(specs.InvalidSpecError, match=sentence):
        cluster_version(**spec)
