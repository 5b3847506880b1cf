"""Faults of one tenant as a whole, for `kubectl vc doctor NAME` and for `kubectl vc why`."""

from __future__ import annotations

from tenancy import wellknown
from tenancy.resources import PERSISTENT_VOLUME_CLAIMS, PODS, SECRETS, VIRTUAL_CLUSTERS
from tests.integration.kubectl_vc.faults import shapes
from tests.integration.kubectl_vc.faults.installation_faults import hang, stop_syncer
from tests.integration.kubectl_vc.faults.table import Fault, Plant
from tests.integration.kubectl_vc.faults.world import FaultWorld, set_status, tell
from tests.support.controlplane import LocalControlPlane
from tests.support.processes import free_port


async def control_plane_down(
    world: FaultWorld, kind: str, reason: str, message: str = "said"
) -> None:
    """Report a component that is not ready, and the tenant with it."""
    await world.report(kind, "False", reason, message)
    await world.report(wellknown.READY, "False", reason, message)


def down(kind: str, reason: str, message: str = "said") -> Plant:
    """Return the fault of a component."""
    return lambda world: control_plane_down(world, kind, reason, message)


def reported(kind: str, value: str, reason: str, message: str = "said") -> Plant:
    """Return the fault that is a condition."""
    return lambda world: world.report(kind, value, reason, message)


def declared(**spec: object) -> Plant:
    """Return the fault that is a field of the VirtualCluster."""
    return lambda world: world.patch_tenant({"spec": spec})


async def etcd_state(world: FaultWorld, status: shapes.Object) -> None:
    """Write the state of the etcd pod."""
    await set_status(world.below, PODS, "etcd-0", world.tenant.root, status)


async def lose_etcd_image(world: FaultWorld) -> None:
    """The registry has no image of etcd."""
    text = f'Back-off pulling image "{shapes.IMAGE}": not found'
    waits = shapes.container(shapes.waiting("ImagePullBackOff", text), name="etcd")
    await etcd_state(world, shapes.status("Pending", waits))
    await control_plane_down(world, wellknown.ETCD_READY, "ImageNotFound", text)


async def etcd_claim(world: FaultWorld, event: str, message: str, storage_class: str) -> None:
    """Leave the claim of etcd unbound."""
    root, name = world.tenant.root, "data-etcd-1"
    made = await world.below.create(
        PERSISTENT_VOLUME_CLAIMS, shapes.claim(name, root, storage_class)
    )
    await set_status(world.below, PERSISTENT_VOLUME_CLAIMS, name, root, {"phase": "Pending"})
    await tell(world.below, made, event, message, component="persistentvolume-controller")


async def leave_volume_unbound(world: FaultWorld) -> None:
    """No provisioner serves the claim of etcd."""
    text = "waiting for a volume to be created by the external provisioner 'disk.example.com'"
    await etcd_claim(world, "ExternalProvisioning", text, "immediate")
    await etcd_state(world, shapes.unscheduled(shapes.UNBOUND))
    await control_plane_down(world, wellknown.ETCD_READY, "ExternalProvisioning", text)


async def leave_etcd_without_node(world: FaultWorld) -> None:
    """No node is free for etcd, whose claim waits for the pod."""
    text = "waiting for first consumer to be created before binding"
    await etcd_claim(world, "WaitForFirstConsumer", text, "standard")
    await etcd_state(world, shapes.unscheduled())
    said = f"pod etcd-0 cannot be scheduled: {shapes.SHORTAGE}"
    await control_plane_down(world, wellknown.ETCD_READY, "FailedScheduling", said)


async def expire_certificate(world: FaultWorld) -> None:
    """The certificate of the API server ended, so nothing trusts it."""
    await world.write_certificates(-1)
    await control_plane_down(world, wellknown.API_SERVER_READY, "Unhealthy", "probe failed: x509")


async def delete_tenant(world: FaultWorld) -> None:
    """The tenant is deleted, and a finalizer waits."""
    await world.patch_tenant({"metadata": {"finalizers": [wellknown.FINALIZER]}})
    await world.below.delete(VIRTUAL_CLUSTERS, world.tenant.name, namespace=world.tenant.namespace)


async def restore(world: FaultWorld) -> None:
    """A snapshot is being restored."""
    change = {"metadata": {"annotations": {wellknown.RESTORE_SNAPSHOT: "nightly@2026-01-01"}}}
    await world.patch_tenant(change)
    await world.report(wellknown.SYNCED, "False", wellknown.RESTORING, "A snapshot is restored.")


async def schedule_deletion(world: FaultWorld) -> None:
    """The tenant is stopped and deleted tomorrow."""
    await world.patch_tenant(
        {"metadata": {"annotations": {wellknown.DELETE_AFTER: shapes.ago(-86400)}}}
    )


async def refuse_credential(world: FaultWorld) -> None:
    """The syncer's certificate for the tenant was revoked."""
    text = "The tenant's API: GET /api/v1/namespaces: 401 Unauthorized"
    await world.report(wellknown.SYNCED, "False", "TenantUnreachable", text)


# With a pod of the tenant, for `why`.


async def with_pod(world: FaultWorld, plant: Plant) -> None:
    """Plant the fault, and create a pod that is not synced because of it."""
    await plant(world)
    await world.pod()


def why(plant: Plant) -> Plant:
    """Return a fault with a pod to ask about."""
    return lambda world: with_pod(world, plant)


async def stop_tenant_api(world: FaultWorld) -> None:
    """Nothing listens at the address of the tenant, and no condition shows it yet."""
    text = world.tenant_plane.kubeconfig().decode()
    closed = f"https://127.0.0.1:{free_port()}"
    await world.write_kubeconfig(text.replace(world.tenant_plane.server, closed).encode())


async def distrust_tenant(world: FaultWorld) -> None:
    """The administrator's kubeconfig is of an authority that was replaced."""
    other = LocalControlPlane(world.folder / "replaced", name="tenant")
    text = other.kubeconfig().decode()
    await world.write_kubeconfig(text.replace(other.server, world.tenant_plane.server).encode())


async def lose_kubeconfig(world: FaultWorld) -> None:
    """The Secret with the administrator's kubeconfig was deleted."""
    await world.below.delete(SECRETS, "admin-kubeconfig", namespace=world.tenant.root)
    await world.pod()


NAMED = "doctor NAME"
TENANT_FAULTS: tuple[Fault, ...] = (
    Fault("image of etcd missing", "tenant-images", lose_etcd_image, NAMED),
    Fault("volume of etcd unbound", "tenant-volumes", leave_volume_unbound, NAMED),
    Fault("no node for etcd", "etcd", leave_etcd_without_node, NAMED),
    Fault("etcd crashes", "etcd", down(wellknown.ETCD_READY, "CrashLoopBackOff", "exit 1"), NAMED),
    Fault(
        "etcd lost a member",
        "etcd-members",
        reported(wellknown.ETCD_MEMBERS_READY, "False", "NoQuorum"),
        NAMED,
    ),
    Fault("etcd is full", "etcd-size", reported(wellknown.STORE_FILLING, "True", "Full"), NAMED),
    Fault("certificate expired", "certificates", expire_certificate, NAMED),
    Fault(
        "authority half rotated",
        "authorities",
        down(wellknown.CERTIFICATES_READY, "AuthorityBroken", "the Secret root-ca is broken"),
        NAMED,
    ),
    Fault(
        "older ClusterVersion refused",
        "ready",
        reported(wellknown.READY, "False", "VersionSkew", "v1.35 is older than v1.36"),
        NAMED,
    ),
    Fault(
        "API server crashes",
        "apiserver",
        down(wellknown.API_SERVER_READY, "CrashLoopBackOff", "unknown flag: --x"),
        NAMED,
    ),
    Fault(
        "controllers crash",
        "controller-manager",
        down(wellknown.CONTROLLER_MANAGER_READY, "CrashLoopBackOff"),
        NAMED,
    ),
    Fault(
        "DNS of the tenant down",
        "dns",
        reported(wellknown.DNS_READY, "False", "CrashLoopBackOff", "loop detected"),
        NAMED,
    ),
    Fault(
        "quota of the root namespace",
        "etcd",
        down(wellknown.ETCD_READY, "QuotaExceeded", "exceeded quota: team"),
        NAMED,
    ),
    Fault(
        "sign-on refused",
        "authentication",
        reported(wellknown.AUTHENTICATION_READY, "False", "Invalid", "issuer.url: not https"),
        NAMED,
    ),
    Fault("policy missing", "policy", declared(policyRef={"name": "gone"}), NAMED),
    Fault("suspended and forgotten", "paused", declared(suspend=True), NAMED),
    Fault(
        "deletes held",
        "deletes",
        reported(wellknown.DELETES_HELD, "True", "StoreChanged", "etcd was replaced."),
        NAMED,
    ),
    Fault(
        "target not declared",
        "grants",
        reported(wellknown.TARGETS_GRANTED, "False", "NoSuchTarget", "no SuperCluster far"),
        NAMED,
    ),
    Fault("deletion waits", "deletion", delete_tenant, NAMED),
    Fault("restore runs", "restore", restore, NAMED),
    Fault("credential of the syncer refused", "sync", refuse_credential, NAMED),
    Fault(
        "webhook of the tenant refuses all writes",
        "sync",
        reported(wellknown.SYNCED, "False", "TenantRefusesWrites", "failed calling webhook"),
        NAMED,
    ),
    Fault(
        "network policies not enforced",
        "network",
        reported(wellknown.NETWORK_POLICIES_ENFORCED, "False", "NotEnforced", "a probe passed"),
        NAMED,
    ),
    Fault("syncer down, a new pod", "syncer", why(stop_syncer)),
    Fault("syncer hangs, a new pod", "syncer", why(lambda world: hang(world, wellknown.SYNCER))),
    Fault(
        "etcd down, a new pod",
        "control-plane",
        why(down(wellknown.ETCD_READY, "CrashLoopBackOff")),
    ),
    Fault("suspended, a new pod", "paused", why(declared(suspend=True))),
    Fault("deleted tomorrow, a new pod", "deletion", why(schedule_deletion)),
    Fault(
        "policy missing, a new pod",
        "policy-missing",
        why(reported(wellknown.SYNCED, "False", "PolicyMissing", "there is no TenantPolicy x")),
    ),
    Fault(
        "tenant too large, a new pod",
        "sync",
        why(reported(wellknown.SYNCED, "False", "TooLarge", "NetworkPolicy: 4 MiB")),
    ),
    Fault("tenant away", "tenant-api", why(stop_tenant_api)),
    Fault("authority of the tenant replaced", "tenant-api", why(distrust_tenant)),
    Fault("kubeconfig of the tenant deleted", "tenant-access", lose_kubeconfig),
)
