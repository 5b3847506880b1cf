"""The rule for versions of our CustomResourceDefinitions (ADR 0043), against the last release."""

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tenancy import resources
from tests.chart.upgrade.conftest import Declare
from tests.chart.upgrade.definitions import find_breaks, list_fields
from tests.chart.upgrade.product import CURRENT, InstalledProduct, ProductVersion
from tests.support.eventually import eventually

FOLDER = "files/crds"


def read_definitions(chart: Path) -> dict[str, dict[str, Any]]:
    found = [yaml.safe_load(path.read_text()) for path in (chart / FOLDER).glob("*.yaml")]
    return {each["metadata"]["name"]: each for each in found}


def test_the_definitions_of_the_last_release_are_only_extended(release: ProductVersion):
    """REL-161. After a downgrade the API server drops the printed fields of each stored object."""
    old, new = read_definitions(release.chart), read_definitions(CURRENT.chart)
    assert old
    assert set(old) <= set(new)
    assert [fault for name in old for fault in find_breaks(old[name], new[name])] == []
    for name in sorted(new):
        added = list_fields(new[name]) - (list_fields(old[name]) if name in old else set())
        roots = [path for path in added if path.rpartition(".")[0].rstrip("[]{}") not in added]
        print(f"{name}: added since {release.name}: {', '.join(sorted(roots)) or 'nothing'}")


def _remove_field(schema: dict[str, Any]) -> None:
    del schema["properties"]["spec"]["properties"]["dns"]


def _require(schema: dict[str, Any]) -> None:
    schema["properties"]["spec"]["required"].append("dns")


def _narrow(schema: dict[str, Any]) -> None:
    schema["properties"]["spec"]["properties"]["dns"]["enum"].remove("none")


def _tighten(schema: dict[str, Any]) -> None:
    schema["properties"]["spec"]["properties"]["pkiExpireDays"]["maximum"] = 30


def _change_default(schema: dict[str, Any]) -> None:
    schema["properties"]["spec"]["properties"]["dns"]["default"] = "none"


def _change_pattern(schema: dict[str, Any]) -> None:
    schema["properties"]["spec"]["properties"]["clusterDomain"]["pattern"] = "^a$"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (_remove_field, "spec.dns: removed"),
        (_require, "spec: dns is now required"),
        (_narrow, "spec.dns: enum no longer has none"),
        (_tighten, "spec.pkiExpireDays: maximum is tighter"),
        (_change_default, "spec.dns: default changed from managed to none"),
        (_change_pattern, "spec.clusterDomain: pattern changed"),
    ],
)
def test_a_change_that_breaks_objects_of_the_release_is_found(change, fault):
    old = read_definitions(CURRENT.chart)["virtualclusters.tenancy.x-k8s.io"]
    new = copy.deepcopy(old)
    change(new["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    assert find_breaks(old, new) == [f"v1alpha1.{fault}"]


def test_a_version_that_is_no_longer_served_or_stored_is_found():
    old = read_definitions(CURRENT.chart)["virtualclusters.tenancy.x-k8s.io"]
    new = copy.deepcopy(old)
    (version,) = new["spec"]["versions"]
    later = {**copy.deepcopy(version), "name": "v1beta1"}
    new["spec"]["versions"] = [later, {**version, "storage": False}]
    assert find_breaks(old, new) == [
        "v1alpha1: no longer stored. Objects need a migration first",
    ]
    new["spec"]["versions"] = [later, {**version, "storage": False, "served": False}]
    assert find_breaks(old, new) == ["v1alpha1: no longer served"]
    new["spec"]["versions"] = [{**later, "storage": False}, version]
    assert find_breaks(old, new) == []


@pytest.fixture
def next_version(tmp_path: Path) -> ProductVersion:
    """A later version of this chart, whose VirtualCluster has one more field."""
    chart = tmp_path / "next" / "virtual-cluster"
    shutil.copytree(CURRENT.chart, chart)
    path = chart / FOLDER / "virtualclusters.yaml"
    body = yaml.safe_load(path.read_text())
    spec = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["addedLater"] = {"type": "string"}
    path.write_text(yaml.safe_dump(body))
    return ProductVersion(name="next", chart=chart, programs=CURRENT.programs)


@pytest.mark.integration
async def test_a_downgrade_hides_an_added_field_and_the_next_write_drops_it(
    product: InstalledProduct, next_version: ProductVersion, declare: Declare
):
    """REL-161: helm changes the definitions in both directions, and objects stay valid."""
    admin = product.admin
    await product.install(next_version)
    untouched, written = await declare(), await declare()

    async def get(tenant) -> dict[str, Any]:
        return await admin.get(resources.VIRTUAL_CLUSTERS, tenant.tenant.name, namespace="default")

    async def patch(tenant, body: dict[str, Any]) -> None:
        await admin.patch(resources.VIRTUAL_CLUSTERS, tenant.tenant.name, body, namespace="default")

    async def shows(tenant) -> bool:
        return "addedLater" in (await get(tenant))["spec"]

    for tenant in (untouched, written):
        await patch(tenant, {"spec": {"addedLater": "a"}})
        await eventually(lambda it=tenant: shows(it))
    spec = (await get(untouched))["spec"]

    await product.install(CURRENT)
    await eventually(lambda: shows(untouched), until=lambda found: not found)
    left = (await get(untouched))["spec"]
    assert left == {key: value for key, value in spec.items() if key != "addedLater"}
    await patch(written, {"metadata": {"labels": {"touched": "true"}}})

    await product.install(next_version)
    await eventually(lambda: shows(untouched))
    assert (await get(untouched))["spec"] == spec
    assert not await shows(written)


@pytest.mark.integration
async def test_a_new_kind_stays_after_a_downgrade(
    product: InstalledProduct, next_version: ProductVersion
):
    """REL-161: helm keeps a definition that the older chart does not know, with its objects."""
    path = next_version.chart / FOLDER / "virtualclusters.yaml"
    body = yaml.safe_load(path.read_text().replace("virtualcluster", "laterkind"))
    names = body["spec"]["names"]
    names.update(kind="LaterKind", listKind="LaterKindList", shortNames=["lk"])
    (path.parent / "laterkinds.yaml").write_text(yaml.safe_dump(body))
    await product.install(next_version)
    await product.install(CURRENT)
    kept = await product.admin.get(resources.CUSTOM_RESOURCE_DEFINITIONS, body["metadata"]["name"])
    assert kept["spec"]["names"]["kind"] == "LaterKind"
