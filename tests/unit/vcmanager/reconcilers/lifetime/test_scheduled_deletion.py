"""The grace period of a scheduled deletion (T2-12, SEC-86)."""

import contextlib
from datetime import timedelta

import pytest

from tenancy import conditions, wellknown
from tenancy.specs import parse_virtual_cluster
from tests.support.vcmanager.factories import NOW, TENANT, RecordingClient, fake_means, workload
from vcmanager.reconcilers.lifetime.scheduled_deletion import hold_scheduled_deletion
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.observed import ObservedObjects


def body(**annotations):
    return {
        "metadata": {
            "name": TENANT.name,
            "namespace": TENANT.namespace,
            "uid": TENANT.uid,
            "resourceVersion": "7",
            "annotations": annotations,
        },
        "spec": {"clusterVersionName": "v1.36"},
    }


def owned(name, replicas=1, kind="StatefulSet", *, is_ours=True):
    made = workload(name, replicas=replicas, kind=kind)
    annotations = {wellknown.LAST_WRITTEN_DIGEST: "d"} if is_ours else {}
    metadata = {"name": name, "namespace": TENANT.root, "uid": name, "annotations": annotations}
    return {**made, "metadata": metadata, "spec": {"replicas": replicas}}


OBSERVED = ObservedObjects(
    namespace=None,
    objects={
        "StatefulSet": {
            "etcd": owned("etcd", 3),
            "stopped": owned("stopped", 0),
            "foreign": owned("foreign", is_ours=False),
        },
        "Deployment": {"coredns": owned("coredns", kind="Deployment")},
    },
)


async def hold(super_client, found, means=None):
    await hold_scheduled_deletion(
        means or fake_means(super_client), parse_virtual_cluster(found), found, OBSERVED
    )


@pytest.mark.parametrize("annotations", [{}, {wellknown.DELETE_AFTER: "tomorrow"}])
async def test_without_a_time_nothing_is_held(annotations):
    super_client = RecordingClient()
    await hold(super_client, body(**annotations))
    assert super_client.calls == []


async def test_during_the_grace_period_only_the_own_workloads_are_stopped():
    super_client = RecordingClient()
    moment = conditions.format_time(NOW + timedelta(seconds=90))
    with pytest.raises(PhaseBlocked) as caught:
        await hold(super_client, body(**{wellknown.DELETE_AFTER: moment}))
    assert caught.value.reason == "DeletionScheduled"
    assert not caught.value.needs_admin
    assert caught.value.retry_after == 90
    assert moment in caught.value.message
    assert super_client.calls == [("patch", "etcd"), ("patch", "coredns")]
    assert all(each["spec"] == {"replicas": 0} for each in super_client.bodies)


async def test_a_stopped_etcd_is_not_checked_and_raises_no_alert():
    means = fake_means(RecordingClient())
    for annotations, is_kept in (
        ({}, True),
        ({wellknown.DELETE_AFTER: "2100-01-01T00:00:00Z"}, False),
    ):
        means.stores.set_desired(TENANT.uid, "desired")
        with contextlib.suppress(PhaseBlocked):
            await hold(means.super_client, body(**annotations), means)
        assert (means.stores.get_desired(TENANT.uid) is not None) is is_kept


async def test_at_the_end_the_virtual_cluster_is_deleted():
    super_client = RecordingClient()
    moment = conditions.format_time(NOW)
    with pytest.raises(PhaseBlocked) as caught:
        await hold(super_client, body(**{wellknown.DELETE_AFTER: moment}))
    assert caught.value.reason == "Deleting"
    assert super_client.calls == [("delete", TENANT.name)]
