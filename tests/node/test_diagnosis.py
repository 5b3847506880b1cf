"""The verbs that find faults, on a real installation with faults that it makes itself."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support import node_objects
from tests.support.kubectl import until

pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]

SPACE = "diagnosis"
PLANTED = "planted-word-of-a-secret"
SLEEP = "sleep 3600"


def change(name: str, **spec: Any) -> dict[str, Any]:
    """Return a pod with a fault in its spec."""
    return node_objects.pod(name, SLEEP, namespace=SPACE, **spec)


def of_container(name: str, script: str = SLEEP, **fields: Any) -> dict[str, Any]:
    """Return a pod with a fault in its container."""
    return change(name, containers=[{**node_objects.container(script), **fields}])


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "a sound pod": (change("sound"), "none"),
    "the image does not exist": (of_container("image", image="127.0.0.1:1/none:1"), "image"),
    "the policy refuses": (change("refused", hostNetwork=True), "policy"),
    "no node has the label": (change("nowhere", nodeSelector={"disk": "none"}), "no-node"),
    "a ConfigMap is missing": (
        of_container("needy", envFrom=[{"configMapRef": {"name": "missing"}}]),
        "needs",
    ),
    "a claim is missing": (
        change("claiming", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "no"}}]),
        "needs",
    ),
    "the container crashes": (of_container("crashing", "exit 3"), "container"),
    "the container is never ready": (
        of_container("unready", readinessProbe={"exec": {"command": ["false"]}}),
        "probe",
    ),
    "an init container fails": (
        change("initial", initContainers=[node_objects.container("exit 4", "first")]),
        "init-container",
    ),
}


@pytest.fixture(scope="module")
def space(tenant_a: TenantAdmin) -> Iterator[str]:
    """A namespace of the tenant with a pod for each fault, and a Secret."""
    tenant_a.kubectl.run("create", "namespace", SPACE)
    tenant_a.kubectl.run(
        "-n", SPACE, "create", "secret", "generic", "planted", f"--from-literal=a={PLANTED}"
    )
    tenant_a.kubectl.apply(*(body for body, _ in FAULTS.values()))
    yield SPACE
    tenant_a.kubectl.run("delete", "namespace", SPACE, timeout=120)


@pytest.mark.parametrize("fault", FAULTS)
def test_why_names_the_layer_of_a_real_fault(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin, space: str, fault: str
):
    """Both views name one layer, and the tenant's view has no name of the super cluster."""
    body, layer = FAULTS[fault]
    words = ("vc", "why", f"pod/{body['metadata']['name']}", "-n", space, "-o", "json")
    super_words = (*words, "--vc", tenant_a.name)

    def ask(runner: Any, *asked: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(runner.run(*asked))
        return found

    until(lambda: ask(super_cluster.kubectl, *super_words)["layer"] == layer, f"{fault}: {layer}")
    shown = tenant_a.kubectl.run(*words)
    assert json.loads(shown)["layer"] == layer
    assert tenant_a.root not in shown


def test_a_sound_installation_has_no_broken_link(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin
):
    for words in (("doctor",), ("doctor", tenant_a.name)):
        done = super_cluster.kubectl.call("vc", *words)
        assert done.code == 0, done.out + done.err
    described = super_cluster.kubectl.run("vc", "describe", tenant_a.name)
    assert tenant_a.root in described
    assert super_cluster.kubectl.call("vc", "events", tenant_a.name).code == 0


@pytest.mark.parametrize(
    ("deployment", "words"), [("vc-syncer", "syncer"), ("vc-manager", "vc-manager")]
)
def test_doctor_names_a_component_that_is_stopped(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin, deployment: str, words: str
):
    super_cluster.scale(deployment, 0)
    try:
        done = super_cluster.kubectl.call("vc", "doctor", tenant_a.name)
    finally:
        super_cluster.scale(deployment, 1)
    assert done.code == 1
    assert words in done.err, done.out
    assert "Next: " in done.err


def test_a_bundle_for_a_bug_report_has_facts_and_no_secret(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin, space: str, tmp_path: Path
):
    file = tmp_path / "bundle.tar.gz"
    super_cluster.kubectl.run("vc", "debug", "collect", tenant_a.name, "-o", str(file))
    contents = dict[str, bytes]()
    with tarfile.open(file) as archive:
        for member in archive.getmembers():
            found = archive.extractfile(member)
            if found is not None:
                contents[member.name] = found.read()
    everything = b"\n".join(contents.values())
    assert tenant_a.name.encode() in everything
    assert PLANTED.encode() not in everything
    for hidden in (b"PRIVATE KEY", b"client-key-data", b"LS0tLS1CRUdJTi"):
        holders = [name for name, content in contents.items() if hidden in content]
        assert not holders, f"{hidden.decode()} is in {holders}"
