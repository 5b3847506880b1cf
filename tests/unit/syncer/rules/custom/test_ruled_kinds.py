"""Changes of copies by a SyncRule: what is the super cluster's own stays, and all else goes."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.model.rejections import ForbiddenObjectError, RejectedError
from syncer.rules.custom.ruled_kinds import build_ruled_kinds
from syncer.rules.registry import SyncedKind
from tenancy.sync_rules.specs import SyncRule, parse_sync_rule
from tests.support.syncer.tenant_views import TENANT, view

FILTER = "spec.rules[].filters[]"
FIELDS = (
    "spec.method.service",
    "spec.size",
    "spec.items[].name",
    "spec.items[].value",
    f"{FILTER}.type",
    f"{FILTER}.requestRedirect.hostname",
    f"{FILTER}.urlRewrite.hostname",
)


def build_rule(kind: str = "Route", **spec: Any) -> SyncRule:
    """Return a rule of the direction Down."""
    plural = f"{kind.lower()}s"
    resource = {"group": "example.io", "version": "v1", "kind": kind, "plural": plural}
    found = {"resource": resource, "direction": "Down", **spec}
    return parse_sync_rule({"metadata": {"name": plural}, "spec": found})


def build_row(*rules: SyncRule) -> SyncedKind:
    """Return the row of routes."""
    found = rules or (build_rule(fields=FIELDS),)
    return build_ruled_kinds(found, TENANT).down["Route"]


def build_body(**spec: Any) -> dict[str, Any]:
    """Return a tenant's route."""
    return {"metadata": {"name": "r", "namespace": "web", "uid": "r"}, "spec": spec}


def change(live: dict[str, Any], wanted: dict[str, Any]) -> Any:
    """Return the spec of the PUT body, or None if there is none."""
    row = build_row()
    twin = row.build(build_body(**wanted), view())
    there = {**twin, "metadata": {**twin["metadata"], "uid": "b", "resourceVersion": "5"}}
    body = row.change({**there, "spec": live}, twin)
    if body is None:
        return None
    assert row.change(body, twin) is None, "the change is complete"
    return body.get("spec")


def test_a_filter_that_changes_in_place_leaves_no_empty_object_behind():
    """The CRD of HTTPRoutes refuses `requestRedirect: {}` beside another type."""
    before = {"type": "RequestRedirect", "requestRedirect": {"hostname": "a.example"}}
    after = {"type": "URLRewrite", "urlRewrite": {"hostname": "b.example"}}
    found = change({"rules": [{"filters": [before]}]}, {"rules": [{"filters": [after]}]})
    assert found == {"rules": [{"filters": [after]}]}


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        ({"size": 1, "method": {"service": "s"}}, {"size": 1}),
        ({"size": 1, "method": {}}, {"size": 1}),
        (
            {"size": 1, "method": {"service": "s", "below": 1}},
            {"size": 1, "method": {"below": 1}},
        ),
    ],
)
def test_an_optional_object_goes_unless_the_super_cluster_has_a_field_in_it(live, expected):
    assert change(live, {"size": 1}) == expected


def test_an_object_that_the_tenant_wants_empty_stays():
    assert change({"size": 1, "method": {"service": "s"}}, {"size": 1, "method": {}}) == {
        "size": 1,
        "method": {},
    }


def test_items_that_change_places_keep_their_own_unlisted_fields():
    """A token that a controller has written for one item must not reach another one."""
    live = [{"name": "a", "value": 1, "token": "of a"}, {"name": "b", "value": 1, "token": "of b"}]
    wanted = [{"name": "b", "value": 2}, {"name": "a", "value": 1}]
    assert change({"items": live}, {"items": wanted}) == {
        "items": [
            {"name": "b", "value": 2, "token": "of b"},
            {"name": "a", "value": 1, "token": "of a"},
        ]
    }


def test_items_without_a_name_are_known_by_their_listed_fields():
    live = [{"value": 1, "token": "of 1"}, {"value": 2, "token": "of 2"}]
    for wanted, tokens in (
        ([2, 1], ["of 2", "of 1"]),
        ([2], ["of 2"]),
        ([3, 2], [None, "of 2"]),
        ([1, 1], ["of 1", None]),
    ):
        found = change({"items": live}, {"items": [{"value": each} for each in wanted]})
        assert [each["value"] for each in found["items"]] == wanted
        assert [each.get("token") for each in found["items"]] == tokens


def test_names_that_repeat_identify_no_item():
    live = [{"name": "a", "value": 1, "token": "of 1"}, {"name": "a", "value": 2, "token": "of 2"}]
    found = change({"items": live}, {"items": [{"name": "a", "value": 2}]})
    assert found == {"items": [{"name": "a", "value": 2, "token": "of 2"}]}


def test_unlisted_fields_of_an_equal_item_are_no_difference():
    live = [{"value": 1, "default": True}, {"value": 2, "default": True}]
    assert change({"items": live}, {"items": [{"value": 1}, {"value": 2}]}) is None


@pytest.mark.parametrize("path", ["spec.*", "spec.**"])
def test_a_closed_field_in_a_map_or_a_tree_withdraws_an_existing_copy(path: str):
    """An earlier version passed closed names in maps."""
    row = build_row(build_rule(fields=[path]))
    with pytest.raises(ForbiddenObjectError) as refused:
        row.build(build_body(hostNetwork=True), view())
    assert [each.path for each in refused.value.problems] == ["spec.hostNetwork"]


@pytest.mark.parametrize("field", ["privileged", "other"])
def test_a_field_that_no_path_names_leaves_an_existing_copy(field: str):
    """A CRD that gains a field with a default value must not delete the copies of all tenants."""
    with pytest.raises(RejectedError) as refused:
        build_row().build(build_body(**{field: True}), view())
    assert not isinstance(refused.value, ForbiddenObjectError)


@pytest.mark.parametrize("form", ["Object", "Name"])
def test_a_reference_to_a_kind_that_the_policy_does_not_select_names_the_kind(form: str):
    reference = {"path": "spec.from", "kinds": ["GRPCRoute"], "form": form}
    rule = build_rule(references=[reference])
    named = {"group": "example.io", "kind": "GRPCRoute", "name": "x"}
    body = build_body(**{"from": named if form == "Object" else "x"})
    with pytest.raises(RejectedError) as refused:
        build_row(rule).build(body, view())
    (problem,) = refused.value.problems
    assert problem.path == ("spec.from.kind" if form == "Object" else "spec.from")
    assert "the kind GRPCRoute, which is not synced for you" in problem.text
    assert "TenantPolicy" in problem.text
    assert build_row(rule, build_rule("GRPCRoute")).build(body, view())["spec"]["from"]


@pytest.mark.parametrize(
    ("paths", "live", "expected"),
    [
        (["status.**"], {"conditions": {"Ready": "True"}}, {"conditions": {"Ready": "True"}}),
        (["status.conditions.**"], {"conditions": "none"}, {"conditions": "none"}),
        (["status.**"], {"a": {"b": None, "c": [{"d": None}]}}, {"a": {"c": [{}]}}),
        (["status.*"], {"phase": "Ready", "nodes": ["n"]}, {"phase": "Ready"}),
    ],
)
def test_a_status_of_any_shape_is_written_once(paths, live, expected):
    """A CRD may have conditions that are no list, and values that are null."""
    row = build_row(build_rule(fields=FIELDS, statusFields=paths))
    assert row.show_status
    assert row.build_status_up
    own = build_body()
    shown = row.show_status(own, {"status": live})
    patch = row.build_status_up(own, shown, ())
    assert patch is not None
    assert patch["status"] == expected
    assert row.build_status_up({**own, "status": expected}, shown, ()) is None


def test_a_map_of_plain_values_leaves_other_fields_of_the_tenant():
    row = build_row(build_rule(fields=FIELDS, statusFields=["status.*"]))
    assert row.build_status_up
    own = {**build_body(), "status": {"phase": "Forged", "old": 1, "mine": {"a": 1}}}
    patch = row.build_status_up(own, {"status": {"phase": "Ready"}}, ())
    assert patch is not None
    assert patch["status"] == {"phase": "Ready", "old": None}
