"""Services, Events and addresses as either side sees them."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from syncer.model.rejections import RejectedError
from syncer.rules.network import services
from tests.support.syncer.tenant_views import view


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
    twin = services.build_service(tenant_service(), view())
    assert services.build_patch(live(twin, healthCheckNodePort=31000), twin) is None


def test_the_patch_names_what_went_from_a_map():
    twin = services.build_service(tenant_service(selector={"a": "1"}), view())
    body = services.build_patch(live(twin, selector={"a": "1", "b": "2"}), twin)
    assert body == {"metadata": {"uid": "below"}, "spec": {"selector": {"b": None}}}


def test_a_port_that_asks_for_no_number_keeps_its_own():
    twin = services.build_service(tenant_service(type="NodePort"), view())
    ports = [{**twin["spec"]["ports"][0], "nodePort": 30100}]
    assert services.build_patch(live(twin, ports=ports), twin) is None
    asked = services.build_service(
        tenant_service(type="NodePort", ports=[{**ports[0], "nodePort": 30200}]), view()
    )
    assert services.build_patch(live(twin, ports=ports), asked) is not None
    assert services.copy_live_ports(asked, live(twin, ports=ports), {0})["spec"]["ports"] == ports
    assert "nodePort" not in services.strip_node_ports(asked, {0})["spec"]["ports"][0]


def test_node_ports_and_load_balancers_go_up():
    own = tenant_service(type="NodePort")
    twin = services.build_service(own, view())
    real = live(twin, ports=[{**twin["spec"]["ports"][0], "nodePort": 30100}])
    body = services.build_ports_up(own, real)
    assert body is not None
    assert body["spec"]["ports"][0]["nodePort"] == 30100
    assert body["metadata"] == {"uid": "u", "resourceVersion": "5"}
    assert services.build_ports_up(tenant_service(ports=real["spec"]["ports"]), real) is None
    real["status"] = {"loadBalancer": {"ingress": [{"ip": "198.51.100.1"}]}}
    assert services.build_status_up(own, real) == {
        "metadata": {"uid": "u"},
        "status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.1"}]}},
    }
    own["status"] = {"loadBalancer": {"ingress": [{"ip": "198.51.100.1"}]}}
    assert services.build_status_up(own, real) is None
    assert services.build_status_up(own, live(twin)) == {
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
        services.build_service(tenant_service(**spec), view())
    assert [problem.rule for problem in raised.value.problems] == [rule]


def test_which_services_are_provided():
    assert view().is_provided_service("default", "kubernetes")
    assert view().is_provided_service("kube-system", "kube-dns")
    assert not view(dns="tenant").is_provided_service("kube-system", "kube-dns")
    assert not view().is_provided_service("web", "kubernetes")
    assert view(metrics="managed").is_provided_service("kube-system", "metrics-server")
    assert not view().is_provided_service("kube-system", "metrics-server")


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
    assert services.classify_refusal(problem) == about
