"""Manifests of the API proxy, and a check of its configuration by HAProxy."""

import subprocess

import msgspec
import pytest

from tenancy import wellknown
from tests.support import policy_matrix
from tests.support.helm import NAMESPACE, RELEASE, named, refusal, render
from tests.support.policy_matrix import NetworkHost, NetworkPod, NetworkPort
from tools.testbed.artifacts import haproxy
from tools.testbed.progress import StepPrinter
from vcmanager.runtime.options import ApiProxySettings

NAME = wellknown.API_PROXY
ON = ("--set", "apiProxy.enabled=true,apiProxy.baseDomain=clusters.example.com")
BY_NODES = (*ON, "--set", "apiProxy.service.type=NodePort,apiProxy.service.nodePort=30443")


@pytest.fixture(scope="module")
def objects():
    return render(*ON)


def pod_of(objects):
    return named(objects, "Deployment", NAME)["spec"]["template"]["spec"]


def container(objects, name):
    (found,) = [each for each in pod_of(objects)["containers"] if each["name"] == name]
    return found


def environment(found):
    return {each["name"]: each.get("value", "") for each in found["env"]}


def settings(objects):
    (manager,) = named(objects, "Deployment", wellknown.MANAGER)["spec"]["template"]["spec"][
        "containers"
    ]
    text = environment(manager).get("API_PROXY", "")
    return msgspec.json.decode(text, type=ApiProxySettings) if text else None


def test_by_default_there_is_no_proxy():
    objects = render()
    assert not [each for each in objects if NAME in each["metadata"]["name"]]
    assert settings(objects) is None


def test_two_pods_of_which_a_drain_moves_one_at_a_time(objects):
    spec = named(objects, "Deployment", NAME)["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    budget = named(objects, "PodDisruptionBudget", NAME)["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"] == spec["selector"]["matchLabels"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


def test_pods_are_at_the_restricted_level(objects):
    pod = pod_of(objects)
    assert pod["serviceAccountName"] == NAME
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    for each in pod["containers"]:
        own = each["securityContext"]
        assert own["allowPrivilegeEscalation"] is False
        assert own["readOnlyRootFilesystem"] is True
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert each["resources"]["limits"]["memory"]


def test_haproxy_has_no_token(objects):
    mounts = {each["name"] for each in container(objects, "haproxy")["volumeMounts"]}
    assert mounts == {"config", "run"}


def test_a_replaced_pod_leaves_the_service_before_it_stops_and_keeps_its_connections(objects):
    pod = pod_of(objects)
    for each in pod["containers"]:
        assert each["lifecycle"]["preStop"]["sleep"]["seconds"] == 15
    assert environment(container(objects, "haproxy"))["DRAIN_TIME"] == "3600s"
    assert pod["terminationGracePeriodSeconds"] > 3600 + 15


def test_the_account_only_reads_virtual_clusters(objects):
    roles = [
        each
        for each in objects
        if each["kind"] in ("Role", "ClusterRole") and NAME in each["metadata"]["name"]
    ]
    (role,) = roles
    assert role["rules"] == [
        {
            "apiGroups": ["tenancy.x-k8s.io"],
            "resources": ["virtualclusters"],
            "verbs": ["get", "list", "watch"],
        }
    ]
    binding = named(objects, "ClusterRoleBinding", f"virtual-cluster:{NAME}")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}]


def test_vc_manager_gets_the_port_of_the_service():
    assert settings(render(*ON)) == ApiProxySettings(base_domain="clusters.example.com", port=443)
    assert settings(render(*BY_NODES)) == ApiProxySettings(
        base_domain="clusters.example.com", port=30443
    )
    given = ("--set", "apiProxy.port=8443,apiProxy.address=192.0.2.7,apiProxy.exclusive=false")
    assert settings(render(*BY_NODES, *given)) == ApiProxySettings(
        base_domain="clusters.example.com", address="192.0.2.7", port=8443, exclusive=False
    )


def test_the_service_is_of_the_type_of_the_value():
    service = named(render(*BY_NODES), "Service", NAME)["spec"]
    assert service["type"] == "NodePort"
    assert service["ports"][0]["nodePort"] == 30443
    inner = named(render(*ON, "--set", "apiProxy.service.type=ClusterIP"), "Service", NAME)["spec"]
    assert "externalTrafficPolicy" not in inner
    assert "nodePort" not in inner["ports"][0]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("apiProxy.service.type=NodePort", "Set it to a free node port"),
        ("apiProxy.service.type=ExternalName", "at '/apiProxy/service/type'"),
        ("apiProxy.baseDomain=Example.com", "at '/apiProxy/baseDomain'"),
        ("apiProxy.baseDomain=*.example.com", "at '/apiProxy/baseDomain'"),
        ("apiProxy.address=https://a", "at '/apiProxy/address'"),
        ("apiProxy.idleTimeout=soon", "at '/apiProxy/idleTimeout'"),
        ("apiProxy.drainSeconds=0", "at '/apiProxy/drainSeconds'"),
        ("apiProxy.nam=x", "at '/apiProxy'"),
    ],
)
def test_a_wrong_value_is_refused(value, words):
    assert words in refusal(*ON, "--set", value)


def test_every_client_reaches_the_proxy_and_it_reaches_only_api_servers(objects):
    policies = [each for each in objects if each["kind"] == "NetworkPolicy"]
    proxy = NetworkPod(
        ip="10.244.0.5",
        name=NAME,
        namespace=NAMESPACE,
        labels={"app.kubernetes.io/name": NAME, "app.kubernetes.io/instance": RELEASE},
        namespace_labels={"kubernetes.io/metadata.name": NAMESPACE},
    )
    tenants = NetworkPod(
        ip="10.244.0.9",
        name="web",
        namespace="t",
        labels={},
        namespace_labels={wellknown.VC_UID: "u"},
    )

    def may(other, port, direction):
        return policy_matrix.may(policies, proxy, other, NetworkPort(port), direction)

    for other in (NetworkHost("8.8.8.8"), tenants):
        assert may(other, 6443, "Ingress")
        assert not may(other, 8404, "Ingress")
        assert not may(other, 8080, "Ingress")
        assert may(other, 6443, "Egress")
        for port in (2379, 2380, 2381, 10250, 10550, 80):
            assert not may(other, port, "Egress")


def test_haproxy_accepts_the_configuration_with_the_settings_of_the_pod(objects, tmp_path):
    config = tmp_path / "haproxy.cfg"
    config.write_text(named(objects, "ConfigMap", NAME)["data"]["haproxy.cfg"])
    given = environment(container(objects, "haproxy"))
    given |= {
        **{name: given[name].replace("$(POD_IP)", "127.0.0.1") for name in given},
        "RUNTIME_SOCKET": str(tmp_path / "s"),
        "MAP_FILE": str(tmp_path / "hosts.map"),
    }
    command = haproxy.build_command(haproxy.build(StepPrinter(quiet=True)))
    done = subprocess.run(
        [*command, "-c", "-f", str(config)], env=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr


def test_the_proxy_is_scraped_at_both_ports():
    monitors = render(*ON, "--set", "monitoring.podMonitors.enabled=true")
    endpoints = named(monitors, "PodMonitor", NAME)["spec"]["podMetricsEndpoints"]
    assert [each["port"] for each in endpoints] == ["http", "status"]
    ports = {port["name"] for each in pod_of(monitors)["containers"] for port in each["ports"]}
    assert {"http", "status", "https"} == ports
