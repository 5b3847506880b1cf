"""When a count of the store's epoch is due: what went down, and what is recalled later."""

from __future__ import annotations

import pytest

from kubeio import errors
from syncer.safety.store_guard import StoreRecord
from tests.support.syncer.store_guards import KNOWN, STORE, sight, watched


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
async def test_what_is_found_later_below_is_counted_as_if_known_at_once(stamps, seen, is_due):
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
        raise errors.Conflict("somebody wrote")

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
