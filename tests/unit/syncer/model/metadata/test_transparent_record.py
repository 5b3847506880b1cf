"""The record of the keys that the super cluster wrote into a tenant object."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncer.model import object_meta
from syncer.model.metadata import transparent_record
from tenancy import wellknown
from tenancy.ownership import Tenant
from tenancy.policies import MetadataSpec

TENANT = Tenant(name="vc", namespace="default", uid="vc-uid", root="default-abc123-vc")
KEY = "lb.example.com/address"


def recorded(value: str = "192.0.2.1", **annotations: str) -> dict[str, object]:
    """Return the metadata of an object with one key of the super cluster."""
    record = {"annotations": {KEY: transparent_record.compute_digest("192.0.2.1")}}
    return {
        "name": "x",
        "namespace": "web",
        "uid": "u",
        "annotations": {
            KEY: value,
            wellknown.TRANSPARENT_KEYS: transparent_record.encode_record(record),
            **annotations,
        },
    }


@pytest.mark.parametrize("kind", ["Ingress", "Service", "Pod", "PersistentVolumeClaim"])
def test_a_key_of_the_super_cluster_neither_goes_down_nor_holds_an_object_back(kind):
    passing = MetadataSpec(annotations={"*": (KEY,)})
    for each in (passing, MetadataSpec()):
        built = object_meta.build_super_metadata(
            kind, TENANT, recorded(), super_namespace="below", passing=each
        )
        assert KEY not in built["annotations"]
        assert wellknown.TRANSPARENT_KEYS not in built["annotations"]
        assert object_meta.find_left_out(kind, recorded(), built, each) == []
    assert object_meta.find_left_out_annotations(kind, recorded()["annotations"]) is None


def test_a_key_whose_value_the_tenant_changed_is_the_tenants():
    own = recorded("198.51.100.1")
    assert transparent_record.list_super_keys(own, "annotations") == frozenset()
    built = object_meta.build_super_metadata(
        "Service",
        TENANT,
        own,
        super_namespace="below",
        passing=MetadataSpec(annotations={"Service": (KEY,)}),
    )
    assert built["annotations"][KEY] == "198.51.100.1"
    held = object_meta.find_blocking_annotation("Ingress", own["annotations"])
    assert held is not None
    assert KEY in held.path


def test_a_pods_label_that_was_synced_back_is_selected_by_under_its_translated_key():
    """Without it, a selector of the tenant would find the pod above and not below."""
    record = {"labels": {"zone.example/a": transparent_record.compute_digest("1")}}
    own = {
        "name": "x",
        "namespace": "web",
        "uid": "u",
        "labels": {"zone.example/a": "1"},
        "annotations": {wellknown.TRANSPARENT_KEYS: transparent_record.encode_record(record)},
    }
    built = object_meta.build_super_metadata("Pod", TENANT, own, super_namespace="below")
    assert built["labels"][wellknown.translate_label_key("zone.example/a")] == "1"
    assert "zone.example/a" not in built["labels"]
    open_ = MetadataSpec(label_domains=("zone.example",))
    built = object_meta.build_super_metadata(
        "Pod", TENANT, own, super_namespace="below", passing=open_
    )
    assert not {key for key in built["labels"] if "zone" in key}


@given(
    st.one_of(
        st.text(max_size=60),
        st.sampled_from(['{"labels":3}', "[]", '{"annotations":{"a":1}}', "null", "{" * 200]),
    )
)
def test_a_record_that_a_tenant_broke_is_empty(text):
    found = transparent_record.read_record({"annotations": {wellknown.TRANSPARENT_KEYS: text}})
    assert set(found) == {"labels", "annotations"}
    assert all(isinstance(keys, dict) for keys in found.values())


def test_a_record_that_is_too_long_is_not_read():
    text = transparent_record.encode_record({"labels": {"a" * 70_000: "x"}})
    found = transparent_record.read_record({"annotations": {wellknown.TRANSPARENT_KEYS: text}})
    assert found["labels"] == {}


def test_an_empty_record_has_no_text():
    assert transparent_record.encode_record({"labels": {}, "annotations": {}}) == ""
