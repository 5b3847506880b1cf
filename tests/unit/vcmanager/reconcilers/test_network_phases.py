"""Reads of nodes by the phases of the network."""

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
