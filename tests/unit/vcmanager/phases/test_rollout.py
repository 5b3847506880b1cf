import pytest

from tests.support.vcmanager.factories import RecordingClient, fake_means, pod, workload
from vcmanager.phases import rollout
from vcmanager.runtime.observed import ObservedObjects


def stateful_set(strategy="OnDelete", *, partition=None, **more):
    found = workload("etcd", **{"replicas": 2, "ready": 2, "updateRevision": "new", **more})
    found["spec"]["updateStrategy"] = {"type": strategy}
    if partition is not None:
        found["spec"]["updateStrategy"]["rollingUpdate"] = {"partition": partition}
    return found


def pods(*revisions, deleting=(), broken=()):
    made = []
    for number, revision in enumerate(revisions):
        ready = "False" if number in broken else "True"
        each = pod(f"etcd-{number}", "etcd", conditions=[{"type": "Ready", "status": ready}])
        each["metadata"]["labels"]["controller-revision-hash"] = revision
        if number in deleting:
            each["metadata"]["deletionTimestamp"] = "now"
        made.append(each)
    return made


def replaced(found, given):
    pod_ = rollout.choose_next_pod(found, given)
    return pod_["metadata"]["name"] if pod_ else None


def test_the_last_old_pod_goes_first():
    assert replaced(stateful_set(), pods("old", "old")) == "etcd-1"
    assert replaced(stateful_set(), pods("old", "new")) == "etcd-0"


@pytest.mark.parametrize("strategy", ["OnDelete", "RollingUpdate"])
def test_an_old_pod_that_is_not_ready_goes_before_those_that_are(strategy):
    found = stateful_set(strategy, readyReplicas=1)
    assert replaced(found, pods("old", "old", broken=[0])) == "etcd-0"
    assert replaced(found, pods("old", "new", broken=[0])) == "etcd-0"
    assert replaced(found, pods("old", "old", broken=[0, 1])) == "etcd-1"


@pytest.mark.parametrize(
    ("revisions", "broken", "name"),
    [
        # etcd-2 starts, and etcd-1 is late for its readiness: both others are the quorum.
        (("old", "old", "new"), [1, 2], None),
        (("old", "old", "new"), [0, 2], None),
        (("old", "new", "new"), [0, 1], None),
        (("old", "old", "new"), [1], "etcd-1"),
        (("old", "old", "old"), [2], "etcd-2"),
        # Without a ready member there is no quorum to lose.
        (("old", "old", "new"), [0, 1, 2], "etcd-1"),
        (("old", "old", "old"), [0, 1, 2], "etcd-2"),
        (("old",), [0], "etcd-0"),
        (("old", "old"), [1], "etcd-1"),
    ],
)
@pytest.mark.parametrize("strategy", ["OnDelete", "RollingUpdate"])
def test_a_member_is_replaced_only_beside_a_quorum(strategy, revisions, broken, name):
    count = len(revisions)
    found = stateful_set(strategy, replicas=count, readyReplicas=count - len(broken))
    assert replaced(found, pods(*revisions, broken=broken)) == name


def test_other_pods_than_those_of_etcd_have_no_quorum():
    found = stateful_set("RollingUpdate", replicas=3, readyReplicas=1)
    found["metadata"]["name"] = "apiserver"
    assert replaced(found, pods("old", "old", "new", broken=[1, 2])) == "etcd-1"


def test_a_pod_that_reports_nothing_yet_is_not_ready():
    silent = pods("old", "new")
    silent[0]["status"] = {}
    assert replaced(stateful_set("RollingUpdate", readyReplicas=1), silent) == "etcd-0"


@pytest.mark.parametrize(
    ("found", "given"),
    [
        (stateful_set(), pods("new", "new")),
        (stateful_set("RollingUpdate"), pods("old", "old")),
        (stateful_set(readyReplicas=1), pods("old", "new", broken=[1])),
        (stateful_set(observedGeneration=0), pods("old", "old")),
        (stateful_set(observedGeneration=0), pods("old", "old", broken=[1])),
        (stateful_set(updateRevision=""), pods("old", "old", broken=[1])),
        (stateful_set(), pods("old", "old", deleting=[1])),
        (stateful_set(), pods("old", "old", deleting=[1], broken=[0])),
        (stateful_set(), pods("old", "new", deleting=[1])),
        (stateful_set("RollingUpdate", partition=2), pods("old", "old", broken=[1])),
    ],
    ids=[
        "all new",
        "rolls by itself",
        "a new one is not ready",
        "not yet observed",
        "not yet observed, one not ready",
        "no revision",
        "one is going",
        "one is going, one not ready",
        "a new one is going",
        "old on purpose",
    ],
)
def test_nothing_is_replaced(found, given):
    assert rollout.choose_next_pod(found, given) is None


async def test_one_pod_is_deleted():
    super_client = RecordingClient()
    objects = {
        "StatefulSet": {"etcd": stateful_set()},
        "Pod": {each["metadata"]["name"]: each for each in pods("old", "old")},
    }
    await rollout.replace_outdated_pods(
        fake_means(super_client), ObservedObjects(namespace=None, objects=objects)
    )
    assert super_client.calls == [("delete", "etcd-1")]
