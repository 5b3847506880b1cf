"""Services: equal IPs, node ports and load balancers up, and what is refused."""

from __future__ import annotations

from typing import Any

from kubeio import Object
from tenancy import wellknown
from tenancy.names import API_VARIABLES, SERVICE_VARIABLES
from tenancy.resources import CONFIG_MAPS, IP_ADDRESSES, PODS, SERVICES
from tests.integration.syncer.objects import pod
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.world import SyncerWorld
from tests.support.eventually import eventually


def service(name: str, **spec: Any) -> Object:
    """Return a tenant Service."""
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "name": "http"}], **spec},
    }


async def test_the_same_cluster_ip_on_both_sides(synced: SyncerWorld):
    space = await synced.namespace()
    made = await synced.tenant_client.create(SERVICES, service("web"), namespace=space)
    twin = await eventually(lambda: synced.twin(SERVICES, space, "web"))
    assert twin["spec"]["clusterIP"] == made["spec"]["clusterIP"]
    assert twin["spec"]["selector"] == {"app": "web"}
    since = synced.mark("super")
    await synced.idle()
    super_space = synced.super_namespace(space)
    assert [
        write for write in synced.writes("super", since) if write.namespace == super_space
    ] == []


async def test_headless_and_external_name(synced: SyncerWorld):
    space = await synced.namespace()
    await synced.tenant_client.create(SERVICES, service("bare", clusterIP="None"), namespace=space)
    await synced.tenant_client.create(
        SERVICES,
        {
            "metadata": {"name": "away"},
            "spec": {"type": "ExternalName", "externalName": "example.org"},
        },
        namespace=space,
    )
    bare = await eventually(lambda: synced.twin(SERVICES, space, "bare"))
    away = await eventually(lambda: synced.twin(SERVICES, space, "away"))
    assert bare["spec"]["clusterIP"] == "None"
    assert away["spec"]["externalName"] == "example.org."


async def test_every_change_of_type_arrives(synced: SyncerWorld):
    space = await synced.namespace()
    await synced.tenant_client.create(SERVICES, service("web"), namespace=space)
    await eventually(lambda: synced.twin(SERVICES, space, "web"))

    async def become(kind: str, **spec: Any) -> None:
        body = {"spec": {"type": kind, **spec}}
        await synced.tenant_client.patch(SERVICES, "web", body, namespace=space)
        await eventually(
            lambda: synced.twin(SERVICES, space, "web"),
            until=lambda twin: twin["spec"]["type"] == kind,
        )
        await synced.idle()
        own = await synced.tenant_client.get(SERVICES, "web", namespace=space)
        twin = await synced.twin(SERVICES, space, "web")
        assert own["spec"].get("clusterIP") == twin["spec"].get("clusterIP")
        ports = [port.get("nodePort") for port in own["spec"]["ports"]]
        assert ports == [port.get("nodePort") for port in twin["spec"]["ports"]]

    await become("NodePort")
    await become("LoadBalancer")
    await become("ClusterIP")
    await become("ExternalName", externalName="example.org", clusterIP=None, clusterIPs=None)
    await become("ClusterIP", externalName=None)


async def test_a_node_port_that_is_taken_in_the_super_cluster_is_shown_as_given(
    synced: SyncerWorld,
):
    space = await synced.namespace()
    number = 30084  # the lowest are given to no one who does not ask
    spec = {"type": "NodePort", "ports": [{"port": 80, "nodePort": number}]}
    await synced.super_client.create(
        SERVICES, {"metadata": {"name": f"squat-{number}"}, "spec": spec}, namespace="default"
    )
    wanted = service("web", type="NodePort")
    wanted["spec"]["ports"][0]["nodePort"] = number
    await synced.tenant_client.create(SERVICES, wanted, namespace=space)
    twin = await eventually(lambda: synced.twin(SERVICES, space, "web"))
    given = twin["spec"]["ports"][0]["nodePort"]
    assert given != number
    await eventually(
        lambda: synced.tenant_client.get(SERVICES, "web", namespace=space),
        until=lambda own: own["spec"]["ports"][0]["nodePort"] == given,
    )


async def test_a_node_port_that_the_tenant_chooses_later_is_asked_for(synced: SyncerWorld):
    space = await synced.namespace()
    made = await synced.tenant_client.create(
        SERVICES, service("web", type="NodePort"), namespace=space
    )
    await eventually(lambda: synced.twin(SERVICES, space, "web"))
    ports = [{**made["spec"]["ports"][0], "nodePort": 30085}]
    await synced.tenant_client.patch(SERVICES, "web", {"spec": {"ports": ports}}, namespace=space)
    await eventually(
        lambda: synced.twin(SERVICES, space, "web"),
        until=lambda twin: twin["spec"]["ports"][0]["nodePort"] == 30085,
    )
    await synced.idle()
    own = await synced.tenant_client.get(SERVICES, "web", namespace=space)
    assert own["spec"]["ports"][0]["nodePort"] == 30085


async def test_a_load_balancers_address_goes_up(synced: SyncerWorld):
    space = await synced.namespace()
    await synced.tenant_client.create(
        SERVICES, service("web", type="LoadBalancer"), namespace=space
    )
    await eventually(lambda: synced.twin(SERVICES, space, "web"))
    ingress = {"loadBalancer": {"ingress": [{"ip": "198.51.100.7"}]}}
    super_space = synced.super_namespace(space)
    await synced.super_client.patch(
        SERVICES, "web", {"status": ingress}, namespace=super_space, subresource="status"
    )
    await eventually(
        lambda: synced.tenant_client.get(SERVICES, "web", namespace=space),
        until=lambda own: "198.51.100.7" in str(own["status"]),
    )


async def test_provided_services_never_go_down(synced: SyncerWorld):
    await synced.idle()
    assert not await synced.has_twin(SERVICES, "default", "kubernetes")
    found = await synced.tenant_client.list(SERVICES, namespace="kube-system")
    if not found["items"]:
        address = str(synced.session.view.service_range[10])
        await synced.tenant_client.create(
            SERVICES, service("kube-dns", clusterIP=address), namespace="kube-system"
        )
    await synced.idle()
    assert not await synced.has_twin(SERVICES, "kube-system", "kube-dns")


async def test_an_address_taken_in_the_super_cluster_is_reserved_in_the_tenant_and_freed(
    synced: SyncerWorld,
):
    space = await synced.namespace()
    address = str(synced.session.view.service_range[41])
    await synced.super_client.create(
        SERVICES,
        {"metadata": {"name": "squatter"}, "spec": {"clusterIP": address, "ports": [{"port": 1}]}},
        namespace="default",
    )
    reserved = await eventually(lambda: synced.tenant_client.get(IP_ADDRESSES, address))
    assert reserved["metadata"]["labels"][wellknown.RESERVED_ADDRESS] == "true"
    await synced.super_client.delete(SERVICES, "squatter", namespace="default")
    await gone(lambda: synced.tenant_client.get(IP_ADDRESSES, address))
    await synced.tenant_client.create(SERVICES, service("web", clusterIP=address), namespace=space)
    await eventually(lambda: synced.twin(SERVICES, space, "web"))


async def test_an_address_that_cannot_be_had_gets_an_event_and_no_twin(synced: SyncerWorld):
    space = await synced.namespace()
    address = str(synced.session.view.service_range[42])
    session = synced.session
    session.work.is_ready = False  # the reservation comes too late
    squatter = {"clusterIP": address, "ports": [{"port": 1}]}
    await synced.super_client.create(
        SERVICES, {"metadata": {"name": "late"}, "spec": squatter}, namespace="default"
    )
    await synced.tenant_client.create(SERVICES, service("web", clusterIP=address), namespace=space)
    await eventually(lambda: session.connection.home_cluster.addresses.get("", address))
    session.work.is_ready = True
    session.work.enqueue(session.build_key("Service", space, "web"))
    found = await eventually(lambda: synced.events(space))
    assert [item["reason"] for item in found] == ["ServiceIPUnavailable"]
    assert not await synced.has_twin(SERVICES, space, "web")
    await synced.super_client.delete(SERVICES, "late", namespace="default")
    await eventually(lambda: synced.twin(SERVICES, space, "web"), within=30)


async def test_an_unknown_annotation_holds_an_exposed_service(synced: SyncerWorld):
    space = await synced.namespace()
    held = service("web")
    held["metadata"]["annotations"] = {"cloud.example/internal": "true"}
    held["spec"]["type"] = "NodePort"
    await synced.tenant_client.create(SERVICES, held, namespace=space)
    (told,) = await eventually(lambda: synced.events(space))
    assert "cloud.example/internal" in told["message"]
    assert not await synced.has_twin(SERVICES, space, "web")
    body = {"metadata": {"annotations": {"cloud.example/internal": None}}}
    await synced.tenant_client.patch(SERVICES, "web", body, namespace=space)
    await eventually(lambda: synced.twin(SERVICES, space, "web"))


async def test_a_pods_environment_knows_the_services_of_its_namespace(synced: SyncerWorld):
    space = await synced.namespace()
    made = await synced.tenant_client.create(SERVICES, service("my-db"), namespace=space)
    store = synced.session.stores["Service"]
    await eventually(lambda: store.get(space, "my-db"))
    await synced.tenant_client.create(PODS, pod("web"), namespace=space)
    await synced.tenant_client.create(PODS, pod("quiet", enableServiceLinks=False), namespace=space)
    twin = await eventually(lambda: synced.twin(PODS, space, "web"))
    quiet = await eventually(lambda: synced.twin(PODS, space, "quiet"))

    def sources(body: Object) -> list[str]:
        return [each["configMapRef"]["name"] for each in body["spec"]["containers"][0]["envFrom"]]

    async def variables_of(name: str) -> dict[str, str]:
        super_space = synced.super_namespace(space)
        found: dict[str, str] = (
            await synced.super_client.get(CONFIG_MAPS, name, namespace=super_space)
        )["data"]
        return found

    assert sources(twin) == [SERVICE_VARIABLES]
    variables = await variables_of(SERVICE_VARIABLES)
    assert variables["MY_DB_SERVICE_HOST"] == made["spec"]["clusterIP"]
    assert variables["MY_DB_SERVICE_PORT_HTTP"] == "80"
    assert variables["KUBERNETES_SERVICE_HOST"] == str(synced.session.view.service_range[1])
    assert sources(quiet) == [API_VARIABLES]
    assert "MY_DB_SERVICE_HOST" not in await variables_of(API_VARIABLES)
    assert "KUBERNETES_PORT_443_TCP_ADDR" in await variables_of(API_VARIABLES)
    # A container that starts again sees the Services of then.
    await synced.tenant_client.create(SERVICES, service("late"), namespace=space)
    await synced.tenant_client.delete(SERVICES, "my-db", namespace=space)
    await eventually(
        lambda: variables_of(SERVICE_VARIABLES),
        until=lambda found: "LATE_SERVICE_HOST" in found and "MY_DB_SERVICE_HOST" not in found,
    )
    # It is made again, and its content is put back.
    super_space = synced.super_namespace(space)
    await synced.super_client.delete(CONFIG_MAPS, SERVICE_VARIABLES, namespace=super_space)
    await eventually(lambda: variables_of(SERVICE_VARIABLES))
    body = {"data": {"LATE_SERVICE_HOST": "1.2.3.4"}}
    await synced.super_client.patch(CONFIG_MAPS, SERVICE_VARIABLES, body, namespace=super_space)
    await eventually(
        lambda: variables_of(SERVICE_VARIABLES),
        until=lambda found: found["LATE_SERVICE_HOST"] != "1.2.3.4",
    )
    # A tenant's own object of that name stays in the tenant.
    taken = {"metadata": {"name": SERVICE_VARIABLES}, "data": {"LATE_SERVICE_HOST": "mine"}}
    await synced.tenant_client.create(CONFIG_MAPS, taken, namespace=space)
    await synced.idle()
    assert (await variables_of(SERVICE_VARIABLES))["LATE_SERVICE_HOST"] != "mine"
