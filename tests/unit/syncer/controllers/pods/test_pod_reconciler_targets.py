"""The reconcile of a pod in each super cluster: one assigned cluster at a time."""

from __future__ import annotations

import pytest

from kubeio.controller.worker import Done, NotReadyYet
from syncer.controllers.pods import pod_reconciler as pod_flow
from syncer.model.keys import ASSIGNMENT, HOME
from syncer.rules.configuration import service_variables
from syncer.rules.pods import dns
from tenancy.specs import TargetGrant
from tests.support.syncer.sessions import put
from tests.support.syncer.two_clusters import POD, SplitWorld, key_of


async def test_a_pod_is_made_where_it_is_seated_and_nowhere_else(split: SplitWorld):
    split.ready()
    split.pod(record="c2/0")
    assert await pod_flow.reconcile_pod(POD, key_of(split.session), split.session) == Done()
    assert split.below.writes() == []
    with pytest.raises(NotReadyYet, match="super namespace"):
        await pod_flow.reconcile_pod(POD, key_of(split.far), split.far)
    assert split.far.build_key("Namespace", "", "web") in split.taken()


async def test_nothing_is_made_without_a_record_or_a_grant(split: SplitWorld):
    entry = split.pod()
    split.link.assignments.assign(entry, "c2")
    with pytest.raises(NotReadyYet, match="record"):
        await pod_flow.reconcile_pod(POD, key_of(split.far), split.far)
    assert split.session.build_key(ASSIGNMENT, "web", "p") in split.taken()
    split.pod(record="c2/0", version=51)
    split.link.grants.update_granted({HOME: TargetGrant(name=HOME)})
    with pytest.raises(NotReadyYet, match="not granted"):
        await pod_flow.reconcile_pod(POD, key_of(split.far), split.far)


async def test_a_stale_twin_goes_by_its_uid(split: SplitWorld):
    """A target that returns still has a pod that is assigned to another cluster by now."""
    entry = split.pod(record="home/0")
    split.link.assignments.assign(entry, HOME)
    split.twin(split.far)
    split.there.has("Pod", "p", split.far.twins.get_store("Pod").list()[0].decode())
    split.above.has("Pod", "p", entry.decode())
    split.far.store_guard._verified_at = float("inf")
    await pod_flow.reconcile_pod(POD, key_of(split.far), split.far)
    assert split.there.writes() == [("delete", "Pod", "p")]


async def test_only_the_cluster_of_a_pod_lets_it_go(split: SplitWorld):
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    split.pod(record="c2/0", metadata=going)
    await pod_flow.reconcile_pod(POD, key_of(split.session), split.session)
    assert split.above.writes() == [], "its twin may be at c2, where nobody has looked yet"


async def test_a_pod_that_was_never_seated_is_let_go_at_home(split: SplitWorld):
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    split.pod(metadata=going)
    assert await pod_flow.reconcile_pod(POD, key_of(split.far), split.far) == Done()
    assert split.above.writes() == []
    await pod_flow.reconcile_pod(POD, key_of(split.session), split.session)
    assert split.above.writes() == [("delete", "Pod", "p")]


def test_the_node_of_a_twin_there_is_the_one_that_the_tenant_knows(split: SplitWorld):
    twin = split.twin(split.far, nodeName="n").decode()
    assert pod_flow.build_twin_state(twin, split.far).node == "target-c2"
    assert pod_flow.build_twin_state(twin, split.session).node == "n"
    waiting = split.twin(split.far, "q").decode()
    assert pod_flow.build_twin_state(waiting, split.far).node == ""


def test_who_goes_nowhere_is_looked_at_when_a_target_takes_others_than_before(split: SplitWorld):
    for name in ("waits", "runs"):
        split.pod(name)
    split.link.assignments.assign(split.pod("runs"), HOME)
    split.taken()
    waits = split.session.build_key(ASSIGNMENT, "web", "waits")
    for name, is_heard in (("target-c2", True), ("other", False)):
        put(split.link.stores["Node"], {"metadata": {"name": name, "uid": "n"}, "spec": {}})
        placed = {key for key in split.taken() if key.kind == ASSIGNMENT}
        assert placed == ({waits} if is_heard else set())


def test_who_goes_nowhere_is_looked_at_when_its_namespace_has_other_labels(split: SplitWorld):
    split.pod("waits")
    spaces, waits = (
        split.link.stores["Namespace"],
        split.session.build_key(ASSIGNMENT, "web", "waits"),
    )

    def woken(name: str, version: int, **labels: str) -> bool:
        known = {"name": name, "uid": name, "resourceVersion": str(version), "labels": labels}
        put(spaces, {"metadata": known})
        return waits in split.taken()

    split.taken()
    assert woken("web", 51)
    assert woken("web", 52, elect="enabled")
    assert not woken("web", 53, elect="enabled")
    assert not woken("other", 54, elect="enabled")


def test_nodes_there_are_called_by_the_one_that_stands_for_them(split: SplitWorld):
    put(split.far.super_cluster.nodes, {"metadata": {"name": "there-7", "uid": "7"}})
    said = "Successfully assigned web/p to there-7"
    for known in ("", "there-7"):
        clean = split.far.sanitizer.sanitize_text(said, node=known)
        assert clean == "Successfully assigned web/p to target-c2"
    assert split.session.sanitizer.sanitize_text(said) == said, "nobody there is called so"


def test_pods_there_have_the_tenants_api_by_its_url_and_the_targets_resolver(split: SplitWorld):
    master = {"ports": [{"port": 443}], "clusterIP": "10.96.8.1"}
    split.tenant_has("Service", "kubernetes", "default", spec=master)
    variables = service_variables.list_tenant_variables(
        split.far.view, "web", links=True, cache=split.far.service_variables
    )
    host = variables["KUBERNETES_SERVICE_HOST"]
    assert host == "kubernetes.invalid", "its own would mean another there"
    assert dns.resolver_of(split.far.view).server == "10.98.0.10"
