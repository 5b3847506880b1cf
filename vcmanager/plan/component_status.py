"""Readiness of each component, with the cause from its failing pod.

Pure. Must not know how components are made. Hazard: a user waiting for a tenant may be unable
to read its root namespace. A cause that is not reported here stays unknown to them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tenancy import wellknown
from vcmanager.plan import control_plane, permanent_failures

ComponentObject = Mapping[str, Any]

COMPONENT_CONDITIONS: Mapping[str, str] = {
    control_plane.ETCD: wellknown.ETCD_READY,
    control_plane.API_SERVER: wellknown.API_SERVER_READY,
    control_plane.CONTROLLER_MANAGER: wellknown.CONTROLLER_MANAGER_READY,
    control_plane.DNS: wellknown.DNS_READY,
    control_plane.METRICS: wellknown.METRICS_READY,
}
"""The condition of each component."""

STARTING_REASONS = frozenset({"ContainerCreating", "PodInitializing"})
"""Waiting reasons of a starting container, which are no failures by themselves."""


_CLAIM = "PersistentVolumeClaim"
IMAGE_PULL = "ImagePullBackOff"
_PULL_REASONS = frozenset(
    {"ErrImagePull", IMAGE_PULL, "RegistryUnavailable", "SignatureValidationFailed"}
)
"""Reasons of a container whose image cannot be pulled. A kubelet alternates between them, so they
are reported as IMAGE_PULL."""
_BACK_OFF = re.compile(r'Back-off pulling image "[^"]*": (?:\w+: )?(?=.)', re.DOTALL)
"""Words that a kubelet puts before the cause between two attempts."""


_COMPLAINT = re.compile(r'^Error: .*|"command failed" err=.*')
_MAX_COMPLAINT = 300
"""Length of a program's error in a condition, in characters."""


@dataclass(frozen=True, slots=True)
class ComponentCondition:
    """Content of a component's condition."""

    is_ready: bool
    reason: str
    message: str
    is_failure: bool = False
    """Whether something is wrong, as opposed to not yet done."""

    @property
    def needs_volume(self) -> bool:
        """Return whether a pod waits for its claims. Only their Events report the cause."""
        return self.reason == "FailedScheduling" and _CLAIM in self.message


def evaluate_component(
    name: str,
    workload: ComponentObject | None,
    pods: Sequence[ComponentObject],
    warnings: Iterable[ComponentObject] = (),
) -> ComponentCondition:
    """Judge one component. A failure that only a person can end has its own reason and remedy.

    `warnings` are Events of the root namespace. They matter only when the pods report no failure,
    or wait for their claims.
    """
    verdict = _evaluate_workload(name, workload, pods, warnings)
    failure = permanent_failures.find_failure(verdict.reason, verdict.message)
    if not verdict.is_failure or failure is None:
        return verdict
    text = f"{verdict.message}; {failure.remedy}"
    return replace(verdict, reason=failure.reason, message=text)


def _evaluate_workload(
    name: str,
    workload: ComponentObject | None,
    pods: Sequence[ComponentObject],
    warnings: Iterable[ComponentObject],
) -> ComponentCondition:
    if workload is None or workload["spec"].get("replicas") == 0:
        return _build_absent(name, workload)
    status, spec = workload.get("status") or {}, workload["spec"]
    wanted = spec.get("replicas", 1)
    observed = status.get("observedGeneration", 0) >= workload["metadata"].get("generation", 0)
    ready = status.get("readyReplicas", 0)
    updated = status.get("updatedReplicas", 0)
    if observed and ready >= wanted and (updated >= wanted or _is_rolling_out_slowly(workload)):
        return ComponentCondition(True, "Ready", f"{name} is ready, {ready} of {wanted}")
    for pod in sorted(pods, key=lambda each: str(each["metadata"]["name"])):
        trouble = _find_pod_problem(pod)
        if trouble is not None:
            claims = _list_claim_events(name, warnings) if trouble.needs_volume else []
            return _build_from_newest_event(claims) or trouble
    told = _find_event_problem(name, warnings)
    if told is not None:
        return told
    if observed and ready >= wanted:
        return ComponentCondition(
            False, "RollingOut", f"{name} is rolling out, {updated} of {wanted} done"
        )
    return ComponentCondition(False, "Starting", f"{name} is starting, {ready} of {wanted} ready")


def _build_absent(name: str, workload: ComponentObject | None) -> ComponentCondition:
    """Return the condition of a component without pods: not created, or scaled to zero."""
    if workload is None:
        return ComponentCondition(False, "NotCreated", f"{name} has not been created yet")
    return ComponentCondition(False, "Stopped", f"{name} is stopped, it has no replicas")


def _is_rolling_out_slowly(workload: ComponentObject) -> bool:
    strategy = workload["spec"].get("updateStrategy") or {}
    return strategy.get("type") == "OnDelete"


def _find_pod_problem(pod: ComponentObject) -> ComponentCondition | None:
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    for condition in status.get("conditions") or ():
        # Any other reason than Unschedulable is the scheduler's own failure, which it retries.
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
            text = f"pod {name} cannot be scheduled: {condition.get('message', '')}"
            return ComponentCondition(False, "FailedScheduling", text, is_failure=True)
    if status.get("phase") == "Failed":
        text = f"pod {name} failed: {status.get('message') or status.get('reason') or 'no reason'}"
        return ComponentCondition(False, status.get("reason") or "PodFailed", text, is_failure=True)
    for container in (
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ):
        trouble = _find_container_problem(name, container)
        if trouble is not None:
            return trouble
    return None


def _find_container_problem(pod: str, container: ComponentObject) -> ComponentCondition | None:
    where = f"container {container.get('name')} of pod {pod}"
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason, cause = waiting.get("reason") or "", waiting.get("message") or ""
    if reason in _PULL_REASONS:
        reason, cause = IMAGE_PULL, _BACK_OFF.sub("", cause, count=1)
    if reason and reason not in STARTING_REASONS:
        text = f"{where} waits: {cause or reason}{_describe_last_end(container)}"
        return ComponentCondition(False, reason, text, is_failure=True)
    ended = (container.get("state") or {}).get("terminated") or {}
    if ended and ended.get("exitCode"):
        text = f"{where} ended with exit code {ended['exitCode']} ({ended.get('reason', '')})"
        return ComponentCondition(False, ended.get("reason") or "Error", text, is_failure=True)
    return None


def _describe_last_end(container: ComponentObject) -> str:
    last = (container.get("lastState") or {}).get("terminated") or {}
    if not last:
        return ""
    count = container.get("restartCount", 0)
    return (
        f". It last ended with exit code {last.get('exitCode')} ({last.get('reason', '')}) after"
        f" {count} restarts{_describe_complaint(str(last.get('message') or ''))}"
    )


def _describe_complaint(text: str) -> str:
    """Return the error with which a program ended, from its last lines. Other lines are left out.

    A program of Kubernetes ends with one of two forms: a line of its flags, or a log line.
    """
    for line in reversed(text.splitlines()):
        found = _COMPLAINT.search(line)
        if found is not None:
            return f": {found[0][:_MAX_COMPLAINT]}"
    return ""


def _find_event_problem(
    name: str, warnings: Iterable[ComponentObject]
) -> ComponentCondition | None:
    mine = [
        event
        for event in warnings
        if str(event.get("involvedObject", {}).get("name", "")).startswith(
            (f"{name}-", f"data-{name}-")
        )
        or event.get("involvedObject", {}).get("name") == name
    ]
    return _build_from_newest_event(mine)


def _list_claim_events(name: str, warnings: Iterable[ComponentObject]) -> list[ComponentObject]:
    """Return the Events about the claims of a component."""
    about = ((event, event.get("involvedObject") or {}) for event in warnings)
    return [
        event
        for event, subject in about
        if subject.get("kind") == _CLAIM and f"-{name}-" in str(subject.get("name"))
    ]


def _build_from_newest_event(mine: Sequence[ComponentObject]) -> ComponentCondition | None:
    """Return the failure that the newest Event reports. None without any."""
    if not mine:
        return None
    newest = max(mine, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime")))
    reason = newest.get("reason") or "Warning"
    about = newest["involvedObject"]
    text = f"{about.get('kind', '')} {about.get('name')}: {newest.get('message', '')}"
    return ComponentCondition(False, reason, text, is_failure=True)
