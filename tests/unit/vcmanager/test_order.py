import pytest

from tests.unit.vcmanager.factories import pod, workload
from vcmanager import order
from vcmanager.snapshot import Snapshot

STARTED = {"containerStatuses": [{"name": "c", "started": True}]}
NOT_YET = {"containerStatuses": [{"name": "c", "started": False}]}


def snapshot(*workloads, pods=()):
    objects = {"StatefulSet": {}, "Deployment": {}, "Pod": {}}
    for each in workloads:
        objects[each["kind"]][each["metadata"]["name"]] = each
    objects["Pod"] = {each["metadata"]["name"]: each for each in pods}
    return Snapshot(namespace={}, objects=objects)


DNS = workload("coredns", kind="Deployment")


def test_the_store_waits_for_nothing():
    assert order.may_be_made(workload("etcd"), snapshot())


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], False),
        ([pod("etcd-0", "etcd")], False),
        ([pod("etcd-0", "etcd", **NOT_YET)], False),
        ([pod("etcd-0", "etcd", **STARTED)], True),
        ([pod("other-0", "other", **STARTED)], False),
    ],
)
def test_the_api_server_waits_for_the_store_to_have_started(pods, expected):
    found = snapshot(workload("etcd"), pods=pods)
    assert order.may_be_made(workload("apiserver"), found) is expected


def test_the_api_server_waits_for_every_member():
    etcd = workload("etcd", replicas=3)
    pods = [pod(f"etcd-{n}", "etcd", **STARTED) for n in range(3)]
    assert not order.may_be_made(workload("apiserver"), snapshot(etcd, pods=pods[:2]))
    assert order.may_be_made(workload("apiserver"), snapshot(etcd, pods=pods))


@pytest.mark.parametrize("later", [workload("controller-manager"), DNS], ids=["controllers", "dns"])
def test_the_others_wait_for_the_api(later):
    assert not order.may_be_made(later, snapshot(workload("apiserver", ready=0)))
    assert order.may_be_made(later, snapshot(workload("apiserver", ready=1)))


@pytest.mark.parametrize("name", ["apiserver", "controller-manager"])
def test_what_is_there_is_changed_whatever_the_others_do(name):
    assert order.may_be_made(workload(name), snapshot(workload(name, ready=0)))
