import pytest

from kubeio import errors
from kubeio.controller.worker import Done, RequeueAfter
from tenancy import wellknown
from tenancy.resources import CLUSTER_VERSIONS
from tests.support.vcmanager.factories import RecordedEventRows, RecordingClient, fake_means
from vcmanager.reconcilers import finalizers
from vcmanager.runtime.keys import ReconcileKey

OTHER = "example.com/other"


def version(*held, **metadata):
    return {
        "metadata": {
            "name": "v",
            "uid": "u",
            "resourceVersion": "7",
            "finalizers": list(held),
            **metadata,
        }
    }


def tenant(name):
    return {"metadata": {"name": name, "namespace": "web", "uid": name}}


@pytest.mark.parametrize(
    ("found", "written"),
    [
        (version(), [wellknown.FINALIZER]),
        (version(OTHER), [OTHER, wellknown.FINALIZER]),
        (version(wellknown.FINALIZER), None),
        (version(deletionTimestamp="now"), None),
    ],
    ids=["none yet", "another one", "there already", "being deleted"],
)
async def test_finalizer_is_added_once(found, written):
    client = RecordingClient()
    await finalizers.add_finalizer(fake_means(client), CLUSTER_VERSIONS, found)
    assert [each["metadata"]["finalizers"] for each in client.bodies] == (
        [] if written is None else [written]
    )


@pytest.mark.parametrize(
    ("found", "written"),
    [
        (version(OTHER, wellknown.FINALIZER), [OTHER]),
        (version(wellknown.FINALIZER), []),
        (version(OTHER), None),
    ],
)
async def test_finalizers_of_others_stay(found, written):
    client = RecordingClient()
    await finalizers.remove_finalizer(fake_means(client), CLUSTER_VERSIONS, found)
    bodies = [each["metadata"] for each in client.bodies]
    expected = {"uid": "u", "resourceVersion": "7", "finalizers": written}
    assert bodies == ([] if written is None else [expected])


async def test_object_that_is_deleted_already_needs_no_release():
    client = RecordingClient()
    client.problems["patch", "v"] = errors.NotFound("there is no v")
    await finalizers.remove_finalizer(
        fake_means(client), CLUSTER_VERSIONS, version(wellknown.FINALIZER)
    )


@pytest.mark.parametrize(
    ("found", "users", "result", "released", "reasons"),
    [
        (None, 2, Done(), False, []),
        (version(wellknown.FINALIZER), 2, Done(), False, []),
        (version(wellknown.FINALIZER, deletionTimestamp="now"), 0, Done(), True, []),
        (version(wellknown.FINALIZER, deletionTimestamp="now"), 7, None, False, ["InUse"]),
    ],
    ids=["not there", "in use", "deleted without users", "deleted while in use"],
)
async def test_cluster_version_stays_while_tenants_use_it(found, users, result, released, reasons):
    client = RecordingClient({} if found is None else {"v": found})
    client.listed = [tenant(f"vc-{number}") for number in range(users)]
    recorder, woken = RecordedEventRows(), []
    means = fake_means(client, recorder=recorder, wake=woken.append)
    key = ReconcileKey("ClusterVersion", "", "v")
    outcome = await finalizers.reconcile_cluster_version(means, key)
    assert outcome == result if result is not None else isinstance(outcome, RequeueAfter)
    assert [each.kind for each in woken] == ["VirtualCluster"] * users + ["Rollout"]
    assert bool(client.calls) is released
    assert recorder.reasons == reasons
