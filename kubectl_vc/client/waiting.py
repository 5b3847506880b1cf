"""Wait for a VirtualCluster to become ready or to be deleted, with a display of its progress.

Owns the progress reports and the time limit. Must not know how the object was created. Hazard: the
UID must be compared with the one at the start. Otherwise a new object with the same name would pass
for the old one.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from kubectl_vc.client import readiness, watch
from kubectl_vc.output import cli_errors, durations
from kubectl_vc.output.cli_errors import CliError, WaitTimeoutError
from kubectl_vc.output.terminal import Progress
from kubeio import Object
from kubeio.api.client import Client
from tenancy import conditions, wellknown
from tenancy.resources import VIRTUAL_CLUSTERS

_TICK_SECONDS = 1.0  # seconds
GRACE_SECONDS = 60.0
"""Time in seconds for which a permanent failure must last before the wait ends. A person may just
be pushing the image or creating the StorageClass."""


async def wait_ready(
    super_client: Client, body: Mapping[str, Any], *, seconds: float, progress: Progress
) -> Object:
    """Return the VirtualCluster once it is ready, and report each component that becomes ready.

    Raises CliProblem with the reason of the blocking component if the VirtualCluster stalls, has a
    permanent failure for GRACE_SECONDS, or is deleted, or after `seconds` (0: no limit).
    """
    metadata = body["metadata"]
    namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
    shown = cli_errors.describe_object(VIRTUAL_CLUSTERS, name, namespace)
    told: set[str] = set()
    state = readiness.assess_readiness(body)
    failure: readiness.BlockingCondition | None = None
    grace = asyncio.timeout(None)
    try:
        async with _watch_until(super_client, body, progress, seconds, grace) as states:
            async for current in states:
                if current is None or current["metadata"]["uid"] != uid:
                    raise CliError(f"{shown} was deleted before it was ready. Create it again.")
                state = readiness.assess_readiness(current)
                failure = _update_grace(failure, state, grace)
                progress.set_waiting(
                    _describe_reason(state), reason=state.blocker.key if state.blocker else ""
                )
                for component in state.ready_components:
                    if component not in told:
                        told.add(component)
                        progress.finish_step(f"{component} is ready")
                if state.is_ready:
                    return current
                if state.is_stalled:
                    raise CliError(
                        f"{shown} cannot be set up: {_describe_reason(state).removesuffix('.')}."
                        f" {_build_advice(metadata)}"
                    )
    except TimeoutError as problem:
        if grace.expired():
            raise CliError(
                f"{shown} cannot be set up: {failure}. Waiting longer does not help."
                f" {_build_advice(metadata)}"
            ) from problem
        raise WaitTimeoutError(
            f"{shown} is not ready after {durations.format_elapsed(seconds)}:"
            f" {_describe_reason(state).removesuffix('.')}. {_build_advice(metadata)}"
        ) from problem
    raise AssertionError("the states of an object end with its deletion")


class UpdateUnfinishedError(CliError):
    """The change of a control plane was written and is not finished. The exit code is 5."""

    exit_code = 5


async def wait_up_to_date(
    super_client: Client, body: Mapping[str, Any], *, seconds: float, progress: Progress
) -> Object:
    """Return the VirtualCluster once its control plane is up to date and ready.

    Reports each step. Raises UpdateUnfinishedError if the VirtualCluster stalls, has a
    permanent failure for GRACE_SECONDS, or is deleted, or after `seconds` (0: no limit).
    """
    metadata = body["metadata"]
    namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
    shown = cli_errors.describe_object(VIRTUAL_CLUSTERS, name, namespace)
    advice = f"Watch it with `kubectl vc get {name} -n {namespace}`."
    text, failure = "", None
    grace = asyncio.timeout(None)
    try:
        async with _watch_until(super_client, body, progress, seconds, grace) as states:
            async for current in states:
                if current is None or current["metadata"]["uid"] != uid:
                    raise UpdateUnfinishedError(f"{shown} was deleted during the change.")
                state = readiness.assess_readiness(current)
                if state.is_stalled:
                    raise UpdateUnfinishedError(
                        f"{shown} cannot be changed: {_describe_reason(state).removesuffix('.')}."
                        f" {advice}"
                    )
                change = readiness.assess_change(current)
                if change.is_done and state.is_ready:
                    return current
                failure = _update_grace(failure, state, grace)
                told = change.message or str(state.blocker or "")
                told = told or "vc-manager has not processed the change yet"
                if told != text:
                    text = told
                    progress.finish_step(text)
                blocker = f" {state.blocker}" if state.blocker and not state.is_ready else ""
                progress.set_waiting(f"{text}{blocker}", reason=text)
    except TimeoutError as problem:
        if grace.expired():
            raise UpdateUnfinishedError(
                f"{shown} cannot be changed: {failure}. Waiting longer does not help. {advice}"
            ) from problem
        raise UpdateUnfinishedError(
            f"{shown} is not changed after {durations.format_elapsed(seconds)}:"
            f" {text.removesuffix('.')}. The change goes on. {advice}"
        ) from problem
    raise AssertionError("the states of an object end with its deletion")


async def wait_asleep(
    super_client: Client, body: Mapping[str, Any], *, seconds: float, progress: Progress
) -> None:
    """Return once the control plane of a VirtualCluster has no pod.

    Raises CliError if the VirtualCluster is deleted or woken, or after `seconds` (0: no limit).
    """
    metadata = body["metadata"]
    namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
    shown = cli_errors.describe_object(VIRTUAL_CLUSTERS, name, namespace)
    text = "vc-manager has not processed the change yet"
    try:
        async with (
            asyncio.timeout(seconds or None),
            _tick_while_waiting(progress),
            watch.watch_states(super_client, namespace, name) as states,
        ):
            async for current in states:
                if current is None or current["metadata"]["uid"] != uid:
                    raise CliError(f"{shown} was deleted before it was asleep.")
                if (current.get("spec") or {}).get("sleep") is None:
                    raise CliError(f"{shown} was woken before it was asleep.")
                ready = readiness.find_current_ready(current)
                if ready.get("reason") == wellknown.ASLEEP:
                    return
                text = str(ready.get("message") or "") or text
                progress.set_waiting(text, reason=str(ready.get("reason") or ""))
    except TimeoutError as problem:
        raise CliError(
            f"{shown} is not asleep after {durations.format_elapsed(seconds)}:"
            f" {text.removesuffix('.')}. It goes on falling asleep. Watch it with `kubectl vc get"
            f" {name} -n {namespace}`."
        ) from problem


async def wait_deleted(
    super_client: Client, body: Mapping[str, Any], *, seconds: float, progress: Progress
) -> None:
    """Return once this VirtualCluster is deleted.

    Raises CliProblem after `seconds` (0: no limit).
    """
    metadata = body["metadata"]
    namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
    left = "its objects in the super cluster are being deleted"
    try:
        async with _watch_until(super_client, body, progress, seconds) as states:
            async for current in states:
                if current is None or current["metadata"]["uid"] != uid:
                    return
                left = _describe_remaining(current) or left
                progress.set_waiting(left)
    except TimeoutError as problem:
        raise WaitTimeoutError(
            f"{cli_errors.describe_object(VIRTUAL_CLUSTERS, name, namespace)} is not deleted after"
            f" {durations.format_elapsed(seconds)}: {left.removesuffix('.')}. Deletion continues."
            f" Check it with `kubectl vc get {name} -n {namespace}`."
        ) from problem


def _update_grace(
    before: readiness.BlockingCondition | None, state: readiness.Readiness, grace: asyncio.Timeout
) -> readiness.BlockingCondition | None:
    """Return the permanent failure, and start its grace if it is new. Without one, end the grace.

    The message of a failure may change with every attempt. Then it is the same failure.
    """
    now = state.failure
    if now is None:
        grace.reschedule(None)
    elif before is None or before.key != now.key:
        grace.reschedule(asyncio.get_running_loop().time() + GRACE_SECONDS)
    return now


def _describe_reason(state: readiness.Readiness) -> str:
    if state.blocker is not None:
        return str(state.blocker)
    if state.has_conditions:
        return "the remaining components"
    return "vc-manager, which has not processed it yet. Check that the pod of vc-manager is running"


def _build_advice(metadata: Mapping[str, Any]) -> str:
    flags = f"{metadata['name']} -n {metadata['namespace']}"
    return (
        f"The VirtualCluster was not removed. Watch it with `kubectl vc get {flags}`, or delete it"
        f" with `kubectl vc delete {flags}`."
    )


def _describe_remaining(body: Mapping[str, Any]) -> str:
    found = conditions.find_condition((body.get("status") or {}).get("conditions"), wellknown.READY)
    return str(found.get("message") or "") if found is not None else ""


@contextlib.asynccontextmanager
async def _watch_until(
    super_client: Client,
    body: Mapping[str, Any],
    progress: Progress,
    seconds: float,
    grace: asyncio.Timeout | None = None,
) -> AsyncIterator[AsyncIterator[Object | None]]:
    """Yield the states of a VirtualCluster, with a display that ticks.

    Raises TimeoutError after `seconds` (0: no limit), or when `grace` expires.
    """
    metadata = body["metadata"]
    async with (
        asyncio.timeout(seconds or None),
        grace or asyncio.timeout(None),
        _tick_while_waiting(progress),
        watch.watch_states(super_client, metadata["namespace"], metadata["name"]) as states,
    ):
        yield states


@contextlib.asynccontextmanager
async def _tick_while_waiting(progress: Progress) -> AsyncIterator[None]:
    async def tick() -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            progress.tick()

    task = asyncio.create_task(tick())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
