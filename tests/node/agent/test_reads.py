"""Reads of a node by tenants, through their API server's node proxy: their own pods only."""

import json
import re
import uuid
from typing import Any

import pytest

from tenancy import wellknown
from tests.node.agent.rig import NODE, SLEEPER, AgentRig, AgentTenant
from tests.support import node_objects
from tests.support.kubectl import until

pytestmark = pytest.mark.node

BUSY = "trap 'exit 0' TERM; while :; do i=$((i + 1)); [ $((i % 5000)) = 0 ] && sleep 0.1; done"
READS = ("/stats/summary", "/metrics/resource", "/pods", "/pods/", "/runningpods/", "/runningpods")
FIGURES_SECONDS = 120
"""For the kubelet to tell of a new pod in all that it is asked."""


def ask(tenant: AgentTenant, path: str) -> str:
    """Ask as `kubectl get --raw` does."""
    return tenant.kubectl.run("get", "--raw", f"/api/v1/nodes/{NODE}/proxy{path}")


def pods_of(answer: str) -> dict[str, dict[str, Any]]:
    """Return the pods of a list by name."""
    found = json.loads(answer)
    assert (found["kind"], found["apiVersion"]) == ("PodList", "v1")
    return {item["metadata"]["name"]: item for item in found["items"]}


def tenant_uid(rig: AgentRig, tenant: AgentTenant, name: str) -> str:
    """Return the UID that a super pod records."""
    found = rig.super_kubectl.get("pod", name, "-n", tenant.super_namespace())
    return str(found["metadata"]["annotations"][wellknown.UID])


@pytest.fixture(scope="module")
def busy(rig, pods) -> None:
    """A pod of the same name at each tenant, which the kubelet tells of in all that it is asked."""
    record = {wellknown.CONTAINERS: "main", wellknown.SYNCED_KEYS: '[["app"],[]]'}
    for tenant in (rig.tenant, rig.other):
        one = node_objects.pod("busy", BUSY)
        one["metadata"]["labels"] = {"app": "busy", "mesh": "added-below"}
        one["spec"]["containers"].append(node_objects.container(SLEEPER, "mesh"))
        rig.place(tenant, one, **record)
    for tenant in (rig.tenant, rig.other):
        rig.wait(tenant, "busy")
        # The kubelet takes its list of what runs from a cache of some seconds.
        for path in ("/metrics/resource", "/stats/summary", "/runningpods/"):
            until(
                lambda asked=(tenant, path): '"busy"' in ask(*asked),
                f"the kubelet tells of busy in {path}",
                FIGURES_SECONDS,
            )


@pytest.mark.parametrize("path", READS)
def test_nothing_of_the_super_cluster_or_the_neighbour(rig, busy, path):
    """SEC-04: no super name, no UID of a super pod, no pod of another tenant or of the system."""
    got = ask(rig.tenant, path)
    assert '"busy"' in got, "and not just busybox"
    strange = [rig.tenant.super_namespace(), rig.other.super_namespace(), rig.tenant.root]
    strange += [rig.other.root, rig.other.vc_uid, tenant_uid(rig, rig.other, "busy"), "mesh"]
    everybody = rig.super_kubectl.items("pods", "-A")
    strange += [item["metadata"]["uid"] for item in everybody]
    spaces = {item["metadata"]["namespace"] for item in everybody}
    strange += [f'"{space}"' for space in spaces - {"default"}]
    assert [word for word in strange if word in got] == []


def test_the_summary_is_the_kubelets(rig, busy):
    """V-05, X-26: figures of a pod under its own UID. The node is the tenant's pods together."""
    found: dict = {}

    def has_worked() -> bool:
        found.update(json.loads(ask(rig.tenant, "/stats/summary")))
        found["busy"] = {pod["podRef"]["name"]: pod for pod in found["pods"]}["busy"]
        return found["busy"]["cpu"]["usageCoreNanoSeconds"] > 0

    until(has_worked, "the kubelet has seen busy at work", FIGURES_SECONDS)
    assert found["node"]["nodeName"] == rig.node
    pod = found["busy"]
    own = {"name": "busy", "namespace": "default", "uid": tenant_uid(rig, rig.tenant, "busy")}
    assert pod["podRef"] == own
    assert [container["name"] for container in pod["containers"]] == ["main"]
    assert pod["memory"]["workingSetBytes"] > 0
    used = [one["memory"]["workingSetBytes"] for one in found["pods"] if "memory" in one]
    assert found["node"]["memory"]["workingSetBytes"] == sum(used)
    assert not {"fs", "runtime", "rlimit", "network", "systemContainers"} & found["node"].keys()
    short = json.loads(ask(rig.tenant, "/stats/summary?only_cpu_and_memory=true"))
    assert all("volume" not in one and "network" not in one for one in short["pods"])


def test_the_metrics_are_what_a_metrics_server_reads(rig, busy):
    """V-05, V-08: the families that it takes, with times. The node's counter does not fall."""
    got = ask(rig.tenant, "/metrics/resource")
    lines = [line for line in got.splitlines() if not line.startswith("#")]
    named = 'container="main",namespace="default",pod="busy"'
    for family in ("container_cpu_usage_seconds_total", "container_memory_working_set_bytes"):
        (line,) = [line for line in lines if line.startswith(f"{family}{{{named}}} ")]
        assert re.fullmatch(r".*} [0-9.e+]+ [0-9]{13}", line)
    assert any(line.startswith(f"container_start_time_seconds{{{named}}} ") for line in lines)
    assert "resource_scrape_error 0" in lines
    assert all('namespace="default"' in line for line in lines if "{" in line)

    def node_seconds() -> float:
        line = r"^node_cpu_usage_seconds_total (\S+) [0-9]+$"
        return float(re.findall(line, ask(rig.tenant, "/metrics/resource"), re.MULTILINE)[0])

    first = until(node_seconds, "the node has worked", FIGURES_SECONDS)
    until(lambda: node_seconds() > first, "the counter grows", FIGURES_SECONDS)


def test_lists_are_the_tenants(rig, busy, pods):
    """V-05: reduced: what the tenant wrote and what became of it."""
    found = pods_of(ask(rig.tenant, "/pods"))
    assert {"tool", "listener", "reader", "talker", "busy"} <= found.keys()
    pod = found["busy"]
    assert pod["metadata"] == {
        "name": "busy",
        "namespace": "default",
        "uid": tenant_uid(rig, rig.tenant, "busy"),
        "labels": {"app": "busy"},
    }
    assert pod["spec"] == {
        "nodeName": rig.node,
        "containers": [{"name": "main", "image": node_objects.IMAGE}],
    }
    assert pod["status"]["phase"] == "Running"
    assert [status["name"] for status in pod["status"]["containerStatuses"]] == ["main"]
    running = pods_of(ask(rig.tenant, "/runningpods/"))
    assert running["busy"]["metadata"]["uid"] == pod["metadata"]["uid"]
    assert [one["name"] for one in running["busy"]["spec"]["containers"]] == ["main"]
    others = pods_of(ask(rig.other, "/pods"))
    assert others["busy"]["metadata"]["uid"] == tenant_uid(rig, rig.other, "busy")
    assert "talker" not in others


def test_a_run_is_answered_with_its_output(rig, pods):
    """V-05: and only where an exec would be."""
    post = ("-X", "POST", "-H", "Content-Length: 0")
    assert rig.curl("/run/default/tool/main?cmd=echo+hi+there", *post) == (200, "hi there\n")
    status, body = rig.curl("/run/default/tool/main?cmd=false", *post)
    assert (status, rig.tenant.super_namespace() in body) == (500, False)
    assert rig.curl("/run/default/talker/main?cmd=id", *post, tenant=rig.other)[0] == 404
    assert rig.curl(f"/run/default/tool/{uuid.uuid4()}/main?cmd=id", *post)[0] == 404
    assert rig.curl("/run/default/tool/main?cmd=id")[0] == 405


def test_the_proxy_leads_to_nothing_else(rig, pods):
    """SEC-04: what the kubelet answers to its administrators."""
    for path in ("/metrics", "/metrics/cadvisor", "/configz", "/logs/", "/spec/", "/debug/pprof/"):
        done = rig.tenant.kubectl.call("get", "--raw", f"/api/v1/nodes/{NODE}/proxy{path}")
        assert done.code != 0, path
        assert "serves no such path" in done.err or "could not find" in done.err, done.err
