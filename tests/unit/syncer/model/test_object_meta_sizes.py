"""Room for annotations at the limit of the API, to the byte."""

import pytest

from syncer.model import object_meta
from syncer.model.object_meta import MAX_ANNOTATIONS_BYTES, count_annotation_bytes
from syncer.model.rejections import RejectedError
from tenancy import wellknown
from tenancy.ownership import Tenant
from tenancy.policies import MetadataSpec

TENANT = Tenant(name="vc", namespace="default", uid="vc-uid", root="default-abc123-vc")
FOREIGN, LATE = 16 * 1024, 1024
"""Bytes that are kept free for annotations that others add, and that we add later."""
SPEC = MetadataSpec()


def build(annotations, sizes=None, referenced=()):
    metadata = {"name": "p", "namespace": "web", "uid": "u", "annotations": annotations}
    if sizes:
        metadata[object_meta.ANNOTATION_SIZES_FIELD] = sizes
    twin = object_meta.build_super_metadata(
        "Pod", TENANT, metadata, super_namespace="r-web", referenced=referenced
    )
    return twin["annotations"]


ADDED = count_annotation_bytes(
    {key: value for key, value in build({}).items() if key != wellknown.SYNCED_KEYS}
)
ROOM = MAX_ANNOTATIONS_BYTES - FOREIGN - ADDED


def filled(key, size):
    """Return one annotation that takes `size` bytes with its key."""
    return {key: "x" * (size - len(key))}


@pytest.mark.parametrize(
    ("key", "is_plain"), [("a", True), ("a/b", False), ("a.b", False), ("a.b/c", False)]
)
def test_a_plain_key_has_neither_a_prefix_nor_a_dot(key, is_plain):
    assert object_meta.is_plain_key(key) is is_plain


def test_the_record_of_the_keys_is_the_first_that_is_left_out():
    record = count_annotation_bytes({wellknown.SYNCED_KEYS: object_meta.encode_keys([], ["k"])})
    assert wellknown.SYNCED_KEYS in build(filled("k", ROOM - record))
    over = build(filled("k", ROOM - record + 1))
    assert "k" in over
    assert wellknown.SYNCED_KEYS not in over


def test_an_annotation_is_left_out_from_the_first_byte_too_many():
    assert "k" in build(filled("k", ROOM))
    assert "k" not in build(filled("k", ROOM + 1))


def test_the_largest_annotations_are_left_out_first_and_then_by_name():
    half = ROOM // 2
    small_first = build({**filled("a", 10), **filled("b", ROOM)})
    assert ("a" in small_first, "b" in small_first) == (True, False)
    equal = build({**filled("b", half + 1), **filled("a", half + 1)})
    assert ("a" in equal, "b" in equal) == (False, True)


def test_a_referenced_annotation_stays_until_nothing_fits():
    most = MAX_ANNOTATIONS_BYTES - LATE - ADDED
    assert "k" in build(filled("k", most), referenced=["k"])
    with pytest.raises(RejectedError, match=f"come to {most + 1 + ADDED} bytes"):
        build(filled("k", most + 1), referenced=["k"])


def test_a_recorded_size_stands_beside_the_measured_ones():
    annotations = {"a": "short", **filled("b", ROOM)}
    found = build(annotations, sizes={"a": 20})
    assert ("a" in found, "b" in found) == (True, False)
    assert "a" not in build({"a": "short", "b": "x"}, sizes={"a": ROOM + 1})


@pytest.mark.parametrize(
    ("left_out", "words"),
    [
        (["a"], "together: a is left out there, and stays in your cluster. Use shorter ones"),
        (["a", "b"], "together: a and 1 more is left out there"),
        (["a", "b", "c"], "together: a and 2 more is left out there"),
    ],
)
def test_a_notice_names_the_first_annotation_that_is_left_out(left_out, words):
    metadata = {"annotations": dict.fromkeys([*left_out, "kept"], "1")}
    (notice,) = object_meta.find_left_out("Pod", metadata, {"annotations": {"kept": "1"}}, SPEC)
    assert (notice.rule, notice.path) == ("too-large", "metadata.annotations")
    assert words in notice.text
    whole = {"annotations": metadata["annotations"]}
    assert object_meta.find_left_out("Pod", metadata, whole, SPEC) == []
