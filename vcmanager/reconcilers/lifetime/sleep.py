"""Sleep of a tenant: the control plane is stopped, and everything else is kept (docs/adr/0038).

Hazard: the control plane stops only after the syncer has disconnected. Otherwise the syncer would
report a tenant that does not answer, and a write that it had begun would fail.
"""

import contextlib
from collections.abc import Mapping
from enum import Enum, auto

from kubeio import Object, errors
from tenancy import conditions, wellknown
from tenancy.specs import VirtualCluster
from vcmanager.phases.waves import slots
from vcmanager.reconcilers.lifetime.control_plane_stop import (
    has_running_component,
    is_syncer_running,
    stop_in_order,
)
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import RESYNC_SECONDS, ReconcileContext
from vcmanager.runtime.observed import ObservedObjects

FALLING_ASLEEP = "FallingAsleep"
"""Reason of the condition Ready until no pod of the control plane exists."""
_RETRY_SECONDS = 2.0


class SleepStep(Enum):
    """Next step of a tenant's sleep."""

    AWAKE = auto()
    DISCONNECT = auto()
    """The syncer may still be connected."""
    STOP = auto()
    """The components stop one after the other."""
    ASLEEP = auto()
    """The control plane has no pod."""


def decide_step(*, wanted: bool, connected: bool, running: bool) -> SleepStep:
    """Return the next step. `running`: a component has replicas or pods."""
    if not wanted:
        return SleepStep.AWAKE
    if not running:
        return SleepStep.ASLEEP
    return SleepStep.DISCONNECT if connected else SleepStep.STOP


async def hold_sleep(
    means: ReconcileContext, cluster: VirtualCluster, body: Object, observed: ObservedObjects
) -> None:
    """Return if the tenant is awake. Raises PhaseBlocked while it falls asleep and is asleep."""
    is_wanted = cluster.spec.sleep is not None
    is_running = is_wanted and has_running_component(observed)
    step = decide_step(
        wanted=is_wanted,
        connected=is_running and not is_disconnected(body) and await is_syncer_running(means),
        running=is_running,
    )
    if step is SleepStep.AWAKE:
        return
    uid = cluster.tenant.uid
    # A stopped control plane must raise no alert. Its etcd does not answer, and certificates are
    # renewed when the tenant wakes.
    means.stores.remove(uid)
    means.expiries.remove_owner(uid)
    # The client of a stopped API server would retry its watch for as long as the tenant sleeps.
    await means.tenant_clients.drop(uid)
    if step is SleepStep.STOP:
        # A tenant that sleeps in the middle of its change must not hold up the other tenants.
        with contextlib.suppress(errors.NotFound):
            await slots.release_slot(means, cluster.spec.cluster_version_name, uid)
        await stop_in_order(means, observed)
    reason, message, retry = _DESCRIPTIONS[step]
    raise PhaseBlocked(reason, message, retry_after=retry)


_DESCRIPTIONS: Mapping[SleepStep, tuple[str, str, float]] = {
    SleepStep.DISCONNECT: (
        FALLING_ASLEEP,
        "The tenant falls asleep. Waiting for the syncer to disconnect from it.",
        _RETRY_SECONDS,
    ),
    SleepStep.STOP: (
        FALLING_ASLEEP,
        "The tenant falls asleep. Waiting for the pods of its control plane to end.",
        _RETRY_SECONDS,
    ),
    SleepStep.ASLEEP: (
        wellknown.ASLEEP,
        "The tenant is asleep. Its control plane has no pod. `kubectl vc wake` starts it again.",
        RESYNC_SECONDS,
    ),
}
"""Reason and message of the condition Ready, and retry interval in seconds, by step."""


def is_disconnected(body: Object) -> bool:
    """Return whether the syncer reports that it does not sync the tenant of this generation.

    A report about an older spec does not count. The tenant may have been awake in the meantime.
    """
    listed = (body.get("status") or {}).get("conditions")
    synced = conditions.find_condition(listed, wellknown.SYNCED) or {}
    return (
        synced.get("status") == "False"
        and synced.get("reason") in _DISCONNECTED_REASONS
        and synced.get("observedGeneration", 0) >= body["metadata"].get("generation", 0)
    )


_DISCONNECTED_REASONS = frozenset({wellknown.ASLEEP, "Suspended"})
