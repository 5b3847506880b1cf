"""A replaced store is another identity. A store that is not whole has none."""

import pytest

from tests.support.vcmanager.factories import pod, workload
from vcmanager.phases.etcd import etcd_identity
from vcmanager.runtime.observed import ObservedObjects

CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data-etcd-0"}}


def member(number=0, *, volumes=(), deleting=False, container="one"):
    made = pod(
        f"etcd-{number}", "etcd", containerStatuses=[{"name": "etcd", "containerID": container}]
    )
    made["spec"] = {"nodeName": "node-1", "volumes": list(volumes)}
    if deleting:
        made["metadata"]["deletionTimestamp"] = "now"
    return made


def claim(uid, name="data-etcd-0", **metadata):
    return {"metadata": {"name": name, "uid": uid, **metadata}}


def identity(*pods, claims=(), replicas=1):
    objects = {
        "StatefulSet": {"etcd": workload("etcd", replicas=replicas)},
        "Pod": {each["metadata"]["name"]: each for each in pods},
        "PersistentVolumeClaim": {each["metadata"]["name"]: each for each in claims},
    }
    return etcd_identity.compute_store_identity(ObservedObjects(namespace={}, objects=objects))


def test_another_pod_on_the_same_volume_is_the_same_store():
    before = identity(member(volumes=[CLAIM], container="one"), claims=[claim("a")])
    after = identity(member(volumes=[CLAIM], container="two"), claims=[claim("a")])
    assert before == after == "a"


def test_another_volume_is_another_store():
    before = identity(member(volumes=[CLAIM]), claims=[claim("a")])
    assert before != identity(member(volumes=[CLAIM]), claims=[claim("b")])


def test_without_a_volume_the_container_is_the_store():
    assert identity(member(container="one")) != identity(member(container="two"))


def test_a_folder_of_the_node_outlives_the_container():
    folder = {"name": "data", "hostPath": {"path": "/var/etcd"}}
    one, two = (identity(member(volumes=[folder], container=c)) for c in ("one", "two"))
    assert one == two == "node-1:/var/etcd"


@pytest.mark.parametrize(
    ("pods", "claims"),
    [
        ([], [claim("a")]),
        ([member(volumes=[CLAIM])], []),
        ([member(volumes=[CLAIM])], [claim("a", deletionTimestamp="now")]),
        ([member(volumes=[CLAIM], deleting=True)], [claim("a")]),
        ([member(container="")], []),
    ],
    ids=["no pod", "no claim", "claim going", "pod going", "no container"],
)
def test_a_store_that_is_not_whole_has_no_identity(pods, claims):
    assert identity(*pods, claims=claims) is None


def test_every_member_counts():
    second = {"name": "data", "persistentVolumeClaim": {"claimName": "data-etcd-1"}}
    pods = [member(0, volumes=[CLAIM]), member(1, volumes=[second])]
    claims = [claim("a"), claim("b", "data-etcd-1")]
    assert identity(*pods, claims=claims, replicas=2) == "a,b"
    assert identity(*pods, claims=claims, replicas=3) is None
