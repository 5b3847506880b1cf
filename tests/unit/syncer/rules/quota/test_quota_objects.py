"""Objects that enforce and show a quota."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.rules.quota import quota_objects
from tests.support.syncer.sessions import SessionWorld


def objects(quota: dict[str, Any]) -> list[Any]:
    """Return the specs of the ResourceQuota and the LimitRange of a namespace."""
    world = SessionWorld()
    space = world.tenant_has("Namespace", "web", namespace="")
    view = world.session.view
    built = (
        quota_objects.build_resource_quota(space, view, quota),
        quota_objects.build_limit_range(space, view, quota),
    )
    return [each and each["spec"] for each in built]


REQUESTS = {"type": "Container", "defaultRequest": {"memory": "128Mi"}}


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ({}, [None, None]),
        ({"bytes/secrets": "1Mi", "count/namespaces": 4}, [None, None]),
        ({"pods": 4}, [{"hard": {"pods": "4"}}, None]),
        ({"count/configmaps": "2k"}, [{"hard": {"count/configmaps": "2001"}}, None]),
        (
            {"gpu.deviceclass.resource.k8s.io/devices": 2, "bytes/secrets": "1Mi"},
            [{"hard": {"gpu.deviceclass.resource.k8s.io/devices": "2"}}, None],
        ),
        ({"memory": "1Gi"}, [{"hard": {"memory": "1Gi"}}, {"limits": [REQUESTS]}]),
        (
            {"limits.memory": "1Gi"},
            [
                {"hard": {"limits.memory": "1Gi"}},
                {"limits": [{**REQUESTS, "default": {"memory": "512Mi"}}]},
            ],
        ),
    ],
)
def test_a_namespace_has_what_kubernetes_knows_of_a_quota(
    quota: dict[str, Any], expected: list[Any]
):
    assert objects(quota) == expected


def build(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return a ResourceQuota."""
    head = {"labels": {"a": "b"}, "annotations": {}, "uid": "u", "resourceVersion": "1"}
    return {"kind": "ResourceQuota", "metadata": {**head, **metadata}, "spec": spec}


@pytest.mark.parametrize(
    ("live", "is_changed"),
    [
        (build({"hard": {"cpu": "1000m"}}), False),
        (build({"hard": {"cpu": "1"}}, labels={"a": "b", "other": "c"}), False),
        (build({"hard": {"cpu": "2"}}), True),
        (build({"hard": {"cpu": "1", "pods": "1"}}), True),
        (build({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]}), True),
        (build({"hard": {"cpu": "1"}}, labels={}), True),
    ],
)
def test_an_object_is_replaced_when_it_differs(live: dict[str, Any], is_changed: bool):
    wanted = build({"hard": {"cpu": "1"}})
    found = quota_objects.build_replacement(live, wanted)
    assert (found is not None) is is_changed
    if found is not None:
        assert found["spec"] == wanted["spec"]


def test_the_report_names_waiting_objects():
    found = quota_objects.build_report({"pods": 2000}, {"pods": 5000}, [("Pod web/a", "why")], 9)
    assert found["data"] == {
        "hard": "pods: 2\n",
        "used": "pods: 5\n",
        "left": "pods: 0\n",
        "waitingObjects": "9",
        "waiting": "Pod web/a: why\n",
    }
