"""Services: types, classes, names and numbers that a policy or the super cluster refuses."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from syncer.model.rejections import ForbiddenObjectError, RejectedError
from syncer.rules.network import services
from tenancy import wellknown
from tests.support.syncer.tenant_views import as_live, network_view, object_of, policy, view

PORT = {"port": 80, "protocol": "TCP", "targetPort": 80}
ADDRESS = {"clusterIP": "10.96.8.9", "clusterIPs": ["10.96.8.9"]}


def service(**spec: Any) -> dict[str, Any]:
    """Return a Service as the tenant's API hands it out."""
    return object_of("Service", spec={"type": "ClusterIP", **ADDRESS, "ports": [PORT], **spec})


def external(name: Any) -> dict[str, Any]:
    """Return a Service that stands for a name."""
    return object_of("Service", spec={"type": "ExternalName", "externalName": name})


def invalid(*fields: str) -> errors.Invalid:
    """Return a refusal about these fields."""
    return errors.Invalid("no", details={"causes": [{"field": field} for field in fields]})


@pytest.mark.parametrize("kind", ["ClusterIP", "NodePort", "LoadBalancer"])
def test_types_by_policy(kind):
    view = network_view(policy=policy(network={"serviceTypes": ["ClusterIP"]}))
    if kind == "ClusterIP":
        assert services.build_service(service(type=kind), view)
        return
    with pytest.raises(ForbiddenObjectError) as refused:
        services.build_service(service(type=kind), view)
    (problem,) = refused.value.problems
    assert (problem.rule, problem.path) == ("service-type", "spec.type")
    assert "ClusterIP" in problem.text


def test_load_balancer_classes_by_policy():
    own = service(type="LoadBalancer", loadBalancerClass="example.com/lb")
    with pytest.raises(ForbiddenObjectError):
        services.build_service(own, network_view())
    view = network_view(policy=policy(network={"loadBalancerClasses": ["example.com/lb"]}))
    twin = services.build_service(own, view)
    assert twin["spec"]["loadBalancerClass"] == "example.com/lb"
    with pytest.raises(ForbiddenObjectError):
        services.build_service(service(loadBalancerClass=["example.com/lb"]), view)


@pytest.mark.parametrize(
    ("name", "below"),
    [
        ("example.org", "example.org."),
        ("grafana.monitoring", "grafana.monitoring."),
        ("pod-0.db.data", "pod-0.db.data."),
        ("4.example.org.", "4.example.org."),
        ("db.data.svc", "db.default-abc123-vc-data.svc.super.local."),
        ("DB.data.svc.cluster.local", "db.default-abc123-vc-data.svc.super.local."),
        ("db.data.svc.cluster.local.", "db.default-abc123-vc-data.svc.super.local."),
    ],
)
def test_names_of_this_cluster_lead_into_this_cluster(name, below):
    view = network_view(super_domain="super.local")
    assert services.build_service(external(name), view)["spec"]["externalName"] == below


@pytest.mark.parametrize(
    "name",
    [
        "localhost",
        "a.b.c.svc.cluster.local",
        "1-2-3-4.web.pod.cluster.local",
        "cluster.local",
        "x.cluster.local",
        "svc",
        "a.svc",
        "169.254.169.254",
        "10.96.0.1",
        "198.51.100.7",
        "127.1",
        "127.1.",
        "169.254.43518",
        "127.0x1",
        "127.0x",
        "kube-dns.kube-system.svc.super.local",
        "KUBE-DNS.kube-system.svc.super.local.",
        "x.super.local",
        "super.local",
        "example.org..",
        ["example.org"],
    ],
)
def test_names_that_lead_elsewhere_are_rejected(name):
    with pytest.raises(RejectedError):
        services.build_service(external(name), network_view(super_domain="super.local"))


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ({"clusterIPs": 5}, "malformed"),
        ({"selector": ["a"]}, "malformed"),
        ({"type": ["ClusterIP"]}, "service-type"),
    ],
)
def test_services_that_are_rejected(spec, rule):
    with pytest.raises(RejectedError) as rejected:
        services.build_service(service(**spec), network_view())
    assert {problem.rule for problem in rejected.value.problems} == {rule}


INTERNAL = "service.beta.kubernetes.io/aws-load-balancer-internal"
TYPES = {
    "ClusterIP": ({}, False),
    "headless": ({"clusterIP": "None", "clusterIPs": ["None"]}, False),
    "ExternalName": ({"type": "ExternalName", "externalName": "example.org"}, False),
    "NodePort": ({"type": "NodePort"}, True),
    "LoadBalancer": ({"type": "LoadBalancer"}, True),
}


@pytest.mark.parametrize("shape", TYPES)
@pytest.mark.parametrize(
    ("annotations", "unknown", "passed"),
    [
        ({}, [], []),
        ({"note": "x"}, [], ["note"]),
        ({"note": "x", INTERNAL: "true"}, [INTERNAL], ["note"]),
        ({"a.example/b": "1", INTERNAL: "true"}, ["a.example/b", INTERNAL], []),
        ({"meta.helm.sh/release-name": "r", "prometheus.io/scrape": "true"}, [], []),
        ({"service.kubernetes.io/topology-mode": "Auto"}, [], None),
        ({wellknown.UID: "forged"}, [], []),
        ({"listed.example/a": "1", INTERNAL: "true"}, [INTERNAL], ["listed.example/a"]),
        ({"opaque.example/a": "1"}, [], []),
    ],
)
def test_an_annotation_holds_a_service_only_if_clients_outside_reach_it(
    shape, annotations, unknown, passed
):
    spec, is_exposed = TYPES[shape]
    limits = {
        "annotations": {"Service": ["listed.example/a"]},
        "opaquePrefixes": ["opaque.example/"],
    }
    view = network_view(policy=policy(metadata=limits))
    own = service(**spec)
    own["metadata"]["annotations"] = annotations
    if is_exposed and unknown:
        with pytest.raises(RejectedError) as rejected:
            services.build_service(own, view)
        (problem,) = rejected.value.problems
        assert problem.path == f"metadata.annotations[{unknown[0]}]"
        assert services.find_adjustments(own, view) == []
    else:
        twin = services.build_service(own, view)["metadata"]["annotations"]
        there = annotations.keys() if passed is None else set(passed)
        assert {key: twin[key] for key in there} == {key: annotations[key] for key in there}
        assert not (annotations.keys() - there - {wellknown.UID}) & twin.keys()
        assert twin[wellknown.UID] == "u"
        problems = services.find_adjustments(own, view)
        paths = [f"metadata.annotations[{', '.join(unknown)}]"] if unknown else []
        assert [problem.path for problem in problems] == paths
    for problem in problems if not (is_exposed and unknown) else rejected.value.problems:
        assert "spec.metadata.annotations.Service of the TenantPolicy" in problem.text


@pytest.mark.parametrize("key", [wellknown.CONTROLLED, "topology.kubernetes.io/zone"])
def test_a_selector_by_a_label_that_is_not_synced_names_its_translated_key(key):
    own = service(selector={"app": "web", key: "a"})
    twin = services.build_service(own, network_view())
    assert twin["spec"]["selector"] == {"app": "web", wellknown.translate_label_key(key): "a"}
    assert services.build_patch(as_live(twin), twin) is None
    other = services.build_service(service(selector={"app": "web"}), network_view())
    changed = services.build_patch(as_live(twin), other)
    assert changed is not None
    assert changed["spec"] == {"selector": {wellknown.translate_label_key(key): None}}


@pytest.mark.parametrize(
    ("there", "wanted", "remade"),
    [
        ({}, {}, False),
        ({}, {"clusterIP": "None"}, True),
        ({"clusterIP": "None"}, {}, True),
        ({}, {"clusterIP": "10.96.8.10"}, True),
        ({"clusterIP": ""}, {}, False),
        ({"ipFamilies": ["IPv4"]}, {"ipFamilies": ["IPv6", "IPv4"]}, True),
        ({"ipFamilies": ["IPv4"]}, {"ipFamilies": ["IPv4", "IPv6"]}, False),
        ({"type": "NodePort"}, {"type": "LoadBalancer", "loadBalancerClass": "a"}, False),
        ({"type": "LoadBalancer"}, {"type": "LoadBalancer", "loadBalancerClass": "a"}, True),
        ({"type": "LoadBalancer", "loadBalancerClass": "a"}, {"type": "LoadBalancer"}, False),
    ],
)
def test_what_a_living_service_never_changes(there, wanted, remade):
    twin = {"spec": {**service()["spec"], **wanted}}
    live = {"spec": {**service()["spec"], **there}}
    assert services.must_recreate(live, twin) is remade


def test_a_default_class_of_the_super_cluster_stays():
    twin = services.build_service(service(type="LoadBalancer"), network_view())
    given = as_live(twin, spec={**twin["spec"], "loadBalancerClass": "default"})
    assert services.build_patch(given, twin) is None


def test_only_refused_ports_are_given_up():
    ports = [{**PORT, "nodePort": 30001}, {"port": 81, "protocol": "TCP", "nodePort": 30002}]
    own = service(type="NodePort", ports=ports)
    twin = services.build_service(own, network_view())
    refused = services.parse_refused_ports(invalid("spec.ports[1].nodePort"), twin)
    bare = services.strip_node_ports(twin, refused)
    assert [port.get("nodePort") for port in bare["spec"]["ports"]] == [30001, None]
    there = {"spec": {"ports": [{**PORT, "nodePort": 31001}, {**ports[1], "nodePort": 31002}]}}
    kept = services.copy_live_ports(twin, there, refused)
    assert [port.get("nodePort") for port in kept["spec"]["ports"]] == [30001, 31002]
    assert services.list_requested_ports(own, refused) == ["spec.ports[1].nodePort 30002"]
    assert services.parse_refused_ports(invalid("spec.ports[9].nodePort"), twin) == {0, 1}


def test_conditions_go_up_without_super_names():
    twin = services.build_service(service(type="LoadBalancer"), network_view())
    below = twin["metadata"]["namespace"]
    said = {
        "type": "Ready",
        "status": "False",
        "reason": "Quota",
        "message": f"{below}/x of default-abc123-vc cannot be served",
        "observedGeneration": 7,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    body = services.build_status_up(service(), as_live(twin, status={"conditions": [said]}))
    assert body is not None
    (told,) = body["status"]["conditions"]
    assert told["message"] == "web/x of  cannot be served"
    assert "observedGeneration" not in told
    own = {**service(), "status": {"conditions": [told]}}
    assert services.build_status_up(own, as_live(twin, status={"conditions": [said]})) is None
    assert services.build_status_up({**service(), "status": ["x"]}, as_live(twin)) is None


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
        ("spec.ports[1].nodePort", "port"),
        ("spec.clusterIPs", "address"),
        ("spec.clusterIPs[0]", "address"),
        ("spec.clusterIP", "address"),
        ("spec.loadBalancerClass", "fixed"),
        ("spec.ipFamilies[0]", "fixed"),
        ("spec.sessionAffinity", ""),
        ("spec.selector", ""),
    ],
)
def test_what_a_refusal_is_about(field, about):
    assert services.classify_refusal(invalid(field)) == about
