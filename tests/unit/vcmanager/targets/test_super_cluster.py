"""Faults of a target, and the state after a reconcile."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import trustme

from kubeio import errors
from kubeio.config.endpoint import Endpoint
from kubeio.controller.worker import Done, RequeueAfter
from tenancy import super_clusters, wellknown
from tests.support.vcmanager.factories import RecordingClient, fake_means
from vcmanager.runtime.keys import ReconcileKey
from vcmanager.targets import probe, super_cluster
from vcmanager.targets.clients import TargetClientCache

KEY = ReconcileKey("SuperCluster", "", "c2")
OTHER_UID = "7b0a5f0e-0000-4000-8000-000000000002"


class SecretHome(RecordingClient):
    """The home cluster's API, with one Secret."""

    version_problem: Exception | None = None

    async def version(self) -> str:
        if self.version_problem is not None:
            raise self.version_problem
        return "v1.36.4"


def home(*listed: dict[str, Any], **data: str) -> SecretHome:
    usual = {"server": "https://c2.invalid:6443", "ca.crt": "CA", "token": "tok"}
    encoded = {k: base64.b64encode(v.encode()).decode() for k, v in (usual | data).items()}
    made = SecretHome({"s": {"data": encoded}, "kube-system": {"metadata": {"uid": "home-uid"}}})
    made.listed = [*listed]
    return made


def body(name: str = "c2", **more: Any) -> dict[str, Any]:
    spec = {} if name == "home" else {"secretRef": {"name": "s"}}
    return {"metadata": {"name": name, "uid": "u", "generation": 1}, "spec": spec} | more


def said(client: SecretHome) -> dict[str, tuple[str, str]]:
    (status,) = [each["status"] for each in client.bodies if "status" in each]
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


async def nowhere(_: str) -> str:
    return ""


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch):
    """No name is looked up, and no Secret is watched."""
    monkeypatch.setattr(probe, "check_server_is_remote", nowhere)
    monkeypatch.setattr(TargetClientCache, "watch_secret", lambda *_, **__: None)


async def test_what_goes_wrong_at_home_is_not_reported_of_the_other_cluster():
    client = home(body(), body("home"))
    client.version_problem = errors.Unavailable("the home API is away")
    with pytest.raises(errors.Unavailable, match="the home API"):
        await super_cluster.reconcile_super_cluster(fake_means(client), KEY)
    assert client.calls == []


async def test_what_is_no_kubernetes_api_is_reported(monkeypatch):
    async def odd(_: Any) -> str:
        raise KeyError("gitVersion")

    monkeypatch.setattr(probe, "fetch_version", odd)
    client = home(body(), body("home"), **{"ca.crt": _authority()})
    verdict = await super_cluster.reconcile_super_cluster(fake_means(client), KEY)
    assert verdict == RequeueAfter(super_cluster.UNHEALTHY_CHECK_SECONDS)
    assert said(client)["Reachable"] == ("False", "NotKubernetes")


async def test_an_authority_that_is_none_is_reported_and_nothing_is_asked():
    client = home(body(), body("home"))
    await super_cluster.reconcile_super_cluster(fake_means(client), KEY)
    assert said(client)["Reachable"] == ("False", "InvalidKubeconfig")


async def test_a_name_that_leads_to_this_machine_is_reported(monkeypatch):
    async def here(_: str) -> str:
        return "leads to 127.0.1.1, which is a loopback address"

    monkeypatch.setattr(probe, "check_server_is_remote", here)
    client = home(body(), body("home"))
    await super_cluster.reconcile_super_cluster(fake_means(client), KEY)
    assert said(client)["Reachable"] == ("False", "LoopbackAddress")


async def test_without_the_credentials_none_are_kept():
    client = home(body(), body("home"))
    means = fake_means(client)
    authority = _authority().encode()
    await means.target_clients.get_client(
        "c2", Endpoint(server="https://c2.invalid", ca=authority, token="t")
    )
    client.objects.pop("s")
    await super_cluster.reconcile_super_cluster(means, KEY)
    assert said(client)["Reachable"] == ("False", "SecretNotFound")
    assert means.target_clients._clients == {}
    await means.target_clients.__aexit__(None, None, None)


async def test_one_that_is_gone_or_going_is_left_alone():
    for listed in ([], [body(metadata={"name": "c2", "uid": "u", "deletionTimestamp": "t"})]):
        client = home(*listed)
        assert await super_cluster.reconcile_super_cluster(fake_means(client), KEY) == Done()
        assert client.calls == []


async def test_losses_that_the_syncer_holds_are_reported_in_an_event_once(monkeypatch):
    told: list[str] = []
    loss = {"type": "LossesHeld", "status": "True", "message": "5 of 5"}
    means = fake_means(home())
    monkeypatch.setattr(
        means.recorder,
        "record",
        lambda _, reason, message, **__: told.append(f"{reason}: {message}"),
    )
    for message, status, since in (
        ("a", "True", 1),
        ("a", "True", 1),
        ("b", "True", 1),
        ("", "False", 2),
        ("c", "True", 3),
        ("d", "True", 4),
    ):
        found = {**loss, "status": status, "message": message, "lastTransitionTime": str(since)}
        super_cluster._report_losses(means, body(status={"conditions": [found]}))
    assert told == ["LossesHeld: a", "LossesHeld: c", "LossesHeld: d"]


@pytest.mark.parametrize(
    ("said", "is_trouble"),
    [("", True), ("new-uid", False), ("other", True), ("0123456789abcdef", True)],
)
def test_another_cluster_is_the_one_that_is_meant_only_by_a_word(said, is_trouble):
    found = body(
        metadata={"name": "c2", "uid": "u", "annotations": {wellknown.CONFIRM_LOSSES: said}}
    )
    found |= {"status": {"identity": "old-uid"}}
    this = super_cluster._TargetReconcile(
        means=fake_means(home()),
        body=found,
        name="c2",
        spec=super_cluster.SuperClusterSpec(),
        old_status=super_cluster.read_status(found),
        peer_clusters=super_cluster.PeerClusters("c2", [found]),
        conditions=super_cluster.TargetConditions(),
        status_fields={},
    )
    trouble = super_cluster._find_identity_problem(this, "new-uid", "home-uid")
    assert (trouble is not None) is is_trouble
    if trouble is not None:
        assert trouble[0] == "IdentityChanged"
        assert "kube-system is new-uid," in trouble[1]
        assert "`kubectl vc target confirm c2`" in trouble[1]


@pytest.mark.parametrize(
    ("uid", "is_named"), [(OTHER_UID, True), ("new-uid", False), (f"{OTHER_UID}\x1b", False)]
)
async def test_another_cluster_is_named_in_a_field_until_it_is_gone(monkeypatch, uid, is_named):
    """A UID that no API server writes comes from something else, and is not passed on."""

    async def alive(_: Any) -> str:
        return "v1.36.4"

    async def identity(_: Any) -> str:
        return uid

    monkeypatch.setattr(probe, "fetch_version", alive)
    monkeypatch.setattr(probe, "fetch_identity", identity)
    known = {"identity": "old-uid", "nodes": 0}
    client = home(body(status=known), body("home"), **{"ca.crt": _authority()})
    means = fake_means(client)
    await super_cluster.reconcile_super_cluster(means, KEY)
    assert said(client)["Reachable"] == ("False", super_clusters.IDENTITY_CHANGED)
    (status,) = [each["status"] for each in client.bodies if "status" in each]
    assert status["identity"] == "old-uid"
    assert status.get("observedIdentity", "") == (uid if is_named else "")

    client.listed[0] = body(status=status)
    client.bodies.clear()
    await super_cluster.reconcile_super_cluster(means, KEY)
    assert client.bodies == [], "the second time it is no news"

    client.objects.pop("s")
    await super_cluster.reconcile_super_cluster(means, KEY)
    (status,) = [each["status"] for each in client.bodies if "status" in each]
    assert "observedIdentity" not in status


def _authority() -> str:
    return trustme.CA().cert_pem.bytes().decode()
