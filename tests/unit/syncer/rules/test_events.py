"""Events of super objects, rewritten for the tenant."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.rules import events
from tenancy import ownership, wellknown
from tests.support.syncer.tenant_views import TENANT, view


def event(**about: Any) -> dict[str, Any]:
    """Return a super Event about a twin."""
    return {
        "metadata": {"name": "p.17", "namespace": f"{TENANT.root}-web"},
        "involvedObject": {
            "kind": "Pod",
            "apiVersion": "v1",
            "namespace": f"{TENANT.root}-web",
            "name": "p",
            "uid": "below",
            "fieldPath": "spec.containers{main}",
            "resourceVersion": "7",
            **about,
        },
        "reason": "BackOff",
        "message": f"restarting failed container main in pod p_{TENANT.root}-web(below)",
        "type": "Warning",
        "count": 3,
        "source": {"component": "kubelet", "host": "n1"},
    }


TWIN = {
    "uid": "below",
    "annotations": {
        **ownership.build_owner_annotations(TENANT, "web", "above"),
        wellknown.CONTAINERS: "setup,main,debugger",
    },
}


def test_an_event_is_reported_about_the_tenants_object():
    told = events.build_tenant_event(event(), TWIN, view(), name="p", sanitize=str)
    assert told is not None
    assert told["metadata"] == {"name": "p.17", "namespace": "web"}
    assert told["involvedObject"] == {
        "kind": "Pod",
        "apiVersion": "v1",
        "namespace": "web",
        "name": "p",
        "uid": "above",
        "fieldPath": "spec.containers{main}",
    }
    assert told["message"] == "restarting failed container main in pod p_web(above)"
    assert TENANT.root not in str(told)


def test_an_event_about_another_object_of_the_name_stays_in_the_super_cluster():
    foreign = {"uid": "below", "annotations": {}}
    assert (
        events.build_tenant_event(event(uid="earlier"), TWIN, view(), name="p", sanitize=str)
        is None
    )
    assert events.build_tenant_event(event(), foreign, view(), name="p", sanitize=str) is None


@pytest.mark.parametrize(
    ("path", "is_told"),
    [
        ("", True),
        ("spec.containers{main}", True),
        ("spec.initContainers{setup}", True),
        ("spec.ephemeralContainers{debugger}", True),
        ("spec.containers{vault-agent}", False),
        ("spec.initContainers{vault-agent-init}", False),
        ("spec.containers{main,setup}", False),
        ("spec.containers[1]", False),
        ("implicitly required container POD", False),
    ],
)
def test_an_event_about_a_container_of_others_stays_in_the_super_cluster(path, is_told):
    found = event()
    found["involvedObject"]["fieldPath"] = path
    assert (
        events.build_tenant_event(found, TWIN, view(), name="p", sanitize=str) is not None
    ) is is_told


def test_an_event_of_the_newer_api_keeps_its_series_and_reporter():
    new = {
        **event(),
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "series": {"count": 4, "lastObservedTime": "2026-01-01T00:01:00.000000Z", "odd": 1},
        "reportingComponent": "kubelet",
        "reportingInstance": f"{TENANT.root}-x",
        "action": "Restarting",
        "related": {"kind": "Node", "name": "secret"},
    }
    told = events.build_tenant_event(
        new, TWIN, view(), name="p", sanitize=lambda text: text.replace("n1", "n")
    )
    assert told is not None
    assert told["series"] == {"count": 4, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}
    assert (told["reportingComponent"], told["reportingInstance"]) == ("kubelet", "x")
    assert told["source"] == {"component": "kubelet", "host": "n"}
    assert "related" not in told
    growth = events.build_update(told)
    assert set(growth) == {"count", "message", "series", "type"}


def test_no_text_of_an_event_names_the_super_cluster():
    """The one that writes Events may put anything into any of these."""
    below = f"{TENANT.root}-web"
    texts = ("action", "message", "reason", "reportingComponent", "reportingInstance")
    named = {
        **event(),
        **dict.fromkeys(texts, f"of {below}/p on secret-1"),
        "source": {"component": f"of {below}/p on secret-1", "host": "secret-1"},
    }
    told = events.build_tenant_event(
        named, TWIN, view(), name="p", sanitize=lambda text: text.replace("secret-1", "a-node")
    )
    assert told is not None
    assert {told[field] for field in texts} == {"of web/p on a-node"}
    assert told["source"] == {"component": "of web/p on a-node", "host": "a-node"}
    assert TENANT.root not in str(told)


def test_events_beyond_the_budget_are_dropped():
    now = 0.0
    budget = events.EventBudget(per_second=10, burst=3, clock=lambda: now)
    assert [budget.take_token() for _ in range(5)] == [True, True, True, False, False]
    now = 0.1
    assert [budget.take_token() for _ in range(2)] == [True, False]
