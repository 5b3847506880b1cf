"""Secrets of certificates: authorities are created once, leaves are kept, renewed and repaired."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tenancy import resources, wellknown
from tests.integration.vcmanager.conftest import ManagerStage
from vcmanager.pki import bundles, inventory

ROOTS = (*inventory.AUTHORITIES.values(), "serviceaccount-rsa")


async def data(stage: ManagerStage, cluster) -> dict[str, dict[str, str]]:
    page = await stage.admin.list(resources.SECRETS, namespace=stage.root(cluster))
    return {each["metadata"]["name"]: each["data"] for each in page["items"]}


async def digest(stage: ManagerStage, cluster, name: str) -> str:
    found = await stage.admin.get(resources.STATEFUL_SETS, name, namespace=stage.root(cluster))
    return found["spec"]["template"]["metadata"]["annotations"][wellknown.SECRETS_DIGEST]


def later(stage: ManagerStage, **of: float) -> ManagerStage:
    """Return the stage with a manager whose clock is ahead."""
    means = replace(stage.means, now=lambda: datetime.now(UTC) + timedelta(**of))
    return replace(stage, means=means)


async def test_roots_and_leaves_stay_the_same_over_many_looks(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.work(cluster)
    before = await data(stage, cluster)
    await stage.work(cluster, times=5)
    assert await data(stage, cluster) == before


@pytest.mark.parametrize("name", ["apiserver-ca", "admin-kubeconfig", "apiserver-kubelet-client"])
async def test_a_leaf_that_is_lost_is_recreated_and_nothing_else(stage: ManagerStage, name):
    cluster = await stage.declare()
    await stage.work(cluster)
    before = await data(stage, cluster)
    await stage.admin.delete(resources.SECRETS, name, namespace=stage.root(cluster))
    await stage.work(cluster)
    after = await data(stage, cluster)
    assert {each for each in after if after[each] != before[each]} == {name}


@pytest.mark.parametrize("name", ROOTS)
async def test_a_root_that_is_lost_holds_the_tenant_until_it_is_restored(stage: ManagerStage, name):
    cluster = await stage.declare()
    await stage.work(cluster)
    root = await stage.secret(cluster, name)
    await stage.admin.delete(resources.SECRETS, name, namespace=stage.root(cluster))
    await stage.work(cluster, times=2)
    assert name not in await data(stage, cluster)
    found = await stage.condition(cluster, "CertificatesReady")
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "AuthorityLost")
    assert name in found["message"]
    restored = {key: root[key] for key in ("apiVersion", "kind", "type", "data")}
    restored["metadata"] = {"name": name, "namespace": stage.root(cluster)}
    await stage.admin.create(resources.SECRETS, restored)
    await stage.work(cluster)
    found = await stage.condition(cluster, "CertificatesReady")
    assert found is not None
    assert found["status"] == "True"


async def test_a_broken_root_is_never_written_over(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.work(cluster)
    broken = {"data": {"tls.key": "bm9uc2Vuc2U="}}
    await stage.admin.patch(
        resources.SECRETS, "etcd-authority", broken, namespace=stage.root(cluster)
    )
    await stage.work(cluster, times=2)
    assert (await data(stage, cluster))["etcd-authority"]["tls.key"] == "bm9uc2Vuc2U="
    found = await stage.condition(cluster, "CertificatesReady")
    assert found is not None
    assert found["reason"] == "AuthorityBroken"


async def test_a_renewal_rolls_only_programs_that_read_their_files_once(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.bring_up(cluster)
    names = ("etcd", "apiserver", "controller-manager")
    before = await data(stage, cluster)
    digests = [await digest(stage, cluster, name) for name in names]
    await later(stage, days=59).work(cluster)
    assert await data(stage, cluster) == before
    assert [await digest(stage, cluster, name) for name in names] == digests
    await later(stage, days=67).work(cluster)
    after = await data(stage, cluster)
    assert {each for each in after if after[each] == before[each]} == set(ROOTS)
    # Only the kubeconfig of the controller manager is not read again.
    kept = [await digest(stage, cluster, name) for name in names]
    assert kept[:2] == digests[:2]
    assert kept[2] != digests[2]


async def test_the_next_look_is_when_a_certificate_is_due(stage: ManagerStage):
    cluster = await stage.declare(pkiExpireDays=1)
    await stage.bring_up(cluster)
    near = await later(stage, hours=15, minutes=55).work(cluster)
    # Renewed 16 h after the start, plus up to a fifth of the 8 h that are left.
    assert 1 <= near.after <= 300 + 8 * 3600 / 5


async def test_a_shorter_life_takes_effect_at_once(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.work(cluster)
    before = await data(stage, cluster)
    await stage.admin.patch(
        resources.VIRTUAL_CLUSTERS,
        cluster["metadata"]["name"],
        {"spec": {"pkiExpireDays": 7}},
        namespace="default",
    )
    await stage.work(cluster)
    after = await data(stage, cluster)
    assert {each for each in after if after[each] == before[each]} == set(ROOTS)


async def test_agents_authorities_are_the_managers_own_and_published(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.work(cluster)
    namespace = stage.means.namespace
    published = await stage.admin.get(
        resources.CONFIG_MAPS, wellknown.AGENT_CLIENT_TRUST, namespace=namespace
    )
    authority = await stage.admin.get(resources.SECRETS, "vn-agent-client-ca", namespace=namespace)
    pair = bundles.read_key_pair(authority)
    assert pair is not None
    assert published["data"]["client-ca.crt"].encode() == pair.certificate
    tenants = await data(stage, cluster)
    assert not any(authority["data"]["tls.key"] in each.values() for each in tenants.values())
