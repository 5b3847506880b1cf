"""Are the pods of a target there that were there? Where many are missing at once, nobody concludes.

Owns, for one target, which pods of all tenants were found missing by a list and not by an event,
and the hold: the brake upward. The anchor asks whether a target is the cluster that we know; this
asks whether it still has what we know it to have, as one that was set back to an old state is the
same cluster. A hold ends when they are there again, or by a person's word
(`kubectl vc target confirm`), which is about the very pods that were named. Must not know what is
concluded. Hazards: what was found missing counts for a while after somebody has concluded from it,
as tenants are engaged one after the other, and each alone may have too few pods to be a loss. And a
tenant may say of any pod that it ran there, so what one alone misses holds nobody else up.
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
"""Fewer pods that are missing are what happens every day."""
PART = 5
"""One pod in so many may be missing."""
COUNTS_SECONDS = 300.0
"""How long a pod counts that was found missing, while nothing is held."""
FORGIVES_SECONDS = 120.0
"""How long a word for another cluster holds: its tenants' sessions begin one after the other."""
LOOK_AGAIN_SECONDS = 30.0
EVERYBODY = ""
"""Who is held when not only the tenant that misses most misses many."""
_PRUNE_SECONDS = 30.0
_STATE_DIGITS = 16
_STATES = 8
"""How many of the states that were named last a person's word may be about."""
_TENANTS_NAMED = 3
_CONCLUSIONS = (Step.LOST, Step.TAKEN, Step.FINISH)

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Loss(NamedTuple):
    """What is held, as the SuperCluster reports it."""

    state: str
    """Digest of the missing pods: `_STATE_DIGITS` hexadecimal digits. A confirmation names it."""
    missing: int
    total: int
    message: str
    """Of the condition LossesHeld, for people."""


class Missing(NamedTuple):
    """A pod that was found missing."""

    tenant: str
    """UID of its VirtualCluster."""
    uid: str
    """Of the tenant's pod."""


class Muster:
    """What is missing in one target."""

    def __init__(
        self,
        *,
        name: str,
        identity: str,
        there: Callable[[], int],
        changed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`there` counts the pods that are there; `changed` is called when a hold begins or ends.

        `identity` is the UID of the target's kube-system.
        """
        self._name = name
        self._identity = identity
        self._there = there
        self._changed = changed
        self._clock = clock
        self._missing: OrderedDict[Missing, float] = OrderedDict()
        self._by: Counter[str] = Counter()
        """How many each tenant misses."""
        self._confirmed: set[Missing] = set()
        self._named: OrderedDict[str, frozenset[Missing]] = OrderedDict()
        self._forgives_until = float("-inf")
        self._pruned_at = float("-inf")
        self._of = 0
        self._holds: dict[str, int] = {}
        """Who is held, each with how many pods were there when that began: those that are made
        afterwards bring nothing back."""
        self.was_held = False
        """Whether anybody ever was."""

    @property
    def is_held(self) -> bool:
        """Whether of anybody nothing is concluded from what is missing."""
        return bool(self._holds)

    def holds(self, tenant: str) -> bool:
        """Tell whether nothing is concluded from what a tenant misses."""
        return EVERYBODY in self._holds or tenant in self._holds

    @property
    def state(self) -> str:
        """What tells this loss from others: a word of a person is about one of them."""
        named = self._concerned()
        said = [self._identity, *sorted(f"{each.tenant}/{each.uid}" for each in named)]
        return hashlib.sha256("\n".join(said).encode()).hexdigest()[:_STATE_DIGITS]

    def tell(self) -> Loss:
        """Return what is held, and record its state as one that a confirmation may name."""
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
        """Raise Wait while nothing is to be concluded from what a tenant misses."""
        if self.holds(tenant):
            raise Wait(f"many pods are missing in {self._name} at once", LOOK_AGAIN_SECONDS)

    def absent(self, tenant: str, uid: str) -> None:
        """A list does not have a pod's twin, which ran there; nobody saw it go."""
        self._miss(tenant, (uid,))
        self._look()

    def called(self, tenant: str, uids: Collection[str]) -> None:
        """All that a tenant misses is known: just these.

        Where nothing is held, others may be missing no more as that was concluded: they count.
        """
        found = {Missing(tenant, uid) for uid in uids}
        if self.holds(tenant):
            self._drop_of(tenant, but=found)
        self._miss(tenant, uids)
        self._look()

    def present(self, tenant: str, uid: str) -> None:
        """A pod's twin is there."""
        found = Missing(tenant, uid)
        self._confirmed.discard(found)
        if found in self._missing:
            self._drop(found)
            self._look()

    def gone(self, tenant: str, uid: str) -> None:
        """A tenant pod is gone; nobody misses it, unless that is what was concluded."""
        if self.holds(tenant):
            self.present(tenant, uid)

    def forget(self, tenant: str) -> None:
        """A tenant is no more, and nothing is missed for it."""
        self._confirmed = {each for each in self._confirmed if each.tenant != tenant}
        self._drop_of(tenant)
        self._look()

    def confirm(self, state: str) -> bool:
        """Take a person's word that what it names is gone; what came to light since is not in it.

        Or a tenant that misses others every moment would have no word ever be right. The word may
        also be the identity, from whoever knows that the cluster was made anew.
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
        """Return what is missing to those that are held."""
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
        """Forget what went long ago, but for who is held; not each time, as all may be held."""
        if now - self._pruned_at < _PRUNE_SECONDS:
            return
        self._pruned_at = now
        for each, at in list(self._missing.items()):
            if now - at > COUNTS_SECONDS and not self.holds(each.tenant):
                self._drop(each)

    def _look(self) -> None:
        """Begin and end what the numbers say."""
        holds = self._to_hold()
        if holds:
            there = min(self._there(), *holds.values())  # fewer, as the list goes on
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
        """Return who is to be held, each with the pods that were there when that began."""
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
    """Return whether a confirmation has the form of a state, and not of a cluster's identity."""
    return len(word) == _STATE_DIGITS and not word.strip("0123456789abcdef")


def _is_loss(missing: int, there: int) -> bool:
    return missing >= LEAST and missing * PART > missing + there


def missing_uids(
    tenant_pods: Iterable[Entry], *, shown_node: str, has_twin: Callable[[Entry], bool]
) -> list[str]:
    """Return the UIDs of the tenant pods that should run in a target and are not there.

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
            continue  # no API server lets such a pod in; its own key says what is wrong
        if step in _CONCLUSIONS:
            missing.append(entry.uid)
    return missing
