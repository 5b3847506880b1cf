"""Events in a tenant: one for each text, and never a reason to fail."""

from __future__ import annotations

import pytest

from kubeio import errors
from tests.support.syncer.sessions import RecordingClient
from tests.support.vcmanager.factories import fake_means
from vcmanager.phases.content import tenant_recorder

SECRET = {
    "kind": "Secret",
    "metadata": {"name": "x" * 250, "namespace": "web", "uid": "u"},
}


async def record(client: RecordingClient, message: str) -> None:
    await tenant_recorder.record(
        fake_means(RecordingClient()),  # type: ignore[arg-type]
        client,
        SECRET,
        reason="SharedNameTaken",
        message=message,
    )


async def test_the_same_text_is_one_event_about_the_object():
    client = RecordingClient()
    client.has("Namespace", "web", {})
    for message in ("one", "one", "two"):
        await record(client, message)
    names = {body["metadata"]["name"] for body in client.bodies}
    assert len(names) == 2
    assert all(len(name) <= 253 for name in names)
    assert client.bodies[0]["involvedObject"]["uid"] == "u"


@pytest.mark.parametrize("problem", [errors.Forbidden("no"), errors.Unavailable("away")])
async def test_a_tenant_that_refuses_it_costs_nothing(problem):
    client = RecordingClient()
    client.refusals["create Event"] = problem
    await record(client, "one")
