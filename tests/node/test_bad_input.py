"""Bad input: a clear sentence that names field and remedy, the exit code, nothing half-made."""

import json

import pytest

from tests.node.conftest import SuperCluster
from tests.node.kubectl import Done, Kubectl

pytestmark = pytest.mark.node

TEMPLATE = """\
apiVersion: tenancy.x-k8s.io/v1alpha1
kind: VirtualCluster
metadata: {{name: {name}, namespace: default}}
spec: {spec}
"""


@pytest.fixture
def refused(super_cluster: SuperCluster, tmp_path):
    """Return a function that runs `create -f` on a text and checks that nothing came of it."""
    target = tmp_path / "kubeconfig"

    def run(text: str) -> Done:
        manifest = tmp_path / "vc.yaml"
        manifest.write_text(text)
        before = set(super_cluster.kubectl.names("virtualclusters", "-A"))
        namespaces = set(super_cluster.kubectl.names("namespaces"))
        done = super_cluster.kubectl.call("vc", "create", "-f", str(manifest), "-o", str(target))
        # Other tests' may still be on their way out; none is new.
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
            TEMPLATE.format(name="bad", spec="{}"), 1, ["clusterVersionName"], id="no version"
        ),
        pytest.param(
            TEMPLATE.format(name="bad", spec="{clusterVersionName: v1.36, dns: maybe}"),
            1,
            ["dns", "managed"],
            id="unknown value",
        ),
    ],
)
def test_a_bad_virtual_cluster(refused, text: str, code: int, sentences: list[str]):
    done = refused(text)
    assert done.code == code, done
    for sentence in sentences:
        assert sentence in done.err


def test_an_existing_kubeconfig_is_kept(super_cluster: SuperCluster, tmp_path):
    target = tmp_path / "kubeconfig"
    target.write_text("mine")
    done = super_cluster.kubectl.call(
        "vc", "create", "kept", "--cluster-version", "v1.36", "-o", str(target)
    )
    assert done.code == 1
    assert str(target) in done.err
    assert target.read_text() == "mine"
    assert not super_cluster.kubectl.exists("virtualcluster", "kept")


@pytest.mark.parametrize("words", [(), ("-f", "vc.yaml"), ("--nonsense",)])
def test_wrong_usage_exits_with_2(super_cluster: SuperCluster, words: tuple[str, ...]):
    assert super_cluster.kubectl.call("vc", "create", *words).code == 2


def test_no_permission_says_which(super_cluster: SuperCluster, tmp_path):
    super_cluster.kubectl.run("create", "serviceaccount", "nobody", "-n", "default")
    try:
        token = super_cluster.kubectl.run("create", "token", "nobody", "-n", "default").strip()
        config = json.loads(super_cluster.kubectl.run("config", "view", "--raw", "-o", "json"))
        config["users"][0]["user"] = {"token": token}
        kubeconfig = tmp_path / "nobody"
        kubeconfig.write_text(json.dumps(config))
        kubeconfig.chmod(0o600)
        nobody = Kubectl(kubeconfig=kubeconfig, path=super_cluster.kubectl.path)
        target = tmp_path / "kubeconfig"
        done = nobody.call("vc", "create", "x", "--cluster-version", "v1.36", "-o", str(target))
        assert done.code == 1
        assert "system:serviceaccount:default:nobody" in done.err
        assert "virtualclusters" in done.err or "clusterversions" in done.err
        assert not target.exists()
    finally:
        super_cluster.kubectl.run("delete", "serviceaccount", "nobody", "-n", "default")


def test_both_shapes_of_a_cluster_version_at_once(super_cluster: SuperCluster):
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


def test_a_malformed_template_is_named_in_a_condition_and_heals(
    super_cluster: SuperCluster, tmp_path
):
    """A bundle that the schema cannot judge: nothing is made of it, and the words help."""
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
        assert done.code == 1
        assert "etcd" in done.err
        assert "statefulset" in done.err
        assert not [n for n in super_cluster.kubectl.names("statefulsets", "-A") if n == "unlucky"]
    finally:
        if super_cluster.kubectl.exists("virtualcluster", "unlucky"):
            super_cluster.kubectl.run("vc", "delete", "unlucky", timeout=120)
        super_cluster.kubectl.run("delete", "clusterversion", "broken")
