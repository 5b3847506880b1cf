"""Keys of one tenant, from the caches of both sides."""

from __future__ import annotations

from syncer.model.keys import QUOTA_REPORT, TENANT_STATUS
from tests.support.syncer.woken_keys import wired


def test_keys_come_from_both_sides_and_from_a_kind_that_is_served_later():
    world = wired()
    world.tenant_has("ConfigMap", "above")
    world.super_has("ConfigMap", "below")
    found = world.session.all_keys
    names = {key.name for key in found.iterate_keys() if key.kind == "ConfigMap"}
    assert {"above", "below"} <= names
    kinds = {key.kind for key in found.iterate_keys()}
    assert {TENANT_STATUS, QUOTA_REPORT} <= kinds
    served = set(found.list_served_keys("ConfigMap"))
    assert {world.key("ConfigMap", "web", name) for name in ("above", "below")} <= served
