"""Forms of the kubeconfig Secret."""

import base64
import json

import pytest

from tests.support.vcmanager.factories import TENANT, UID
from vcmanager.pki import bundles
from vcmanager.pki.authority import KeyPair
from vcmanager.plan.access import tool_secrets
from vcmanager.plan.pki_secrets import ApiAddress

PAIR = KeyPair(b"certificate", b"key")
ADDRESS = ApiAddress(server="https://192.0.2.1:31000", server_name="apiserver-svc.root")
DOCUMENT = bundles.build_kubeconfig(
    PAIR, cluster="vc-1", user="admin", server=ADDRESS.server, authority=b"authority"
)
PARTS = tool_secrets.KubeconfigParts(document=DOCUMENT, address=ADDRESS, authority=b"authority")


def data(secret):
    return {key: base64.b64decode(value) for key, value in secret["data"].items()}


def test_the_form_of_cluster_api():
    made = tool_secrets.build_secret(TENANT, "ClusterAPI", PARTS)
    assert made["metadata"]["name"] == "vc-1-kubeconfig"
    assert made["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == "vc-1"
    assert made["type"] == "cluster.x-k8s.io/secret"
    assert data(made) == {"value": DOCUMENT}


def test_the_form_of_argo_cd():
    made = tool_secrets.build_secret(TENANT, "ArgoCD", PARTS)
    assert made["metadata"]["name"] == "vc-1-argocd-cluster"
    assert made["metadata"]["labels"]["argocd.argoproj.io/secret-type"] == "cluster"
    found = data(made)
    assert (found["name"], found["server"]) == (b"default.vc-1", ADDRESS.server.encode())
    tls = json.loads(found["config"])["tlsClientConfig"]
    assert (tls["insecure"], tls["serverName"]) == (False, "apiserver-svc.root")
    decoded = [base64.b64decode(tls[key]) for key in ("caData", "certData", "keyData")]
    assert decoded == [b"authority", PAIR.certificate, PAIR.key]


@pytest.mark.parametrize("form", tool_secrets.SUFFIXES)
def test_a_secret_belongs_to_its_virtual_cluster(form):
    made = tool_secrets.build_secret(TENANT, form, PARTS)
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("VirtualCluster", "vc-1", UID)
    assert made["metadata"]["namespace"] == "default"
    assert tool_secrets.is_own(made, TENANT)
    for key in ("labels", "ownerReferences"):
        metadata = {**made["metadata"], key: None}
        assert not tool_secrets.is_own({**made, "metadata": metadata}, TENANT)
    twice = {**made["metadata"], "ownerReferences": [owner, {**owner, "uid": "other"}]}
    assert not tool_secrets.is_own({**made, "metadata": twice}, TENANT)
