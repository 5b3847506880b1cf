"""Services, nodes, Events and addresses as either side sees them."""

from __future__ import annotations

import copy
import ipaddress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubeio import errors
from kubeio.store import Store, parse
from syncer.agents import Agent
from syncer.rejections import RejectedError
from syncer.special import addresses, events, node_additions, nodes, services
from syncer.special.node_additions import Added, Taint
from syncer.view import TenantView
from tenancy import marks, ownership
from tenancy.ownership import Tenant
from tenancy.policies import NodeView
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


def super_node() -> dict[str, Any]:
    """Return a node as a kubelet keeps it."""
    return {
        "metadata": {
            "name": "n1",
            "uid": "node-uid",
            "labels": {
                "kubernetes.io/hostname": "n1",
                "node-role.kubernetes.io/control-plane": "",
                "cloud.example/rack": "7",
                "disk": "ssd",
            },
            "annotations": {"secret": "x"},
        },
        "spec": {
            "podCIDR": "10.1.0.0/24",
            "providerID": "aws:///i-123",
            "taints": [{"key": "k", "effect": "NoExecute", "timeAdded": "x"}],
        },
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": "192.0.2.1"},
                {"type": "ExternalIP", "address": "203.0.113.1"},
            ],
            "capacity": {"cpu": "4"},
            "allocatable": {"cpu": "3"},
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "lastHeartbeatTime": "now",
                    "lastTransitionTime": "then",
                }
            ],
            "nodeInfo": {"machineID": "m", "systemUUID": "s", "kubeletVersion": "v1.36.4"},
            "images": [{"names": ["secret"]}],
            "declaredFeatures": ["A"],
        },
    }


NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def status_of(below: Any, agent: Agent | None, view: NodeView = "Standard") -> Any:
    """Return the status of a virtual node that is not there yet."""
    return nodes.status(below, agent, view, now=NOW)


def directness(status: Any) -> Any:
    """Return the one condition that says how the node's pods are reached."""
    (found,) = [each for each in status["conditions"] if each["type"] == marks.KUBELET_DIRECT]
    return found


def test_a_virtual_node_shows_what_a_tenant_may_see():
    shown, status = nodes.node(super_node()), status_of(super_node(), Agent("10.2.0.5"))
    assert shown["metadata"]["labels"] == {
        "kubernetes.io/hostname": "n1",
        "disk": "ssd",
        marks.VIRTUAL_NODE: "true",
    }
    assert shown["metadata"]["annotations"][marks.UID] == "node-uid"
    assert shown["spec"] == {"taints": [{"key": "k", "effect": "NoExecute"}]}
    assert status["addresses"] == [
        {"type": "InternalIP", "address": "192.0.2.1"},
        {"type": marks.AGENT_ADDRESS, "address": "10.2.0.5"},
    ]
    assert status["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 10550
    assert status["declaredFeatures"] == ["A"]
    assert status["nodeInfo"]["machineID"] == ""
    assert status["nodeInfo"]["kubeletVersion"] == "v1.36.4"
    for secret in ("secret", "aws", "203.0.113.1", "lastHeartbeatTime"):
        assert secret not in str(shown) + str(status)


def test_a_node_without_its_agent_is_as_ready_as_before():
    """REL-93: what is synced does not need agents; calls alone have nowhere to go."""
    with_agent, without = (status_of(super_node(), each) for each in (Agent("10.2.0.5"), None))
    agent = {"type": marks.AGENT_ADDRESS, "address": "10.2.0.5"}
    assert without == {
        **with_agent,
        "addresses": [each for each in with_agent["addresses"] if each != agent],
        "conditions": [*with_agent["conditions"][:-1], without["conditions"][-1]],
    }
    found = without["conditions"][-1]
    assert (found["type"], found["status"]) == (marks.KUBELET_DIRECT, "Unknown")


@pytest.mark.parametrize(
    ("agent", "status", "reason"),
    [
        (Agent("10.2.0.5"), "True", "Kubelet"),
        (Agent("10.2.0.5", marks.AGENT_AROUND), "False", "KubeletUntrusted"),
        (Agent("10.2.0.5", marks.AGENT_CONFIGURED), "False", "Configured"),
        (None, "Unknown", "NoAgent"),
    ],
)
def test_a_condition_names_the_way_to_a_nodes_pods_and_why(agent, status, reason):
    """What does not work on a node, its tenant reads there."""
    found = directness(status_of(super_node(), agent))
    assert (found["status"], found["reason"]) == (status, reason)
    assert found["lastTransitionTime"] == "2026-01-02T03:04:05Z"
    assert ("kubectl top" in found["message"]) == (status == "False")


def test_the_time_of_the_condition_is_when_it_became_so():
    """Or every node would be written for each Event that says the same again."""
    before = {"status": status_of(super_node(), Agent("10.2.0.5"))}
    later = NOW + timedelta(hours=1)
    same = nodes.status(super_node(), Agent("10.2.0.6"), "Standard", before, now=later)
    assert directness(same) == directness(before["status"])
    other = nodes.status(super_node(), None, "Standard", before, now=later)
    assert directness(other)["lastTransitionTime"] == "2026-01-02T04:04:05Z"


def test_a_super_nodes_condition_of_our_kind_is_not_shown_twice():
    """A tenant's cluster may be a super cluster; an API server refuses two of one type."""
    below = super_node()
    ours = {"type": marks.KUBELET_DIRECT, "status": "True"}
    odd = {**below, "status": {**below["status"]}}
    odd["status"]["conditions"] = [*below["status"]["conditions"], ours]
    assert status_of(odd, None) == status_of(below, None)
    assert nodes.node(odd) == nodes.node(below)


def test_a_heartbeat_is_no_change_and_a_tenants_label_stays():
    wanted, status = nodes.node(super_node()), status_of(super_node(), Agent("10.2.0.5"))
    virtual = {
        **wanted,
        "metadata": {
            **wanted["metadata"],
            "labels": {**wanted["metadata"]["labels"], "mine": "1"},
        },
        "status": {
            **status,
            "conditions": [{**each, "lastHeartbeatTime": None} for each in status["conditions"]],
        },
    }
    assert nodes.is_node_shown(virtual, wanted)
    outline = wanted["metadata"]["annotations"][marks.DIGEST]
    assert nodes.is_status_shown(virtual, status, outline)
    changed = status_of(super_node(), Agent("10.2.0.6"))
    assert not nodes.is_status_shown(virtual, changed, outline)
    added = copy.deepcopy(virtual)
    added["status"]["conditions"].append({"type": "Own", "status": "True"})
    added["status"]["capacity"]["example.com/fan"] = "2"
    assert nodes.is_status_shown(added, status, outline)
    gone = super_node()
    gone["status"]["conditions"] = []
    fewer = nodes.node(gone)["metadata"]["annotations"][marks.DIGEST]
    assert not nodes.is_status_shown(virtual, status_of(gone, Agent("10.2.0.5")), fewer)
    hidden = status_of(super_node(), None, "Minimal")
    assert not nodes.is_status_shown(virtual, hidden, outline)  # its addresses are to go
    narrow = nodes.node(super_node(), "Minimal")["metadata"]["annotations"][marks.DIGEST]
    assert narrow != outline  # and so are labels


OWN_TAINT = {"key": "own", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}


def tainted(*taints: dict[str, Any], recorded: str | None = "k:NoExecute") -> dict[str, Any]:
    """Return the virtual node with these taints; `recorded` are those that we have put there."""
    virtual = copy.deepcopy(nodes.node(super_node()))
    virtual["spec"]["taints"] = list(taints)
    virtual["metadata"]["annotations"].pop(marks.TAINTS)
    if recorded is not None:
        virtual["metadata"]["annotations"][marks.TAINTS] = recorded
    return virtual


def below(*taints: dict[str, Any]) -> dict[str, Any]:
    """Return the super node with these taints."""
    return {**super_node(), "spec": {"taints": list(taints)}}


OURS = {"key": "k", "effect": "NoExecute"}


def test_a_tenants_taint_stays_beside_ours_in_whatever_order():
    virtual = tainted(OWN_TAINT, OURS)
    wanted = nodes.node(super_node(), "Standard", virtual)
    assert wanted["spec"]["taints"] == [OURS, OWN_TAINT]
    assert nodes.is_node_shown(virtual, wanted)


def test_a_taint_that_went_below_goes_and_the_tenants_stays():
    virtual = tainted(OWN_TAINT, OURS)
    wanted = nodes.node(below(), "Standard", virtual)
    assert wanted["spec"]["taints"] == [OWN_TAINT]
    assert not nodes.is_node_shown(virtual, wanted)
    assert wanted["metadata"]["annotations"][marks.TAINTS] == ""


@pytest.mark.parametrize("there", [[], [{**OURS, "value": "theirs"}]])
def test_a_tenant_gets_a_taint_of_ours_back(there):
    virtual = tainted(*there)
    wanted = nodes.node(super_node(), "Standard", virtual)
    assert wanted["spec"]["taints"] == [OURS]
    assert not nodes.is_node_shown(virtual, wanted)


def test_what_the_super_cluster_taints_itself_is_ours_from_then_on():
    virtual = tainted(OWN_TAINT, recorded="")
    same = {"key": "own", "effect": "NoExecute", "value": "theirs"}
    wanted = nodes.node(below(same), "Standard", virtual)
    assert wanted["spec"]["taints"] == [same]
    assert not nodes.is_node_shown(virtual, wanted)


def test_a_node_from_before_taints_were_recorded_has_only_ours():
    virtual = tainted(OWN_TAINT, OURS, recorded=None)
    assert nodes.node(super_node(), "Standard", virtual)["spec"]["taints"] == [OURS]
    foreign = {"metadata": {"annotations": {}}, "spec": {"taints": [OWN_TAINT]}}
    assert nodes.own_taints(foreign) == [OWN_TAINT]


def added(virtual: dict[str, Any], view: NodeView = "Standard") -> Added | None:
    return node_additions.added(virtual, super_node()["metadata"]["labels"], view)


def test_what_counts_as_the_tenants_own():
    virtual = tainted(OURS)
    assert added(virtual) is None
    soft = {"key": "soft", "effect": "PreferNoSchedule"}
    virtual = tainted(OWN_TAINT, OURS, soft)
    virtual["metadata"]["labels"] |= {
        "mine": "1",
        "disk": "overwritten",
        "cloud.example/rack": "8",
        f"sub.{marks.DOMAIN}/x": "1",
    }
    found = added(virtual)
    assert found is not None
    assert found.own == {"mine", "cloud.example/rack"}
    assert found.taints == (Taint("own", "", "NoExecute"),)
    assert not found.is_cordoned
    full = added(virtual, "Full")
    assert full is not None
    assert full.own == {"mine"}
    cordoned = tainted(OURS)
    cordoned["spec"]["unschedulable"] = True
    assert added(cordoned) == Added(frozenset(), cordoned["metadata"]["labels"], (), True)


@pytest.mark.parametrize("effect", [["NoSchedule"], {"a": 1}, None, 7])
def test_a_taint_of_any_shape_harms_nobody(effect):
    assert added(tainted(OURS, {"key": "own", "effect": effect})) is None


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
        marks.CONTAINERS: "setup,main,debugger",
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

    assert addresses.is_taken_by_others(held_in("default"), look)
    assert addresses.is_taken_by_others(held_in("other-tenant-web"), look)
    assert not addresses.is_taken_by_others(held_in(f"{TENANT.root}-web"), look)
    assert not addresses.is_taken_by_others(held_in(TENANT.root), look)
    assert addresses.is_in_slice("10.96.8.77", look)
    assert not addresses.is_in_slice("10.96.12.1", look)
    assert not addresses.is_in_slice("fd00::1", look)
    assert not addresses.is_in_slice("nonsense", look)
