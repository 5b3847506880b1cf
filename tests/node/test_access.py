"""Verbs that a TenantPolicy disables, seen by the tenant's kubectl during the edit."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support import node_objects
from tests.support.debugs import OPTIONS
from tests.support.forwards import forwarded, read_from
from tests.support.kubectl import KubectlOutput, KubectlRunner, until

pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]

SPACE, POLICY, LABEL = "switched", "switched", "example.com/seen"
SCRIPT = """
while :; do echo hi there | nc -l -p 8080; done &
while read line; do echo got $line; done
sleep 600
"""


@pytest.fixture(scope="module", autouse=True)
def space(super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin) -> Iterator[None]:
    """A policy of this module's own, and a namespace with one pod to call."""
    below, user = super_cluster.kubectl, tenant_a.kubectl
    bind = ("patch", "virtualcluster", tenant_a.name, "--type=merge", "-p")
    kind = {"apiVersion": "tenancy.x-k8s.io/v1alpha1", "kind": "TenantPolicy"}
    below.apply({**kind, "metadata": {"name": POLICY}, "spec": {}})
    below.run(*bind, json.dumps({"spec": {"policyRef": {"name": POLICY}}}))
    user.run("create", "namespace", SPACE)
    try:
        pod = node_objects.pod("main", SCRIPT, namespace=SPACE)
        pod["spec"]["containers"][0]["stdin"] = True
        user.apply(pod)
        user.run("-n", SPACE, "wait", "--for=condition=Ready", "pod/main", "--timeout=90s")
        yield
    finally:
        user.run("delete", "namespace", SPACE, timeout=120)
        below.run(*bind, json.dumps({"spec": {"policyRef": None}}))
        below.run("delete", "tenantpolicy", POLICY)


def logs(user: KubectlRunner) -> KubectlOutput:
    return user.call("-n", SPACE, "logs", "main")


def execute(user: KubectlRunner) -> KubectlOutput:
    return user.call("-n", SPACE, "exec", "main", "--", "true")


def attach(user: KubectlRunner) -> KubectlOutput:
    """Say something and hear the answer."""
    with user.running("-n", SPACE, "attach", "-i", "main") as attached:
        attached.stdin.write("hello\n")
        heard = attached.stdout.readline()
        return (
            KubectlOutput(0, heard, "") if heard else KubectlOutput(1, "", attached.stderr.read())
        )


def forward(user: KubectlRunner) -> KubectlOutput:
    """Read what a port says."""
    try:
        with forwarded(user, "main", 8080, SPACE) as port:
            return KubectlOutput(0, read_from(port).decode(), "")
    except AssertionError as ended:
        return KubectlOutput(1, "", str(ended))


CALLS: dict[str, Callable[[KubectlRunner], KubectlOutput]] = {
    "logs": logs,
    "exec": execute,
    "attach": attach,
    "portForward": forward,
}


def edit(super_cluster: SuperClusterAdmin, **spec: object) -> None:
    """Do what the super admin does."""
    change = json.dumps({"spec": spec})
    super_cluster.kubectl.run("patch", "tenantpolicy", POLICY, "--type=merge", "-p", change)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_switched_off_and_on(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin, name: str
):
    """It is refused with a sentence for people, and each other call goes on."""
    user, call = tenant_a.kubectl, CALLS[name]
    until(lambda: call(user).code == 0, f"{name} works")
    edit(super_cluster, access={name: False})
    try:
        refused = until(lambda: (done := call(user)).code and done, f"{name} is refused")
        said = f"{name} is disabled for this cluster: spec.access.{name} of its TenantPolicy"
        assert f"{said} '{POLICY}' is false. Contact your platform administrator" in refused.err
        assert tenant_a.root not in refused.err
        others = {other: ask(user) for other, ask in CALLS.items() if other != name}
        assert {other: done.err for other, done in others.items() if done.code} == {}
    finally:
        edit(super_cluster, access={name: True})
    until(lambda: call(user).code == 0, f"{name} works again")


def test_debug_containers_are_switched_off_and_on(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin
):
    """SEC-19: what was refused is told in an Event, and runs once it may."""
    user = tenant_a.kubectl
    debug = ("-n", SPACE, "debug", "main", "--attach=false", "--container=late", *OPTIONS)

    def refusals() -> list[str]:
        about = "involvedObject.name=main,reason=SyncRejected"
        found = user.items("events", "-n", SPACE, "--field-selector", about)
        return [event["message"] for event in found]

    def twin() -> dict[str, Any]:
        return super_cluster.kubectl.get("pod", "main", "-n", tenant_a.super_namespace(SPACE))

    # A label that the same edit lets down shows that the syncer goes by it.
    user.run("-n", SPACE, "label", "pod", "main", f"{LABEL}=yes")
    lets_down = {"labelDomains": [LABEL.partition("/")[0]]}
    edit(super_cluster, access={"ephemeralContainers": False}, metadata=lets_down)
    try:
        until(lambda: LABEL in twin()["metadata"]["labels"], "the edit counts")
        user.run(*debug, "--", "echo", "I am here")
        (message,) = until(refusals, "an Event about the container")
        assert (
            "spec.ephemeralContainers is not offered. Contact your platform administrator"
            in message
        )
        assert tenant_a.root not in message
        assert "ephemeralContainers" not in twin()["spec"]
        assert user.call("-n", SPACE, "logs", "main", "-c", "late").code != 0
    finally:
        edit(super_cluster, access={"ephemeralContainers": True})
    until(
        lambda: user.call("-n", SPACE, "logs", "main", "-c", "late").out == "I am here\n",
        "the container has run",
        90,
    )
