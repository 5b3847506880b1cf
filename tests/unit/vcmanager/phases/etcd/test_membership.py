"""The next change of members, by tables, and by random faults against a model of etcd."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vcmanager.phases.etcd import member_config
from vcmanager.phases.etcd.member_config import MemberInput, MemberPlan
from vcmanager.phases.etcd.membership import (
    StoreStep,
    choose_membership_step,
    compute_quorum,
    list_ordinals,
)
from vcmanager.runtime.etcd_stores import (
    DesiredStore,
    EtcdObservation,
    Member,
    MemberStatus,
    StoreReport,
)
from vcmanager.runtime.keys import ReconcileKey

OWNER = ReconcileKey("VirtualCluster", "default", "vc-1")


def member(ordinal: int, **fields: Any) -> Member:
    url = member_config.build_peer_url(ordinal)
    return Member(id=f"id-{ordinal}", peer_url=url, ordinal=ordinal, **fields)


def desired(replicas: int, **fields: Any) -> DesiredStore:
    return DesiredStore(owner=OWNER, endpoints={}, peer_urls=(), replicas=replicas, **fields)


def observed(*members: Member, healthy: str, leader: int = 0) -> EtcdObservation:
    """Return an observation. `healthy` has the ordinals that answer."""
    statuses = {
        f"id-{ordinal}": MemberStatus(has_leader=True, is_leader=int(ordinal) == leader)
        for ordinal in healthy
    }
    return EtcdObservation(members=members, statuses=statuses)


VOTERS = tuple(member(number) for number in range(3))
JOINING = member(1, is_learner=True, is_started=False)
LEARNER = member(1, is_learner=True)


@pytest.mark.parametrize(
    ("wanted", "found", "expected"),
    [
        pytest.param(desired(1), observed(*VOTERS[:1], healthy="0"), ("settled", None), id="one"),
        pytest.param(desired(3), observed(*VOTERS, healthy="012"), ("settled", None), id="three"),
        pytest.param(desired(3), observed(*VOTERS, healthy="02"), ("settled", None), id="one away"),
        pytest.param(desired(3), observed(*VOTERS, healthy="0"), ("wait", None), id="no quorum"),
        pytest.param(desired(3), observed(healthy=""), ("wait", None), id="no member"),
        pytest.param(desired(3), observed(*VOTERS[:1], healthy="0"), ("add", 1), id="grow"),
        pytest.param(desired(3), observed(*VOTERS[:2], healthy="01"), ("add", 2), id="grow on"),
        pytest.param(
            desired(3, occupied=frozenset({1})),
            observed(*VOTERS[:1], healthy="0"),
            ("wait", None),
            id="old volume",
        ),
        pytest.param(
            desired(3), observed(VOTERS[0], JOINING, healthy="0"), ("wait", None), id="starting"
        ),
        pytest.param(
            desired(3), observed(VOTERS[0], LEARNER, healthy="01"), ("promote", 1), id="promote"
        ),
        pytest.param(
            desired(3, lost=frozenset({1})),
            observed(VOTERS[0], JOINING, healthy="0"),
            ("wait", None),
            id="no data yet is no loss",
        ),
        pytest.param(
            desired(3, lost=frozenset({1})),
            observed(VOTERS[0], LEARNER, healthy="0"),
            ("remove", 1),
            id="a learner lost its data",
        ),
        pytest.param(
            desired(1), observed(VOTERS[0], LEARNER, healthy="01"), ("remove", 1), id="taken back"
        ),
        pytest.param(
            desired(3, lost=frozenset({1})),
            observed(*VOTERS, healthy="02"),
            ("remove", 1),
            id="lost disk",
        ),
        pytest.param(
            desired(3, lost=frozenset({1})),
            observed(*VOTERS, healthy="012"),
            ("settled", None),
            id="an old message of a member that answers",
        ),
        pytest.param(
            desired(3, lost=frozenset({1})),
            observed(*VOTERS, healthy="0"),
            ("wait", None),
            id="lost disk without a quorum",
        ),
        pytest.param(
            desired(3), observed(VOTERS[0], VOTERS[2], healthy="02"), ("add", 1), id="refill"
        ),
        pytest.param(
            desired(3), observed(VOTERS[0], VOTERS[2], healthy="0"), ("wait", None), id="two of two"
        ),
        pytest.param(
            desired(1), observed(*VOTERS, healthy="012"), ("remove", 2), id="shrink from the end"
        ),
        pytest.param(
            desired(1),
            observed(*VOTERS, healthy="012", leader=2),
            ("transfer", 0),
            id="the leader hands over first",
        ),
        pytest.param(
            desired(1), observed(*VOTERS, healthy="02"), ("wait", None), id="shrink unhealthy"
        ),
        pytest.param(
            desired(1), observed(*VOTERS, healthy="01"), ("remove", 2), id="the missing one goes"
        ),
        pytest.param(
            desired(1), observed(*VOTERS[1:], healthy="12", leader=1), ("add", 0), id="0 stays"
        ),
        pytest.param(
            desired(1),
            observed(*VOTERS[:2], healthy="01"),
            ("remove", 1),
            id="shrink to one",
        ),
    ],
)
def test_the_next_step_follows_from_what_etcd_reports(wanted, found, expected):
    """REL-120, REL-121."""
    step = choose_membership_step(wanted, found)
    ordinal = step.member.ordinal if step.member is not None else step.ordinal
    assert (step.action, ordinal) == expected
    assert (step.action == "settled") == (step.reason == "AsDesired")
    assert bool(step.message) == (step.action != "settled")


def test_a_foreign_member_counts_and_is_left_alone():
    foreign = Member(id="id-9", peer_url="https://other:2380", ordinal=None)
    found = observed(*VOTERS, foreign, healthy="01")
    assert choose_membership_step(desired(3), found).reason == "NoQuorum"
    step = choose_membership_step(desired(3), observed(*VOTERS[:2], foreign, healthy="09"))
    assert step.reason == "MemberUnhealthy", "none is added while another one is missing"
    assert choose_membership_step(desired(3), observed(*VOTERS, foreign, healthy="0129")) == (
        StoreStep(action="settled")
    )


@dataclass
class ModelEtcd:
    """An etcd with its pods, as far as members are concerned, and the manager around it."""

    replicas: int
    """Replicas of the ClusterVersion."""
    members: dict[str, Member] = field(default_factory=dict)
    data: dict[int, str | None] = field(default_factory=dict)
    """Member ID in the volume of each pod, None for an empty volume. No key: no volume."""
    away: set[int] = field(default_factory=set)
    leader: int = 0
    config: MemberPlan | None = None
    pods: int = 0
    numbers: int = 0

    @classmethod
    def formed(cls, replicas: int) -> ModelEtcd:
        """Return an etcd that has just formed."""
        made = cls(replicas=replicas, pods=replicas)
        for ordinal in range(replicas):
            made._add(ordinal, is_learner=False, is_started=True)
            made.data[ordinal] = made.members_of(ordinal)[0].id
        return made

    def members_of(self, ordinal: int) -> list[Member]:
        return [each for each in self.members.values() if each.ordinal == ordinal]

    def voters(self) -> list[Member]:
        return [each for each in self.members.values() if not each.is_learner]

    def answers(self, each: Member) -> bool:
        ordinal = each.ordinal
        assert ordinal is not None
        return (
            ordinal < self.pods and ordinal not in self.away and self.data.get(ordinal) == each.id
        )

    def has_quorum(self) -> bool:
        voters = self.voters()
        return sum(map(self.answers, voters)) >= compute_quorum(len(voters))

    def run_pods(self) -> None:
        """Start pods: one with an empty volume joins if the list lets it."""
        config = dict(self.config.data) if self.config is not None else {}
        for ordinal in range(self.pods):
            self.data.setdefault(ordinal, None)
            joining = [each for each in self.members_of(ordinal) if not each.is_started]
            may_join = member_config.is_joining(ordinal, config)
            if self.data[ordinal] is None and joining and may_join and ordinal not in self.away:
                self.data[ordinal] = joining[0].id
                self.members[joining[0].id] = replace(joining[0], is_started=True)

    def observe(self) -> EtcdObservation:
        if not self.has_quorum():
            return EtcdObservation()
        statuses = {
            each.id: MemberStatus(has_leader=True, is_leader=each.ordinal == self.leader)
            for each in self.members.values()
            if self.answers(each)
        }
        return EtcdObservation(members=tuple(self.members.values()), statuses=statuses)

    def lost(self) -> frozenset[int]:
        """Return the pods that exit because of an empty volume."""
        return frozenset(
            ordinal
            for ordinal, found in self.data.items()
            if found is None and ordinal < self.pods and ordinal not in self.away
        )

    def reconcile_pods(self, found: EtcdObservation) -> None:
        """Write ConfigMap and StatefulSet, and delete volumes, as the manager does."""
        answered = list_ordinals(each for each in found.members if each.id in found.statuses)
        report = StoreReport(
            members=found.members, answered=answered, reason="R", message="m", is_ready=True
        )
        self.config = member_config.plan_members(
            MemberInput(
                desired=self.replicas,
                config=dict(self.config.data) if self.config is not None else None,
                created_with=self.pods,
                report=report,
                pods=range(self.pods),
                volumes=",".join(str(number) for number in range(self.pods)),
            )
        )
        self.pods = self.config.replicas
        ordinals = list_ordinals(found.members)
        for ordinal in list(self.data):
            if ordinals and ordinal > max(ordinals) and ordinal >= self.pods:
                del self.data[ordinal]

    def desired(self) -> DesiredStore:
        known = list_ordinals(self.members.values())
        occupied = frozenset(each for each in self.data if each > max(known))
        return desired(self.replicas, lost=self.lost(), occupied=occupied)

    def carry_out(self, step: StoreStep) -> None:
        match step.action:
            case "add":
                assert step.ordinal is not None
                assert not self.members_of(step.ordinal), "etcd refuses an URL twice"
                self._add(step.ordinal, is_learner=True, is_started=False)
            case "promote":
                assert step.member is not None
                assert self.answers(step.member), "etcd refuses a learner without the data"
                self.members[step.member.id] = replace(step.member, is_learner=False)
            case "remove":
                assert step.member is not None
                del self.members[step.member.id]
            case "transfer":
                assert step.member is not None
                self.leader = step.member.ordinal or 0

    def elect(self) -> None:
        """Elect the leader of the highest ordinal, which is the awkward one."""
        found = [each.ordinal for each in self.voters() if self.answers(each)]
        if self.leader not in found and found:
            self.leader = max(each for each in found if each is not None)

    def may_lose(self, ordinal: int) -> bool:
        """Return whether etcd has a quorum without a pod. No manager survives more."""
        voters = self.voters()
        left = sum(self.answers(each) for each in voters if each.ordinal != ordinal)
        return left >= compute_quorum(len(voters))

    def _add(self, ordinal: int, *, is_learner: bool, is_started: bool) -> None:
        self.numbers += 1
        identity = f"id-{self.numbers}"
        self.members[identity] = Member(
            id=identity,
            peer_url=member_config.build_peer_url(ordinal),
            ordinal=ordinal,
            is_learner=is_learner,
            is_started=is_started,
        )


FAULTS = st.one_of(
    st.tuples(st.just("lose"), st.integers(0, 2)),
    st.tuples(st.just("away"), st.integers(0, 2)),
    st.tuples(st.just("back"), st.integers(0, 2)),
    st.tuples(st.just("scale"), st.sampled_from([1, 3])),
    st.tuples(st.just("work"), st.integers(1, 4)),
    st.tuples(st.just("pods"), st.integers(1, 2)),
)
SCRIPTS = st.tuples(st.sampled_from([1, 3]), st.lists(FAULTS, max_size=30))


def work(etcd: ModelEtcd) -> StoreStep:
    """Check etcd once, as the manager does. Its own step never costs the quorum."""
    found = etcd.observe()
    if not found.members:
        return StoreStep(action="wait")
    step = choose_membership_step(etcd.desired(), found)
    etcd.carry_out(step)
    assert etcd.has_quorum(), step
    etcd.elect()
    return step


def check_script(script: tuple[int, list[tuple[str, int]]]) -> None:
    """Run faults, then let everything come back, and expect the desired members."""
    replicas, faults = script
    etcd = ModelEtcd.formed(replicas)
    etcd.reconcile_pods(etcd.observe())
    for kind, number in faults:
        if kind == "lose" and etcd.may_lose(number) and etcd.data.get(number):
            etcd.data[number] = None
        elif kind == "away" and etcd.may_lose(number):
            etcd.away.add(number)
        elif kind == "back":
            etcd.away.discard(number)
        elif kind == "scale":
            etcd.replicas = number
        elif kind == "work":
            for _ in range(number):
                work(etcd)
        elif kind == "pods":
            etcd.reconcile_pods(etcd.observe())
            etcd.run_pods()
        etcd.elect()
    etcd.away.clear()
    for _ in range(40):
        etcd.run_pods()
        work(etcd)
        etcd.reconcile_pods(etcd.observe())
    etcd.run_pods()
    assert list_ordinals(etcd.members.values()) == set(range(etcd.replicas))
    assert len(etcd.members) == etcd.replicas == etcd.pods
    assert all(map(etcd.answers, etcd.voters()))
    assert len(etcd.voters()) == etcd.replicas
    assert choose_membership_step(etcd.desired(), etcd.observe()).action == "settled"
    assert set(etcd.data) == set(range(etcd.replicas)), "volumes of removed members are deleted"


@settings(deadline=None)
@given(SCRIPTS)
def test_no_own_step_costs_the_quorum_and_the_end_is_as_desired(script):
    """REL-120, REL-121."""
    check_script(script)
