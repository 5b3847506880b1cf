"""The order in which a delete is proved, at home and at another super cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from kubeio.cache.store import parse_entry
from kubeio.controller.worker import NotReadyYet
from syncer.model.decide import DeleteGrounds
from syncer.safety.hot_loop_guard import REPEATS_TO_PARK, WriteScope
from syncer.safety.parked_differences import SUPER_SIDE
from syncer.safety.proven_deletes import DeleteTarget, ProvenDeletes, build_own_target
from tenancy import ownership
from tenancy.resources import CONFIG_MAPS
from tests.support.syncer.store_guards import (
    KEY,
    OTHER,
    TENANT,
    deleting,
    sight,
    target,
    twin_metadata,
)


async def test_absence_is_proved_live_on_both_sides_and_the_store_after_it():
    """REL-05, REL-06."""
    deletions, _, _, log = await deleting()
    await deletions.delete_proven(target(DeleteGrounds.ABSENT))
    assert log == ["tenant", "look", "super", "delete below-uid 55"]


async def test_a_look_before_the_tenants_answer_proves_nothing():
    deletions, tenant, _, log = await deleting()
    answer = tenant.get

    async def while_another_key_looks(resource: Any, name: str, **options: Any) -> dict[str, Any]:
        if resource is CONFIG_MAPS:
            tenant.get = answer  # type: ignore[method-assign]
            await deletions._store_guard.refresh()
        return await answer(resource, name, **options)

    tenant.get = while_another_key_looks  # type: ignore[method-assign]
    await deletions.delete_proven(target(DeleteGrounds.ABSENT))
    assert log == ["look", "tenant", "look", "super", "delete below-uid 55"]


async def test_an_end_that_was_seen_needs_its_uid_only():
    deletions, _, _, log = await deleting()
    deletions.record_tenant_end(KEY, "c-uid")
    await deletions.delete_proven(target(DeleteGrounds.ABSENT))
    assert log == ["delete below-uid"]


async def test_the_end_of_another_object_of_the_name_proves_nothing():
    """REL-09."""
    deletions, _, _, log = await deleting()
    deletions.record_tenant_end(KEY, "another-uid")
    await deletions.delete_proven(target(DeleteGrounds.ABSENT))
    assert "tenant" in log


async def test_a_mark_on_the_living_object_needs_its_uid_only():
    deletions, _, _, log = await deleting()
    await deletions.delete_proven(target(DeleteGrounds.MARKED))
    assert log == ["delete below-uid"]


async def test_an_object_that_lives_after_all_is_not_deleted():
    """REL-06, REL-10: the cache was behind."""
    deletions, tenant, _, log = await deleting()
    tenant.objects["c"] = "c-uid"
    behind = r"^the tenant object lives, the cache is behind$"
    with pytest.raises(NotReadyYet, match=behind) as waited:
        await deletions.delete_proven(target(DeleteGrounds.ABSENT))
    assert waited.value.after == 1.0
    assert log == ["tenant"]


async def test_what_its_watch_leaves_out_counts_as_gone():
    deletions, tenant, _, log = await deleting()
    tenant.objects["c"] = "c-uid"
    seen: list[Any] = []

    def is_hidden(metadata: Any) -> bool:
        seen.append(metadata)
        return True

    await deletions.delete_proven(target(DeleteGrounds.ABSENT, is_hidden=is_hidden))
    assert seen == [{"uid": "c-uid"}]
    assert log[-1] == "delete below-uid 55"


async def test_a_successor_of_the_name_is_no_reason_to_keep_the_twin():
    deletions, tenant, _, log = await deleting()
    tenant.objects["c"] = "new-uid"
    await deletions.delete_proven(target(DeleteGrounds.SUCCEEDED))
    assert log[-1] == "delete below-uid 55"


async def test_a_store_that_changed_meanwhile_holds_the_delete():
    deletions, tenant, _, log = await deleting()
    tenant.seen = sight(uid=OTHER)
    with pytest.raises(NotReadyYet):
        await deletions.delete_proven(target(DeleteGrounds.ABSENT))
    assert not any(entry.startswith("delete") for entry in log)
    # From then on not even a mark or an end that was seen is enough.
    deletions.record_tenant_end(KEY, "c-uid")
    for grounds in (DeleteGrounds.MARKED, DeleteGrounds.ABSENT, DeleteGrounds.UNWANTED):
        with pytest.raises(NotReadyYet):
            await deletions.delete_proven(target(grounds))
    assert not any(entry.startswith("delete") for entry in log)


async def test_what_no_pod_needs_goes_only_from_an_intact_store():
    deletions, tenant, _, log = await deleting()
    await deletions.delete_proven(target(DeleteGrounds.UNWANTED))
    assert log == ["look", "super", "delete below-uid 55"]
    tenant.seen = sight(revision=1)
    log.clear()
    with pytest.raises(NotReadyYet):
        await deletions.delete_proven(target(DeleteGrounds.UNWANTED, has_tenant_twin=False))
    assert not any(entry.startswith("delete") for entry in log)


@pytest.mark.parametrize(
    "live",
    [
        {**twin_metadata(), "uid": "another"},
        {**twin_metadata(), "annotations": {}},
        {
            **twin_metadata(),
            "annotations": ownership.build_owner_annotations(TENANT, "web", "other"),
        },
    ],
)
async def test_a_super_object_that_is_another_one_by_now_is_left_alone(live):
    deletions, _, below, log = await deleting()
    below.live = {"metadata": live}
    other = r"^the super object is another one now, the cache is behind$"
    with pytest.raises(NotReadyYet, match=other) as waited:
        await deletions.delete_proven(target(DeleteGrounds.ABSENT))
    assert waited.value.after == 1.0
    assert not any(entry.startswith("delete") for entry in log)


async def test_what_is_gone_already_is_done():
    deletions, _, below, log = await deleting()
    below.live = {}
    await deletions.delete_proven(target(DeleteGrounds.ABSENT))
    assert log == ["tenant", "look", "super"]


def metadata_for(registration: str) -> dict[str, Any]:
    """Return the metadata of a twin that was made for a registration."""
    tenant = replace(TENANT, super_cluster_uid=registration)
    return {
        **twin_metadata(),
        "annotations": ownership.build_owner_annotations(tenant, "web", "c-uid"),
    }


async def at_a_target() -> tuple[ProvenDeletes, Any, Any, list[str], DeleteTarget]:
    """Return deletions at a target, and what is to be deleted there."""
    deletions, tenant, below, log = await deleting()
    deletions._registration = "r1"
    metadata = metadata_for("r1")
    below.live = {"metadata": metadata}
    entry = parse_entry(orjson.dumps({"kind": "ConfigMap", "metadata": metadata}))
    return deletions, tenant, below, log, target(DeleteGrounds.ABSENT)._replace(entry=entry)


async def test_an_end_that_was_seen_needs_no_proof_at_a_target_either():
    deletions, _, _, log, meant = await at_a_target()
    deletions.record_tenant_end(KEY, "c-uid")
    await deletions.delete_proven(meant)
    assert log == ["delete below-uid"]


async def test_absence_is_proof_at_a_target_when_both_sides_were_read():
    deletions, _, _, log, meant = await at_a_target()
    await deletions.delete_proven(meant)
    assert log == ["tenant", "look", "super", "delete below-uid 55"]


async def test_who_lives_keeps_its_twin_at_a_target():
    deletions, tenant, _, log, meant = await at_a_target()
    tenant.objects["c"] = "c-uid"
    with pytest.raises(NotReadyYet, match="the tenant object lives"):
        await deletions.delete_proven(meant)
    assert log == ["tenant"]


@pytest.mark.parametrize("registration", ["", "r2"])
async def test_what_is_there_for_another_registration_is_not_deleted_in_its_place(registration):
    deletions, _, below, log, meant = await at_a_target()
    below.live = {"metadata": metadata_for(registration)}
    with pytest.raises(NotReadyYet, match="another one now"):
        await deletions.delete_proven(meant)
    assert log == ["tenant", "look", "super"]


async def test_what_is_deleted_as_it_was_seen_goes_in_that_version_alone():
    deletions, _, _, log = await deleting()
    await deletions.delete_proven(target(DeleteGrounds.UNWANTED), as_seen=True)
    assert log == ["delete below-uid 55"]


# --- deletes that recreate ------------------------------------------------------------------------


@pytest.mark.parametrize("is_counted", [False, True])
async def test_recreating_for_the_same_difference_is_parked(is_counted: bool):
    deletions, _, _, log = await deleting()
    done = [
        await deletions.delete_unless_parked(
            WriteScope(KEY, SUPER_SIDE),
            target(DeleteGrounds.UNWANTED),
            {"data": {"a": "1"}},
            before={"data": {"a": "2"}},
            tenant_x=None,
            as_seen=True,
            is_counted=is_counted,
        )
        for _ in range(REPEATS_TO_PARK + 2)
    ]
    assert done == [True] * REPEATS_TO_PARK + [False] * 2
    assert log == ["delete below-uid 55"] * REPEATS_TO_PARK
    _, writes = deletions._writer._hot_loop_guard._write_times.get(KEY, (0.0, 0))
    assert writes == (REPEATS_TO_PARK if is_counted else 0)


async def test_recreating_is_counted_with_its_arguments():
    deletions, _, _, log = await deleting()
    difference, before = {"data": {"a": "1"}}, {"data": {"a": "2"}}
    counted: list[Any] = []

    async def count(*args: Any, **options: Any) -> None:
        counted.append((args, options))

    deletions._parked.count_attempt = count  # type: ignore[assignment]
    scope, meant = WriteScope(KEY, SUPER_SIDE), target(DeleteGrounds.UNWANTED)
    entry = meant.entry
    await deletions.delete_unless_parked(
        scope, meant, difference, before=before, tenant_x=entry, grace_seconds=7, as_seen=True
    )
    assert log == ["delete below-uid 55 grace 7"]
    found = {"before": before, "answer": difference, "resource": CONFIG_MAPS, "tenant_x": entry}
    assert counted == [((scope, difference), found)]
    assert KEY not in deletions._writer._hot_loop_guard._write_times


async def test_delete_is_not_counted_by_default():
    deletions, _, _, _ = await deleting()
    await deletions.delete_proven(target(DeleteGrounds.MARKED))
    assert KEY not in deletions._writer._hot_loop_guard._write_times


def test_an_object_of_the_syncer_has_no_tenant_object():
    entry = target(DeleteGrounds.ABSENT).entry
    found = build_own_target(KEY, CONFIG_MAPS, entry)
    assert found == DeleteTarget(
        key=KEY,
        resource=CONFIG_MAPS,
        entry=entry,
        grounds=DeleteGrounds.UNWANTED,
        has_tenant_twin=False,
    )


async def test_recreating_needs_the_proof_of_any_delete():
    deletions, _, below, log = await deleting()
    below.live = {}
    assert await deletions.delete_unless_parked(
        WriteScope(KEY, SUPER_SIDE),
        target(DeleteGrounds.UNWANTED),
        {"data": {"a": "1"}},
        before={},
        tenant_x=None,
    )
    assert log == ["look", "super"]
