import pytest

from tests.support.vcmanager.factories import pod, workload
from vcmanager.phases import startup_order
from vcmanager.runtime.observed import ObservedObjects

RUNNING = {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}
NOT_YET = {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "Creating"}}}]}


def snapshot(*workloads, pods=()):
    objects = {"StatefulSet": {}, "Deployment": {}, "Pod": {}}
    for each in workloads:
        objects[each["kind"]][each["metadata"]["name"]] = each
    objects["Pod"] = {each["metadata"]["name"]: each for each in pods}
    return ObservedObjects(namespace={}, objects=objects)


DNS = workload("coredns", kind="Deployment")


def test_the_store_waits_for_nothing():
    assert startup_order.may_create(workload("etcd"), snapshot())


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], False),
        ([pod("etcd-0", "etcd")], False),
        ([pod("etcd-0", "etcd", **NOT_YET)], False),
        ([pod("etcd-0", "etcd", **RUNNING)], True),
        ([pod("other-0", "other", **RUNNING)], False),
    ],
)
def test_the_api_server_waits_for_the_store_to_run(pods, expected):
    found = snapshot(workload("etcd"), pods=pods)
    assert startup_order.may_create(workload("apiserver"), found) is expected


def test_the_api_server_waits_for_every_member():
    etcd = workload("etcd", replicas=3)
    pods = [pod(f"etcd-{n}", "etcd", **RUNNING) for n in range(3)]
    assert not startup_order.may_create(workload("apiserver"), snapshot(etcd, pods=pods[:2]))
    assert startup_order.may_create(workload("apiserver"), snapshot(etcd, pods=pods))


def test_the_controllers_wait_for_the_api_server_to_run_and_the_name_server_until_it_answers():
    controllers, starting = workload("controller-manager"), workload("apiserver", ready=0)
    assert not startup_order.may_create(controllers, snapshot(starting))
    runs = snapshot(starting, pods=[pod("apiserver-0", "apiserver", **RUNNING)])
    assert startup_order.may_create(controllers, runs)
    two_of_three = snapshot(workload("apiserver", replicas=3, ready=2))
    assert startup_order.may_create(controllers, two_of_three)
    assert not startup_order.may_create(DNS, runs)
    assert startup_order.may_create(DNS, snapshot(workload("apiserver", ready=1)))


@pytest.mark.parametrize("name", ["apiserver", "controller-manager"])
def test_what_is_there_is_changed_whatever_the_others_do(name):
    assert startup_order.may_create(workload(name), snapshot(workload(name, ready=0)))


def upgrade(name, image, *, generation=1, **status):
    """Return a StatefulSet with one container. `status` defaults to a finished rollout."""
    found = {"observedGeneration": generation, "updatedReplicas": 1, "readyReplicas": 1, **status}
    return {
        "kind": "StatefulSet",
        "metadata": {"name": name, "generation": generation},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [{"image": image}]}}},
        "status": found,
    }


@pytest.mark.parametrize(
    ("etcd_now", "api_now", "api_wanted", "is_held"),
    [
        ({"image": "e:2"}, "a:1", "a:2", False),  # etcd is done
        ({"image": "e:1"}, "a:1", "a:2", True),  # etcd gets its image in this pass
        ({"image": "e:2", "updatedReplicas": 0}, "a:1", "a:2", True),
        ({"image": "e:2", "readyReplicas": 0}, "a:1", "a:2", True),
        ({"image": "e:2", "generation": 2, "observedGeneration": 1}, "a:1", "a:2", True),
        ({"image": "e:1"}, "a:1", "a:1", False),  # certificates change at once
    ],
)
def test_an_upgrade_waits_for_the_dependency(etcd_now, api_now, api_wanted, is_held):
    wanted = {
        "etcd": upgrade("etcd", "e:2"),
        "apiserver": upgrade("apiserver", api_wanted),
    }
    etcd_now = upgrade("etcd", **etcd_now)
    objects = {"StatefulSet": {"etcd": etcd_now, "apiserver": upgrade("apiserver", api_now)}}
    snapshot = ObservedObjects(namespace=None, objects=objects)
    assert startup_order.is_upgrade_held(wanted["apiserver"], wanted, snapshot) is is_held
    assert not startup_order.is_upgrade_held(wanted["etcd"], wanted, snapshot)


@pytest.mark.parametrize(
    ("name", "component", "pods", "expected"),
    [
        ("etcd", "etcd", [], True),
        ("apiserver", "etcd", [], False),
        ("apiserver", "etcd", [pod("etcd-0", "etcd", **RUNNING)], True),
        ("controller-manager", "apiserver", [], False),
        ("controller-manager", "apiserver", [pod("a-0", "apiserver", **RUNNING)], True),
    ],
)
def test_a_stopped_workload_starts_after_its_dependency(name, component, pods, expected):
    """REL-130."""
    stopped = workload(name, replicas=0)
    found = snapshot(stopped, *([workload(component, replicas=0)] * (name != component)), pods=pods)
    assert startup_order.may_create(stopped, found) is expected


@pytest.mark.parametrize(
    ("scaled", "pods", "expected"),
    [
        (
            ["etcd", "apiserver", "controller-manager", "coredns"],
            [],
            {"controller-manager", "coredns"},
        ),
        (["etcd", "apiserver", "coredns"], ["controller-manager"], {"coredns"}),
        (["etcd", "apiserver"], ["controller-manager"], set()),
        (["etcd", "apiserver"], ["apiserver"], {"apiserver"}),
        (["etcd"], ["apiserver"], set()),
        (["etcd"], ["etcd"], {"etcd"}),
        ([], ["etcd"], set()),
        ([], [], set()),
    ],
)
def test_components_stop_in_the_reverse_order(scaled, pods, expected):
    """REL-130."""
    assert set(startup_order.list_stoppable(scaled, {*scaled, *pods})) == expected
