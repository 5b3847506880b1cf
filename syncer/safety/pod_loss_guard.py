"""Protection against wrong conclusions when many pods of a target are missing at once.

Owns, per target, the pods of all tenants that were missing in a list, without a delete event. Owns
also the hold on conclusions in the tenants. `cluster_identity` checks that a target is the same
cluster. This module checks that the target still has the known pods, because etcd restored to an
older state keeps the identity. A hold ends when the pods are there again, or by a confirmation
(`kubectl vc target confirm`) that applies to the named pods only. Must not know the conclusions.

Hazards: a missing pod must count for a while after a conclusion. Tenants are synced one after the
other, and each alone may have too few pods for a loss. The pods of one tenant must not hold other
tenants, because a tenant can claim of any pod that it ran in the target.
"""

import hashlib
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import structlog

from kubeio.cache.store import Entry
from kubeio.controller.worker import NotReadyYet
from syncer.model.pod_index import get_node
from syncer.model.rejections import MALFORMED_OBJECT_ERRORS
from syncer.rules.pods import lifecycle
from syncer.rules.pods.lifecycle import PodStep

MIN_MISSING_PODS = 5
"""Minimum number of missing pods. Fewer are normal."""
MAX_MISSING_SHARE_DIVISOR = 5
"""One pod in this many may be missing."""
MISSING_EXPIRY_SECONDS = 300.0
"""Time in seconds for which a missing pod counts while nothing is held."""
CONFIRMATION_SECONDS = 120.0
"""Time in seconds for which the confirmation of a recreated cluster applies. The sessions of its
tenants begin one after the other.
"""
HELD_RETRY_SECONDS = 30.0
ALL_TENANTS = ""
"""Key of a hold for all tenants. It applies when more than one tenant misses many pods."""
_PRUNE_SECONDS = 30.0
_STATE_DIGITS = 16
_MAX_NAMED_STATES = 8
"""Number of most recent states that a confirmation may name."""
_MAX_NAMED_TENANTS = 3
_STEPS_CONCLUDED_FROM_LOSS = (PodStep.LOST, PodStep.DELETED_IN_SUPER, PodStep.FINISH)

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Loss(NamedTuple):
    """The held loss, as the SuperCluster reports it."""

    state: str
    """Digest of the missing pods: `_STATE_DIGITS` hexadecimal digits. A confirmation names it."""
    missing: int
    total: int
    message: str
    """Message of the condition LossesHeld."""


class MissingPod(NamedTuple):
    """A pod that was found missing."""

    tenant: str
    """UID of its VirtualCluster."""
    uid: str
    """UID of the tenant's pod."""


class PodLossGuard:
    """The missing pods of one target."""

    def __init__(
        self,
        *,
        name: str,
        identity: str,
        count_present: Callable[[], int],
        on_changed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`there` counts the pods in the target. `on_changed` is called when a hold begins or ends.

        `identity` is the UID of the target's kube-system.
        """
        self._name = name
        self._identity = identity
        self._count_present = count_present
        self._on_changed = on_changed
        self._clock = clock
        self._missing: OrderedDict[MissingPod, float] = OrderedDict()
        self._missing_by_tenant: Counter[str] = Counter()
        """Number of missing pods by tenant."""
        self._confirmed: set[MissingPod] = set()
        self._named_states: OrderedDict[str, frozenset[MissingPod]] = OrderedDict()
        self._confirmed_until = float("-inf")
        self._pruned_at = float("-inf")
        self._missing_of_tenant = 0
        self._held_tenants: dict[str, int] = {}
        """Held tenants, each with the number of pods in the target when its hold began. Pods that
        are created later replace no missing pod.
        """
        self.was_held = False
        """Whether there was ever a hold."""

    @property
    def is_held(self) -> bool:
        """Whether conclusions are held for any tenant."""
        return bool(self._held_tenants)

    def is_tenant_held(self, tenant: str) -> bool:
        """Return True if no conclusions are drawn from a tenant's missing pods."""
        return ALL_TENANTS in self._held_tenants or tenant in self._held_tenants

    @property
    def loss_state(self) -> str:
        """Digest of this loss. A confirmation applies to one state."""
        named = self._list_held_missing()
        said = [self._identity, *sorted(f"{each.tenant}/{each.uid}" for each in named)]
        return hashlib.sha256("\n".join(said).encode()).hexdigest()[:_STATE_DIGITS]

    def build_held_message(self) -> Loss:
        """Return the held loss, and record its state as one that a confirmation may name."""
        missing, state = self._list_held_missing(), self.loss_state
        total = max(len(missing), self._missing_of_tenant)
        self._named_states[state] = missing
        while len(self._named_states) > _MAX_NAMED_STATES:
            self._named_states.popitem(last=False)
        whose = "none of them is"
        if ALL_TENANTS not in self._held_tenants:
            tenants = ", ".join(sorted(self._held_tenants)[:_MAX_NAMED_TENANTS])
            whose = f"no missing pod of the VirtualCluster with the UID {tenants} is"
        message = (
            f"{len(missing)} of the {total} pods of tenants in this target are missing at once, so"
            f" {whose} counted as lost or deleted. If they are lost, run `kubectl vc target"
            f" confirm {self._name}`: each is then counted as lost, and its controller creates a"
            " replacement. Otherwise, restore the missing pods, and this condition ends by itself."
        )
        return Loss(state, len(missing), total, message)

    def check_not_held(self, tenant: str) -> None:
        """Raise Wait while no conclusions may be drawn from a tenant's missing pods."""
        if self.is_tenant_held(tenant):
            raise NotReadyYet(f"many pods are missing in {self._name} at once", HELD_RETRY_SECONDS)

    def add_missing(self, tenant: str, uid: str) -> None:
        """Record a pod that ran in the target and is absent from a list, without a delete event."""
        self._add_missing(tenant, (uid,))
        self._update_holds()

    def replace_missing(self, tenant: str, uids: Collection[str]) -> None:
        """Record the complete set of a tenant's missing pods.

        Without a hold, earlier entries stay and count. Their pods may be absent from the set
        because their loss was concluded.
        """
        found = {MissingPod(tenant, uid) for uid in uids}
        if self.is_tenant_held(tenant):
            self._remove_missing_of(tenant, but=found)
        self._add_missing(tenant, uids)
        self._update_holds()

    def remove_missing(self, tenant: str, uid: str) -> None:
        """Record that a pod's twin exists."""
        found = MissingPod(tenant, uid)
        self._confirmed.discard(found)
        if found in self._missing:
            self._remove_missing(found)
            self._update_holds()

    def remove_deleted(self, tenant: str, uid: str) -> None:
        """Record that a tenant pod was deleted. During a hold it is no longer missed."""
        if self.is_tenant_held(tenant):
            self.remove_missing(tenant, uid)

    def forget_tenant(self, tenant: str) -> None:
        """Forget a deleted tenant."""
        self._confirmed = {each for each in self._confirmed if each.tenant != tenant}
        self._remove_missing_of(tenant)
        self._update_holds()

    def confirm_losses(self, state: str) -> bool:
        """Apply a confirmation that the named pods are lost. Returns True if it applied.

        Pods found missing later are not included. A confirmation of the current set only would
        never match while a tenant misses new pods all the time. The value may also be the target's
        identity, from an administrator who knows that the cluster was recreated.
        """
        is_made_anew = bool(state) and state == self._identity
        if is_made_anew:
            self._confirmed_until = self._clock() + CONFIRMATION_SECONDS
        named = frozenset(self._missing) if is_made_anew else self._named_states.get(state)
        if named is None and state == self.loss_state:
            named = self._list_held_missing()
        if not self.is_held or named is None:
            return is_made_anew
        _log.warning("target.losses_confirmed", target=self._name, pods=len(named))
        self._confirmed |= named
        for each in named & self._missing.keys():
            self._remove_missing(each)
        self._update_holds()
        return True

    def _list_held_missing(self) -> frozenset[MissingPod]:
        """Return the missing pods of the held tenants."""
        return frozenset(each for each in self._missing if self.is_tenant_held(each.tenant))

    def _add_missing(self, tenant: str, uids: Collection[str]) -> None:
        now = self._clock()
        if now < self._confirmed_until:
            return
        self._prune_expired(now)
        for found in (MissingPod(tenant, uid) for uid in uids):
            if found not in self._confirmed and found not in self._missing:
                self._missing[found] = now
                self._missing_by_tenant[tenant] += 1

    def _remove_missing(self, found: MissingPod) -> None:
        del self._missing[found]
        self._missing_by_tenant[found.tenant] -= 1
        if not self._missing_by_tenant[found.tenant]:
            del self._missing_by_tenant[found.tenant]

    def _remove_missing_of(self, tenant: str, *, but: Collection[MissingPod] = ()) -> None:
        for each in [each for each in self._missing if each.tenant == tenant]:
            if each not in but:
                self._remove_missing(each)

    def _prune_expired(self, now: float) -> None:
        """Drop entries older than `MISSING_EXPIRY_SECONDS`, except those of held tenants.

        Runs at most every `_PRUNE_SECONDS`, because all entries may be held.
        """
        if now - self._pruned_at < _PRUNE_SECONDS:
            return
        self._pruned_at = now
        for each, at in list(self._missing.items()):
            if now - at > MISSING_EXPIRY_SECONDS and not self.is_tenant_held(each.tenant):
                self._remove_missing(each)

    def _update_holds(self) -> None:
        """Begin and end holds according to the counts."""
        holds = self._compute_holds()
        if holds:
            there = min(self._count_present(), *holds.values())  # fewer while the list is read
            self._missing_of_tenant = max(self._missing_of_tenant, len(self._missing) + there)
        is_news, self._held_tenants = holds.keys() != self._held_tenants.keys(), holds
        if not is_news:
            return
        if not holds:
            self._missing_of_tenant = 0
            self._named_states.clear()
        self.was_held = True
        word = "target.losses_held" if holds else "target.losses_released"
        _log.warning(word, target=self._name, missing=len(self._missing), tenants=[*holds])
        self._on_changed()

    def _compute_holds(self) -> dict[str, int]:
        """Return the tenants to hold, each with the number of pods when its hold began."""
        total, there = (
            len(self._missing),
            self._held_tenants.get(ALL_TENANTS, self._count_present()),
        )
        most = max(
            self._missing_by_tenant,
            key=lambda tenant: self._missing_by_tenant[tenant],
            default=ALL_TENANTS,
        )
        if _is_mass_loss(total - self._missing_by_tenant[most], there):
            return {ALL_TENANTS: there}
        alone = {
            tenant: then for tenant, then in self._held_tenants.items() if tenant != ALL_TENANTS
        }
        of_alone = sum(self._missing_by_tenant[tenant] for tenant in alone)
        holds = {
            tenant: then
            for tenant, then in alone.items()
            if self._missing_by_tenant[tenant]
            and _is_mass_loss(total - of_alone + self._missing_by_tenant[tenant], then)
        }
        if most not in holds and _is_mass_loss(total, there):
            holds[most] = there
        return holds


def is_state(word: str) -> bool:
    """Return True if a confirmation has the form of a state, not of a cluster's identity."""
    return len(word) == _STATE_DIGITS and not word.strip("0123456789abcdef")


def _is_mass_loss(missing: int, there: int) -> bool:
    return missing >= MIN_MISSING_PODS and missing * MAX_MISSING_SHARE_DIVISOR > missing + there


def missing_uids(
    tenant_pods: Iterable[Entry], *, shown_node: str, has_twin: Callable[[Entry], bool]
) -> list[str]:
    """Return the UIDs of the tenant pods that should run in a target and are missing in it.

    `shown_node` is the name of the target's node in the tenant, and `has_twin` reports whether the
    cache of the target has the twin of a pod.
    """
    missing = []
    for entry in tenant_pods:
        if get_node(entry) != shown_node or has_twin(entry):
            continue
        try:
            step = lifecycle.decide_step(lifecycle.build_pod_state(entry.decode()), None)
        except MALFORMED_OBJECT_ERRORS:
            continue  # no API server accepts such a pod, and its own key reports the problem
        if step in _STEPS_CONCLUDED_FROM_LOSS:
            missing.append(entry.uid)
    return missing
