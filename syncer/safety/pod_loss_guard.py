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
from kubeio.controller.worker import Wait
from syncer.model.pod_index import node_of
from syncer.model.rejections import STUMBLES
from syncer.rules.pods import lifecycle, pod_facts
from syncer.rules.pods.lifecycle import Step

LEAST = 5
"""Minimum number of missing pods. Fewer are normal."""
PART = 5
"""One pod in this many may be missing."""
COUNTS_SECONDS = 300.0
"""Time in seconds for which a missing pod counts while nothing is held."""
FORGIVES_SECONDS = 120.0
"""Time in seconds for which the confirmation of a recreated cluster applies. The sessions of its
tenants begin one after the other.
"""
LOOK_AGAIN_SECONDS = 30.0
EVERYBODY = ""
"""Key of a hold for all tenants. It applies when more than one tenant misses many pods."""
_PRUNE_SECONDS = 30.0
_STATE_DIGITS = 16
_STATES = 8
"""Number of most recent states that a confirmation may name."""
_TENANTS_NAMED = 3
_CONCLUSIONS = (Step.LOST, Step.TAKEN, Step.FINISH)

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Loss(NamedTuple):
    """The held loss, as the SuperCluster reports it."""

    state: str
    """Digest of the missing pods: `_STATE_DIGITS` hexadecimal digits. A confirmation names it."""
    missing: int
    total: int
    message: str
    """Message of the condition LossesHeld."""


class Missing(NamedTuple):
    """A pod that was found missing."""

    tenant: str
    """UID of its VirtualCluster."""
    uid: str
    """UID of the tenant's pod."""


class Muster:
    """The missing pods of one target."""

    def __init__(
        self,
        *,
        name: str,
        identity: str,
        there: Callable[[], int],
        changed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`there` counts the pods in the target. `changed` is called when a hold begins or ends.

        `identity` is the UID of the target's kube-system.
        """
        self._name = name
        self._identity = identity
        self._there = there
        self._changed = changed
        self._clock = clock
        self._missing: OrderedDict[Missing, float] = OrderedDict()
        self._by: Counter[str] = Counter()
        """Number of missing pods by tenant."""
        self._confirmed: set[Missing] = set()
        self._named: OrderedDict[str, frozenset[Missing]] = OrderedDict()
        self._forgives_until = float("-inf")
        self._pruned_at = float("-inf")
        self._of = 0
        self._holds: dict[str, int] = {}
        """Held tenants, each with the number of pods in the target when its hold began. Pods that
        are created later replace no missing pod.
        """
        self.was_held = False
        """Whether there was ever a hold."""

    @property
    def is_held(self) -> bool:
        """Whether conclusions are held for any tenant."""
        return bool(self._holds)

    def holds(self, tenant: str) -> bool:
        """Return True if no conclusions are drawn from a tenant's missing pods."""
        return EVERYBODY in self._holds or tenant in self._holds

    @property
    def state(self) -> str:
        """Digest of this loss. A confirmation applies to one state."""
        named = self._concerned()
        said = [self._identity, *sorted(f"{each.tenant}/{each.uid}" for each in named)]
        return hashlib.sha256("\n".join(said).encode()).hexdigest()[:_STATE_DIGITS]

    def tell(self) -> Loss:
        """Return the held loss, and record its state as one that a confirmation may name."""
        missing, state = self._concerned(), self.state
        total = max(len(missing), self._of)
        self._named[state] = missing
        while len(self._named) > _STATES:
            self._named.popitem(last=False)
        whose = "none of them is"
        if EVERYBODY not in self._holds:
            tenants = ", ".join(sorted(self._holds)[:_TENANTS_NAMED])
            whose = f"none that is missing to the VirtualCluster with the UID {tenants} is"
        message = (
            f"{len(missing)} of the {total} pods that tenants have there are"
            f" missing at once, so {whose} taken for lost or for gone. If they"
            f" are gone for good, run `kubectl vc target confirm {self._name}`: each counts as lost"
            " then, and its controller makes another. Otherwise bring back what is missing there;"
            " that ends it by itself."
        )
        return Loss(state, len(missing), total, message)

    def check(self, tenant: str) -> None:
        """Raise Wait while no conclusions may be drawn from a tenant's missing pods."""
        if self.holds(tenant):
            raise Wait(f"many pods are missing in {self._name} at once", LOOK_AGAIN_SECONDS)

    def absent(self, tenant: str, uid: str) -> None:
        """Record a pod that ran in the target and is absent from a list, without a delete event."""
        self._miss(tenant, (uid,))
        self._look()

    def called(self, tenant: str, uids: Collection[str]) -> None:
        """Record the complete set of a tenant's missing pods.

        Without a hold, earlier entries stay and count. Their pods may be absent from the set
        because their loss was concluded.
        """
        found = {Missing(tenant, uid) for uid in uids}
        if self.holds(tenant):
            self._drop_of(tenant, but=found)
        self._miss(tenant, uids)
        self._look()

    def present(self, tenant: str, uid: str) -> None:
        """Record that a pod's twin exists."""
        found = Missing(tenant, uid)
        self._confirmed.discard(found)
        if found in self._missing:
            self._drop(found)
            self._look()

    def gone(self, tenant: str, uid: str) -> None:
        """Record that a tenant pod was deleted. During a hold it is no longer missed."""
        if self.holds(tenant):
            self.present(tenant, uid)

    def forget(self, tenant: str) -> None:
        """Forget a deleted tenant."""
        self._confirmed = {each for each in self._confirmed if each.tenant != tenant}
        self._drop_of(tenant)
        self._look()

    def confirm(self, state: str) -> bool:
        """Apply a confirmation that the named pods are lost. Returns True if it applied.

        Pods found missing later are not included. A confirmation of the current set only would
        never match while a tenant misses new pods all the time. The value may also be the target's
        identity, from an administrator who knows that the cluster was recreated.
        """
        is_made_anew = bool(state) and state == self._identity
        if is_made_anew:
            self._forgives_until = self._clock() + FORGIVES_SECONDS
        named = frozenset(self._missing) if is_made_anew else self._named.get(state)
        if named is None and state == self.state:
            named = self._concerned()
        if not self.is_held or named is None:
            return is_made_anew
        _log.warning("target.losses_confirmed", target=self._name, pods=len(named))
        self._confirmed |= named
        for each in named & self._missing.keys():
            self._drop(each)
        self._look()
        return True

    def _concerned(self) -> frozenset[Missing]:
        """Return the missing pods of the held tenants."""
        return frozenset(each for each in self._missing if self.holds(each.tenant))

    def _miss(self, tenant: str, uids: Collection[str]) -> None:
        now = self._clock()
        if now < self._forgives_until:
            return
        self._prune(now)
        for found in (Missing(tenant, uid) for uid in uids):
            if found not in self._confirmed and found not in self._missing:
                self._missing[found] = now
                self._by[tenant] += 1

    def _drop(self, found: Missing) -> None:
        del self._missing[found]
        self._by[found.tenant] -= 1
        if not self._by[found.tenant]:
            del self._by[found.tenant]

    def _drop_of(self, tenant: str, *, but: Collection[Missing] = ()) -> None:
        for each in [each for each in self._missing if each.tenant == tenant]:
            if each not in but:
                self._drop(each)

    def _prune(self, now: float) -> None:
        """Drop entries older than `COUNTS_SECONDS`, except those of held tenants.

        Runs at most every `_PRUNE_SECONDS`, because all entries may be held.
        """
        if now - self._pruned_at < _PRUNE_SECONDS:
            return
        self._pruned_at = now
        for each, at in list(self._missing.items()):
            if now - at > COUNTS_SECONDS and not self.holds(each.tenant):
                self._drop(each)

    def _look(self) -> None:
        """Begin and end holds according to the counts."""
        holds = self._to_hold()
        if holds:
            there = min(self._there(), *holds.values())  # fewer while the list is read
            self._of = max(self._of, len(self._missing) + there)
        is_news, self._holds = holds.keys() != self._holds.keys(), holds
        if not is_news:
            return
        if not holds:
            self._of = 0
            self._named.clear()
        self.was_held = True
        word = "target.losses_held" if holds else "target.losses_no_longer_held"
        _log.warning(word, target=self._name, missing=len(self._missing), tenants=[*holds])
        self._changed()

    def _to_hold(self) -> dict[str, int]:
        """Return the tenants to hold, each with the number of pods when its hold began."""
        total, there = len(self._missing), self._holds.get(EVERYBODY, self._there())
        most = max(self._by, key=lambda tenant: self._by[tenant], default=EVERYBODY)
        if _is_loss(total - self._by[most], there):
            return {EVERYBODY: there}
        alone = {tenant: then for tenant, then in self._holds.items() if tenant != EVERYBODY}
        of_alone = sum(self._by[tenant] for tenant in alone)
        holds = {
            tenant: then
            for tenant, then in alone.items()
            if self._by[tenant] and _is_loss(total - of_alone + self._by[tenant], then)
        }
        if most not in holds and _is_loss(total, there):
            holds[most] = there
        return holds


def is_state(word: str) -> bool:
    """Return True if a confirmation has the form of a state, not of a cluster's identity."""
    return len(word) == _STATE_DIGITS and not word.strip("0123456789abcdef")


def _is_loss(missing: int, there: int) -> bool:
    return missing >= LEAST and missing * PART > missing + there


def missing_uids(
    tenant_pods: Iterable[Entry], *, shown_node: str, has_twin: Callable[[Entry], bool]
) -> list[str]:
    """Return the UIDs of the tenant pods that should run in a target and are missing in it.

    `shown_node` is the name of the target's node in the tenant, and `has_twin` reports whether the
    cache of the target has the twin of a pod.
    """
    missing = []
    for entry in tenant_pods:
        if node_of(entry) != shown_node or has_twin(entry):
            continue
        try:
            step = lifecycle.step(pod_facts.pod_side(entry.decode()), None)
        except STUMBLES:
            continue  # no API server accepts such a pod, and its own key reports the problem
        if step in _CONCLUSIONS:
            missing.append(entry.uid)
    return missing
