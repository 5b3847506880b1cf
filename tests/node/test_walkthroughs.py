"""The walkthroughs of `docs/walkthroughs`, run as they stand, on two super clusters with kubelets.

Hazard: what one of them leaves behind the next one finds. Each sets what the tenant is granted.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.node.conftest import SuperClusterAdmin
from tests.support import node_objects
from tests.support.forwards import forwarded, read_from
from tests.support.kubectl import KubectlRunner, until
from tests.support.names import fresh_name
from tools.testbed import chart
from tools.testbed.cluster import pki
from tools.testbed.cluster.handle import REPOSITORY, ClusterHandle
from tools.testbed.progress import StepPrinter
from tools.walks import page, run

pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]

PAGES = REPOSITORY / "docs" / "walkthroughs"
FAR = "c2"
"""The name of the other cluster on the pages."""

CALL = """
import os, ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
context = ssl.create_default_context(cafile=folder + "ca.crt")
headers = {"Authorization": "Bearer " + open(folder + "token").read()}
server = os.environ["KUBERNETES_SERVICE_HOST"] + ":" + os.environ["KUBERNETES_SERVICE_PORT"]
request = urllib.request.Request(f"https://{server}/api/v1/namespaces/default", headers=headers)
try:
    print(urllib.request.urlopen(request, context=context, timeout=10).status)
except urllib.error.HTTPError as answer:
    print(answer.status)
"""
"""A call of a pod's to the API of its own cluster: over TLS that verifies, with its own token."""


@dataclass(frozen=True, kw_only=True)
class PageWalker:
    """A reader of the pages, with the folder to work in."""

    folder: Path
    environment: Mapping[str, str]
    far: ClusterHandle

    def walk(self, name: str) -> None:
        """Do what a page says. What one leaves that fails halfway is no matter of the next."""
        try:
            run.walk(PAGES / name, self.folder, self.environment)
        except run.WalkthroughError:
            self.kubectl("demo").call("delete", "deployments,jobs,pods", "--all")
            untainted = json.dumps({"spec": {"taints": []}})
            self.home.call("patch", "supercluster", FAR, "--type", "merge", "-p", untainted)
            raise

    @property
    def home(self) -> KubectlRunner:
        """kubectl of the cluster with our components."""
        return KubectlRunner(kubeconfig=Path(self.environment["KUBECONFIG"]), path=self.far.path())

    def kubectl(self, name: str) -> KubectlRunner:
        """Return kubectl of the tenant `demo`, or of the other cluster."""
        return KubectlRunner(kubeconfig=self.folder / f"{name}.kubeconfig", path=self.far.path())

    def leave(self) -> None:
        """End the tenant, which ends there first, and have one cluster as before."""
        self.home.run("vc", "delete", "demo", "--no-wait")
        there = self.kubectl(FAR)
        until(
            lambda: not there.names("namespaces", "-l", "tenancy.x-k8s.io/vcname=demo"),
            "the end of the tenant's namespaces there",
        )
        self.home.run("delete", "superclusters", "--all")


@pytest.fixture(scope="module")
def walker(
    super_cluster: SuperClusterAdmin, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PageWalker]:
    """Have what comes before the first page."""
    far = ClusterHandle(FAR)
    far.up(StepPrinter())
    far.connect(super_cluster.cluster)
    folder = tmp_path_factory.mktemp("walk")
    shutil.copy(far.kubeconfig, folder / f"{FAR}.kubeconfig")
    environment = {
        **os.environ,
        **super_cluster.cluster.environment(),
        "PYTHONPATH": str(REPOSITORY),
    }
    found = PageWalker(folder=folder, environment=environment, far=far)
    try:
        found.walk("README.md")
        yield found
    finally:
        if "KEEP" not in os.environ:
            try:
                found.leave()
            finally:
                far.down()


def test_two_clusters_with_kubelets_are_one_tenants(walker: PageWalker):
    """A0-04, A0-07, A0-08, A1-06, A2-01: joined with kubectl, declared, one node."""
    # Nodes of the first cluster are there as well while pods of another page are on them.
    at_home = walker.home.names("nodes")
    shown = walker.kubectl("demo").names("nodes")
    assert [name for name in shown if name not in at_home] == [f"target-{FAR}"]
    there = walker.kubectl(FAR)
    assert there.names("customresourcedefinitions") == []
    for kind in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
        assert there.names(kind) == []
    ours = there.items("deployments,daemonsets,statefulsets", "-A")
    assert {each["metadata"]["namespace"] for each in ours} == {"kube-system", "local-path-storage"}


@pytest.fixture
def space(walker: PageWalker) -> Iterator[str]:
    """A tenant namespace whose pods run in the other cluster."""
    grant = {"spec": {"targets": [{"name": FAR}]}}
    walker.home.run("patch", "virtualcluster", "demo", "--type", "merge", "-p", json.dumps(grant))
    tenant, name = walker.kubectl("demo"), fresh_name("calls")
    tenant.run("create", "namespace", name)
    until(lambda: tenant.exists("serviceaccount", "default", "-n", name), "the account")
    yield name
    tenant.run("delete", "namespace", name, "--wait=false")


def test_a_pod_there_calls_the_api_of_its_own_cluster(walker: PageWalker, space: str):
    """The address that it is told is the one of a node of the first cluster."""
    tenant = walker.kubectl("demo")
    body = node_objects.pod("caller", "", namespace=space, restartPolicy="Never")
    body["spec"]["containers"][0] |= {
        "image": "python:3-slim",
        "command": ["python3", "-c", CALL],
    }
    tenant.apply(body)
    ended = until(
        lambda: (
            {tenant.get("pod", "caller", "-n", space)["status"]["phase"]} & {"Succeeded", "Failed"}
        ),
        "the end of the pod",
    )
    said = tenant.run("logs", "caller", "-n", space)
    assert (ended, said.strip()) == ({"Succeeded"}, "403"), said


def test_a_command_there_has_its_input_its_terminal_and_its_exit_code(
    walker: PageWalker, space: str
):
    """A0-17, A0-18: and the logs are those that the other cluster's admin reads."""
    tenant, there = walker.kubectl("demo"), walker.kubectl(FAR)
    script = "trap 'exit 0' TERM; head -c 3000 /dev/urandom | base64; sleep 2147483647 & wait"
    tenant.apply(node_objects.pod("talker", script, namespace=space))
    tenant.run("wait", "--for=condition=Ready", "pod/talker", "-n", space, "--timeout=60s")
    (twin,) = there.items("pods", "-A", "-l", f"app=talker,tenancy.x-k8s.io/namespace={space}")
    below = there.run("logs", "talker", "-n", twin["metadata"]["namespace"])
    assert len(below) > 4000
    assert tenant.run("logs", "talker", "-n", space) == below
    words = ("exec", "-i", "talker", "-n", space, "--", "sh", "-c", "cat; exit 3")
    done = tenant.call(*words, stdin="one\ntwo\n")
    assert (done.code, done.out) == (3, "one\ntwo\n"), done.err
    done = tenant.terminal(f"kubectl exec -it talker -n {space} -- tty")
    assert (done.code, "/dev/" in done.out) == (0, True), done


@dataclass(frozen=True, kw_only=True)
class TargetJoiner:
    """An administrator who joins the target again, in one of the two modes."""

    walker: PageWalker

    def join(self, mode: str, *words: str) -> None:
        """Join, and wait until the mode is served."""
        home, there = self.walker.home, self.walker.kubectl(FAR)
        field = "jsonpath={.spec.clusterIP}"
        resolver = there.run("-n", "kube-system", "get", "service", "kube-dns", "-o", field)
        file = str(self.walker.folder / f"{FAR}.kubeconfig")
        join = ("vc", "target", "join", FAR, "--target-kubeconfig", file, "--resolver", resolver)
        home.run(*join, "--mode", mode, *words)

        def is_served() -> bool:
            said = self.said()
            assert f"(mode {mode})" in said, said
            return True

        until(is_served, f"mode {mode}", 120)

    def said(self) -> str:
        """Return what AgentReady says."""
        status = self.walker.home.get("supercluster", FAR)["status"]
        (found,) = (each for each in status["conditions"] if each["type"] == "AgentReady")
        return f"{found['status']} {found['reason']}: {found['message']}"

    def may(self, verb: str, what: str, subresource: str) -> bool:
        """Return whether the agent's account may do something in the other cluster."""
        there = self.walker.kubectl(FAR)
        (space,) = (
            each for each in there.names("namespaces") if each.startswith("virtual-cluster-")
        )
        account = f"system:serviceaccount:{space}:vn-agent"
        words = (verb, what, f"--subresource={subresource}", "-A", f"--as={account}")
        return there.call("auth", "can-i", *words).code == 0

    def rights(self) -> tuple[bool, bool]:
        """Return whether it may open streams at the API server, and at kubelets."""
        return self.may("create", "pods", "exec"), self.may("get", "nodes", "proxy")


@pytest.fixture
def joiner(walker: PageWalker) -> Iterator[TargetJoiner]:
    """One who leaves the mode as it was."""
    found = TargetJoiner(walker=walker)
    yield found
    found.join("apiserver")


def test_in_mode_agent_streams_go_straight_to_the_kubelets_there(
    walker: PageWalker, space: str, joiner: TargetJoiner, tmp_path: Path
):
    """A0-17, A0-18: to a kubelet that verifies, and to no other. Then by the API server again."""
    tenant, there = walker.kubectl("demo"), walker.kubectl(FAR)
    listener = "while :; do echo hi there | nc -l -p 8080; done"
    tenant.apply(
        node_objects.pod(
            "talker", f"head -c 3000 /dev/urandom | base64; {listener}", namespace=space
        )
    )
    tenant.run("wait", "--for=condition=Ready", "pod/talker", "-n", space, "--timeout=60s")
    (twin,) = there.items("pods", "-A", "-l", f"app=talker,tenancy.x-k8s.io/namespace={space}")
    below = there.run("logs", "talker", "-n", twin["metadata"]["namespace"])
    assert len(below) > 4000

    def log_is_whole() -> bool:
        done = tenant.call("logs", "talker", "-n", space)
        assert done.code == 0, done.err
        return done.out == below

    def streams_are_whole() -> None:
        until(log_is_whole, "the log")
        words = ("exec", "-i", "talker", "-n", space, "--", "sh", "-c", "cat; exit 3")
        done = tenant.call(*words, stdin="one\ntwo\n")
        assert (done.code, done.out) == (3, "one\ntwo\n"), done.err
        with forwarded(tenant, "talker", 8080, namespace=space) as port:
            assert until(lambda: read_from(port), "the container's answer") == b"hi there\n"

    assert joiner.rights() == (True, False)
    stranger, kubelets = tmp_path / "stranger.crt", tmp_path / "kubelets.crt"
    stranger.write_bytes(pki.make_authority("nobody").pem)
    kubelets.write_bytes(authority_of(walker.far))
    joiner.join("agent", "--kubelet-ca", str(stranger))
    assert joiner.rights() == (False, True)
    told = until(
        lambda: [
            line
            for line in tenant.call("logs", "talker", "-n", space).err.splitlines()
            if "of the pod's node" in line
        ],
        "the refusal of a kubelet that nobody vouches for",
    )
    assert "the certificate of the kubelet of the pod's node does not verify" in told[0]
    joiner.join("agent", "--kubelet-ca", str(kubelets))
    streams_are_whole()
    assert "directly from its kubelets (mode agent)" in joiner.said()
    joiner.join("apiserver")
    streams_are_whole()


def authority_of(cluster: ClusterHandle) -> bytes:
    """Return who signed the API server of a cluster. Its first node's kubelet is signed by it."""
    found = yaml.safe_load(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]
    return base64.b64decode(found["certificate-authority-data"])


def test_a_job_runs_on_another_cluster(walker: PageWalker):
    """A0-09, A0-10, A0-14, A0-15, A0-16, A0-17, A0-18, A0-19: seen here, run there, ended twice."""
    walker.walk("000-a-job-on-another-cluster.md")


def test_ten_replicas_are_five_in_each_of_two_clusters(walker: PageWalker):
    """A1-02, A1-08, A1-09, A1-10, A1-11, A1-13: ten on each side of the border, equal addresses."""
    walker.walk("001-ten-replicas-over-two.md")


def test_a_taint_keeps_off_who_does_not_tolerate_it(walker: PageWalker):
    """A2-04, A2-06, A2-07, A2-08, A2-10: the pod of the post, and its twin that waits."""
    walker.walk("002-a-taint-and-its-toleration.md")


def test_a_tenants_user_renews_with_the_tenants_kubeconfig_only(walker: PageWalker):
    """No command of the page finds the kubeconfig of the super cluster."""
    text = (PAGES / "003-certificates-in-the-tenants-hand.md").read_text()
    commands = [step.text for step in page.steps(text) if isinstance(step, page.PageCommand)]
    reached = [each for each in commands if "kubectl" in each]
    assert all(each.count("kubectl ") <= each.count("KUBECONFIG=") for each in reached)
    walker.walk("003-certificates-in-the-tenants-hand.md")


def test_an_autoscaler_makes_the_node_that_a_pod_waits_for(walker: PageWalker):
    """A4-10, A4-11, A4-13: Pending, told why, a node joins, Running."""
    walker.walk("004-a-node-from-an-autoscaler.md")


@pytest.fixture
def networked(super_cluster: SuperClusterAdmin, walker: PageWalker) -> Iterator[PageWalker]:
    """The page of networks has tenants of its own, and switches a value of the chart on."""
    yield walker
    for name in ("red", "blue"):
        walker.home.call("vc", "delete", name, "--ignore-not-found", "--yes", timeout=240)
    walker.home.call("delete", "tenantpolicy", "lab", "--ignore-not-found")
    values = (*chart.KUBELET_UPSTREAM, "networkAttachments.enabled=false")
    chart.install(super_cluster.cluster, StepPrinter(), values=values)


def test_two_tenants_have_one_network_of_the_nodes_and_no_equal_address(networked: PageWalker):
    """Additional networks of pods, with a stand-in for Multus and the real plugins."""
    networked.walk("004-networks-of-pods.md")
