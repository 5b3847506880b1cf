import pytest

from tenancy import ownership, wellknown
from tests.support.vcmanager.factories import TENANT, RecordingClient, fake_means
from vcmanager.reconcilers import virtual_cluster_deletion
from vcmanager.runtime.blocked import PhaseBlocked


def synced(status, reason):
    return {"conditions": [{"type": wellknown.SYNCED, "status": status, "reason": reason}]}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, False),
        ({"conditions": [{"type": "Ready", "status": "True"}]}, False),
        (synced("False", "Disengaged"), True),
        (synced("True", "Synced"), False),
        (synced("False", "CachesIncomplete"), False),
        (synced("Unknown", "Disengaged"), False),
    ],
)
def test_the_syncer_has_let_go_when_it_reports_that(status, expected):
    assert virtual_cluster_deletion.is_disengaged(status) is expected


def deleted(status=None):
    metadata = {
        "name": TENANT.name,
        "namespace": TENANT.namespace,
        "uid": TENANT.uid,
        "resourceVersion": "1",
        "finalizers": [wellknown.FINALIZER],
    }
    return {"metadata": metadata, "status": status or {}}


def lease(holder):
    return {"spec": {"holderIdentity": holder, "renewTime": "now", "leaseDurationSeconds": 15}}


@pytest.mark.parametrize("status", [{}, synced("True", "Engaged")])
async def test_nothing_goes_while_a_syncer_works_and_has_not_let_go(status):
    super_client = RecordingClient({wellknown.SYNCER: lease("somebody")})
    super_client.listed = [namespace()]
    with pytest.raises(PhaseBlocked, match="the syncer has not disconnected from"):
        await virtual_cluster_deletion.delete_tenant(
            fake_means(super_client), deleted(status), TENANT
        )
    assert super_client.calls == []


@pytest.mark.parametrize(
    ("status", "objects"),
    [
        ({}, {}),
        ({}, {wellknown.SYNCER: lease("")}),
        (synced("True", "Engaged"), {}),
        (synced("False", "Disengaged"), {wellknown.SYNCER: lease("somebody")}),
    ],
    ids=["no lease", "nobody holds it", "engaged by one that is gone", "it says so"],
)
async def test_a_syncer_that_is_gone_or_has_let_go_is_not_waited_for(status, objects):
    super_client = RecordingClient(objects)
    await virtual_cluster_deletion.delete_tenant(fake_means(super_client), deleted(status), TENANT)
    assert super_client.calls == [("patch", TENANT.name)]
    assert super_client.bodies[0]["metadata"]["finalizers"] == []


async def test_a_namespace_that_was_made_meanwhile_holds_the_finalizer(monkeypatch):
    super_client = RecordingClient()

    async def wait_for_volumes(*_):
        super_client.listed = [namespace("late")]

    monkeypatch.setattr(virtual_cluster_deletion, "_wait_for_volumes", wait_for_volumes)
    with pytest.raises(PhaseBlocked, match="waiting for namespaces to be deleted: late"):
        await virtual_cluster_deletion.delete_tenant(fake_means(super_client), deleted(), TENANT)
    assert super_client.calls == [("delete", "late")]


def namespace(name="x-default", labels=None, annotations=None):
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": ownership.build_owner_labels(TENANT, "default") if labels is None else labels,
            "annotations": ownership.build_owner_annotations(TENANT, "default", "u")
            if annotations is None
            else annotations,
        }
    }


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (namespace(), True),
        (namespace(name=TENANT.root), False),
        (namespace(labels={}), False),
        (namespace(annotations={}), False),
        (namespace(annotations={wellknown.VC_UID: "other"}), False),
        (namespace(labels={wellknown.VC_UID: "other"}), False),
        ({"metadata": {"name": "kube-system"}}, False),
    ],
)
def test_a_namespace_goes_only_when_it_reports_twice_whose_it_is(found, expected):
    assert virtual_cluster_deletion.is_namespace_of_tenant(found, TENANT) is expected


def test_leftovers_are_named_with_what_holds_them():
    stuck = {
        "metadata": {"name": "a"},
        "status": {
            "conditions": [
                {"type": "NamespaceContentRemaining", "status": "True", "message": "pods. has 1"},
                {"type": "NamespaceDeletionDiscoveryFailure", "status": "False", "message": "fine"},
            ]
        },
    }
    others = [{"metadata": {"name": name}} for name in "bcde"]
    assert (
        virtual_cluster_deletion.describe_remaining([stuck, *others])
        == "a (pods. has 1), b, c and 2 more"
    )
