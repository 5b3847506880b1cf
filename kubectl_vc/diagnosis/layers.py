"""Table of `kubectl vc why`: all layers that can hold an object, the outermost first. Pure."""

from kubectl_vc.diagnosis.layer_table import Layer, LayerFinding
from kubectl_vc.diagnosis.object_facts import (
    Body,
    ObjectFacts,
    find_event,
    get_event_time,
    get_message,
    get_metadata,
    get_spec,
    get_status,
)
from kubectl_vc.diagnosis.pod_layers import POD_LAYERS
from kubectl_vc.diagnosis.sync_layers import (
    CHANGE_LAYERS,
    SYNC_LAYERS,
    build_copy_command,
    build_object_command,
)
from kubectl_vc.diagnosis.tenant_layers import TENANT_LAYERS

_CLAIM_REASONS = ("ProvisioningFailed", "FailedBinding", "VolumeMismatch", "VolumeResizeFailed")


def _find_claim(facts: ObjectFacts) -> LayerFinding | None:
    body = _get_newest(facts, "PersistentVolumeClaim")
    phase = get_status(body).get("phase")
    if body is None or phase == "Bound":
        return None
    waits = find_event(facts.events, "WaitForFirstConsumer", "WaitForPodScheduled")
    event = find_event(facts.events, *_CLAIM_REASONS, "ExternalProvisioning", "Provisioning")
    if waits is not None and (event is None or get_event_time(waits) >= get_event_time(event)):
        said = "The claim is bound when a pod that uses it is scheduled."
    elif event is not None:
        said = f"No volume is bound to the claim: {event['reason']}: {get_message(event)}"
    else:
        name = get_spec(body).get("storageClassName") or "none"
        said = f"No volume is bound to the claim (StorageClass: {name})."
    return LayerFinding(said, build_copy_command(facts))


def _find_load_balancer(facts: ObjectFacts) -> LayerFinding | None:
    body = _get_newest(facts, "Service")
    if body is None or get_spec(body).get("type") != "LoadBalancer":
        return None
    if (get_status(body).get("loadBalancer") or {}).get("ingress"):
        return None
    event = find_event(facts.events, "SyncLoadBalancerFailed", "EnsuringLoadBalancer")
    said = f": {get_message(event)}" if event is not None else "."
    return LayerFinding(
        f"No load balancer has assigned an address to the Service{said}", build_copy_command(facts)
    )


def _find_ingress(facts: ObjectFacts) -> LayerFinding | None:
    body = _get_newest(facts, "Ingress")
    if body is None or (get_status(body).get("loadBalancer") or {}).get("ingress"):
        return None
    name = get_spec(body).get("ingressClassName") or "none"
    return LayerFinding(
        f"No ingress controller has assigned an address (IngressClass: {name}).",
        build_copy_command(facts),
    )


def _get_newest(facts: ObjectFacts, kind: str) -> Body | None:
    return (facts.copy or facts.tenant_object) if facts.kind == kind else None


def _find_deleting(facts: ObjectFacts) -> LayerFinding | None:
    since = get_metadata(facts.tenant_object).get("deletionTimestamp")
    if not since:
        return None
    finalizers = ", ".join(get_metadata(facts.copy).get("finalizers") or ())
    held = f" Finalizers keep its copy: {finalizers}." if finalizers else ""
    return LayerFinding(
        f"The object is being deleted.{held}", build_copy_command(facts), str(since)
    )


def _find_unknown(facts: ObjectFacts) -> LayerFinding | None:
    """Match when facts that the user may not read could show a fault."""
    found = facts.super_facts
    if found is None or not found.unknown:
        return None
    return LayerFinding(
        f"No layer is known to hold the object. You may not read: {', '.join(found.unknown)}.",
        build_object_command(facts),
    )


def _find_nothing(_: ObjectFacts) -> LayerFinding:
    return LayerFinding("No layer holds the object.", "")


LAYERS: tuple[Layer, ...] = (
    *TENANT_LAYERS,
    *SYNC_LAYERS,
    *POD_LAYERS,
    Layer("volume-claim", _find_claim),
    Layer("load-balancer", _find_load_balancer),
    Layer("ingress-controller", _find_ingress),
    *CHANGE_LAYERS,
    Layer("deleting", _find_deleting, is_fault=False),
    Layer("unknown", _find_unknown, is_fault=False),
    Layer("none", _find_nothing, is_fault=False),
)
"""All rows. The last one always matches."""
