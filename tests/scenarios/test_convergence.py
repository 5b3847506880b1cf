"""Both sides of a key as states, every combination of them, until no one writes any longer.

The model carries out what `decide` and `pod_life` say as the flows do, beside an environment that
ends what was marked: kubelets and API servers below, the tenant above.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from syncer.controllers.pods import pod_reconciler
from syncer.model.decide import (
    CompareTwin,
    CreateTwin,
    DeleteGrounds,
    DeleteTwin,
    NoAction,
    ReportForeign,
    SyncAction,
)
from syncer.rules.pods import lifecycle
from syncer.rules.pods.lifecycle import PodStep, SuperPodState, TenantPodState
from tests.support.syncer.key_states import VC, Sides, TenantState, TwinState, decided

OTHER_VC = "vc-2"
MINE, EARLIER = "uid-now", "uid-earlier"
ROUNDS = 8
"""More than any combination needs."""

TAKEN, REJECTED, REFUSED = "taken", "rejected", "refused"
"""What becomes of the tenant object when it is built: `refused` also takes its twin away."""


@dataclass(frozen=True)
class PlainKey(Sides):
    """A key of a plain kind."""

    built: str
    differs: bool
    held: bool
    """The store guard holds deletes."""

    def step(self) -> PlainKey:
        """Carry out the next step. The same state when nothing is written."""
        match self.decision():
            case CreateTwin() if self.built == TAKEN:
                assert self.tenant_x is not None
                assert self.super_x is None
                twin = TwinState(VC, self.tenant_x.uid, deleting=False)
                return replace(self, super_x=twin, differs=False)
            case CompareTwin() if self.built == REFUSED:
                return self._deleted()
            case CompareTwin() if self.built == TAKEN:
                return replace(self, differs=False)
            case DeleteTwin():
                return self._deleted()
        return self

    def _deleted(self) -> PlainKey:
        assert self.super_x is not None
        assert self.super_x.vc_uid == VC, "nothing of others is ever deleted"
        assert not self.super_x.deleting, "a delete is written once"
        return self if self.held else replace(self, super_x=self.super_x._replace(deleting=True))

    def later(self) -> PlainKey:
        """The marked objects are deleted. Those in the super cluster had no other finalizer."""
        gone_above = self.tenant_x is not None and self.tenant_x.deleting
        gone_below = self.super_x is not None and self.super_x.deleting
        return replace(
            self,
            tenant_x=None if gone_above else self.tenant_x,
            super_x=None if gone_below else self.super_x,
        )

    @property
    def is_foreign(self) -> bool:
        return self.super_x is not None and self.super_x.vc_uid != VC


def plain_states() -> Iterator[PlainKey]:
    above = [None, *(TenantState(uid, deleting) for uid in (MINE,) for deleting in (False, True))]
    below = [
        None,
        *(
            TwinState(*parts)
            for parts in product((VC, OTHER_VC, ""), (MINE, EARLIER, ""), (False, True))
        ),
    ]
    flags = (False, True)
    for parts in product(above, below, flags, flags, (TAKEN, REJECTED, REFUSED), flags, flags):
        yield PlainKey(*parts)


def rested(state: PlainKey) -> tuple[PlainKey, int]:
    """Return where a state comes to rest, and how often something was written on the way."""
    writes = 0
    for _ in range(ROUNDS):
        before = state
        after = state.step()
        writes += after != state
        state = after.later()
        if state == before:
            return state, writes
    raise AssertionError(f"never comes to rest: {state}")


def test_every_combination_of_a_plain_kind_comes_to_rest_and_stops_writing():
    tried = 0
    for state in plain_states():
        tried += 1
        last, writes = rested(state)
        assert writes <= 3, state
        assert last.step() == last, state
        assert type(last.decision()) in _quiet(last), state
        assert _is_right(state, last), (state, last)
    assert tried == 3 * 19 * 2 * 2 * 3 * 2 * 2


def _quiet(last: PlainKey) -> set[type[SyncAction]]:
    """Return the verdicts that make no one write."""
    found: set[type[SyncAction]] = {NoAction, CompareTwin, ReportForeign}
    if last.built != TAKEN:
        found.add(CreateTwin)
    if last.held:
        found.add(DeleteTwin)
    return found


def _is_right(first: PlainKey, last: PlainKey) -> bool:
    """Return whether a state of rest is the one that the tenant object's own state asks for."""
    if last.is_foreign:
        return last.super_x == first.super_x or bool(first.super_x and first.super_x.deleting)
    takes_part = last.tenant_x is not None and last.wanted
    if last.super_x is None:
        return not takes_part or last.built != TAKEN
    if last.held:
        return True  # what should go stays
    is_own = last.tenant_x is not None and last.super_x.uid == last.tenant_x.uid
    # What was let through before a rejection stays as it was.
    return takes_part and is_own and (last.built == REJECTED or not last.differs)


# --- pods -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PodKey:
    """A pod and its own twin."""

    pod: TenantPodState | None
    twin: SuperPodState | None
    builds: bool
    """It is let down when it has no twin."""

    def step(self) -> PodKey:
        """Carry out the next step. The same state when nothing is written."""
        pod, twin = self.pod, self.twin
        if pod is None:
            return self._without_pod()
        after = self
        match lifecycle.decide_step(pod, twin):
            case PodStep.CREATE if self.builds:
                assert twin is None
                fresh = SuperPodState(node="", deleting=False, grace_seconds=None)
                after = replace(self, twin=fresh)
            case PodStep.SYNC if twin is not None and twin.node and _awaits_node(pod):
                after = replace(self, pod=pod._replace(node=twin.node, had_twin=True))
            case PodStep.DELETE_TWIN:
                assert twin is not None
                after = replace(self, twin=_marked(pod, twin))
            case PodStep.EVICT | PodStep.MISPLACED:
                assert not pod.deleting
                grace = twin.grace_seconds if twin is not None and twin.grace_seconds else 30
                after = replace(self, pod=pod._replace(deleting=True, grace_seconds=grace))
            case PodStep.FINISH | PodStep.DELETE_LOST | PodStep.DELETED_IN_SUPER:
                assert twin is None, "a pod that runs below is never let go"
                after = replace(self, pod=None)
            case PodStep.LOST:
                assert twin is None
                after = replace(self, pod=pod._replace(is_terminal=True, is_lost=True))
        return after

    def _without_pod(self) -> PodKey:
        twin = self.twin
        own = TwinState(VC, MINE, twin.deleting) if twin is not None else None
        action = decided(None, own, vc_uid=VC)
        if isinstance(action, DeleteTwin):
            assert action.grounds is DeleteGrounds.ABSENT
            assert twin is not None
            return replace(self, twin=twin._replace(deleting=True))
        return self

    def later(self) -> PodKey:
        """The scheduler binds, a kubelet ends what is marked, the tenant's API lets go."""
        pod, twin = self.pod, self.twin
        if twin is not None and twin.deleting:
            twin = None
        elif twin is not None and not twin.node:
            twin = twin._replace(node="n")
        if pod is not None and pod.deleting and twin is None and pod.grace_seconds == 0:
            pod = None  # as soon as its own finalizers let it
        return replace(self, pod=pod, twin=twin)


def _awaits_node(pod: TenantPodState) -> bool:
    return not pod.node and not pod.deleting


def _marked(pod: TenantPodState, twin: SuperPodState) -> SuperPodState:
    """Return a twin that the tenant's delete has reached. An API server only shortens the grace."""
    assert pod.deleting, "only what the tenant deletes is deleted below"
    asked = pod.grace_seconds if pod.node and pod.grace_seconds is not None else 30
    grace = asked if twin.grace_seconds is None else min(asked, twin.grace_seconds)
    after = twin._replace(deleting=True, grace_seconds=grace)
    assert after != twin or not pod.node, "a delete that says nothing new is not repeated"
    return after


def pod_states() -> Iterator[PodKey]:
    flags, nodes, graces = (False, True), ("", "n", "m"), (None, 0, 5, 30)
    pods = [
        None,
        *(
            TenantPodState(
                node=node,
                deleting=deleting,
                grace_seconds=grace if deleting else None,
                is_terminal=terminal or lost,
                had_twin=below,
                was_twin_deleted=taken,
                is_lost=lost,
                has_controller=controller,
            )
            for node, deleting, grace, terminal, below, taken, lost, controller in product(
                nodes, flags, graces, flags, flags, flags, flags, flags
            )
        ),
    ]
    twins = [
        None,
        *(
            SuperPodState(node=node, deleting=deleting, grace_seconds=grace if deleting else None)
            for node, deleting, grace in product(nodes, flags, graces)
        ),
    ]
    for parts in product(dict.fromkeys(pods), dict.fromkeys(twins), flags):
        yield PodKey(*parts)


def test_every_combination_of_a_pod_comes_to_rest_and_stops_writing():
    tried = 0
    for first in pod_states():
        tried += 1
        state, writes = first, 0
        for _ in range(ROUNDS):
            before = state
            after = state.step()
            writes += after != state
            state = after.later()
            if state == before:
                break
        else:
            raise AssertionError(f"never comes to rest: {first}")
        assert writes <= 4, first
        assert state.step() == state, first
        _check_pod(first, state)
    assert tried > 3000


def test_each_step_of_a_pod_has_one_reconciler():
    """A step without a twin gets none, and every other one gets the twin."""
    alone = {lifecycle.decide_step(each.pod, None) for each in pod_states() if each.pod}
    paired = {
        lifecycle.decide_step(each.pod, each.twin)
        for each in pod_states()
        if each.pod and each.twin
    }
    assert alone == set(pod_reconciler._STEPS_WITHOUT_TWIN)
    assert paired == set(pod_reconciler._STEPS_WITH_TWIN)
    assert alone | paired == set(PodStep)


def _check_pod(first: PodKey, last: PodKey) -> None:
    if last.pod is not None:
        quiet = {PodStep.NOTHING, PodStep.SYNC, *(() if first.builds else (PodStep.CREATE,))}
        assert lifecycle.decide_step(last.pod, last.twin) in quiet, first
    if last.pod is None:
        assert last.twin is None, "nothing is left below"
    elif last.twin is None:
        assert last.pod.is_terminal or not first.builds, "a pod that should run does"
    else:
        assert not last.twin.deleting
        assert last.pod.node == last.twin.node, "both are on the same node"
