"""ResourceClaims by a SyncRule: classes that are offered, and a status that cannot change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kubeio.cache.store import Entry
from syncer.model.rejections import RejectedError
from syncer.model.tenant_view import TenantView
from syncer.rules.custom.ruled_kinds import build_ruled_kinds
from syncer.rules.registry import SyncedKind
from tenancy.sync_rules.checks import find_problem
from tenancy.sync_rules.rights import build_super_rules, build_tenant_rules
from tenancy.sync_rules.specs import SyncRule, parse_sync_rule
from tests.support.syncer.tenant_views import TENANT, entry_of, view

CLASS_FIELD = "spec.devices.requests[].exactly.deviceClassName"
LABELS = {"offered": "true"}


def build_rule(kind: str, plural: str, **spec: Any) -> SyncRule:
    """Return a rule for a kind of resource.k8s.io."""
    resource = {"group": "resource.k8s.io", "version": "v1", "kind": kind, "plural": plural}
    found = {"resource": resource, "definition": "BuiltIn", **spec}
    return parse_sync_rule({"metadata": {"name": plural}, "spec": found})


CLAIMS = build_rule(
    "ResourceClaim",
    "resourceclaims",
    direction="Down",
    fields=["spec.devices.requests[].name"],
    references=[{"path": CLASS_FIELD, "kinds": ["DeviceClass"], "form": "Name"}],
    statusFields=["status.allocation.devices.results[].device"],
)
CLASSES = build_rule(
    "DeviceClass",
    "deviceclasses",
    direction="Mirror",
    selector={"matchLabels": LABELS},
    fields=["spec.selectors.**"],
)


def get_row() -> SyncedKind:
    """Return the row of ResourceClaims."""
    return build_ruled_kinds([CLAIMS, CLASSES], TENANT).down["ResourceClaim"]


def build_view(**labels: dict[str, str]) -> TenantView:
    """Return a view of a super cluster with these DeviceClasses, with their labels."""
    entries = {
        name: entry_of({"metadata": {"name": name, "uid": name, "labels": found}})
        for name, found in labels.items()
    }

    def get(kind: str, namespace: str, name: str) -> Entry | None:
        return entries.get(name) if (kind, namespace) == ("DeviceClass", "") else None

    return replace(view(), get_shown_source=get)


def build_claim(class_name: str, **exactly: Any) -> dict[str, Any]:
    """Return a tenant's claim."""
    request = {"name": "gpu", "exactly": {"deviceClassName": class_name, **exactly}}
    metadata = {"name": "mine", "namespace": "web", "uid": "c"}
    return {"metadata": metadata, "spec": {"devices": {"requests": [request]}}}


def test_a_claim_names_offered_classes_only():
    offered = build_view(gpu=LABELS, hidden={})
    spec = get_row().build(build_claim("gpu"), offered)["spec"]
    assert spec == build_claim("gpu")["spec"]
    for name in ("hidden", "missing"):
        with pytest.raises(RejectedError) as refused:
            get_row().build(build_claim(name), offered)
        assert [each.rule for each in refused.value.problems] == ["sync-rule-reference"]


def test_admin_access_is_closed_and_no_rule_opens_it():
    with pytest.raises(RejectedError) as refused:
        get_row().build(build_claim("gpu", adminAccess=True), build_view(gpu=LABELS))
    assert [each.rule for each in refused.value.problems] == ["sync-rule-closed-field"]
    path = "spec.devices.requests[].exactly.adminAccess"
    opening = build_rule("ResourceClaim", "resourceclaims", direction="Down", fields=[path])
    problem = find_problem(opening)
    assert problem is not None
    assert problem.reason == "FieldForbidden"


def show(before: dict[str, Any], device: str | None) -> dict[str, Any] | None:
    """Return the patch of a tenant's status that shows the allocation of a device."""
    own = {"metadata": {"uid": "c", "namespace": "web"}, "status": before}
    row = get_row()
    assert row.show_status is not None
    assert row.build_status_up is not None
    patch = row.build_status_up(own, row.show_status(own, {"status": allocation(device)}), ())
    return None if patch is None else patch["status"]


def allocation(device: str | None) -> dict[str, Any]:
    """Return the status of a super claim."""
    reserved = [{"resource": "pods", "name": "p", "uid": "super"}]
    if device is None:
        return {}
    devices = {"results": [{"device": device}], "config": [{"opaque": {}}]}
    return {"allocation": {"devices": devices, "nodeSelector": {}}, "reservedFor": reserved}


def test_the_reservations_are_the_tenants_own():
    shown = {"devices": {"results": [{"device": "a"}]}}
    assert show({}, "a") == {"allocation": shown}
    reserved = [{"resource": "pods", "name": "p", "uid": "own"}]
    assert show({"allocation": shown, "reservedFor": reserved}, "a") is None


def test_another_allocation_comes_after_the_removal_of_the_first_one():
    shown = {"devices": {"results": [{"device": "a"}]}}
    reserved = [{"resource": "pods", "name": "p", "uid": "own"}]
    before = {"allocation": shown, "reservedFor": reserved}
    assert show(before, "b") == {"allocation": None, "reservedFor": None}
    assert show(before, None) == {"allocation": None, "reservedFor": None}
    assert show({}, "b") == {"allocation": {"devices": {"results": [{"device": "b"}]}}}


def test_the_right_to_bind_is_for_the_tenant_alone():
    in_tenant = {name for rule in build_tenant_rules([CLAIMS]) for name in rule["resources"]}
    assert in_tenant == {
        "resourceclaims",
        "resourceclaims/status",
        "resourceclaims/binding",
    }
    below = {name for rule in build_super_rules([CLAIMS]) for name in rule["resources"]}
    assert below == {"resourceclaims"}
