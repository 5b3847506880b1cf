"""Changes of a running pod: ephemeral containers, resources, and their limits."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncer.model.field_rules import iterate_leaf_paths
from syncer.model.rejections import RejectedError
from syncer.rules.pods import ephemeral_containers, pod_patch, pod_status
from tenancy import names, wellknown
from tenancy.policies import AccessSpec, NodesSpec, SecuritySpec, TenantPolicySpec
from tests.support.syncer.pods import FACTS, TENANT, below, build, pod
from tests.unit.syncer.rules.pods.test_pod_fields import REFUSED


def sides(
    ephemeral: Any = None, there: Any = (), served: str = "main"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a tenant pod with ephemeral containers, and its twin with these."""
    tenant_pod = pod(ephemeralContainers=ephemeral)
    twin = build(pod())
    twin["metadata"] |= {"uid": "below-uid"}
    twin["metadata"]["annotations"][wellknown.CONTAINERS] = served
    twin["spec"]["containers"].append({"name": "sidecar", "image": "i"})
    twin["spec"]["ephemeralContainers"] = list(there)
    return tenant_pod, twin


def made(item: dict[str, Any]) -> dict[str, Any]:
    """Return an ephemeral container as it goes down."""
    tenant_pod, twin = sides([item])
    found, problems = ephemeral_containers.split_addable(tenant_pod, twin, FACTS)
    if problems:
        assert not found
        raise RejectedError(*problems)
    return found[0]


def rules(item: dict[str, Any]) -> set[str]:
    """Return the rules by which an ephemeral container is refused."""
    with pytest.raises(RejectedError) as refused:
        made(item)
    return {problem.rule for problem in refused.value.problems}


REFUSING = TenantPolicySpec(access=AccessSpec(ephemeral_containers=False))


OF_CONTAINERS = [
    (refused, rule)
    for refused, rule in REFUSED
    if {**refused["spec"], "containers": []} == {**pod()["spec"], "containers": []}
    and isinstance(refused["spec"]["containers"], list)
]


DEBUGGER = {"name": "debugger", "image": "i", "targetContainerName": "main", "tty": True}


def test_a_debug_container_goes_down_by_the_table():
    found = made({**DEBUGGER, "env": [{"name": "A", "value": "1"}]})
    assert {key: found[key] for key in DEBUGGER} == DEBUGGER
    assert found["env"] == [{"name": "A", "value": "1"}]
    assert found["envFrom"] == [{"configMapRef": {"name": "vc-service-variables"}}]


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"securityContext": {"privileged": True}}, "privileged"),
        ({"targetContainerName": "sidecar"}, "target-container"),
        ({"targetContainerName": ["main"]}, "target-container"),
        ({"volumeMounts": [{"name": "injected", "mountPath": "/v"}]}, "volume-mount"),
        (
            {"env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "injected"}}}]},
            "volume-mount",
        ),
        ({"envFrom": [{"secretRef": {"name": "vc-token-x"}}]}, "reserved-name"),
        ({"envFrom": [{"configMapRef": {"name": names.SUPER_ROOT_CA}}]}, "reserved-name"),
        ({"envFrom": [{"configMapRef": {"name": ".."}}]}, "reference-name"),
        ({"envFrom": [{"secretRef": {"name": "../other/x"}}]}, "reference-name"),
        ({"surprise": 1}, "unknown-field"),
        ({"name": "sidecar"}, "name-taken"),
        ({"name": ""}, "malformed"),
        ({"name": ["x"]}, "malformed"),
        ({"name": "a,sidecar"}, "malformed"),
    ],
)
def test_what_a_debug_container_may_not(fields, rule):
    """SEC-19: the table of ordinary containers, and nothing of what the tenant did not write."""
    assert rules({**DEBUGGER, **fields}) == {rule}


@pytest.mark.parametrize(("tenant_pod", "rule"), OF_CONTAINERS)
def test_what_is_refused_of_a_container_is_refused_of_a_debug_container(tenant_pod, rule):
    """SEC-19: each refusal that the table of pods has for a container."""
    (own,) = tenant_pod["spec"]["containers"]
    assert rule in rules({**DEBUGGER, **own, "name": "debugger"})


def test_a_policy_may_refuse_them_all():
    """SEC-19: with an Event that says so."""
    tenant_pod, _ = sides([DEBUGGER])
    with pytest.raises(RejectedError) as refused:
        ephemeral_containers.build_containers(
            tenant_pod, [DEBUGGER], FACTS._replace(policy=REFUSING)
        )
    assert refused.value.problems[0].rule == "ephemeral-containers"


def debugging(container: dict[str, Any], policy: TenantPolicySpec) -> list[dict[str, Any]]:
    """Return a debug container as it goes down under a policy."""
    tenant_pod, _ = sides([container])
    return ephemeral_containers.build_containers(
        tenant_pod, [container], FACTS._replace(policy=policy)
    )


def test_a_policy_decides_on_them_as_on_any_container():
    wide = {**DEBUGGER, "securityContext": {"privileged": True}}
    shows = {"fieldRef": {"fieldPath": "status.hostIP"}}
    nosy = {**DEBUGGER, "env": [{"name": "NODE", "valueFrom": shows}]}
    privileged = TenantPolicySpec(security=SecuritySpec(level="privileged"))
    minimal = TenantPolicySpec(nodes=NodesSpec(view="Minimal"))
    (made,) = debugging(wide, privileged)
    assert made["securityContext"] == {"privileged": True}
    assert debugging(nosy, privileged)
    with pytest.raises(RejectedError) as refused:
        debugging(nosy, minimal)
    assert [problem.rule for problem in refused.value.problems] == ["node-view"]


@pytest.mark.parametrize("malformed", [{}, "x", ["x"], [{}], [None], 3])
def test_a_malformed_list_is_refused_and_never_stumbled_over(malformed):
    tenant_pod, twin = sides(malformed)
    if not malformed:
        assert ephemeral_containers.list_added(tenant_pod, twin) == []
        return
    with pytest.raises(RejectedError):
        ephemeral_containers.list_added(tenant_pod, twin)


@pytest.mark.parametrize("malformed", [{}, "x", ["x"], [{"env": 3}], 3])
def test_a_malformed_list_changes_nothing_else(malformed):
    tenant_pod, twin = sides(malformed)
    assert pod_patch.build_running_patch(tenant_pod, twin, TENANT) is None


NOT_READY = "node.kubernetes.io/not-ready"


@pytest.mark.parametrize(
    "spec",
    [
        {"tolerations": [{"key": NOT_READY, "future": {"a": 1}}]},
        {"tolerations": [{"key": NOT_READY, "value": {"a": 1}}]},
        {"tolerations": {"key": NOT_READY}},
        {"activeDeadlineSeconds": {"a": 1}},
        {"containers": [{"name": "main", "image": {"a": 1}}]},
    ],
)
def test_what_may_change_on_a_running_pod_is_walked_like_any_other(spec):
    tenant_pod, twin = sides([])
    tenant_pod["spec"].update(spec)
    with pytest.raises(RejectedError):
        pod_patch.build_running_patch(tenant_pod, twin, TENANT)


def test_what_a_policy_let_pass_before_does_not_hold_a_running_pod():
    tenant_pod, twin = sides([])
    tenant_pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    added = {"key": NOT_READY, "operator": "Exists", "tolerationSeconds": 5}
    tenant_pod["spec"]["tolerations"] = [added]
    patch = pod_patch.build_running_patch(tenant_pod, twin, TENANT)
    assert patch is not None
    assert patch["spec"] == {"tolerations": [added]}


def test_what_is_there_is_not_added_again_and_only_our_own_is_served():
    tenant_pod, twin = sides([DEBUGGER], [DEBUGGER], served="main,debugger")
    assert ephemeral_containers.list_added(tenant_pod, twin) == []
    assert ephemeral_containers.list_recorded_names(tenant_pod, twin, ()) == ["debugger"]
    tenant_pod, twin = sides([DEBUGGER], [DEBUGGER], served="main")  # of a super administrator
    assert ephemeral_containers.list_recorded_names(tenant_pod, twin, ()) == []
    found, problems = ephemeral_containers.split_addable(tenant_pod, twin, FACTS)
    assert (found, [problem.rule for problem in problems]) == ([], ["name-taken"])


def test_one_that_is_refused_bars_no_other_and_leaves_no_name_behind():
    """A recorded name without a container would open whatever is added below by that name."""
    wide = {**DEBUGGER, "name": "wide", "securityContext": {"privileged": True}}
    taken = {**DEBUGGER, "name": "sidecar"}
    tenant_pod, twin = sides([wide, taken, DEBUGGER])
    found, problems = ephemeral_containers.split_addable(tenant_pod, twin, FACTS)
    assert [container["name"] for container in found] == ["debugger"]
    assert [problem.rule for problem in problems] == ["privileged", "name-taken"]
    assert problems[0].path.startswith("spec.ephemeralContainers[0]")
    assert pod_patch.build_running_patch(tenant_pod, twin, TENANT) is None
    tenant_pod, twin = sides([wide], served="main,wide")
    patch = pod_patch.build_running_patch(tenant_pod, twin, TENANT)
    assert patch is not None
    assert patch["metadata"]["annotations"] == {wellknown.CONTAINERS: "main"}


def test_the_annotation_names_a_container_just_before_it_is_added_and_else_never():
    tenant_pod, twin = sides([DEBUGGER])
    assert pod_patch.build_running_patch(tenant_pod, twin, TENANT) is None
    patch = pod_patch.build_running_patch(tenant_pod, twin, TENANT, adding=["debugger"])
    assert patch is not None
    assert patch["metadata"]["annotations"] == {wellknown.CONTAINERS: "main,debugger"}
    tenant_pod, twin = sides([DEBUGGER], served="main,debugger")  # it was never taken below
    patch = pod_patch.build_running_patch(tenant_pod, twin, TENANT)
    assert patch is not None
    assert patch["metadata"]["annotations"] == {wellknown.CONTAINERS: "main"}


def test_a_container_that_comes_into_a_running_pods_template_is_not_served():
    tenant_pod, twin = sides()
    tenant_pod["spec"]["containers"] += [{"name": "sidecar", "image": "i"}]
    assert pod_patch.build_running_patch(tenant_pod, twin, TENANT) is None
    del twin["metadata"]["annotations"][wellknown.CONTAINERS]  # someone below took it away
    patch = pod_patch.build_running_patch(pod(), twin, TENANT)
    assert patch is not None
    assert patch["metadata"]["annotations"] == {wellknown.CONTAINERS: "main"}


def test_statuses_of_containers_that_are_not_the_tenants_stay_in_the_super_cluster():
    tenant_pod, twin = sides([DEBUGGER], [DEBUGGER], served="main")
    twin["status"] = {
        "containerStatuses": [{"name": "main"}, {"name": "sidecar"}, {"name": "debugger"}],
        "ephemeralContainerStatuses": [{"name": "debugger"}, {"name": "main"}],
    }
    found = pod_status.build_status(tenant_pod, twin, [])
    assert found["containerStatuses"] == [{"name": "main"}]
    assert found["ephemeralContainerStatuses"] == []
    twin["metadata"]["annotations"][wellknown.CONTAINERS] = "main,debugger"
    found = pod_status.build_status(tenant_pod, twin, [])
    assert found["ephemeralContainerStatuses"] == [{"name": "debugger"}]


def test_an_eviction_in_the_tenant_is_not_forgotten_and_one_in_the_super_cluster_wins():
    tenant_pod, twin = sides([])
    own = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    tenant_pod["status"]["conditions"] = [own, {"type": "Ready", "status": "False"}]
    twin["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    found = pod_status.build_status(tenant_pod, twin, [])["conditions"]
    assert found == [{"type": "Ready", "status": "True"}, own]
    theirs = {**own, "reason": "PreemptionByScheduler"}
    twin["status"]["conditions"].append(theirs)
    found = pod_status.build_status(tenant_pod, twin, [])["conditions"]
    assert [item for item in found if item["type"] == "DisruptionTarget"] == [theirs]


def test_no_leaf_outside_the_table_arrives():
    names_of_leaves = {
        path.split(".")[1].removesuffix("[]")
        for path, _ in iterate_leaf_paths(ephemeral_containers.EPHEMERAL_CONTAINER, "x")
    }

    @given(st.dictionaries(st.text(min_size=1, max_size=8), st.integers(1, 9), max_size=4))
    def check(extra: dict[str, int]) -> None:
        item = {**extra, **DEBUGGER}
        try:
            found = made(item)
        except RejectedError:
            return
        assert set(found) <= names_of_leaves

    check()


# --- keys that webhooks add -----------------------------------------------------------------------


def test_keys_of_the_super_cluster_stay_and_the_tenants_own_go_with_it():
    tenant_pod = pod({"labels": {"app": "web", "tier": "front"}, "annotations": {"note": "x"}})
    twin = build(tenant_pod)
    twin["metadata"] |= {"uid": "below-uid"}
    twin["metadata"]["labels"] |= {"injected": "yes"}
    twin["metadata"]["annotations"] |= {"injected": "yes"}
    assert pod_patch.build_running_patch(tenant_pod, twin, TENANT) is None
    fewer = copy.deepcopy(tenant_pod)
    del fewer["metadata"]["labels"]["tier"], fewer["metadata"]["annotations"]["note"]
    patch = pod_patch.build_running_patch(fewer, twin, TENANT)
    assert patch is not None
    assert patch["metadata"]["labels"] == {"tier": None}
    assert patch["metadata"]["annotations"] == {
        "note": None,
        wellknown.SYNCED_KEYS: '[["app"],[]]',
    }


@pytest.mark.parametrize("record", [None, "", "x", "{}", "[1,2]", "[[],[],[]]"])
def test_a_twin_without_a_readable_record_may_hold_keys_of_the_tenant(record):
    tenant_pod = pod({"labels": {"app": "web"}})
    twin = build(tenant_pod)
    twin["metadata"] |= {"uid": "below-uid"}
    twin["metadata"]["labels"] |= {"left": "over"}
    twin["metadata"]["annotations"][wellknown.SYNCED_KEYS] = record
    if record is None:
        del twin["metadata"]["annotations"][wellknown.SYNCED_KEYS]
    patch = pod_patch.build_running_patch(tenant_pod, twin, TENANT)
    assert patch is not None
    assert patch["metadata"]["labels"] == {"left": None}
    assert patch["metadata"]["annotations"] == {wellknown.SYNCED_KEYS: '[["app"],[]]'}


def test_an_over_long_record_is_left_out():
    labels = {f"key-{number:05d}{'x' * 40}": "" for number in range(1000)}
    twin = build(pod({"labels": labels}))
    assert wellknown.SYNCED_KEYS not in twin["metadata"]["annotations"]
    assert below("web") == twin["metadata"]["namespace"]
