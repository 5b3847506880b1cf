import pytest

from vcmanager.phases.etcd import member_config
from vcmanager.phases.etcd.member_config import MemberInput
from vcmanager.runtime.etcd_stores import Member, StoreReport


def urls(**names):
    return ",".join(f"{name}={member_config.build_peer_url(n)}" for name, n in names.items())


ONE = {"initial-cluster": "etcd-0=https://etcd-0.etcd:2380", "initial-cluster-state": "new"}
THREE = {
    "initial-cluster": ",".join(f"etcd-{n}=https://etcd-{n}.etcd:2380" for n in range(3)),
    "initial-cluster-state": "new",
}
GUARDED = {
    "initial-cluster": ",".join(f"member-{n}=https://etcd-{n}.etcd:2380" for n in range(3)),
    "initial-cluster-state": "existing",
}


def member(ordinal, **fields):
    url = member_config.build_peer_url(ordinal)
    return Member(id=f"id-{ordinal}", peer_url=url, ordinal=ordinal, **fields)


def report(*members, answered=(0, 1, 2)):
    return StoreReport(
        members=members, answered=frozenset(answered), reason="R", message="m", is_ready=True
    )


def planned(desired, config, known=None, **fields):
    given = {"created_with": None, "pods": (0,), "volumes": "v", **fields}
    return member_config.plan_members(
        MemberInput(desired=desired, config=config, report=known, **given)
    )


ALL = tuple(map(member, range(3)))


@pytest.mark.parametrize(
    ("inputs", "members", "replicas"),
    [
        pytest.param((1, None, None, {}), ONE, 1, id="new"),
        pytest.param((3, None, None, {}), THREE, 3, id="new of three"),
        pytest.param((3, None, None, {"created_with": 1}), ONE, 1, id="created before the list"),
        pytest.param((1, ONE, None, {}), ONE, 1, id="not read"),
        pytest.param((3, ONE, None, {}), ONE, 1, id="no change without etcd's list"),
        pytest.param((1, GUARDED, None, {}), GUARDED, 3, id="nor back"),
        pytest.param((1, ONE, report(ALL[0]), {}), ONE, 1, id="one"),
        pytest.param((3, ONE, report(ALL[0]), {}), ONE, 1, id="nothing is added yet"),
        pytest.param((3, THREE, report(*ALL, answered=(0, 1)), {}), THREE, 3, id="still forming"),
        pytest.param((3, THREE, report(*ALL), {}), GUARDED, 3, id="formed"),
        pytest.param((3, GUARDED, report(*ALL, answered=(0,)), {}), GUARDED, 3, id="stays guarded"),
        pytest.param(
            (1, GUARDED, report(ALL[0]), {"pods": (0, 1)}), None, 1, id="a pod still ends"
        ),
        pytest.param((1, GUARDED, report(ALL[0]), {}), ONE, 1, id="one again"),
        pytest.param((3, GUARDED, report(ALL[0]), {}), None, 1, id="to be three again"),
    ],
)
def test_the_list_follows_etcds_own(inputs, members, replicas):
    """REL-120."""
    desired, config, known, fields = inputs
    found = planned(desired, config, known, **fields)
    only = {"initial-cluster": "member-0=https://etcd-0.etcd:2380"} | {
        "initial-cluster-state": "existing"
    }
    data = {key: value for key, value in found.data.items() if key.startswith("initial")}
    assert data == (only if members is None else members)
    assert found.replicas == replicas


@pytest.mark.parametrize("config", [ONE, GUARDED])
def test_only_the_joining_pod_finds_its_name(config):
    """REL-120."""
    joining = member(1, is_learner=True, is_started=False)
    found = planned(3, config, report(ALL[0], joining, ALL[2], answered=(0, 2)))
    assert found.replicas == 3
    assert found.data["initial-cluster-state"] == "existing"
    assert [member_config.is_joining(number, found.data) for number in range(3)] == [
        False,
        True,
        False,
    ]
    # etcd compares the number and the URLs of all members.
    listed = found.data["initial-cluster"].split(",")
    assert [each.partition("=")[2] for each in listed] == [
        member_config.build_peer_url(number) for number in range(3)
    ]
    assert len({each.partition("=")[0] for each in listed}) == 3


@pytest.mark.parametrize(
    ("config", "volumes", "identity"),
    [
        (ONE, "a", "a"),
        (ONE, None, None),
        ({**ONE, "store-identity": "x", "store-volumes": "a"}, "a", "x"),
        ({**ONE, "store-identity": "x", "store-volumes": "a"}, "b", "b"),  # an empty store
        ({**ONE, "store-identity": "x", "store-volumes": "a"}, None, None),
        ({**GUARDED, "store-identity": "x", "store-volumes": "a"}, "b", "x"),  # joined
        ({**GUARDED, "store-identity": "x", "store-volumes": "a"}, None, "x"),
        (GUARDED, "a", "a"),
    ],
)
def test_readers_restart_for_another_store_and_not_for_another_member(config, volumes, identity):
    found = planned(3, config, volumes=volumes)
    assert found.identity == identity
    again = planned(3, dict(found.data), volumes=volumes)
    assert again == found


def test_readers_do_not_restart_by_a_change_from_one_to_three_and_back():
    learner = member(1, is_learner=True, is_started=False)
    found = planned(1, ONE, report(ALL[0]), volumes="0")
    for desired, known, pods, volumes in (
        (3, report(ALL[0]), (0,), "0"),
        (3, report(ALL[0], learner), (0,), "0"),
        (3, report(ALL[0], learner), (0, 1), None),
        (3, report(*ALL[:2]), (0, 1), "0,1"),
        (3, report(*ALL), (0, 1, 2), "0,1,2"),
        (1, report(*ALL[:2]), (0, 1, 2), "0,1,2"),
        (1, report(ALL[0]), (0, 1), "0,1"),
        (1, report(ALL[0]), (0,), "0"),
        (1, report(ALL[0]), (0,), "0"),
    ):
        found = planned(desired, dict(found.data), known, pods=pods, volumes=volumes)
        assert found.identity == "0"
    assert found.data["initial-cluster-state"] == "new"


QUOTED = """{"level":"fatal","error":"x","key":"/registry/clusterroles/couldn't find local name"}"""
LOST = """{"level":"fatal","error":"couldn't find local name \\"etcd-1\\" in the initial"}"""


@pytest.mark.parametrize(
    ("state", "last", "is_lost"),
    [
        ({"waiting": {"reason": "CrashLoopBackOff"}}, {"terminated": {"message": LOST}}, True),
        ({"terminated": {"message": LOST}}, {}, True),
        ({"running": {}}, {"terminated": {"message": LOST}}, False),
        ({"waiting": {}}, {"terminated": {"message": "another fault"}}, False),
        ({"waiting": {}}, {"terminated": {"message": 'ut off"}\n' + LOST}}, True),
        ({"waiting": {}}, {"terminated": {"message": LOST.replace("fatal", "warn")}}, False),
        ({"waiting": {}}, {"terminated": {"message": QUOTED}}, False),
        ({"waiting": {}}, {"terminated": {"message": LOST[:-9]}}, False),
        ({"waiting": {}}, {"terminated": {}}, False),
        ({}, {}, False),
    ],
)
def test_lost_data_is_read_from_the_end_of_a_container(state, last, is_lost):
    container = {"name": "etcd", "state": state, "lastState": last}
    assert member_config.is_data_lost({"status": {"containerStatuses": [container]}}) is is_lost
    other = {**container, "name": "sidecar"}
    assert not member_config.is_data_lost({"status": {"containerStatuses": [other]}})


@pytest.mark.parametrize(
    ("name", "ordinal"), [("etcd-0", 0), ("etcd-12", 12), ("etcd", -1), ("etcd-x", -1)]
)
def test_ordinals_are_read_from_names(name, ordinal):
    assert member_config.get_ordinal(name) == ordinal
