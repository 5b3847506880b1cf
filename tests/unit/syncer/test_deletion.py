"""A delete at another super cluster, and one in the version that was seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from kubeio.store import parse
from kubeio.worker import Wait
from syncer.decide import Grounds
from syncer.deletion import Deletions, Target
from tenancy import ownership
from tests.unit.syncer.test_brake import KEY, TENANT, deleting, target, twin_metadata


def metadata_for(registration: str) -> dict[str, Any]:
    """Return the metadata of a twin that was made for a registration."""
    tenant = replace(TENANT, registration=registration)
    return {**twin_metadata(), "annotations": ownership.annotations(tenant, "web", "c-uid")}


async def at_a_target() -> tuple[Deletions, Any, Any, list[str], Target]:
    """Return deletions at a target, and what is to be deleted there."""
    deletions, tenant, below, log = await deleting()
    deletions._registration = "r1"
    metadata = metadata_for("r1")
    below.live = {"metadata": metadata}
    entry = parse(orjson.dumps({"kind": "ConfigMap", "metadata": metadata}))
    return deletions, tenant, below, log, target(Grounds.ABSENT)._replace(entry=entry)


async def test_an_end_that_was_seen_needs_no_proof_at_a_target_either():
    deletions, _, _, log, meant = await at_a_target()
    deletions.saw_gone(KEY, "c-uid")
    await deletions.delete(meant)
    assert log == ["delete below-uid"]


async def test_absence_is_proof_at_a_target_when_both_sides_were_read():
    deletions, _, _, log, meant = await at_a_target()
    await deletions.delete(meant)
    assert log == ["tenant", "look", "super", "delete below-uid 55"]


async def test_who_lives_keeps_its_twin_at_a_target():
    deletions, tenant, _, log, meant = await at_a_target()
    tenant.objects["c"] = "c-uid"
    with pytest.raises(Wait, match="the tenant object lives"):
        await deletions.delete(meant)
    assert log == ["tenant"]


@pytest.mark.parametrize("registration", ["", "r2"])
async def test_what_is_there_for_another_registration_is_not_deleted_in_its_place(registration):
    deletions, _, below, log, meant = await at_a_target()
    below.live = {"metadata": metadata_for(registration)}
    with pytest.raises(Wait, match="another one now"):
        await deletions.delete(meant)
    assert log == ["tenant", "look", "super"]


async def test_what_is_deleted_as_it_was_seen_goes_in_that_version_alone():
    deletions, _, _, log = await deleting()
    await deletions.delete(target(Grounds.UNWANTED), as_seen=True)
    assert log == ["delete below-uid 55"]
