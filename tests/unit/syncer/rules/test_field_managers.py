"""Field managers: whether another owner than the syncer set a field."""

from __future__ import annotations

import pytest

from syncer.rules import field_managers

FIELDS = {
    "f:metadata": {"f:labels": {"f:example.com/tier": {}, ".": {}}},
    "f:reclaimPolicy": {},
    "f:spec": {"f:capacity": {"f:storage": {}}, "f:claimRef": {}},
    "f:status": {"f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:status": {}}}},
}


def is_set(path: str, manager: str = "kubectl-edit", **entry: object) -> bool:
    metadata = {"managedFields": [{"manager": manager, "fieldsV1": FIELDS, **entry}]}
    return field_managers.is_set_by_other(metadata, [path], "vc-syncer")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("reclaimPolicy", True),
        ("provisioner", False),
        ("metadata.labels.example.com/tier", True),
        ("metadata.labels.example.com/other", False),
        ("metadata.annotations.example.com/tier", False),
        ("spec.capacity.storage", True),
        ("spec.capacity", True),
        ("spec.claimRef.uid", True),  # set as a whole
        ("spec.volumeMode", False),
        ("status.conditions[Ready].status", True),
        ("status.conditions[Ready].message", False),
        ("status.conditions[Other].status", False),
        ("status.conditions[Ready]", True),
    ],
)
def test_a_field_is_found_by_its_path(path: str, expected: bool):
    assert is_set(path) is expected


def test_our_own_fields_are_no_others():
    assert not is_set("reclaimPolicy", "vc-syncer")


@pytest.mark.parametrize("odd", [{"fieldsV1": None}, {"fieldsV1": []}, {"fieldsV1": {"f:spec": 3}}])
def test_a_record_without_the_shape_of_one_reports_nothing(odd: dict[str, object]):
    assert not is_set("spec.capacity", **odd)
    assert not field_managers.is_set_by_other({"managedFields": 3}, ["spec"], "vc-syncer")


def test_a_key_that_cannot_be_read_is_passed_over():
    fields = {"f:status": {"f:conditions": {"k:{": {}, "k:[1]": {}}}}
    metadata = {"managedFields": [{"manager": "x", "fieldsV1": fields}]}
    path = "status.conditions[Ready].status"
    assert not field_managers.is_set_by_other(metadata, [path], "vc-syncer")
