"""Only own Secrets are written, in a namespace that allows it."""

import pytest

from kubeio import errors
from tenancy import wellknown
from tenancy.specs import VirtualClusterSpec
from tests.support.vcmanager.factories import NOW, TENANT, RecordingClient, fake_means
from tests.unit.vcmanager.plan.access.test_tool_secrets import PARTS
from vcmanager.phases.access import kubeconfig_secrets
from vcmanager.plan.access import tool_secrets
from vcmanager.runtime.status import ReconcileStatus

CAPI, ARGO = "vc-1-kubeconfig", "vc-1-argocd-cluster"
ENABLED = {"metadata": {"labels": {wellknown.KUBECONFIG_SECRETS: "enabled"}}}


def own(form, **metadata):
    made = tool_secrets.build_secret(TENANT, form, PARTS)
    return {**made, "metadata": {**made["metadata"], "uid": "uid", **metadata}}


async def run(objects, *forms):
    client = RecordingClient(objects)
    report = ReconcileStatus(generation=1, now=NOW.isoformat())
    spec = VirtualClusterSpec(cluster_version_name="v", kubeconfig_secrets=forms)
    await kubeconfig_secrets.reconcile_secrets(fake_means(client), TENANT, spec, PARTS, report)
    return client, report.get_condition(wellknown.KUBECONFIG_SECRETS_READY)


async def test_wanted_secrets_are_created():
    client, found = await run({"default": ENABLED}, "ClusterAPI", "ArgoCD")
    assert client.calls == [("create", CAPI), ("create", ARGO)]
    assert found["status"] == "True"
    assert CAPI in found["message"]
    assert ARGO in found["message"]


async def test_a_written_secret_costs_no_write():
    client, found = await run({"default": ENABLED, CAPI: own("ClusterAPI")}, "ClusterAPI")
    assert client.calls == []
    assert found["status"] == "True"


async def test_a_renewed_kubeconfig_is_written_to_the_same_object():
    old = {**own("ClusterAPI"), "data": {"value": "b2xk"}}
    client, found = await run({"default": ENABLED, CAPI: old}, "ClusterAPI")
    assert client.calls == [("apply", CAPI)]
    assert client.bodies[0]["metadata"]["uid"] == "uid"
    assert found["status"] == "True"


async def test_a_foreign_secret_is_never_changed():
    foreign = own("ClusterAPI", ownerReferences=[])
    client, found = await run({"default": ENABLED, CAPI: foreign, ARGO: foreign}, "ClusterAPI")
    assert client.calls == []
    assert (found["status"], found["reason"]) == ("False", "NameTaken")
    assert CAPI in found["message"]


async def test_a_secret_that_appears_meanwhile_is_foreign():
    client = RecordingClient({"default": ENABLED})
    client.problems["create", CAPI] = errors.AlreadyExists("x")
    report = ReconcileStatus(generation=1, now=NOW.isoformat())
    spec = VirtualClusterSpec(cluster_version_name="v", kubeconfig_secrets=("ClusterAPI",))
    await kubeconfig_secrets.reconcile_secrets(fake_means(client), TENANT, spec, PARTS, report)
    assert client.calls == []
    assert (report.get_condition(wellknown.KUBECONFIG_SECRETS_READY) or {}).get(
        "reason"
    ) == "NameTaken"


@pytest.mark.parametrize("labels", [{}, {wellknown.KUBECONFIG_SECRETS: "true"}])
async def test_the_administrator_of_the_namespace_must_allow_it(labels):
    client, found = await run({"default": {"metadata": {"labels": labels}}}, "ArgoCD")
    assert client.calls == []
    assert found["reason"] == "NamespaceNotEnabled"
    assert f"{wellknown.KUBECONFIG_SECRETS}=enabled" in found["message"]


async def test_own_secrets_that_are_no_longer_wanted_are_deleted():
    client, found = await run({CAPI: own("ClusterAPI"), ARGO: own("ArgoCD", labels={})})
    assert client.calls == [("delete", CAPI)]
    assert found is None


@pytest.mark.parametrize(
    ("forms", "known", "expected"),
    [((), False, False), ((), True, True), (("ArgoCD",), False, True)],
)
def test_without_a_wish_no_request_is_made(forms, known, expected):
    spec = VirtualClusterSpec(cluster_version_name="v", kubeconfig_secrets=forms)
    conditions = [{"type": wellknown.KUBECONFIG_SECRETS_READY}] if known else []
    body = {"metadata": {}, "status": {"conditions": conditions}}
    assert kubeconfig_secrets.may_have_secrets(spec, body) is expected


@pytest.mark.parametrize(("asked", "deleted"), [(["ClusterAPI"], [("delete", CAPI)]), ([], [])])
async def test_they_are_deleted_with_the_tenant(asked, deleted):
    client = RecordingClient({CAPI: own("ClusterAPI")})
    body = {"metadata": {}, "spec": {"kubeconfigSecrets": asked}}
    await kubeconfig_secrets.delete_secrets(fake_means(client), TENANT, body)
    assert client.calls == deleted
