"""`kubectl vc target` between two real clusters. No one probes here unless a test plays manager."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from pathlib import Path

import pytest
import yaml

from kubeio import errors
from kubeio.api.client import Client
from kubeio.config import secret_kubeconfig
from tenancy import wellknown
from tenancy.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    SECRETS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    SUPER_CLUSTERS,
    Resource,
)
from tests.integration.kubectl_vc.conftest import OTHER_SERVER as SERVER
from tests.integration.kubectl_vc.conftest import TwoClusterUser, is_there
from tests.support.eventually import eventually
from tests.support.names import fresh_name
from vcmanager.targets.required_permissions import list_required


@pytest.mark.parametrize("token", [(), ("--expires", "1h")], ids=["renewed", "ending"])
async def test_who_joins_has_an_account_with_what_is_needed_and_nothing_else(
    two: TwoClusterUser, token
):
    """A0-07, A0-23, A1-03, A2-05."""
    done = await two.join(*token, "--label", "zone=z1", "--taint", "gpu=yes:NoSchedule")
    assert done.code == 0, done.err
    assert f"supercluster.tenancy.x-k8s.io/{two.name} applied" in done.out
    made = await two.desk.client.get(SUPER_CLUSTERS, two.name)
    assert made["spec"]["labels"] == {"zone": "z1"}
    assert made["spec"]["taints"] == [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    endpoint = await two.credentials()
    assert (endpoint.server, endpoint.ca) == (SERVER, two.other.ca)
    assert endpoint.token not in done.out + done.err
    async with Client(two.other.endpoint_with_token(token=endpoint.token)) as account:
        for right in list_required():
            assert await may(account, right.build_review()), right
        for group, resource, verb in (
            ("", "services", "create"),
            ("rbac.authorization.k8s.io", "clusterroles", "create"),
            ("", "pods/exec", "create"),
            ("", "serviceaccounts/token", "create"),
        ):
            plural, _, subresource = resource.partition("/")
            asked = {"group": group, "resource": plural, "verb": verb, "subresource": subresource}
            assert not await may(account, {"spec": {"resourceAttributes": asked}}), resource
        for name, is_granted in (("vn-agent", True), ("vc-syncer", True), ("default", False)):
            asked = {"resource": "serviceaccounts", "subresource": "token", "verb": "create"}
            asked |= {"namespace": two.plan.namespace, "name": name}
            review = {"spec": {"resourceAttributes": asked}}
            assert await may(account, review) is is_granted, name


async def test_labelled_roles_there_grant_kinds_of_sync_rules_in_namespaces_of_tenants_only(
    two: TwoClusterUser,
):
    """The admission policy of the account holds for every kind."""
    assert (await two.join("--expires", "1h")).code == 0
    token = (await two.credentials()).token
    widgets = Resource("shop.example.io", "v1", "widgets", "Widget")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "metadata": {"name": "widgets.shop.example.io"},
        "spec": {
            "group": widgets.group,
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [version],
        },
    }
    await two.there.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    asked = {"group": widgets.group, "resource": "widgets", "verb": "create"}
    review = {"spec": {"resourceAttributes": asked}}
    body = {"apiVersion": "shop.example.io/v1", "kind": "Widget", "metadata": {"name": "x"}}
    async with Client(two.other.endpoint_with_token(token=token)) as account:
        assert not await may(account, review)
        role = {
            "metadata": {
                "name": "sync-rule:widgets",
                "labels": {wellknown.AGGREGATE_TO_SYNCER: "true"},
            },
            "rules": [
                {"apiGroups": [widgets.group], "resources": ["widgets"], "verbs": ["create"]}
            ],
        }
        await two.there.create(CLUSTER_ROLES, role)
        await eventually(lambda: may(account, review), within=60)
        with pytest.raises(errors.Forbidden, match="ValidatingAdmissionPolicy"):
            await account.create(widgets, body, namespace="default")
        assert (await two.join("--expires", "1h")).code == 0, "the controller owns the rules"
        assert await may(account, review)


async def may(client: Client, review) -> bool:
    answer = await client.create(SELF_SUBJECT_ACCESS_REVIEWS, review)
    return answer["status"]["allowed"] is True


async def test_joining_again_mends_and_renews(two: TwoClusterUser):
    assert (await two.join("--expires", "1h")).code == 0
    first = (await two.credentials()).token
    await two.there.delete(CLUSTER_ROLE_BINDINGS, two.plan.role_name)
    assert (await two.join("--expires", "1h")).code == 0
    assert (await two.credentials()).token != first
    assert await is_there(two.there, CLUSTER_ROLE_BINDINGS, two.plan.role_name)


async def test_joining_again_keeps_what_is_not_given_again(two: TwoClusterUser):
    """A taint that went with a renewed token would let pods in."""
    first = await two.join("--label", "zone=z1", "--taint", "gpu:NoSchedule")
    assert "note: tenants have no DNS server in the target" in first.out
    assert (await two.join("--resolver", "10.0.0.10")).code == 0
    done = await two.join("--label", "zone=z2")
    assert (done.code, "note:" in done.out) == (0, False), done.err
    made = await two.desk.client.get(SUPER_CLUSTERS, two.name)
    assert made["spec"]["labels"] == {"zone": "z2"}
    assert made["spec"]["taints"] == [{"key": "gpu", "value": "", "effect": "NoSchedule"}]
    assert made["spec"]["network"]["resolvers"] == ["10.0.0.10"]


async def test_the_mode_is_joined_with_its_rights_and_kept(two: TwoClusterUser, tmp_path: Path):
    """nodes/proxy in one mode alone. What is not said again stays as it was."""
    pem = tmp_path / "kubelets.crt"
    pem.write_bytes(two.other.ca)

    async def found() -> tuple[str, bool, bytes | None]:
        made = await two.desk.client.get(SUPER_CLUSTERS, two.name)
        role = await two.there.get(CLUSTER_ROLES, two.plan.agent_role_name)
        granted = {resource for rule in role["rules"] for resource in rule["resources"]}
        assert ("nodes/proxy" in granted) is not ("pods/exec" in granted)
        name = f"target-{two.name}"
        secret = await two.desk.client.get(SECRETS, name, namespace=two.desk.namespace)
        pem = secret["data"].get(secret_kubeconfig.KUBELET_AUTHORITIES_KEY)
        authorities = None if pem is None else base64.b64decode(pem)
        return made["spec"]["mode"], "nodes/proxy" in granted, authorities

    ending = ("--expires", "1h")
    assert (await two.join(*ending)).code == 0
    assert await found() == ("apiserver", False, None)
    refused = await two.join(*ending, "--kubelet-ca", str(pem))
    assert (refused.code, "Add --mode agent" in refused.err) == (1, True)
    for words in (("--mode", "agent", "--kubelet-ca", str(pem)), (), ("--mode", "agent")):
        done = await two.join(*ending, *words)
        assert done.code == 0, done.err
        assert await found() == ("agent", True, two.other.ca)
    assert (await two.credentials()).token
    shown = await two.join(*ending, "--dry-run", "--kubelet-ca", str(pem))
    assert shown.code == 0, shown.err
    (secret,) = (each for each in yaml.safe_load_all(shown.out) if each["kind"] == "Secret")
    assert secret["stringData"]["kubelet-ca.crt"].encode() == two.other.ca
    assert (await two.join(*ending, "--mode", "apiserver")).code == 0
    assert await found() == ("apiserver", False, two.other.ca)


async def test_who_leaves_leaves_nothing(two: TwoClusterUser):
    assert (await two.join()).code == 0
    shown = await two.leave("--target-kubeconfig", "other", "--dry-run")
    assert (shown.code, "would be deleted" in shown.out) == (0, True)
    assert await is_there(two.desk.client, SUPER_CLUSTERS, two.name)
    done = await two.leave("--target-kubeconfig", "other")
    assert (done.code, done.err) == (0, "")
    for client, resource, name in (
        (two.desk.client, SUPER_CLUSTERS, two.name),
        (two.there, CLUSTER_ROLES, two.plan.role_name),
        (two.there, CLUSTER_ROLE_BINDINGS, two.plan.role_name),
        (two.there, CLUSTER_ROLES, two.plan.agent_role_name),
        (two.there, CLUSTER_ROLE_BINDINGS, two.plan.agent_role_name),
    ):
        assert not await is_there(client, resource, name)
    secrets = await two.desk.client.list(SECRETS, namespace=two.desk.namespace)
    assert secrets["items"] == []
    await eventually(lambda: _is_gone(two), within=30)
    again = await two.leave()
    assert (again.code, f"SuperCluster {two.name} was not found" in again.err) == (3, True)
    assert (await two.leave("--ignore-not-found")).code == 0


async def _is_gone(two: TwoClusterUser) -> bool:
    return not await is_there(two.there, NAMESPACES, two.plan.namespace)


async def test_what_others_made_stays(two: TwoClusterUser):
    """A Secret written by hand here, a role of another home cluster there."""
    assert (await two.join()).code == 0
    theirs = {"metadata": {"labels": {"tenancy.x-k8s.io/target-of": "somebody-else"}}}
    await two.there.patch(CLUSTER_ROLES, two.plan.role_name, theirs)
    done = await two.leave("--target-kubeconfig", "other")
    assert (done.code, "was not created by `kubectl vc target join`, and stays" in done.err) == (
        0,
        True,
    )
    assert await is_there(two.there, CLUSTER_ROLES, two.plan.role_name)
    await two.there.delete(CLUSTER_ROLES, two.plan.role_name)


async def test_without_the_other_cluster_what_is_left_there_is_reported(two: TwoClusterUser):
    assert (await two.join()).code == 0
    done = await two.leave()
    assert done.code == 0
    assert f"clusterrolebinding,clusterrole {two.plan.role_name}" in done.err
    assert await is_there(two.there, CLUSTER_ROLES, two.plan.role_name)


async def test_a_dry_run_writes_nothing(two: TwoClusterUser):
    """A1-03."""
    done = await two.join("--dry-run")
    assert done.code == 0
    kinds = [each["kind"] for each in yaml.safe_load_all(done.out)]
    assert kinds == [
        *("Namespace", "ServiceAccount", "ServiceAccount"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding") * 2,
        "ClusterRole",
        *("ClusterRole", "ClusterRoleBinding") * 2,
        *("Role", "RoleBinding"),
        *("ClusterRole", "ClusterRoleBinding"),
        *("Secret", "SuperCluster"),
    ]
    assert not await is_there(two.desk.client, SUPER_CLUSTERS, two.name)
    secrets = await two.desk.client.list(SECRETS, namespace=two.desk.namespace)
    assert secrets["items"] == []


async def test_a_cluster_that_only_this_machine_reaches_is_refused_before_anything(
    two: TwoClusterUser,
):
    done = await two.join(server="")
    assert (done.code, "with --server" in done.err) == (1, True)
    assert not await is_there(two.there, CLUSTER_ROLES, "virtual-cluster:target:none")


async def test_what_is_refused_here_leaves_nothing_there(two: TwoClusterUser):
    with contextlib.suppress(errors.NotFound):  # of another test, which has joined
        await two.there.delete(CLUSTER_ROLES, two.plan.role_name)
    done = await two.join("--label", "a b=c")
    assert (done.code, "that nodes can have" in done.err) == (1, True)
    assert not await is_there(two.there, CLUSTER_ROLES, two.plan.role_name)


async def test_the_home_cluster_does_not_join_itself(two: TwoClusterUser):
    done = await two.desk.run(
        *("target", "join", two.name, "--target-kubeconfig", "super", "--server", SERVER)
    )
    assert (done.code, "which is the SuperCluster home" in done.err) == (1, True)


async def judged(two: TwoClusterUser, name: str) -> None:
    """Write the identity of the other cluster into a SuperCluster's status, as vc-manager does."""
    system = await two.there.get(NAMESPACES, "kube-system")
    status = {"status": {"identity": system["metadata"]["uid"]}}
    await two.desk.client.patch(SUPER_CLUSTERS, name, status, subresource="status")


async def test_a_cluster_that_joined_under_another_name_is_refused_before_anything(
    two: TwoClusterUser,
):
    """The credential is renewed under its present name."""
    assert (await two.join()).code == 0
    await judged(two, two.name)
    first, two.name = two.name, fresh_name("c")
    for more in ((), ("--dry-run",)):
        done = await two.join(*more)
        assert (done.code, f"already registered as SuperCluster {first}" in done.err) == (1, True)
        assert f"kubectl vc target join {first}" in done.err
    assert not await is_there(two.desk.client, SUPER_CLUSTERS, two.name)
    two.name = first
    assert (await two.join()).code == 0


@pytest.mark.parametrize("more", [("--target-kubeconfig", "other"), ()], ids=["there", "here"])
async def test_a_second_name_leaves_the_account_to_the_first(two: TwoClusterUser, more):
    """It may have been declared by hand, or in the moment before the first one was judged."""
    assert (await two.join()).code == 0
    first, two.name = two.name, fresh_name("c")
    assert (await two.join()).code == 0
    for name in (first, two.name):
        await judged(two, name)
    done = await two.leave(*more)
    assert (done.code, f"the SuperCluster {first} of the same cluster uses it" in done.err) == (
        0,
        True,
    ), done.err
    assert not await is_there(two.desk.client, SUPER_CLUSTERS, two.name)
    assert await is_there(two.there, CLUSTER_ROLES, two.plan.role_name)
    assert await is_there(two.there, NAMESPACES, two.plan.namespace)
    two.name = first
    assert (await two.leave("--target-kubeconfig", "other")).code == 0
    assert not await is_there(two.there, CLUSTER_ROLES, two.plan.role_name)


async def test_who_may_not_write_roles_there_is_reported_where(two: TwoClusterUser):
    (two.desk.folder / "other").write_bytes(two.other.kubeconfig("nobody", group=""))
    done = await two.join()
    assert (done.code, done.err.startswith("error: in the target cluster: ")) == (1, True)


async def test_a_super_cluster_written_by_hand_is_not_taken_over(two: TwoClusterUser):
    body = {
        "apiVersion": SUPER_CLUSTERS.api_version,
        "kind": "SuperCluster",
        "metadata": {"name": two.name},
        "spec": {"secretRef": {"name": "mine"}},
    }
    await two.desk.client.create(SUPER_CLUSTERS, body)
    done = await two.join()
    assert (done.code, "with its own Secret mine" in done.err) == (1, True)
    with pytest.raises(errors.NotFound):
        await two.credentials()


async def say(two: TwoClusterUser, **conditions: str) -> None:
    """Write what vc-manager would write."""
    made = await two.desk.client.get(SUPER_CLUSTERS, two.name)
    listed = [
        {
            "type": kind,
            "status": status,
            "reason": "Because",
            "message": f"do this about {kind}",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for kind, status in conditions.items()
    ]
    status = {"observedGeneration": made["metadata"]["generation"], "conditions": listed}
    await two.desk.client.patch(SUPER_CLUSTERS, two.name, {"status": status}, subresource="status")


WELL = {
    "Ready": "True",
    "Reachable": "True",
    "Authorized": "True",
    "VersionSupported": "True",
    "NetworksOverlap": "False",
}


async def test_the_doctor_reports_what_is_wrong_and_ends_with_1(two: TwoClusterUser):
    assert (await two.desk.run("target", "doctor")).err.startswith("No SuperClusters found")
    await two.join("--expires", "1h")
    done = await two.desk.run("target", "doctor", two.name)
    assert (done.code, "Check that vc-manager runs" in done.out) == (1, True)
    await say(two, **WELL | {"Ready": "False", "Authorized": "False"})
    done = await two.desk.run("target", "doctor")
    assert done.code == 1
    assert done.err == f"error: checks failed for {two.name}. See the table above.\n"
    (line,) = [line for line in done.out.splitlines() if "wrong" in line]
    assert line.split()[:2] == [two.name, "Authorized"]
    assert "do this about Authorized" in line
    found = json.loads((await two.desk.run("target", "doctor", "-o", "json")).out)
    assert found == yaml.safe_load((await two.desk.run("target", "doctor", "-o", "yaml")).out)
    assert {each["result"] for each in found} == {"note", "ok", "wrong"}
    await say(two, **WELL)
    assert (await two.desk.run("target", "doctor")).code == 0
    done = await two.desk.run("target", "doctor", "missing")
    assert (done.code, "SuperCluster missing was not found" in done.err) == (3, True)


async def test_lists_have_every_format(two: TwoClusterUser):
    assert (await two.desk.run("target", "list")).err.startswith("No SuperClusters found")
    await two.join("--expires", "1h")
    await say(two, **WELL)
    table = (await two.desk.run("target", "list")).out.splitlines()
    assert table[0].split()[:4] == ["NAME", "READY", "REACHABLE", "AUTHORIZED"]
    assert table[1].split()[:4] == [two.name, "True", "True", "True"]
    names = (await two.desk.run("target", "list", "-o", "name")).out
    assert names == f"supercluster.tenancy.x-k8s.io/{two.name}\n"
    as_json = json.loads((await two.desk.run("target", "list", "-o", "json")).out)
    assert as_json == yaml.safe_load((await two.desk.run("target", "list", "-o", "yaml")).out)
    assert as_json["items"][0]["kind"] == "SuperCluster"


async def test_joining_waits_until_the_cluster_is_usable_or_reports_why_not(two: TwoClusterUser):
    words = (
        *("target", "join", two.name, "--target-kubeconfig", "other", "--server", SERVER),
        *("--manager-namespace", two.desk.namespace, "--expires", "1h", "--timeout"),
    )
    done = await two.desk.run(*words, "1s")
    assert (done.code, "is not ready after" in done.err) == (4, True)
    running = asyncio.ensure_future(two.desk.run(*words, "60s"))
    await asyncio.sleep(1)
    await say(two, **WELL)
    assert (await running).code == 0
