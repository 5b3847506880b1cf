"""Changes of watched objects that queue a tenant's key."""

import copy

import pytest

from tenancy import resources, wellknown
from tests.support.vcmanager.factories import pod, workload
from vcmanager.watches.predicates import SeenDigests

RUNNING = {"name": "c", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
CREATING = {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}


def of(body, **changes):
    """Return a copy with parts of its metadata and status changed."""
    made = copy.deepcopy(body)
    made["metadata"].setdefault("uid", "1")
    for path, value in changes.items():
        part, _, field = path.partition("__")
        made.setdefault(part, {})[field] = value
    return made


def is_news(resource, before, after):
    seen = SeenDigests()
    assert seen.has_changed(resource, "ADDED", before)
    return seen.has_changed(resource, "MODIFIED", after)


POD = of(pod("etcd-0", "etcd"))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"metadata__resourceVersion": "2"}, False),
        ({"metadata__managedFields": [{}]}, False),
        ({"status__podIP": "10.0.0.1"}, False),
        ({"status__conditions": [{"type": "PodScheduled", "status": "True"}]}, False),
        ({"status__containerStatuses": [CREATING]}, False),
        ({"status__containerStatuses": [RUNNING]}, True),
        ({"status__containerStatuses": [{**CREATING, "restartCount": 1}]}, True),
        (
            {"status__containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]},
            True,
        ),
        ({"status__containerStatuses": [{"state": {"terminated": {"exitCode": 1}}}]}, True),
        ({"status__initContainerStatuses": [RUNNING]}, True),
        (
            {"status__conditions": [{"type": "PodScheduled", "reason": "Unschedulable"}]},
            True,
        ),
        ({"status__phase": "Failed"}, True),
        ({"metadata__deletionTimestamp": "2026-01-01T00:00:00Z"}, True),
        ({"metadata__labels": {"controller-revision-hash": "b"}}, True),
    ],
)
def test_of_a_pod_counts_what_reports_how_it_fares(changes, expected):
    assert is_news(resources.PODS, POD, of(POD, **changes)) is expected


def test_of_a_super_cluster_counts_what_the_syncer_reports_and_not_what_we_wrote():
    body = of({"metadata": {"name": "c2"}})
    held = {"type": "LossesHeld", "status": "True", "message": "5 of 5"}
    ready = {"type": "Ready", "status": "True", "message": "m"}
    kind = resources.SUPER_CLUSTERS
    assert not is_news(kind, body, of(body, status__conditions=[ready], status__nodes=3))
    assert is_news(kind, body, of(body, status__conditions=[held]))
    more = {**held, "message": "6 of 6"}
    assert not is_news(
        kind, of(body, status__conditions=[held]), of(body, status__conditions=[more])
    )
    assert is_news(kind, body, of(body, metadata__annotations={"a": "b"}))


def test_a_container_that_becomes_ready_or_reports_something_else_is_news():
    runs = of(POD, status__containerStatuses=[RUNNING])
    later = {"name": "c", "state": {"running": {"startedAt": "2026-02-02T00:00:00Z"}}}
    assert not is_news(resources.PODS, runs, of(POD, status__containerStatuses=[later]))
    ready = of(POD, status__containerStatuses=[{**RUNNING, "ready": True}])
    assert is_news(resources.PODS, runs, ready)
    first, second = (
        of(POD, status__containerStatuses=[{"state": {"waiting": {"reason": "E", "message": m}}}])
        for m in "ab"
    )
    assert is_news(resources.PODS, first, second)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"status__replicas": 1}, False),
        ({"status__availableReplicas": 1}, False),
        ({"status__readyReplicas": 1}, True),
        ({"status__updatedReplicas": 2}, True),
        ({"status__updateRevision": "b"}, True),
        ({"status__observedGeneration": 9}, True),
        ({"metadata__generation": 9}, True),
        ({"metadata__annotations": {"a": "b"}}, True),
    ],
)
def test_of_a_workload_counts_how_far_it_is(changes, expected):
    before = of(workload("etcd"), status__readyReplicas=0)
    assert is_news(resources.STATEFUL_SETS, before, of(before, **changes)) is expected


def test_the_conditions_of_a_virtual_cluster_are_no_news_and_its_spec_is():
    body = {"metadata": {"uid": "1", "generation": 1}}
    ready = of(body, status__conditions=[{"type": "Ready", "status": "True"}])
    assert not is_news(resources.VIRTUAL_CLUSTERS, body, ready)
    whole = of(body, status__phase="Running", status__endpoint="https://x")
    assert is_news(resources.VIRTUAL_CLUSTERS, whole, body), "its status was taken away"
    assert is_news(resources.VIRTUAL_CLUSTERS, body, of(body, metadata__generation=2))
    assert is_news(resources.VIRTUAL_CLUSTERS, body, of(body, metadata__annotations={"a": "b"}))
    assert is_news(resources.VIRTUAL_CLUSTERS, body, of(body, metadata__finalizers=["x"]))


def test_the_slots_of_a_cluster_version_are_no_news_and_its_spec_is():
    """Each slot would wake all tenants of the ClusterVersion."""
    body = {"metadata": {"uid": "1", "generation": 1}}
    assert not is_news(resources.CLUSTER_VERSIONS, body, of(body, status__rollout={"tenants": 3}))
    assert is_news(resources.CLUSTER_VERSIONS, body, of(body, metadata__generation=2))


def test_the_syncers_marks_on_a_root_namespace_are_no_news():
    body = {"metadata": {"uid": "1", "annotations": {"a": "b"}}}
    marked = of(body, metadata__annotations={"a": "b", wellknown.STORE_REVISION: "7"})
    assert not is_news(resources.NAMESPACES, body, marked)
    assert is_news(resources.NAMESPACES, body, of(body, metadata__annotations={}))


def test_whatever_is_listed_or_deleted_is_news_and_so_is_all_of_what_has_no_rule():
    seen = SeenDigests()
    for kind in (None, None, "DELETED", "DELETED", "ADDED"):
        assert seen.has_changed(resources.PODS, kind, POD)
    assert not seen.has_changed(resources.PODS, "MODIFIED", POD)
    for _ in range(2):
        assert seen.has_changed(resources.SECRETS, "MODIFIED", {"metadata": {"uid": "1"}})
