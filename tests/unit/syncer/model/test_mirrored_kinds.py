"""What is shown of classes and drivers, and by whose choice."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given

from kubeio.cache.store import Entry, parse
from syncer.model import mirrored_kinds
from syncer.model.mirrored_kinds import BY_KIND, MIRRORS
from syncer.rbac import SUPER_ACCESS, TENANT_ACCESS
from tenancy import wellknown
from tenancy.policies import BASELINE, Classes, Sync
from tests.unit.syncer.model.test_object_meta import OBJECTS
from tests.unit.syncer.test_rbac import may

METADATA = {"name": "c", "uid": "u", "labels": {"secret": "x"}, "annotations": {"secret": "x"}}


def entry(kind: str, name: str = "c", **labels: str) -> Entry:
    """Return a cached class."""
    return parse(orjson.dumps({"kind": kind, "metadata": {"name": name, "labels": labels}}))


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
    mirror = BY_KIND[kind]
    body = mirrored_kinds.body(mirror, {"metadata": METADATA, **fields})
    head = {"apiVersion": mirror.resource.api_version, "kind": kind}
    metadata = {
        "name": "c",
        "labels": {wellknown.MIRRORED: "true"},
        "annotations": {wellknown.UID: "u"},
    }
    assert body == {**head, "metadata": metadata, **seen}
    assert set(seen) <= set(mirror.fields)
    assert mirrored_kinds.is_shown({**body, "status": {}}, body, mirror.fields)


@given(OBJECTS)
def test_whatever_a_class_holds(fields):
    for mirror in MIRRORS:
        body = mirrored_kinds.body(mirror, {**fields, "metadata": METADATA})
        assert "secret" not in orjson.dumps(body["metadata"]).decode()


@pytest.mark.parametrize("kind", ["StorageClass", "IngressClass", "VolumeSnapshotClass"])
def test_the_default_class_is_known_as_such(kind):
    mirror = BY_KIND[kind]
    metadata = {**METADATA, "annotations": {mirror.default: "true", "secret": "x"}}
    body = mirrored_kinds.body(mirror, {"metadata": metadata})
    assert body["metadata"]["annotations"] == {mirror.default: "true", wellknown.UID: "u"}


def shown(**own: Any) -> bool:
    """Tell whether a StorageClass of the tenant is as wanted."""
    mirror = BY_KIND["StorageClass"]
    wanted = mirrored_kinds.body(mirror, {"metadata": METADATA, "provisioner": "p"})
    return mirrored_kinds.is_shown({**wanted, **own}, wanted, mirror.fields)


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


def test_a_replacement_is_of_the_very_object_and_keeps_finalizers():
    mirror = BY_KIND["StorageClass"]
    wanted = mirrored_kinds.body(mirror, {"metadata": METADATA, "provisioner": "p"})
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
    body = mirrored_kinds.replacement(own, wanted)
    assert body["metadata"] == {
        **wanted["metadata"],
        "uid": "t",
        "resourceVersion": "9",
        "finalizers": ["f/x"],
    }
    assert body["provisioner"] == "p"


def test_who_is_selected():
    gold = Sync(storage_classes=Classes(match_labels={"tier": "gold"}))
    mirror = BY_KIND["StorageClass"]
    assert mirrored_kinds.is_selected(mirror, gold, entry("StorageClass", tier="gold"))
    assert not mirrored_kinds.is_selected(mirror, gold, entry("StorageClass", tier="tin"))
    every = Sync(priority_classes=Classes(names=("*",)))
    classes = BY_KIND["PriorityClass"]
    assert mirrored_kinds.is_selected(classes, every, entry("PriorityClass", "high"))
    assert not mirrored_kinds.is_selected(
        classes, every, entry("PriorityClass", "system-node-critical")
    )
    assert not mirrored_kinds.is_selected(classes, BASELINE.sync, entry("PriorityClass", "high"))
    public = entry("PriorityClass", "high", **{"tenancy.x-k8s.io/super.public": "true"})
    assert mirrored_kinds.is_selected(classes, BASELINE.sync, public)


def test_each_row_is_selected_by_its_own_field():
    for mirror in MIRRORS:
        chosen = Classes(names=(mirror.resource.kind,))
        picked = [
            field
            for field in Sync.__struct_fields__
            if isinstance(getattr(BASELINE.sync, field), Classes)
            and mirror.selected_by(Sync(**{field: chosen})) is chosen
        ]
        assert len(picked) == 1
        assert picked[0].replace("_", "").startswith(mirror.resource.kind.lower()[:8])


def test_what_is_shown_may_be_followed_and_written():
    for mirror in MIRRORS:
        group, plural = mirror.resource.group, mirror.resource.plural
        assert may(SUPER_ACCESS, group, plural) == {"get", "list", "watch"}
        wanted = {"list", "watch", "create", "update", "delete"}
        assert may(TENANT_ACCESS, group, plural) == wanted


def test_either_mark_is_enough():
    assert mirrored_kinds.is_ours(entry("StorageClass", **{wellknown.MIRRORED: "true"}))
    recorded = {"metadata": {"name": "c", "annotations": {wellknown.UID: "u"}}}
    assert mirrored_kinds.is_ours(parse(orjson.dumps(recorded)))
    assert not mirrored_kinds.is_ours(entry("StorageClass"))
