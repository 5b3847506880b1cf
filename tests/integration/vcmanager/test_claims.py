"""Slices against the real allocator of the super cluster."""

from ipaddress import IPv4Network, ip_address, ip_network

import pytest

from kubeio import Object, errors
from tenancy import resources
from tests.integration.vcmanager.conftest import SERVICE_RANGE, ManagerStage
from vcmanager.plan import service_cidrs
from vcmanager.plan.service_cidrs import ServiceRange

WHOLE = ip_network(SERVICE_RANGE)


async def taken_by_somebody(stage: ManagerStage, name: str, address: str) -> None:
    body = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterIP": address, "ports": [{"port": 80}]},
    }
    await stage.admin.create(resources.SERVICES, body)


async def addresses(stage: ManagerStage, cluster) -> dict[str, str]:
    page = await stage.admin.list(resources.SERVICES, namespace=stage.root(cluster))
    return {each["metadata"]["name"]: each["spec"]["clusterIP"] for each in page["items"]}


async def slice_of(stage: ManagerStage, cluster) -> ServiceRange:
    return ServiceRange(ip_network((await stage.fresh(cluster))["status"]["serviceCidr"]))


async def nobodys(stage: ManagerStage) -> IPv4Network:
    """Return a part of the range of which no one has any address.

    Where the parts of tenants begin depends on their UIDs, and the server gives out any address.
    """
    page = await stage.admin.list(resources.SERVICES)
    others = [service_cidrs.read_claimed_range(each) for each in page["items"]]
    choices = service_cidrs.iterate_free_ranges(
        WHOLE, "asked for", [each.network for each in others if each]
    )
    page = await stage.admin.list(resources.IP_ADDRESSES)
    taken = [ip_address(each["metadata"]["name"]) for each in page["items"]]
    networks = (ip_network(each.network) for each in choices)
    return next(each for each in networks if not any(address in each for address in taken))


async def test_the_first_and_tenth_address_are_the_tenants(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.work(cluster)
    slice_, found = await slice_of(stage, cluster), await addresses(stage, cluster)
    assert slice_.network.subnet_of(WHOLE)
    assert slice_.network.prefixlen == 22
    assert (found["kubernetes"], found["kube-dns"]) == (slice_.api_address, slice_.dns_address)


async def test_two_tenants_never_share_an_address(stage: ManagerStage):
    clusters = [await stage.declare() for _ in range(5)]
    for cluster in clusters:
        await stage.work(cluster)
    found = [(await slice_of(stage, each)).network for each in clusters]
    assert not any(one.overlaps(other) for n, one in enumerate(found) for other in found[n + 1 :])


async def test_a_slice_stays_for_life(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.work(cluster)
    before = await slice_of(stage, cluster)
    await stage.work(cluster, times=2)
    assert await slice_of(stage, cluster) == before


async def two_choices(stage: ManagerStage, cluster: Object) -> tuple[ServiceRange, ServiceRange]:
    """Return the first two slices that a tenant can have: none of whose own addresses is taken."""
    services = (await stage.admin.list(resources.SERVICES))["items"]
    others = [service_cidrs.read_claimed_range(each) for each in services]
    used = {address for each in services for address in each["spec"].get("clusterIPs") or ()}
    choices = service_cidrs.iterate_free_ranges(
        WHOLE, cluster["metadata"]["uid"], [each.network for each in others if each]
    )
    free = (each for each in choices if not used & {each.api_address, each.dns_address})
    return next(free), next(free)


async def test_a_slice_whose_first_address_is_taken_is_passed_over(stage: ManagerStage):
    cluster = await stage.declare()
    first, second = await two_choices(stage, cluster)
    await taken_by_somebody(stage, f"first-{cluster['metadata']['name']}", first.api_address)
    await stage.work(cluster)
    assert await slice_of(stage, cluster) == second


async def test_a_slice_that_cannot_be_had_whole_is_given_back(stage: ManagerStage):
    cluster = await stage.declare()
    first, second = await two_choices(stage, cluster)
    await taken_by_somebody(stage, f"tenth-{cluster['metadata']['name']}", first.dns_address)
    await stage.work(cluster)
    assert await slice_of(stage, cluster) == second
    assert (await addresses(stage, cluster))["kubernetes"] == second.api_address


async def test_a_slice_may_be_asked_for(stage: ManagerStage):
    *_, asked = (await nobodys(stage)).subnets(new_prefix=27)
    cluster = await stage.declare(serviceCidr=str(asked))
    await stage.work(cluster)
    assert (await addresses(stage, cluster))["kubernetes"] == str(asked[1])
    assert (await stage.fresh(cluster))["status"]["serviceCidr"] == str(asked)


async def test_a_slice_inside_another_tenants_is_refused(stage: ManagerStage):
    wide = next((await nobodys(stage)).subnets(new_prefix=24))
    owner = await stage.declare(serviceCidr=str(wide))
    await stage.work(owner)
    cluster = await stage.declare(serviceCidr=f"{wide[128]}/28")
    await stage.work(cluster)
    ready = await stage.condition(cluster, "Ready")
    assert ready is not None
    assert ready["reason"] == "InvalidServiceCidr"
    assert "overlaps the range of another VirtualCluster" in ready["message"]
    assert stage.root(owner) not in ready["message"]
    assert str(wide) not in ready["message"]
    assert await addresses(stage, cluster) == {}


@pytest.mark.parametrize("number", [1, 10])
async def test_a_slice_asked_for_whose_address_is_taken_is_refused(stage: ManagerStage, number):
    asked = next((await nobodys(stage)).subnets(new_prefix=28))
    name = f"holder-{number}"
    await taken_by_somebody(stage, name, str(asked[number]))
    cluster = await stage.declare(serviceCidr=str(asked))
    await stage.work(cluster)
    ready = await stage.condition(cluster, "Ready")
    assert ready is not None
    assert ready["reason"] == "ServiceCidrTaken"
    assert await addresses(stage, cluster) == {}
    await stage.admin.delete(resources.SERVICES, name, namespace="default")
    await stage.work(cluster)
    assert "kubernetes" in await addresses(stage, cluster)
    await stage.tear_down(cluster)


async def test_the_slice_of_a_deleted_tenant_is_free_again(stage: ManagerStage):
    asked = next((await nobodys(stage)).subnets(new_prefix=27))
    for _ in range(2):
        cluster = await stage.declare(serviceCidr=str(asked))
        await stage.work(cluster)
        assert (await addresses(stage, cluster))["kubernetes"] == str(asked[1])
        await stage.tear_down(cluster)
        with pytest.raises(errors.NotFound):
            await stage.admin.get(resources.NAMESPACES, stage.root(cluster))
