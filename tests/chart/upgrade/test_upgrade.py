"""From the last release to this chart and back, with live tenants and the programs of both."""

import re

import pytest

from tenancy import wellknown
from tests.chart.upgrade import product as versions
from tests.chart.upgrade.conftest import Declare
from tests.chart.upgrade.product import CURRENT, InstalledProduct, ProductVersion

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
