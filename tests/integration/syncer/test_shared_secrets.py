"""A pull secret that vc-manager gave to the tenant, in the hands of a tenant's pod."""

from __future__ import annotations

from tenancy import wellknown
from tenancy.resources import PODS, SECRETS
from tests.integration.syncer.objects import pod
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.world import SyncerWorld
from tests.support.eventually import eventually
from vcmanager.plan.content import shared_objects


async def test_pods_use_it_as_any_secret_and_its_marks_stay_in_the_tenant(synced: SyncerWorld):
    space = await synced.namespace()
    source = {
        "metadata": {"name": "pull"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": "e30="},
    }
    shared = shared_objects.build_object("Secret", space, source)
    await synced.tenant_client.create(SECRETS, shared)
    await synced.tenant_client.create(
        PODS, pod("x", imagePullSecrets=[{"name": "pull"}]), namespace=space
    )
    await eventually(lambda: synced.twin(PODS, space, "x"))
    twin = await eventually(lambda: synced.twin(SECRETS, space, "pull"))
    assert (twin["type"], twin["data"]) == (source["type"], source["data"])
    assert wellknown.SHARED not in twin["metadata"]["labels"]
    assert "SyncRejected" not in {event["reason"] for event in await synced.events(space)}
    other = shared_objects.build_object(
        "Secret", space, {**source, "data": {".dockerconfigjson": "e30K"}}
    )
    await synced.tenant_client.patch(SECRETS, "pull", {"data": other["data"]}, namespace=space)
    await eventually(
        lambda: synced.twin(SECRETS, space, "pull"),
        until=lambda body: body["data"] == other["data"],
    )
    await synced.tenant_client.delete(PODS, "x", namespace=space)
    await synced.tenant_client.delete(SECRETS, "pull", namespace=space)
    await gone(lambda: synced.twin(SECRETS, space, "pull"))
