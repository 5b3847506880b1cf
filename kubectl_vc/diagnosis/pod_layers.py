"""Layers of a pod that exists where it runs: volumes, node, image, containers, node agent. Pure.

Owns the rows about the copy and its node. They read the newest state of the pod that the user may
see: the copy, or in a tenant's view the status that the syncer synced back.
"""

from collections.abc import Callable, Iterator
from typing import Any

from kubectl_vc.diagnosis import sync_layers
from kubectl_vc.diagnosis.layer_table import Layer, LayerFinding
from kubectl_vc.diagnosis.object_facts import (
    SETTLING_SECONDS,
    Body,
    ObjectFacts,
    find_event,
    find_pod_condition,
    find_waiting,
    get_event_time,
    get_message,
    get_metadata,
    get_spec,
    get_status,
    iterate_container_states,
)
from tenancy import conditions

IMAGE_REASONS = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
)
_CONFIGURATION_REASONS = (
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PreCreateHookError",
    "PostStartHookError",
)
_CLAIM_WAITS_FOR_POD = ("WaitForFirstConsumer", "WaitForPodScheduled")
_MOUNT_REASONS = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
_KILLING_PROBES = ("failed liveness probe", "failed startup probe")
"""Words of a kubelet about a container that it stops."""
_EVICTION_REASONS = (
    "Evicted",
    "Preempting",
    "Terminated",
    "NodeShutdown",
    "OutOfcpu",
    "OutOfmemory",
)

PodLayerFunction = Callable[[ObjectFacts, Body], LayerFinding | None]


def _for_pod(find: PodLayerFunction) -> Callable[[ObjectFacts], LayerFinding | None]:
    def find_for_pod(facts: ObjectFacts) -> LayerFinding | None:
        return find(facts, facts.pod) if facts.pod is not None else None

    return find_for_pod


def _describe_copy(facts: ObjectFacts) -> str:
    return sync_layers.build_copy_command(facts)


def _build_log_command(facts: ObjectFacts, container: str, *, previous: bool) -> str:
    return (
        f"kubectl logs {facts.name} -n {facts.namespace} -c {container}"
        f"{' --previous' if previous else ''}"
    )


def _find_gate(facts: ObjectFacts, pod: Body) -> LayerFinding | None:
    gates = [str(each.get("name")) for each in get_spec(pod).get("schedulingGates") or ()]
    if not gates:
        return None
    return LayerFinding(
        f"Scheduling gates hold the pod: {', '.join(gates)}. Their controllers must remove them.",
        sync_layers.build_object_command(facts),
        facts.wanted_since,
    )


def _find_claim(facts: ObjectFacts, pod: Body) -> LayerFinding | None:
    """Match a claim that is not bound, unless it waits for the pod itself."""
    if get_status(pod).get("phase") not in (None, "", "Pending"):
        return None
    scheduled = get_message(find_pod_condition(pod, "PodScheduled"))
    claims = facts.super_facts.claims if facts.super_facts is not None else facts.tenant_claims
    for claim in claims or facts.tenant_claims:
        name = str(get_metadata(claim).get("name"))
        phase = get_status(claim).get("phase")
        if phase == "Bound":
            continue
        event = _find_claim_event(facts, name)
        said = get_message(event) if event is not None else ""
        if event is not None and event.get("reason") in _CLAIM_WAITS_FOR_POD:
            continue
        if event is None and "persistentvolumeclaim" not in scheduled.lower() and phase != "Lost":
            continue
        reason = f": {event['reason']}: {said}" if event is not None else "."
        return LayerFinding(
            f"The PersistentVolumeClaim {name} is {phase or 'Pending'} and not bound{reason}",
            f"kubectl describe persistentvolumeclaim {name} -n {facts.namespace}",
            get_event_time(event) if event is not None else "",
        )
    if "persistentvolumeclaim" in scheduled.lower() and not get_spec(pod).get("nodeName"):
        return LayerFinding(
            f"A PersistentVolumeClaim of the pod is not bound: {scheduled}",
            f"kubectl get persistentvolumeclaims -n {facts.namespace}",
        )
    return None


def _find_claim_event(facts: ObjectFacts, name: str) -> Body | None:
    for event in reversed(facts.claim_events):
        if (event.get("involvedObject") or {}).get("name") == name:
            return event
    return None


def _find_unschedulable(facts: ObjectFacts, pod: Body) -> LayerFinding | None:
    scheduled = find_pod_condition(pod, "PodScheduled")
    if get_spec(pod).get("nodeName"):
        return None
    event = find_event(facts.events, "FailedScheduling")
    if scheduled.get("status") == "False":
        return LayerFinding(
            f"No node is free or suitable for the pod: {get_message(scheduled)}",
            _describe_copy(facts),
            str(scheduled.get("lastTransitionTime") or ""),
        )
    if event is not None:
        return LayerFinding(
            f"No node is free or suitable for the pod: {get_message(event)}",
            _describe_copy(facts),
            get_event_time(event),
        )
    is_old = facts.get_age_seconds(facts.wanted_since) >= SETTLING_SECONDS
    if is_old and get_status(pod).get("phase") in (None, "", "Pending"):
        said = (
            "Contact your platform administrator if this lasts."
            if facts.is_tenant_view
            else "Check that kube-scheduler of the super cluster runs."
        )
        return LayerFinding(
            f"No scheduler has chosen a node for the pod. {said}",
            _describe_copy(facts),
            facts.wanted_since,
        )
    return None


def _find_node(facts: ObjectFacts, pod: Body) -> LayerFinding | None:
    name = get_spec(pod).get("nodeName")
    found = facts.super_facts
    if not name or get_status(pod).get("phase") in ("Succeeded", "Failed"):
        return None
    is_known = found.is_node_known if found is not None else facts.is_tenant_node_known
    if not is_known:
        return None
    command = f"kubectl describe node {name}"
    if facts.node is None:
        return LayerFinding(f"The node {name} of the pod does not exist any longer.", command)
    ready = conditions.find_condition(get_status(facts.node).get("conditions"), "Ready") or {}
    if ready.get("status") == "True":
        return None
    said = get_message(ready) or "its kubelet has not reported a state"
    return LayerFinding(
        f"The node {name} of the pod is not ready: {said}",
        command,
        str(ready.get("lastTransitionTime") or ""),
    )


def _find_terminating(facts: ObjectFacts, pod: Body) -> LayerFinding | None:
    since = str(get_metadata(pod).get("deletionTimestamp") or "")
    if not since:
        return None
    grace = float(get_metadata(pod).get("deletionGracePeriodSeconds") or 30)
    finalizers = ", ".join(map(str, get_metadata(pod).get("finalizers") or ()))
    if finalizers:
        said = f"Finalizers keep the deleted pod: {finalizers}."
    elif facts.get_age_seconds(since) < max(grace, SETTLING_SECONDS):
        said = "The pod is being deleted within its grace period."
    else:
        said = "The pod is deleted, and its kubelet has not reported its end."
    return LayerFinding(said, _describe_copy(facts), since)


def _find_mount(facts: ObjectFacts, pod: Body) -> LayerFinding | None:
    event = find_event(facts.events, *_MOUNT_REASONS)
    if event is None or not _is_creating(pod):
        return None
    return LayerFinding(
        f"A volume cannot be mounted: {get_message(event)}",
        _describe_copy(facts),
        str(event.get("firstTimestamp") or get_event_time(event)),
    )


def _find_sandbox(facts: ObjectFacts, pod: Body) -> LayerFinding | None:
    event = find_event(facts.events, "FailedCreatePodSandBox", "NetworkNotReady")
    if event is None or not _is_creating(pod):
        return None
    return LayerFinding(
        f"The node cannot create the network of the pod: {get_message(event)}",
        _describe_copy(facts),
        str(event.get("firstTimestamp") or get_event_time(event)),
    )


def _is_creating(pod: Body) -> bool:
    waiting = find_waiting(pod, ("ContainerCreating", "PodInitializing"))
    has_states = any(True for _ in iterate_container_states(pod))
    return waiting is not None or (get_status(pod).get("phase") == "Pending" and not has_states)


def _find_image(facts: ObjectFacts, pod: Body) -> LayerFinding | None:
    found = find_waiting(pod, IMAGE_REASONS)
    if found is None:
        return None
    name, reason, said = found
    image = _get_image(pod, name)
    return LayerFinding(
        f"The image {image} of the container {name} cannot be pulled: {reason}: {said}".rstrip(
            ": "
        ),
        sync_layers.build_object_command(facts),
    )


def _get_image(pod: Body, name: str) -> str:
    spec = get_spec(pod)
    for field in ("initContainers", "containers"):
        for each in spec.get(field) or ():
            if each.get("name") == name:
                return str(each.get("image") or "")
    return ""


def _find_configuration(facts: ObjectFacts, pod: Body) -> LayerFinding | None:
    found = find_waiting(pod, _CONFIGURATION_REASONS)
    if found is None:
        return None
    name, reason, said = found
    return LayerFinding(
        f"The container {name} cannot be created: {reason}: {said}",
        sync_layers.build_object_command(facts),
    )


def _find_memory(facts: ObjectFacts, pod: Body) -> LayerFinding | None:
    for name, each in iterate_container_states(pod):
        ended = _get_failure(each)
        if ended.get("reason") == "OOMKilled":
            return LayerFinding(
                f"The container {name} used more memory than its limit and was stopped"
                " (OOMKilled).",
                sync_layers.build_object_command(facts),
                str(ended.get("finishedAt") or ""),
            )
    return None


def _find_init(facts: ObjectFacts, pod: Body) -> LayerFinding | None:
    return _find_crash(facts, pod, init=True)


def _find_container(facts: ObjectFacts, pod: Body) -> LayerFinding | None:
    return _find_crash(facts, pod, init=False)


def _find_crash(facts: ObjectFacts, pod: Body, *, init: bool) -> LayerFinding | None:
    for name, each in iterate_container_states(pod, init=init):
        if each.get("ready"):
            continue
        ended = _get_failure(each)
        waiting = (each.get("state") or {}).get("waiting") or {}
        if not ended and waiting.get("reason") != "CrashLoopBackOff":
            continue
        shown = "init container" if init else "container"
        code = ended.get("exitCode")
        said = f" with exit code {code}" if code is not None else ""
        is_over = get_status(pod).get("phase") == "Failed"
        after = "is not restarted" if is_over else "is restarted with growing delays"
        return LayerFinding(
            f"The {shown} {name} ended{said} and {after}.",
            _build_log_command(facts, name, previous=bool(waiting)),
            str(ended.get("finishedAt") or ""),
        )
    return None


def _get_failure(status: Body) -> dict[str, Any]:
    """Return the failed end of a container that does not run well, or an empty mapping."""
    state, last = status.get("state") or {}, status.get("lastState") or {}
    if "running" in state and status.get("ready"):
        return {}
    for ended in (state.get("terminated"), last.get("terminated")):
        if ended and ended.get("exitCode") not in (0, None):
            return dict(ended)
    return {}


def _has_failed_container(pod: Body) -> bool:
    return any(_get_failure(each) for _, each in iterate_container_states(pod))


def _find_eviction(facts: ObjectFacts, pod: Body) -> LayerFinding | None:
    status = get_status(pod)
    if status.get("phase") != "Failed":
        return None
    if not status.get("reason") and _has_failed_container(pod):
        return None  # the container's own end is nearer to the cause
    reason = str(status.get("reason") or "Failed")
    if reason == "SuperPodLost":
        said = "The copy of the pod was deleted in the super cluster, not by its tenant"
    elif reason in _EVICTION_REASONS:
        said = f"The node stopped the pod ({reason})"
    else:
        said = f"The pod failed ({reason})"
    return LayerFinding(
        f"{said}: {get_message(status)}" if status.get("message") else f"{said}.",
        sync_layers.build_object_command(facts),
    )


def _iterate_ended(pod: Body) -> Iterator[tuple[str, Body]]:
    """Yield the containers that failed, with the time of their end."""
    for name, each in iterate_container_states(pod):
        if _get_failure(each).get("finishedAt"):
            yield name, each


def _find_failed_liveness(facts: ObjectFacts, pod: Body) -> LayerFinding | None:
    """Match a container that its kubelet restarts because of a probe."""
    event = find_event(facts.events, "Killing")
    is_ready = find_pod_condition(pod, "Ready").get("status") == "True"
    said = get_message(event) if event is not None else ""
    if event is None or is_ready or not any(word in said for word in _KILLING_PROBES):
        return None
    ends = [str(_get_failure(each).get("finishedAt") or "") for _, each in _iterate_ended(pod)]
    age = facts.get_age_seconds(get_event_time(event))
    if ends and all(age - facts.get_age_seconds(end) > SETTLING_SECONDS for end in ends):
        return None  # the container ended again since, for another reason
    probe = find_event(facts.events, "Unhealthy")
    cause = get_message(probe) if probe is not None else said
    return LayerFinding(
        f"A probe of the pod fails, so its kubelet restarts the container: {cause}",
        sync_layers.build_object_command(facts),
        get_event_time(event),
    )


def _find_probe(facts: ObjectFacts, pod: Body) -> LayerFinding | None:
    ready = find_pod_condition(pod, "Ready")
    event = find_event(facts.events, "Unhealthy", "ProbeWarning")
    is_running = get_status(pod).get("phase") == "Running"
    if not is_running or ready.get("status") == "True" or event is None:
        return None
    return LayerFinding(
        f"A probe of the pod fails: {get_message(event)}",
        sync_layers.build_object_command(facts),
        str(ready.get("lastTransitionTime") or ""),
    )


def _find_readiness_gate(facts: ObjectFacts, pod: Body) -> LayerFinding | None:
    ready = find_pod_condition(pod, "Ready")
    is_started = find_pod_condition(pod, "ContainersReady").get("status") == "True"
    if not is_started or ready.get("status") == "True" or get_status(pod).get("phase") != "Running":
        return None
    return LayerFinding(
        f"The containers run, and a readiness gate is not true: {get_message(ready)}",
        sync_layers.build_object_command(facts),
        str(ready.get("lastTransitionTime") or ""),
    )


def _find_starting(facts: ObjectFacts, pod: Body) -> LayerFinding | None:
    status = get_status(pod)
    if status.get("phase") in ("Succeeded", "Failed"):
        return None
    if find_pod_condition(pod, "Ready").get("status") == "True":
        return None
    return LayerFinding(
        "The pod is on its node and starts. Its kubelet reports no fault.",
        _describe_copy(facts),
        facts.wanted_since,
    )


def _find_status_behind(facts: ObjectFacts, pod: Body) -> LayerFinding | None:
    """Match a copy that runs, while the tenant's pod does not show it."""
    if facts.copy is None or facts.tenant_object is None:
        return None
    shown = find_pod_condition(facts.tenant_object, "Ready").get("status")
    real = find_pod_condition(pod, "Ready")
    since = str(real.get("lastTransitionTime") or "")
    if real.get("status") != "True" or shown == "True":
        return None
    if facts.get_age_seconds(since) < SETTLING_SECONDS:
        return None
    return LayerFinding(
        "The copy runs, and its status is not synced back to the tenant.",
        "kubectl -n vc-manager logs deployment/vc-syncer",
        since,
    )


def _find_agent(facts: ObjectFacts, pod: Body) -> LayerFinding | None:
    """Match a pod that runs on a node without a working agent."""
    found = facts.super_facts
    name = get_spec(pod).get("nodeName")
    if found is None or not found.is_agent_known or not name or facts.node is None:
        return None
    status = get_status(found.agent_pod)
    if conditions.is_true(status.get("conditions"), "Ready"):
        return None
    said = "is not ready" if found.agent_pod is not None else "does not exist"
    return LayerFinding(
        f"The pod runs. The node agent on {name} {said}, so logs, exec and port-forward fail.",
        "kubectl vc doctor",
    )


POD_LAYERS: tuple[Layer, ...] = (
    Layer("scheduling-gate", _for_pod(_find_gate)),
    Layer("volume-claim", _for_pod(_find_claim)),
    Layer("no-node", _for_pod(_find_unschedulable)),
    Layer("eviction", _for_pod(_find_eviction)),
    Layer("node", _for_pod(_find_node)),
    Layer("terminating", _for_pod(_find_terminating)),
    Layer("volume-mount", _for_pod(_find_mount)),
    Layer("pod-network", _for_pod(_find_sandbox)),
    Layer("image", _for_pod(_find_image)),
    Layer("container-configuration", _for_pod(_find_configuration)),
    Layer("memory", _for_pod(_find_memory)),
    Layer("init-container", _for_pod(_find_init)),
    Layer("probe", _for_pod(_find_failed_liveness)),
    Layer("container", _for_pod(_find_container)),
    Layer("probe", _for_pod(_find_probe)),
    Layer("readiness-gate", _for_pod(_find_readiness_gate)),
    Layer("status", _for_pod(_find_status_behind)),
    Layer("starting", _for_pod(_find_starting), is_fault=False),
    Layer("node-agent", _for_pod(_find_agent)),
)
"""In the order in which a pod passes them."""
