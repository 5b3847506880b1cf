import pytest

from kubeio import errors
from kubeio.controller.worker import Done, RequeueAfter
from tenancy import ownership, wellknown
from tests.support.vcmanager.factories import TENANT, RecordingClient, fake_means
from vcmanager import app
from vcmanager.reconcilers import orphan_sweep, virtual_cluster, virtual_cluster_deletion
from vcmanager.runtime import keys
from vcmanager.targets import tenant_cleanup

KEY = keys.build_deleted_tenant_key(TENANT.namespace, TENANT.uid)


def cluster(uid=TENANT.uid):
    return {
        "metadata": {
            "name": TENANT.name,
            "namespace": TENANT.namespace,
            "uid": uid,
            "resourceVersion": "1",
            "deletionTimestamp": "now",
            "finalizers": [wellknown.FINALIZER],
        },
        "spec": {"clusterVersionName": "v1.36"},
    }


def namespace(name, uid=TENANT.uid):
    record = {wellknown.VC_UID: uid}
    labels = ownership.build_owner_labels(TENANT, "default") | record
    annotations = ownership.build_owner_annotations(TENANT, "default", "u") | record
    metadata = {"name": name, "uid": f"uid-{name}", "labels": labels, "annotations": annotations}
    return {"metadata": metadata}


def noted(super_client):
    later = []
    means = fake_means(super_client, later=lambda key, seconds: later.append((key, seconds)))
    orphan_sweep.schedule_sweep(means, cluster(), TENANT)
    assert later == [(KEY, orphan_sweep.ORPHAN_DELAY_SECONDS)]
    return means


async def test_what_came_late_for_a_tenant_goes_and_is_looked_for_until_it_is_gone():
    super_client = RecordingClient()
    means = noted(super_client)
    super_client.listed = [namespace("late"), namespace("other", uid="another tenant's")]
    assert await orphan_sweep.reconcile_orphans(means, KEY) == RequeueAfter(
        orphan_sweep.ORPHAN_DELAY_SECONDS
    )
    assert super_client.calls == [("delete", "late")]
    super_client.listed = []
    assert await orphan_sweep.reconcile_orphans(means, KEY) == Done()
    super_client.listed = [namespace("later still")]
    assert await orphan_sweep.reconcile_orphans(means, KEY) == Done()
    assert super_client.calls == [("delete", "late")], "nobody looks for ever"


async def test_a_failed_look_is_made_again():
    super_client = RecordingClient()
    means = noted(super_client)
    super_client.listed = [namespace("late")]
    super_client.problems["list", "namespaces"] = errors.Timeout("no answer")
    with pytest.raises(errors.Timeout):
        await orphan_sweep.reconcile_orphans(means, KEY)
    super_client.problems.clear()
    await orphan_sweep.reconcile_orphans(means, KEY)
    assert super_client.calls == [("delete", "late")]


async def test_nothing_goes_of_a_tenant_that_was_restored_or_that_no_one_saw_end():
    super_client = RecordingClient({TENANT.name: cluster()})
    super_client.listed = [namespace("its")]
    assert await orphan_sweep.reconcile_orphans(noted(super_client), KEY) == Done()
    super_client.objects.clear()
    assert await orphan_sweep.reconcile_orphans(fake_means(super_client), KEY) == Done()
    assert super_client.calls == []


async def test_another_of_the_name_is_no_reason_to_leave_it():
    super_client = RecordingClient({TENANT.name: cluster(uid="another")})
    means = noted(super_client)
    super_client.listed = [namespace("late")]
    await orphan_sweep.reconcile_orphans(means, KEY)
    assert super_client.calls == [("delete", "late")]


async def test_other_super_clusters_are_looked_at_too(monkeypatch):
    seen = []

    async def act(_means, body, tenant):
        seen.append((body, tenant))

    monkeypatch.setattr(tenant_cleanup, "delete_tenant_in_targets", act)
    await orphan_sweep.reconcile_orphans(noted(RecordingClient()), KEY)
    assert seen == [(cluster(), TENANT)]


async def test_every_tenant_that_ends_is_looked_for_once_more(monkeypatch):
    async def act(*_):
        pass

    monkeypatch.setattr(virtual_cluster_deletion, "delete_tenant", act)
    later = []
    means = fake_means(
        RecordingClient({TENANT.name: cluster()}),
        later=lambda key, seconds: later.append((key, seconds)),
    )
    await virtual_cluster.reconcile_virtual_cluster(
        means, keys.build_virtual_cluster_key(TENANT.namespace, TENANT.name)
    )
    assert later == [(KEY, orphan_sweep.ORPHAN_DELAY_SECONDS)]
    assert app._RECONCILE_FUNCTIONS[KEY.kind] is orphan_sweep.reconcile_orphans
