"""Faults of the installation, for `kubectl vc doctor`."""

from __future__ import annotations

from kubectl_vc.audit.webhooks import WEBHOOK_CONFIGURATIONS
from kubectl_vc.installation.installation_checks import CRD_NAMES
from tenancy import wellknown
from tenancy.resources import (
    CLUSTER_VERSIONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    NODES,
    PODS,
    SERVICE_CIDRS,
    STORAGE_CLASSES,
    SYNC_RULES,
    VIRTUAL_CLUSTER_SNAPSHOTS,
)
from tests.integration.kubectl_vc.faults import shapes
from tests.integration.kubectl_vc.faults.table import Fault
from tests.integration.kubectl_vc.faults.world import (
    HIDDEN_NODE,
    NODE,
    VERSION,
    FaultWorld,
    set_status,
    tell,
)


async def component_pod(world: FaultWorld, name: str, status: shapes.Object) -> shapes.Object:
    """Create a pod of a component in a state."""
    made = await world.below.create(PODS, shapes.pod(name, world.home, node=NODE))
    await set_status(world.below, PODS, name, world.home, status)
    return made


async def lose_crd(world: FaultWorld, plural: str) -> None:
    """A definition was deleted."""
    (name,) = (each for each in CRD_NAMES if each.startswith(f"{plural}."))
    await world.remove(CUSTOM_RESOURCE_DEFINITIONS, name)


async def lose_nodes(world: FaultWorld) -> None:
    """No kubelet reports any longer."""
    text = "Kubelet stopped posting node status."
    down = shapes.condition("Ready", "Unknown", "NodeStatusUnknown", text)
    for name in (NODE, HIDDEN_NODE):
        back = {"status": {"conditions": [shapes.condition("Ready")]}}
        await world.change(NODES, name, {"status": {"conditions": [down]}}, back)


async def cordon_nodes(world: FaultWorld) -> None:
    """An administrator cordoned all nodes and forgot it."""
    for name in (NODE, HIDDEN_NODE):
        back = {"spec": {"unschedulable": None}}
        await world.change(NODES, name, {"spec": {"unschedulable": True}}, back)


async def lose_image(world: FaultWorld) -> None:
    """The registry has no image of the syncer, so it never started."""
    text = f'Back-off pulling image "{shapes.IMAGE}": not found'
    states = shapes.container(shapes.waiting("ImagePullBackOff", text))
    await component_pod(world, "vc-syncer-1", shapes.status("Pending", states))
    await world.scale(wellknown.SYNCER, ready=0)
    await world.renew(wellknown.SYNCER, 900)


async def crash_manager(world: FaultWorld) -> None:
    """The manager crashes at its start, for example for a wrong flag."""
    await component_pod(world, "vc-manager-1", shapes.status("Running", shapes.crashed(2)))
    await world.scale(wellknown.MANAGER, ready=0)
    await world.renew(wellknown.MANAGER, 900)


async def stop_syncer(world: FaultWorld) -> None:
    """An administrator scaled the syncer to zero."""
    await world.scale(wellknown.SYNCER, wanted=0, ready=0)
    await world.renew(wellknown.SYNCER, 900)


async def lose_agent(world: FaultWorld) -> None:
    """One agent crashes."""
    status = shapes.status("Running", shapes.crashed(1))
    await set_status(world.below, PODS, f"vn-agent-{NODE}", world.home, status)
    changed = {
        "desiredNumberScheduled": 2,
        "currentNumberScheduled": 2,
        "numberMisscheduled": 0,
        "numberReady": 1,
        "numberUnavailable": 1,
    }
    await set_status(world.below, DAEMON_SETS, wellknown.AGENT, world.home, changed)


async def remove_agents(world: FaultWorld) -> None:
    """The DaemonSet was deleted with its pods."""
    await world.below.delete(DAEMON_SETS, wellknown.AGENT, namespace=world.home)
    for name in (NODE, HIDDEN_NODE):
        pod = f"vn-agent-{name}"
        await world.below.delete(PODS, pod, namespace=world.home, grace_seconds=0)


async def distrust_kubelet(world: FaultWorld) -> None:
    """A kubelet has a certificate that it signed itself."""
    pod = await world.below.get(PODS, f"vn-agent-{NODE}", namespace=world.home)
    text = "The certificate of the node's kubelet does not verify against agent.kubelet.ca."
    await tell(world.below, pod, wellknown.UPSTREAM_API_SERVER, text, component="vn-agent")


async def lose_version(world: FaultWorld) -> None:
    """The only version was deleted."""
    await world.remove(CLUSTER_VERSIONS, VERSION)


async def lose_default_class(world: FaultWorld) -> None:
    """No StorageClass is the default any longer."""
    key = "storageclass.kubernetes.io/is-default-class"
    change, back = ({"metadata": {"annotations": {key: word}}} for word in ("false", "true"))
    await world.change(STORAGE_CLASSES, "standard", change, back)


async def name_missing_class(world: FaultWorld) -> None:
    """A version asks for a class that was renamed."""
    change = {"spec": {"etcdStorage": {"className": "fast"}}}
    await world.change(CLUSTER_VERSIONS, VERSION, change, {"spec": {"etcdStorage": None}})


async def break_service_range(world: FaultWorld) -> None:
    """The range of Services is not ready."""
    down = shapes.condition("Ready", "False", "Terminating", "has IPAddresses") | {"reason": "x"}
    back = shapes.condition("Ready") | {"reason": "", "message": ""}
    await world.change(
        SERVICE_CIDRS,
        "kubernetes",
        {"status": {"conditions": [down]}},
        {"status": {"conditions": [back]}},
    )


async def lose_target(world: FaultWorld) -> None:
    """The API server of a target does not answer."""
    await world.join("far", "NoAnswer", "GET /version: no answer in 5 s.")


async def expire_target_token(world: FaultWorld) -> None:
    """The token for a target ended."""
    await world.join("far", "CredentialRefused", "The token expired on 2026-01-01 00:00 UTC.")


async def lose_webhook(world: FaultWorld) -> None:
    """A webhook of the super cluster stays, and its Service was removed."""
    rules = {"apiGroups": [""], "resources": ["pods"]}
    body = shapes.webhook("policy-engine", "ValidatingWebhookConfiguration", **rules)
    await world.add(WEBHOOK_CONFIGURATIONS, body)


async def hang(world: FaultWorld, name: str) -> None:
    """The pods of a component are ready, and none of them works."""
    await world.renew(name, 600)


DOCTOR = "doctor"
INSTALLATION_FAULTS: tuple[Fault, ...] = (
    Fault(
        "definition deleted",
        "crds",
        lambda world: lose_crd(world, VIRTUAL_CLUSTER_SNAPSHOTS.plural),
        DOCTOR,
    ),
    Fault(
        "definition of SyncRules deleted",
        "crds",
        lambda world: lose_crd(world, SYNC_RULES.plural),
        DOCTOR,
    ),
    Fault("all nodes down", "nodes", lose_nodes, DOCTOR),
    Fault("all nodes cordoned", "nodes", cordon_nodes, DOCTOR),
    Fault("image of the syncer missing", "images", lose_image, DOCTOR),
    Fault("manager crashes", "manager", crash_manager, DOCTOR),
    Fault("manager hangs", "manager-lease", lambda world: hang(world, wellknown.MANAGER), DOCTOR),
    Fault("syncer scaled to zero", "syncer", stop_syncer, DOCTOR),
    Fault("syncer hangs", "syncer-lease", lambda world: hang(world, wellknown.SYNCER), DOCTOR),
    Fault("agent crashes", "agents", lose_agent, DOCTOR),
    Fault("agents removed", "agents", remove_agents, DOCTOR),
    Fault("certificate of a kubelet", "kubelets", distrust_kubelet, DOCTOR),
    Fault("no version", "versions", lose_version, DOCTOR),
    Fault("no default StorageClass", "storage", lose_default_class, DOCTOR),
    Fault("StorageClass of a version missing", "storage", name_missing_class, DOCTOR),
    Fault("service range not ready", "service-range", break_service_range, DOCTOR),
    Fault("target does not answer", "targets", lose_target, DOCTOR),
    Fault("token for a target expired", "targets", expire_target_token, DOCTOR),
    Fault("webhook without a server", "webhooks", lose_webhook, DOCTOR),
)
