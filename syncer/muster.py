"""Are the pods of a target there that were there? Where many are missing at once, nobody concludes.

Owns, for one target, which pods of all tenants were found missing by a list and not by an event,
and the hold: the brake upward. The anchor asks whether a target is the cluster that we know; this
asks whether it still has what we know it to have, as one that was set back to an old state is the
same cluster. A hold ends when they are there again, or by a person's word
(`kubectl vc target confirm`), which is about the very pods that were named. Must not know what is
concluded. Hazard: what was found missing counts for a while after somebody has concluded from it,
as tenants are engaged one after the other, and each alone may have too few pods to be a loss.
"""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import structlog

from kubeio.worker import Wait
from syncer.pod_index import node_of
from syncer.rejections import STUMBLES
from syncer.special import pod_life, pods
from syncer.special.pod_life import Step

if TYPE_CHECKING:
    from syncer.session import Session

LEAST = 5
"""Fewer pods that are missing are what happens every day."""
PART = 5
"""One pod in so many may be missing."""
COUNTS_SECONDS = 300.0
"""How long a pod counts that was found missing, while nothing is held."""
FORGIVES_SECONDS = 120.0
"""How long a word for another cluster holds: its tenants' sessions begin one after the other."""
LOOK_AGAIN_SECONDS = 30.0
_STATE_DIGITS = 16
_CONCLUSIONS = (Step.LOST, Step.TAKEN, Step.FINISH)

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


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
        self._confirmed: frozenset[Missing] = frozenset()
        self._forgives_until = float("-inf")
        self._of = 0
        self.is_held = False
        """Whether nothing is concluded from what is missing."""
        self.was_held = False
        """Whether it ever was."""

    @property
    def state(self) -> str:
        """What tells this loss from others: a word of a person is about one of them."""
        said = [self._identity, *sorted(f"{each.tenant}/{each.uid}" for each in self._missing)]
        return hashlib.sha256("\n".join(said).encode()).hexdigest()[:_STATE_DIGITS]

    @property
    def message(self) -> str:
        """The condition's message while there is a hold; the command line reads the state."""
        missing = len(self._missing)
        return (
            f"{missing} of the {max(missing, self._of)} pods that tenants have there are missing at"
            f" once (state {self.state}), so none of them is taken for lost or for gone. If they"
            f" are gone for good, run `kubectl vc target confirm {self._name}`: each counts as lost"
            " then, and its controller makes another. Otherwise bring back what is missing there;"
            " that ends it by itself."
        )

    def check(self) -> None:
        """Raise Wait while nothing is to be concluded from what is missing."""
        if self.is_held:
            raise Wait(f"many pods are missing in {self._name} at once", LOOK_AGAIN_SECONDS)

    def absent(self, tenant: str, uid: str) -> None:
        """A list does not have a pod's twin, which ran there; nobody saw it go."""
        found, now = Missing(tenant, uid), self._clock()
        if found in self._confirmed or now < self._forgives_until:
            return
        if not self.is_held:
            self._prune(now)
        self._missing.setdefault(found, now)
        self._of = len(self._missing) + self._there()
        if not self.is_held and self._is_loss():
            self._hold(is_held=True)

    def present(self, tenant: str, uid: str) -> None:
        """A pod's twin is there."""
        if self._missing and self._missing.pop(Missing(tenant, uid), None) is not None:
            self._look()

    def forget(self, tenant: str) -> None:
        """A tenant is no more, and nothing is missed for it."""
        for each in [each for each in self._missing if each.tenant == tenant]:
            del self._missing[each]
        self._look()

    def confirm(self, state: str) -> bool:
        """Take a person's word that what is missing is gone, if it is about just that.

        The word may also be the identity, from whoever knows that the cluster was made anew.
        """
        is_made_anew = bool(state) and state == self._identity
        if is_made_anew:
            self._forgives_until = self._clock() + FORGIVES_SECONDS
        if not self.is_held or not (is_made_anew or state == self.state):
            return is_made_anew
        _log.warning("target.losses_confirmed", target=self._name, pods=len(self._missing))
        self._confirmed = frozenset(self._missing)
        self._missing.clear()
        self._hold(is_held=False)
        return True

    def _prune(self, now: float) -> None:
        while self._missing and now - next(iter(self._missing.values())) > COUNTS_SECONDS:
            self._missing.popitem(last=False)

    def _is_loss(self) -> bool:
        missing = len(self._missing)
        return missing >= LEAST and missing * PART > missing + self._there()

    def _look(self) -> None:
        if self.is_held and not self._is_loss():
            self._hold(is_held=False)

    def _hold(self, *, is_held: bool) -> None:
        self.is_held, self.was_held = is_held, True
        word = "target.losses_held" if is_held else "target.losses_no_longer_held"
        _log.warning(word, target=self._name, missing=len(self._missing))
        self._changed()


def call(session: "Session") -> None:
    """Note which pods of a tenant should run in a target and are not there, as its session begins.

    All caches are complete. What was there when somebody else looked last, nobody remembers.
    """
    assert session.target is not None  # noqa: S101 - asked only of a target
    for entry in session.stores["Pod"].list():
        if node_of(entry) != session.shown_node("") or session.has_twin(entry):
            continue
        try:
            step = pod_life.step(pods.pod_side(entry.decode()), None)
        except STUMBLES:
            continue  # no API server lets such a pod in; its own key says what is wrong
        if step in _CONCLUSIONS:
            session.target.muster.absent(session.tenant.uid, entry.uid)
