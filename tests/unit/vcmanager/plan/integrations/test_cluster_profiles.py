"""Contents of a ClusterProfile."""

import yaml

from tests.support.vcmanager.factories import TENANT, UID
from vcmanager.pki import bundles
from vcmanager.pki.authority import KeyPair
from vcmanager.plan.integrations import cluster_profiles

DOCUMENT = bundles.build_kubeconfig(
    KeyPair(b"certificate", b"secret"),
    cluster="vc-1",
    user="admin",
    server="https://192.0.2.1:31000",
    authority=b"authority",
    server_name="apiserver-svc.root",
)


def body(**status):
    return {"spec": {"clusterVersionName": "v1.36"}, "status": status}


def built(source, kubeconfig=None, old=None):
    return cluster_profiles.build_status(
        source, TENANT, kubeconfig, generation=2, now="2026-03-01T12:00:00Z", old=old or {}
    )


def test_a_profile_belongs_to_its_virtual_cluster():
    made = cluster_profiles.build_profile(TENANT, "fleet")
    assert cluster_profiles.is_own(made, TENANT)
    assert cluster_profiles.get_cluster_manager(made) == "fleet"
    assert made["metadata"]["labels"] == {"x-k8s.io/cluster-manager": "fleet"}
    owner = {**made["metadata"]["ownerReferences"][0], "uid": "another"}
    metadata = {**made["metadata"], "ownerReferences": [owner]}
    assert not cluster_profiles.is_own({**made, "metadata": metadata}, TENANT)
    assert not cluster_profiles.is_own({"metadata": {}}, TENANT)


def test_health_repeats_ready_and_keeps_its_time():
    ready = {"type": "Ready", "status": "False", "reason": "Asleep", "message": "It sleeps."}
    (made,) = built(body(conditions=[ready]))["conditions"]
    assert (made["type"], made["status"], made["reason"]) == (
        "ControlPlaneHealthy",
        "False",
        "Asleep",
    )
    before = {**made, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    (again,) = built(body(conditions=[ready]), old={"conditions": [before]})["conditions"]
    assert again["lastTransitionTime"] == "2026-01-01T00:00:00Z"


def test_a_tenant_without_a_status_is_unknown():
    made = built({"spec": {}})
    assert made["conditions"][0]["status"] == "Unknown"
    assert made.keys() == {"conditions"}


def test_the_access_provider_names_the_secret_and_has_no_key():
    made = built(body(version="1.36.4"), DOCUMENT)
    assert made["version"] == {"kubernetes": "1.36.4"}
    (provider,) = made["accessProviders"]
    cluster = provider["cluster"]
    assert cluster["server"] == "https://192.0.2.1:31000"
    assert cluster["tls-server-name"] == "apiserver-svc.root"
    (extension,) = cluster["extensions"]
    assert extension["name"] == "client.authentication.k8s.io/exec"
    assert extension["extension"]["namespace"] == TENANT.root
    text = yaml.safe_dump(made)
    assert bundles.encode_base64(b"secret") not in text
    assert UID not in text
