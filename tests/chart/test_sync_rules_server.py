"""Rights of shipped SyncRules, on a real API server with the controller that aggregates roles."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeio.api.client import Client
from tenancy import wellknown
from tenancy.resources import CLUSTER_ROLES, SYNC_RULES
from tenancy.sync_rules.rights import build_super_rules, is_granted
from tenancy.sync_rules.specs import parse_sync_rule
from tests.chart.conftest import ChartApiServer
from tests.support.controlplane import LocalControlPlane, serving
from tests.support.eventually import eventually
from tests.support.helm import CHART, RELEASE

pytestmark = [pytest.mark.integration, pytest.mark.thorough]

AGGREGATION = "clusterrole-aggregation-controller"
ENABLED = "syncRules.dynamicResources.enabled=true"
OWN_ROLE = {
    "apiVersion": CLUSTER_ROLES.api_version,
    "kind": "ClusterRole",
    "metadata": {
        "name": "sync-rule:widgets",
        "labels": {wellknown.AGGREGATE_TO_SYNCER: "true"},
    },
    "rules": [{"apiGroups": ["shop.example.io"], "resources": ["widgets"], "verbs": ["get"]}],
}


@pytest.fixture(scope="module")
def aggregating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChartApiServer]:
    """An API server with the aggregation of ClusterRoles, and the chart with its rules."""
    folder: Path = tmp_path_factory.mktemp("aggregation")
    plane = LocalControlPlane(folder, name="aggregation", controllers=(AGGREGATION,))
    with serving(plane):
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_bytes(plane.kubeconfig())
        kubeconfig.chmod(0o600)
        running = ChartApiServer(plane=plane, kubeconfig=kubeconfig)
        running.helm("install", RELEASE, str(CHART), "--create-namespace", "--set", ENABLED)
        yield running


async def test_rights_of_rules_come_and_go_with_their_roles(aggregating: ChartApiServer):
    async with Client(aggregating.plane.endpoint) as client:

        async def list_granted() -> list[dict]:
            role = await client.get(CLUSTER_ROLES, wellknown.SYNCER_RULES_ROLE)
            return role.get("rules") or []

        items = (await client.list(SYNC_RULES))["items"]
        rules = [parse_sync_rule(each) for each in items]
        assert {rule.name for rule in rules} == {"resourceclaims", "deviceclasses"}
        wanted = build_super_rules(rules)
        await eventually(list_granted, until=lambda found: is_granted(wanted, found), within=60)

        # An upgrade must not conflict with the controller that writes the rules.
        aggregating.helm("upgrade", RELEASE, str(CHART), "--set", ENABLED)
        assert is_granted(wanted, await list_granted())

        added = OWN_ROLE["rules"]
        assert not is_granted(added, await list_granted())
        await client.create(CLUSTER_ROLES, OWN_ROLE)
        await eventually(list_granted, until=lambda found: is_granted(added, found), within=60)
        await client.delete(CLUSTER_ROLES, "sync-rule:widgets")
        await eventually(list_granted, until=lambda found: not is_granted(added, found), within=60)
        assert is_granted(wanted, await list_granted())
