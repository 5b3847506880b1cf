"""Which keys are synced back, over all kinds that have a way back, and what never changes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from syncer.model import builtin_policy, diff, object_meta
from syncer.model.metadata import transparent_record
from syncer.model.rejections import RejectedError
from syncer.rules import transparent_metadata
from syncer.rules.registry import KINDS, SyncDirection
from tenancy import wellknown
from tenancy.ownership import Tenant
from tenancy.policies import MetadataSpec

TENANT = Tenant(name="vc", namespace="default", uid="vc-uid", root="default-abc123-vc")
UPWARD = tuple(kind.resource.kind for kind in KINDS if kind.direction is SyncDirection.DOWN_UP)
PASSING = MetadataSpec(
    label_domains=("k8s.net.status",),
    annotations={"*": ("k8s.net.status/seen", "lb.example.com/id")},
    transparent_prefixes=("k8s.net.status", "tenancy.x-k8s.io", "note", "kubernetes.io/"),
    transparent_annotations={"*": ("lb.example.com/id", wellknown.UID)},
)
KEYS = (
    "note",
    "k8s.net.status/seen",
    "k8s.net.status/other",
    "lb.example.com/id",
    "lb.example.com/other",
    "kubernetes.io/config.mirror",
    wellknown.UID,
)
MAPS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["1", "2", "three"]), max_size=6)
STEP = st.tuples(
    st.sampled_from(["tenant", "addon"]),
    st.sampled_from(transparent_record.FIELDS),
    st.sampled_from(KEYS),
    st.sampled_from(["1", "2", None]),
)


class TwoSides:
    """One tenant object and its copy, with a tenant, an add-on below and the syncer's rules."""

    def __init__(self, kind: str, labels: dict[str, str], annotations: dict[str, str]) -> None:
        self.kind = kind
        self.own: dict[str, Any] = {
            "name": "x",
            "namespace": "web",
            "uid": "u",
            "resourceVersion": "1",
            "labels": dict(labels),
            "annotations": dict(annotations),
        }
        self.below: dict[str, Any] | None = None
        self.tenants_own = {"labels": dict(labels), "annotations": dict(annotations)}
        """What the tenant itself wrote last, and did not remove."""

    def write(self, who: str, field: str, key: str, value: str | None) -> None:
        """Write as the tenant, or as an add-on of the super cluster."""
        side = self.own if who == "tenant" else self.below
        if side is None or (who == "addon" and wellknown.is_reserved_key(key)):
            return
        said = self.tenants_own[field]
        if value is None:
            side[field].pop(key, None)
            if who == "tenant":
                said.pop(key, None)
            return
        before = side[field].get(key)
        side[field][key] = value
        if who == "tenant" and (key in said or before != value):
            said[key] = value  # to write what is there already changes no owner

    def sync(self) -> bool:
        """Run the syncer once. Returns whether it wrote anything."""
        try:
            twin = object_meta.build_super_metadata(
                self.kind,
                TENANT,
                self.own,
                super_namespace="below",
                passing=PASSING,
                is_exposed=False,
            )
        except RejectedError:
            return False
        if self.below is None:
            self.below = {**copy.deepcopy(twin), "uid": "b"}
            return True
        patch: Any = object_meta.build_metadata_patch(self.kind, self.below, twin)
        if patch:
            self.below = diff.apply_merge_patch(self.below, patch)
            return True
        keys = transparent_metadata.list_super_keys(self.kind, self.below, PASSING)
        change = transparent_metadata.build_change(self.own, keys)
        body = transparent_metadata.build_body({"metadata": self.own}, change)
        if body is None:
            return False
        self.own = diff.apply_merge_patch(self.own, body["metadata"])
        return True

    def settle(self) -> None:
        """Run the syncer until it writes nothing, which must be soon."""
        for _ in range(6):
            if not self.sync():
                return
        raise AssertionError("the syncer writes in a loop")


OTHER = "k8s.net.status/other"


@pytest.mark.parametrize("kind", UPWARD)
@example(
    labels={OTHER: "1"},
    annotations={OTHER: "1"},
    steps=[
        ("addon", field, OTHER, value)
        for field in transparent_record.FIELDS
        for value in ("2", None)
    ],
)
@example(
    labels={},
    annotations={},
    steps=[
        ("addon", "annotations", OTHER, "1"),
        ("tenant", "annotations", OTHER, "2"),
        ("addon", "annotations", OTHER, "1"),
        ("addon", "annotations", OTHER, None),
    ],
)
@given(labels=MAPS, annotations=MAPS, steps=st.lists(STEP, max_size=12))
def test_whatever_both_sides_write_the_tenants_keys_stay_and_the_rest_follows(
    kind, labels, annotations, steps
):
    both = TwoSides(kind, labels, annotations)
    both.settle()
    for step in steps:
        both.write(*step)
        both.settle()
        for field in transparent_record.FIELDS:
            there, said = both.own[field], both.tenants_own[field]
            assert {key: there.get(key) for key in said} == said  # never overwritten or removed
            added = there.keys() - said.keys() - {wellknown.TRANSPARENT_KEYS}
            if both.below is None:
                assert not added
                continue
            below = both.below[field]
            for key in added:  # only what the rule names, with the value that is there
                assert transparent_metadata.is_synced_back(kind, field, key, PASSING)
                assert not wellknown.is_reserved_key(key)
                assert there[key] == below[key]
            own = object_meta.list_tenant_keys(kind, both.below, field)
            for key in below.keys() - said.keys() - set(own):  # and all of it
                if transparent_metadata.is_synced_back(kind, field, key, PASSING):
                    assert there[key] == below[key]


@pytest.mark.parametrize("kind", UPWARD)
def test_nothing_is_synced_back_without_a_rule(kind):
    bare = {"labels": {"a.example/b": "1", "x": "1"}, "annotations": {"a.example/b": "1"}}
    found = transparent_metadata.list_super_keys(kind, bare, MetadataSpec())
    assert not any(found.values())


@pytest.mark.parametrize(
    "key",
    [
        wellknown.UID,
        "transparency.tenancy.x-k8s.io/clusterIP",
        "sub.tenancy.x-k8s.io/x",
        builtin_policy.LAST_APPLIED,
        "pod-template-hash",
        "pv.kubernetes.io/bind-completed",
        "kubernetes.io/config.mirror",
    ],
)
def test_no_prefix_opens_a_protected_key(key):
    wide = MetadataSpec(
        transparent_prefixes=("",), transparent_annotations={"*": (key,), "Pod": (key,)}
    )
    for field in transparent_record.FIELDS:
        assert not transparent_metadata.is_synced_back("Pod", field, key, wide)
    assert transparent_metadata.is_synced_back("Pod", "labels", "k8s.net.status/a", wide)


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("Service", "metallb.io/ip-allocated-from-pool"),
        ("Service", "external-dns.alpha.kubernetes.io/hostname"),
        ("Service", "loadbalancer.openstack.org/load-balancer-id"),
        ("Ingress", "ingress.kubernetes.io/backends"),
        ("Ingress", "external-dns.alpha.kubernetes.io/hostname"),
    ],
)
def test_status_annotations_of_add_ons_are_synced_back_by_default(kind, key):
    below = {"labels": {key: "1"}, "annotations": {key: "1"}}
    found = transparent_metadata.list_super_keys(kind, below, MetadataSpec())
    assert found == {"labels": {}, "annotations": {key: "1"}}


def lengthy(own_bytes: int, values: dict[str, str]) -> transparent_metadata.MetadataChange:
    """Return the change of an object whose own annotations have a size."""
    own = {"uid": "u", "resourceVersion": "1", "annotations": {"own": "x" * (own_bytes - 3)}}
    return transparent_metadata.build_change(own, {"labels": {}, "annotations": values})


def test_an_object_at_the_limit_of_annotations_stays_within_it():
    limit = object_meta.MAX_ANNOTATIONS_BYTES
    values = {f"k8s.net.status/{number:03}": "v" * 1000 for number in range(100)}
    for own_bytes in (limit, limit - 200, limit - 5000, limit - 40_000, 10):
        change = lengthy(own_bytes, values)
        added = change.patch.get("annotations", {})
        size = own_bytes + object_meta.count_annotation_bytes(
            {key: value for key, value in added.items() if value is not None}
        )
        assert size <= limit
        kept = len(added.keys() & values.keys())
        assert kept == len(values) - len(change.problems)
        assert kept <= transparent_metadata.MAX_KEYS
        if own_bytes >= limit - 200:
            assert added == {}
        else:
            assert kept
    assert change.problems[0].rule == "too-large"


def test_a_value_that_is_too_long_is_left_out_and_the_others_are_not():
    change = lengthy(10, {"a": "v" * (transparent_metadata.MAX_VALUE_LENGTH + 1), "b": "1"})
    assert change.patch["annotations"]["b"] == "1"
    assert "a" not in change.patch["annotations"]
    assert [problem.path for problem in change.problems] == ["metadata.annotations[a]"]


def test_the_patch_names_the_version_that_was_compared():
    own = {"uid": "u", "resourceVersion": "7"}
    change = transparent_metadata.build_change(own, {"labels": {"a": "1"}, "annotations": {}})
    body = transparent_metadata.build_body({"metadata": own}, change)
    assert body is not None
    assert (body["metadata"]["uid"], body["metadata"]["resourceVersion"]) == ("u", "7")
    assert (
        transparent_metadata.build_body(
            {"metadata": own}, transparent_metadata.MetadataChange({}, ())
        )
        is None
    )
