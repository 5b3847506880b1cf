"""Rotation of authorities against a real API server, under the gate on the manager's account."""

import asyncio
import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from kubeio import Object, errors
from tenancy import resources, wellknown
from tests.integration.vcmanager.conftest import ManagerStage
from vcmanager.agents import authorities
from vcmanager.pki import bundles, inventory, rotated_secrets, rotation
from vcmanager.pki.rotation import RotatedName
from vcmanager.runtime import keys

DAY = timedelta(days=1)


def at(stage: ManagerStage, now: datetime) -> ManagerStage:
    """Return the stage with a manager whose clock shows a time."""
    return replace(stage, means=replace(stage.means, now=lambda: now))


async def request(stage: ManagerStage, cluster: Object, *names: RotatedName, force: bool = False):
    prefix = wellknown.FORCE_DROP_PREFIX if force else wellknown.ROTATE_PREFIX
    now = datetime.now(UTC).isoformat()
    annotations = {f"{prefix}{name}": now for name in names}
    await stage.admin.patch(
        resources.VIRTUAL_CLUSTERS,
        cluster["metadata"]["name"],
        {"metadata": {"annotations": annotations}},
        namespace="default",
    )


async def stage_of(stage: ManagerStage, cluster: Object, name: RotatedName):
    secret = await stage.secret(cluster, rotated_secrets.ROTATED_SECRETS[name])
    return rotated_secrets.read_rotation(name, secret)


async def roll(stage: ManagerStage, cluster: Object) -> None:
    """Work and replace pods until every stage is settled."""
    for _ in range(300):
        await stage.work(cluster)
        states = [
            (await stage_of(stage, cluster, name))[0] for name in rotated_secrets.ROTATED_SECRETS
        ]
        if all(state.stage == "stable" or state.settled for state in states):
            return
        await stage.end_pods(cluster)
        with contextlib.suppress(errors.NotFound):  # a Deployment was faster
            await stage.run_pods(cluster)
        await asyncio.sleep(0.1)
    raise AssertionError(f"never settled: {states}")


async def trust(stage: ManagerStage, cluster: Object) -> dict[str, str]:
    found = await stage.admin.get(resources.CONFIG_MAPS, "trust", namespace=stage.root(cluster))
    return found["data"]


def count(pem: str) -> int:
    return pem.count("BEGIN CERTIFICATE")


async def test_all_authorities_of_a_tenant_rotate_in_stages(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.bring_up(cluster)
    names = tuple(rotated_secrets.ROTATED_SECRETS)
    first = {name: (await stage_of(stage, cluster, name))[1].current for name in names}
    await request(stage, cluster, *names)

    await stage.work(cluster)
    for name in names:
        state, pairs = await stage_of(stage, cluster, name)
        assert (state.stage, state.settled) == ("trust-both", None)
        assert pairs.current == first[name]
    files = await trust(stage, cluster)
    assert {key: count(value) for key, value in files.items()} == {
        "agents.crt": 1,
        **dict.fromkeys(("serving.crt", "client.crt", "etcd.crt", "front-proxy.crt"), 2),
    }
    kubeconfig = bundles.read_data(
        await stage.secret(cluster, "admin-kubeconfig"), "admin-kubeconfig"
    ).decode()
    assert bundles.encode_base64(files["serving.crt"].encode()) in kubeconfig

    # No time alone moves it: the pods do not have the files yet.
    now = datetime.now(UTC)
    await at(stage, now + 2 * DAY).work(cluster, times=3)
    state, _ = await stage_of(stage, cluster, "etcd")
    assert (state.stage, state.settled) == ("trust-both", None)

    await roll(stage, cluster)
    for name in names:
        state, _ = await stage_of(stage, cluster, name)
        assert (state.stage, state.settled is not None) == ("trust-both", True)

    later = at(stage, now + 2 * DAY)
    await later.work(cluster)
    for name in names:
        state, pairs = await stage_of(stage, cluster, name)
        assert state.stage == "issue-new"
        assert pairs.current != first[name]
        assert pairs.other.certificate == first[name].certificate
    authority = (await stage_of(stage, cluster, "serving"))[1].current
    leaf = bundles.read_key_pair(await stage.secret(cluster, "apiserver-ca"))
    x509.load_pem_x509_certificate(leaf.certificate).verify_directly_issued_by(
        x509.load_pem_x509_certificate(authority.certificate)
    )
    await roll(later, cluster)
    condition = await stage.condition(cluster, "CertificatesReady")
    assert "issue-new" in condition["message"]

    # The client authority is kept for 90 days, and the others are dropped after a day. A token of
    # the old ServiceAccount key without an end holds that key.
    token = await stage.tenants.client.create(
        resources.SECRETS,
        {
            "metadata": {
                "name": "ci",
                "annotations": {"kubernetes.io/service-account.name": "default"},
            },
            "type": "kubernetes.io/service-account-token",
        },
        namespace="default",
    )
    last = at(stage, now + 4 * DAY)
    for _ in range(300):
        await last.work(cluster)
        state, _ = await stage_of(stage, cluster, "service-account")
        if state.held:
            break
        await stage.end_pods(cluster)
        with contextlib.suppress(errors.NotFound):  # a Deployment was faster
            await stage.run_pods(cluster)
        await asyncio.sleep(0.1)
    assert "default/ci (never seen in use)" in state.held
    assert state.stage == "issue-new"
    await last.work(cluster)
    table = await stage.tenants.client.get(
        resources.CONFIG_MAPS, wellknown.CERTIFICATES, namespace=wellknown.CERTIFICATES_NAMESPACE
    )
    assert "default/ci (never seen in use)" in table["data"][wellknown.ROTATIONS_KEY]
    condition = await stage.condition(cluster, "CertificatesReady")
    assert "service-account" in condition["message"]
    assert "is not dropped: Secrets of the tenant" in condition["message"]
    await stage.tenants.client.delete(
        resources.SECRETS, token["metadata"]["name"], namespace="default"
    )
    await last.work(cluster, times=2)
    stages = {name: (await stage_of(stage, cluster, name))[0].stage for name in names}
    assert stages == {**dict.fromkeys(names, "stable"), "client": "issue-new"}
    await roll(at(stage, now + 4 * DAY), cluster)
    await request(stage, cluster, "client", force=True)
    await at(stage, now + 4 * DAY).work(cluster)
    assert (await stage_of(stage, cluster, "client"))[0].stage == "stable"
    files = await trust(stage, cluster)
    assert {count(value) for value in files.values()} == {1}
    await at(stage, now + 4 * DAY).work(cluster, times=3)
    assert (await stage_of(stage, cluster, "client"))[0].stage == "stable"


async def test_a_half_rotated_authority_is_named_and_not_touched(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.bring_up(cluster)
    await request(stage, cluster, "serving")
    await stage.work(cluster)
    before = await stage.secret(cluster, "apiserver-ca")
    await stage.admin.patch(
        resources.SECRETS,
        "root-ca",
        {"data": {"other.crt": None}},
        namespace=stage.root(cluster),
    )
    await stage.work(cluster)
    found = await stage.condition(cluster, "CertificatesReady")
    assert (found["status"], found["reason"]) == ("False", "AuthorityBroken")
    assert "root-ca" in found["message"]
    assert (await stage.secret(cluster, "apiserver-ca"))["data"] == before["data"]


@pytest.mark.parametrize("value", ["soon", "2999-01-01T00:00:00+00:00", "2026-01-01T00:00:00"])
async def test_a_request_without_a_valid_time_starts_nothing(stage: ManagerStage, value: str):
    cluster = await stage.declare()
    annotations = {f"{wellknown.ROTATE_PREFIX}etcd": value}
    await stage.admin.patch(
        resources.VIRTUAL_CLUSTERS,
        cluster["metadata"]["name"],
        {"metadata": {"annotations": annotations}},
        namespace="default",
    )
    await stage.work(cluster)
    assert (await stage_of(stage, cluster, "etcd"))[0] == rotation.RotationState()


async def test_the_agents_client_authority_rotates_for_all_tenants(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.bring_up(cluster)
    place = {"namespace": stage.means.namespace}
    name = wellknown.AGENT_CLIENT_AUTHORITY_SECRET

    async def read():
        secret = await stage.admin.get(resources.SECRETS, name, **place)
        return rotated_secrets.read_rotation("agent-client", secret)

    async def annotate(prefix: str):
        stamp = {f"{prefix}agent-client": datetime.now(UTC).isoformat()}
        body = {"metadata": {"annotations": stamp}}
        await stage.admin.patch(resources.SECRETS, name, body, **place)

    async def reconcile(now: datetime, times: int = 2):
        for _ in range(times):
            await authorities.reconcile_agent_trust(at(stage, now).means, keys.AGENT_TRUST_KEY)

    async def trusted() -> int:
        found = await stage.admin.get(resources.CONFIG_MAPS, wellknown.AGENT_CLIENT_TRUST, **place)
        return count(found["data"]["client-ca.crt"])

    now = datetime.now(UTC)
    await annotate(wellknown.ROTATE_PREFIX)
    await reconcile(now)
    state, pairs = await read()
    assert (state.stage, state.settled is not None, await trusted()) == ("trust-both", True, 2)
    old = pairs.current
    await reconcile(now + DAY, times=1)
    state, pairs = await read()
    assert (state.stage, pairs.current != old) == ("issue-new", True)

    # A tenant with a certificate of the old authority keeps it, even with force.
    await annotate(wellknown.FORCE_DROP_PREFIX)
    await reconcile(now + 9 * DAY, times=3)
    assert (await read())[0].settled is None
    await stage.work(cluster)
    leaf = bundles.read_key_pair(await stage.secret(cluster, "apiserver-kubelet-client"))
    x509.load_pem_x509_certificate(leaf.certificate).verify_directly_issued_by(
        x509.load_pem_x509_certificate(pairs.current.certificate)
    )
    # Tenants of other tests share the authority. Some cannot be reconciled, on purpose.
    for secret in inventory.AGENT_CLIENT_SECRETS:
        found = await stage.admin.list(resources.SECRETS, field_selector=f"metadata.name={secret}")
        for each in found["items"]:
            namespace = each["metadata"]["namespace"]
            if namespace != stage.root(cluster):
                await stage.admin.delete(resources.SECRETS, secret, namespace=namespace)
    await reconcile(now + 10 * DAY, times=1)
    assert (await read())[0].settled is not None
    await reconcile(now + 12 * DAY)
    assert (await read())[0].stage == "stable"
    assert await trusted() == 1
