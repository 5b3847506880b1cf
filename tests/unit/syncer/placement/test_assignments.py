"""Assigned clusters of a tenant's pods: facts before records, and the keys that are queued."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from syncer.controllers import cached_objects
from syncer.handlers.split_tenant_events import TargetTenantEvents
from syncer.model.keys import ASSIGNMENT, HOME
from syncer.placement.assignments import UNASSIGNED
from syncer.rules import registry
from syncer.tenants.target_session import TargetSession
from tenancy import wellknown
from tenancy.specs import TargetGrant
from tests.support.syncer.sessions import SessionWorld, put
from tests.support.syncer.two_clusters import SplitWorld


def test_without_a_second_super_cluster_no_one_asks():
    world = SessionWorld()
    entry = world.tenant_has(
        "Pod", "p", metadata={"annotations": {wellknown.ASSIGNED_CLUSTER: "c2/0"}}, spec={}
    )
    assert world.link.assignments.get_cluster(entry) == HOME
    assert not world.link.assignments._assigned


def test_a_twin_that_is_there_is_the_fact_and_a_record_only_the_intent(split: SplitWorld):
    for session in (split.session, split.far):
        name = f"of-{session.name}"
        split.twin(session, name)
        other = "home" if session is split.far else "c2"
        assert (
            split.link.assignments.get_cluster(split.pod(name, record=f"{other}/0")) == session.name
        )


@pytest.mark.parametrize(
    ("record", "cluster"),
    [
        ("c2/0123", "c2"), ("home/0123", HOME), ("", UNASSIGNED), ("c2", UNASSIGNED),
        ("c9/0123", UNASSIGNED), ("/", UNASSIGNED), ("/c2", UNASSIGNED),
    ],
)  # fmt: skip
def test_a_record_counts_when_it_names_what_can_be(split: SplitWorld, record: str, cluster: str):
    assert split.link.assignments.get_cluster(split.pod(record=record)) == cluster


def test_where_nothing_is_offered_only_a_twin_or_a_node_counts(split: SplitWorld):
    split.link.grants.update_granted({})
    assert split.link.assignments.get_cluster(split.pod(record="c2/0")) == UNASSIGNED
    assert split.link.assignments.get_cluster(split.pod("bound", nodeName="target-c2")) == "c2"
    split.twin(split.far, "made")
    assert split.link.assignments.get_cluster(split.pod("made")) == "c2"
    assert not split.link.grants.is_offered("c2")
    assert split.link.grants.is_offered(HOME)


def test_a_bound_pod_is_where_its_node_is(split: SplitWorld):
    assert (
        split.link.assignments.get_cluster(split.pod("a", nodeName="target-c2", record="home/0"))
        == "c2"
    )
    assert split.link.assignments.get_cluster(split.pod("b", nodeName="n", record="c2/0")) == HOME
    assert split.link.assignments.get_cluster(split.pod("c", nodeName="target-c9")) == HOME, (
        "a node of that name"
    )


def test_a_cluster_that_is_taken_is_not_moved_by_a_record(split: SplitWorld):
    assert split.link.assignments.get_cluster(split.pod(record="c2/0")) == "c2"
    assert split.link.assignments.get_cluster(split.pod(record="home/0", version=51)) == "c2"


def test_home_takes_part_when_it_is_named_or_alone(split: SplitWorld):
    split.link.grants.update_granted({"c2": TargetGrant(name="c2")})
    assert (split.link.grants.is_offered(HOME), split.link.grants.is_offered("c2")) == (False, True)
    split.link.grants.update_granted({})
    assert (split.link.grants.is_offered(HOME), split.link.grants.is_offered("c2")) == (True, False)


def test_a_pod_that_is_gone_frees_its_cluster_and_its_peers_are_counted(split: SplitWorld):
    assignments = split.link.assignments
    owner = {"metadata": {"ownerReferences": [{"uid": "r", "controller": True, "kind": "R"}]}}
    first = split.pod("a", record="c2/0", **owner)
    second = split.pod("b", record="c2/0", **owner)
    assert (assignments.get_cluster(first), assignments.get_cluster(second)) == ("c2", "c2")
    assert (assignments.count_peers(first, "c2"), assignments.count_peers(first, HOME)) == (2, 0)
    split.link.stores["Pod"].discard(second, live=True)
    assert assignments.count_peers(first, "c2") == 1
    assert assignments.has_pods_in("c2")
    split.link.stores["Pod"].discard(first, live=True)
    assert not assignments.has_pods_in("c2")
    assert assignments.count_peers(split.pod("bare", record="c2/0"), "c2") == 0


# --- who hears of it ------------------------------------------------------------------------------


def test_a_session_takes_in_the_pods_that_are_assigned_there_and_queues_what_they_need(
    split: SplitWorld,
):
    volume = {"name": "v", "configMap": {"name": "c"}}
    split.pod(record="c2/0", volumes=[volume])
    assert split.far.pods.has_namespace("web")
    assert not split.session.pods.has_namespace("web")
    keys = {key for key in split.taken() if key.super_cluster == "c2"}
    assert {key.kind for key in keys} == {"Pod", "Namespace", "ConfigMap"}
    assert split.far.view.is_referenced("ConfigMap", "web", "c")
    assert not split.session.view.is_referenced("ConfigMap", "web", "c")


def test_a_pod_without_a_cluster_is_to_be_placed_and_is_taken_in_when_it_is(split: SplitWorld):
    entry = split.pod()
    assert split.session.build_key(ASSIGNMENT, "web", "p") in split.taken()
    assert not split.far.pods.has_namespace("web")
    split.link.assignments.assign(entry, "c2")
    split.pod(record="c2/0", version=51)
    assert split.far.pods.has("web", "p")
    assert split.far.build_key("Pod", "web", "p") in split.taken()


def test_a_pod_that_goes_is_dropped_where_it_was(split: SplitWorld):
    entry = split.pod(record="c2/0", volumes=[{"name": "v", "secret": {"secretName": "s"}}])
    split.taken()
    split.link.stores["Pod"].discard(entry, live=True)
    assert not split.far.pods.has_namespace("web")
    assert {key.kind for key in split.taken()} >= {"Secret", "Namespace"}


def test_a_session_that_begins_later_takes_in_what_is_seated_there(split: SplitWorld):
    split.pod(record="c2/0")
    late = TargetSession(
        split.link,
        split.far.super_cluster,
        tenant_slice=ipaddress.ip_network("10.96.8.0/22"),
        target=split.far.target,
    )
    TargetTenantEvents(late).index_assigned_pods()
    assert late.pods.has("web", "p")
    put(split.link.stores["Namespace"], {"metadata": {"name": "web", "uid": "w"}})
    put(split.link.stores["Namespace"], {"metadata": {"name": "other", "uid": "o"}})
    spaces = [key.name for key in late.all_keys.list_keys() if key.kind == "Namespace"]
    assert spaces == ["web"], "what nobody needs there is not even looked at"


def test_what_is_no_longer_wired_hears_nothing(split: SplitWorld):
    events = TargetTenantEvents(split.far)
    events.subscribe()
    before = len(split.link.stores["Pod"]._handlers)
    events.unsubscribe()
    assert len(split.link.stores["Pod"]._handlers) == before - 1


@pytest.mark.parametrize("policy", ["All", "Referenced"])
def test_a_config_map_goes_where_a_pod_refers_to_it_whatever_the_policy_is(
    split: SplitWorld, policy: str
):
    sync = split.far.view.policy.sync
    object.__setattr__(split.far.view, "policy", _with(split.far.view.policy, sync, policy))
    entry = split.tenant_has("ConfigMap", "c")
    key = split.far.build_key("ConfigMap", "web", "c")
    assert not cached_objects.read_pair(registry.KINDS_BY_NAME["ConfigMap"], key, split.far).wanted
    split.pod(record="c2/0", volumes=[{"name": "v", "configMap": {"name": "c"}}])
    assert cached_objects.read_pair(registry.KINDS_BY_NAME["ConfigMap"], key, split.far).wanted
    assert entry.name == "c"


def _with(policy: Any, sync: Any, config_maps: str) -> Any:
    import msgspec  # noqa: PLC0415 - only here

    changed = msgspec.structs.replace(sync, config_maps=config_maps)
    return msgspec.structs.replace(policy, sync=changed)


def test_a_namespace_is_there_while_a_pod_is_seated_or_a_twin_is_left(split: SplitWorld):
    split.tenant_has("Namespace", "web", namespace="")
    key, kind = split.far.build_key("Namespace", "", "web"), registry.KINDS_BY_NAME["Namespace"]

    def wanted() -> bool:
        return cached_objects.read_pair(kind, key, split.far).wanted

    assert not wanted()
    entry = split.pod(record="c2/0")
    assert wanted()
    twin = split.twin(split.far)
    split.link.stores["Pod"].discard(entry, live=True)
    assert wanted(), "nothing of it is lost"
    split.far.twins.get_store("Pod").discard(twin, live=True)
    assert not wanted()
