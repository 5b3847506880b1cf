"""A pod that is too large is refused before its text is rendered."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.model.rejections import RejectedError, RejectionProblem
from syncer.rules.pods import environment, pod_build, size_limits
from tenancy.policies import TenantPolicySpec
from tests.support.syncer.pods import FACTS, pod


def containers(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": f"c{number}", "image": "i", **fields} for number in range(count)]


def refused(facts=FACTS, **spec: Any) -> str:
    with pytest.raises(RejectedError) as caught:
        pod_build.build_super_pod(pod(**spec), facts)
    (problem,) = caught.value.problems
    assert problem.rule == "too-large"
    return str(problem)


def test_a_pod_of_many_parts_is_refused_and_one_with_a_thousand_variables_is_not():
    env = [{"name": f"V{number}", "value": "1"} for number in range(1000)]
    pod_build.build_super_pod(pod(containers=containers(1, env=env)), FACTS)
    said = refused(containers=containers(21, env=env))
    assert "has 21021 parts, and the limit is 20000" in said


def too_large(text: str) -> list[RejectionProblem]:
    return [RejectionProblem("too-large", "spec", text)]


def test_what_is_just_small_enough_is_carried():
    most = {"a": [{}] * 19_000, "b": {"c": [["x", 7]] * 333, "d": "text"}, "e": ["y"]}
    assert size_limits.check_written_size(most) == []
    text = "has 20001 parts, and the limit is 20000. Use several pods"
    assert size_limits.check_written_size({**most, "e": ["y", {"f": {"g": "z"}}]}) == too_large(
        text
    )
    assert size_limits.check_reference_count(2000) == []
    text = "names 2001 objects, and the limit is 2000. Use fewer"
    assert size_limits.check_reference_count(2001) == too_large(text)
    assert size_limits.check_affinity_size(1000, 100) == []
    text = "has 1000 terms of affinity to compare with 101 namespaces. Use fewer"
    assert size_limits.check_affinity_size(1000, 101) == too_large(text)


def test_what_services_bring_is_counted():
    assert size_limits.check_variables_size(1_048_576) == []
    assert size_limits.check_variables_size(1_048_577) == too_large(
        "comes to 1048577 bytes of variables of Services, and the limit is 1048576. Set"
        " enableServiceLinks to false, or use fewer Services in the namespace"
    )


def test_a_container_more_costs_one_source():
    made = pod_build.build_super_pod(pod(containers=containers(1000)), FACTS).pod
    assert all(len(each["envFrom"]) == 1 for each in made["spec"]["containers"])
    assert not any(each["env"] for each in made["spec"]["containers"])


def test_so_is_what_it_names():
    volumes = [
        {"name": f"v{number}", "secret": {"secretName": f"s{number}"}} for number in range(2001)
    ]
    assert "names 2001 objects" in refused(containers=containers(1), volumes=volumes)


def test_so_are_terms_that_are_compared_with_namespaces():
    namespaces = {f"n{number}": {"a": "b"} for number in range(101)}
    placement = FACTS.scheduling._replace(namespaces=namespaces)
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "namespaceSelector": {}}
    affinity = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term] * 1000}
    }
    said = refused(
        FACTS._replace(scheduling=placement), containers=containers(1), affinity=affinity
    )
    assert "has 1000 terms of affinity to compare with 101 namespaces" in said


def test_a_long_text_is_written_once_however_often_it_is_asked_for(monkeypatch):
    written = []
    monkeypatch.setattr(
        environment, "format_downward_file", lambda values: written.append(values) or "text"
    )
    mirrors = environment.FieldRefRewriter({"annotations": {"a": "1"}})
    for _ in range(3):
        mirrors.rewrite_field_ref({"fieldPath": "metadata.annotations"})
    assert len(written) == 1


MEMORY_CONTAINER = {"name": "c", "image": "i", "resources": {"limits": {"memory": "1Gi"}}}
MEMORY_VOLUME: dict[str, Any] = {"name": "v", "emptyDir": {"medium": "Memory"}}


MEMORY_TEXT = (
    "is in memory without a limit, and memory is limited by your quota. Set sizeLimit, or a memory"
    " limit for each container"
)
ANY = {"containers": containers(1)}
LIMITED = {"containers": [MEMORY_CONTAINER]}


@pytest.mark.parametrize(
    ("quota", "volume", "fields", "is_refused"),
    [
        ({"memory": "1Gi"}, MEMORY_VOLUME, ANY, True),
        ({"requests.memory": "1Gi"}, MEMORY_VOLUME, ANY, True),
        ({"limits.memory": "1Gi", "memory": "1Gi"}, MEMORY_VOLUME, ANY, False),
        ({"memory": "1Gi"}, MEMORY_VOLUME, LIMITED, False),
        ({"memory": "1Gi"}, MEMORY_VOLUME, {**LIMITED, "initContainers": containers(1)}, True),
        (
            {"memory": "1Gi"},
            MEMORY_VOLUME,
            {**LIMITED, "initContainers": [MEMORY_CONTAINER]},
            False,
        ),
        ({"memory": "1Gi"}, MEMORY_VOLUME, {**ANY, "resources": {"limits": {"cpu": "1"}}}, True),
        (
            {"memory": "1Gi"},
            MEMORY_VOLUME,
            {**ANY, "resources": {"limits": {"memory": "1Gi"}}},
            False,
        ),
        (
            {"memory": "1Gi"},
            {"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            ANY,
            False,
        ),
        ({"memory": "1Gi"}, {"name": "v", "emptyDir": {}}, ANY, False),
        ({"pods": 1}, MEMORY_VOLUME, ANY, False),
        ({}, MEMORY_VOLUME, ANY, False),
    ],
)
def test_a_volume_in_memory_has_a_limit_where_memory_is_limited(
    quota: dict[str, Any], volume: dict[str, Any], fields: dict[str, Any], is_refused: bool
):
    found = size_limits.check_memory_volumes({"volumes": [volume], **fields}, quota)
    problem = RejectionProblem("memory-volume", "spec.volumes[0].emptyDir", MEMORY_TEXT)
    assert found == [problem] * is_refused


def test_a_pod_with_unlimited_memory_volumes_is_refused():
    policy = TenantPolicySpec(quota={"memory": "1Gi"})
    with pytest.raises(RejectedError, match="memory-volume"):
        pod_build.build_super_pod(pod(volumes=[MEMORY_VOLUME]), FACTS._replace(policy=policy))
