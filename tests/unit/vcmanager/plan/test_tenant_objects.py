import pytest

from kubeio import errors
from tenancy import wellknown
from tests.support.vcmanager.factories import RecordingClient
from vcmanager.plan import tenant_objects

DNS = "10.96.4.10"


def by_place(objects):
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def test_tenant_has_permissions_from_the_start():
    found = by_place(tenant_objects.build_objects(dns_address=""))
    for name, kind, role in (
        (wellknown.ADMINS_GROUP, "Group", "cluster-admin"),
        (wellknown.SYNCER_USER, "User", wellknown.SYNCER_USER),
    ):
        binding = found["ClusterRoleBinding", name]
        assert [(each["kind"], each["name"]) for each in binding["subjects"]] == [(kind, name)]
        assert binding["roleRef"]["name"] == role
    roles = {name for kind, name in found if kind == "ClusterRole"}
    bound = {each["roleRef"]["name"] for each in found.values() if "roleRef" in each}
    assert bound - {"cluster-admin"} == roles
    assert not any(kind == "Service" for kind, _ in found)


def test_dns_has_its_address_in_the_tenant():
    found = by_place(tenant_objects.build_objects(dns_address=DNS))
    spec = found["Service", "kube-dns"]["spec"]
    assert spec["clusterIP"] == DNS
    assert sorted(each["protocol"] for each in spec["ports"]) == ["TCP", "UDP"]
    assert "selector" not in spec
    assert ("ClusterRoleBinding", wellknown.DNS_USER) in found


@pytest.mark.parametrize("address", ["", DNS])
async def test_each_object_is_applied_and_marked(address):
    client = RecordingClient()
    await tenant_objects.apply_objects(client, dns_address=address)
    wanted = by_place(tenant_objects.build_objects(dns_address=address))
    assert by_place(client.bodies) == wanted
    kinds = {each.kind for each in tenant_objects.BOOTSTRAP_RESOURCES}
    assert {kind for kind, _ in wanted} <= kinds
    assert all(each["metadata"]["labels"][wellknown.BOOTSTRAP] == "true" for each in client.bodies)


async def test_default_account_shows_that_controllers_work():
    client = RecordingClient({"default": {}})
    assert await tenant_objects.has_controllers(client)
    assert not await tenant_objects.has_controllers(RecordingClient())
    client.problems["get", "default"] = errors.Unavailable("away")
    with pytest.raises(errors.Unavailable):
        await tenant_objects.has_controllers(client)
