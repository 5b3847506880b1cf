"""Conditions of SyncRules that cannot be used: each reason, and its remedy in words."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kubeio import Object
from tenancy.resources import SYNC_RULES
from tenancy.sync_rules import rights
from tenancy.sync_rules.specs import parse_sync_rule
from tests.integration.syncer.test_sync_rules import (
    GROUP,
    KINDS,
    build_definition,
    build_rule,
    ensure_definitions,
    grant_kinds,
    report,
)
from tests.integration.syncer.world import SyncerWorld
from tools.testbed.artifacts import product

REASON = re.compile(r"`([A-Z][A-Za-z]+)`")


LABEL = "tenancy.x-k8s.io/aggregate-to-syncer=true"


def of_kind(kind: str, group: str = GROUP, **changes: str) -> Object:
    """Return the part of a spec with the coordinates of a kind."""
    resource = {"group": group, "version": "v1", "kind": kind, "plural": f"{kind.lower()}s"}
    return {"resource": resource | changes}


def build_bare_definition() -> Object:
    """Return a CRD without a status subresource, to which the syncer has no rights."""
    found = build_definition("Bare")
    del found["spec"]["versions"][0]["subresources"]
    return found


def refers_to(kind: str) -> Object:
    """Return the part of a spec with a reference to a kind."""
    return {"references": [{"path": "spec.to", "kinds": [kind]}]}


PODS_OF_RULES = "its objects create pods that the tenant's policy does not check. Delete the rule."
BAD: tuple[tuple[Object, str, str], ...] = (
    (
        of_kind("RoleBinding", "rbac.authorization.k8s.io"),
        "KindForbidden",
        "because its objects grant rights. Delete the rule.",
    ),
    (of_kind("Deployment", "apps"), "KindForbidden", PODS_OF_RULES),
    (
        of_kind("StorageClass", "storage.k8s.io"),
        "KindForbidden",
        "Use spec.sync of a TenantPolicy to show its classes.",
    ),
    (
        of_kind("NetworkPolicy", "networking.k8s.io"),
        "KindReserved",
        "Use the fields of a TenantPolicy instead.",
    ),
    (
        of_kind("Service"),
        "KindReserved",
        "A rule for a kind of that name in another group is not supported. Delete the rule.",
    ),
    (
        {"fields": ["spec.podTemplate.x"]},
        "FieldForbidden",
        "rights in the super cluster that the TenantPolicy does not check. Remove the path.",
    ),
    (
        {"fields": ["metadata.finalizers"]},
        "FieldForbidden",
        "the syncer builds the metadata itself and the status has its own list. Remove the path.",
    ),
    (
        {"statusFields": ["spec.size"]},
        "FieldForbidden",
        "spec.size is not in the status. Move it to spec.fields.",
    ),
    (
        refers_to("Nowhere"),
        "ReferenceUnknown",
        "the kind Nowhere, which has no SyncRule. Create one for it, or remove the kind.",
    ),
    (
        {**refers_to("Service"), "placement": "WithPods"},
        "PlacementConflict",
        "in the home cluster only. Remove the kind, or use the placement Home.",
    ),
    (
        of_kind("Gone"),
        "DefinitionMissing",
        "Create it, or set spec.definition to BuiltIn for a kind of the API server itself.",
    ),
    (
        of_kind("Gadget", version="v9"),
        "VersionNotServed",
        f"gadgets.{GROUP} does not serve v9. Use a version that it serves.",
    ),
    (
        {"direction": "Mirror"},
        "ScopeNotSupported",
        "Set spec.mirror for a kind with namespaces, and remove it for any other.",
    ),
    (
        of_kind("Bare"),
        "StatusNotSupported",
        f"v1 of bares.{GROUP} has no status subresource. Remove spec.statusFields.",
    ),
    (
        {**of_kind("Bare"), "statusFields": []},
        "RightsMissing",
        f'"resourceNames":["bares.{GROUP}"],"verbs":["get","list","watch"]}}].',
    ),
    (
        of_kind("Gizmo", plural="gadgets"),
        "InvalidSpec",
        f"gadgets.{GROUP} defines the kind Gadget. Use that.",
    ),
    (
        {"fields": ["spec..size"]},
        "InvalidSpec",
        "[] after a list, and * or ** as the last segment only. Correct the SyncRule.",
    ),
)
"""Fields that differ from a usable rule, the reason, and the words of the remedy."""


async def read_conditions(world: SyncerWorld, *bodies: Object) -> dict[str, Any]:
    """Return the conditions of some rules by name, as vc-manager writes them."""
    await ensure_definitions(world, map(build_definition, KINDS))
    await ensure_definitions(world, [build_bare_definition()])
    await grant_kinds(world)
    names = [body["metadata"]["name"] for body in bodies]
    for body in bodies:
        await world.super_client.create(SYNC_RULES, body, validation="Strict")
    try:
        await report(world)
        items = [await world.super_client.get(SYNC_RULES, name) for name in names]
    finally:
        for name in names:
            await world.super_client.delete(SYNC_RULES, name)
    found = {}
    for name, item in zip(names, items, strict=True):
        (found[name],) = item["status"]["conditions"]
        is_ready = found[name]["status"] == "True"
        assert is_ready == (found[name]["reason"] == "Served")
    return found


@pytest.mark.parametrize(
    ("spec", "reason", "remedy"), BAD, ids=[f"{i}-{row[1]}" for i, row in enumerate(BAD)]
)
async def test_a_bad_rule_has_a_condition_with_a_remedy(
    world: SyncerWorld, spec: Object, reason: str, remedy: str
):
    """Every reason of docs/sync-rules.md names the cause, and an instruction."""
    (condition,) = (await read_conditions(world, build_rule("Gadget", **spec))).values()
    assert (condition["type"], condition["reason"]) == ("Ready", reason), condition
    assert condition["message"].endswith(remedy), condition


async def test_missing_rights_are_named_as_rules_of_a_role(world: SyncerWorld):
    rule = build_rule("Bare", fields=["spec.size"])
    (condition,) = (await read_conditions(world, rule)).values()
    words, _, rules = condition["message"].partition(" and the rules ")
    assert words.endswith("Create a ClusterRole with the label " + LABEL)
    assert json.loads(rules.removesuffix(".")) == rights.build_super_rules([parse_sync_rule(rule)])


async def test_the_second_rule_of_a_kind_is_in_conflict(world: SyncerWorld):
    """The rule whose name sorts first stays usable."""
    first, second = build_rule("Gadget"), build_rule("Gadget")
    second["metadata"] = {"name": "gadgets-again"}
    found = await read_conditions(world, first, second)
    assert found["gadgets"]["reason"] == "Served"
    assert found["gadgets-again"]["reason"] == "Conflict"
    assert found["gadgets-again"]["message"] == (
        "spec.resource.kind: the SyncRule gadgets has the kind Gadget. Delete one of the two rules."
    )


def test_every_reason_of_the_page_has_a_row():
    page = (product.REPOSITORY / "docs" / "sync-rules.md").read_text()
    table = page.partition("## Reasons of the condition Ready")[2].partition("\n## ")[0]
    named = {
        word
        for line in table.splitlines()
        for word in REASON.findall(line.partition("| ")[2].partition(" |")[0])
    }
    assert named == {"Served", "Conflict", *(reason for _, reason, _ in BAD)}
