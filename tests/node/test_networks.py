"""Second interfaces of two tenants with the same network, on real nodes.

A stand-in for Multus runs the real plugins (`tools/testbed/networks`). The annotations, the
definitions and the status are those of Multus.
"""

from __future__ import annotations

import ipaddress
import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support import node_objects
from tests.support.forwards import forwarded
from tests.support.kubectl import until
from tools.testbed import chart
from tools.testbed.networks import node_networks
from tools.testbed.progress import StepPrinter

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]

SPACE = "networks"
NETWORKS = "k8s.v1.cni.cncf.io/networks"
STATUS = "k8s.v1.cni.cncf.io/network-status"
REQUESTS = 200
CRD = "customresourcedefinition/network-attachment-definitions.k8s.cni.cncf.io"
RANGE = "192.168.7.0/24"
POLICY = {
    "apiVersion": "tenancy.x-k8s.io/v1alpha1",
    "kind": "TenantPolicy",
    "metadata": {"name": "networks"},
    "spec": {
        "network": {
            "attachments": {
                "types": ["bridge"],
                "primaryDevice": node_networks.TRUNK,
                "devices": [
                    {
                        "name": node_networks.TRUNK,
                        "ranges": ["192.168.0.0/16", "10.20.0.0/16"],
                        "tenantVlans": "1000-3047",
                    }
                ],
            }
        }
    },
}
CONFIG = {
    "cniVersion": "1.0.0",
    "type": "bridge",
    "bridge": node_networks.TRUNK,
    "vlan": 0,
    "ipam": {"type": "whereabouts", "range": RANGE},
}
OWN_NETWORK = {
    "driver": "multus-primary",
    "cidr": "10.20.0.0/16",
    "gateway": "10.20.0.1",
    "dns": ["10.20.0.2"],
}
DEFINITION = {
    "apiVersion": "k8s.cni.cncf.io/v1",
    "kind": "NetworkAttachmentDefinition",
    "metadata": {"name": "lab", "namespace": SPACE},
    "spec": {"config": json.dumps(CONFIG)},
}


def server(name: str, node: str, words: str) -> dict[str, Any]:
    """Return a pod on a node that has a second interface and serves one line."""
    script = f"mkdir -p /tmp/www; echo {words} > /tmp/www/index.html; httpd -f -p 8080 -h /tmp/www"
    body = node_objects.pod(name, script, namespace=SPACE)
    body["metadata"]["annotations"] = {NETWORKS: "lab"}
    body["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return body


def shown(tenant: TenantAdmin, name: str) -> dict[str, Any]:
    """Return the entry of the second interface in the tenant's status."""
    found = tenant.kubectl.get("pod", name, "-n", SPACE)["metadata"]["annotations"]
    entries = {each["name"]: each for each in json.loads(found[STATUS])}
    assert set(entries) == {"", f"{SPACE}/lab"}
    return dict(entries[f"{SPACE}/lab"])


@pytest.fixture(scope="module")
def networks(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin, tenant_b: TenantAdmin
) -> Iterator[tuple[TenantAdmin, TenantAdmin]]:
    """Two tenants whose policy offers the trunk, each with the same network and two pods."""
    node_networks.enable(super_cluster.cluster)
    values = (*chart.KUBELET_UPSTREAM, "networkAttachments.enabled=true")
    chart.install(super_cluster.cluster, StepPrinter(), values=values)
    super_cluster.kubectl.apply(POLICY)
    both = (tenant_a, tenant_b)
    names = [each.name for each in super_cluster.cluster.topology.nodes]
    nodes = (names[0], names[-1])  # the same one twice where the cluster has one node
    for tenant in both:
        patch = json.dumps({"spec": {"policyRef": {"name": "networks"}}})
        super_cluster.kubectl.run(
            "patch", "virtualcluster", tenant.name, "--type=merge", "-p", patch
        )
        until(
            lambda tenant=tenant: tenant.kubectl.call("get", CRD).code == 0,
            "the definition of networks in the tenant",
        )
        tenant.kubectl.run("wait", "--for=condition=Established", CRD, "--timeout=60s")
        tenant.kubectl.run("create", "namespace", SPACE)
        tenant.kubectl.apply(DEFINITION)
        for number, node in enumerate(nodes, 1):
            tenant.kubectl.apply(server(f"pod-{number}", node, tenant.name))
    for tenant in both:
        wait = ("wait", "--for=condition=Ready", "pod/pod-1", "pod/pod-2", "--timeout=120s")
        tenant.kubectl.run("-n", SPACE, *wait, timeout=130)
    yield both
    none = json.dumps({"spec": {"policyRef": None}})
    for tenant in both:
        tenant.kubectl.run("delete", "namespace", SPACE, timeout=120)
        super_cluster.kubectl.run(
            "patch", "virtualcluster", tenant.name, "--type=merge", "-p", none
        )
    super_cluster.kubectl.run("delete", "tenantpolicy", "networks")
    chart.install(
        super_cluster.cluster,
        StepPrinter(),
        values=(*chart.KUBELET_UPSTREAM, "networkAttachments.enabled=false"),
    )


def test_each_pod_has_a_second_interface_and_a_status_in_the_tenants_names(networks):
    for tenant in networks:
        for name in ("pod-1", "pod-2"):
            found = shown(tenant, name)
            assert found["interface"] == "net1"
            listed = tenant.kubectl.run("-n", SPACE, "exec", name, "--", "ip", "-4", "addr")
            assert f"{found['ips'][0]}/{RANGE[-2:]}" in listed
            assert tenant.root not in json.dumps(found)


def test_addresses_answer_for_their_own_tenant_only(networks):
    addresses = [
        {shown(tenant, name)["ips"][0] for name in ("pod-1", "pod-2")} for tenant in networks
    ]
    assert addresses[0] == addresses[1]
    for tenant in networks:
        target = shown(tenant, "pod-2")["ips"][0]
        script = (
            f"i=0; while [ $i -lt {REQUESTS} ]; do i=$((i+1));"
            f" wget -q -T 5 -O- http://{target}:8080/ || echo none; done | sort | uniq -c"
        )
        words = tenant.kubectl.run("-n", SPACE, "exec", "pod-1", "--", "sh", "-c", script)
        assert words.split() == [str(REQUESTS), tenant.name]


def test_without_its_peer_no_packet_of_the_other_tenant_arrives(networks):
    tenant, other = networks
    target = shown(tenant, "pod-2")["ips"][0]
    assert target in {shown(other, name)["ips"][0] for name in ("pod-1", "pod-2")}
    node = tenant.kubectl.get("pod", "pod-2", "-n", SPACE)["spec"]["nodeName"]
    tenant.kubectl.run("-n", SPACE, "delete", "pod", "pod-2", timeout=60)
    script = f"wget -q -T 3 -O- http://{target}:8080/ || echo none"
    words = tenant.kubectl.run("-n", SPACE, "exec", "pod-1", "--", "sh", "-c", script)
    tenant.kubectl.apply(server("pod-2", node, tenant.name))  # other tests need it
    tenant.kubectl.run("-n", SPACE, "wait", "--for=condition=Ready", "pod/pod-2", "--timeout=60s")
    assert words.split() == ["none"]


def test_a_network_outside_of_the_policy_is_refused_with_an_event(networks):
    tenant = networks[0]
    config = json.dumps({**CONFIG, "isGateway": True})
    body = {
        **DEFINITION,
        "metadata": {"name": "bad", "namespace": SPACE},
        "spec": {"config": config},
    }
    tenant.kubectl.apply(body)
    until(
        lambda: "spec.config.isGateway is not offered" in tenant.kubectl.run("-n", SPACE, "events"),
        "the Event about the refused network",
    )


@pytest.fixture(scope="module")
def own_networks(
    super_cluster: SuperClusterAdmin, networks: tuple[TenantAdmin, TenantAdmin]
) -> Iterator[tuple[TenantAdmin, TenantAdmin]]:
    """The two tenants, whose pods have no other network than one of the tenant's own."""
    try:
        for tenant in networks:
            set_network(super_cluster, tenant, OWN_NETWORK)
        for tenant in networks:
            wait = ("wait", "--for=condition=NetworkReady", "virtualcluster", tenant.name)
            done = super_cluster.kubectl.call(*wait, "--timeout=60s")
            assert done.code == 0, super_cluster.condition(tenant.name, "NetworkReady")
            for number in (1, 2):
                node = tenant.kubectl.get("pod", f"pod-{number}", "-n", SPACE)["spec"]["nodeName"]
                body = server(f"own-{number}", node, tenant.name)
                del body["metadata"]["annotations"]
                probe = {"exec": {"command": ["wget", "-q", "-O", "-", "http://127.0.0.1:8080/"]}}
                body["spec"]["containers"][0]["readinessProbe"] = probe
                tenant.kubectl.apply(body)
        for tenant in networks:
            wait = ("wait", "--for=condition=Ready", "pod/own-1", "pod/own-2", "--timeout=120s")
            done = tenant.kubectl.call("-n", SPACE, *wait, timeout=130)
            assert done.code == 0, tenant.kubectl.run("-n", SPACE, "events")
        yield networks
    finally:
        for tenant in networks:
            words = ("delete", "pod", "own-1", "own-2", "--ignore-not-found")
            tenant.kubectl.run("-n", SPACE, *words, timeout=60)
            set_network(super_cluster, tenant, None)


def set_network(
    super_cluster: SuperClusterAdmin, tenant: TenantAdmin, network: dict[str, Any] | None
) -> None:
    """Set or remove `spec.network` of a tenant."""
    patch = json.dumps({"spec": {"network": network}})
    super_cluster.kubectl.run("patch", "virtualcluster", tenant.name, "--type=merge", "-p", patch)


def list_own_addresses(tenant: TenantAdmin) -> list[str]:
    """Return the addresses of the pods of a tenant on its own network."""
    pods = [tenant.kubectl.get("pod", f"own-{each}", "-n", SPACE) for each in (1, 2)]
    return [body["status"]["podIP"] for body in pods]


def test_pods_on_a_network_of_the_tenants_own_reach_their_own_peers(own_networks):
    addresses = [list_own_addresses(tenant) for tenant in own_networks]
    assert sorted(addresses[0]) == sorted(addresses[1]), "the ranges of the tenants overlap"
    for tenant, (_, target) in zip(own_networks, addresses, strict=True):
        assert ipaddress.ip_address(target) in ipaddress.ip_network(OWN_NETWORK["cidr"])
        script = f"wget -q -T 5 -O- http://{target}:8080/"
        words = tenant.kubectl.run("-n", SPACE, "exec", "own-1", "--", "sh", "-c", script)
        assert words.strip() == tenant.name


def test_calls_of_the_kubelet_need_no_network_of_the_pod(own_networks):
    """The rows of `docs/networks.md`: exec, logs, port-forward and headless Services."""
    tenant = own_networks[0]
    assert tenant.kubectl.run("-n", SPACE, "exec", "own-1", "--", "echo", "yes") == "yes\n"
    assert tenant.kubectl.call("-n", SPACE, "logs", "own-1").code == 0
    with (
        forwarded(tenant.kubectl, "own-1", 8080, SPACE) as port,
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer,
    ):
        assert answer.read().decode().strip() == tenant.name
    tenant.kubectl.apply(node_objects.service("own-1", namespace=SPACE, clusterIP="None"))
    selected = ("endpointslices", "-n", SPACE, "-l", "kubernetes.io/service-name=own-1")
    found = until(
        lambda: [
            address
            for body in tenant.kubectl.items(*selected)
            for endpoint in body["endpoints"] or ()
            for address in endpoint["addresses"]
        ],
        "the address of the headless Service",
    )
    assert found == list_own_addresses(tenant)[:1]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (node_objects.service("own-2", namespace=SPACE), "Set clusterIP to None"),
        (
            node_objects.pod(
                "probed",
                "sleep 60",
                namespace=SPACE,
                containers=[
                    {
                        **node_objects.container("sleep 60"),
                        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}},
                    }
                ],
            ),
            "rule network-probe",
        ),
    ],
    ids=["ClusterIP", "httpGet"],
)
def test_what_the_own_network_cannot_do_is_refused_with_an_event(own_networks, body, words):
    tenant = own_networks[0]
    tenant.kubectl.apply(body)
    until(lambda: words in tenant.kubectl.run("-n", SPACE, "events"), f"an Event with {words}")
    tenant.kubectl.run("-n", SPACE, "delete", body["kind"].lower(), body["metadata"]["name"])
