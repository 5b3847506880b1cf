"""Faults of a pod where it runs, for `kubectl vc why`."""

from __future__ import annotations

from typing import Any

from kubeio import Object
from tenancy.resources import NODES, PODS
from tests.integration.kubectl_vc.faults import shapes
from tests.integration.kubectl_vc.faults.installation_faults import remove_agents
from tests.integration.kubectl_vc.faults.table import Fault, Plant
from tests.integration.kubectl_vc.faults.world import HIDDEN_NODE, NODE, OTHERS, FaultWorld, tell


def state(status: Object, **spec: Any) -> Plant:
    """Return the fault of a pod in a state."""
    return lambda world: world.pod(status, **spec)


def with_event(status: Object, reason: str, message: str) -> Plant:
    """Return the fault that an Event of the kubelet explains."""

    async def plant(world: FaultWorld) -> None:
        await world.tell_both(await world.pod(status), reason, message, "kubelet")

    return plant


async def lack_cpu(world: FaultWorld) -> None:
    """No node is free. The scheduler's own words name nodes, which the syncer leaves out."""
    below = shapes.unscheduled(f"{shapes.SHORTAGE} ({HIDDEN_NODE}, {OTHERS})")
    made = await world.pod(shapes.unscheduled(), copy_status=below, node="")
    await world.tell_both(made, "FailedScheduling", shapes.SHORTAGE, "default-scheduler")


def unbound(event: str, message: str, said: str, storage_class: str) -> Plant:
    """Return the fault of a pod whose claim is not bound."""

    async def plant(world: FaultWorld) -> None:
        made = await world.claim("data", "Pending", storage_class)
        body = {**made, "kind": "PersistentVolumeClaim"}
        component = "persistentvolume-controller"
        await tell(world.above, body, event, message, component=component)
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
        await world.pod(shapes.unscheduled(said), node="", volumes=[volume])

    return plant


async def fail_liveness(world: FaultWorld) -> None:
    """The kubelet restarts a container whose liveness probe fails."""
    states = shapes.container(
        shapes.RUNNING, lastState=shapes.ended(137), restartCount=4, started=True
    )
    made = await world.pod(shapes.status("Running", states))
    await world.tell_both(
        made, "Unhealthy", "Liveness probe failed: HTTP probe failed with 500", "kubelet"
    )
    await world.tell_both(
        made, "Killing", "Container main failed liveness probe, will be restarted", "kubelet"
    )


async def lose_node(world: FaultWorld) -> None:
    """The kubelet of the pod's node stopped, in both views of the node."""
    text = "Kubelet stopped posting node status."
    down = shapes.condition("Ready", "Unknown", "NodeStatusUnknown", text)
    back = {"status": {"conditions": [shapes.condition("Ready")]}}
    await world.change(NODES, NODE, {"status": {"conditions": [down]}}, back)
    await world.above.patch(NODES, NODE, {"status": {"conditions": [down]}}, subresource="status")
    world.undone.push_async_callback(world.above.patch, NODES, NODE, back, subresource="status")
    await world.pod(shapes.unready())


async def delete_on_lost_node(world: FaultWorld) -> None:
    """The pod is deleted, and its kubelet cannot end it."""
    await lose_node(world)
    for client, namespace in (
        (world.above, world.space),
        (world.below, world.super_space),
    ):
        await client.delete(PODS, "web", namespace=namespace)


async def remove_node(world: FaultWorld) -> None:
    """The node of the pod was removed."""
    await world.pod(shapes.unready(), node="removed-node")


async def lose_agents(world: FaultWorld) -> None:
    """The pod runs, and nothing serves its logs."""
    await world.pod(shapes.running())
    await remove_agents(world)


async def stay_behind(world: FaultWorld) -> None:
    """The copy runs for minutes, and the tenant's pod does not show it."""
    await world.pod(shapes.creating(), copy_status=shapes.running())


async def keep_copy(world: FaultWorld) -> None:
    """A finalizer of the super cluster keeps the deleted copy."""
    await world.pod(shapes.running())
    change = {"metadata": {"finalizers": ["disk.example.com/detach"]}}
    await world.below.patch(PODS, "web", change, namespace=world.super_space)
    for client, namespace in ((world.above, world.space), (world.below, world.super_space)):
        await client.delete(PODS, "web", namespace=namespace)


PULL = f'failed to pull and unpack image "{shapes.IMAGE}": not found'
GATED = {**shapes.unscheduled("Scheduling is blocked due to non-empty scheduling gates")}
GATED["conditions"][0]["reason"] = "SchedulingGated"
READY_GATE = shapes.running()
READY_GATE["conditions"] = [
    shapes.condition("ContainersReady"),
    shapes.condition("Ready", "False", "ReadinessGatesNotReady", 'gate "a.b/c" is not true'),
    shapes.condition("PodScheduled"),
]
EVICTED = {
    "phase": "Failed",
    "reason": "Evicted",
    "message": "The node was low on resource: memory.",
    "conditions": [shapes.condition("PodScheduled")],
}
FULL = {**EVICTED, "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}
LOST = {**EVICTED, "reason": "SuperPodLost", "message": "The copy was deleted."}
INIT = {
    "initContainers": [{"name": "first", "image": shapes.IMAGE}],
}

POD_FAULTS: tuple[Fault, ...] = (
    Fault("no node is free", "no-node", lack_cpu, tenant_layer="no-node"),
    Fault(
        "claim: provisioner fails",
        "volume-claim",
        unbound("ProvisioningFailed", "quota of disks", shapes.UNBOUND, "immediate"),
        tenant_layer="volume-claim",
    ),
    Fault(
        "claim: no class",
        "volume-claim",
        unbound("FailedBinding", "no storage class is set", shapes.UNBOUND, ""),
        tenant_layer="volume-claim",
    ),
    Fault(
        "claim waits for its pod, which has no node",
        "no-node",
        unbound("WaitForFirstConsumer", "first consumer", shapes.SHORTAGE, "standard"),
        tenant_layer="no-node",
    ),
    Fault(
        "scheduling gate",
        "scheduling-gate",
        state(GATED, node="", schedulingGates=[{"name": "a.b/c"}]),
        tenant_layer="scheduling-gate",
    ),
    Fault(
        "volume is attached elsewhere",
        "volume-mount",
        with_event(shapes.creating(), "FailedAttachVolume", "Multi-Attach error for volume x"),
        tenant_layer="volume-mount",
    ),
    Fault(
        "token of the service account",
        "volume-mount",
        with_event(
            shapes.creating(),
            "FailedMount",
            'MountVolume.SetUp failed for volume "kube-api-access-x": secret not found',
        ),
        tenant_layer="volume-mount",
    ),
    Fault(
        "network plugin down",
        "pod-network",
        with_event(shapes.creating(), "FailedCreatePodSandBox", "plugin type bridge failed"),
        tenant_layer="pod-network",
    ),
    Fault(
        "image missing",
        "image",
        with_event(
            shapes.status("Pending", shapes.container(shapes.waiting("ImagePullBackOff", PULL))),
            "Failed",
            PULL,
        ),
        tenant_layer="image",
    ),
    Fault(
        "image of an init container missing",
        "image",
        state(
            shapes.status(
                "Pending",
                shapes.container(shapes.waiting("PodInitializing")),
                init=(shapes.container(shapes.waiting("ErrImagePull", PULL), name="first"),),
            ),
            **INIT,
        ),
        tenant_layer="image",
    ),
    Fault(
        "command missing",
        "container-configuration",
        state(
            shapes.status(
                "Running", shapes.container(shapes.waiting("RunContainerError", "no such file"))
            )
        ),
        tenant_layer="container-configuration",
    ),
    Fault(
        "init container fails",
        "init-container",
        state(
            shapes.status(
                "Pending",
                shapes.container(shapes.waiting("PodInitializing")),
                init=(shapes.crashed(1, name="first"),),
            ),
            **INIT,
        ),
        tenant_layer="init-container",
    ),
    Fault(
        "container crashes",
        "container",
        with_event(
            shapes.status("Running", shapes.crashed(1)),
            "BackOff",
            "Back-off restarting failed container main",
        ),
        tenant_layer="container",
    ),
    Fault(
        "out of memory",
        "memory",
        state(shapes.status("Running", shapes.crashed(137, "OOMKilled"))),
        tenant_layer="memory",
    ),
    Fault(
        "out of memory, not restarted",
        "memory",
        state(
            shapes.status("Failed", shapes.container(shapes.ended(137, "OOMKilled"))),
            restartPolicy="Never",
        ),
        tenant_layer="memory",
    ),
    Fault(
        "readiness probe fails",
        "probe",
        with_event(shapes.unready(), "Unhealthy", "Readiness probe failed: 500"),
        tenant_layer="probe",
    ),
    Fault("liveness probe fails", "probe", fail_liveness, tenant_layer="probe"),
    Fault("readiness gate", "readiness-gate", state(READY_GATE), tenant_layer="readiness-gate"),
    Fault("evicted", "eviction", state(EVICTED), tenant_layer="eviction"),
    Fault("node is full", "eviction", state(FULL), tenant_layer="eviction"),
    Fault("copy deleted by others", "eviction", state(LOST), tenant_layer="eviction"),
    Fault("node down", "node", lose_node, tenant_layer="node"),
    Fault("node down, pod deleted", "node", delete_on_lost_node, tenant_layer="node"),
    Fault("node removed", "node", remove_node),
    Fault("agents removed, a running pod", "node-agent", lose_agents),
    Fault("status not synced back", "status", stay_behind),
    Fault("finalizer of the copy", "terminating", keep_copy, tenant_layer="terminating"),
)
