"""The files of `make release` alone: an empty super cluster, the chart, the plugin, a tutorial.

RELEASE names a folder with the files. Without it, the test builds them. Hazard: the nodes of the
testbed have our images from the start, and the checkout has our code. Both must be out of reach,
otherwise the test passes without the files.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tools.packages import ROOT
from tools.release import artifacts
from tools.testbed.artifacts import binaries, images, product
from tools.testbed.chart import NAMESPACE, RELEASE, WORKLOADS
from tools.testbed.cluster.handle import ClusterHandle
from tools.testbed.cluster.node import CONTAINERD_SOCKET
from tools.testbed.progress import StepPrinter
from tools.walks import run

pytestmark = [pytest.mark.node, pytest.mark.slow, pytest.mark.timeout(1800)]

NODE = "node-1"
TUTORIAL = ROOT / "docs" / "tutorials" / "first-tenant.md"
OF_THE_TESTBED = ("pause", "local-path-provisioner")
"""Images with our prefix that belong to the super cluster itself."""


@dataclass(frozen=True, kw_only=True)
class ReleaseFiles:
    """The folder of a release."""

    folder: Path

    def find(self, pattern: str) -> Path:
        """Return the one file of a pattern."""
        (found,) = self.folder.glob(pattern)
        return found


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> ReleaseFiles:
    known = os.environ.get("RELEASE", "")
    if known:
        return ReleaseFiles(folder=Path(known).resolve())
    folder = tmp_path_factory.mktemp("dist") / "release"
    artifacts.build(folder, StepPrinter())
    return ReleaseFiles(folder=folder)


@pytest.fixture(scope="module")
def empty_cluster() -> Iterator[ClusterHandle]:
    """A super cluster without our images, in its nodes and in its registry."""
    cluster = ClusterHandle("release")
    cluster.up(StepPrinter())
    try:
        repositories = cluster.places.registry / "docker" / "registry" / "v2" / "repositories"
        for name in _list_images(cluster):
            _ctr(cluster, "images", "rm", "--sync", name)
            repository = name.partition("/")[2].rpartition(":")[0]
            shutil.rmtree(repositories / repository, ignore_errors=True)
        assert _list_images(cluster) == []
        yield cluster
    finally:
        if "KEEP" not in os.environ:
            cluster.down()


def _list_images(cluster: ClusterHandle) -> list[str]:
    """Return the names of our images in the node."""
    names = _ctr(cluster, "images", "ls", "-q").split()
    return [
        name
        for name in names
        if name.startswith(f"{images.PREFIX}/")
        and name.rpartition("/")[2].partition(":")[0] not in OF_THE_TESTBED
    ]


def _ctr(cluster: ClusterHandle, *words: str, stdin: Path | None = None) -> str:
    enter = ["nsenter", "--target", str(cluster.pid_of(NODE)), "--net", "--mount", "--pid", "--"]
    ctr = [str(binaries.path("ctr")), "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io"]
    with (stdin or Path(os.devnull)).open("rb") as source:
        done = subprocess.run(
            [*enter, *ctr, *words], stdin=source, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def environment(
    release: ReleaseFiles,
    empty_cluster: ClusterHandle,
    tmp_path_factory: pytest.TempPathFactory,
) -> Mapping[str, str]:
    """The environment of a user who has kubectl, helm and the unpacked plugin."""
    plugin = tmp_path_factory.mktemp("plugin")
    with tarfile.open(release.find("kubectl-vc-*.tar.gz")) as archive:
        archive.extractall(plugin, filter="data")
    tools = [str(binaries.path(name).parent) for name in ("kubectl", "helm")]
    own = {str(Path(sys.executable).parent), str(Path(sys.prefix) / "bin")}
    system = [each for each in os.environ["PATH"].split(os.pathsep) if each not in own]
    path = os.pathsep.join([str(plugin), *tools, *system])
    assert shutil.which("kubectl-vc", path=path) == str(plugin / "kubectl-vc")
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, **empty_cluster.environment(), "PATH": path, "HELM_CACHE_HOME": str(plugin)}


def _run(environment: Mapping[str, str], folder: Path, *words: str) -> str:
    done = subprocess.run(
        words, env=dict(environment), cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr or done.stdout}"
    return done.stdout


def test_the_checksums_are_those_of_the_files(release: ReleaseFiles):
    _run(os.environ, release.folder, "sha256sum", "--check", "--strict", artifacts.SUMS)


def test_the_wheel_has_the_code_of_the_plugin(release: ReleaseFiles):
    with zipfile.ZipFile(release.find("*.whl")) as wheel:
        code = {name for name in wheel.namelist() if name.endswith(".py")}
    with tarfile.open(release.find("kubectl-vc-*.tar.gz")) as plugin:
        packed = {name.removeprefix("./") for name in plugin.getnames()}
    assert "kubectl_vc/app.py" in code
    assert {f"lib/{name}" for name in code} <= packed


def test_a_second_build_without_a_network_has_the_same_checksums(
    release: ReleaseFiles, tmp_path: Path
):
    again = tmp_path / "again"
    command = ("unshare", "--net", sys.executable, "-m", "tools.release", str(again))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr or done.stdout
    assert (again / artifacts.SUMS).read_text() == (release.folder / artifacts.SUMS).read_text()


def test_the_krew_manifest_names_the_archive_of_the_plugin(release: ReleaseFiles):
    manifest = yaml.safe_load(release.find("vc.yaml").read_text())
    (platform,) = manifest["spec"]["platforms"]
    archive = release.folder / platform["uri"]
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == platform["sha256"]
    with tarfile.open(archive) as plugin:
        assert platform["bin"] in {name.removeprefix("./") for name in plugin.getnames()}
    assert manifest["spec"]["version"] == f"v{product.version()}"


def test_the_bill_of_materials_names_the_packages_of_each_registry(release: ReleaseFiles):
    bill = json.loads(release.find("sbom.cdx.json").read_text())
    names = {(each["purl"].partition("@")[0], each["version"]) for each in bill["components"]}
    assert {
        "pkg:pypi/kopf",
        "pkg:golang/go.etcd.io/etcd/server/v3",
        "pkg:golang/k8s.io/kubernetes",
        "pkg:golang/github.com/coredns/coredns",
        "pkg:deb/debian/haproxy",
    } <= {name for name, _ in names}
    assert {name.partition("/")[0] for name, _ in names} == {
        *("pkg:pypi", "pkg:golang", "pkg:deb", "pkg:npm"),
    }
    assert all(version for _, version in names)


def test_a_newcomer_installs_the_files_and_follows_the_first_tutorial(
    release: ReleaseFiles,
    empty_cluster: ClusterHandle,
    environment: Mapping[str, str],
    tmp_path: Path,
):
    """The steps of docs/release.md. Each kubectl and helm here is one that a user types."""
    _ctr(empty_cluster, "images", "import", "-", stdin=release.find("images-*.tar"))
    present = _list_images(empty_cluster)
    for name in ("vc-manager", "vc-syncer", "vn-agent", "etcd", "kube-apiserver", "coredns"):
        assert any(f"/{name}:" in image for image in present), (name, present)
    chart, version = release.find("virtual-cluster-*.tgz"), product.version()
    _run(
        *(environment, tmp_path, "helm", "install", RELEASE, str(chart)),
        *("-n", NAMESPACE, "--create-namespace"),
        *("--set", f"image.registry={images.PREFIX}", "--set", f"image.tag={version}"),
    )
    for workload in WORKLOADS:
        words = ("rollout", "status", workload, "-n", NAMESPACE, "--timeout=180s")
        _run(environment, tmp_path, "kubectl", *words)
    run.walk(TUTORIAL, tmp_path, environment)
