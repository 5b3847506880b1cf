"""Services, Events and addresses as either side sees them."""

from __future__ import annotations

import ipaddress
from typing import Any

import orjson
import pytest

from kubeio import errors
from kubeio.cache.store import Store, parse
from syncer.model.rejections import RejectedError
from syncer.model.tenant_view import TenantView
from syncer.rules import events
from syncer.rules.network import cluster_ips, services
from tenancy import ownership, wellknown
from tenancy.ownership import Tenant
from tenancy.specs import VirtualClusterSpec

TENANT = Tenant(name="vc", namespace="default", uid="vc-uid", root="default-abc123-vc")
KINDS = ("Namespace", "Service", "ConfigMap", "Secret", "Node", "Pod")


def view(**spec: Any) -> TenantView:
    """Return a look at a tenant with empty caches."""
    return TenantView(
        tenant=TENANT,
        spec=VirtualClusterSpec(cluster_version_name="v", **spec),
        slice=ipaddress.ip_network("10.96.8.0/22"),
        stores={kind: Store() for kind in KINDS},
    )


def tenant_service(**spec: Any) -> dict[str, Any]:
    """Return a Service as the tenant's API hands it out."""
    return {
        "metadata": {"name": "s", "namespace": "web", "uid": "u", "resourceVersion": "5"},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "10.96.8.9",
            "clusterIPs": ["10.96.8.9"],
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            **spec,
        },
    }


def live(twin: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return the twin as the super cluster's API hands it out."""
    return {
        "metadata": {**twin["metadata"], "uid": "below"},
        "spec": {**twin["spec"], "ipFamilies": ["IPv4"], **spec},
    }


def test_a_twin_that_was_filled_in_needs_no_patch():
    twin = services.service(tenant_service(), view())
    assert services.patch(live(twin, healthCheckNodePort=31000), twin) is None


def test_the_patch_names_what_went_from_a_map():
    twin = services.service(tenant_service(selector={"a": "1"}), view())
    body = services.patch(live(twin, selector={"a": "1", "b": "2"}), twin)
    assert body == {"metadata": {"uid": "below"}, "spec": {"selector": {"b": None}}}


def test_a_port_that_asks_for_no_number_keeps_its_own():
    twin = services.service(tenant_service(type="NodePort"), view())
    ports = [{**twin["spec"]["ports"][0], "nodePort": 30100}]
    assert services.patch(live(twin, ports=ports), twin) is None
    asked = services.service(
        tenant_service(type="NodePort", ports=[{**ports[0], "nodePort": 30200}]), view()
    )
    assert services.patch(live(twin, ports=ports), asked) is not None
    assert services.with_live_ports(asked, live(twin, ports=ports), {0})["spec"]["ports"] == ports
    assert "nodePort" not in services.without_node_ports(asked, {0})["spec"]["ports"][0]


def test_node_ports_and_load_balancers_go_up():
    own = tenant_service(type="NodePort")
    twin = services.service(own, view())
    real = live(twin, ports=[{**twin["spec"]["ports"][0], "nodePort": 30100}])
    body = services.ports_up(own, real)
    assert body is not None
    assert body["spec"]["ports"][0]["nodePort"] == 30100
    assert body["metadata"] == {"uid": "u", "resourceVersion": "5"}
    assert services.ports_up(tenant_service(ports=real["spec"]["ports"]), real) is None
    real["status"] = {"loadBalancer": {"ingress": [{"ip": "198.51.100.1"}]}}
    assert services.status_up(own, real) == {
        "metadata": {"uid": "u"},
        "status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.1"}]}},
    }
    own["status"] = {"loadBalancer": {"ingress": [{"ip": "198.51.100.1"}]}}
    assert services.status_up(own, real) is None
    assert services.status_up(own, live(twin)) == {
        "metadata": {"uid": "u"},
        "status": {"loadBalancer": {"ingress": None}},
    }


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ({"clusterIP": "10.0.0.1"}, "service-ip"),
        ({"clusterIP": "not-an-ip"}, "service-ip"),
        ({"externalIPs": ["192.0.2.1"]}, "external-ips"),
        ({"loadBalancerIP": "192.0.2.1"}, "load-balancer"),
        ({"surprise": "x"}, "unknown-field"),
    ],
)
def test_services_that_are_refused(spec, rule):
    with pytest.raises(RejectedError) as raised:
        services.service(tenant_service(**spec), view())
    assert [problem.rule for problem in raised.value.problems] == [rule]


def test_which_services_are_provided():
    assert view().is_provided("default", "kubernetes")
    assert view().is_provided("kube-system", "kube-dns")
    assert not view(dns="tenant").is_provided("kube-system", "kube-dns")
    assert not view().is_provided("web", "kubernetes")
    assert view(metrics="managed").is_provided("kube-system", "metrics-server")
    assert not view().is_provided("kube-system", "metrics-server")


@pytest.mark.parametrize(
    ("field", "about"),
    [
        ("spec.ports[0].nodePort", "port"),
        ("spec.clusterIPs", "address"),
        ("spec.clusterIP", "address"),
        ("spec.selector", ""),
    ],
)
def test_what_a_refusal_is_about(field, about):
    problem = errors.Invalid("x", details={"causes": [{"field": field}]})
    assert services.refusal(problem) == about


def event(**about: Any) -> dict[str, Any]:
    """Return a super Event about a twin."""
    return {
        "metadata": {"name": "p.17", "namespace": f"{TENANT.root}-web"},
        "involvedObject": {
            "kind": "Pod",
            "apiVersion": "v1",
            "namespace": f"{TENANT.root}-web",
            "name": "p",
            "uid": "below",
            "fieldPath": "spec.containers{main}",
            "resourceVersion": "7",
            **about,
        },
        "reason": "BackOff",
        "message": f"restarting failed container main in pod p_{TENANT.root}-web(below)",
        "type": "Warning",
        "count": 3,
        "source": {"component": "kubelet", "host": "n1"},
    }


TWIN = {
    "uid": "below",
    "annotations": {
        **ownership.annotations(TENANT, "web", "above"),
        wellknown.CONTAINERS: "setup,main,debugger",
    },
}


def test_an_event_is_told_about_the_tenants_object():
    told = events.told(event(), TWIN, view(), name="p", clean=str)
    assert told is not None
    assert told["metadata"] == {"name": "p.17", "namespace": "web"}
    assert told["involvedObject"] == {
        "kind": "Pod",
        "apiVersion": "v1",
        "namespace": "web",
        "name": "p",
        "uid": "above",
        "fieldPath": "spec.containers{main}",
    }
    assert told["message"] == "restarting failed container main in pod p_web(above)"
    assert TENANT.root not in str(told)


def test_an_event_about_another_object_of_the_name_stays_below():
    foreign = {"uid": "below", "annotations": {}}
    assert events.told(event(uid="earlier"), TWIN, view(), name="p", clean=str) is None
    assert events.told(event(), foreign, view(), name="p", clean=str) is None


@pytest.mark.parametrize(
    ("path", "is_told"),
    [
        ("", True),
        ("spec.containers{main}", True),
        ("spec.initContainers{setup}", True),
        ("spec.ephemeralContainers{debugger}", True),
        ("spec.containers{vault-agent}", False),
        ("spec.initContainers{vault-agent-init}", False),
        ("spec.containers{main,setup}", False),
        ("spec.containers[1]", False),
        ("implicitly required container POD", False),
    ],
)
def test_an_event_about_a_container_of_others_stays_below(path, is_told):
    found = event()
    found["involvedObject"]["fieldPath"] = path
    assert (events.told(found, TWIN, view(), name="p", clean=str) is not None) is is_told


def test_an_event_of_the_newer_api_keeps_its_series_and_reporter():
    new = {
        **event(),
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "series": {"count": 4, "lastObservedTime": "2026-01-01T00:01:00.000000Z", "odd": 1},
        "reportingComponent": "kubelet",
        "reportingInstance": f"{TENANT.root}-x",
        "action": "Restarting",
        "related": {"kind": "Node", "name": "secret"},
    }
    told = events.told(new, TWIN, view(), name="p", clean=lambda text: text.replace("n1", "n"))
    assert told is not None
    assert told["series"] == {"count": 4, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}
    assert (told["reportingComponent"], told["reportingInstance"]) == ("kubelet", "x")
    assert told["source"] == {"component": "kubelet", "host": "n"}
    assert "related" not in told
    growth = events.growth(told)
    assert set(growth) == {"count", "message", "series", "type"}


def test_no_text_of_an_event_names_the_super_cluster():
    """Whoever writes Events may put anything into any of these."""
    below = f"{TENANT.root}-web"
    texts = ("action", "message", "reason", "reportingComponent", "reportingInstance")
    named = {
        **event(),
        **dict.fromkeys(texts, f"of {below}/p on secret-1"),
        "source": {"component": f"of {below}/p on secret-1", "host": "secret-1"},
    }
    told = events.told(
        named, TWIN, view(), name="p", clean=lambda text: text.replace("secret-1", "a-node")
    )
    assert told is not None
    assert {told[field] for field in texts} == {"of web/p on a-node"}
    assert told["source"] == {"component": "of web/p on a-node", "host": "a-node"}
    assert TENANT.root not in str(told)


def test_events_beyond_the_budget_are_dropped():
    now = 0.0
    budget = events.Budget(per_second=10, burst=3, clock=lambda: now)
    assert [budget.take() for _ in range(5)] == [True, True, True, False, False]
    now = 0.1
    assert [budget.take() for _ in range(2)] == [True, False]


def test_addresses_of_others_are_reserved():
    look = view()
    namespace = parse(b'{"metadata":{"name":"web","uid":"u"},"kind":"Namespace"}')
    look.stores["Namespace"].put(namespace, live=True)

    def held_in(name: str) -> dict[str, Any]:
        return {"spec": {"parentRef": {"resource": "services", "namespace": name, "name": "s"}}}

    assert cluster_ips.is_taken_by_others(held_in("default"), look)
    assert cluster_ips.is_taken_by_others(held_in("other-tenant-web"), look)
    assert not cluster_ips.is_taken_by_others(held_in(f"{TENANT.root}-web"), look)
    assert not cluster_ips.is_taken_by_others(held_in(TENANT.root), look)


@pytest.mark.parametrize("crowd", [0, 2000])
def test_the_addresses_of_a_slice_are_found_among_few_and_among_many(crowd):
    """Whichever are fewer are gone through: the slice has 1,024, of which the store has two."""
    store, names = Store(), ["10.96.8.77", "10.96.11.255", "10.96.12.1", "fd00::1", "nonsense"]
    names += [f"10.97.{number // 256}.{number % 256}" for number in range(crowd)]
    for name in names:
        store.put(parse(orjson.dumps({"metadata": {"name": name, "uid": name}})), live=True)
    assert [entry.name for entry in cluster_ips.in_slice(store, view().slice)] == names[:2]
