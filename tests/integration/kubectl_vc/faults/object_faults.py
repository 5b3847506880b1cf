"""Faults of the sync of one object, and of objects that are no pods, for `kubectl vc why`."""

from __future__ import annotations

from kubectl_vc.audit.webhooks import WEBHOOK_CONFIGURATIONS
from kubectl_vc.diagnosis.object_kinds import REPLICA_SETS
from kubeio import Object, errors
from tenancy.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    INGRESSES,
    JOBS,
    NAMESPACES,
    PODS,
    SERVICES,
    Resource,
)
from tests.integration.kubectl_vc.faults import shapes
from tests.integration.kubectl_vc.faults.table import Fault, Plant
from tests.integration.kubectl_vc.faults.world import FaultWorld, tell
from tests.support.names import fresh_name

REFUSED = "spec.hostNetwork: not allowed by the TenantPolicy of this cluster (rule host-namespace)."
QUOTA = "requests.cpu: 4 of 4 are used by this tenant, 1 is requested (spec.quota)."
REJECTED = "The super cluster rejected this object. Contact your platform administrator."
AWAY = "The cluster that runs this pod does not answer."


async def told(world: FaultWorld, reason: str, message: str) -> None:
    """Create a pod that the syncer reports about and does not sync."""
    await world.tell(await world.pod(), reason, message)


def refused(reason: str, message: str) -> Plant:
    """Return the fault that the syncer reports."""
    return lambda world: told(world, reason, message)


async def told_later(world: FaultWorld, reason: str, message: str) -> None:
    """Report about a change of a pod that runs."""
    await world.tell(await world.pod(shapes.running()), reason, message)


async def exceed_quota_after_refusal(world: FaultWorld) -> None:
    """The object was refused first, was corrected, and now exceeds the quota."""
    made = await world.pod()
    await world.tell(made, "SyncRejected", REFUSED, seconds=600)
    await world.tell(made, "QuotaExceeded", QUOTA)


async def break_super_webhook(world: FaultWorld) -> None:
    """A webhook of the super cluster points nowhere, and refuses the copy."""
    space = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}
    rules = {"apiGroups": [""], "resources": ["pods"]}
    body = shapes.webhook(fresh_name("engine"), "ValidatingWebhookConfiguration", **rules)
    body["webhooks"][0] |= space  # other faults create pods beside this one
    await world.add(WEBHOOK_CONFIGURATIONS, body)
    await told(world, "SyncFailed", REJECTED)


async def workload_without_pods(world: FaultWorld, message: str) -> None:
    """Create a Deployment whose ReplicaSet cannot create pods."""
    made = await world.above.create(DEPLOYMENTS, shapes.workload("Deployment", "web", world.space))
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "web",
        "uid": made["metadata"]["uid"],
    }
    wanted = shapes.workload("ReplicaSet", "web-1", world.space)
    wanted["metadata"]["ownerReferences"] = [owner]
    replicas = await world.above.create(REPLICA_SETS, wanted)
    await tell(world.above, replicas, "FailedCreate", message, component="replicaset-controller")


async def break_tenant_webhook(world: FaultWorld) -> None:
    """A webhook of the tenant points nowhere. The API server's own words are in the Event."""
    name = fresh_name("mesh")
    rules = {"apiGroups": [""], "resources": ["pods"]}
    body = shapes.webhook(name, "ValidatingWebhookConfiguration", **rules)
    labels = {"matchLabels": {"kubernetes.io/metadata.name": world.space}}
    body["webhooks"][0]["namespaceSelector"] = labels
    await world.above.create(WEBHOOK_CONFIGURATIONS, body)
    world.undone.push_async_callback(world.above.delete, WEBHOOK_CONFIGURATIONS, name)
    said = ""
    for _ in range(200):
        try:
            await world.above.create(PODS, shapes.pod("x", world.space), dry_run=True)
        except errors.ApiError as problem:
            said = problem.server_message
            break
    assert "failed calling webhook" in said
    await workload_without_pods(world, f"Error creating: {said}")


async def exceed_tenant_quota(world: FaultWorld) -> None:
    """A ResourceQuota of the tenant's own refuses the pods."""
    text = 'Error creating: pods "web-1-" is forbidden: exceeded quota: team, requested: pods=1'
    await workload_without_pods(world, text)


async def lose_config_map(world: FaultWorld) -> None:
    """The pod names a ConfigMap that does not exist."""
    volume = {"name": "settings", "configMap": {"name": "settings"}}
    text = 'MountVolume.SetUp failed for volume "settings": configmap "settings" not found'
    made = await world.pod(shapes.creating(), volumes=[volume])
    await world.tell_both(made, "FailedMount", text, "kubelet")


async def lose_secret(world: FaultWorld) -> None:
    """A variable comes from a Secret that does not exist."""
    source = {"secretKeyRef": {"name": "password", "key": "p"}}
    containers = [
        {"name": "main", "image": shapes.IMAGE, "env": [{"name": "P", "valueFrom": source}]}
    ]
    waits = shapes.waiting("CreateContainerConfigError", 'secret "password" not found')
    await world.pod(shapes.status("Pending", shapes.container(waits)), containers=containers)


async def lose_key(world: FaultWorld) -> None:
    """The ConfigMap exists and lacks a key."""
    await world.above.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, namespace=world.space)
    source = {"configMapKeyRef": {"name": "a", "key": "k"}}
    containers = [
        {"name": "main", "image": shapes.IMAGE, "env": [{"name": "P", "valueFrom": source}]}
    ]
    said = f"couldn't find key k in ConfigMap {world.space}/a"
    waits = shapes.waiting("CreateContainerConfigError", said)
    await world.pod(shapes.status("Pending", shapes.container(waits)), containers=containers)


async def lose_namespace(world: FaultWorld) -> None:
    """The namespace is being deleted, and a finalizer keeps it."""
    await world.pod()
    await world.above.delete(NAMESPACES, world.space)


async def lose_target_before(world: FaultWorld) -> None:
    """The target of a new pod does not answer."""
    await world.join("far", "NoAnswer", "GET /version: no answer in 5 s.")
    await world.patch_tenant({"spec": {"targets": [{"name": "far"}]}})
    await world.pod()


async def lose_target_later(world: FaultWorld) -> None:
    """The target of a running pod does not answer."""
    await world.join("far", "NoAnswer", "GET /version: no answer in 5 s.")
    await world.patch_tenant({"spec": {"targets": [{"name": "far"}]}})
    made = await world.pod(shapes.unready())
    await world.below.delete(
        PODS, "web", namespace=world.super_space, grace_seconds=0
    )  # the copy is in the target
    await world.tell(made, "TargetUnreachable", AWAY)


async def network_object(world: FaultWorld, resource: Resource, spec: Object) -> Object:
    """Create a Service or Ingress on both sides."""
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "web", "namespace": world.space},
        "spec": spec,
    }
    made = await world.above.create(resource, body)
    await world.copy(resource, made, {**body, "metadata": {"name": "web"}})
    return made


async def lose_load_balancer(world: FaultWorld) -> None:
    """No controller gives the Service an address."""
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    await network_object(world, SERVICES, spec)


async def lose_ingress_controller(world: FaultWorld) -> None:
    """No controller serves the class of the Ingress."""
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    await network_object(world, INGRESSES, {"ingressClassName": "gone", "defaultBackend": backend})


async def take_service_address(world: FaultWorld) -> None:
    """The address of a Service is in use outside of the tenant."""
    body = {
        "metadata": {"name": "web", "namespace": world.space},
        "spec": {"ports": [{"port": 80}]},
    }
    made = await world.above.create(SERVICES, body)
    await world.tell(
        {**made, "kind": "Service"},
        "ServiceIPUnavailable",
        "The cluster IP of the Service is in use outside of this cluster.",
    )


async def lose_provisioner(world: FaultWorld) -> None:
    """A claim alone is not served."""
    made = await world.claim("data", "Pending", "immediate")
    await tell(
        world.above,
        {**made, "kind": "PersistentVolumeClaim"},
        "ProvisioningFailed",
        "storageclass.storage.k8s.io not served",
        component="persistentvolume-controller",
    )


async def fail_job(world: FaultWorld) -> None:
    """The container of a Job ends with an error."""
    template = {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": shapes.IMAGE}]}
    }
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "web", "namespace": world.space},
        "spec": {"template": template},
    }
    made = await world.above.create(JOBS, body)
    labels = made["spec"]["selector"]["matchLabels"]
    await world.pod(
        shapes.status("Failed", shapes.container(shapes.ended(1))),
        name="web-x",
        labels=labels,
        restartPolicy="Never",
    )


async def deploy_missing_image(world: FaultWorld) -> None:
    """The only pod of a Deployment has no image."""
    await world.above.create(DEPLOYMENTS, shapes.workload("Deployment", "web", world.space))
    waits = shapes.waiting("ErrImagePull", "manifest unknown")
    await world.pod(
        shapes.status("Pending", shapes.container(waits)), name="web-1-x", labels={"app": "web"}
    )


async def hold_deletes(world: FaultWorld) -> None:
    """The pod is deleted in the tenant, and deletes are held."""
    await world.pod(shapes.running())
    await world.above.delete(PODS, "web", namespace=world.space, grace_seconds=0)
    await world.report("DeletesHeld", "True", "StoreChanged", "etcd was replaced.")


OBJECT_FAULTS: tuple[Fault, ...] = (
    Fault("policy refuses", "policy", refused("SyncRejected", REFUSED), tenant_layer="policy"),
    Fault("quota", "quota", refused("QuotaExceeded", QUOTA), tenant_layer="quota"),
    Fault("quota after a refusal", "quota", exceed_quota_after_refusal, tenant_layer="quota"),
    Fault(
        "name taken",
        "name",
        refused("NameTaken", "An object of another owner has the name."),
        tenant_layer="name",
    ),
    Fault(
        "webhook of the super cluster down",
        "super-admission",
        break_super_webhook,
        tenant_layer="super-admission",
    ),
    Fault(
        "webhook of the tenant down",
        "tenant-admission",
        break_tenant_webhook,
        wanted="deploy/web",
        tenant_layer="tenant-admission",
    ),
    Fault(
        "quota of the tenant's own",
        "tenant-admission",
        exceed_tenant_quota,
        wanted="deploy/web",
        tenant_layer="tenant-admission",
    ),
    Fault("ConfigMap missing", "needs", lose_config_map, tenant_layer="needs"),
    Fault("Secret missing", "needs", lose_secret, tenant_layer="needs"),
    Fault(
        "key of a ConfigMap missing",
        "container-configuration",
        lose_key,
        tenant_layer="container-configuration",
    ),
    Fault(
        "tenant cordoned its nodes",
        "node-choice",
        refused("FailedScheduling", "0/1 nodes are available: 1 is unschedulable."),
        tenant_layer="node-choice",
    ),
    Fault("namespace is being deleted", "namespace", lose_namespace, tenant_layer="namespace"),
    Fault("target away, a new pod", "target", lose_target_before),
    Fault("target away, a running pod", "target", lose_target_later, tenant_layer="target"),
    Fault(
        "write parked",
        "parked",
        lambda world: told_later(world, "SyncParked", "spec.x was changed 5 times by others."),
        tenant_layer="parked",
    ),
    Fault(
        "later change refused",
        "policy",
        lambda world: told_later(world, "SyncRejected", REFUSED),
        tenant_layer="policy",
    ),
    Fault(
        "no load balancer",
        "load-balancer",
        lose_load_balancer,
        wanted="svc/web",
        tenant_layer="load-balancer",
    ),
    Fault(
        "no ingress controller",
        "ingress-controller",
        lose_ingress_controller,
        wanted="ing/web",
        tenant_layer="ingress-controller",
    ),
    Fault(
        "address of a Service in use",
        "name",
        take_service_address,
        wanted="svc/web",
        tenant_layer="name",
    ),
    Fault(
        "claim without a provisioner",
        "volume-claim",
        lose_provisioner,
        wanted="pvc/data",
        tenant_layer="volume-claim",
    ),
    Fault("Job fails", "container", fail_job, wanted="job/web", tenant_layer="container"),
    Fault(
        "image of a Deployment missing",
        "image",
        deploy_missing_image,
        wanted="deploy/web",
        tenant_layer="image",
    ),
    Fault("deletes held, object deleted", "deletes-held", hold_deletes),
)
