"""Stages of the rotation of one authority: trust both, issue from the new one, drop the old one.

An ended authority is replaced in one move, because every program refuses its certificates already.

Owns the table of waits per authority, the decision and the effect of each move on the keys. Pure.
Must not know where a state is stored. Hazard: a stage counts as settled only after every program
runs with its files. Without that, a server would show a certificate that a client does not trust
yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from vcmanager.pki import inventory
from vcmanager.pki.authority import KeyPair
from vcmanager.pki.inventory import AuthorityName

RotatedName = AuthorityName | Literal["service-account"]
SERVICE_ACCOUNT: RotatedName = "service-account"

Stage = Literal["stable", "trust-both", "issue-new"]
Move = Literal["start", "issue", "drop", "replace"]

STABLE: Stage = "stable"
TRUST_BOTH: Stage = "trust-both"
ISSUE_NEW: Stage = "issue-new"

PROPAGATION = timedelta(minutes=5)
"""Time until a file of a running pod has a change, and its program has read it.

The kubelet needs up to 2 min, and the programs read once a minute.
"""
_MAX_SIGNED_LIFE = timedelta(days=90)
"""Life of a certificate that a tenant's controllers sign in the short form
(--cluster-signing-duration).

A ClusterVersion may set another one. `RotationState.signed_until` has it then.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationWaits:
    """Minimum times of one authority after a stage is settled."""

    trust: timedelta
    """Until the new authority signs. Clients outside of the control plane learn it meanwhile."""
    drop: timedelta
    """Until the old authority is dropped. Clients with old credentials get new ones meanwhile."""
    is_lifetime: bool = False
    """Whether the old authority is also kept for the life of a certificate that it signed."""
    needs_census: bool = False
    """Whether the old authority is also kept until no credential without an end is left of it."""


WAITS: Mapping[RotatedName, RotationWaits] = {
    # Pods of the tenant read kube-root-ca.crt, and many only when they start. Handed-out
    # kubeconfigs have a copy.
    inventory.SERVING: RotationWaits(trust=timedelta(hours=24), drop=PROPAGATION),
    inventory.CLIENT: RotationWaits(trust=PROPAGATION, drop=_MAX_SIGNED_LIFE, is_lifetime=True),
    inventory.ETCD: RotationWaits(trust=PROPAGATION, drop=PROPAGATION),
    # Extension API servers read the ConfigMap extension-apiserver-authentication.
    inventory.FRONT_PROXY: RotationWaits(trust=timedelta(minutes=15), drop=timedelta(minutes=15)),
    # Kubelets renew a pod's token after 80 % of its life, which is 1 h unless a pod asks for more.
    SERVICE_ACCOUNT: RotationWaits(trust=PROPAGATION, drop=timedelta(hours=24), needs_census=True),
    # Agents of all tenants. A tenant that cannot be reconciled keeps an old certificate.
    inventory.AGENT_CLIENT: RotationWaits(trust=timedelta(minutes=15), drop=timedelta(hours=24)),
}
"""Waits per authority."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationState:
    """Position of one authority in its rotation."""

    stage: Stage = STABLE
    settled: datetime | None = None
    """When every program ran with the files of the stage. None: not yet."""
    requested: datetime | None = None
    """Time of the request that the present or last rotation serves."""
    signed_until: datetime | None = None
    """End of the last handed-out credential of the old authority. None: no such credential."""
    cleared: datetime | None = None
    """When no credential without an end was left of the old authority. None: not yet."""
    held: str = ""
    """Result of the last census that found one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationRequest:
    """Requests for one authority."""

    start: datetime | None = None
    force_drop: datetime | None = None
    """A time before the start of the present rotation has no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityKeys:
    """Keys of one authority in any stage."""

    current: KeyPair
    """It signs."""
    other: KeyPair | None = None
    """The next authority in the stage trust-both. In issue-new the old one, without its key."""

    def build_trust(self) -> bytes:
        """Return all trusted certificates as PEM, in the same order in both stages with two.

        Programs that read the file once are then not restarted when the new authority issues.
        """
        if self.other is None:
            return self.current.certificate
        return join_pem(*sorted((self.current.certificate, self.other.certificate)))


def join_pem(first: bytes, second: bytes) -> bytes:
    """Return two PEM documents as one."""
    return first + (b"" if first.endswith(b"\n") else b"\n") + second


def choose_move(
    state: RotationState,
    request: RotationRequest,
    waits: RotationWaits,
    *,
    now: datetime,
    lifetime: timedelta = timedelta(0),
    is_ended: bool = False,
) -> Move | None:
    """Return the move that is due, or None.

    `lifetime` is the life of a certificate that vc-manager signs. `is_ended` means that the
    certificate of the present authority has ended. Its replacement needs a request, too. The
    request of a rotation in the stage trust-both is one.
    """
    if is_ended and is_replacement_due(state, request):
        return "replace"
    if state.stage == STABLE:
        return "start" if _is_new(state, request) else None
    due = compute_due(state, request, waits, lifetime=lifetime)
    if due is None or now < due or is_census_due(state, request, waits, now=now):
        return None
    return "issue" if state.stage == TRUST_BOTH else "drop"


def is_replacement_due(state: RotationState, request: RotationRequest) -> bool:
    """Return whether an authority that has ended is replaced."""
    return state.stage == TRUST_BOTH or _is_new(state, request)


def _is_new(state: RotationState, request: RotationRequest) -> bool:
    """Return whether no rotation has served the request yet."""
    return request.start is not None and (
        state.requested is None or request.start > state.requested
    )


def is_census_due(
    state: RotationState, request: RotationRequest, waits: RotationWaits, *, now: datetime
) -> bool:
    """Return whether only the census holds the drop of the old authority."""
    if state.stage != ISSUE_NEW or not waits.needs_census or state.cleared is not None:
        return False
    due = compute_due(state, request, waits)
    return due is not None and now >= due and not is_forced(state, request)


def compute_due(
    state: RotationState,
    request: RotationRequest,
    waits: RotationWaits,
    *,
    lifetime: timedelta = timedelta(0),
) -> datetime | None:
    """Return when the stage ends, or None while it is not settled or no rotation runs."""
    if state.stage == STABLE or state.settled is None:
        return None
    if state.stage == TRUST_BOTH:
        return state.settled + waits.trust
    if is_forced(state, request):
        return state.settled + PROPAGATION
    due = state.settled + (max(waits.drop, lifetime) if waits.is_lifetime else waits.drop)
    return due if state.signed_until is None else max(due, state.signed_until)


def is_forced(state: RotationState, request: RotationRequest) -> bool:
    """Return whether the old authority is dropped although clients may still use it."""
    return (
        request.force_drop is not None
        and state.requested is not None
        and request.force_drop >= state.requested
    )


def apply_move(
    move: Move,
    state: RotationState,
    keys: AuthorityKeys,
    *,
    made: KeyPair,
    start: datetime | None,
    signed_until: datetime | None = None,
) -> tuple[RotationState, AuthorityKeys]:
    """Return state and keys after a move.

    `made` is used by the moves `start` and `replace` only, and `signed_until` by the move `issue`.
    """
    if move == "replace":
        has_next = state.stage == TRUST_BOTH and keys.other is not None
        current = keys.other if has_next and keys.other is not None else made
        return RotationState(requested=start or state.requested), AuthorityKeys(current=current)
    if move == "start":
        next_state = RotationState(stage=TRUST_BOTH, requested=start)
        return next_state, replace(keys, other=made)
    if move == "issue":
        if keys.other is None:
            raise ValueError("the next authority is missing")
        old = KeyPair(keys.current.certificate, b"")
        next_state = replace(state, stage=ISSUE_NEW, settled=None, signed_until=signed_until)
        return next_state, AuthorityKeys(current=keys.other, other=old)
    return RotationState(requested=state.requested), replace(keys, other=None)


def settle(state: RotationState, now: datetime) -> RotationState:
    """Return the state after every program was seen with the files of the stage."""
    if state.stage == STABLE or state.settled is not None:
        return state
    return replace(state, settled=now)
