"""Bad input: a clear sentence that names field and remedy, the exit code, nothing half-made."""

import json
from typing import Any

import pytest

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support import node_objects
from tests.support.kubectl import KubectlOutput, KubectlRunner, until

pytestmark = pytest.mark.node

TEMPLATE = """\
apiVersion: tenancy.x-k8s.io/v1alpha1
kind: VirtualCluster
metadata: {{name: {name}, namespace: default}}
spec: {spec}
"""
ALIASES = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
    for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.fixture
def refused(super_cluster: SuperClusterAdmin, tmp_path):
    """Return a function that runs `create -f` on a text and checks that nothing came of it."""
    target = tmp_path / "kubeconfig"

    def run(text: str) -> KubectlOutput:
        manifest = tmp_path / "vc.yaml"
        manifest.write_text(text)
        before = set(super_cluster.kubectl.names("virtualclusters", "-A"))
        namespaces = set(super_cluster.kubectl.names("namespaces"))
        done = super_cluster.kubectl.call("vc", "create", "-f", str(manifest), "-o", str(target))
        # Other tests' may still be on their way out. None is new.
        assert set(super_cluster.kubectl.names("virtualclusters", "-A")) <= before
        assert set(super_cluster.kubectl.names("namespaces")) <= namespaces
        assert not target.exists()
        assert "Traceback" not in done.err
        return done

    return run


@pytest.mark.parametrize(
    ("text", "code", "sentences"),
    [
        pytest.param(
            TEMPLATE.format(name="bad", spec="{clusterVersionName: v9.99}"),
            1,
            ["v9.99", "clusterVersionName", "v1.36"],
            id="unknown cluster version",
        ),
        pytest.param(
            TEMPLATE.format(name="a" * 60, spec="{clusterVersionName: v1.36}"),
            1,
            ["55", "name"],
            id="over-long name",
        ),
        pytest.param("kind: [", 1, ["vc.yaml"], id="malformed YAML"),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n",
            1,
            ["VirtualCluster", "Pod"],
            id="another kind",
        ),
        pytest.param(
            TEMPLATE.format(name="bad", spec="{clusterVersionName: ''}"),
            1,
            ["clusterVersionName"],
            id="no version",
        ),
        pytest.param(
            TEMPLATE.format(name="bad", spec="{clusterVersionName: v1.36, dns: maybe}"),
            1,
            ["dns", "managed"],
            id="unknown value",
        ),
        pytest.param(
            TEMPLATE.format(name="bad", spec="&a {clusterVersionName: v1.36, x: *a}"),
            1,
            ["the alias a", "refers to itself"],
            id="recursive YAML",
        ),
        pytest.param("[" * 100_000, 1, ["nested deeper than"], id="very deep YAML"),
        pytest.param(ALIASES, 1, ["with its aliases it has more than"], id="many aliases"),
        pytest.param(
            TEMPLATE.format(name="bad", spec="{clusterVersionName: v1.36}").replace(
                "namespace: default", "namespace: ../../x"
            ),
            1,
            ["metadata.namespace", "../../x", "DNS label"],
            id="a path for a namespace",
        ),
    ],
)
def test_a_bad_virtual_cluster(refused, text: str, code: int, sentences: list[str]):
    done = refused(text)
    assert done.code == code, done
    for sentence in sentences:
        assert sentence in done.err


def test_an_existing_kubeconfig_is_kept(super_cluster: SuperClusterAdmin, tmp_path):
    target = tmp_path / "kubeconfig"
    target.write_text("mine")
    done = super_cluster.kubectl.call(
        "vc", "create", "kept", "--cluster-version", "v1.36", "-o", str(target)
    )
    assert done.code == 1
    assert str(target) in done.err
    assert target.read_text() == "mine"
    assert not super_cluster.kubectl.exists("virtualcluster", "kept")


@pytest.mark.parametrize("words", [(), ("-f", "FILE"), ("--nonsense",)])
def test_wrong_usage_exits_with_2(
    super_cluster: SuperClusterAdmin, tmp_path, words: tuple[str, ...]
):
    """A manifest alone is not enough, because the kubeconfig has no place to go."""
    manifest = tmp_path / "vc.yaml"
    manifest.write_text(
        """apiVersion: tenancy.x-k8s.io/v1alpha1
kind: VirtualCluster
metadata: {name: no-place}
spec: {clusterVersionName: v1.36}
"""
    )
    words = tuple(str(manifest) if word == "FILE" else word for word in words)
    assert super_cluster.kubectl.call("vc", "create", *words).code == 2


def test_no_permission_reports_which(super_cluster: SuperClusterAdmin, tmp_path):
    super_cluster.kubectl.run("create", "serviceaccount", "nobody", "-n", "default")
    try:
        token = super_cluster.kubectl.run("create", "token", "nobody", "-n", "default").strip()
        config = json.loads(super_cluster.kubectl.run("config", "view", "--raw", "-o", "json"))
        config["users"][0]["user"] = {"token": token}
        kubeconfig = tmp_path / "nobody"
        kubeconfig.write_text(json.dumps(config))
        kubeconfig.chmod(0o600)
        nobody = KubectlRunner(kubeconfig=kubeconfig, path=super_cluster.kubectl.path)
        target = tmp_path / "kubeconfig"
        done = nobody.call("vc", "create", "x", "--cluster-version", "v1.36", "-o", str(target))
        assert done.code == 1
        assert "system:serviceaccount:default:nobody" in done.err
        assert "virtualclusters" in done.err or "clusterversions" in done.err
        assert not target.exists()
    finally:
        super_cluster.kubectl.run("delete", "serviceaccount", "nobody", "-n", "default")


def test_both_shapes_of_a_cluster_version_at_once(super_cluster: SuperClusterAdmin):
    bundle = {"metadata": {"name": "etcd"}, "statefulset": {"apiVersion": "apps/v1"}}
    both = {
        "apiVersion": "tenancy.x-k8s.io/v1alpha1",
        "kind": "ClusterVersion",
        "metadata": {"name": "both"},
        "spec": {"kubernetesVersion": "1.36", "etcd": bundle, "apiServer": bundle},
    }
    done = super_cluster.kubectl.call("apply", "-f", "-", stdin=json.dumps(both))
    assert done.code == 1
    assert "kubernetesVersion" in done.err
    assert not super_cluster.kubectl.exists("clusterversion", "both")


def test_a_malformed_template_is_named_and_nothing_is_made_of_it(
    super_cluster: SuperClusterAdmin, tmp_path
):
    """A bundle that the schema cannot judge."""
    broken = {
        "apiVersion": "tenancy.x-k8s.io/v1alpha1",
        "kind": "ClusterVersion",
        "metadata": {"name": "broken"},
        "spec": {
            "etcd": {"metadata": {"name": "etcd"}, "statefulset": {"spec": "not an object"}},
            "apiServer": {"metadata": {"name": "apiserver"}, "statefulset": {}},
        },
    }
    super_cluster.kubectl.run("apply", "-f", "-", stdin=json.dumps(broken))
    done = super_cluster.kubectl.call(
        *("vc", "create", "unlucky", "--cluster-version", "broken"),
        *("-o", str(tmp_path / "kubeconfig"), "--timeout", "60s"),
        timeout=120,
    )
    try:
        assert done.code in (1, 4), "the time may be over first"
        assert "etcd" in done.err
        assert "statefulset" in done.err
        assert not [n for n in super_cluster.kubectl.names("namespaces") if n.endswith("-unlucky")]
        assert not (tmp_path / "kubeconfig").exists()
    finally:
        if super_cluster.kubectl.exists("virtualcluster", "unlucky"):
            super_cluster.kubectl.run("vc", "delete", "unlucky", timeout=120)
        super_cluster.kubectl.run("delete", "clusterversion", "broken")


IMAGES = {
    "nowhere": ("absent.invalid/app:1", "IfNotPresent", {"ErrImagePull", "ImagePullBackOff"}),
    "nonsense": ("NO//image", "IfNotPresent", {"InvalidImageName"}),
    "never": ("absent.invalid/app:2", "Never", {"ErrImageNeverPull"}),
}


def _waiting(tenant: TenantAdmin, name: str) -> dict[str, Any]:
    statuses = tenant.kubectl.get("pod", name).get("status", {}).get("containerStatuses") or [{}]
    waiting: dict[str, Any] = statuses[0].get("state", {}).get("waiting") or {}
    return waiting


@pytest.mark.timeout(600)
def test_an_image_that_cannot_be_pulled_is_reported_in_the_tenants_words(tenant_a: TenantAdmin):
    """It is reported as a status and as Events, and another image mends the pod."""
    for name, (image, pull, _) in IMAGES.items():
        body = node_objects.sleeper(name)
        body["spec"]["containers"][0] |= {"image": image, "imagePullPolicy": pull}
        tenant_a.kubectl.apply(body)
    for name, (image, _, reasons) in IMAGES.items():
        until(lambda n=name, r=reasons: _waiting(tenant_a, n).get("reason") in r, f"{name} waits")
        about = ("events", "--field-selector", f"involvedObject.name={name}")
        until(
            lambda a=about, i=image: any(i in e["message"] for e in tenant_a.kubectl.items(*a)),
            f"an event about {name}'s image",
        )
        told = [event for event in tenant_a.kubectl.items(*about) if event["type"] == "Warning"]
        assert any(image in event["message"] for event in told)
        said = json.dumps([tenant_a.kubectl.get("pod", name), told])
        assert tenant_a.root not in said
        assert {event["involvedObject"]["namespace"] for event in told} == {"default"}
    for name in IMAGES:
        tenant_a.kubectl.run("set", "image", f"pod/{name}", f"main={node_objects.IMAGE}")
    for name in IMAGES:
        tenant_a.kubectl.run(
            "wait", "--for=condition=Ready", f"pod/{name}", "--timeout=120s", timeout=150
        )
    tenant_a.kubectl.run("delete", "pods", *IMAGES, "--wait=true", timeout=120)
