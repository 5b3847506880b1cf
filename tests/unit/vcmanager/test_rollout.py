import pytest

from tenancy import marks
from tests.unit.vcmanager.factories import pod, workload
from vcmanager.phases import rollout


def stateful_set(strategy="OnDelete", **more):
    found = workload("etcd", **{"replicas": 2, "ready": 2, **more})
    found["spec"]["updateStrategy"] = {"type": strategy}
    found["spec"]["template"]["metadata"]["annotations"] = {marks.SECRETS_DIGEST: "new"}
    return found


def pods(*digests, deleting=()):
    made = []
    for number, digest in enumerate(digests):
        each = pod(f"etcd-{number}", "etcd")
        each["metadata"]["annotations"] = {marks.SECRETS_DIGEST: digest}
        if number in deleting:
            each["metadata"]["deletionTimestamp"] = "now"
        made.append(each)
    return made


def test_the_last_old_pod_goes_first():
    assert rollout.next_pod(stateful_set(), pods("old", "old"))["metadata"]["name"] == "etcd-1"
    assert rollout.next_pod(stateful_set(), pods("old", "new"))["metadata"]["name"] == "etcd-0"


@pytest.mark.parametrize(
    ("found", "given"),
    [
        (stateful_set(), pods("new", "new")),
        (stateful_set("RollingUpdate"), pods("old", "old")),
        (stateful_set(ready=1), pods("old", "new")),
        (stateful_set(observedGeneration=0), pods("old", "old")),
        (stateful_set(), pods("old", "old", deleting=[1])),
    ],
    ids=["all new", "rolls by itself", "one not ready", "not yet observed", "one is going"],
)
def test_nothing_is_replaced(found, given):
    assert rollout.next_pod(found, given) is None
