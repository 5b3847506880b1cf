import pytest

from tenancy.access.specs import EndpointSpec
from tenancy.specs import TargetGrant
from vcmanager.plan import external_endpoint
from vcmanager.plan.pki_secrets import ApiAddress
from vcmanager.runtime.options import ApiProxySettings

INTERNAL = ApiAddress(server="https://10.96.4.1:443")
NAME = "apiserver-svc.root"


def node(name, *, ready=True, deleting=False, **addresses):
    metadata = {"name": name, **({"deletionTimestamp": "now"} if deleting else {})}
    return {
        "metadata": metadata,
        "status": {
            "addresses": [{"type": kind, "address": each} for kind, each in addresses.items()],
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def service(kind, *, node_port=None, ingress=()):
    return {
        "spec": {"type": kind, "ports": [{"port": 6443, "nodePort": node_port}]},
        "status": {"loadBalancer": {"ingress": list(ingress)}},
    }


def external(found, nodes=(), known=""):
    return external_endpoint.find_external_address(
        found, internal=INTERNAL, server_name=NAME, nodes=nodes, known=known
    )


@pytest.mark.parametrize(
    ("found", "port", "server"),
    [
        (service("NodePort", node_port=31000), 0, "https://a.example.com:31000"),
        (service("NodePort", node_port=31000), 443, "https://a.example.com:443"),
        (service("LoadBalancer"), 0, "https://a.example.com:6443"),
        (service("ClusterIP"), 0, "https://a.example.com:6443"),
        (service("NodePort"), 0, None),
    ],
)
def test_a_host_name_is_the_address_and_needs_no_other_name(found, port, server):
    wanted = EndpointSpec(hostname="a.example.com", port=port)
    address = external_endpoint.find_external_address(
        found, internal=INTERNAL, server_name=NAME, wanted=wanted
    )
    assert address == (ApiAddress(server=server) if server else None)


@pytest.mark.parametrize(
    ("server", "targets", "host"),
    [
        ("https://192.0.2.1:31000", ["home", "c2"], "192.0.2.1"),
        ("https://[2001:db8::1]:6443", ["c2"], "2001:db8::1"),
        ("https://lb.example.com:6443", ["c2"], "lb.example.com"),
        ("https://192.0.2.1:31000", ["home"], ""),
        ("https://192.0.2.1:31000", [], ""),
        ("", ["c2"], ""),
    ],
)
def test_pods_in_other_clusters_dial_a_host_that_the_certificate_names(server, targets, host):
    found = ApiAddress(server=server, server_name=NAME) if server else None
    assert (
        external_endpoint.find_dialed_host(found, [TargetGrant(name=each) for each in targets])
        == host
    )


def test_inside_only_is_the_first_address_of_the_slice():
    assert external(service("ClusterIP")) == INTERNAL


def test_a_node_port_is_at_a_node_whose_address_is_not_in_the_certificate():
    nodes = [node("b", InternalIP="192.0.2.2"), node("a", InternalIP="192.0.2.1")]
    found = external(service("NodePort", node_port=31000), nodes)
    assert found == ApiAddress(server="https://192.0.2.1:31000", server_name=NAME)


def test_an_external_address_is_preferred_and_a_ready_node():
    nodes = [
        node("a", ready=False, InternalIP="192.0.2.1"),
        node("b", deleting=True, InternalIP="192.0.2.2"),
        node("c", InternalIP="192.0.2.3", ExternalIP="198.51.100.3"),
    ]
    found = external(service("NodePort", node_port=31000), nodes)
    assert found.server == "https://198.51.100.3:31000"


def test_an_address_that_was_given_out_stays_while_it_is_right():
    nodes = [node("a", InternalIP="192.0.2.1"), node("b", InternalIP="192.0.2.2")]
    known = "https://192.0.2.2:31000"
    assert external(service("NodePort", node_port=31000), nodes, known).server == known
    moved = external(service("NodePort", node_port=31001), nodes, known)
    assert moved.server == "https://192.0.2.1:31001"


@pytest.mark.parametrize(
    "found",
    [service("LoadBalancer"), service("NodePort"), service("LoadBalancer", ingress=[{}])],
)
def test_without_an_address_there_is_none(found):
    assert (
        external(
            found,
            [node("a", InternalIP="192.0.2.1")] if found["spec"]["type"] != "NodePort" else [],
        )
        is None
    )


def test_a_load_balancer_may_have_a_name_or_an_address():
    assert external(service("LoadBalancer", ingress=[{"hostname": "lb.example"}])) == ApiAddress(
        server="https://lb.example:6443", server_name=NAME
    )
    assert external(service("LoadBalancer", ingress=[{"ip": "fd00::1"}])).server == (
        "https://[fd00::1]:6443"
    )


def test_only_addresses_of_version_six_are_bracketed():
    assert (
        external_endpoint.build_url("apiserver-svc.root", 6443) == "https://apiserver-svc.root:6443"
    )
    assert external_endpoint.build_url("::1", 443) == "https://[::1]:443"


HOST = "a.team.clusters.example.com"
AWAY = (TargetGrant(name="home"), TargetGrant(name="away"))


@pytest.mark.parametrize(
    ("address", "wanted", "targets", "server", "server_name"),
    [
        ("", EndpointSpec(), (), f"https://{HOST}:30443", ""),
        ("192.0.2.7", EndpointSpec(), (), "https://192.0.2.7:30443", HOST),
        ("", EndpointSpec(hostname=HOST, port=443), (), f"https://{HOST}:443", ""),
        ("192.0.2.7", EndpointSpec(), AWAY, f"https://{HOST}:30443", ""),
    ],
)
def test_behind_the_proxy_the_host_name_is_dialed_or_sent(
    address, wanted, targets, server, server_name
):
    proxy = ApiProxySettings(address=address, port=30443)
    found = external_endpoint.build_proxy_address(HOST, proxy, wanted=wanted, targets=targets)
    assert found == ApiAddress(server=server, server_name=server_name)


def test_the_address_of_a_service_has_its_port():
    found = {"spec": {"clusterIP": "10.96.0.7", "ports": [{"port": 6443, "targetPort": 1}]}}
    assert external_endpoint.find_service_address(found) == "10.96.0.7:6443"
    found["spec"]["clusterIP"] = "None"
    assert external_endpoint.find_service_address(found) == ""
