"""Reclaim policy of a shown volume: which side's value applies."""

from __future__ import annotations

import pytest

from syncer.rules.storage import reclaim_policies
from syncer.rules.storage.reclaim_policies import ReclaimStep
from tenancy import wellknown

BOTH = ("Retain", "Delete")


@pytest.mark.parametrize(
    ("asked", "recorded", "there", "allowed", "step"),
    [
        ("Delete", "Delete", "Delete", BOTH, ReclaimStep.NOTHING),
        ("Retain", "Delete", "Retain", BOTH, ReclaimStep.NOTHING),
        ("Retain", "Delete", "Delete", BOTH, ReclaimStep.SYNC_DOWN),
        ("Delete", "Retain", "Retain", BOTH, ReclaimStep.SYNC_DOWN),
        ("Retain", "Delete", "Delete", ("Retain",), ReclaimStep.SYNC_DOWN),
        ("Delete", "Retain", "Retain", ("Retain",), ReclaimStep.REFUSE),
        ("Retain", "Delete", "Delete", (), ReclaimStep.REFUSE),
        ("Recycle", "Delete", "Delete", BOTH, ReclaimStep.REFUSE),
        ("Delete", "Delete", "Retain", BOTH, ReclaimStep.NOTHING),
        ("Retain", "Retain", "Delete", BOTH, ReclaimStep.REPORT_CHANGE),
        ("Retain", None, "Delete", BOTH, ReclaimStep.SYNC_DOWN),
        ("Retain", None, "Delete", (), ReclaimStep.NOTHING),
        ("Delete", None, "Retain", BOTH, ReclaimStep.NOTHING),
        ("", "Delete", "Delete", BOTH, ReclaimStep.NOTHING),
    ],
)
def test_whose_value_applies(asked, recorded, there, allowed, step):
    annotations = {} if recorded is None else {wellknown.RECLAIM_POLICY: recorded}
    shown = {
        "metadata": {"annotations": annotations},
        "spec": {reclaim_policies.FIELD: asked} if asked else {},
    }
    live = {"metadata": {}, "spec": {reclaim_policies.FIELD: there}}
    assert reclaim_policies.decide_step(shown, live, allowed) is step


def test_the_write_is_for_the_version_that_was_judged():
    live = {"metadata": {"uid": "u", "resourceVersion": "7", "name": "pv"}, "spec": {}}
    shown = {"metadata": {}, "spec": {reclaim_policies.FIELD: "Retain"}}
    assert reclaim_policies.build_patch(shown, live) == {
        "metadata": {"uid": "u", "resourceVersion": "7"},
        "spec": {reclaim_policies.FIELD: "Retain"},
    }


@pytest.mark.parametrize("odd", [{}, {"spec": None}, {"spec": {reclaim_policies.FIELD: 3}}])
def test_a_volume_without_a_policy(odd):
    assert reclaim_policies.get_reclaim_policy(odd) == ""


def test_an_edit_before_the_mirror_records_the_one_before_it_is_an_edit():
    """Delete was synced a moment ago, and Retain is set again at once."""
    shown = {
        "metadata": {"annotations": {wellknown.RECLAIM_POLICY: "Retain"}},
        "spec": {reclaim_policies.FIELD: "Retain"},
    }
    live = {"metadata": {}, "spec": {reclaim_policies.FIELD: "Delete"}}
    assert reclaim_policies.decide_step(shown, live, BOTH, "Delete") is ReclaimStep.SYNC_DOWN
    assert reclaim_policies.decide_step(shown, live, (), "Delete") is ReclaimStep.REFUSE
    assert reclaim_policies.decide_step(shown, live, BOTH, "Retain") is ReclaimStep.REPORT_CHANGE
