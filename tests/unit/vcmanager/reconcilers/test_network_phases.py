"""Reads of nodes and of the TenantPolicy by the phases of the network."""

from dataclasses import replace

import pytest

from tests.support.vcmanager.factories import RecordingClient
from tests.support.vcmanager.phase_runs import FinishedObjects, new_run, write
from vcmanager.reconcilers.phase_run import PhaseDone


@pytest.mark.parametrize(
    ("policies", "service_type", "lists"),
    [
        (True, "NodePort", 1),
        (True, "LoadBalancer", 1),
        (False, "NodePort", 1),
        (False, "LoadBalancer", 0),
    ],
)
async def test_nodes_are_listed_once_if_needed(
    finished, monkeypatch, policies, service_type, lists
):
    listed = []

    class NodeClient(RecordingClient):
        async def list(self, resource, **_):
            listed.append(resource.plural)
            return {"items": []}

    async def write_services(*_):
        return {"spec": {"clusterIP": "10.96.0.9", "type": service_type}}

    monkeypatch.setattr(FinishedObjects, "write_services", write_services)
    run = new_run(NodeClient())
    settings = replace(run.context.settings, network_policies=policies)
    run.context = replace(run.context, settings=settings)
    assert await write(run) == PhaseDone()
    assert listed.count("nodes") == lists


@pytest.mark.parametrize("ranges", [[], ["10.128.0.0/14"]])
async def test_the_ranges_of_the_tenant_policy_close_the_api(finished, monkeypatch, ranges):
    written = []

    async def write_additional(_, manifests):
        written.extend(manifests)

    monkeypatch.setattr(FinishedObjects, "write_additional", write_additional)
    policy = {"metadata": {"name": "baseline"}, "spec": {"network": {"superRanges": ranges}}}
    run = new_run(RecordingClient({"baseline": policy}))
    settings = replace(run.context.settings, network_policies=True)
    run.context = replace(run.context, settings=settings)
    assert await write(run) == PhaseDone()
    (api,) = [each for each in written if each["metadata"]["name"] == "apiserver"]
    (rule,) = api["spec"]["ingress"]
    blocks = [peer["ipBlock"] for peer in rule["from"] if "ipBlock" in peer]
    assert [each.get("except", []) for each in blocks if each["cidr"] == "0.0.0.0/0"] == [ranges]
