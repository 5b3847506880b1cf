"""What kubectl asks of a node's agent as the chart runs it: debug containers, and a rollout."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.node import objects
from tests.node.conftest import COMPONENTS, SuperCluster, TenantCluster
from tests.node.kubectl import Kubectl, until
from tests.node.minors import EACH
from vnagent.settings import DRAIN_SECONDS

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]

SPACE = "agent"


@pytest.fixture(scope="module", autouse=True)
def space(tenant_a: TenantCluster) -> Iterator[None]:
    """A namespace of this module's own, with one sleeping pod `main`."""
    kubectl = tenant_a.kubectl
    kubectl.run("create", "namespace", SPACE)
    kubectl.apply(objects.sleeper("main", namespace=SPACE))
    kubectl.run("-n", SPACE, "wait", "--for=condition=Ready", "pod/main", "--timeout=90s")
    yield
    kubectl.run("delete", "namespace", SPACE, timeout=120)


@pytest.mark.parametrize("minor", EACH)
def test_a_debug_container_is_talked_to_and_sees_its_target(tenant_a: TenantCluster, minor: str):
    """`kubectl debug -i`: the syncer adds an ephemeral container, the agent attaches to it."""
    user, name = tenant_a.kubectl.of_minor(minor), f"probe-{minor.replace('.', '-')}"
    looks = "read line; echo heard $line; tr '\\0' ' ' </proc/1/cmdline; echo; cat"
    options = ("--profile=baseline", "--image=busybox:latest", "--image-pull-policy=IfNotPresent")
    asked = ("debug", "main", "-i", "--quiet", f"--container={name}", "--target=main", *options)
    with user.running("-n", SPACE, *asked, "--", "sh", "-c", looks) as debugging:
        debugging.stdin.write("hello\n")
        assert debugging.stdout.readline() == "heard hello\n"
        assert "sleep 2147483647" in debugging.stdout.readline()
        inside = user.run("-n", SPACE, "exec", "main", "-c", name, "--", "echo", "inside")
        assert inside == "inside\n"
        debugging.stdin.close()
        debugging.wait(timeout=30)
    assert user.run("-n", SPACE, "logs", "main", "-c", name).startswith("heard hello\n")


# A rollout.


def agent_pods(kubectl: Kubectl) -> list[dict[str, Any]]:
    """Return the agents' pods."""
    return kubectl.items("pods", "-n", COMPONENTS, "-l", "app.kubernetes.io/name=vn-agent")


def told(kubectl: Kubectl, pod: str, event: str) -> list[dict[str, Any]]:
    """Return the lines of an agent's log that are about an event."""
    lines = map(json.loads, kubectl.run("logs", pod, "-n", COMPONENTS).splitlines())
    return [line for line in lines if line["event"] == event]


@pytest.mark.thorough
def test_a_rollout_lets_a_running_exec_go_on(super_cluster: SuperCluster, tenant_a: TenantCluster):
    """REL-91: what runs may end within the grace, and is cut after it; the next agent serves on."""
    admin, user = super_cluster.kubectl, tenant_a.kubectl
    (old,) = agent_pods(admin)
    name = old["metadata"]["name"]
    asked = ("-n", SPACE, "exec", "main", "-i", "--", "sh", "-c")
    ends = "while read line; do echo got $line; done; exit 7"
    with (
        user.running(*asked, ends) as ending,
        user.running(*asked, "while :; do date +%s; sleep 0.2; done") as endless,
    ):
        ending.stdin.write("before\n")
        assert ending.stdout.readline() == "got before\n"
        assert endless.stdout.readline()
        admin.run("rollout", "restart", "daemonset/vn-agent", "-n", COMPONENTS)
        until(lambda: told(admin, name, "draining"), "the old agent drains")
        drains = time.time()
        ending.stdin.write("meanwhile\n")
        assert ending.stdout.readline() == "got meanwhile\n"
        ending.stdin.close()
        assert ending.wait(timeout=30) == 7
        until(lambda: endless.poll() is not None, "the stream that does not end is cut")
        last = int(endless.stdout.read().splitlines()[-1])
        assert last - drains > DRAIN_SECONDS / 2  # the rest is for looking at logs
    admin.run("rollout", "status", "daemonset/vn-agent", "-n", COMPONENTS, timeout=180)
    until(
        lambda: user.call("-n", SPACE, "exec", "main", "--", "true").code == 0,
        "exec works again",
    )
    (new,) = agent_pods(admin)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    served = told(admin, new["metadata"]["name"], "session")
    assert ("exec", "main", "complete") in [(s["verb"], s["pod"], s["result"]) for s in served]
