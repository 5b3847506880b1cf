"""Memory of what the tenant was shown: which difference is an edit, and what is forgotten."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kubeio.cache.store import Entry, parse_entry
from syncer.model.keys import HOME, Key
from syncer.safety.synced_states import SyncedStates

KEY = Key("t", HOME, "StorageClass", "", "gold")
WANTED = {"reclaimPolicy": "Delete", "metadata": {"labels": {"a": "1", "b": "2"}}}


def entry(version: str, **fields: Any) -> Entry:
    metadata = {"name": "gold", "uid": "u", "resourceVersion": version}
    return parse_entry(orjson.dumps({"kind": "StorageClass", "metadata": metadata, **fields}))


def test_a_difference_is_an_edit_once_the_tenants_object_is_newer():
    states = SyncedStates()
    assert not states.is_edit(KEY, WANTED, entry("9"))
    states.record(KEY, WANTED, "7")
    assert states.has(KEY)
    assert states.is_edit(KEY, WANTED, entry("9"))
    assert not states.is_edit(KEY, WANTED, entry("7"))
    assert not states.is_edit(KEY, WANTED, entry("6"))  # the cache is behind


def test_news_of_the_super_cluster_are_no_edit_and_an_order_is_no_news():
    states = SyncedStates()
    states.record(KEY, WANTED, "7")
    assert not states.is_edit(KEY, {**WANTED, "reclaimPolicy": "Retain"}, entry("9"))
    turned = {"metadata": {"labels": {"b": "2", "a": "1"}}, "reclaimPolicy": "Delete"}
    assert states.is_edit(KEY, turned, entry("9"))


def test_parts_of_an_object_are_apart():
    states = SyncedStates()
    states.record(KEY, WANTED, "7", "status")
    assert not states.has(KEY)
    assert states.has(KEY, "status")
    states.forget_part(KEY, "status")
    assert not states.has(KEY, "status")


def test_an_object_that_goes_leaves_nothing_but_its_deletion():
    states = SyncedStates()
    states.record(KEY, WANTED, "7")
    states.record(KEY, WANTED, "7", "status")
    states.record_condition_types(KEY, frozenset({"vendor.io/Probed"}))
    states.record_reclaim_policy(KEY, "Retain")
    states.record_deletion(KEY)
    states.forget(KEY)
    assert not states.has(KEY)
    assert not states.has(KEY, "status")
    assert states.get_condition_types(KEY) == frozenset()
    assert states.get_reclaim_policy(KEY) == ""
    assert states.pop_deletion(KEY)
    assert not states.pop_deletion(KEY)


@pytest.mark.parametrize("types", [frozenset({"vendor.io/Probed"}), frozenset()])
def test_only_types_that_there_are_take_memory(types: frozenset[str]):
    states = SyncedStates()
    states.record_condition_types(KEY, frozenset({"vendor.io/Attached"}))
    states.record_condition_types(KEY, types)
    assert states.get_condition_types(KEY) == types
    assert bool(states._types) is bool(types)
