"""A tenant's claims on their way down. Whatever a tenant writes, nothing raises."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeio.cache.store import Entry, parse_entry
from syncer.model.rejections import RejectedError
from syncer.model.tenant_view import TenantView
from syncer.rules.storage import claim_status, claims, volumes
from tenancy import names
from tenancy.policies import TenantPolicySpec
from tests.support.syncer.storage import (
    BELOW,
    DEFAULT,
    TENANT,
    claim,
    entry,
    own,
    super_volume,
    twin_below,
    view,
)
from tests.unit.syncer.model.test_object_meta import OBJECTS


def rules(tenant_claim: dict[str, Any], seen: TenantView | None = None) -> set[str]:
    """Return the rules that reject a claim."""
    with pytest.raises(RejectedError) as raised:
        claims.build_claim(tenant_claim, seen or view())
    assert TENANT.root not in str(raised.value)
    return {problem.rule for problem in raised.value.problems}


def test_a_plain_claim():
    annotations = {
        "pv.kubernetes.io/bind-completed": "yes",
        "volume.kubernetes.io/selected-node": "n",
        "note": "x",
    }
    made = claims.build_claim(claim({"annotations": annotations}, storageClassName="gold"), view())
    assert made["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeMode": "Filesystem",
        "storageClassName": "gold",
    }
    assert made["metadata"]["namespace"] == BELOW
    assert made["metadata"]["annotations"]["note"] == "x"
    assert not set(annotations) - {"note"} & set(made["metadata"]["annotations"])


def test_the_old_spelling_of_a_class_counts_and_wins():
    old = {"annotations": {"volume.beta.kubernetes.io/storage-class": "gold"}}
    assert claims.build_claim(claim(old), view())["spec"]["storageClassName"] == "gold"
    old["annotations"]["volume.beta.kubernetes.io/storage-class"] = "hidden"
    assert rules(claim(old, storageClassName="gold")) == {"storage-class"}
    assert claims.get_class(claim(old, storageClassName="gold")) == "hidden"


def test_no_class_is_the_super_clusters_default():
    assert "storageClassName" not in claims.build_claim(claim(), view(TenantPolicySpec()))["spec"]


@pytest.mark.parametrize(
    ("defaults", "given"),
    [
        ({}, ""),
        ({"gold": "2026-01-01T00:00:00Z"}, "gold"),
        ({"hidden": "2026-01-01T00:00:00Z"}, ""),
        ({"gold": "2026-01-01T00:00:00Z", "hidden": "2026-01-02T00:00:00Z"}, ""),
        ({"gold": "2026-01-02T00:00:00Z", "hidden": "2026-01-01T00:00:00Z"}, "gold"),
    ],
)
def test_a_list_of_classes_counts_for_who_names_none(defaults, given):
    seen = view(default="")
    for name, since in defaults.items():
        mark = {"annotations": {DEFAULT: "true"}}
        metadata = {**mark, "creationTimestamp": since, "resourceVersion": "6"}
        seen.super_stores["StorageClass"].put(
            entry("StorageClass", name, metadata=metadata), live=True
        )
    if given:
        assert claims.build_claim(claim(), seen)["spec"]["storageClassName"] == given
    else:
        assert rules(claim(), seen) == {"storage-class"}


REFUSED = [
    ({"storageClassName": "hidden"}, "storage-class"),
    ({"storageClassName": "none-such"}, "storage-class"),
    ({"storageClassName": ""}, "storage-class"),
    ({"storageClassName": {"a": 1}}, "malformed"),
    ({"storageClassName": 5}, "malformed"),
    ({"selector": {}}, "volume-selector"),
    ({"selector": {"matchLabels": {"a": "b"}}}, "volume-selector"),
    ({"volumeName": "super-volume"}, "volume-name"),
    ({"volumeName": ["super-volume"]}, "malformed"),
    ({"volumeAttributesClassName": "slow"}, "volume-attributes-class"),
    ({"volumeAttributesClassName": {}}, "malformed"),
    ({"dataSource": {"kind": "Pod", "name": "x"}}, "data-source"),
    ({"dataSource": {"apiGroup": "x.example", "kind": "PersistentVolumeClaim"}}, "data-source"),
    (
        {
            "dataSource": {
                "kind": "VolumeSnapshot",
                "name": "x",
                "apiGroup": "snapshot.storage.k8s.io",
            }
        },
        "data-source",
    ),
    ({"dataSource": {"kind": "PersistentVolumeClaim", "name": "../x"}}, "reference-name"),
    ({"dataSource": {"kind": "PersistentVolumeClaim"}}, "reference-name"),
    ({"dataSource": "x"}, "malformed"),
    ({"dataSource": {"kind": ["PersistentVolumeClaim"], "name": "x"}}, "malformed"),
    ({"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": {"x": 1}}}, "malformed"),
    (
        {"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "x", "namespace": "db"}},
        "data-source-namespace",
    ),
    ({"resources": {"requests": {"storage": {}}}}, "malformed"),
    ({"resources": []}, "malformed"),
    ({"accessModes": [{}]}, "malformed"),
    ({"surprise": "x"}, "unknown-field"),
]


@pytest.mark.parametrize(("spec", "rule"), REFUSED)
def test_claims_that_are_refused(spec, rule):
    assert rules(claim(**spec)) == {rule}


@pytest.mark.parametrize(
    "source",
    [
        {"kind": "PersistentVolumeClaim", "name": "x", "apiGroup": None},
        {"kind": "PersistentVolumeClaim", "name": "x", "apiGroup": ""},
        {"kind": "PersistentVolumeClaim", "name": "x", "namespace": "web"},
    ],
)
def test_sources_that_are_offered(source):
    made = claims.build_claim(claim(dataSource=source, dataSourceRef=source), view())
    assert claims.get_source(made) == (source["kind"], "x")
    assert "namespace" not in made["spec"]["dataSource"]
    assert "dataSourceRef" not in made["spec"]


@given(OBJECTS)
def test_whatever_a_claim_holds_it_is_built_or_refused(spec):
    tenant_claim = {**claim(), "spec": spec}
    try:
        made = claims.build_claim(tenant_claim, view())
    except RejectedError:
        return
    assert set(made["spec"]) <= set(claims.CLAIM_SPEC)


SHAPES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(sorted(claims.CLAIM_SPEC)), SHAPES), SHAPES)
def test_whatever_shape_the_leaves_of_a_claim_have(spec, status):
    tenant_claim = {**claim(), "spec": spec, "status": status}
    live = {"metadata": {"namespace": BELOW, "uid": "b"}, "spec": {}, "status": {"phase": "Bound"}}
    assert claim_status.build_status_up(tenant_claim, live) is not None or (
        isinstance(status, dict) and status == {"phase": "Bound"}
    )
    try:
        made = claims.build_claim(tenant_claim, view())
    except RejectedError as rejected:
        claim_status.is_claim_lost(tenant_claim, rejected.problems)
        claims.get_class(tenant_claim)
        return
    claims.build_patch({**live, "spec": made["spec"]}, made)
    claim_status.build_volume_up(tenant_claim, live)


def test_a_volume_that_was_given_is_named_again_and_no_other():
    seen = view()
    seen.super_stores["PersistentVolume"].put(super_volume("kept", "c"), live=True)
    seen.super_stores["PersistentVolume"].put(super_volume("other", "d"), live=True)
    seen.super_stores["PersistentVolume"].put(
        super_volume("foreign", "c", "kube-system"), live=True
    )
    assert claims.build_claim(claim(volumeName="kept"), seen)["spec"]["volumeName"] == "kept"
    for name in ("other", "foreign", "gone"):
        assert rules(claim(volumeName=name), seen) == {"volume-name"}
    twin_below(seen, spec={"volumeName": "gone"})
    assert claims.build_claim(claim(volumeName="gone"), seen)["spec"]["volumeName"] == "gone"
    assert rules(claim(volumeName="other"), seen) == {"volume-name"}


def test_a_claim_that_is_in_the_super_cluster_stays_when_its_class_is_no_longer_shown():
    seen = view()
    twin_below(seen, spec={"storageClassName": "hidden"})
    assert claims.build_claim(claim(storageClassName="hidden"), seen)
    assert rules(claim({"uid": "another"}, storageClassName="hidden"), seen) == {"storage-class"}


def test_a_claim_on_a_volume_of_the_tenants_own():
    for wish, reference in ((claim(volumeName="mine"), None), (claim(), ("web", "c"))):
        seen = view()
        body = own()
        if reference:
            body["spec"]["claimRef"] = {"namespace": reference[0], "name": reference[1]}
        seen.stores["PersistentVolume"].put(parse_entry(orjson.dumps(body)), live=True)
        made = claims.build_claim(wish, seen)
        keyed = names.build_volume_name(TENANT.uid, "mine")
        assert made["spec"]["volumeName"] == keyed
        assert made["spec"]["storageClassName"] == ""
        live = {**made, "status": {"phase": "Bound"}}
        raised = claim_status.build_volume_up(claim(), live)
        assert raised is not None
        assert raised["spec"] == {"volumeName": "mine"}
    forbidden = view(TenantPolicySpec())
    forbidden.stores["PersistentVolume"].put(parse_entry(orjson.dumps(own())), live=True)
    assert "volume-name" in rules(claim(volumeName="mine"), forbidden)


@pytest.mark.parametrize(("policy", "most"), [(None, 1), (TenantPolicySpec(), 0)])
def test_a_claim_decodes_no_volume_of_another_claim(policy, most, monkeypatch):
    """REL-76: 500 claims beside 2,000 volumes of 200 KB would stop the loop for minutes."""
    seen = view(policy) if policy else view()
    store = seen.stores["PersistentVolume"]
    for number in range(200):
        body = own()
        body["metadata"]["name"] = f"v{number}"
        body["spec"]["claimRef"] = {"namespace": "web", "name": f"c{number}"}
        store.put(parse_entry(orjson.dumps(body)), live=True)
    monkeypatch.setattr(store, "list", None)
    decoded: list[str] = []
    plain = Entry.decode
    monkeypatch.setattr(Entry, "decode", lambda each: decoded.append(each.name) or plain(each))
    found = claims.get_own_volume({"namespace": "web", "name": "c7"}, None, seen)
    assert found == ("v7" if most else "")
    assert len(decoded) == most


@pytest.mark.parametrize("spec", [None, [], {"claimRef": 3}, {"claimRef": {"name": ["x"]}}])
def test_a_volume_of_any_shape_has_a_place_in_the_index_or_none(spec):
    body = {"metadata": {"name": "v"}, "spec": spec}
    assert list(volumes.index_by_claim(parse_entry(orjson.dumps(body)))) == []
