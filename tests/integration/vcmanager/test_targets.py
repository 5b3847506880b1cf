"""Conditions of a target: two real API servers, the second behind an address of this machine that
is not loopback.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
import trustme
import yaml

from clusterversions import catalog
from kubectl_vc.target import confirm
from kubeio.api.client import Client
from tenancy import ownership, resources, super_clusters, wellknown
from tenancy.ownership import Tenant
from tests.integration.vcmanager.conftest import NAMESPACE, SERVICE_RANGE, ManagerStage
from tests.integration.vcmanager.two_cluster_stage import ACCOUNT, TwoClusterStage, grant
from tests.support.account_tokens import request_account_token
from tests.support.controlplane import LocalControlPlane, serving
from tests.support.eventually import eventually
from tests.support.names import fresh_name
from tests.support.own_address import OWN, needs_address
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.keys import ReconcileKey
from vcmanager.targets import super_cluster as target
from vcmanager.targets import tenant_cleanup

FULL = yaml.safe_load(catalog.read_target_role())["rules"]
NODES = "10.77.0.0/24"


pytestmark = needs_address


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    """Another cluster, with one node."""
    made = LocalControlPlane(
        tmp_path_factory.mktemp("second"),
        name="second",
        service_range="10.98.0.0/16",
        audit=True,
        api_args={"bind-address": "0.0.0.0"},  # noqa: S104 - to be reached by another address
    )
    with serving(made, _furnish):
        yield made


async def _furnish(client: Client) -> None:
    node = {"metadata": {"name": "there-1"}, "spec": {"podCIDR": NODES, "podCIDRs": [NODES]}}
    await client.create(resources.NODES, node)
    status = {
        "allocatable": {"cpu": "3500m", "memory": "2Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    await client.patch(resources.NODES, "there-1", {"status": status}, subresource="status")
    await client.create(
        resources.SERVICE_ACCOUNTS, {"metadata": {"name": ACCOUNT}}, namespace="default"
    )
    await grant(client, FULL)


@pytest.fixture
async def two_clusters(
    stage: ManagerStage, second: LocalControlPlane
) -> AsyncIterator[TwoClusterStage]:
    async with Client(second.endpoint) as there:
        yield TwoClusterStage(
            stage=stage,
            second=second,
            there=there,
            name=fresh_name("c"),
            token=await request_account_token(there, "default", ACCOUNT),
            targets=stage.means.target_clients,
        )
        await stage.means.target_clients.__aexit__(None, None, None)
        for each in (await stage.admin.list(resources.SUPER_CLUSTERS))["items"]:
            await stage.admin.delete(resources.SUPER_CLUSTERS, each["metadata"]["name"])


async def test_a_cluster_that_can_be_used_reports_it_and_what_it_has(two_clusters: TwoClusterStage):
    await two_clusters.secret()
    await two_clusters.declare()
    found = await two_clusters.judged()
    assert {kind: each[0] for kind, each in found.items()} == {
        "Ready": "True",
        "Reachable": "True",
        "Authorized": "True",
        "VersionSupported": "True",
        "NetworksOverlap": "False",
        "AgentReady": "False",  # no agent is configured, see test_target_agents.py
    }
    status = super_clusters.parse_status(await two_clusters.fresh())
    kube_system = await two_clusters.there.get(resources.NAMESPACES, "kube-system")
    assert status.identity == kube_system["metadata"]["uid"]
    assert status.version == await two_clusters.there.version()
    assert (status.nodes, status.capacity) == (
        1,
        {"cpu": "3500m", "memory": "2048Mi", "pods": "110"},
    )
    assert (status.network.pods, status.network.services) == ((NODES,), ("10.98.0.0/16",))
    assert "Its token expires on" in found["Authorized"][2]


async def test_the_home_cluster_becomes_one_of_them_when_there_is_another(
    two_clusters: TwoClusterStage,
):
    """A1-02."""
    await two_clusters.secret()
    await two_clusters.declare()
    await two_clusters.judged()
    found = await two_clusters.judged(super_clusters.HOME)
    assert {kind: each[0] for kind, each in found.items()} | {"NetworksOverlap": ""} == {
        "Ready": "True",
        "Reachable": "True",
        "Authorized": "True",
        "VersionSupported": "True",
        "NetworksOverlap": "",
    }
    assert (await two_clusters.fresh(super_clusters.HOME))["status"]["network"]["serviceCIDRs"] == [
        SERVICE_RANGE
    ]


async def test_a_cluster_at_rest_is_asked_whether_it_lives_and_nothing_is_written(
    two_clusters: TwoClusterStage,
):
    await two_clusters.secret()
    await two_clusters.declare()
    await two_clusters.judged()
    await two_clusters.judged()
    before, mark = await two_clusters.fresh(), two_clusters.second.audit_mark()
    await two_clusters.judged()
    assert (await two_clusters.fresh())["metadata"]["resourceVersion"] == (
        before["metadata"]["resourceVersion"]
    )
    asked = await eventually(lambda: _asked(two_clusters, mark))
    assert asked <= {"/version", "/api/v1/namespaces/kube-system"}


def _asked(two_clusters: TwoClusterStage, mark: Any) -> set[str]:
    account = f"system:serviceaccount:default:{ACCOUNT}"
    events = two_clusters.second.audit_events(mark)
    return {each["requestURI"] for each in events if each["user"].get("username") == account}


@pytest.mark.parametrize("key", ["kubeconfig", "config", "mine"])
async def test_a_kubeconfig_is_taken_under_its_key(two_clusters: TwoClusterStage, key: str):
    """A0-06."""
    content = two_clusters.second.kubeconfig().replace(b"127.0.0.1", OWN.encode())
    await two_clusters.secret(kubeconfig=b"") if key != "kubeconfig" else None
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": two_clusters.name, "namespace": NAMESPACE},
        "data": {key: base64.b64encode(content).decode()},
    }
    await two_clusters.stage.admin.apply(resources.SECRETS, body, field_manager="test")
    ref = {"name": two_clusters.name, **({"key": key} if key == "mine" else {})}
    await two_clusters.declare(secretRef=ref)
    # An administrator's rights are wildcards, which include each required right.
    assert (await two_clusters.judged())["Ready"][0] == "True"


async def test_a_changed_secret_enqueues_its_cluster_and_no_other_and_counts_at_once(
    two_clusters: TwoClusterStage,
):
    """A0-06, A1-05."""
    await two_clusters.declare(
        f"{two_clusters.name}-x", secretRef={"name": f"{two_clusters.name}-x"}
    )
    await two_clusters.judged(f"{two_clusters.name}-x")
    await two_clusters.declare()
    assert (await two_clusters.judged())["Reachable"][:2] == ("False", "SecretNotFound")
    key = ReconcileKey("SuperCluster", "", two_clusters.name)
    two_clusters.stage.woken.clear()
    await two_clusters.secret(token="wrong")
    await eventually(lambda: key in two_clusters.stage.woken, within=10)
    assert (await two_clusters.judged())["Authorized"][:2] == ("False", "NotAccepted")
    two_clusters.stage.woken.clear()
    await two_clusters.secret()
    await eventually(lambda: key in two_clusters.stage.woken, within=10)
    assert (await two_clusters.judged())["Ready"][0] == "True"
    two_clusters.stage.woken.clear()
    other = {"metadata": {"name": f"{two_clusters.name}-other"}}
    await two_clusters.stage.admin.create(resources.SECRETS, other, namespace=NAMESPACE)
    await two_clusters.stage.admin.delete(resources.SECRETS, two_clusters.name, namespace=NAMESPACE)
    await eventually(lambda: key in two_clusters.stage.woken, within=10)
    assert (await two_clusters.judged())["Ready"][:2] == ("False", "SecretNotFound")
    assert {each.name for each in two_clusters.stage.woken if each.kind == "SuperCluster"} == {
        two_clusters.name
    }


async def test_a_loopback_kubeconfig_is_reported_and_not_tried(two_clusters: TwoClusterStage):
    """A0-05, A1-01."""
    await two_clusters.secret(kubeconfig=two_clusters.second.kubeconfig())
    mark = two_clusters.second.audit_mark()
    await two_clusters.declare()
    found = await two_clusters.judged()
    assert found["Reachable"][:2] == ("False", "LoopbackAddress")
    assert "spec.server" in found["Ready"][2]
    assert two_clusters.second.audit_events(mark) == [] or not [
        each
        for each in two_clusters.second.audit_events(mark)
        if each["user"]["username"] == "admin"
    ]
    # What the object says wins over the file.
    await two_clusters.stage.admin.patch(
        resources.SUPER_CLUSTERS, two_clusters.name, {"spec": {"server": two_clusters.server}}
    )
    assert (await two_clusters.judged())["Ready"][0] == "True"


@pytest.mark.parametrize("extra", ["exec", "tokenFile"])
async def test_a_kubeconfig_that_asks_for_more_is_refused_by_name(
    two_clusters: TwoClusterStage, extra: str
):
    document = json.loads(two_clusters.second.kubeconfig().replace(b"127.0.0.1", OWN.encode()))
    document["users"][0]["user"][extra] = {"command": "/bin/true"}
    await two_clusters.secret(kubeconfig=json.dumps(document))
    await two_clusters.declare()
    status, reason, message = (await two_clusters.judged())["Reachable"]
    assert (status, reason, f"'{extra}'" in message) == ("False", "InvalidKubeconfig", True)


async def test_a_token_that_has_ended_is_reported_with_its_end(two_clusters: TwoClusterStage):
    claims = base64.urlsafe_b64encode(b'{"exp": 1767225600}').decode().rstrip("=")
    await two_clusters.secret(token=f"e30.{claims}.e30")
    await two_clusters.declare()
    found = await two_clusters.judged()
    assert found["Reachable"][:2] == ("True", "Answers")
    assert found["Authorized"][:2] == ("False", "NotAccepted")
    assert "The token expired on 2026-01-01 00:00 UTC" in found["Authorized"][2]
    assert "kubectl vc target join" in found["Ready"][2]


async def test_each_missing_verb_is_named(two_clusters: TwoClusterStage):
    """A0-07."""
    await two_clusters.secret()
    await two_clusters.declare()
    fewer = [dict(rule) for rule in FULL]
    for rule in fewer:
        if rule["resources"] == ["pods"]:
            rule["verbs"] = [verb for verb in rule["verbs"] if verb != "create"]
    await grant(two_clusters.there, [rule for rule in fewer if rule["resources"] != ["events"]])
    try:
        words = "lacks permissions: pods: create; events: list, watch (in all namespaces)"
        await eventually(lambda: _lacks(two_clusters, words), within=20)
    finally:
        await grant(two_clusters.there, FULL)


async def _lacks(two_clusters: TwoClusterStage, words: str) -> bool:
    two_clusters.targets.last_probes.clear()  # else what was seen a moment ago counts
    status, reason, message = (await two_clusters.judged())["Authorized"]
    return (status, reason) == ("False", "MissingRights") and words in message


async def test_overlapping_networks_are_reported_on_both_sides(two_clusters: TwoClusterStage):
    """A1-12."""
    await two_clusters.secret()
    await two_clusters.declare(network={"podCIDRs": ["10.77.0.0/16"]})
    await two_clusters.judged()
    home = {"spec": {"network": {"podCIDRs": ["10.77.8.0/24"]}}}
    await two_clusters.stage.admin.patch(resources.SUPER_CLUSTERS, super_clusters.HOME, home)
    found = await two_clusters.judged(super_clusters.HOME)
    assert found["NetworksOverlap"][:2] == ("True", "PodRangesOverlap")
    assert ReconcileKey("SuperCluster", "", two_clusters.name) in two_clusters.stage.woken
    found = await two_clusters.judged()
    status, _, message = found["NetworksOverlap"]
    assert (status, "overlaps 10.77.8.0/24 of home" in message) == ("True", True)
    assert found["Ready"][0] == "True", "no traffic goes between them"
    flat = {"spec": {"network": {"reachable": True}}}
    await two_clusters.stage.admin.patch(resources.SUPER_CLUSTERS, two_clusters.name, flat)
    assert (await two_clusters.judged())["Ready"][:2] == ("False", "PodRangesOverlap")


async def test_two_minors_off_is_reported_with_who_should_move(two_clusters: TwoClusterStage):
    await two_clusters.secret()
    await two_clusters.declare()
    await two_clusters.judged()
    await two_clusters.judged(super_clusters.HOME)
    newer = {"status": {"version": "v1.38.1"}}
    await two_clusters.stage.admin.patch(
        resources.SUPER_CLUSTERS, super_clusters.HOME, newer, subresource="status"
    )
    status, reason, message = (await two_clusters.judged())["VersionSupported"]
    assert (status, reason) == ("False", "TooOld")
    assert "2 minors behind v1.38.1" in message
    assert "Upgrade the target cluster" in message


async def test_another_authority_is_not_trusted(two_clusters: TwoClusterStage):
    await two_clusters.secret(**{"ca.crt": trustme.CA().cert_pem.bytes()})
    await two_clusters.declare()
    found = await two_clusters.judged()
    assert found["Reachable"][:2] == ("False", "CertificateNotTrusted")
    assert found["Authorized"][0] == "Unknown"


async def test_a_name_that_the_certificate_has_not_is_not_trusted(two_clusters: TwoClusterStage):
    await two_clusters.secret()
    await two_clusters.declare(tlsServerName="somebody.else")
    status, reason, message = (await two_clusters.judged())["Reachable"]
    assert (status, reason) == ("False", "CertificateNotTrusted")
    assert "spec.tlsServerName" in message


async def test_a_cluster_that_goes_away_keeps_what_is_known_and_comes_back(
    two_clusters: TwoClusterStage,
):
    await two_clusters.secret()
    await two_clusters.declare()
    await two_clusters.judged()
    two_clusters.second.kill_apiserver()
    try:
        found = await two_clusters.judged()
        assert found["Reachable"][:2] == ("False", "NotConnected")
        assert found["Authorized"][0] == "Unknown"
        assert found["VersionSupported"][0] == "True"
        status = super_clusters.parse_status(await two_clusters.fresh())
        assert (status.nodes, status.network.pods) == (1, (NODES,))
    finally:
        await two_clusters.second.start()
    assert (await two_clusters.judged())["Ready"][0] == "True"


async def test_a_cluster_that_takes_connections_and_sends_nothing_is_no_answer(
    two_clusters: TwoClusterStage,
):
    await two_clusters.secret()
    await two_clusters.declare()
    await two_clusters.judged()
    two_clusters.second.pause_apiserver()
    try:
        assert (await two_clusters.judged())["Reachable"][:2] == ("False", "NoAnswer")
    finally:
        two_clusters.second.resume_apiserver()


async def test_the_same_cluster_under_another_name_is_refused(two_clusters: TwoClusterStage):
    await two_clusters.secret()
    await two_clusters.declare("aaa-first")
    assert (await two_clusters.judged("aaa-first"))["Ready"][0] == "True"
    await two_clusters.declare("aaa-second")
    status, reason, message = (await two_clusters.judged("aaa-second"))["Reachable"]
    assert (status, reason, "aaa-first" in message) == ("False", "SameCluster", True)
    assert (await two_clusters.judged("aaa-first"))["Ready"][0] == "True"


async def test_another_cluster_behind_the_same_name_is_reported(two_clusters: TwoClusterStage):
    """Its etcd was reset, or the address leads somewhere else now."""
    await two_clusters.secret()
    await two_clusters.declare()
    await two_clusters.judged()
    known = (await two_clusters.fresh())["status"]["identity"]
    await two_clusters.stage.admin.patch(
        resources.SUPER_CLUSTERS,
        two_clusters.name,
        {"status": {"identity": "other"}},
        subresource="status",
    )
    status, reason, message = (await two_clusters.judged())["Reachable"]
    assert (status, reason) == ("False", "IdentityChanged")
    assert known in message
    found = (await two_clusters.fresh())["status"]
    assert found["identity"] == "other", "what is known stays"
    assert found["observedIdentity"] == known
    word, meant = confirm.build_confirmation(two_clusters.name, await two_clusters.fresh())
    assert (word, known in meant) == (known, True)
    annotations = {wellknown.CONFIRM_LOSSES: word}
    await two_clusters.stage.admin.patch(
        resources.SUPER_CLUSTERS, two_clusters.name, {"metadata": {"annotations": annotations}}
    )
    assert (await two_clusters.judged())["Reachable"][0] == "True"
    found = await eventually(
        two_clusters.fresh, until=lambda found: found["status"]["identity"] == known
    )
    assert "observedIdentity" not in found["status"]


async def test_one_that_is_deleted_is_forgotten(two_clusters: TwoClusterStage):
    await two_clusters.secret()
    await two_clusters.declare()
    await two_clusters.judged()
    await two_clusters.stage.admin.delete(resources.SUPER_CLUSTERS, two_clusters.name)
    await target.reconcile_super_cluster(
        two_clusters.stage.means, ReconcileKey("SuperCluster", "", two_clusters.name)
    )
    assert two_clusters.targets.last_probes == {}
    assert two_clusters.targets._clients == {}


async def test_what_a_tenant_has_there_goes_with_it_and_nothing_else(two_clusters: TwoClusterStage):
    await two_clusters.secret()
    await two_clusters.declare()
    await two_clusters.judged()
    registration = (await two_clusters.fresh())["metadata"]["uid"]
    tenant = Tenant(name="vc", namespace="default", uid=fresh_name("uid"), root="default-0a0a0a-vc")
    theirs, others = fresh_name("theirs"), fresh_name("others")
    for name, of in ((theirs, registration), (others, "another")):
        owner = replace(tenant, super_cluster_uid=of)
        marked = {
            "name": name,
            "labels": ownership.build_owner_labels(owner, "web"),
            "annotations": ownership.build_owner_annotations(owner, "web", "w"),
        }
        await two_clusters.there.create(resources.NAMESPACES, {"metadata": marked})
    body = {"metadata": {}, "status": {"targets": [{"name": two_clusters.name}]}}
    with pytest.raises(PhaseBlocked, match=theirs):
        await tenant_cleanup.delete_tenant_in_targets(two_clusters.stage.means, body, tenant)
    for name, is_going in ((theirs, True), (others, False)):
        found = await two_clusters.there.get(resources.NAMESPACES, name)
        assert ("deletionTimestamp" in found["metadata"]) is is_going
    await two_clusters.secret(token="wrong")
    with pytest.raises(PhaseBlocked, match=wellknown.ABANDON):
        await tenant_cleanup.delete_tenant_in_targets(two_clusters.stage.means, body, tenant)
    given_up = {"metadata": {"annotations": {wellknown.ABANDON: ""}}}
    await two_clusters.stage.admin.patch(resources.SUPER_CLUSTERS, two_clusters.name, given_up)
    await tenant_cleanup.delete_tenant_in_targets(two_clusters.stage.means, body, tenant)
