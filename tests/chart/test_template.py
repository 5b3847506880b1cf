"""Manifests of the chart, with several sets of values."""

import json

import msgspec
import pytest
import yaml

from clusterversions import catalog
from tenancy import wellknown
from tests.support import policy_matrix
from tests.support.helm import CHART, NAMESPACE, RELEASE, named, render
from tests.support.policy_matrix import NetworkPod, NetworkPort
from vcmanager import __main__ as main
from vcmanager.agents import authorities
from vcmanager.plan.network import root_policies
from vcmanager.runtime.options import AgentPodSettings
from vnagent.authz import token_review
from vnagent.limits import concurrency

WORKLOADS = (
    ("Deployment", wellknown.MANAGER),
    ("Deployment", wellknown.SYNCER),
    ("DaemonSet", wellknown.AGENT),
)
VALUE_SETS = {
    "defaults": (),
    "everything off": (
        *("--set", "crds.install=false,clusterVersions.install=false,flowControl.enabled=false"),
        *("--set", "tenantPolicies.install=false,networkPolicies.enabled=false"),
        *("--set", "controlPlane.networkPolicies.enabled=false"),
        *("--set", "manager.priorityClassName=,syncer.priorityClassName="),
        *("--set", "agent.priorityClassName="),
    ),
    "everything set": (
        *("--set", "image.registry=registry.example:5000/a/b,image.tag=v9,image.pullPolicy=Always"),
        *("--set", "image.pullSecrets[0].name=pull,controlPlane.image.registry=other.example/k"),
        *("--set", "controlPlane.nodePorts=31000-31999"),
        *("--set", "controlPlane.networkPolicies.egress={10.9.0.0/16,10.8.0.1}"),
        *("--set", "controlPlane.networkPolicies.scrapers[0].podSelector.matchLabels.app=p"),
        *("--set", "networkPolicies.scrapers[0].podSelector.matchLabels.app=prometheus"),
        *("--set", "manager.replicas=1,syncer.replicas=3,agent.maxUnavailable=3"),
        *("--set", "manager.nodeSelector.pool=system,manager.tolerations[0].operator=Exists"),
        *("--set", "syncer.clusterDomain=super.example"),
        *("--set", "syncer.affinity.nodeAffinity.x=y,syncer.podAnnotations.a=b"),
        *("--set", "agent.kubelet.ca.configMap=kubelets,agent.kubelet.ca.key=root.pem"),
        *("--set", "agent.upstream=kubelet,agent.targets.replicas=2"),
        *("--set", "agent.targets.tolerations[0].operator=Exists,agent.targets.nodeSelector.a=b"),
        *("--set", "agent.podAnnotations.a=b,logging.level=DEBUG,flowControl.shares=5"),
        *("--set", "clusterVersions.items.fast.kubernetesVersion=1.36.4"),
        *("--set", "monitoring.dashboard.enabled=true,monitoring.rules.enabled=true"),
        *("--set", "monitoring.podMonitors.enabled=true,monitoring.rules.labels.release=p"),
        *("--set", "apiProxy.enabled=true,apiProxy.service.type=NodePort"),
        *("--set", "apiProxy.service.nodePort=30443,apiProxy.podAnnotations.a=b"),
        *("--set", "monitoring.rules.runbooks=https://runbooks.example/vc/"),
    ),
}


@pytest.fixture(params=VALUE_SETS, scope="module")
def objects(request):
    return render(*VALUE_SETS[request.param])


@pytest.fixture(scope="module")
def usual():
    return render()


@pytest.fixture(scope="module")
def full():
    return render(*VALUE_SETS["everything set"])


def test_one_cluster_version_is_the_default_and_it_is_not_the_newest(usual):
    marked = {
        each["metadata"]["name"]
        for each in usual
        if each["kind"] == "ClusterVersion"
        and each["metadata"]["annotations"].get(wellknown.DEFAULT_CLUSTER_VERSION) == "true"
    }
    assert marked == {f"v{catalog.DEFAULT_MINOR}"}


def pod_of(workload):
    return workload["spec"]["template"]["spec"]


@pytest.mark.parametrize(("kind", "name"), WORKLOADS)
def test_pods_are_at_the_restricted_level(objects, kind, name):
    pod = pod_of(named(objects, kind, name))
    security = pod["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] == 65532
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    for container in pod["containers"]:
        own = container["securityContext"]
        assert own["allowPrivilegeEscalation"] is False
        assert own["readOnlyRootFilesystem"] is True
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert "hostPort" not in str(container["ports"])
        assert container["resources"]["limits"]["memory"]
    for volume in pod["volumes"]:
        assert set(volume) - {"name"} <= {"projected", "emptyDir", "configMap"}
        assert "emptyDir" not in volume or volume["emptyDir"]["sizeLimit"]


@pytest.mark.parametrize(("kind", "name"), WORKLOADS)
def test_pods_use_a_bound_token_of_their_own_account_and_no_other(objects, kind, name):
    pod = pod_of(named(objects, kind, name))
    assert pod["serviceAccountName"] == name
    assert pod["automountServiceAccountToken"] is False
    assert named(objects, "ServiceAccount", name)["automountServiceAccountToken"] is False
    (token,) = [each for each in pod["volumes"] if each["name"] == "token"]
    (source,) = [
        each["serviceAccountToken"]
        for each in token["projected"]["sources"]
        if "serviceAccountToken" in each
    ]
    assert source["expirationSeconds"] == 3600


@pytest.mark.parametrize(("kind", "name"), WORKLOADS)
def test_selectors_find_the_pods_and_never_change(objects, kind, name):
    workload = named(objects, kind, name)
    selector = workload["spec"]["selector"]["matchLabels"]
    assert selector == {"app.kubernetes.io/name": name, "app.kubernetes.io/instance": RELEASE}
    assert selector.items() <= workload["spec"]["template"]["metadata"]["labels"].items()


def test_each_component_has_a_role_bound_to_its_account_alone(objects):
    for _, name in WORKLOADS:
        binding = named(objects, "ClusterRoleBinding", f"virtual-cluster:{name}")
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
        ]
        assert binding["roleRef"]["name"] == f"virtual-cluster:{name}"
        assert named(objects, "ClusterRole", f"virtual-cluster:{name}")["rules"]


def test_everything_that_has_a_namespace_is_in_the_chart_s(objects):
    """A0-03."""
    kinds = {
        *("Deployment", "DaemonSet", "ServiceAccount", "Role", "RoleBinding"),
        *("PodDisruptionBudget", "ConfigMap", "PrometheusRule", "PodMonitor"),
        *("Service", "ServiceMonitor", "NetworkPolicy"),
    }
    for each in objects:
        expected = NAMESPACE if each["kind"] in kinds else None
        assert each["metadata"].get("namespace") == expected, each["kind"]


def test_crds_and_versions_come_and_stay(usual):
    for kind, count in (
        ("CustomResourceDefinition", 6),
        ("ClusterVersion", 3),
        ("TenantPolicy", 4),
    ):
        found = [each for each in usual if each["kind"] == kind]
        assert len(found) == count
        for each in found:
            assert each["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_what_is_switched_off_is_not_there():
    kinds = {each["kind"] for each in render(*VALUE_SETS["everything off"])}
    assert not kinds & {
        *("CustomResourceDefinition", "ClusterVersion", "FlowSchema"),
        *("PriorityLevelConfiguration", "NetworkPolicy"),
    }


def peer(labels, namespace, namespace_labels, ip="10.244.0.9"):
    """Return a pod that connects to a component."""
    return NetworkPod(
        ip=ip,
        name="p",
        namespace=namespace,
        labels=labels,
        namespace_labels={"kubernetes.io/metadata.name": namespace, **namespace_labels},
    )


TENANT_MARKS = {wellknown.VC_UID: "uid", wellknown.NAMESPACE: "web"}
PEERS = {
    "tenant pod": peer({}, "default-abc-vc-web", TENANT_MARKS),
    "API server": peer({}, "default-abc-vc", {wellknown.VC_UID: "uid"}),
    "scraper": peer({"app": "prometheus"}, "monitoring", {}),
}
PORTS = {wellknown.MANAGER: 8080, wellknown.SYNCER: 8080, wellknown.AGENT: 10552}


@pytest.mark.parametrize("component", PORTS)
def test_metrics_are_for_scrapers_and_agents_for_api_servers(usual, component):
    policies = [each for each in usual if each["kind"] == "NetworkPolicy"]
    labels = named(usual, "NetworkPolicy", component)["spec"]["podSelector"]["matchLabels"]
    target = peer(labels, NAMESPACE, {}, "10.244.0.1")
    for port in (PORTS[component], 10550):
        passes = {
            name
            for name, source in PEERS.items()
            if policy_matrix.may(policies, target, source, NetworkPort(port), "Ingress")
        }
        is_agent_port = component == wellknown.AGENT and port == 10550
        is_metrics_port = port == PORTS[component]
        assert passes == (
            {"API server"} if is_agent_port else {"scraper"} if is_metrics_port else set()
        )


def test_settings_of_the_network_policies_of_root_namespaces(full):
    (container,) = pod_of(named(full, "Deployment", wellknown.MANAGER))["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert variables["NETWORK_POLICIES"] == "true"
    assert root_policies.parse_egress(variables["CONTROL_PLANE_EGRESS"])
    scrapers = main._parse_scrapers(variables["CONTROL_PLANE_SCRAPERS"])
    assert scrapers == ({"podSelector": {"matchLabels": {"app": "p"}}},)


def test_versions_are_made_after_their_kind_or_with_the_rest_once_it_is_known(usual):
    hooked = named(usual, "ClusterVersion", "v1.36")["metadata"]["annotations"]
    assert hooked["helm.sh/hook"] == "post-install"
    assert hooked["meta.helm.sh/release-name"] == RELEASE
    known = render("--api-versions", "tenancy.x-k8s.io/v1alpha1/ClusterVersion")
    plain = named(known, "ClusterVersion", "v1.35")["metadata"]["annotations"]
    assert plain == {"helm.sh/resource-policy": "keep"}


def test_images_without_a_registry_are_the_nodes_own(usual):
    for kind, name in WORKLOADS:
        (container,) = pod_of(named(usual, kind, name))["containers"]
        assert container["image"] == f"{name}:0.1.0"
        assert container["imagePullPolicy"] == "IfNotPresent"


def environment(workload) -> dict:
    (container,) = pod_of(workload)["containers"]
    return {
        each["name"]: each.get("value", each.get("valueFrom", {}).get("fieldRef"))
        for each in container["env"]
    }


def test_two_wait_for_each_lease_unless_configured(usual):
    """A holder that vanishes with its node is replaced without a new pod."""
    for name in (wellknown.MANAGER, wellknown.SYNCER):
        assert named(usual, "Deployment", name)["spec"]["replicas"] == 2
        budget = named(usual, "PodDisruptionBudget", name)["spec"]
        assert budget["maxUnavailable"] == 1, "one of two stays; one alone holds up no drain"


def test_values_arrive(full):
    for kind, name in WORKLOADS:
        pod = pod_of(named(full, kind, name))
        (container,) = pod["containers"]
        assert container["image"] == f"registry.example:5000/a/b/{name}:v9"
        assert container["imagePullPolicy"] == "Always"
        assert pod["imagePullSecrets"] == [{"name": "pull"}]
        assert environment(named(full, kind, name))["LOG_LEVEL"] == "DEBUG"
    manager, syncer = (
        named(full, "Deployment", name) for name in (wellknown.MANAGER, wellknown.SYNCER)
    )
    assert (manager["spec"]["replicas"], syncer["spec"]["replicas"]) == (1, 3)
    assert environment(manager)["CONTROL_PLANE_REGISTRY"] == "other.example/k"
    assert environment(manager)["NODE_PORTS"] == "31000-31999"
    assert environment(syncer)["CLUSTER_DOMAIN"] == "super.example"
    assert pod_of(manager)["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "system"}
    assert pod_of(manager)["tolerations"] == [{"operator": "Exists"}]
    assert pod_of(syncer)["affinity"] == {"nodeAffinity": {"x": "y"}}
    assert syncer["spec"]["template"]["metadata"]["annotations"]["a"] == "b"
    level = named(full, "PriorityLevelConfiguration", "virtual-cluster")
    assert level["spec"]["limited"]["nominalConcurrencyShares"] == 5
    assert named(full, "ClusterVersion", "fast")["spec"] == {"kubernetesVersion": "1.36.4"}


def test_control_planes_come_from_the_components_registry_unless_configured(usual):
    assert environment(named(usual, "Deployment", wellknown.MANAGER))["CONTROL_PLANE_REGISTRY"] in (
        *("", None),
    )
    told = render("--set", "image.registry=registry.example/x")
    manager = environment(named(told, "Deployment", wellknown.MANAGER))
    assert manager["CONTROL_PLANE_REGISTRY"] == "registry.example/x"


def test_the_holder_of_a_lease_is_its_pod(usual):
    for name in (wellknown.MANAGER, wellknown.SYNCER):
        env = environment(named(usual, "Deployment", name))
        assert env["POD_NAME"] == {"fieldPath": "metadata.name"}
        assert env["POD_UID"] == {"fieldPath": "metadata.uid"}


def test_the_agent_runs_on_every_node_and_verifies_its_kubelet(usual, full):
    agent = named(usual, "DaemonSet", wellknown.AGENT)
    pod = pod_of(agent)
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["containers"][0]["ports"] == [
        {"name": "kubelet", "containerPort": wellknown.AGENT_PORT},
        {"name": "http", "containerPort": 10551},
        {"name": "metrics", "containerPort": 10552},
    ]
    assert environment(agent) == {
        "POD_NAME": {"fieldPath": "metadata.name"},
        "POD_NAMESPACE": {"fieldPath": "metadata.namespace"},
        "LOG_LEVEL": "INFO",
        "NODE_NAME": {"fieldPath": "spec.nodeName"},
        "HOST_IP": {"fieldPath": "status.hostIP"},
        "POD_IP": {"fieldPath": "status.podIP"},
        "POD_UID": {"fieldPath": "metadata.uid"},
        "UPSTREAM": "apiserver",
        "METRICS_PORT": "10552",
        "MAX_STREAMS": str(concurrency.MAX_STREAMS),
        "MAX_STREAMS_PER_TENANT": str(concurrency.MAX_STREAMS_PER_TENANT),
        "CLIENT_CA_FILE": "/etc/vn-agent/trust/client-ca.crt",
    }
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert volumes["trust"] == {
        "name": "trust",
        "configMap": {"name": wellknown.AGENT_CLIENT_TRUST},
    }
    assert "kubelet-ca" not in volumes
    straight = pod_of(
        named(render("--set", "agent.upstream=kubelet"), "DaemonSet", wellknown.AGENT)
    )
    kubelets = {each["name"]: each for each in straight["volumes"]}["kubelet-ca"]
    assert kubelets["configMap"]["name"] == "kube-root-ca.crt"
    own = {
        each["name"]: each for each in pod_of(named(full, "DaemonSet", wellknown.AGENT))["volumes"]
    }
    assert own["kubelet-ca"]["configMap"] == {
        "name": "kubelets",
        "items": [{"key": "root.pem", "path": "ca.crt"}],
    }


@pytest.mark.parametrize(
    ("upstream", "straight", "around", "told"),
    [
        ("auto", True, True, True),
        ("kubelet", True, False, False),
        ("apiserver", False, True, True),
    ],
)
def test_the_agent_has_the_rights_of_its_way_and_no_others(upstream, straight, around, told):
    """SEC-12: nodes/proxy only where kubelets are called, pods only where the API server is."""
    objects = render("--set", f"agent.upstream={upstream}")
    rules = named(objects, "ClusterRole", "virtual-cluster:vn-agent")["rules"]
    granted = {resource: sorted(rule["verbs"]) for rule in rules for resource in rule["resources"]}
    streams = ("pods/exec", "pods/attach", "pods/portforward")
    assert granted == {
        "certificatesigningrequests": ["create", "get"],
        "tokenreviews": ["create"],
        "subjectaccessreviews": ["create"],
        **({"nodes/proxy": ["create", "get"]} if straight else {}),
        **({key: ["get"] for key in ("nodes/metrics", "nodes/stats")} if straight else {}),
        **({"pods": ["list"], "pods/log": ["get"]} if around else {}),
        **({key: ["create", "get"] for key in streams} if around else {}),
    }
    narrow = named(objects, "Role", wellknown.AGENT)["rules"] or []
    assert any("events" in rule["resources"] for rule in narrow) is told
    agent = named(objects, "DaemonSet", wellknown.AGENT)
    assert environment(agent)["UPSTREAM"] == upstream
    assert ("KUBELET_CA_FILE" in environment(agent)) is straight
    assert ("kubelet-ca" in {each["name"] for each in pod_of(agent)["volumes"]}) is straight


def test_vc_manager_is_informed_how_agents_of_targets_run(usual, full):
    """Which it makes itself, of the agent's image and under an account that has no pods."""
    told = {
        key: msgspec.json.decode(
            environment(named(objects, "Deployment", wellknown.MANAGER))["AGENT_PODS"],
            type=AgentPodSettings,
        )
        for key, objects in (("usual", usual), ("full", full))
    }
    for key, objects in (("usual", usual), ("full", full)):
        (container,) = pod_of(named(objects, "DaemonSet", wellknown.AGENT))["containers"]
        assert told[key].image == container["image"]
        assert told[key].image_pull_policy == container["imagePullPolicy"]
        rules = [
            *named(objects, "ClusterRole", f"virtual-cluster:{wellknown.TARGET_AGENT}")["rules"],
            *named(objects, "Role", wellknown.TARGET_AGENT)["rules"],
        ]
        assert {resource for rule in rules for resource in rule["resources"]} == {
            *("certificatesigningrequests", "configmaps", "tokenreviews", "subjectaccessreviews"),
        }
    assert told["usual"] == AgentPodSettings(
        image=told["usual"].image,
        instance=RELEASE,
        priority_class_name="system-cluster-critical",
        resources={"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
    )
    assert (told["full"].replicas, told["full"].log_level) == (2, "DEBUG")
    assert told["full"].image_pull_secrets == ({"name": "pull"},)
    assert told["full"].tolerations == ({"operator": "Exists"},)
    assert (told["full"].node_selector, told["full"].pod_annotations) == ({"a": "b"}, {"a": "b"})
    service = named(full, "Service", f"{wellknown.TARGET_AGENT}-metrics")
    assert service["spec"]["selector"] == {
        "app.kubernetes.io/name": wellknown.TARGET_AGENT,
        "app.kubernetes.io/instance": RELEASE,
    }
    agents = named(full, "ServiceMonitor", wellknown.AGENT)["spec"]["selector"]["matchLabels"]
    assert agents.items() <= service["metadata"]["labels"].items()


def test_leases_have_a_way_of_their_own_through_a_busy_server(usual):
    leases = named(usual, "FlowSchema", "virtual-cluster-leases")["spec"]
    work = named(usual, "FlowSchema", "virtual-cluster")["spec"]
    assert leases["matchingPrecedence"] < work["matchingPrecedence"]
    assert leases["priorityLevelConfiguration"]["name"] == "leader-election"
    for spec in (leases, work):
        accounts = [each["serviceAccount"] for each in spec["rules"][0]["subjects"]]
        assert [each["name"] for each in accounts] == [wellknown.MANAGER, wellknown.SYNCER]
        assert {each["namespace"] for each in accounts} == {NAMESPACE}


def test_a_drain_is_never_held_up_by_a_single_pod(usual):
    for name in (wellknown.MANAGER, wellknown.SYNCER):
        assert named(usual, "PodDisruptionBudget", name)["spec"]["maxUnavailable"] == 1


def test_metrics_of_agents_may_be_open_instead():
    """Then no one is asked about, and the port that shows them is the one of the probes."""
    objects = render(
        *("--set", "agent.metrics.secure=false", "--set", "monitoring.podMonitors.enabled=true")
    )
    agent = named(objects, "DaemonSet", wellknown.AGENT)
    assert environment(agent)["METRICS_PORT"] == "0"
    ports = pod_of(agent)["containers"][0]["ports"]
    assert [port["name"] for port in ports] == ["kubelet", "http"]
    rules = named(objects, "ClusterRole", "virtual-cluster:vn-agent")["rules"]
    assert not [rule for rule in rules if "tokenreviews" in rule["resources"]]
    endpoints = named(objects, "PodMonitor", wellknown.AGENT)["spec"]["podMetricsEndpoints"]
    assert endpoints == [{"port": "http", "path": "/metrics"}]
    assert not [each for each in objects if each["kind"] in ("ServiceMonitor", "Service")]


def test_metrics_of_agents_are_read_by_tls_with_a_token_and_never_without(full):
    """SEC-13: and there is a role for that which may do nothing else."""
    assert not [
        each
        for each in full
        if each["kind"] == "PodMonitor" and each["metadata"]["name"] == wellknown.AGENT
    ]
    (endpoint,) = named(full, "ServiceMonitor", wellknown.AGENT)["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"] == {
        "ca": {"configMap": {"name": wellknown.AGENT_CLIENT_TRUST, "key": authorities.SERVING_KEY}}
    }
    assert endpoint["bearerTokenFile"].endswith("/serviceaccount/token")
    service = named(full, "Service", "vn-agent-metrics")
    labels = service["metadata"]["labels"].items()
    wanted = named(full, "ServiceMonitor", wellknown.AGENT)["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= labels
    (port,) = service["spec"]["ports"]
    agent = named(full, "DaemonSet", wellknown.AGENT)
    ports = {each["name"] for each in pod_of(agent)["containers"][0]["ports"]}
    assert (port["name"], port["targetPort"] in ports) == (endpoint["port"], True)
    template = agent["spec"]["template"]["metadata"]["labels"].items()
    assert service["spec"]["selector"].items() <= template
    assert named(full, "ClusterRole", "virtual-cluster-metrics")["rules"] == [
        {"nonResourceURLs": [token_review.METRICS_PATH], "verbs": ["get"]}
    ]


MONITORING = {"PrometheusRule", "PodMonitor", "ServiceMonitor"}


def test_monitoring_is_off_unless_asked_for(usual):
    assert not [each for each in usual if each["kind"] in MONITORING]
    assert not [each for each in usual if each["metadata"]["name"].endswith("-dashboard")]


def test_the_dashboard_and_the_alerts_are_those_of_the_files(full):
    folder = CHART / "files" / "monitoring"
    dashboard = named(full, "ConfigMap", "virtual-cluster-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    told = dashboard["data"]["virtual-cluster.json"]
    assert json.loads(told) == json.loads((folder / "dashboard.json").read_text())
    alerts = named(full, "PrometheusRule", RELEASE)
    assert alerts["metadata"]["labels"]["release"] == "p"
    wanted = (folder / "rules.yaml").read_text()
    wanted = wanted.replace("docs/runbooks/", "https://runbooks.example/vc/")
    assert alerts["spec"] == yaml.safe_load(wanted)


def test_every_component_is_scraped_at_a_port_that_it_has(full):
    for kind, name in WORKLOADS[:2]:
        monitor = named(full, "PodMonitor", name)["spec"]
        workload = named(full, kind, name)
        labels = workload["spec"]["template"]["metadata"]["labels"].items()
        assert monitor["selector"]["matchLabels"].items() <= labels
        ports = {port["name"] for port in pod_of(workload)["containers"][0]["ports"]}
        assert {each["port"] for each in monitor["podMetricsEndpoints"]} <= ports
