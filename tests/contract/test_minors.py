"""One list of Kubernetes minors: what vc-manager knows, the testbed builds and the chart ships."""

import pytest
import yaml

from clusterversions import catalog
from tenancy.specs import ClusterVersionSpec
from tests.node import minors
from tools.testbed.artifacts import images, product
from tools.testbed.versions import load
from vcmanager.plan import versions

BUILT = {each.minor: each.version for each in load().kubernetes}
MINORS = catalog.list_minors()


def test_every_known_minor_is_built_and_shipped():
    chart = product.REPOSITORY / "charts" / "virtual-cluster" / "values.yaml"
    shipped = yaml.safe_load(chart.read_text())["clusterVersions"]["items"]
    assert {name: spec["kubernetesVersion"] for name, spec in shipped.items()} == {
        f"v{minor}": minor for minor in MINORS
    }
    assert set(BUILT) == set(MINORS)


def test_the_default_minor_is_that_of_the_super_cluster_of_the_tests():
    assert load().kubernetes[0].minor == catalog.DEFAULT_MINOR


def test_there_is_a_kubectl_of_the_newest_minor_and_of_the_two_before():
    newest = load().kubernetes[0].number
    assert [f"1.{newest - step}" for step in range(3)] == list(minors.MINORS)


def test_the_page_of_supported_versions_has_each_minor():
    page = (product.REPOSITORY / "docs" / "support.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith("| tenant |")]
    tested = ", ".join(BUILT[minor] for minor in MINORS)
    assert f"| {', '.join(MINORS)} | {tested}. The default is {catalog.DEFAULT_MINOR} |" in row


@pytest.mark.parametrize("minor", MINORS)
def test_what_a_minor_means_is_what_the_testbed_has_images_of(minor: str):
    release = versions.resolve_release("v", ClusterVersionSpec(kubernetes_version=minor))
    assert release.versions.kubernetes == BUILT[minor]
    wanted = set(versions.build_images(images.PREFIX, release.versions).values())
    assert wanted <= {recipe.name for recipe in images.for_tenants()}


@pytest.mark.parametrize("minor", MINORS)
def test_tenants_api_servers_ask_for_create_before_a_websocket(minor: str):
    """SEC-22: since 1.35 an exec by GET needs the right to create. Nothing turns that off."""
    major, number = map(int, minor.split("."))
    assert (major, number) >= (1, 35)
    data = product.REPOSITORY / "clusterversions"
    for path in sorted(each for each in data.rglob("*") if each.is_file()):
        assert b"AuthorizePodWebsocketUpgradeCreatePermission" not in path.read_bytes(), path
