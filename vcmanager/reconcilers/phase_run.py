"""One run of the phases of a VirtualCluster: its state, the results, and the loop.

Owns what a phase passes to later phases. Must not know which phases exist.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import wellknown
from tenancy.specs import VirtualCluster
from vcmanager.phases import component_conditions
from vcmanager.phases.access.api_hostname import HostDecision
from vcmanager.phases.certificates import IssuedCertificates
from vcmanager.phases.owned_objects import OwnedObjects
from vcmanager.phases.rotations.authority_rotation import Rotations
from vcmanager.phases.waves.control_plane_change import ControlPlaneChange
from vcmanager.plan import certificate_table, permanent_failures
from vcmanager.plan.control_plane import ControlPlane, PlanInput
from vcmanager.plan.pki_secrets import ApiAddress, DesiredSecrets
from vcmanager.plan.service_cidrs import ServiceNetwork, ServiceRange
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import RESYNC_SECONDS, ReconcileContext
from vcmanager.runtime.observed import ObservedObjects
from vcmanager.runtime.status import ReconcileStatus

UNREADY_RETRY_SECONDS = 10.0
"""Retry interval in seconds of a tenant that is not ready.

Events with the cause of a failed pod start queue no key.
"""
_FORBIDDEN_RETRY_SECONDS = 30.0
_FIRST_USE_RETRY_SECONDS = 1.0
"""Delay in seconds until settings for the time before a tenant's first use are reverted."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PhaseDone:
    """The phase is complete, so the next phase may run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseWaiting:
    """The phase waits for a change that needs no administrator. No later phase may run."""

    condition: str
    """Type of the condition that is False meanwhile."""
    reason: str
    message: str
    retry_after: float
    """Seconds until the next attempt, if no watch event queues the key earlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseStalled:
    """The phase waits for a change by an administrator. No later phase may run."""

    condition: str
    """Type of the condition that is False meanwhile."""
    reason: str
    message: str
    retry_after: float
    """Seconds until the next attempt, if no watch event queues the key earlier."""


PhaseResult = PhaseDone | PhaseWaiting | PhaseStalled
PhaseFunction = Callable[["PhaseRun"], Awaitable[PhaseResult]]
"""A phase: it observes, decides and acts, and can be repeated.

A helper of a phase raises PhaseBlocked instead of returning a result.
"""

DONE = PhaseDone()


@dataclass(slots=True)
class PhaseRun:
    """One run of the phases for one VirtualCluster. A phase may read what earlier phases set."""

    context: ReconcileContext
    body: Object
    """The VirtualCluster."""
    status: ReconcileStatus
    observed: ObservedObjects = field(default_factory=lambda: ObservedObjects(namespace=None))
    """Objects of the root namespace when the run began."""
    is_planned: bool = False
    """Whether `plan` is set."""
    external: ApiAddress | None = None
    """Address of the API for clients outside, None while there is none."""
    host: HostDecision = field(default_factory=HostDecision)
    """Host name at the API proxy."""
    rotations: Rotations = field(default_factory=Rotations)
    tenant_client: Client | None = None
    """None until the tenant's API server is ready."""
    cluster: VirtualCluster = field(init=False)
    plan_input: PlanInput = field(init=False)
    super_range: ServiceNetwork = field(init=False)
    namespace: Object = field(init=False)
    """The root namespace."""
    service_range: ServiceRange = field(init=False)
    plan: ControlPlane = field(init=False)
    nodes: list[Object] | None = field(init=False, default=None)
    """Nodes of the super cluster, once a phase has listed them."""
    objects: OwnedObjects = field(init=False)
    certificates: IssuedCertificates = field(init=False)
    secrets: DesiredSecrets = field(init=False)
    mounted_secrets: list[Object] = field(init=False)
    """Secrets that pods mount, beside those with certificates."""
    change: ControlPlaneChange = ControlPlaneChange.NONE
    """State of the control plane's change."""

    def get_requeue_delay(self) -> float:
        """Return the seconds until the next reconcile. Valid after every phase is done."""
        if self.plan_input.is_new:
            return _FIRST_USE_RETRY_SECONDS
        now = self.context.now()
        due = self.rotations.compute_next(self.secrets.next_renewal, now)
        announced = certificate_table.compute_next_event(
            self.secrets.replaced_ends,
            lifetime=timedelta(days=self.plan_input.spec.pki_expire_days),
            now=now,
        )
        left = (min(due, announced or due) - now).total_seconds()
        return min(RESYNC_SECONDS, max(1.0, left))

    async def set_component_conditions(self) -> None:
        """Add the condition of each component, if the root namespace or a plan exists."""
        if self.is_planned or self.observed.namespace:
            await component_conditions.set_component_conditions(
                self.context, self.status, self.observed, self.plan if self.is_planned else None
            )


@dataclass(frozen=True, slots=True)
class Phase:
    """One row of the table of phases."""

    name: str
    condition: str
    """Type of the condition that is False while the phase cannot continue.

    The result of a phase may name another one.
    """
    run: PhaseFunction


async def run_phases(run: PhaseRun, phases: Iterable[Phase]) -> PhaseResult:
    """Run phases in order, until one cannot continue. Return the result of the last that ran."""
    for phase in phases:
        result = await _run_phase(phase, run)
        if not isinstance(result, PhaseDone):
            _log.debug("tenant.phase_not_done", phase=phase.name, reason=result.reason)
            return result
    return DONE


async def _run_phase(phase: Phase, run: PhaseRun) -> PhaseResult:
    try:
        return await phase.run(run)
    except PhaseBlocked as problem:
        result = PhaseStalled if problem.needs_admin else PhaseWaiting
        return result(
            condition=problem.condition or phase.condition,
            reason=problem.reason,
            message=problem.message,
            retry_after=problem.retry_after or UNREADY_RETRY_SECONDS,
        )
    except errors.Forbidden as problem:
        # A quota or a policy of the super cluster. Its message helps, and it may end at any time.
        run.status.failing_conditions.add(wellknown.READY)
        failure = permanent_failures.find_failure("Forbidden", problem.server_message)
        return PhaseWaiting(
            condition=wellknown.READY,
            reason=failure.reason if failure is not None else "Forbidden",
            message=f"{problem}; {failure.remedy}" if failure is not None else str(problem),
            retry_after=_FORBIDDEN_RETRY_SECONDS,
        )
