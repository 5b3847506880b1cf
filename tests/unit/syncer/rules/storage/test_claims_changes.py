"""Changes of a synced claim: requests within bounds, and its volume once."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kubeio.cache.store import parse_entry
from syncer.rules.storage import claims
from tenancy import names
from tests.support.syncer.storage import TENANT, claim, own, view


def live_claim(request: str, capacity: str = "", **spec: Any) -> dict[str, Any]:
    """Return the twin of the plain claim with another request."""
    made = claims.build_claim(claim(), view())
    status = {"capacity": {"storage": capacity}} if capacity else {}
    resources = {"requests": {"storage": request}}
    return {
        "metadata": {**made["metadata"], "uid": "b"},
        "spec": {**made["spec"], "storageClassName": "given", "resources": resources, **spec},
        "status": status,
    }


@pytest.mark.parametrize(
    ("asked", "there", "capacity", "is_written"),
    [
        ("1Gi", "1Gi", "", False),
        ("2Gi", "1Gi", "1Gi", True),
        ("1Gi", "2Gi", "2Gi", False),
        ("1Gi", "2Gi", "", False),
        ("1500Mi", "2Gi", "1Gi", True),
        ("1Gi", "2Gi", "1Gi", False),
        ("1Gi", "odd", "", True),
    ],
)
def test_requests_grow_and_shrink_only_in_the_tenant_what_was_given(
    asked, there, capacity, is_written
):
    wish = claim(resources={"requests": {"storage": asked}})
    body = claims.build_patch(live_claim(there, capacity), claims.build_claim(wish, view()))
    wanted = {"metadata": {"uid": "b"}, "spec": {"resources": {"requests": {"storage": asked}}}}
    assert body == (wanted if is_written else None)


def test_only_leaves_that_may_change_are_written():
    wish = claim(volumeMode="Block", accessModes=["x"], volumeAttributesClassName="fast")
    body = claims.build_patch(live_claim("1Gi"), claims.build_claim(wish, view()))
    assert body == {"metadata": {"uid": "b"}, "spec": {"volumeAttributesClassName": "fast"}}


def test_a_volume_is_named_once():
    seen = view()
    seen.stores["PersistentVolume"].put(parse_entry(orjson.dumps(own())), live=True)
    made = claims.build_claim(claim(volumeName="mine"), seen)
    free = claims.build_patch(live_claim("1Gi"), made)
    assert free is not None
    assert free["spec"] == {"volumeName": names.build_volume_name(TENANT.uid, "mine")}
    bound = claims.build_patch(live_claim("1Gi", volumeName="pvc-1"), made)
    assert bound is not None
    assert "spec" not in bound
