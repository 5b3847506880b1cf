"""Rotation of a tenant's authorities, one stage after the other.

Owns the reads and writes. `vcmanager.pki.rotation` decides. Hazard: a stage is settled only by a
reconcile that wrote nothing and saw every workload rolled out. Otherwise a crash after the write of
a stage would let the next stage begin before any program has the files of this one.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import wellknown
from tenancy.resources import SECRETS
from vcmanager.phases import startup_order
from vcmanager.phases.certificates import IssuedCertificates
from vcmanager.phases.owned_objects import OwnedObjects
from vcmanager.phases.rotations import legacy_tokens
from vcmanager.pki import authority, checks, inventory, rotated_secrets, rotation
from vcmanager.pki.authority import KeyPair
from vcmanager.pki.rotation import RotatedName, RotationRequest, RotationState
from vcmanager.plan import pki_secrets
from vcmanager.plan.certificate_table import RotationRow
from vcmanager.plan.control_plane import PlanInput
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.observed import ObservedObjects

_UNSETTLED_RETRY = timedelta(seconds=10)
"""Retry interval while a stage is not settled, for rollouts that no watch event ends."""
_CENSUS_RETRY = timedelta(minutes=10)
"""Retry interval while the old authority is held by the census. vc-manager does not watch its
clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotations:
    """Stage of each authority of a tenant after this reconcile."""

    states: Mapping[RotatedName, RotationState] = field(default_factory=dict)
    requests: Mapping[RotatedName, RotationRequest] = field(default_factory=dict)
    lifetime: timedelta = timedelta(0)
    """Life of the certificates that vc-manager signs for this tenant."""

    def list_rows(self) -> list[RotationRow]:
        """Return the rotations that are not complete."""
        return [
            RotationRow(
                authority=name,
                stage=state.stage,
                until=self._compute_due(name),
                held=state.held,
            )
            for name, state in self.states.items()
            if state.stage != rotation.STABLE
        ]

    def compute_next(self, renewal: datetime, now: datetime) -> datetime:
        """Return when the next move is due, or `renewal` if that is earlier."""
        due = (
            now + _CENSUS_RETRY if row.held else row.until or now + _UNSETTLED_RETRY
            for row in self.list_rows()
        )
        return min([renewal, *due])

    def describe(self) -> str:
        """Return a sentence for each rotation that is not complete, each after a space."""
        return "".join(
            f" The authority {row.authority} is in the stage {row.stage} of its rotation"
            + (f", and is not dropped: {row.held}." if row.held else ".")
            for row in self.list_rows()
        )

    def _compute_due(self, name: RotatedName) -> datetime | None:
        return rotation.compute_due(
            self.states[name], self.requests[name], rotation.WAITS[name], lifetime=self.lifetime
        )


async def advance_rotations(
    context: ReconcileContext,
    wish: PlanInput,
    issued: IssuedCertificates,
    body: Object,
    *,
    signed_lifetime: timedelta = timedelta(0),
) -> tuple[IssuedCertificates, Rotations]:
    """Make the moves that are due. Raises PhaseBlocked.

    `signed_lifetime` is the life of a certificate that the tenant's controller manager signs.
    """
    secrets, now = dict(issued.secrets), context.now()
    lifetime = timedelta(days=wish.spec.pki_expire_days)
    states: dict[RotatedName, RotationState] = {}
    requests: dict[RotatedName, RotationRequest] = {}
    for name, secret_name in rotated_secrets.ROTATED_SECRETS.items():
        secret = secrets.get(secret_name)
        if secret is None:
            continue
        state, keys = _read(name, secret)
        request = rotated_secrets.parse_request(body, name, now)
        move = rotation.choose_move(
            state,
            request,
            rotation.WAITS[name],
            now=now,
            lifetime=lifetime,
            is_ended=checks.has_ended(keys.current.certificate, now),
        )
        if move is not None:
            makes = move in ("start", "replace")
            made = await _make(name, wish.tenant.uid, now) if makes else keys.current
            state, keys = rotation.apply_move(
                move,
                state,
                keys,
                made=made,
                start=request.start,
                signed_until=_find_signed_end(name, secrets, signed_lifetime, now),
            )
            patch = rotated_secrets.build_patch(name, secret, state, keys)
            secrets[secret_name] = await _patch(context, secret, patch)
            context.recorder.record(
                body,
                "AuthorityRotated",
                f"The authority {name} had ended. vc-manager replaced it in one step."
                if move == "replace"
                else f"The rotation of the authority {name} is in the stage {state.stage}.",
                kind="Normal",
            )
        states[name], requests[name] = state, request
    found = Rotations(states=states, requests=requests, lifetime=lifetime)
    return replace(issued, secrets=secrets), found


async def settle_rotations(
    context: ReconcileContext,
    rotations: Rotations,
    issued: IssuedCertificates,
    objects: OwnedObjects,
    observed: ObservedObjects,
    *,
    tenant_client: Client | None = None,
) -> Rotations:
    """Record that every program runs with the files of the present stages, if this is so.

    Then count the clients of an old authority whose drop is due.
    """
    if not objects.is_unchanged or not startup_order.is_all_rolled_out(observed):
        return rotations
    states = dict(rotations.states)
    for name, state in rotations.states.items():
        settled = rotation.settle(state, context.now())
        if settled is state:
            continue
        secret = issued.secrets[rotated_secrets.ROTATED_SECRETS[name]]
        await _patch(context, secret, rotated_secrets.build_state_patch(secret, settled))
        states[name] = settled
    for name, state in states.items():
        request, waits = rotations.requests[name], rotation.WAITS[name]
        if not rotation.is_census_due(state, request, waits, now=context.now()):
            continue
        held = await legacy_tokens.find_hold(tenant_client, state.settled)
        counted = replace(state, held=held, cleared=None if held else context.now())
        if counted != state:
            secret = issued.secrets[rotated_secrets.ROTATED_SECRETS[name]]
            await _patch(context, secret, rotated_secrets.build_state_patch(secret, counted))
            states[name] = counted
    return replace(rotations, states=states)


def _find_signed_end(
    name: RotatedName, secrets: Mapping[str, Object], signed_lifetime: timedelta, now: datetime
) -> datetime | None:
    """Return the end of the last credential that the present authority has signed or may sign.

    The controller manager signs with the old authority until it has read the new one.
    """
    if name != inventory.CLIENT:
        return None
    requested = now + rotation.PROPAGATION + signed_lifetime if signed_lifetime else None
    handed_out = pki_secrets.find_handed_out_end(secrets.get(f"{inventory.ADMIN}-kubeconfig"), now)
    return max((end for end in (requested, handed_out) if end is not None), default=None)


def _read(name: RotatedName, secret: Object) -> tuple[RotationState, rotation.AuthorityKeys]:
    try:
        return rotated_secrets.read_rotation(name, secret)
    except rotated_secrets.InvalidRotationError as problem:
        metadata = secret["metadata"]
        raise PhaseBlocked(
            "AuthorityBroken",
            f"The Secret {metadata['name']} in namespace {metadata['namespace']} has no usable"
            f" rotation ({problem}). Restore it from a backup, because vc-manager cannot recreate"
            " it.",
            condition=wellknown.CERTIFICATES_READY,
            needs_admin=True,
        ) from None


async def _make(name: RotatedName, uid: str, now: datetime) -> KeyPair:
    if name == rotation.SERVICE_ACCOUNT:
        return await asyncio.to_thread(authority.make_service_account_keys)  # 0.1 s
    return authority.make_authority(inventory.build_authority_common_name(name, uid), now=now)


async def _patch(context: ReconcileContext, secret: Object, patch: Object) -> Object:
    metadata = secret["metadata"]
    try:
        return await context.super_client.patch(
            SECRETS,
            metadata["name"],
            patch,
            namespace=metadata["namespace"],
            field_manager=f"{wellknown.MANAGER}-pki",
        )
    except errors.Conflict:
        raise PhaseBlocked(
            "CertificatesPending",
            f"The Secret {metadata['name']} was changed meanwhile. vc-manager reads it again.",
            condition=wellknown.CERTIFICATES_READY,
            retry_after=0.1,
        ) from None
