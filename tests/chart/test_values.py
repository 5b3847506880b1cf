"""Values that cannot be meant are refused with the place. The schema describes each one."""

import json

import pytest
import yaml

from tests.support.helm import CHART, helm, refusal

SCHEMA = json.loads((CHART / "values.schema.json").read_text())


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("image.registri=x", "/image"),
        ("image.registry=https://x", "/image/registry"),
        ("image.tag=a b", "/image/tag"),
        ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
        ("image.pullSecrets[0].nam=x", "/image/pullSecrets/0"),
        ("controlPlane.nodePorts=all", "/controlPlane/nodePorts"),
        ("crds.install=perhaps", "/crds/install"),
        ("logging.level=LOUD", "/logging/level"),
        ("manager.replicas=-1", "/manager/replicas"),
        ("manager.replicas=two", "/manager/replicas"),
        ("syncer.resources.limits.cpu=plenty", "/syncer/resources/limits/cpu"),
        ("syncer.clusterDomain=.local", "/syncer/clusterDomain"),
        ("syncer.nodeSelector.a=1", "/syncer/nodeSelector/a"),
        ("agent.replicas=1", "/agent"),
        ("agent.maxUnavailable=0", "/agent/maxUnavailable"),
        ("agent.maxUnavailable=200%", "/agent/maxUnavailable"),
        ("agent.kubelet.insecure=true", "/agent/kubelet"),
        ("agent.upstream=insecure", "/agent/upstream"),
        ("agent.kubelet.ca.configMap=", "/agent/kubelet/ca/configMap"),
        ("flowControl.shares=0", "/flowControl/shares"),
        ("clusterVersions.items.a=x", "/clusterVersions/items/a"),
        ("tolerations=x", ""),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(value, place):
    assert f"at '{place}'" in refusal("--set", value)


def test_a_name_that_no_object_can_have_is_refused():
    told = refusal("--set", "clusterVersions.items.Upper.kubernetesVersion=1")
    assert "'Upper' does not match pattern" in told


def test_a_cluster_that_is_too_old_is_refused():
    assert "requires kubeVersion: >=1.33" in refusal("--kube-version", "1.32.9")


def described(node: dict, where: str = "") -> list[str]:
    lacking = []
    for name, value in node.get("properties", {}).items():
        if not value.get("description"):
            lacking.append(f"{where}.{name}")
        lacking += described(value, f"{where}.{name}")
    return lacking


def test_every_value_is_described_and_no_other_is_taken():
    resources = {".$defs.resources.requests", ".$defs.resources.claims"}
    assert set(described(SCHEMA)) <= resources

    def closed(node: dict) -> bool:
        inside = [each for each in node.get("properties", {}).values() if "properties" in each]
        return node.get("additionalProperties") is False and all(closed(each) for each in inside)

    assert closed(SCHEMA)


def test_every_value_of_the_schema_has_a_default():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for name, node in SCHEMA["properties"].items():
        if name != "global":
            assert set(node["properties"]) == set(values[name]), name


def test_the_linter_has_nothing_to_say():
    done = helm("lint", str(CHART), "--strict")
    assert done.returncode == 0, done.stdout


def test_the_notes_name_the_next_commands():
    done = helm("install", "x", str(CHART), "--dry-run=client", "--namespace", "vc-manager")
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("NOTES:")[2]
    for command in (
        "rollout status",
        "uv tool install '.[cli]'",
        "kubectl vc doctor",
        "kubectl vc create my-tenant --cluster-version v1.36",
        "kubectl vc connect my-tenant -- kubectl get namespaces",
    ):
        assert command in notes
    assert "image.registry is empty" in notes
