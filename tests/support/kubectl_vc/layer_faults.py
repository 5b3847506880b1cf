"""Seeded faults of `kubectl vc why`, each with the layer that is named first."""

from collections.abc import Mapping
from dataclasses import replace

from kubectl_vc.diagnosis.layer_table import diagnose
from kubectl_vc.diagnosis.layers import LAYERS
from kubectl_vc.diagnosis.object_facts import ObjectFacts, RuledDirection
from tenancy import wellknown
from tests.support.kubectl_vc.object_faults import (
    NOT_READY,
    ago,
    bare,
    both,
    claim,
    condition,
    ended,
    event,
    facts,
    lease,
    node,
    pending,
    pod,
    super_facts,
    unscheduled,
    virtual_cluster,
    waiting,
)

REFUSED = event("SyncRejected", "spec.hostNetwork is not allowed (rule host-network).", syncer=True)


def with_tenant(found: dict, **parts) -> ObjectFacts:
    """Return a pod that was never synced, because of its VirtualCluster."""
    return facts(bare(), super_facts(virtual_cluster=found, **parts))


def never_synced(*events: dict, **parts) -> ObjectFacts:
    """Return a pod that was never synced, with the Events of the syncer."""
    return facts(bare(), super_facts(), tenant_events=events, **parts)


def over(code: int, reason: str = "Error") -> dict:
    """Return the status of a container that ended and is not restarted."""
    last = ended(code, reason)["lastState"]
    return {"name": "c", "ready": False, "state": last}


def of_kind(kind: str, body: dict, copy: dict | None = None, **parts) -> ObjectFacts:
    """Return facts about an object of another kind."""
    return replace(facts(body, super_facts(copy), **parts), kind=kind)


def not_engaged(reason: str, message: str = "said") -> dict:
    """Return a VirtualCluster that is not synced."""
    return virtual_cluster(condition(wellknown.SYNCED, "False", reason, message))


SERVICE = {
    "metadata": {"name": "web", "creationTimestamp": ago(600)},
    "spec": {"type": "LoadBalancer"},
}
CLAIM = {"metadata": {"name": "web", "creationTimestamp": ago(600)}, "status": {"phase": "Pending"}}
DELETED = pod(deletionTimestamp=ago(300), deletionGracePeriodSeconds=30)
LayerFaults = Mapping[str, tuple[ObjectFacts, str]]
HELD = condition(wellknown.DELETES_HELD, "True", "StoreChanged", "etcd was replaced.")

TENANT_LAYER_FAULTS: LayerFaults = {
    "tenant deleted": (with_tenant(virtual_cluster(deletionTimestamp=ago(5))), "deletion"),
    "tenant scheduled for deletion": (
        with_tenant(virtual_cluster(annotations={wellknown.DELETE_AFTER: ago(-3600)})),
        "deletion",
    ),
    "snapshot is restored": (
        with_tenant(virtual_cluster(annotations={wellknown.RESTORE_SNAPSHOT: "a@b"})),
        "restore",
    ),
    "suspended": (with_tenant(virtual_cluster(spec={"suspend": True})), "paused"),
    "asleep": (with_tenant(virtual_cluster(spec={"sleep": {"workloads": "Keep"}})), "paused"),
    "suspended by condition": (with_tenant(not_engaged("Suspended")), "paused"),
    "vc-manager never saw it": (
        with_tenant({**virtual_cluster(), "status": {}}),
        "control-plane",
    ),
    "etcd image missing": (
        with_tenant(
            virtual_cluster(
                condition(wellknown.READY, "False", "EtcdNotReady"),
                condition(wellknown.ETCD_READY, "False", "ImageNotFound", "no such image"),
            )
        ),
        "control-plane",
    ),
    "API server down": (
        with_tenant(
            virtual_cluster(
                condition(wellknown.READY, "False", "APIServerNotReady"),
                condition(wellknown.API_SERVER_READY, "False", "CrashLoopBackOff"),
            )
        ),
        "control-plane",
    ),
    "syncer down": (with_tenant(virtual_cluster(), syncer_lease=lease(300)), "syncer"),
    "syncer never ran": (with_tenant(virtual_cluster(), syncer_lease=None), "syncer"),
    "syncer down and an old condition": (
        with_tenant(not_engaged("TenantUnreachable"), syncer_lease=lease(300)),
        "syncer",
    ),
    "policy missing": (with_tenant(not_engaged("PolicyMissing")), "policy-missing"),
    "policy unreadable": (with_tenant(not_engaged("PolicyUnreadable")), "policy-missing"),
    "tenant webhook refuses all writes": (with_tenant(not_engaged("TenantRefusesWrites")), "sync"),
    "tenant unreachable from the syncer": (with_tenant(not_engaged("TenantUnreachable")), "sync"),
    "tenant too large": (with_tenant(not_engaged("TooLarge")), "sync"),
    "tenant API does not answer": (
        facts(None, super_facts(), tenant_problem="refused", is_tenant_known=False),
        "tenant-api",
    ),
    "kubeconfig of the tenant deleted": (
        facts(None, super_facts(missing_kubeconfig="Secret r/a"), is_tenant_known=False),
        "tenant-access",
    ),
    "deletes held, object deleted": (
        both(DELETED, virtual_cluster=virtual_cluster(HELD)),
        "deletes-held",
    ),
    "deletes held, object absent": (
        facts(None, super_facts(pod(), virtual_cluster=virtual_cluster(HELD))),
        "deletes-held",
    ),
    "deletes held, another object": (
        facts(bare(), super_facts(virtual_cluster=virtual_cluster(HELD)), tenant_events=[REFUSED]),
        "policy",
    ),
}
"""Faults of the tenant as a whole."""


def of_rule(ruled: RuledDirection, ready: str = "True", **selector: str) -> ObjectFacts:
    """Return facts about an object of a kind that has a SyncRule."""
    rule = {
        "metadata": {"name": "widgets"},
        "spec": {"selector": {"matchLabels": selector}},
        "status": {"conditions": [condition("Ready", ready, message="no CRD")]},
    }
    found = of_kind("Widget.example.com", SERVICE)
    assert found.super_facts is not None
    parts = replace(found.super_facts, sync_rules=[rule])
    return replace(found, ruled=ruled, super_facts=parts)


SYNC_LAYER_FAULTS: LayerFaults = {
    "SyncRule is not usable": (of_rule("", "False"), "sync-rule"),
    "SyncRule is not of the tenant": (of_rule(""), "sync-rule"),
    "SyncRule selects other labels": (of_rule("Down", tier="gold"), "sync-rule"),
    "object of a SyncRule has no copy": (of_rule("Down"), "syncer-backlog"),
    "copy outlives its object": (facts(None, super_facts(pod())), "deleting"),
    "namespace is being deleted": (
        never_synced(tenant_namespace={"metadata": {"deletionTimestamp": ago(9)}}),
        "namespace",
    ),
    "finalizer in the tenant": (
        facts(pod(deletionTimestamp=ago(300), finalizers=["example.com/a"]), super_facts()),
        "finalizer",
    ),
    "policy refuses": (never_synced(REFUSED), "policy"),
    "policy refuses after a quota": (
        never_synced(event("QuotaExceeded", "cpu", syncer=True, seconds=300), REFUSED),
        "policy",
    ),
    "quota": (never_synced(event("QuotaExceeded", "requests.cpu", syncer=True)), "quota"),
    "quota by the report": (
        never_synced(quota_report={"waiting": "Pod shop/web: requests.cpu is used up\n"}),
        "quota",
    ),
    "name taken": (never_synced(event("NameTaken", "another owner", syncer=True)), "name"),
    "earlier namespace is deleted": (
        never_synced(event("WaitingForDeletion", "earlier", syncer=True)),
        "name",
    ),
    "webhook of the super cluster": (
        never_synced(event("SyncFailed", "The super cluster rejected this object.", syncer=True)),
        "super-admission",
    ),
    "ConfigMap missing": (never_synced(missing_needs=("ConfigMap settings",)), "needs"),
    "Secret missing while it starts": (
        both(
            pending(containers=[waiting("ContainerCreating")]),
            missing_needs=("Secret key",),
            copy_events=[event("FailedMount", 'secret "key" not found')],
        ),
        "needs",
    ),
    "tenant cordoned all nodes": (
        never_synced(event("FailedScheduling", "no node is left", syncer=True)),
        "node-choice",
    ),
    "target away, before the copy": (
        facts(
            bare(),
            super_facts(
                targets=[
                    {
                        "metadata": {"name": "t1"},
                        "status": {"conditions": [condition("Ready", "False", "Unreachable")]},
                    }
                ]
            ),
        ),
        "target",
    ),
    "target away, of a running pod": (
        facts(
            pod(NOT_READY),
            super_facts(is_copy_known=False),
            tenant_events=[event("TargetUnreachable", "does not answer", syncer=True)],
        ),
        "target",
    ),
    "no Event and no copy": (never_synced(), "syncer-backlog"),
    "Service IP in use": (
        of_kind(
            "Service",
            SERVICE,
            tenant_events=[event("ServiceIPUnavailable", "10.0.0.1", syncer=True)],
        ),
        "name",
    ),
    "Service refused": (of_kind("Service", SERVICE, tenant_events=[REFUSED]), "policy"),
    "ConfigMap without a reader": (
        of_kind("ConfigMap", {"metadata": {"creationTimestamp": ago(600)}}),
        "syncer-backlog",
    ),
    "write parked": (
        both(pod(), tenant_events=[event("SyncParked", "spec.x", syncer=True)]),
        "parked",
    ),
    "later change refused": (both(pod(), tenant_events=[REFUSED]), "policy"),
    "tenant webhook refuses pods": (
        replace(
            facts(SERVICE, super_facts(), tenant_events=[event("FailedCreate", "exceeded quota")]),
            kind="Deployment",
        ),
        "tenant-admission",
    ),
}
"""Faults of the sync of one object."""
POD_LAYER_FAULTS: LayerFaults = {
    "scheduling gate": (
        both(
            pod(NOT_READY, phase="Pending", node_name="", spec={"schedulingGates": [{"name": "a"}]})
        ),
        "scheduling-gate",
    ),
    "claim without a provisioner": (
        both(
            unscheduled("pod has unbound immediate PersistentVolumeClaims"),
            claims=[claim()],
            tenant_claims=[claim()],
            claim_events=[event("ProvisioningFailed", "no such class", kind="Pvc", name="data")],
        ),
        "volume-claim",
    ),
    "claim without any Event": (
        both(
            unscheduled("pod has unbound immediate PersistentVolumeClaims"),
            claims=[claim()],
        ),
        "volume-claim",
    ),
    "claim waits for its pod, and no node is free": (
        both(
            unscheduled(),
            claims=[claim()],
            claim_events=[event("WaitForFirstConsumer", "first consumer", name="data")],
        ),
        "no-node",
    ),
    "no node is free": (both(unscheduled()), "no-node"),
    "no scheduler": (
        both(pod(condition("PodScheduled", "Unknown"), NOT_READY, phase="Pending", node_name="")),
        "no-node",
    ),
    "node down": (both(pod(NOT_READY), node=node("Unknown", "Kubelet stopped")), "node"),
    "node deleted": (both(pod(NOT_READY), node=None), "node"),
    "node down while deleting": (both(DELETED, node=node("False")), "node"),
    "kubelet does not end it": (both(DELETED), "terminating"),
    "volume not attached": (
        both(
            pending(containers=[waiting("ContainerCreating")]),
            copy_events=[event("FailedAttachVolume", "in use")],
        ),
        "volume-mount",
    ),
    "network plugin": (
        both(
            pending(containers=[waiting("ContainerCreating")]),
            copy_events=[event("FailedCreatePodSandBox", "cni")],
        ),
        "pod-network",
    ),
    "image missing": (both(pending(containers=[waiting("ImagePullBackOff")])), "image"),
    "image name invalid": (both(pending(containers=[waiting("InvalidImageName")])), "image"),
    "image of an init container": (
        both(pending(init=[waiting("ErrImagePull", name="i")], containers=[])),
        "image",
    ),
    "key of a ConfigMap missing": (
        both(pending(containers=[waiting("CreateContainerConfigError")])),
        "container-configuration",
    ),
    "command missing": (
        both(pod(NOT_READY, containers=[waiting("RunContainerError")])),
        "container-configuration",
    ),
    "out of memory": (both(pod(NOT_READY, containers=[ended(137, "OOMKilled")])), "memory"),
    "out of memory, not restarted": (
        both(pod(NOT_READY, phase="Failed", containers=[over(137, "OOMKilled")])),
        "memory",
    ),
    "container fails, not restarted": (
        both(pod(NOT_READY, phase="Failed", containers=[over(1)])),
        "container",
    ),
    "evicted while it failed": (
        both(pod(phase="Failed", containers=[over(1)], status={"reason": "Evicted"})),
        "eviction",
    ),
    "pod failed without a container": (
        both(pod(NOT_READY, phase="Failed", containers=[])),
        "eviction",
    ),
    "liveness probe fails": (
        both(
            pod(NOT_READY, containers=[ended(137)]),
            copy_events=[
                event("Unhealthy", "Liveness probe failed: HTTP 500"),
                event("Killing", "Container c failed liveness probe, will be restarted"),
            ],
        ),
        "probe",
    ),
    "crashes long after a probe failed": (
        both(
            pod(NOT_READY, containers=[ended(1)]),
            copy_events=[event("Killing", "Container c failed liveness probe", seconds=600)],
        ),
        "container",
    ),
    "stopped for another reason, and crashes": (
        both(
            pod(NOT_READY, containers=[ended(1)]),
            copy_events=[event("Killing", "Stopping container c")],
        ),
        "container",
    ),
    "init container fails": (
        both(pending(init=[ended(1, name="i")], containers=[waiting("PodInitializing")])),
        "init-container",
    ),
    "container crashes": (both(pod(NOT_READY, containers=[ended(1)])), "container"),
    "evicted": (both(pod(phase="Failed", status={"reason": "Evicted"})), "eviction"),
    "copy deleted by others": (
        both(pod(phase="Failed", status={"reason": "SuperPodLost"})),
        "eviction",
    ),
    "probe fails": (
        both(pod(NOT_READY), copy_events=[event("Unhealthy", "HTTP 500")]),
        "probe",
    ),
    "readiness gate": (both(pod(NOT_READY, condition("ContainersReady"))), "readiness-gate"),
    "status not synced back": (
        facts(pending(), super_facts(pod())),
        "status",
    ),
    "node agent down": (
        both(pod(), agent_pod={"metadata": {}, "status": {"conditions": [NOT_READY]}}),
        "node-agent",
    ),
    "node agent missing": (both(pod(), agent_pod=None), "node-agent"),
}
"""Faults of a pod where it runs."""
KIND_FAULTS: LayerFaults = {
    "claim alone": (
        of_kind(
            "PersistentVolumeClaim",
            CLAIM,
            CLAIM,
            tenant_events=[event("ProvisioningFailed", "none")],
        ),
        "volume-claim",
    ),
    "load balancer": (of_kind("Service", SERVICE, SERVICE), "load-balancer"),
    "ingress controller": (of_kind("Ingress", SERVICE, SERVICE), "ingress-controller"),
}
"""Faults of other kinds."""
SUPER_FAULTS: LayerFaults = {
    **TENANT_LAYER_FAULTS,
    **SYNC_LAYER_FAULTS,
    **POD_LAYER_FAULTS,
    **KIND_FAULTS,
}


def assert_named(fault: tuple[ObjectFacts, str]) -> None:
    """Fail unless the layer of a fault is the one that holds the object."""
    found, layer = fault
    seen = diagnose(found, LAYERS)
    assert (seen.layer, seen.is_held) == (layer, True)
    assert seen.finding.sentence
    assert seen.finding.next_command
