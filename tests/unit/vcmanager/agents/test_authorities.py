from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from kubeio.controller.worker import NotReadyYet, RequeueAfter
from tenancy import conditions, wellknown
from tenancy.resources import SECRETS
from tests.support.vcmanager.factories import NOW, RecordingClient, fake_means
from vcmanager.agents import authorities
from vcmanager.pki import authority, bundles, checks, rotation
from vcmanager.pki.rotation import AuthorityKeys, RotationState
from vcmanager.runtime import keys
from vcmanager.runtime.context import RESYNC_SECONDS


async def test_what_agents_trust_is_looked_at_again_and_bears_what_its_watch_selects():
    super_client = RecordingClient()
    verdict = await authorities.reconcile_agent_trust(
        fake_means(super_client), keys.AGENT_TRUST_KEY
    )
    assert verdict == RequeueAfter(RESYNC_SECONDS)
    assert len(super_client.bodies) == 3
    for body in super_client.bodies:
        assert body["metadata"]["labels"][wellknown.CONTROLLED] == "true"
        assert keys.get_owner_key(body["metadata"]) == keys.AGENT_TRUST_KEY


async def test_tenants_are_looked_at_when_it_was():
    super_client, woken = RecordingClient(), []
    super_client.listed = [{"metadata": {"namespace": "default", "name": "one"}}]
    means = fake_means(super_client, wake=woken.append)
    await authorities.reconcile_agent_trust(means, keys.AGENT_TRUST_KEY)
    assert woken == [keys.build_virtual_cluster_key("default", "one")]


async def test_an_authority_that_was_restored_by_hand_is_labelled_again():
    super_client = RecordingClient()
    await authorities.reconcile_agent_trust(fake_means(super_client), keys.AGENT_TRUST_KEY)
    objects = {body["metadata"]["name"]: body for body in super_client.bodies}
    objects[authorities.CLIENT_CA_NAME]["metadata"]["labels"] = {}
    again = RecordingClient(objects)
    await authorities.reconcile_agent_trust(fake_means(again), keys.AGENT_TRUST_KEY)
    assert again.calls == [("patch", authorities.CLIENT_CA_NAME)]
    assert again.bodies[0]["metadata"]["labels"] == keys.AGENT_TRUST_LABELS


@pytest.mark.parametrize("labels", [{}, keys.AGENT_TRUST_LABELS], ids=["stripped", "whole"])
async def test_what_is_published_is_written_again_when_no_one_could_see_it(labels):
    super_client = RecordingClient()
    await authorities.reconcile_agent_trust(fake_means(super_client), keys.AGENT_TRUST_KEY)
    objects = {body["metadata"]["name"]: body for body in super_client.bodies}
    objects[wellknown.AGENT_CLIENT_TRUST]["metadata"]["labels"] = labels
    again = RecordingClient(objects)
    await authorities.reconcile_agent_trust(fake_means(again), keys.AGENT_TRUST_KEY)
    assert again.calls == ([] if labels else [("apply", wellknown.AGENT_CLIENT_TRUST)])


async def test_an_authority_that_is_gone_is_waited_for():
    published = {"metadata": {"name": "vn-agent-trust"}, "data": {"client-ca.crt": "old"}}
    means = fake_means(RecordingClient({"vn-agent-trust": published}))
    with pytest.raises(NotReadyYet, match="Restore it"):
        await authorities.reconcile_agent_trust(means, keys.AGENT_TRUST_KEY)


async def test_both_authorities_are_published_without_their_keys():
    """Agents verify callers by one authority, and readers of metrics verify agents by the other."""
    super_client = RecordingClient()
    await authorities.reconcile_agent_trust(fake_means(super_client), keys.AGENT_TRUST_KEY)
    objects = {body["metadata"]["name"]: body for body in super_client.bodies}
    data = objects[wellknown.AGENT_CLIENT_TRUST]["data"]
    assert set(data) == {authorities.CLIENT_KEY, authorities.SERVING_KEY}
    for key, name in (("client", "CLIENT_CA_NAME"), ("serving", "SERVING_CA_NAME")):
        pair = bundles.read_key_pair(objects[getattr(authorities, name)])
        assert pair is not None
        assert data[f"{key}-ca.crt"].encode() == pair.certificate
    assert "PRIVATE" not in str(data)


class TenantsClient:
    """A client that lists VirtualClusters and the Secrets with certificates for agents."""

    def __init__(self, clusters: dict[str, dict[str, Any]], issuers: dict[str, Any]) -> None:
        self.clusters = [
            {**fields, "metadata": {"name": uid, "uid": uid, **fields.get("metadata", {})}}
            for uid, fields in clusters.items()
        ]
        self.secrets = []
        for uid, issuer in issuers.items():
            subject = authority.CertificateSubject(common_name="kubelet-client")
            leaf = authority.make_leaf(issuer, subject, lifetime=timedelta(days=9), now=NOW)
            secret = bundles.build_key_pair_secret("apiserver-kubelet-client", uid, leaf)
            secret["metadata"]["labels"] = {wellknown.VC_UID: uid}
            self.secrets.append(secret)

    async def list(self, resource: Any, *, field_selector: str = "", **_: Any) -> dict[str, Any]:
        if resource != SECRETS:
            return {"items": self.clusters}
        return {"items": self.secrets if "kubelet" in field_selector else []}


LATER = conditions.format_time(NOW + timedelta(hours=1))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"spec": {}}, None),
        ({"spec": {"sleep": {"workloads": "Keep"}}}, "asleep"),
        ({"spec": {"pausedUntil": LATER}}, "paused until"),
        ({"metadata": {"annotations": {wellknown.DELETE_AFTER: LATER}}}, "deletion"),
        ({"metadata": {"deletionTimestamp": LATER}}, "being deleted"),
    ],
)
async def test_an_inactive_tenant_does_not_hold_the_rotation_for_all(fields, reason):
    old, new = (authority.make_authority(name, now=NOW) for name in ("old", "new"))
    keys_of_both = AuthorityKeys(current=new, other=old)
    state = RotationState(stage=rotation.ISSUE_NEW)
    recorded: list[tuple[str, str, str]] = []
    means: Any = SimpleNamespace(
        super_client=TenantsClient({"a": {"spec": {}}, "b": fields}, {"a": new, "b": old}),
        recorder=SimpleNamespace(
            record=lambda body, why, message, **_: recorded.append(
                (body["metadata"]["name"], why, message)
            )
        ),
    )
    settled = await authorities._is_settled(means, state, keys_of_both, NOW)
    assert settled is (reason is not None)
    if reason is None:
        assert recorded == []
    else:
        ((name, why, message),) = recorded
        assert (name, why) == ("b", authorities.AGENT_CERTIFICATES_OUTDATED)
        assert reason in message
    # A running tenant holds it, also beside an inactive one.
    means.super_client = TenantsClient({"a": {"spec": {}}, "b": fields}, {"a": old, "b": old})
    assert not await authorities._is_settled(means, state, keys_of_both, NOW)


@pytest.mark.parametrize("name", wellknown.SHARED_AUTHORITIES)
async def test_an_ended_authority_is_replaced_in_one_write_on_request(name):
    """REL-169."""
    secret_name = wellknown.SHARED_AUTHORITIES[name]
    super_client = RecordingClient()
    await authorities.reconcile_agent_trust(fake_means(super_client), keys.AGENT_TRUST_KEY)
    objects = {body["metadata"]["name"]: body for body in super_client.bodies}
    ended = authority.make_authority("old", now=NOW - timedelta(days=4000))
    secret = objects[secret_name]
    secret["data"] = bundles.build_key_pair_secret("x", "y", ended)["data"]
    secret["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    waiting = RecordingClient(objects)
    await authorities.reconcile_agent_trust(fake_means(waiting), keys.AGENT_TRUST_KEY)
    assert ("patch", secret_name) not in waiting.calls

    secret["metadata"]["annotations"] = {f"{wellknown.ROTATE_PREFIX}{name}": NOW.isoformat()}
    again = RecordingClient(objects)
    await authorities.reconcile_agent_trust(fake_means(again), keys.AGENT_TRUST_KEY)
    (patch,) = [body for body in again.bodies if wellknown.AUTHORITY_ROTATION in str(body)]
    assert patch["data"]["other.crt"] is None
    made = bundles.decode_base64(patch["data"]["tls.crt"])
    assert not checks.has_ended(made, NOW)
    secret["metadata"]["annotations"] |= patch["metadata"]["annotations"]
    served = RecordingClient(objects)
    await authorities.reconcile_agent_trust(fake_means(served), keys.AGENT_TRUST_KEY)
    assert ("patch", secret_name) not in served.calls


async def test_the_serving_authority_is_kept_until_its_end_whatever_is_requested():
    super_client = RecordingClient()
    await authorities.reconcile_agent_trust(fake_means(super_client), keys.AGENT_TRUST_KEY)
    objects = {body["metadata"]["name"]: body for body in super_client.bodies}
    metadata = objects[authorities.SERVING_CA_NAME]["metadata"]
    metadata["annotations"] = {f"{wellknown.ROTATE_PREFIX}agent-serving": NOW.isoformat()}
    again = RecordingClient(objects)
    await authorities.reconcile_agent_trust(fake_means(again), keys.AGENT_TRUST_KEY)
    assert again.calls == []
