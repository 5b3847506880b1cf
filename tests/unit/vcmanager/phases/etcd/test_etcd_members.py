import copy
import dataclasses
import json
from ipaddress import ip_network
from types import SimpleNamespace

import pytest
import yaml

from clusterversions import catalog
from tenancy import wellknown
from tenancy.specs import ClusterVersionSpec
from tests.support.vcmanager import factories
from tests.support.vcmanager.factories import TENANT, bundled, wish
from vcmanager.phases.etcd import etcd_members
from vcmanager.plan import control_plane
from vcmanager.plan.service_cidrs import ServiceRange
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.etcd_stores import Member, StoreReport
from vcmanager.runtime.observed import ObservedObjects
from vcmanager.runtime.status import ReconcileStatus

SLICE = ServiceRange(ip_network("10.96.8.0/22"))


def short(replicas):
    version = ClusterVersionSpec(kubernetes_version="1.36", replicas=replicas)
    return control_plane.build_plan(wish(version=version), SLICE)


def whole(replicas):
    sample = yaml.safe_load(catalog.read_sample("upstream-shape"))
    sample["spec"]["etcd"]["statefulset"]["spec"]["replicas"] = replicas
    return control_plane.build_plan(bundled(sample), SLICE)


def live(plan, **spec):
    """Return what is there when a plan was carried out, and then changed by hand."""
    found = copy.deepcopy(next(e for e in plan.workloads if e["metadata"]["name"] == "etcd"))
    found["spec"] |= spec
    return ObservedObjects(namespace=None, objects={"StatefulSet": {"etcd": found}})


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1)])
def test_another_number_of_members_of_a_bundle_is_refused_with_a_way_out(before, after):
    made = whole
    with pytest.raises(
        PhaseBlocked, match="cannot change, because that would split its etcd"
    ) as caught:
        etcd_members.check_replicas(made(after), live(made(before)), "mine")
    held = caught.value
    assert (held.reason, held.needs_admin, held.retry_after) == ("EtcdReplicasChanged", True, 60)
    assert (
        f"asks for {after} etcd members, but this tenant was created with {before}" in held.message
    )
    assert "ClusterVersion mine" in held.message


def test_a_bundle_is_compared_with_a_short_form():
    with pytest.raises(PhaseBlocked):
        etcd_members.check_replicas(whole(1), live(short(3)), "mine")
    etcd_members.check_replicas(whole(3), live(short(3)), "mine")


@pytest.mark.parametrize("scaled", [0, 3])
def test_a_bundle_that_was_scaled_by_hand_is_put_back(scaled):
    etcd_members.check_replicas(whole(1), live(whole(1), replicas=scaled), "mine")


@pytest.mark.parametrize("scaled", [0, 1, 3])
@pytest.mark.parametrize("desired", [1, 3])
def test_pods_follow_the_recorded_members_and_not_the_hand_that_scaled_them(desired, scaled):
    for members in (1, 3):
        found = live(short(members), replicas=scaled)
        found.objects["ConfigMap"] = {"etcd-members": config_map(members)}
        plan = etcd_members.plan_members(short(desired), found, None)
        assert pods_of(plan) == members
        assert plan.etcd_replicas == desired


def test_a_new_tenant_has_any_number():
    etcd_members.check_replicas(whole(3), ObservedObjects(namespace=None), "mine")
    plan = etcd_members.plan_members(short(3), ObservedObjects(namespace=None), None)
    assert pods_of(plan) == 3
    (members,) = (each for each in plan.workloads if each["metadata"]["name"] == "etcd-members")
    assert members["data"] == config_map(3)["data"]
    assert members["metadata"]["namespace"] == TENANT.root


def test_pods_read_their_members_where_the_plan_writes_them():
    plan = etcd_members.plan_members(short(1), ObservedObjects(namespace=None), None)
    (written,) = (each for each in plan.workloads if each["metadata"]["name"] == "etcd-members")
    container = etcd_of(plan)["spec"]["template"]["spec"]["containers"][0]
    read = {
        each["name"]: each["valueFrom"]["configMapKeyRef"]
        for each in container["env"]
        if "configMapKeyRef" in each.get("valueFrom", {})
    }
    assert set(read) == {"ETCD_INITIAL_CLUSTER", "ETCD_INITIAL_CLUSTER_STATE"}
    for each in read.values():
        assert each["name"] == "etcd-members"
        assert each["key"] in written["data"]
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_the_number_of_members_changes_no_pod_of_etcd():
    assert etcd_of(short(1))["spec"]["template"] == etcd_of(short(3))["spec"]["template"]
    assert short(1).certificate_facts.etcd_replicas == short(3).certificate_facts.etcd_replicas == 3


def test_a_store_that_was_given_nothing_has_its_pods_for_members():
    found = live(short(1), replicas=3)
    with pytest.raises(PhaseBlocked, match="was created with 3"):
        etcd_members.check_replicas(whole(1), found, "mine")


def test_a_store_of_before_this_list_keeps_its_members():
    found = live(short(1), replicas=1)
    container = found.get("StatefulSet", "etcd")["spec"]["template"]["spec"]["containers"][0]
    container["args"].append("--initial-cluster=etcd-0=a,etcd-1=b,etcd-2=c")
    assert pods_of(etcd_members.plan_members(short(1), found, None)) == 3


def etcd_of(plan):
    return next(each for each in plan.workloads if each["metadata"]["name"] == "etcd")


def pods_of(plan):
    return etcd_of(plan)["spec"]["replicas"]


def config_map(members):
    urls = ",".join(f"etcd-{n}=https://etcd-{n}.etcd:2380" for n in range(members))
    return {"data": {"initial-cluster": urls, "initial-cluster-state": "new"}}


def pod(ordinal, *, ip="10.0.0.1", lost=False):
    made = factories.pod(f"etcd-{ordinal}", "etcd", podIP=ip)
    if lost:
        line = {"level": "fatal", "error": "couldn't find local name"}
        exit_ = {"terminated": {"message": json.dumps(line)}}
        made["status"]["containerStatuses"] = [
            {"name": "etcd", "state": {"waiting": {}}, "lastState": exit_}
        ]
    made["metadata"]["labels"] = {wellknown.COMPONENT: "etcd"}
    return made


def claim(ordinal):
    name = f"data-etcd-{ordinal}"
    return {"metadata": {"name": name, "namespace": TENANT.root, "uid": f"uid-{name}"}}


def observed(*pods, claims=(), replicas=1, config=None):
    etcd = live(short(1), replicas=replicas).get("StatefulSet", "etcd")
    return ObservedObjects(
        namespace=None,
        objects={
            "StatefulSet": {"etcd": etcd},
            "Pod": {each["metadata"]["name"]: each for each in pods},
            "PersistentVolumeClaim": {each["metadata"]["name"]: each for each in claims},
            "ConfigMap": {"etcd-members": config or config_map(1)},
        },
    )


def member(ordinal, **fields):
    url = f"https://etcd-{ordinal}.etcd:2380"
    return Member(id=f"id-{ordinal}", peer_url=url, ordinal=ordinal, **fields)


def report(*members):
    return StoreReport(members=members, reason="R", message="m", is_ready=True)


MATERIAL = SimpleNamespace(
    secrets=[
        {
            "metadata": {"name": "apiserver-etcd-client"},
            "data": {"tls.crt": "Y2VydA==", "tls.key": "a2V5"},
        }
    ],
    trust={"data": {"etcd.crt": "authority"}},
)


async def passed_on(found, known=None, *, desired=1):
    """Return the super cluster's client, the recorded input and the keys that were queued."""
    client, queued = factories.RecordingClient(), []
    means = dataclasses.replace(factories.fake_means(client), enqueue=queued.append)
    if known is not None:
        means.stores.set_desired(TENANT.uid, SimpleNamespace())
        means.stores.set_report(TENANT.uid, known)
    await etcd_members.pass_on(means, TENANT, short(desired), found, MATERIAL)
    return client, means.stores.get_desired(TENANT.uid), queued


async def test_running_pods_are_passed_on_with_their_names_and_credentials():
    found = observed(pod(0), pod(1, ip="fd00::2", lost=True), pod(2, ip=""), replicas=3)
    client, desired, queued = await passed_on(found, desired=3)
    assert {number: each.server for number, each in desired.endpoints.items()} == {
        0: "https://10.0.0.1:2379",
        1: "https://[fd00::2]:2379",
    }
    assert desired.endpoints[1].tls_server_name == "etcd-1.etcd"
    assert (desired.endpoints[0].ca, desired.endpoints[0].client_key) == (b"authority", b"key")
    assert (desired.replicas, desired.lost) == (3, {1})
    assert [each.kind for each in queued] == ["Store"]
    assert client.calls == []


@pytest.mark.parametrize(
    ("pods", "replicas", "members", "deleted"),
    [
        ((0,), 1, (0,), {1, 2}),
        ((0, 1), 1, (0,), {2}),  # the pod still ends
        ((0,), 3, (0,), set()),  # the StatefulSet still wants them
        ((0,), 1, (0, 1, 2), set()),
        ((0,), 1, (), set()),  # etcd was not read
    ],
)
async def test_volumes_are_deleted_only_without_a_member_and_a_pod(
    pods, replicas, members, deleted
):
    claims = [claim(number) for number in (0, 1, 2, 3, "restore-1")]  # two of others
    found = observed(*map(pod, pods), claims=claims, replicas=replicas)
    client, desired, _ = await passed_on(found, report(*map(member, members)))
    assert {name for _, name in client.calls} == {f"data-etcd-{number}" for number in deleted}
    left = {number for number in range(3) if members and number > max(members)}
    assert desired.occupied == left


@pytest.mark.parametrize(
    ("lost", "started", "named", "restarted"),
    [
        (True, False, True, True),
        (True, False, False, False),
        (False, False, True, False),
        (True, True, True, False),
    ],
)
async def test_a_pod_that_may_join_now_is_restarted_at_once(lost, started, named, restarted):
    config = config_map(3 if named else 1)
    found = observed(pod(0), pod(1, lost=lost), replicas=2, config=config)
    known = report(member(0), member(1, is_learner=True, is_started=started))
    client, _, _ = await passed_on(found, known, desired=3)
    assert client.calls == ([("delete", "etcd-1")] if restarted else [])


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (None, {"StoreFilling": ("True", "Old"), "EtcdMembersReady": ("True", "Old")}),
        (
            StoreReport(reason="EtcdUnreachable", message="m", is_ready=None),
            {"StoreFilling": ("True", "Old"), "EtcdMembersReady": ("Unknown", "EtcdUnreachable")},
        ),
        (
            StoreReport(
                reason="Scaling",
                message="m",
                is_ready=False,
                is_filling=False,
                filling_reason="SpaceLeft",
                filling_message="m",
            ),
            {"StoreFilling": ("False", "SpaceLeft"), "EtcdMembersReady": ("False", "Scaling")},
        ),
    ],
)
def test_conditions_follow_the_last_report_and_outlive_a_restart_of_the_manager(known, expected):
    old = {
        "conditions": [
            {"type": each, "status": "True", "reason": "Old", "message": "m"}
            for each in ("StoreFilling", "EtcdMembersReady", "Synced")
        ]
    }
    status = ReconcileStatus(generation=1, now="2026-03-01T12:00:00Z")
    etcd_members.report_store(status, known, old, replicas=1)
    status.summarize(blocked=None, is_stalled=False, is_deleting=False)
    found = {each["type"]: each for each in status.build_status({})["conditions"]}
    assert found.pop("Ready")["status"] == "True"
    assert {kind: (each["status"], each["reason"]) for kind, each in found.items()} == expected


@pytest.mark.parametrize(("replicas", "ready"), [(1, "True"), (3, "False")])
def test_a_report_from_before_a_change_is_not_ready(replicas, ready):
    status = ReconcileStatus(generation=1, now="2026-03-01T12:00:00Z")
    etcd_members.report_store(status, report(member(0)), {}, replicas=replicas)
    status.summarize(blocked=None, is_stalled=False, is_deleting=False)
    found = {each["type"]: each["status"] for each in status.build_status({})["conditions"]}
    assert found == {"Ready": "True", "EtcdMembersReady": ready}
