"""The verdict on a store, and what an engagement remembers of it."""

from __future__ import annotations

import pytest

from kubeio import errors
from kubeio.controller.worker import NotReadyYet
from syncer.safety import store_guard
from syncer.safety.store_guard import (
    StoreObservation,
    StoreProblem,
    StoreRecord,
    find_store_problem,
    format_held_message,
    read_store_record,
)
from tenancy import wellknown
from tests.support.syncer.store_guards import KNOWN, OTHER, STORE, sight, watched


@pytest.mark.parametrize(
    ("record", "seen", "problem"),
    [
        (StoreRecord(), sight(), ""),
        (StoreRecord(), sight(uid="", epoch=0), ""),
        (KNOWN, sight(), ""),
        (KNOWN, sight(revision=100), ""),
        (KNOWN, sight(epoch=9), ""),
        (KNOWN, sight(uid=OTHER, revision=900, epoch=9), "not the etcd that was synced before"),
        (KNOWN, sight(uid=""), "not the etcd that was synced before"),
        (KNOWN, sight(revision=99), "so it is an older copy"),
        (KNOWN, sight(epoch=2), "older copy"),
        (KNOWN, sight(epoch=0), "is no longer a number"),
        (KNOWN, sight(epoch=3 + store_guard.MAX_EPOCH_LEAD), ""),
        (KNOWN, sight(epoch=4 + store_guard.MAX_EPOCH_LEAD), "which the syncer did not write"),
        (KNOWN, sight(epoch=0, epoch_revision=0), "virtual-cluster-store is missing"),
    ],
)
def test_any_of_the_three_marks_going_back_is_a_problem(record, seen, problem):
    found = find_store_problem(record, seen)
    assert problem in str(found or "")
    assert (found is not None) == bool(problem)


@pytest.mark.parametrize(
    ("seen", "is_mark_only"),
    [
        (sight(uid=OTHER), False),
        (sight(epoch=2), False),
        (sight(epoch=0), True),
        (sight(epoch=0, epoch_revision=0), True),
        (sight(epoch=4 + store_guard.MAX_EPOCH_LEAD), True),
    ],
)
def test_a_mark_that_another_client_changed_is_recognized(seen, is_mark_only):
    found = find_store_problem(KNOWN, seen)
    assert isinstance(found, StoreProblem)
    assert found.concerns_mark_only == is_mark_only
    assert str(found).startswith("only ") == is_mark_only


def held_message(seen: StoreObservation) -> str:
    problem = find_store_problem(KNOWN, seen)
    assert problem is not None
    return format_held_message(problem, seen.uid, "vc")


def test_the_sentence_names_store_and_remedy():
    said = held_message(sight(uid=OTHER))
    assert OTHER in said
    assert "kubectl vc confirm-deletes vc" in said


def test_what_a_person_is_reported_is_whole():
    assert held_message(sight(uid="")) == (
        "Deletes are not synced to the super cluster: the tenant's etcd has kube-system <none>,"
        " and it is not the etcd that was synced before. If this etcd is the right"
        " one, run `kubectl vc confirm-deletes vc`. Objects that it lacks are then deleted in the"
        " super cluster. Otherwise, restore the previous etcd."
    )
    assert held_message(sight(epoch=0, epoch_revision=0)) == (
        f"Deletes are not synced to the super cluster: in the tenant's etcd, kube-system {STORE},"
        " ConfigMap kube-system/virtual-cluster-store is missing in it. Its kube-system is the one"
        " that was synced before, and its revision did not decrease. Most likely, another client"
        " changed only this ConfigMap. A backup from before the ConfigMap was created looks the"
        " same. If nothing else is missing in the tenant, run `kubectl vc confirm-deletes vc`,"
        " which recreates the ConfigMap. Objects that the tenant lacks are then deleted in the"
        " super cluster."
    )


def test_the_longest_number_that_is_one_is_recorded():
    root = {"metadata": {"annotations": {wellknown.STORE_EPOCH: "1" * store_guard._MAX_DIGITS}}}
    assert read_store_record(root, STORE) == StoreRecord(
        uid=STORE, epoch=int("1" * store_guard._MAX_DIGITS)
    )


def test_the_record_survives_without_annotations():
    root = {"metadata": {"uid": "r"}}
    assert read_store_record(root, STORE) == StoreRecord(uid=STORE)
    root["metadata"]["annotations"] = {
        wellknown.STORE_UID: OTHER,
        wellknown.STORE_REVISION: "7",
        wellknown.STORE_EPOCH: "2",
    }
    assert read_store_record(root, STORE) == StoreRecord(uid=OTHER, revision=7, epoch=2)


async def test_the_first_engagement_marks_the_store():
    found, _, _, log = watched(StoreRecord(), sight(epoch=0, epoch_revision=0))
    await found.initialize(twin_uid="", stamps=(0,))
    assert log == ["look", "look", "create epoch 1", "mirror 1"]
    assert not found.is_held


async def test_a_restart_with_nothing_new_writes_nothing():
    found, _, _, log = watched(KNOWN, sight())
    await found.initialize(twin_uid=STORE, stamps=(80,))
    assert log == ["look"]
    assert not found.is_count_due


async def test_something_newer_than_the_mark_makes_a_count_due():
    found, _, _, log = watched(KNOWN, sight())
    await found.initialize(twin_uid=STORE, stamps=(95,))
    assert found.is_count_due
    await found.advance_epoch()
    assert log[-2:] == ["epoch 4", "mirror 4"]
    assert not found.is_count_due
    found.record_write("499")
    assert not found.is_count_due
    found.record_write("501")
    assert found.is_count_due


async def test_what_came_down_at_the_stores_very_revision_is_not_counted_yet():
    found, _, _, _ = watched(KNOWN, sight(revision=120))
    await found.initialize(twin_uid=STORE, stamps=(120,))
    assert found.is_count_due


async def test_a_tenant_without_anything_in_the_super_cluster_is_engaged_as_well():
    found, _, _, log = watched(KNOWN, sight())
    await found.initialize(twin_uid=STORE, stamps=())
    assert not found.is_count_due
    assert log == ["look"]


async def test_a_tenant_without_a_kube_system_is_waited_for():
    found, _, _, log = watched(StoreRecord(), sight(uid="", epoch=0, epoch_revision=0))
    with pytest.raises(NotReadyYet, match=r"^the tenant has no kube-system yet$"):
        await found.initialize(twin_uid="", stamps=())
    assert log == ["look"]


async def test_the_super_namespace_of_kube_system_remembers_a_store_as_well():
    found, _, _, _ = watched(StoreRecord(), sight(uid=OTHER))
    await found.initialize(twin_uid=STORE, stamps=())
    assert "not the etcd that was synced before" in str(found.problem)


async def test_an_epoch_as_far_ahead_as_may_be_is_counted_on():
    found, _, _, log = watched(KNOWN, sight(epoch=3 + store_guard.MAX_EPOCH_LEAD))
    await found.initialize(twin_uid=STORE, stamps=(95,))
    await found.advance_epoch()
    assert log[-1] == f"mirror {4 + store_guard.MAX_EPOCH_LEAD}"


async def test_stamps_of_an_earlier_store_make_no_count_due():
    found, _, _, _ = watched(KNOWN, sight())
    await found.initialize(twin_uid=STORE, stamps=(80, 90000))
    assert not found.is_count_due


async def test_a_count_whose_mirror_was_lost_is_only_mirrored():
    found, _, _, log = watched(KNOWN, sight(epoch=4))
    await found.initialize(twin_uid=STORE, stamps=(0,))
    assert found.is_count_due
    await found.advance_epoch()
    assert log[-1] == "mirror 4"
    assert not any(entry.startswith("epoch") for entry in log)


async def test_the_watches_remember_a_higher_revision():
    found, _, _, log = watched(KNOWN, sight(revision=120), revision=130)
    await found.initialize(twin_uid=STORE, stamps=(0,))
    assert found.is_held
    assert "judged" in log
    held = r"^deletes are held, because the tenant's etcd is not the known one$"
    with pytest.raises(NotReadyYet, match=held):
        found.check_not_held()
    with pytest.raises(NotReadyYet, match=held):
        await found.verify_store(0.0)
    assert not found.is_count_due


@pytest.mark.parametrize("is_new", [False, True])
async def test_the_revisions_of_a_bumped_backup_do_not_count_against_the_old_store(is_new: bool):
    """No one who has seen the one would ever know the other again."""
    revisions = [130]
    found, tenant, _, _ = watched(KNOWN, sight(revision=130), revisions=revisions)
    if not is_new:
        await found.initialize(twin_uid=STORE, stamps=(0,))
    tenant.seen = sight(revision=10**9, epoch=2)
    revisions.append(10**9)
    if is_new:
        await found.initialize(twin_uid=STORE, stamps=(0,))
    await found.refresh()
    assert found.is_held
    revisions.append(10**9 + 5)
    tenant.seen = sight(revision=131)
    await found.refresh()
    assert not found.is_held
    # Its watches have still seen the other one, until the session begins again.
    found.record_write(str(10**9))
    await found.advance_epoch()
    assert not found.is_held
    tenant.seen = sight(revision=501, epoch=4, epoch_revision=500)
    await found.refresh()
    assert not found.is_held


async def test_what_the_watches_saw_of_the_old_store_counts_after_it_went_back():
    revisions = [130]
    found, tenant, _, _ = watched(KNOWN, sight(revision=130), revisions=revisions)
    await found.initialize(twin_uid=STORE, stamps=(0,))
    revisions.append(200)
    for _ in range(3):
        tenant.seen = sight(revision=150)
        await found.refresh()
        assert found.is_held
    tenant.seen = sight(revision=10**9, epoch=2)
    await found.refresh()
    tenant.seen = sight(revision=199)
    await found.refresh()
    assert found.is_held
    tenant.seen = sight(revision=200)
    await found.refresh()
    assert not found.is_held


async def test_only_the_store_that_was_named_is_confirmed():
    found, _, _, log = watched(KNOWN, sight(uid=OTHER, revision=7, epoch=0, epoch_revision=0))
    await found.initialize(twin_uid=STORE, stamps=(0,))
    assert found.is_held
    assert not await found.accept_store(STORE)
    assert found.is_held
    assert await found.accept_store(OTHER)
    assert not found.is_held
    assert log[-2:] == ["create epoch 4", "mirror 4"]


async def test_a_confirmation_of_an_intact_store_does_nothing():
    found, _, _, _ = watched(KNOWN, sight())
    await found.initialize(twin_uid=STORE, stamps=(0,))
    assert not await found.accept_store(STORE)


@pytest.mark.parametrize("epoch", ["\u00b2", "9" * 5000, "x"])
async def test_an_epoch_that_is_no_number_is_none(epoch):
    found, _, _, _ = watched(KNOWN, sight(epoch=epoch))
    await found.initialize(twin_uid=STORE, stamps=(0,))
    assert "is no longer a number" in str(found.problem)
    root = {"metadata": {"annotations": {wellknown.STORE_EPOCH: epoch}}}
    assert read_store_record(root, STORE) == StoreRecord(uid=STORE)


async def test_an_epoch_that_no_one_counted_up_to_is_reported_and_mended_by_a_confirmation():
    """Taken for ours it would be counted on, until it is no number any longer: held for ever."""
    found, tenant, _, log = watched(KNOWN, sight(epoch=9_999_999_999_999_999_999))
    await found.initialize(twin_uid=STORE, stamps=(95,))
    assert found.is_held
    assert "key epoch of ConfigMap kube-system/virtual-cluster-store" in found.message
    assert "9999999999999999999" in found.message
    assert "kubectl vc confirm-deletes vc" in found.message
    assert await found.accept_store(STORE)
    assert log[-2:] == ["epoch 4", "mirror 4"]
    tenant.seen = sight(revision=501, epoch=4, epoch_revision=500)
    await found.refresh()
    assert not found.is_held


async def test_an_epoch_written_before_the_first_engagement_is_none_of_ours():
    found, _, _, log = watched(StoreRecord(), sight(epoch=9_999_999_999_999_999_999))
    await found.initialize(twin_uid="", stamps=(0,))
    assert not found.is_held
    assert log[-2:] == ["epoch 1", "mirror 1"]


def test_a_record_that_was_never_counted_is_none():
    root = {"metadata": {"annotations": {wellknown.STORE_EPOCH: "9999999999999999999"}}}
    assert read_store_record(root, STORE) == StoreRecord(uid=STORE)


async def test_another_store_behind_the_same_address_is_noticed_for_good():
    found, tenant, _, _ = watched(KNOWN, sight())
    await found.initialize(twin_uid=STORE, stamps=(0,))
    assert not found.is_replaced
    tenant.seen = sight(revision=121)
    await found.refresh()
    assert not found.is_replaced
    tenant.seen = sight(uid=OTHER, revision=900, epoch=9)
    await found.refresh()
    assert found.is_replaced
    await found.refresh()
    assert found.is_replaced


@pytest.mark.parametrize(
    ("stamps", "seen", "is_due"),
    [
        ((), 0, False),
        ((90,), 0, False),
        ((91,), 0, True),
        ((120,), 0, True),
        ((121,), 0, False),  # beyond the store's own revision: of an earlier one
        ((125,), 125, True),  # but what the watches have seen is the store's own
        ((126,), 125, False),
        ((91, 9_000), 0, True),
    ],
)
async def test_what_is_found_later_in_the_super_cluster_is_counted_as_if_known_at_once(
    stamps, seen, is_due
):
    revisions = [0]
    found, _, _, _ = watched(KNOWN, sight(), revisions=revisions)
    await found.initialize(twin_uid=STORE, stamps=())
    revisions.append(seen)
    found.record_stamps(iter(stamps))
    assert found.is_count_due is is_due


async def test_what_is_found_later_takes_nothing_back():
    found, _, _, _ = watched(KNOWN, sight())
    await found.initialize(twin_uid=STORE, stamps=(100,))
    found.record_stamps((5,))
    assert found.is_count_due
    found.record_stamps(())
    assert found.is_count_due


async def test_nothing_is_recalled_before_the_store_was_looked_at():
    found, _, _, _ = watched(KNOWN, sight(epoch_revision=50))
    found.record_stamps((80,))
    assert not found.is_count_due
    await found.initialize(twin_uid=STORE, stamps=())
    assert not found.is_count_due


async def test_a_mirror_is_tried_thrice_and_then_stays_due():
    found, tenant, below, log = watched(StoreRecord(), sight(epoch=0, epoch_revision=0))
    refused: list[str] = []
    patch = below.patch

    async def refuse(*args, **options):
        refused.append(args[2]["metadata"]["resourceVersion"])
        raise errors.Conflict("another write came first")

    below.patch = refuse
    with pytest.raises(errors.Conflict):
        await found.initialize(twin_uid="", stamps=())
    assert len(refused) == 3
    assert found.is_count_due
    below.patch = patch
    tenant.seen = sight(revision=501, epoch=1, epoch_revision=500)
    await found.advance_epoch()
    assert log[-1] == "mirror 1"
    assert not found.is_count_due
