"""A tenant's pods with devices of a real node, by the rules that the chart ships.

The driver of the testbed is small, with the helper package of Kubernetes. Scheduler, kubelet and
containerd are real, and so is the controller that aggregates the syncer's rights.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support import node_objects
from tests.support.kubectl import until
from tools.testbed import chart
from tools.testbed.drivers import devices
from tools.testbed.progress import StepPrinter

pytestmark = [pytest.mark.node, pytest.mark.thorough, pytest.mark.timeout(900)]

SPACE = "devices"
CLASS = "testbed"
OFFERED = {"tenancy.x-k8s.io/offered": "true"}
COUNT = 3
"""Number of devices. The pods of these tests need more, one after the other."""
POLICY = {
    "apiVersion": "tenancy.x-k8s.io/v1alpha1",
    "kind": "TenantPolicy",
    "metadata": {"name": "devices"},
    "spec": {"syncRules": {"names": ["resourceclaims", "deviceclasses"]}},
}
DEVICE_CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": CLASS, "labels": OFFERED},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{devices.DRIVER}'"}}]},
}
REQUESTS = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]}}
CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "mine", "namespace": SPACE},
    "spec": REQUESTS,
}
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "each", "namespace": SPACE},
    "spec": {"spec": REQUESTS},
}


def user_of(name: str, script: str, **source: str) -> dict[str, Any]:
    """Return a pod whose container uses a device and prints the device's variable."""
    body = node_objects.pod(name, f"echo device=$DEVICE_GPU; {script}", namespace=SPACE)
    body["spec"]["restartPolicy"] = "Never"
    body["spec"]["resourceClaims"] = [{"name": "device", **source}]
    body["spec"]["containers"][0]["resources"] = {"claims": [{"name": "device"}]}
    return body


@pytest.fixture(scope="module")
def tenant(super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin) -> Iterator[TenantAdmin]:
    """A tenant that is offered the devices of a node."""
    node, below = super_cluster.cluster.topology.nodes[0], super_cluster.kubectl
    devices.start(super_cluster.cluster, node, COUNT)
    values = (*chart.KUBELET_UPSTREAM, "syncRules.dynamicResources.enabled=true")
    chart.install(super_cluster.cluster, StepPrinter(), values=values)
    below.apply(POLICY)
    below.apply(DEVICE_CLASS)
    until(lambda: below.items("resourceslices"), "a ResourceSlice of the driver")
    ready = ("--for=condition=Ready", "--timeout=90s")
    below.run("wait", "syncrule/resourceclaims", "syncrule/deviceclasses", *ready, timeout=100)
    bind(super_cluster, tenant_a, {"name": "devices"})
    until(lambda: tenant_a.kubectl.exists("deviceclass", CLASS), "the DeviceClass in the tenant")
    tenant_a.kubectl.run("create", "namespace", SPACE)
    yield tenant_a
    tenant_a.kubectl.run("delete", "namespace", SPACE, timeout=120)
    bind(super_cluster, tenant_a, None)
    below.run("delete", "tenantpolicy", "devices")
    below.run("delete", "deviceclass", CLASS)
    values = (*chart.KUBELET_UPSTREAM, "syncRules.dynamicResources.enabled=false")
    chart.install(super_cluster.cluster, StepPrinter(), values=values)
    devices.stop(super_cluster.cluster, node)
    below.run("delete", "resourceslices", "--all")


def bind(super_cluster: SuperClusterAdmin, tenant: TenantAdmin, ref: Any) -> None:
    """Bind a tenant to a policy, or to the default one."""
    patch = json.dumps({"spec": {"policyRef": ref}})
    super_cluster.kubectl.run("patch", "virtualcluster", tenant.name, "--type=merge", "-p", patch)


def wait_phase(tenant: TenantAdmin, name: str, phase: str) -> dict[str, Any]:
    """Wait for the phase of a pod in the tenant. Return the pod."""
    wait = ("wait", f"--for=jsonpath={{.status.phase}}={phase}", f"pod/{name}", "--timeout=120s")
    tenant.kubectl.run("-n", SPACE, *wait, timeout=130)
    return tenant.kubectl.get("pod", name, "-n", SPACE)


def read_log(tenant: TenantAdmin, name: str) -> str:
    """Return the log of a pod, by the tenant's own API."""
    return tenant.kubectl.run("-n", SPACE, "logs", name)


def test_a_pod_with_a_claim_gets_a_device_and_the_tenant_sees_the_allocation(
    super_cluster: SuperClusterAdmin, tenant: TenantAdmin
):
    tenant.kubectl.apply(CLAIM)
    tenant.kubectl.apply(user_of("named", "sleep 2147483647", resourceClaimName="mine"))
    pod = wait_phase(tenant, "named", "Running")
    claim = tenant.kubectl.get("resourceclaim", "mine", "-n", SPACE)
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    node = super_cluster.cluster.topology.nodes[0].name
    assert (result["driver"], result["pool"]) == (devices.DRIVER, node)
    assert pod["spec"]["nodeName"] == node
    assert f"device={result['device']}" in read_log(tenant, "named")
    assert "nodeSelector" not in claim["status"]["allocation"]

    def list_reserved() -> list[str]:
        found = tenant.kubectl.get("resourceclaim", "mine", "-n", SPACE)["status"]
        return [each["uid"] for each in found.get("reservedFor") or ()]

    until(lambda: list_reserved() == [pod["metadata"]["uid"]], "the reservation of the own pod")


def test_devices_of_ended_pods_are_free_again(tenant: TenantAdmin):
    """Each pod has a claim of its own, by a template. There are more pods than devices."""
    tenant.kubectl.apply(TEMPLATE)
    for number in range(COUNT + 1):
        name = f"each-{number}"
        tenant.kubectl.apply(user_of(name, "true", resourceClaimTemplateName="each"))
        wait_phase(tenant, name, "Succeeded")
        assert "device=device-" in read_log(tenant, name)

    def list_generated() -> list[str]:
        found = tenant.kubectl.items("resourceclaims", "-n", SPACE)
        names = [each["metadata"]["name"] for each in found]
        return [name for name in names if name.startswith("each-")]

    until(lambda: not list_generated(), "the end of the claims of ended pods")


def test_a_claim_ends_with_its_allocation(super_cluster: SuperClusterAdmin, tenant: TenantAdmin):
    """The super claim is in use until the pod has ended, and then nothing of it is left."""
    tenant.kubectl.apply({**CLAIM, "metadata": {"name": "brief", "namespace": SPACE}})
    tenant.kubectl.apply(user_of("brief", "sleep 2147483647", resourceClaimName="brief"))
    wait_phase(tenant, "brief", "Running")
    tenant.kubectl.run("-n", SPACE, "delete", "pod", "brief", timeout=120)

    def is_allocated() -> bool:
        found = tenant.kubectl.get("resourceclaim", "brief", "-n", SPACE)
        return "allocation" in (found.get("status") or {})

    until(lambda: not is_allocated(), "the end of the allocation in the tenant")
    tenant.kubectl.run("-n", SPACE, "delete", "resourceclaim", "brief", timeout=120)
    below = tenant.super_namespace(SPACE)
    until(
        lambda: not super_cluster.kubectl.exists("resourceclaim", "brief", "-n", below),
        "the end of the copy",
    )


def test_refusals_reach_the_tenant(tenant: TenantAdmin):
    body = json.loads(json.dumps(CLAIM))
    body["metadata"]["name"] = "configured"
    opaque = {"driver": devices.DRIVER, "parameters": {"path": "/etc"}}
    body["spec"]["devices"]["config"] = [{"opaque": opaque}]
    tenant.kubectl.apply(body)

    def list_messages() -> list[str]:
        field = "--field-selector=involvedObject.name=configured"
        events = tenant.kubectl.items("events", "-n", SPACE, field)
        return [each["message"] for each in events if each["reason"] == "SyncRejected"]

    until(lambda: bool(list_messages()), "an Event about the configuration")
    assert "spec.devices.config" in list_messages()[0]
