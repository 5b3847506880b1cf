"""Many super nodes: tenants' pods are spread over them, and leave those that are drained or lost.

Six nodes in three zones that kwok looks after stand beside the real one, for the length of this
module. They take any pod, so every pod that is made meanwhile says where it belongs.
"""

import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import pytest

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support import node_objects
from tests.support.kubectl import KubectlOutput, KubectlRunner, until
from tools.testbed import kwok

pytestmark = [pytest.mark.thorough, pytest.mark.node, pytest.mark.timeout(900)]

NODES = {f"kwok-{number}": f"zone-{'abc'[number % 3]}" for number in range(6)}
SELECTOR = {"type": kwok.KIND}
REPLICAS = 12

_numbers = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def nodes(super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin) -> Iterator[None]:
    """Six nodes without machines. The tenant is up before they could take its control plane."""
    cluster, kubectl = super_cluster.cluster, super_cluster.kubectl
    kwok.start(cluster)
    try:
        kubectl.apply(*(kwok.node(name, zone) for name, zone in NODES.items()))
        kubectl.run("wait", "--for=condition=Ready", "node", "-l", "type=kwok", "--timeout=60s")
        yield
    finally:
        kubectl.run("delete", "nodes", "-l", "type=kwok", "--timeout=60s")
        for name in NODES:  # or the agents' pods there stand until the garbage is collected
            kubectl.run(
                *("delete", "pods", "-A", "--field-selector", f"spec.nodeName={name}"),
                *("--force", "--grace-period=0"),
            )
        kwok.stop(cluster)


@pytest.fixture
def space(tenant_a: TenantAdmin) -> Iterator[str]:
    """A tenant namespace of the test's own."""
    name = f"nodes-{next(_numbers)}"
    tenant_a.kubectl.run("create", "namespace", name)
    yield name
    tenant_a.kubectl.run("delete", "namespace", name, timeout=120)


def deployment(name: str, replicas: int, namespace: str, **spec: Any) -> dict[str, Any]:
    """Return a Deployment for the nodes of this module."""
    made = node_objects.deployment(name, replicas, namespace=namespace)
    made["spec"]["template"]["spec"] |= {"nodeSelector": SELECTOR, **spec}
    return made


def roll_out(kubectl: KubectlRunner, made: dict[str, Any]) -> None:
    kubectl.apply(made)
    where = made["metadata"]
    kubectl.run(
        *("-n", where["namespace"], "rollout", "status", f"deployment/{where['name']}"),
        "--timeout=120s",
    )


def placed(kubectl: KubectlRunner, namespace: str, name: str) -> Counter[str]:
    """Return how many pods of a Deployment each node has."""
    found = kubectl.items("pods", "-n", namespace, "-l", f"app={name}")
    return Counter(
        pod["spec"]["nodeName"] for pod in found if "deletionTimestamp" not in pod["metadata"]
    )


def shape(counts: Counter[str]) -> tuple[list[int], list[int]]:
    """Return the pods per node and per zone, by size."""
    zones = dict.fromkeys(NODES.values(), 0)
    for node, number in counts.items():
        zones[NODES[node]] += number
    return sorted(counts[node] for node in NODES), sorted(zones.values())


def constraint(key: str) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
        "matchLabelKeys": ["pod-template-hash"],
    }


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="by-default"),
        pytest.param(
            {
                "topologySpreadConstraints": [
                    constraint("topology.kubernetes.io/zone"),
                    constraint("kubernetes.io/hostname"),
                ]
            },
            id="by-constraints",
        ),
    ],
)
def test_ten_replicas_are_spread_as_straight_on_the_super_cluster(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin, space: str, spec: dict[str, Any]
):
    kubectl = super_cluster.kubectl
    straight = f"straight-{space}"
    kubectl.run("create", "namespace", straight)
    try:
        roll_out(kubectl, deployment("spread", 10, straight, **spec))
        expected = shape(placed(kubectl, straight, "spread"))
    finally:  # it must not weigh on the nodes when the tenant's turn comes
        kubectl.run("delete", "namespace", straight, timeout=120)
    assert expected == ([1, 1, 2, 2, 2, 2], [3, 3, 4])
    roll_out(tenant_a.kubectl, deployment("spread", 10, space, **spec))
    below = placed(kubectl, tenant_a.super_namespace(space), "spread")
    assert shape(below) == expected
    assert placed(tenant_a.kubectl, space, "spread") == below
    shown = {
        item["metadata"]["name"]: item["metadata"]["labels"]["topology.kubernetes.io/zone"]
        for item in tenant_a.kubectl.items("nodes", "-l", "type=kwok")
    }
    assert shown == {name: NODES[name] for name in below}


@dataclass
class ReadyPodWatcher:
    """Counts ready pods again and again, from before a deed until after it."""

    count: Callable[[], int]
    samples: list[int] = field(default_factory=list)
    problem: BaseException | None = None

    def __enter__(self) -> Self:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                self.samples.append(self.count())
                time.sleep(0.02)
        except AssertionError as problem:
            self.problem = problem


def ready_pods(kubectl: KubectlRunner, namespace: str, name: str) -> int:
    """Count the pods that serve: ready, and not on their way out."""
    return sum(
        condition["type"] == "Ready" and condition["status"] == "True"
        for pod in kubectl.items("pods", "-n", namespace, "-l", f"app={name}")
        if "deletionTimestamp" not in pod["metadata"]
        for condition in pod["status"].get("conditions", [])
    )


def evictions(super_cluster: SuperClusterAdmin, since: int, namespace: str) -> list[int]:
    """Return the answers that evictions in a super namespace got."""
    return [
        entry["responseStatus"]["code"]
        for entry in super_cluster.audit(since)
        if entry["objectRef"].get("subresource") == "eviction"
        and entry["objectRef"].get("namespace") == namespace
    ]


def drain(super_cluster: SuperClusterAdmin, node: str) -> KubectlOutput:
    """Drain a node as a super admin does."""
    options = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=180s")
    return super_cluster.kubectl.call("drain", node, *options, timeout=200)


@pytest.mark.parametrize(
    "budget",
    [
        pytest.param({"minAvailable": REPLICAS - 1}, id="one-by-one"),
        # It would hold a node for ever. Below it lets one pod go at a time.
        pytest.param({"maxUnavailable": 0}, id="none"),
    ],
)
def test_a_drained_node_is_left_at_the_pace_of_the_tenants_budget(
    super_cluster: SuperClusterAdmin,
    tenant_a: TenantAdmin,
    space: str,
    budget: dict[str, Any],
):
    """REL-40."""
    above, below = tenant_a.kubectl, super_cluster.kubectl
    where = tenant_a.super_namespace(space)
    scratch = {"volumes": [{"name": "scratch", "emptyDir": {}}]}
    roll_out(above, deployment("served", REPLICAS, space, **scratch))
    above.apply(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "served", "namespace": space},
            "spec": {"selector": {"matchLabels": {"app": "served"}}, **budget},
        }
    )
    until(
        lambda: below.get("pdb", "served", "-n", where)["status"]["disruptionsAllowed"] == 1,
        "the budget below",
    )
    node, there = placed(below, where, "served").most_common(1)[0]
    assert there > 1
    before = {
        pod["metadata"]["uid"]: pod["spec"]["nodeName"]
        for pod in above.items("pods", "-n", space, "-l", "app=served")
    }
    since = super_cluster.audit_size()
    try:
        with (
            ReadyPodWatcher(lambda: ready_pods(above, space, "served")) as seen_above,
            ReadyPodWatcher(lambda: ready_pods(below, where, "served")) as seen_below,
        ):
            done = drain(super_cluster, node)
            assert (done.code, done.err.count("--force")) == (0, 0), done.err
            until(
                lambda: ready_pods(above, space, "served") == REPLICAS, "all replicas ready again"
            )
    finally:
        below.run("uncordon", node)
    for watcher in (seen_above, seen_below):
        assert watcher.problem is None
        assert len(watcher.samples) >= 3, "before, meanwhile and after"
        assert min(watcher.samples) >= REPLICAS - 1, watcher.samples
    answers = evictions(super_cluster, since, where)
    assert answers.count(201) == there
    assert 429 in answers, "the budget made the drain wait"
    pods = above.items("pods", "-n", space, "-l", "app=served")
    assert node not in {pod["spec"]["nodeName"] for pod in pods}
    after = {pod["metadata"]["uid"] for pod in pods}
    moved = {uid for uid, own in before.items() if own == node}
    assert set(before) - after == moved, "no pod but those of the node was replaced"
    assert len(after) == REPLICAS


def test_a_node_that_is_gone_takes_its_pods_along_and_controllers_replace_theirs(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin, space: str
):
    """REL-41: as on a cluster of one's own.

    No one runs these pods any longer, so their objects go.
    """
    above, below = tenant_a.kubectl, super_cluster.kubectl
    roll_out(above, deployment("kept", 6, space))
    node = next(iter(placed(above, space, "kept")))
    bare = node_objects.sleeper("bare", namespace=space)
    bare["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    above.apply(bare)
    above.run("-n", space, "wait", "--for=condition=Ready", "pod/bare", "--timeout=60s")
    lost = {
        pod["metadata"]["uid"]
        for pod in above.items("pods", "-n", space)
        if pod["spec"]["nodeName"] == node
    }
    assert len(lost) == 2
    where, since = tenant_a.super_namespace(space), super_cluster.audit_size()

    def uids() -> set[str]:
        return {pod["metadata"]["uid"] for pod in above.items("pods", "-n", space)}

    def is_same_below() -> bool:
        return above.names("pods", "-n", space) == below.names("pods", "-n", where)

    below.run("delete", "node", node, "--timeout=60s")
    try:
        # The collectors of both clusters wait 40 seconds for the node to come back, each by itself.
        until(lambda: not uids() & lost, "the lost pods gone above", seconds=150)
        until(lambda: ready_pods(above, space, "kept") == 6, "all replicas ready again")
        until(is_same_below, "the lost pods gone below", seconds=150)
        assert not above.exists("node", node)
        assert not above.exists("pod", "bare", "-n", space)
        made = [
            json.dumps(entry["objectRef"])
            for entry in super_cluster.audit(since)
            if entry["verb"] == "create"
            and entry["objectRef"].get("name") == "bare"
            and entry["objectRef"].get("namespace") == where
        ]
        assert made == [], "a pod that had run was made again below"
    finally:
        below.apply(kwok.node(node, NODES[node]))
        below.run("wait", "--for=condition=Ready", f"node/{node}", "--timeout=60s")
