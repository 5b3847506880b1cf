"""Shown fields of classes and drivers, and the policy that chooses them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given

from kubeio.cache.store import Entry, parse_entry
from syncer.model import mirrored_kinds
from syncer.model.mirrored_kinds import MIRRORS, MIRRORS_BY_KIND
from syncer.rbac import SUPER_RBAC_RULES, TENANT_RBAC_RULES
from tenancy import wellknown
from tenancy.policies import BASELINE_POLICY, ClassFilter, SyncSpec
from tests.unit.syncer.model.test_object_meta import OBJECTS
from tests.unit.syncer.test_rbac import may

METADATA = {"name": "c", "uid": "u", "labels": {"secret": "x"}, "annotations": {"secret": "x"}}


def entry(kind: str, name: str = "c", **labels: str) -> Entry:
    """Return a cached class."""
    return parse_entry(orjson.dumps({"kind": kind, "metadata": {"name": name, "labels": labels}}))


@pytest.mark.parametrize(
    ("kind", "fields", "seen"),
    [
        (
            "StorageClass",
            {
                "provisioner": "p",
                "reclaimPolicy": "Delete",
                "volumeBindingMode": "Immediate",
                "allowVolumeExpansion": True,
                "parameters": {"secret": "x"},
                "mountOptions": ["secret"],
                "allowedTopologies": [{"secret": "x"}],
            },
            {
                "provisioner": "p",
                "reclaimPolicy": "Delete",
                "volumeBindingMode": "Immediate",
                "allowVolumeExpansion": True,
            },
        ),
        (
            "PriorityClass",
            {
                "value": 5,
                "globalDefault": True,
                "preemptionPolicy": "Never",
                "description": "secret",
            },
            {"value": 5, "globalDefault": True, "preemptionPolicy": "Never"},
        ),
        (
            "RuntimeClass",
            {"handler": "h", "overhead": {"secret": 1}, "scheduling": {"secret": 1}},
            {"handler": "h"},
        ),
        (
            "IngressClass",
            {"spec": {"controller": "c", "parameters": {"name": "secret"}}},
            {"spec": {"controller": "c"}},
        ),
        (
            "VolumeSnapshotClass",
            {"driver": "d", "deletionPolicy": "Delete", "parameters": {"secret": "x"}},
            {"driver": "d", "deletionPolicy": "Delete"},
        ),
        (
            "CSIDriver",
            {"spec": {"attachRequired": False, "tokenRequests": [{"audience": "secret"}]}},
            {"spec": {"attachRequired": False}},
        ),
    ],
)
def test_what_is_shown(kind, fields, seen):
    mirror = MIRRORS_BY_KIND[kind]
    body = mirrored_kinds.build_mirror(mirror, {"metadata": METADATA, **fields})
    head = {"apiVersion": mirror.resource.api_version, "kind": kind}
    metadata = {
        "name": "c",
        "labels": {wellknown.MIRRORED: "true"},
        "annotations": {wellknown.UID: "u"},
    }
    assert body == {**head, "metadata": metadata, **seen}
    assert set(seen) <= set(mirror.fields)
    assert mirrored_kinds.is_mirror_current({**body, "status": {}}, body, mirror.fields)


@given(OBJECTS)
def test_whatever_a_class_holds(fields):
    for mirror in MIRRORS:
        body = mirrored_kinds.build_mirror(mirror, {**fields, "metadata": METADATA})
        assert "secret" not in orjson.dumps(body["metadata"]).decode()


@pytest.mark.parametrize("kind", ["StorageClass", "IngressClass", "VolumeSnapshotClass"])
def test_the_default_class_is_known_as_such(kind):
    mirror = MIRRORS_BY_KIND[kind]
    metadata = {**METADATA, "annotations": {mirror.default_annotation: "true", "secret": "x"}}
    body = mirrored_kinds.build_mirror(mirror, {"metadata": metadata})
    assert body["metadata"]["annotations"] == {
        mirror.default_annotation: "true",
        wellknown.UID: "u",
    }


def shown(**own: Any) -> bool:
    """Return whether a StorageClass of the tenant is as wanted."""
    mirror = MIRRORS_BY_KIND["StorageClass"]
    wanted = mirrored_kinds.build_mirror(mirror, {"metadata": METADATA, "provisioner": "p"})
    return mirrored_kinds.is_mirror_current({**wanted, **own}, wanted, mirror.fields)


@pytest.mark.parametrize(
    ("own", "is_same"),
    [
        ({}, True),
        ({"allowVolumeExpansion": False, "mountOptions": []}, True),
        ({"parameters": {}}, True),
        ({"newer": "field of a newer API"}, True),
        ({"provisioner": "q"}, False),
        ({"mountOptions": ["x"]}, False),
        ({"metadata": {"name": "c"}}, False),
    ],
)
def test_what_differs(own, is_same):
    assert shown(**own) == is_same


def test_a_replacement_is_of_the_very_object_and_keeps_finalizers_and_owners():
    mirror = MIRRORS_BY_KIND["StorageClass"]
    wanted = mirrored_kinds.build_mirror(mirror, {"metadata": METADATA, "provisioner": "p"})
    own = {
        "metadata": {
            "name": "c",
            "uid": "t",
            "resourceVersion": "9",
            "finalizers": ["f/x"],
            "labels": {"mine": "1"},
            "ownerReferences": [{"name": "x"}],
        },
        "provisioner": "q",
    }
    body = mirrored_kinds.build_replacement(own, wanted)
    assert body["metadata"] == {
        **wanted["metadata"],
        "uid": "t",
        "resourceVersion": "9",
        "finalizers": ["f/x"],
        "ownerReferences": [{"name": "x"}],
    }
    assert body["provisioner"] == "p"


def test_who_is_selected():
    gold = SyncSpec(storage_classes=ClassFilter(match_labels={"tier": "gold"}))
    mirror = MIRRORS_BY_KIND["StorageClass"]
    assert mirrored_kinds.is_selected(mirror, gold, entry("StorageClass", tier="gold"))
    assert not mirrored_kinds.is_selected(mirror, gold, entry("StorageClass", tier="tin"))
    every = SyncSpec(priority_classes=ClassFilter(names=("*",)))
    classes = MIRRORS_BY_KIND["PriorityClass"]
    assert mirrored_kinds.is_selected(classes, every, entry("PriorityClass", "high"))
    assert not mirrored_kinds.is_selected(
        classes, every, entry("PriorityClass", "system-node-critical")
    )
    assert not mirrored_kinds.is_selected(
        classes, BASELINE_POLICY.sync, entry("PriorityClass", "high")
    )
    public = entry("PriorityClass", "high", **{"tenancy.x-k8s.io/super.public": "true"})
    assert mirrored_kinds.is_selected(classes, BASELINE_POLICY.sync, public)


def test_each_row_is_selected_by_its_own_field():
    for mirror in MIRRORS:
        chosen = ClassFilter(names=(mirror.resource.kind,))
        picked = [
            field
            for field in SyncSpec.__struct_fields__
            if isinstance(getattr(BASELINE_POLICY.sync, field), ClassFilter)
            and mirror.select_filter(SyncSpec(**{field: chosen})) is chosen
        ]
        assert len(picked) == 1
        assert picked[0].replace("_", "").startswith(mirror.resource.kind.lower()[:8])


def test_what_is_shown_may_be_followed_and_written():
    for mirror in MIRRORS:
        group, plural = mirror.resource.group, mirror.resource.plural
        assert may(SUPER_RBAC_RULES, group, plural) == {"get", "list", "watch"}
        wanted = {"get", "list", "watch", "create", "update", "delete"}
        assert may(TENANT_RBAC_RULES, group, plural) == wanted


def test_either_mark_is_enough():
    assert mirrored_kinds.is_own_mirror(entry("StorageClass", **{wellknown.MIRRORED: "true"}))
    recorded = {"metadata": {"name": "c", "annotations": {wellknown.UID: "u"}}}
    assert mirrored_kinds.is_own_mirror(parse_entry(orjson.dumps(recorded)))
    assert not mirrored_kinds.is_own_mirror(entry("StorageClass"))
