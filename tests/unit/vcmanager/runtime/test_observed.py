import pytest

from kubeio import errors
from tenancy import wellknown
from tests.support.vcmanager.factories import TENANT, RecordingClient, pod
from vcmanager.runtime import observed
from vcmanager.runtime.observed import OBSERVED_KINDS, ObservedObjects


async def test_missing_namespace_has_no_objects():
    found = await observed.observe_objects(RecordingClient(), TENANT)
    assert found == ObservedObjects(namespace=None)
    assert found.get("Secret", "a") is None
    assert list(found.iterate_pods("etcd")) == []


async def test_listed_objects_have_their_type():
    client = RecordingClient({TENANT.root: {"metadata": {"name": TENANT.root}}})
    client.listed = [{"metadata": {"name": "a"}}]
    found = await observed.observe_objects(client, TENANT)
    for kind, resource in OBSERVED_KINDS.items():
        body = found.get(kind, "a")
        assert body is not None
        assert (body["kind"], body["apiVersion"]) == (kind, resource.api_version)
    assert set(found.objects) == set(OBSERVED_KINDS)


@pytest.mark.parametrize("verb", [("get", TENANT.root), ("list", "secrets"), ("list", "pods")])
async def test_failed_read_is_no_empty_answer(verb):
    client = RecordingClient({TENANT.root: {"metadata": {"name": TENANT.root}}})
    client.problems[verb] = errors.Unavailable("away")
    with pytest.raises(errors.Unavailable):
        await observed.observe_objects(client, TENANT)


def test_pods_of_a_component():
    pods = [pod("etcd-0", "etcd"), pod("web", "other"), {"metadata": {"name": "plain"}}]
    pods[0]["metadata"]["labels"] = {wellknown.COMPONENT: "etcd"}
    by_name = {each["metadata"]["name"]: each for each in pods}
    found = ObservedObjects(namespace={}, objects={"Pod": by_name})
    assert [each["metadata"]["name"] for each in found.iterate_pods("etcd")] == ["etcd-0"]
