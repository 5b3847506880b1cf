"""Pods of a target's agent, and their settings in the chart."""

from __future__ import annotations

from tenancy import wellknown
from tests.support.vcmanager.target_agents import (
    DEPLOYMENT,
    KUBELETS,
    PODS,
    SECRET,
    THERE,
    TITLE,
    UID,
    container_of,
)
from vcmanager.runtime.options import AgentPodSettings
from vcmanager.targets import agent_objects
from vcmanager.targets.agent_objects import AgentDeployment, AgentServers
from vnagent import settings
from vnagent.authz import metrics


async def test_its_pods_have_an_account_of_their_own_and_the_credential_alone(agent_world):
    """SEC-12: no account token but the bound one, nothing writable but a small volume."""
    await agent_world.keep()
    body = agent_world.home.objects[DEPLOYMENT]
    pod = body["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "vn-agent-target"
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    security = container_of(agent_world)["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}
    volumes = {each["name"]: each for each in pod["volumes"]}
    secret = volumes["target"]["secret"]
    assert {field: secret[field] for field in secret if field != "items"} == {
        "secretName": TITLE,
        "optional": True,
        "defaultMode": 0o440,
    }
    assert volumes["trust"] == {"name": "trust", "configMap": {"name": "vn-agent-trust"}}
    assert {each["name"] for each in container_of(agent_world)["volumeMounts"]} == set(volumes)
    labels = body["spec"]["template"]["metadata"]["labels"]
    assert body["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels["app.kubernetes.io/name"] == "vn-agent-target"
    assert labels[wellknown.SUPER_CLUSTER] == UID
    assert wellknown.CONTROLLED not in labels
    for name in (SECRET, DEPLOYMENT):
        (owner,) = agent_world.home.objects[name]["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("SuperCluster", UID)


def test_the_agent_reads_what_it_is_given():
    """The environment of the pod, with what a kubelet fills in, is one that it starts with."""
    post = AgentDeployment(name="c2", uid=UID, namespace="vc-manager", mode="agent")
    servers = AgentServers(THERE, KUBELETS)
    made = agent_objects.build_deployment(post, PODS, servers, has_credential=True)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    environment = {each["name"]: each.get("value", "10.1.0.7") for each in container["env"]}
    environment["KUBERNETES_SERVICE_HOST"] = "10.96.0.1"
    given = settings.parse_settings([], environment, "v1")
    assert given.target.server.port == 6443
    assert given.target.registration == UID
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert str(given.target.token_file) == f"{mounts['target']}/token"
    assert str(given.target.authorities_file) == f"{mounts['target']}/ca.crt"
    assert str(given.target.kubelet_authorities_file) == f"{mounts['target']}/kubelet-ca.crt"
    assert given.target.mode is metrics.UpstreamMode.KUBELET
    data = agent_objects.build_secret(post, servers, "t")["data"]
    volumes = {each["name"]: each for each in made["spec"]["template"]["spec"]["volumes"]}
    paths = {each["key"]: each["path"] for each in volumes["target"]["secret"]["items"]}
    files = (given.target.authorities_file, given.target.kubelet_authorities_file)
    assert {each.name for each in (*files, given.target.token_file)} == {paths[key] for key in data}
    assert str(given.client_authorities_file.parent) == mounts["trust"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {
        "kubelet": given.port,
        "http": given.health_port,
        "metrics": given.metrics_port,
    }


def test_the_wishes_of_the_chart_are_in_the_pods():
    post = AgentDeployment(name="c2", uid=UID, namespace="vc-manager")
    pods = AgentPodSettings(
        image="i",
        image_pull_secrets=({"name": "s"},),
        priority_class_name="p",
        tolerations=({"operator": "Exists"},),
        affinity={"nodeAffinity": {}},
        node_selector={"a": "b"},
        resources={"limits": {"memory": "1Gi"}},
        pod_annotations={"c": "d"},
        secure_metrics=False,
        replicas=2,
    )
    body = agent_objects.build_deployment(post, pods, None, has_credential=False)
    spec = body["spec"]["template"]["spec"]
    assert (body["spec"]["replicas"], spec["priorityClassName"]) == (2, "p")
    assert spec["imagePullSecrets"] == [{"name": "s"}]
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux", "a": "b"}
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["containers"][0]["resources"] == {"limits": {"memory": "1Gi"}}
    assert body["spec"]["template"]["metadata"]["annotations"]["c"] == "d"
    assert {"name": "METRICS_PORT", "value": "0"} in spec["containers"][0]["env"]
