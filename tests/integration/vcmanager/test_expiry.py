"""A control plane all of whose certificates have ended, under the real programs."""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import resources
from tests.integration.vcmanager.conftest import ManagerStage, installed
from tests.integration.vcmanager.hosted_control_plane import HostTenant, on_host
from tests.integration.vcmanager.test_rotation import request, stage_of
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from vcmanager.pki import authority, bundles, checks, inventory, rotated_secrets

_QUIET = 3.0
"""Seconds in which a dead control plane must not come back."""


def list_leaf_secrets(tenant: HostTenant) -> list[str]:
    """Return the names of all Secrets with a certificate that is no authority."""
    facts = tenant.certificate_facts
    leaves = [row.secret for row in inventory.list_leaves(facts)]
    return [*leaves, *(row.secret for row in inventory.list_logins(facts))]


async def read_expiries(tenant: HostTenant) -> dict[str, datetime]:
    """Return the end of each certificate."""
    found = {}
    for name in list_leaf_secrets(tenant):
        with contextlib.suppress(errors.NotFound):
            secret = await tenant.stage.secret(tenant.cluster, name)
            if name in secret["data"]:
                pair = bundles.read_kubeconfig_key_pair(bundles.read_data(secret, name))
            else:
                pair = bundles.read_key_pair(secret)
            assert pair is not None, name
            found[name] = checks.get_expiry(pair)
    return found


def days_ago(stage: ManagerStage, days: int) -> ManagerStage:
    """Return the stage with a manager whose clock is behind."""
    means = replace(stage.means, now=lambda: datetime.now(UTC) - timedelta(days=days))
    return replace(stage, means=means)


async def expire(tenant: HostTenant) -> None:
    """Replace each certificate by one that the manager issued 400 days ago."""
    stage, root = tenant.stage, tenant.stage.root(tenant.cluster)
    for name in await read_expiries(tenant):
        await stage.admin.delete(resources.SECRETS, name, namespace=root)
    await days_ago(stage, 400).work(tenant.cluster)


async def end_authorities(tenant: HostTenant) -> None:
    """Replace each authority by one that has ended, and issue all certificates from them."""
    stage, root = tenant.stage, tenant.stage.root(tenant.cluster)
    for name, secret in inventory.AUTHORITIES.items():
        ended = authority.make_authority(name, now=datetime.now(UTC) - timedelta(days=4000))
        data = bundles.build_key_pair_secret(secret, root, ended)["data"]
        await stage.admin.patch(resources.SECRETS, secret, {"data": data}, namespace=root)
    await expire(tenant)


async def roll(stage: ManagerStage, cluster: Object) -> None:
    """Work and replace pods until the VirtualCluster is ready."""

    async def is_ready() -> bool:
        await stage.work(cluster)
        await stage.end_pods(cluster)
        with contextlib.suppress(errors.NotFound):  # a Deployment was faster
            await stage.run_pods(cluster)
        found = await stage.condition(cluster, "Ready")
        return found is not None and found["status"] == "True"

    await eventually(is_ready, within=60)


@pytest.fixture
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    """A super cluster whose authority of agents no earlier test created.

    No certificate can begin before its authority, and this test issues certificates in the past.
    """
    with installed(tmp_path_factory.mktemp("expiry")) as made:
        yield made


@pytest.mark.thorough
@pytest.mark.timeout(240)
async def test_a_control_plane_whose_certificates_have_all_ended_comes_back_by_itself(
    stage: ManagerStage, tmp_path: Path
):
    """REL-166."""
    cluster = await stage.declare(dns="none")
    await days_ago(stage, 500).work(cluster)  # no certificate begins before its authority
    async with on_host(stage, cluster, tmp_path) as tenant:
        async with Client(await tenant.endpoint("admin")) as admin:
            await admin.create(resources.NAMESPACES, {"metadata": {"name": "kept"}})
        names = set(await read_expiries(tenant))
        assert {"apiserver-ca", "etcd-ca", "admin-kubeconfig"} <= names
        await tenant.stop()
        await expire(tenant)
        ended = await read_expiries(tenant)
        assert set(ended) == names
        assert max(ended.values()) < datetime.now(UTC)

        await tenant.start()
        await asyncio.sleep(_QUIET)
        with pytest.raises(errors.KubeError):
            async with Client(await tenant.endpoint("manager")) as manager:
                await manager.raw("GET", "/readyz")
        await tenant.stop()

        await stage.bring_up(cluster)
        renewed = await read_expiries(tenant)
        assert set(renewed) == names
        assert min(renewed.values()) > datetime.now(UTC) + timedelta(days=30)
        await tenant.start("etcd", "apiserver")
        await tenant.await_ready()
        await tenant.start("controller-manager")
        async with Client(await tenant.endpoint("admin")) as admin:
            await admin.get(resources.NAMESPACES, "kept")
            await admin.create(resources.NAMESPACES, {"metadata": {"name": "new"}})
            await eventually(
                lambda: admin.get(resources.SERVICE_ACCOUNTS, "default", namespace="new"),
                within=60,
            )


@pytest.mark.thorough
@pytest.mark.timeout(240)
async def test_a_control_plane_whose_authorities_have_ended_comes_back_by_a_rotation(
    stage: ManagerStage, tmp_path: Path
):
    """REL-168."""
    cluster = await stage.declare(dns="none")
    await days_ago(stage, 500).work(cluster)
    async with on_host(stage, cluster, tmp_path) as tenant:
        async with Client(await tenant.endpoint("admin")) as admin:
            await admin.create(resources.NAMESPACES, {"metadata": {"name": "kept"}})
        await tenant.stop()
        await end_authorities(tenant)
        ended = {
            name: (await tenant.pair(name)).certificate for name in ("apiserver-ca", "etcd-ca")
        }

        await stage.work(cluster, times=3)
        found = await stage.condition(cluster, "CertificatesReady")
        assert found is not None
        assert (found["status"], found["reason"]) == ("False", "AuthorityExpired")
        names = " ".join(f"--authority {name}" for name in inventory.AUTHORITIES)
        command = f"kubectl vc certs rotate {cluster['metadata']['name']} {names}"
        assert command in found["message"]
        for name, certificate in ended.items():
            assert (await tenant.pair(name)).certificate == certificate

        await request(stage, cluster, *inventory.AUTHORITIES)
        await roll(stage, cluster)
        for name in rotated_secrets.ROTATED_SECRETS:
            state, _ = await stage_of(stage, cluster, name)
            assert state.stage == "stable"
        await tenant.start("etcd", "apiserver")
        await tenant.await_ready()
        await tenant.start("controller-manager")
        async with Client(await tenant.endpoint("admin")) as admin:
            await admin.get(resources.NAMESPACES, "kept")
            await admin.create(resources.NAMESPACES, {"metadata": {"name": "new"}})
            await eventually(
                lambda: admin.get(resources.SERVICE_ACCOUNTS, "default", namespace="new"),
                within=60,
            )
