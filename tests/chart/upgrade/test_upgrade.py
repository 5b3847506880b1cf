"""From the last release to this chart and back, with live tenants and the programs of both."""

import re
from pathlib import Path

import pytest

from kubeio.api.client import Client
from syncer.rbac import TENANT_RBAC_RULES
from tenancy import names, resources, wellknown
from tests.chart.gate import bind, record_levels
from tests.chart.upgrade import product as versions
from tests.chart.upgrade.conftest import Declare
from tests.chart.upgrade.product import CURRENT, InstalledProduct, ProductVersion
from tests.integration.syncer.objects import pod
from tests.support import declared_tenants, grants
from tests.support.controlplane import ACCOUNTS, LocalControlPlane
from tests.support.eventually import eventually
from tests.support.names import fresh_name

pytestmark = pytest.mark.integration


def test_the_release_is_one_archive_of_a_commit():
    archive = versions.find_archive()
    assert re.fullmatch(r"v\d+\.\d+\.\d+\.tar\.xz", archive.name)
    assert re.fullmatch(r"[0-9a-f]{40}", versions.read_commit(archive))


@pytest.mark.timeout(600)
async def test_a_control_plane_survives_the_upgrade_and_the_downgrade(
    product: InstalledProduct, release: ProductVersion, declare: Declare
):
    """REL-160: identities, keys, data and addresses stay, and nothing is refused."""
    await product.install(release)
    async with product.running(release, wellknown.MANAGER):
        tenant = await declare()
        await tenant.work()
        first, templates = await tenant.record(), await tenant.record_templates()
    steps = (
        (CURRENT, release),  # the pods of the old version still run while helm upgrades
        (CURRENT, CURRENT),
        (release, release),
    )
    for chart, program in steps:
        await product.install(chart)
        mark = product.plane.audit_mark()
        async with product.running(program, wellknown.MANAGER):
            await tenant.work()
        assert product.list_refusals(mark) == [], (chart.name, program.name)
        found = await tenant.record()
        kept = {key: value for key, value in found.items() if key in first}
        assert kept == first, (chart.name, program.name)
        changed = [
            name
            for name, template in (await tenant.record_templates()).items()
            if template != templates.get(name)
        ]
        print(f"chart {chart.name}, vc-manager {program.name}: changed templates {changed}")
    assert await tenant.record_templates() == templates


USER = "tenancy-syncer"
SLICE = "10.96.8.0/22"


@pytest.mark.timeout(600)
async def test_pods_of_a_tenant_survive_the_upgrade_and_the_downgrade(
    product: InstalledProduct, release: ProductVersion, tmp_path: Path
):
    """REL-160: the syncer of each version goes on with the pods of the other one."""
    inside = LocalControlPlane(
        tmp_path / "tenant", name="tenant", service_range=SLICE, controllers=(ACCOUNTS,)
    )
    await inside.start()
    try:
        await product.install(release)
        async with Client(inside.endpoint) as tenant_client:
            await grants.grant(tenant_client, TENANT_RBAC_RULES, USER)
            tenant = await declared_tenants.enlist(
                product.admin,
                {"syncer": inside.kubeconfig(USER, group="")},
                name=fresh_name("vc"),
                service_range=SLICE,
            )
            await record_levels(product.admin, {tenant.uid: "baseline baseline"})
            await bind(product.admin, tenant.root, wellknown.SYNCER_CREDENTIAL_ROLE)
            below = names.build_super_namespace(tenant.root, tenant.uid, "default")

            async def twins() -> dict[str, str]:
                page = await product.admin.list(resources.PODS, namespace=below)
                return {each["metadata"]["name"]: each["metadata"]["uid"] for each in page["items"]}

            known: dict[str, str] = {}
            steps = ((release, release), (CURRENT, release), (CURRENT, CURRENT), (release, release))
            for number, (chart, program) in enumerate(steps):
                await product.install(chart)
                mark = product.plane.audit_mark()
                async with product.running(program, wellknown.SYNCER):
                    name = f"web-{number}"
                    await tenant_client.create(resources.PODS, pod(name), namespace="default")
                    found = await eventually(
                        twins, until=lambda found, it=name: it in found, within=versions.PATIENCE
                    )
                assert product.list_refusals(mark) == [], (chart.name, program.name)
                assert {key: found[key] for key in known} == known
                known = found
    finally:
        await inside.stop()
