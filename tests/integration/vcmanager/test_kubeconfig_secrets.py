"""The admin kubeconfig beside a VirtualCluster, and a host name of the user's own."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
import yaml
from cryptography import x509

from kubeio import Object, errors
from tenancy import resources, wellknown
from tests.integration.vcmanager.conftest import ManagerStage
from tests.support.eventually import eventually
from tests.support.names import fresh_name

HOST = "shop.example.com"
PLAIN = {
    "issuer": {"url": "http://a.example.com", "audiences": ["a"]},
    "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
}


async def set_spec(stage: ManagerStage, cluster: Object, **spec: Any) -> None:
    """Change the spec and reconcile."""
    metadata = cluster["metadata"]
    await stage.admin.patch(
        resources.VIRTUAL_CLUSTERS,
        metadata["name"],
        {"spec": spec},
        namespace=metadata["namespace"],
    )
    await stage.work(cluster, 2)


async def fetch(stage: ManagerStage, name: str) -> dict[str, bytes] | None:
    """Return the data of a Secret in namespace default, or None."""
    try:
        found = await stage.admin.get(resources.SECRETS, name, namespace="default")
    except errors.NotFound:
        return None
    return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}


async def allow(stage: ManagerStage, value: str | None) -> None:
    labels = {"metadata": {"labels": {wellknown.KUBECONFIG_SECRETS: value}}}
    await stage.admin.patch(resources.NAMESPACES, "default", labels)


@pytest.fixture
async def cluster(stage: ManagerStage) -> Object:
    made = await stage.declare(fresh_name("shop"))
    await stage.bring_up(made)
    return made


async def test_secrets_for_tools_live_and_end_with_the_tenant(stage: ManagerStage, cluster: Object):
    name = cluster["metadata"]["name"]
    capi, argo = f"{name}-kubeconfig", f"{name}-argocd-cluster"
    assert await stage.condition(cluster, wellknown.KUBECONFIG_SECRETS_READY) is None

    await set_spec(stage, cluster, kubeconfigSecrets=["ClusterAPI", "ArgoCD"])
    found = await stage.condition(cluster, wellknown.KUBECONFIG_SECRETS_READY) or {}
    assert found["reason"] == "NamespaceNotEnabled"
    assert (await fetch(stage, capi), await fetch(stage, argo)) == (None, None)

    await allow(stage, "enabled")
    await stage.work(cluster)
    admin = await stage.secret(cluster, "admin-kubeconfig")
    document = base64.b64decode(admin["data"]["admin-kubeconfig"])
    assert await fetch(stage, capi) == {"value": document}
    data = await fetch(stage, argo) or {}
    server = yaml.safe_load(document)["clusters"][0]["cluster"]["server"]
    assert (data["name"], data["server"]) == (f"default.{name}".encode(), server.encode())
    assert "certData" in json.loads(data["config"])["tlsClientConfig"]

    # A renewed certificate is in them after the same reconcile.
    await stage.admin.delete(resources.SECRETS, "admin-kubeconfig", namespace=stage.root(cluster))
    await stage.work(cluster)
    renewed = await stage.secret(cluster, "admin-kubeconfig")
    assert renewed["data"] != admin["data"]
    changed = await fetch(stage, capi)
    assert changed == {"value": base64.b64decode(renewed["data"]["admin-kubeconfig"])}

    await set_spec(stage, cluster, kubeconfigSecrets=["ClusterAPI"])
    assert await fetch(stage, argo) is None
    assert await fetch(stage, capi) is not None
    await stage.tear_down(cluster)
    assert await eventually(lambda: _is_absent(stage, capi))
    await allow(stage, None)


async def _is_absent(stage: ManagerStage, name: str) -> bool:
    assert await fetch(stage, name) is None
    return True


async def test_a_foreign_secret_stays(stage: ManagerStage, cluster: Object):
    name = f"{cluster['metadata']['name']}-kubeconfig"
    await allow(stage, "enabled")
    foreign = {"metadata": {"name": name, "namespace": "default"}, "stringData": {"value": "mine"}}
    await stage.admin.create(resources.SECRETS, foreign)
    await set_spec(stage, cluster, kubeconfigSecrets=["ClusterAPI"])
    found = await stage.condition(cluster, wellknown.KUBECONFIG_SECRETS_READY) or {}
    assert found["reason"] == "NameTaken"
    ready = await stage.condition(cluster, wellknown.READY) or {}
    assert ready["status"] == "True"
    await stage.tear_down(cluster)
    assert await fetch(stage, name) == {"value": b"mine"}
    await allow(stage, None)


async def test_a_host_name_is_in_the_certificate_and_in_the_kubeconfig(
    stage: ManagerStage, cluster: Object
):
    await set_spec(stage, cluster, endpoint={"hostname": HOST, "port": 8443})
    serving = await stage.secret(cluster, "apiserver-ca")
    certificate = x509.load_pem_x509_certificate(base64.b64decode(serving["data"]["tls.crt"]))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert HOST in names.get_values_for_type(x509.DNSName)
    admin = await stage.secret(cluster, "admin-kubeconfig")
    document = yaml.safe_load(base64.b64decode(admin["data"]["admin-kubeconfig"]))
    target = document["clusters"][0]["cluster"]
    assert target["server"] == f"https://{HOST}:8443"
    assert "tls-server-name" not in target
    assert (await stage.fresh(cluster))["status"]["endpoint"] == target["server"]
    await stage.tear_down(cluster)


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"endpoint": {"hostname": "Shop.example.com"}}, "lower-case DNS name"),
        ({"endpoint": {"hostname": "192.0.2.1"}}, "lower-case DNS name"),
        ({"endpoint": {"hostname": "*.example.com"}}, "lower-case DNS name"),
        ({"endpoint": {"port": 443}}, "needs endpoint.hostname"),
        ({"kubeconfigSecrets": ["Flux"]}, "Unsupported value"),
        ({"kubeconfigSecrets": ["ArgoCD", "ArgoCD"]}, "Duplicate"),
        ({"auth": {"jwt": [PLAIN]}}, "https"),
        ({"auth": {"jwt": [{"issuer": {"audiences": ["a"]}}]}}, "Required value"),
    ],
)
async def test_bad_input_is_refused_with_a_sentence(stage: ManagerStage, spec: Any, word: str):
    with pytest.raises(errors.Invalid) as caught:
        await stage.declare(fresh_name("bad"), **spec)
    assert word in str(caught.value)


async def test_fields_that_were_not_given_stay_out_of_the_stored_object(stage: ManagerStage):
    """A stored default that an older release lacks would stay there after a downgrade."""
    made = await stage.declare(fresh_name("plain"))
    found = (await stage.fresh(made))["spec"]
    assert not {"endpoint", "suspend", "kubeconfigSecrets", "auth"} & found.keys()
    await stage.admin.delete(
        resources.VIRTUAL_CLUSTERS, made["metadata"]["name"], namespace="default"
    )
