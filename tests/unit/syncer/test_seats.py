"""Where a tenant's pods are seated: facts before records, and one seat at a time."""

from __future__ import annotations

import asyncio
import ipaddress
from types import SimpleNamespace
from typing import Any

import pytest

from kubeio import errors
from kubeio.store import Entry
from kubeio.worker import Again, Done, Wait
from syncer import downward, kinds, patrol, wiring
from syncer.flows import candidates, placement
from syncer.flows import pods as pod_flow
from syncer.keys import HOME, PLACEMENT, Key
from syncer.muster import Muster
from syncer.seats import NOWHERE, OPENING_SECONDS
from syncer.session import Session
from syncer.supercluster import SuperCluster
from tenancy import marks, ownership
from tenancy.specs import TargetGrant
from tenancy.super_clusters import NetworkFacts, SuperClusterSpec
from tests.unit.syncer.sessions import CONTAINERS, Api, World, put

THERE = {"type": "virtual-kubelet"}
READY = {
    "metadata": {"name": "n", "uid": "n", "resourceVersion": "1"},
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
POD = kinds.BY_NAME["Pod"]
OWNER = {"kind": "ReplicaSet", "name": "r", "uid": "r-uid", "controller": True}


def muster_of(name: str) -> Muster:
    """Return a muster that misses nothing."""
    return Muster(name=name, identity="i", there=lambda: 0, changed=lambda: None)


class Split(World):
    """A tenant that is granted home and c2."""

    def __init__(self) -> None:
        super().__init__(is_split=True)
        self.there, seats = Api(), self.link.seats
        seats.granted = {HOME: TargetGrant(name=HOME), "c2": TargetGrant(name="c2")}
        seats.known = {"c2"}
        below = SuperCluster(self.there, name="c2", registration="r1")  # type: ignore[arg-type]
        target: Any = SimpleNamespace(
            registration="r1",
            problem="",
            muster=muster_of("c2"),
            spec=SuperClusterSpec(network=NetworkFacts(resolvers=("10.98.0.10",))),
        )
        self.far = Session(
            self.link, below, tenant_slice=ipaddress.ip_network("10.96.8.0/22"), target=target
        )
        self.link.sessions.append(self.far)
        self.far.tenant_client = self.above  # type: ignore[assignment]
        self.far.deletions._tenant_client = self.above  # type: ignore[assignment]
        self.far.is_ready = True
        for session in (self.session, self.far):
            wiring.wire_tenant(session)
            put(session.super_cluster.nodes, READY)

    def pod(self, name: str = "p", *, record: str = "", version: int = 50, **spec: Any) -> Entry:
        """Put a tenant pod into the cache."""
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": "web",
            "uid": f"{name}-uid",
            "resourceVersion": str(version),
            **spec.pop("metadata", {}),
        }
        if record:
            metadata["annotations"] = {marks.SEAT: record}
        body = {"kind": "Pod", "metadata": metadata, "spec": {"containers": CONTAINERS, **spec}}
        return put(self.link.stores["Pod"], body)

    def twin(self, session: Session, name: str = "p", **spec: Any) -> Entry:
        """Put the twin of a pod into a super cluster's cache."""
        metadata = {
            "name": name,
            "namespace": session.view.super_namespace("web"),
            "uid": f"{name}-below",
            "resourceVersion": "60",
            "labels": ownership.labels(session.tenant, "web"),
            "annotations": ownership.annotations(session.tenant, "web", f"{name}-uid"),
        }
        return put(session.super_store("Pod"), {"metadata": metadata, "spec": spec})

    def taken(self) -> set[Key]:
        """Return what the queue gives out."""
        found = set(iter(self.link.queue.take, None))
        for key in found:
            self.link.queue.done(key)
        return found

    async def place(self, name: str = "p") -> Any:
        """Have a pod placed."""
        return await placement.reconcile(self.session.key(PLACEMENT, "web", name), self.session)

    def record(self) -> str:
        """Return the record that was written last."""
        body = self.above.bodies[-1]
        return str(body["metadata"]["annotations"][marks.SEAT])


@pytest.fixture
def split(monkeypatch: pytest.MonkeyPatch) -> Split:
    monkeypatch.setattr(candidates, "_refusal", lambda *_: "")
    return Split()


def test_without_a_second_super_cluster_nobody_asks():
    world = World()
    entry = world.tenant_has("Pod", "p", metadata={"annotations": {marks.SEAT: "c2/0"}}, spec={})
    assert world.link.seats.of(entry) == HOME
    assert not world.link.seats._taken


def test_a_twin_that_is_there_is_the_fact_and_a_record_only_the_intent(split: Split):
    for session in (split.session, split.far):
        name = f"of-{session.name}"
        split.twin(session, name)
        other = "home" if session is split.far else "c2"
        assert split.link.seats.of(split.pod(name, record=f"{other}/0")) == session.name


@pytest.mark.parametrize(
    ("record", "seat"),
    [
        ("c2/0123", "c2"), ("home/0123", HOME), ("", NOWHERE), ("c2", NOWHERE),
        ("c9/0123", NOWHERE), ("/", NOWHERE), ("/c2", NOWHERE),
    ],
)  # fmt: skip
def test_a_record_counts_when_it_names_what_can_be(split: Split, record: str, seat: str):
    assert split.link.seats.of(split.pod(record=record)) == seat


def test_where_nothing_is_offered_only_a_twin_or_a_node_counts(split: Split):
    split.link.seats.granted, split.link.seats.known = {}, {"c2"}
    assert split.link.seats.of(split.pod(record="c2/0")) == NOWHERE
    assert split.link.seats.of(split.pod("bound", nodeName="target-c2")) == "c2"
    split.twin(split.far, "made")
    assert split.link.seats.of(split.pod("made")) == "c2"
    assert not split.link.seats.offers("c2")
    assert split.link.seats.offers(HOME)


def test_a_bound_pod_is_where_its_node_is(split: Split):
    assert split.link.seats.of(split.pod("a", nodeName="target-c2", record="home/0")) == "c2"
    assert split.link.seats.of(split.pod("b", nodeName="n", record="c2/0")) == HOME
    assert split.link.seats.of(split.pod("c", nodeName="target-c9")) == HOME, "a node of that name"


def test_a_seat_that_is_taken_is_not_moved_by_a_record(split: Split):
    assert split.link.seats.of(split.pod(record="c2/0")) == "c2"
    assert split.link.seats.of(split.pod(record="home/0", version=51)) == "c2"


def test_home_takes_part_when_it_is_named_or_alone(split: Split):
    seats = split.link.seats
    seats.granted = {"c2": TargetGrant(name="c2")}
    assert (seats.offers(HOME), seats.offers("c2")) == (False, True)
    seats.granted = {}
    assert (seats.offers(HOME), seats.offers("c2")) == (True, False)


def test_a_pod_that_is_gone_frees_its_seat_and_its_peers_are_counted(split: Split):
    seats = split.link.seats
    owner = {"metadata": {"ownerReferences": [{"uid": "r", "controller": True, "kind": "R"}]}}
    first = split.pod("a", record="c2/0", **owner)
    second = split.pod("b", record="c2/0", **owner)
    assert (seats.of(first), seats.of(second)) == ("c2", "c2")
    assert (seats.peers(first, "c2"), seats.peers(first, HOME)) == (2, 0)
    split.link.stores["Pod"].discard(second, live=True)
    assert seats.peers(first, "c2") == 1
    assert seats.is_any_at("c2")
    split.link.stores["Pod"].discard(first, live=True)
    assert not seats.is_any_at("c2")
    assert seats.peers(split.pod("bare", record="c2/0"), "c2") == 0


# --- who hears of it ------------------------------------------------------------------------------


def test_a_session_takes_in_the_pods_that_are_seated_there_and_queues_what_they_need(split: Split):
    volume = {"name": "v", "configMap": {"name": "c"}}
    split.pod(record="c2/0", volumes=[volume])
    assert split.far.pods.is_in("web")
    assert not split.session.pods.is_in("web")
    keys = {key for key in split.taken() if key.super_cluster == "c2"}
    assert {key.kind for key in keys} == {"Pod", "Namespace", "ConfigMap"}
    assert split.far.view.is_referenced("ConfigMap", "web", "c")
    assert not split.session.view.is_referenced("ConfigMap", "web", "c")


def test_a_pod_without_a_seat_is_to_be_placed_and_is_taken_in_when_it_is(split: Split):
    entry = split.pod()
    assert split.session.key(PLACEMENT, "web", "p") in split.taken()
    assert not split.far.pods.is_in("web")
    split.link.seats.take(entry, "c2")
    split.pod(record="c2/0", version=51)
    assert split.far.pods.has("web", "p")
    assert split.far.key("Pod", "web", "p") in split.taken()


def test_a_pod_that_goes_is_dropped_where_it_was(split: Split):
    entry = split.pod(record="c2/0", volumes=[{"name": "v", "secret": {"secretName": "s"}}])
    split.taken()
    split.link.stores["Pod"].discard(entry, live=True)
    assert not split.far.pods.is_in("web")
    assert {key.kind for key in split.taken()} >= {"Secret", "Namespace"}


def test_a_session_that_begins_later_takes_in_what_is_seated_there(split: Split):
    split.pod(record="c2/0")
    late = Session(
        split.link,
        split.far.super_cluster,
        tenant_slice=ipaddress.ip_network("10.96.8.0/22"),
        target=split.far.target,
    )
    wiring.take_in(late)
    assert late.pods.has("web", "p")
    put(split.link.stores["Namespace"], {"metadata": {"name": "web", "uid": "w"}})
    put(split.link.stores["Namespace"], {"metadata": {"name": "other", "uid": "o"}})
    spaces = [key.name for key in late.all_keys() if key.kind == "Namespace"]
    assert spaces == ["web"], "what nobody needs there is not even looked at"


def test_what_is_not_wired_any_more_hears_nothing(split: Split):
    unwire = wiring.wire_tenant(split.far)
    before = len(split.link.stores["Pod"]._handlers)
    unwire()
    assert len(split.link.stores["Pod"]._handlers) == before - 1


@pytest.mark.parametrize("policy", ["All", "Referenced"])
def test_a_config_map_goes_where_a_pod_refers_to_it_whatever_the_policy_says(
    split: Split, policy: str
):
    sync = split.far.view.policy.sync
    object.__setattr__(split.far.view, "policy", _with(split.far.view.policy, sync, policy))
    entry = split.tenant_has("ConfigMap", "c")
    key = split.far.key("ConfigMap", "web", "c")
    assert not downward.look(kinds.BY_NAME["ConfigMap"], key, split.far).wanted
    split.pod(record="c2/0", volumes=[{"name": "v", "configMap": {"name": "c"}}])
    assert downward.look(kinds.BY_NAME["ConfigMap"], key, split.far).wanted
    assert entry.name == "c"


def _with(policy: Any, sync: Any, config_maps: str) -> Any:
    import msgspec  # noqa: PLC0415 - only here

    changed = msgspec.structs.replace(sync, config_maps=config_maps)
    return msgspec.structs.replace(policy, sync=changed)


def test_a_namespace_is_there_while_a_pod_is_seated_or_a_twin_is_left(split: Split):
    split.tenant_has("Namespace", "web", namespace="")
    key, kind = split.far.key("Namespace", "", "web"), kinds.BY_NAME["Namespace"]

    def wanted() -> bool:
        return downward.look(kind, key, split.far).wanted

    assert not wanted()
    entry = split.pod(record="c2/0")
    assert wanted()
    twin = split.twin(split.far)
    split.link.stores["Pod"].discard(entry, live=True)
    assert wanted(), "nothing of it is lost"
    split.far.super_store("Pod").discard(twin, live=True)
    assert not wanted()


# --- placing --------------------------------------------------------------------------------------


async def test_a_pod_is_recorded_before_anything_else(split: Split):
    split.pod(nodeSelector=THERE)
    assert await split.place() == Done()
    (asked,) = split.above.writes()
    assert asked == ("patch", "Pod", "p")
    metadata = split.above.bodies[-1]["metadata"]
    assert (metadata["uid"], metadata["resourceVersion"]) == ("p-uid", "50")
    name, _, digits = split.record().partition("/")
    assert (name, len(digits)) == ("c2", 16)
    assert split.there.writes() == split.below.writes() == []
    assert split.link.seats.of(split.pod(version=51, record=split.record())) == "c2"


async def test_a_record_that_is_refused_seats_nobody(split: Split):
    entry = split.pod(nodeSelector=THERE)
    split.above.refusals["patch"] = errors.Conflict("changed")
    with pytest.raises(Wait):
        await split.place()
    assert split.link.seats.of(entry) == NOWHERE


async def test_ten_of_one_moment_do_not_all_see_the_same_room(split: Split):
    requests = {"requests": {"cpu": "1"}}
    for number in range(8):
        split.pod(f"p{number}", containers=[{"name": "c", "resources": requests}])
        await split.place(f"p{number}")
    entries = split.link.stores["Pod"].list()
    seated = [split.link.seats.of(entry) for entry in entries]
    assert sorted(seated) == ["c2"] * 4 + [HOME] * 4
    assert split.far.super_cluster.inventory.free()["cpu"] == 0
    split.link.stores["Pod"].discard(entries[seated.index("c2")], live=True)
    assert split.far.super_cluster.inventory.free()["cpu"] == 1, "a promise ends with its pod"


async def test_a_pod_that_goes_nowhere_is_told_as_a_scheduler_would(split: Split):
    split.pod(nodeSelector={marks.TARGET: "c9"})
    verdict = await split.place()
    assert isinstance(verdict, Again)
    assert split.told() == ["FailedScheduling"]
    message = split.above.bodies[-1]["message"]
    assert message.startswith("0/2 clusters are available: ")
    assert "c2 has no node that matches" in message


async def test_a_target_whose_node_is_cordoned_takes_no_more():
    split = Split()
    split.far.target.refusal = ""  # type: ignore[union-attr]
    status = SimpleNamespace(endpoint="https://192.0.2.8:6443")
    split.far.is_ready = True
    split.link.cluster = SimpleNamespace(status=status)  # type: ignore[assignment]
    node = {"metadata": {"name": "target-c2", "uid": "t"}, "spec": {"unschedulable": True}}
    put(split.link.stores["Node"], node)
    split.link.seats.granted = {"c2": TargetGrant(name="c2")}
    split.pod()
    assert isinstance(await split.place(), Again)
    assert split.told() == ["FailedScheduling"]
    message = split.above.bodies[-1]["message"]
    assert message == "0/1 clusters are available: c2 is unschedulable."
    put(split.link.stores["Node"], {"metadata": {**node["metadata"], "resourceVersion": "9"}})
    assert await split.place() == Done()
    assert split.record().startswith("c2/")


@pytest.mark.parametrize(
    "pod",
    [
        {"schedulingGates": [{"name": "g"}]},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
    ],
)
async def test_a_pod_that_is_held_or_going_is_not_placed(split: Split, pod: Any):
    split.pod(**pod)
    assert await split.place() == Done()
    assert split.above.writes() == []


async def test_a_pod_of_before_the_grant_stays_and_is_recorded(split: Split):
    split.pod()
    split.twin(split.session)
    split.link.seats.granted = {"c2": TargetGrant(name="c2")}
    await split.place()
    assert split.record().startswith("home/")


# --- what each super cluster's key does -----------------------------------------------------------


def key_of(session: Session, name: str = "p") -> Key:
    return session.key("Pod", "web", name)


async def test_a_pod_is_made_where_it_is_seated_and_nowhere_else(split: Split):
    split.ready()
    split.pod(record="c2/0")
    assert await pod_flow.reconcile(POD, key_of(split.session), split.session) == Done()
    assert split.below.writes() == []
    with pytest.raises(Wait, match="super namespace"):
        await pod_flow.reconcile(POD, key_of(split.far), split.far)
    assert split.far.key("Namespace", "", "web") in split.taken()


async def test_nothing_is_made_without_a_record_or_a_grant(split: Split):
    entry = split.pod()
    split.link.seats.take(entry, "c2")
    with pytest.raises(Wait, match="record"):
        await pod_flow.reconcile(POD, key_of(split.far), split.far)
    assert split.session.key(PLACEMENT, "web", "p") in split.taken()
    split.pod(record="c2/0", version=51)
    split.link.seats.granted = {HOME: TargetGrant(name=HOME)}
    with pytest.raises(Wait, match="not granted"):
        await pod_flow.reconcile(POD, key_of(split.far), split.far)


async def test_a_stale_twin_goes_by_its_uid(split: Split):
    """What a target has after it was away, of a pod that is seated elsewhere by now."""
    entry = split.pod(record="home/0")
    split.link.seats.take(entry, HOME)
    split.twin(split.far)
    split.there.objects["Pod", "p"] = split.far.super_store("Pod").list()[0].decode()
    split.above.objects["Pod", "p"] = entry.decode()
    split.far.brake._verified_at = float("inf")
    await pod_flow.reconcile(POD, key_of(split.far), split.far)
    assert split.there.writes() == [("delete", "Pod", "p")]


async def test_only_the_seat_of_a_pod_lets_it_go(split: Split):
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    split.pod(record="c2/0", metadata=going)
    await pod_flow.reconcile(POD, key_of(split.session), split.session)
    assert split.above.writes() == [], "its twin may be at c2, where nobody has looked yet"


async def test_a_pod_that_was_never_seated_is_let_go_at_home(split: Split):
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    split.pod(metadata=going)
    assert await pod_flow.reconcile(POD, key_of(split.far), split.far) == Done()
    assert split.above.writes() == []
    await pod_flow.reconcile(POD, key_of(split.session), split.session)
    assert split.above.writes() == [("delete", "Pod", "p")]


def test_the_node_of_a_twin_there_is_the_one_that_the_tenant_knows(split: Split):
    twin = split.twin(split.far, nodeName="n").decode()
    assert pod_flow.twin_side(twin, split.far).node == "target-c2"
    assert pod_flow.twin_side(twin, split.session).node == "n"
    waiting = split.twin(split.far, "q").decode()
    assert pod_flow.twin_side(waiting, split.far).node == ""


def test_who_goes_nowhere_is_looked_at_when_a_target_takes_others_than_before(split: Split):
    for name in ("waits", "runs"):
        split.pod(name)
    split.link.seats.take(split.pod("runs"), HOME)
    split.taken()
    waits = split.session.key(PLACEMENT, "web", "waits")
    for name, is_heard in (("target-c2", True), ("other", False)):
        put(split.link.stores["Node"], {"metadata": {"name": name, "uid": "n"}, "spec": {}})
        placed = {key for key in split.taken() if key.kind == PLACEMENT}
        assert placed == ({waits} if is_heard else set())


def test_who_goes_nowhere_is_looked_at_when_its_namespace_has_other_labels(split: Split):
    split.pod("waits")
    spaces, waits = split.link.stores["Namespace"], split.session.key(PLACEMENT, "web", "waits")

    def woken(name: str, version: int, **labels: str) -> bool:
        known = {"name": name, "uid": name, "resourceVersion": str(version), "labels": labels}
        put(spaces, {"metadata": known})
        return waits in split.taken()

    split.taken()
    assert woken("web", 51)
    assert woken("web", 52, elect="enabled")
    assert not woken("web", 53, elect="enabled")
    assert not woken("other", 54, elect="enabled")


def test_nodes_there_are_called_by_the_one_that_stands_for_them(split: Split):
    put(split.far.super_cluster.nodes, {"metadata": {"name": "there-7", "uid": "7"}})
    said = "Successfully assigned web/p to there-7"
    for known in ("", "there-7"):
        clean = split.far.scrubber.clean(said, node=known)
        assert clean == "Successfully assigned web/p to target-c2"
    assert split.session.scrubber.clean(said) == said, "nobody there is called so"


def test_pods_there_have_the_tenants_api_by_its_url_and_the_targets_resolver(split: Split):
    master = {"ports": [{"port": 443}], "clusterIP": "10.96.8.1"}
    split.tenant_has("Service", "kubernetes", "default", spec=master)
    (service,) = split.far.view.services("web")
    assert service["spec"]["clusterIP"] == "kubernetes.invalid", "its own would mean another there"
    assert split.far.view.resolver().server == "10.98.0.10"


# --- what may happen while something is awaited ---------------------------------------------------


async def test_replicas_whose_records_are_on_their_way_are_spread_all_the_same(split: Split):
    patch = split.above.patch

    async def slow(*args: Any, **options: Any) -> Any:
        for _ in range(20):  # until all of them have chosen
            await asyncio.sleep(0)
        return await patch(*args, **options)

    split.above.patch = slow  # type: ignore[method-assign]
    requests = {"requests": {"cpu": "100m"}}
    names = [f"r{number}" for number in range(10)]
    for name in names:
        split.pod(
            name,
            metadata={"ownerReferences": [OWNER]},
            containers=[{"name": "c", "resources": requests}],
        )
    await asyncio.gather(*(split.place(name) for name in names))
    seated = [split.link.seats.of(entry) for entry in split.link.stores["Pod"].list()]
    assert sorted(seated) == ["c2"] * 5 + [HOME] * 5
    assert float(split.far.super_cluster.inventory.free()["cpu"]) == 3.5


async def test_a_place_whose_record_is_refused_is_given_back(split: Split):
    entry = split.pod(nodeSelector=THERE, metadata={"ownerReferences": [OWNER]})
    before = split.far.super_cluster.inventory.free()
    split.above.refusals["patch"] = errors.Conflict("changed")
    with pytest.raises(Wait):
        await split.place()
    assert split.link.seats.peers(entry, "c2") == 0
    assert split.far.super_cluster.inventory.free() == before


async def test_a_pod_that_goes_while_it_is_recorded_takes_no_seat(split: Split):
    pod = split.pod(nodeSelector=THERE)
    patch = split.above.patch

    async def slow(*args: Any, **options: Any) -> Any:
        answer = await patch(*args, **options)
        split.link.stores["Pod"].discard(pod, live=True)
        return answer

    split.above.patch = slow  # type: ignore[method-assign]
    await split.place()
    seats = split.link.seats
    assert not seats.is_any_at("c2")
    assert not {**seats._promised, **seats._trials}
    assert not split.far.super_cluster.inventory._promised
    assert not split.far.pods.is_in("web")


async def test_what_was_promised_is_given_back_with_the_link(split: Split):
    split.pod(nodeSelector=THERE)
    await split.place()
    assert split.far.super_cluster.inventory._promised
    split.link.seats.release()
    assert not split.far.super_cluster.inventory._promised


@pytest.mark.parametrize(("node", "seat"), [("n", HOME), ("target-c2", "c2")])
async def test_a_pod_that_names_its_node_is_recorded_and_made(split: Split, node: str, seat: str):
    split.ready()
    pod = split.pod(nodeName=node)
    here = split.session if seat == HOME else split.far
    with pytest.raises(Wait, match="record"):
        placement.check(pod, here)
    assert split.session.key(PLACEMENT, "web", "p") in split.taken()
    assert await split.place() == Done()
    assert split.record().startswith(f"{seat}/")
    placement.check(split.pod(nodeName=node, record=split.record(), version=51), here)
    assert await split.place() == Done()
    assert len(split.above.writes()) == 1, "and never moves"


# --- a grant that is withdrawn, and what was there before -----------------------------------------


async def proved(*_: object) -> None:
    """What was found missing is gone."""


def withdrawn(split: Split) -> None:
    """Have c2 granted no more."""
    split.link.seats.granted = {HOME: TargetGrant(name=HOME)}
    split.far.target.prove = proved  # type: ignore[union-attr,method-assign]


async def test_who_waits_where_nothing_is_granted_any_more_is_placed_anew(split: Split):
    pod = split.pod(record="c2/0")
    split.taken()
    withdrawn(split)
    with pytest.raises(Wait, match="not granted"):
        await pod_flow.reconcile(POD, key_of(split.far), split.far)
    assert split.session.key(PLACEMENT, "web", "p") in split.taken()
    await split.place()
    await split.place()
    assert split.record().startswith("home/")
    assert split.link.seats.of(pod) == HOME
    assert not split.link.seats.is_any_at("c2")


async def test_who_fits_nowhere_else_does_not_keep_the_target_either(split: Split):
    pod = split.pod(record="c2/0", nodeSelector={marks.TARGET: "c2"})
    withdrawn(split)
    split.link.seats.granted = {"c3": TargetGrant(name="c3")}
    await split.place()
    assert split.link.seats.left(pod) == "c2"
    assert isinstance(await split.place(), Again)
    assert split.link.seats.of(pod) == NOWHERE
    assert not split.link.seats.is_any_at("c2")
    split.link.seats.granted = {"c2": TargetGrant(name="c2")}
    await split.place()
    assert split.record().startswith("c2/"), "and it is placed once it is granted again"


@pytest.mark.parametrize("forged", [{"record": "c2/x"}, {"nodeName": "target-c2"}])
def test_nothing_a_pod_needs_goes_where_nothing_is_granted(split: Split, forged: Any):
    withdrawn(split)
    split.tenant_has("Namespace", "web", namespace="")
    split.tenant_has("Secret", "s")
    split.pod(volumes=[{"name": "v", "secret": {"secretName": "s"}}], **forged)
    assert not split.far.pods.is_in("web")
    for kind, namespace, name in (("Namespace", "", "web"), ("Secret", "web", "s")):
        key = split.far.key(kind, namespace, name)
        assert not downward.look(kinds.BY_NAME[kind], key, split.far).wanted
        assert key not in set(split.far.all_keys())
    is_bound = "nodeName" in forged
    assert (key_of(split.far) in set(split.far.all_keys())) == is_bound, "it may have to end there"


def test_what_a_pod_that_runs_there_needs_stays_until_its_twin_goes(split: Split):
    split.pod(record="c2/0", volumes=[{"name": "v", "secret": {"secretName": "s"}}])
    withdrawn(split)
    wiring.look_again(split.link)
    assert not split.far.view.is_referenced("Secret", "web", "s")
    below = wiring.SuperWiring(split.far.super_cluster, {split.far.tenant.uid: split.far})
    below.subscribe()
    twin = split.twin(split.far, nodeName="n")  # its create was on its way
    assert split.far.view.is_referenced("Secret", "web", "s")
    split.taken()
    split.far.super_store("Pod").discard(twin, live=True)
    assert not split.far.view.is_referenced("Secret", "web", "s")
    assert split.far.key("Secret", "web", "s") in split.taken()
    assert split.far.key("Pod", "web", "p") in set(split.far.all_keys()), "it is ended there"


async def test_a_record_that_does_not_count_is_read_after_live(split: Split):
    """It may be of a create whose answer never came, before we began."""
    split.pod(record="c2/0", version=49)
    split.link.seats.gone("p-uid")  # what was there at the start: it is not known to be new
    withdrawn(split)
    assert await split.place() == Done()
    assert split.there.asked == [("get", "Pod", "p")]
    assert split.record().startswith("home/")


async def test_a_pod_that_is_deleted_on_its_way_out_ends_where_it_was(split: Split):
    pod = split.pod(record="c2/0")
    split.twin(split.far, nodeName="n")
    split.link.seats.leave(pod)
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    pod = split.pod(record="c2/0", version=51, metadata=going)
    split.taken()
    await pod_flow.reconcile(POD, key_of(split.session), split.session)
    assert split.session.key(PLACEMENT, "web", "p") in split.taken()
    assert await split.place() == Done()
    assert split.link.seats.of(pod) == "c2"
    assert key_of(split.far) in split.taken()


def begun_before(split: Split, **fields: Any) -> Entry:
    """Have a pod there at the start, while the session in c2 is not there yet."""
    split.link.sessions.remove(split.far)
    body = split.pod(**fields).decode()
    split.link.seats.gone("p-uid")
    split.taken()
    return put(split.link.stores["Pod"], body)


@pytest.mark.parametrize("record", ["", "home/forged", "c2/0"])
async def test_after_a_start_nothing_is_made_before_every_target_was_seen(
    split: Split, record: str
):
    split.ready()
    pod = begun_before(split, record=record)
    seats = split.link.seats
    assert seats.unproved(pod) == "c2"
    await pod_flow.reconcile(POD, key_of(split.session), split.session)
    assert isinstance(await split.place(), Again)
    assert split.above.writes() == split.below.writes() == []
    assert seats.of(pod) == NOWHERE
    split.link.sessions.append(split.far)
    split.twin(split.far, nodeName="n")
    wiring.take_in(split.far)
    assert seats.of(pod) == "c2", "the twin is the fact"
    split.taken()
    wiring.look_again(split.link)
    assert {key_of(split.far), split.session.key(PLACEMENT, "web", "p")} <= split.taken()
    if record != "c2/0":
        await split.place()
        assert split.record().startswith("c2/"), "and its record is put right"


async def test_one_that_is_deleted_is_not_let_go_before_either(split: Split):
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    begun_before(split, metadata=going)
    verdict = await pod_flow.reconcile(POD, key_of(split.session), split.session)
    assert isinstance(verdict, Again)
    assert split.above.writes() == []


async def test_a_bound_pod_is_not_made_before_either(split: Split):
    pod = begun_before(split, nodeName="n", record="home/0")
    with pytest.raises(Wait, match="c2 may have a twin"):
        placement.check(pod, split.session)


async def test_who_is_made_after_the_start_does_not_wait_for_a_target_that_is_away(split: Split):
    split.link.sessions.remove(split.far)
    pod = split.pod()
    assert await split.place() == Done()
    assert split.record().startswith("home/")
    placement.check(split.pod(record=split.record(), version=51), split.session)
    split.link.stores["Pod"].discard(pod, live=True)
    assert not split.link.seats._new


def test_nobody_is_seated_before_anybody_has_looked(split: Split):
    split.link.seats.known = None
    pod = split.pod(record="home/0")
    assert split.link.seats.of(pod) == NOWHERE
    split.link.seats._new.clear()
    assert split.link.seats.unproved(pod)


def test_no_twin_is_made_beside_another(split: Split):
    pod = split.pod(nodeName="n", record="home/0")
    split.twin(split.far)
    assert split.link.seats.of(pod) == HOME
    with pytest.raises(Wait, match="its twin in c2 has to go first"):
        placement.check(pod, split.session)


def test_a_record_that_somebody_else_wrote_is_put_right(split: Split):
    split.pod(record="c2/0")
    split.taken()
    split.pod(record="c2/0", version=51)
    assert split.session.key(PLACEMENT, "web", "p") not in split.taken()
    split.pod(record="home/forged", version=52)
    assert split.session.key(PLACEMENT, "web", "p") in split.taken()


def test_the_patrol_passes_by_what_is_seated_elsewhere(split: Split):
    split.pod(record="c2/0")
    assert not patrol.differs(key_of(split.session), split.session)
    assert patrol.differs(key_of(split.far), split.far), "it is to be made there"
    split.twin(split.session)
    assert patrol.differs(key_of(split.session), split.session), "but what is stale goes"


@pytest.mark.parametrize("is_gone", [False, True])
async def test_a_pod_waits_a_moment_for_a_target_that_opens_and_no_longer(
    split: Split, monkeypatch: pytest.MonkeyPatch, is_gone: bool
):
    """Whether its session has not begun, or is not ready; each time anew."""
    if is_gone:
        split.link.sessions.remove(split.far)
    monkeypatch.setattr(candidates, "_refusal", lambda *_: candidates._LATE)
    split.pod()
    now = split.session.now()
    monkeypatch.setattr(Session, "now", lambda _: now)
    for _ in range(2):
        split.link.seats.opens("c3", now)
        split.link.seats.opens("c2", now)
        assert await split.place() == Again(placement.OPENING_LOOK_SECONDS)
        assert split.above.bodies == []
        now += OPENING_SECONDS
    await split.place()
    assert split.record().startswith("home/")
    split.pod("q")
    monkeypatch.setattr(candidates, "_refusal", lambda *_: "does not answer")
    split.link.seats.opens("c2", now)
    if not is_gone:
        await split.place("q")
        assert len(split.above.bodies) == 2, "it will not come in a moment"
