"""Conditions of SyncRules, by the discovery of a real API server under vc-manager's own rights."""

from __future__ import annotations

import pytest

from kubeio import Object
from tenancy import resources
from tests.integration.vcmanager.conftest import ManagerStage
from vcmanager.reconcilers.sync_rules import reconcile_sync_rules
from vcmanager.runtime import keys

pytestmark = pytest.mark.integration

CLAIMS = {
    "group": "resource.k8s.io",
    "version": "v1",
    "kind": "ResourceClaim",
    "plural": "resourceclaims",
}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "RightsMissing"),  # the kind is served, and only a ClusterRole is missing
        ({"version": "v9"}, "VersionNotServed"),
        ({"plural": "claims"}, "VersionNotServed"),
        ({"kind": "Claim"}, "InvalidSpec"),
        ({"kind": "DeviceClass", "plural": "deviceclasses"}, "ScopeNotSupported"),
    ],
)
async def test_a_built_in_kind_must_be_served(stage: ManagerStage, changes: Object, reason: str):
    rule = {
        "apiVersion": resources.SYNC_RULES.api_version,
        "kind": resources.SYNC_RULES.kind,
        "metadata": {"name": "built-in"},
        "spec": {
            "resource": CLAIMS | changes,
            "direction": "Down",
            "definition": "BuiltIn",
            "fields": ["spec.devices"],
        },
    }
    await stage.admin.create(resources.SYNC_RULES, rule)
    try:
        await reconcile_sync_rules(stage.means, keys.SYNC_RULES_KEY)
        found = await stage.admin.get(resources.SYNC_RULES, "built-in")
    finally:
        await stage.admin.delete(resources.SYNC_RULES, "built-in")
    (condition,) = found["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "Ready",
        "False",
        reason,
    ), condition
