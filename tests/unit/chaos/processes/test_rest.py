"""Faults between two sides: each rule has a case that breaks it, and each case breaks a rule."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tenancy import ownership
from tenancy.ownership import Tenant
from tenancy.resources import CONFIG_MAPS, NAMESPACES, PODS, SECRETS, SERVICES
from tests.chaos.processes import rest
from tests.chaos.processes.sides import DrillTenant

TENANT = Tenant(name="t", namespace="default", uid="vc-0", root="default-000000-t")
OTHER = Tenant(name="o", namespace="default", uid="vc-1", root="default-000000-o")


def side(tenant: Tenant = TENANT, number: int = 0) -> DrillTenant:
    return DrillTenant(number, None, tenant, None)  # type: ignore[arg-type]  # no server is asked


def of_tenant(name: str, uid: str, **parts: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "web", "uid": uid, "labels": {"app": "canary0-1"}}
    return {"metadata": metadata, **parts}


def twin(body: dict[str, Any]) -> dict[str, Any]:
    own = body["metadata"]
    metadata = {
        "name": own["name"],
        "namespace": side().below("web"),
        "uid": f"super-{own['uid']}",
        "labels": {**own["labels"], **ownership.build_owner_labels(TENANT, "web")},
        "annotations": ownership.build_owner_annotations(TENANT, "web", own["uid"]),
    }
    return {**copy.deepcopy(body), "metadata": metadata}


SERVICE = of_tenant("web", "u1", spec={"ports": [{"port": 80}], "clusterIP": "10.96.8.9"})
POD = of_tenant(
    "p",
    "u2",
    spec={
        "nodeName": "node-0",
        "containers": [{"name": "main", "image": "i:1"}],
        "volumes": [{"name": "v", "configMap": {"name": "c"}}],
    },
    status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
)
CONFIG = of_tenant("c", "u3", data={"k": "canary0-1"})
SPARE = of_tenant("spare", "u4", data={"k": "canary0-2"})


def world() -> tuple[dict[Any, list[Any]], dict[Any, list[Any]]]:
    """Return both sides in step: below, above."""
    above = {
        NAMESPACES: [],
        PODS: [copy.deepcopy(POD)],
        SERVICES: [copy.deepcopy(SERVICE)],
        CONFIG_MAPS: [copy.deepcopy(CONFIG), copy.deepcopy(SPARE)],
        SECRETS: [],
    }
    below = {kind: [twin(body) for body in found] for kind, found in above.items()}
    below[CONFIG_MAPS].pop()  # no one needs it
    return below, above


def rules(below: Any, above: Any) -> list[str]:
    other = {kind: [] for kind in above}
    both = [(side(), above), (side(OTHER, 1), other)]
    return [each.rule for each in rest.findings(below, both)]


def test_both_sides_in_step_are_no_finding():
    assert rules(*world()) == []


@pytest.mark.parametrize("kind", [PODS, SERVICES, CONFIG_MAPS])
def test_what_has_no_twin_is_lost(kind):
    below, above = world()
    below[kind].pop()
    assert rules(below, above) == ["lost"]


def test_a_twin_of_another_uid_is_an_orphan_and_its_place_is_lost():
    below, above = world()
    above[SERVICES][0]["metadata"]["uid"] = "u9"
    assert rules(below, above) == ["orphan", "lost"]


def test_a_name_of_a_foreign_object_is_not_lost():
    below, above = world()
    above[SERVICES].append(of_tenant(rest.FOREIGN, "u8", spec={"ports": []}))
    assert rules(below, above) == []


def test_two_for_one_are_a_duplicate():
    below, above = world()
    second = twin(SERVICE)
    second["metadata"] |= {"name": "web-2", "uid": "super-2"}
    below[SERVICES].append(second)
    assert rules(below, above)[0] == "duplicate"


def test_what_is_on_its_way_out_at_rest_is_reported_on_either_side():
    below, above = world()
    below[PODS][0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert rules(below, above) == ["orphan"]
    below, above = world()
    above[PODS][0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert "unfinished" in rules(below, above)


@pytest.mark.parametrize(
    ("kind", "part", "value", "rule"),
    [
        (SERVICES, "spec", {"ports": [{"port": 81}], "clusterIP": "10.96.8.9"}, "different"),
        (SERVICES, "spec", {"ports": [{"port": 80}], "clusterIP": "10.96.8.1"}, "different"),
        (CONFIG_MAPS, "data", {"k": "canary0-9"}, "different"),
        (CONFIG_MAPS, "data", {"k": "canary1-1"}, "strayed"),
        (PODS, "status", {"phase": "Failed", "conditions": []}, "untold"),
    ],
)
def test_a_difference_of_a_twin_is_reported(kind, part, value, rule):
    below, above = world()
    below[kind][0][part] = value
    assert rule in rules(below, above)


def test_a_twin_in_another_namespace_is_different():
    below, above = world()
    below[SERVICES][0]["metadata"]["namespace"] = side().below("db")
    assert rules(below, above) == ["different"]
