"""Our own additions never push an object over the API's limits: each kind, at the limit."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import pytest

from kubeio import Object, errors
from syncer.controllers import rejection_events
from syncer.model import object_meta
from syncer.model.rejections import RejectedError
from syncer.rules import registry
from syncer.rules.configuration import cache_transforms
from syncer.rules.pods import pod_build, pod_patch
from tenancy import names, wellknown
from tenancy.ownership import Tenant
from tenancy.policies import BASELINE_POLICY
from tests.support.kubeio.described_requests import REQUEST
from tests.support.syncer.pods import FACTS, pod
from tests.support.syncer.sessions import CONTAINERS, SessionWorld
from tests.support.syncer.tenant_views import network_view

LIMIT = 262_144
"""Bytes of the annotations of one object (apimachinery, `TotalAnnotationSizeLimitB`)."""
NAMESPACE = "n" * 63
UID = "0a1b2c3d-0000-4000-8000-000000000001"
TENANT = Tenant(name="v" * 28, namespace="s" * 27, uid=UID, root="r" * 63, super_cluster_uid=UID)
"""A tenant of the longest names, in a target."""
LONGEST = ".".join(("n" * 63, "a" * 63, "m" * 63, "e" * 61))
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def refusals(body: Object) -> list[str]:
    """Return why an API server refuses the metadata of an object."""
    metadata = body["metadata"]
    annotations = {**metadata["annotations"], wellknown.STORE_REVISION: "9" * 19}
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    found = [f"annotations have {size} bytes"] if size > LIMIT else []
    for key in (*metadata["labels"], *annotations):
        prefix, _, name = key.rpartition("/")
        if not _NAME.fullmatch(name) or len(name) > 63 or len(prefix) > 253:
            found.append(f"key {key}")
    for key, value in metadata["labels"].items():
        if len(value) > 63 or not _VALUE.fullmatch(value):
            found.append(f"label {key} is {value}")
    longest = 63 if body["kind"] in ("Service", "Namespace") else 253
    if len(metadata["name"]) > longest or len(metadata.get("namespace", "")) > 63:
        found.append("names")
    return found


def filled(count: int, *, domain: str = "", key_bytes: int = 40) -> dict[str, str]:
    """Return annotations that an API server just accepts."""
    keys = [f"{domain}{number:05}{'k' * (key_bytes - 5 - len(domain))}" for number in range(count)]
    share = LIMIT // count
    found = dict.fromkeys(keys, "v" * (share - key_bytes))
    found[keys[0]] += "v" * (LIMIT - share * count)
    assert sum(len(key) + len(value) for key, value in found.items()) == LIMIT
    return found


FILLED = [
    pytest.param(filled(1), id="one"),
    pytest.param(filled(2), id="two"),
    pytest.param(filled(500), id="many"),
    pytest.param(filled(4000, key_bytes=60), id="keys"),
]
SPECS: Mapping[str, dict[str, Any]] = {
    "Namespace": {},
    "ConfigMap": {"data": {"a": "b"}},
    "Secret": {"data": {"a": "Yg=="}},
    "Service": {
        "spec": {"clusterIP": "10.96.8.9", "ports": [{"port": 80}], "selector": {"a": "b"}}
    },
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "EndpointSlice": {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["203.0.113.7"]}],
        "ports": [{"port": 80}],
    },
    "Ingress": {"spec": {"rules": [{"host": "a.example"}]}},
    "NetworkPolicy": {"spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]}},
    "PodDisruptionBudget": {
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"a": "b"}}},
        "status": {"desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1},
    },
}
MEANINGFUL = frozenset({"Service", "Ingress"})
"""Kinds on which an annotation that is left out may expose something."""


def tenant_object(kind: str, annotations: Mapping[str, str]) -> Object:
    """Return an object of the longest names, with an owner."""
    name = "x" * 63 if kind in ("Service", "Namespace") else LONGEST
    owner = {"apiVersion": "v1", "kind": "K", "name": "o", "uid": "u" * 300, "controller": True}
    metadata: Object = {"name": name, "uid": UID, "annotations": dict(annotations)}
    if kind != "Namespace":
        metadata |= {"namespace": NAMESPACE, "ownerReferences": [owner]}
    service = {"kubernetes.io/service-name": "web"} if kind == "EndpointSlice" else {}
    metadata["labels"] = {**service, f"{'d' * 63}.{'e' * 63}/{'l' * 63}": "v" * 63}
    resource = registry.KINDS_BY_NAME[kind].resource
    return {"apiVersion": resource.api_version, "kind": kind, "metadata": metadata, **SPECS[kind]}


def built(kind: str, annotations: Mapping[str, str]) -> Object:
    row = registry.KINDS_BY_NAME[kind]
    assert row.build is not None
    view = dataclasses.replace(network_view(namespaces={NAMESPACE: {}}), tenant=TENANT)
    return row.build(tenant_object(kind, annotations), view)


def test_the_table_has_each_kind():
    """Pods have their own builder, and a table of their own."""
    assert set(SPECS) | {"Pod"} == {kind.resource.kind for kind in registry.KINDS}


@pytest.mark.parametrize("annotations", FILLED)
@pytest.mark.parametrize("kind", sorted(set(SPECS) - MEANINGFUL))
def test_a_full_object_is_synced_with_everything_of_ours(kind, annotations):
    made = built(kind, annotations)
    assert refusals(made) == []
    assert made["metadata"]["annotations"][wellknown.UID] == UID


@pytest.mark.parametrize("annotations", FILLED)
@pytest.mark.parametrize("kind", sorted(MEANINGFUL))
def test_nothing_that_may_mean_something_is_left_out(kind, annotations):
    with pytest.raises(RejectedError) as caught:
        built(kind, annotations)
    (problem,) = caught.value.problems
    assert (problem.rule, problem.path) == ("too-large", "metadata.annotations")
    assert re.search(r"come to 26[2-9]\d\d\d bytes .* the limit is 262144", problem.text)


@pytest.mark.parametrize("kind", sorted(MEANINGFUL))
@pytest.mark.parametrize("size", [150_000, 240_000, 258_000])
def test_what_fits_is_carried_whole(kind, size):
    made = built(kind, {"a": "v" * size})
    assert refusals(made) == []
    assert made["metadata"]["annotations"]["a"] == "v" * size


# --- pods -----------------------------------------------------------------------------------------


def full_pod(annotations: Mapping[str, str], **spec: Any) -> Object:
    owner = {"kind": "K", "name": "o", "uid": "no label/" + "u" * 300, "controller": True}
    return pod(
        {"name": LONGEST, "annotations": dict(annotations), "ownerReferences": [owner]}, **spec
    )


def build(tenant_pod: Object) -> pod_build.BuiltPod:
    facts = FACTS._replace(tenant=TENANT, super_namespace="p" * 63)
    return pod_build.build_super_pod(tenant_pod, facts)


@pytest.mark.parametrize("annotations", FILLED)
def test_a_full_pod_is_synced_and_reported_with_what_is_left_out(annotations):
    tenant_pod = full_pod(annotations)
    made = build(tenant_pod)
    twin = {**made.pod, "kind": "Pod"}
    assert refusals(twin) == []
    there = twin["metadata"]["annotations"]
    assert len(set(annotations) - set(there)) >= 1
    (notice,) = [each for each in made.adjustments if each.rule == "too-large"]
    assert min(set(annotations) - set(there)) in notice.text
    # The patch of a running pod wants the same.
    live = {**twin, "metadata": {**twin["metadata"], "uid": "twin"}}
    assert pod_patch.build_running_patch(tenant_pod, live, TENANT) is None


def annotations_of(items: list[str]) -> list[Object]:
    """Return a volume with files of the downward API."""
    found = [{"path": f"f{at}", "fieldRef": {"fieldPath": path}} for at, path in enumerate(items)]
    return [{"name": "v", "downwardAPI": {"items": found}}]


@pytest.mark.parametrize("size", [100_000, 125_000, 210_000, 240_000])
def test_a_file_of_large_annotations_is_carried(size):
    """The file is one of our annotations and has all of the tenant's: they were counted twice."""
    tenant_pod = full_pod(
        {"large": "v" * size, "small": "s"}, volumes=annotations_of(["metadata.annotations"])
    )
    made = build(tenant_pod)
    assert refusals(made.pod) == []
    annotations = made.pod["metadata"]["annotations"]
    assert f'large="{"v" * size}"' in annotations["mirror.tenancy.x-k8s.io/annotations"]
    assert annotations["small"] == "s", "only what has no room is left out"
    assert ("large" in annotations) == (size <= 120_000)


def test_what_the_pod_reads_by_its_key_is_not_left_out():
    reads = "metadata.annotations['large']"
    env = [{"name": "L", "valueFrom": {"fieldRef": {"fieldPath": reads}}}]
    container = {"name": "main", "image": "i", "env": env}
    own = {"large": "v" * 150_000, "other": "o" * 100_000}
    made = build(full_pod(own, containers=[container])).pod
    assert refusals(made) == []
    assert made["metadata"]["annotations"]["large"] == own["large"]
    assert "other" not in made["metadata"]["annotations"]


def test_what_has_no_room_at_all_is_reported_with_its_size():
    own = {"quotes": '"' * 200_000}
    with pytest.raises(RejectedError) as caught:
        build(full_pod(own, volumes=annotations_of(["metadata.annotations"])))
    (problem,) = caught.value.problems
    assert problem.rule == "too-large"
    assert re.search(r"come to 40\d\d\d\d bytes .* the limit is 262144", problem.text)


def test_the_record_of_keys_goes_first():
    own = filled(700, key_bytes=40)
    own = {key: value[:-50] for key, value in own.items()}
    size = object_meta.count_annotation_bytes(own)
    assert 200_000 < size < LIMIT - 30_000
    made = build(full_pod(own))
    annotations = made.pod["metadata"]["annotations"]
    assert own.items() <= annotations.items()
    assert wellknown.SYNCED_KEYS not in annotations
    assert made.adjustments == ()


def test_an_annotation_that_a_policy_lists_is_not_left_out():
    passing = BASELINE_POLICY.metadata.__class__(annotations={"*": ("own.example/large",)})
    metadata = {
        "name": "x",
        "namespace": "web",
        "uid": UID,
        "annotations": {"own.example/large": "v" * 240_000, "plain": "p" * 20_000},
    }
    made = object_meta.build_super_metadata(
        "ConfigMap", TENANT, metadata, super_namespace="s", passing=passing
    )
    assert "own.example/large" in made["annotations"]
    assert "plain" not in made["annotations"]


@pytest.mark.parametrize(
    ("uid", "value"),
    [
        ("0a1b-2c", "0a1b-2c"),
        ("u" * 63, "u" * 63),
        ("", ""),
        ("u" * 64, "dirjf52phumllimv"),
        ("a/b", "yfgn3qbt6zfz32ua"),
        ("a/\ud800", "wpc7szeflcz2l45x"),
    ],
)
def test_a_controllers_uid_is_the_value_of_a_label(uid, value):
    """Labels of running pods have these values, so they must not change."""
    assert object_meta.build_controller_label(uid) == value


# --- objects --------------------------------------------------------------------------------------


@pytest.mark.parametrize("twin", [None, {"data": {"a": "v" * 1_600_000}}])
async def test_an_object_that_cannot_be_stored_is_reported_with_its_size_and_the_limit(twin):
    world = SessionWorld()
    entry = world.tenant_has("Pod", "p", spec={"containers": CONTAINERS})
    said = "etcdserver: request is too large"
    problem = errors.TooLarge(said, request=REQUEST, status=413)
    await rejection_events.report_failed(
        registry.KINDS_BY_NAME["Pod"], entry, problem, world.session, twin=twin
    )
    message = world.above.bodies[-1]["message"]
    size = len(entry.body) if twin is None else 1_600_017
    assert f"has {size} bytes" in message
    assert "1572864" in message
    assert names.SUPER_ROOT_CA not in message


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
@pytest.mark.parametrize("annotations", FILLED)
def test_an_outline_leaves_out_what_the_whole_object_leaves_out(kind, annotations):
    """The caches keep outlines of large objects. They would differ from the twin forever."""
    row = registry.KINDS_BY_NAME[kind]
    whole = tenant_object(kind, annotations)
    outline = cache_transforms.build_outline(whole)
    view = dataclasses.replace(network_view(namespaces={NAMESPACE: {}}), tenant=TENANT)
    assert row.build is not None
    assert row.change is not None
    twin = row.build(whole, view)
    live = {**twin, "metadata": {**twin["metadata"], "uid": "twin", "resourceVersion": "1"}}
    assert row.change(live, row.build(outline, view)) is None
    assert row.change(cache_transforms.build_outline(live), row.build(whole, view)) is None
    assert "annotationSizes" not in row.build(outline, view)["metadata"]


@pytest.mark.parametrize("forged", [7, {"a": "x"}, {"b": 10**9}, None])
def test_forged_sizes_change_nothing(forged):
    metadata: Object = {"name": "x", "namespace": "web", "uid": UID, "annotations": {"a": "v"}}
    made = object_meta.build_super_metadata(
        "ConfigMap", TENANT, {**metadata, "annotationSizes": forged}, super_namespace="s"
    )
    assert made == object_meta.build_super_metadata(
        "ConfigMap", TENANT, metadata, super_namespace="s"
    )


FOREIGN, LATE = 16 * 1024, 1024
"""Bytes that are kept free for annotations that others add, and that we add later."""
SHORT_TENANT = Tenant(name="vc", namespace="default", uid="vc-uid", root="default-abc123-vc")


def build_annotations(annotations, sizes=None, referenced=()):
    metadata = {"name": "p", "namespace": "web", "uid": "u", "annotations": annotations}
    if sizes:
        metadata[object_meta.ANNOTATION_SIZES_FIELD] = sizes
    twin = object_meta.build_super_metadata(
        "Pod", SHORT_TENANT, metadata, super_namespace="r-web", referenced=referenced
    )
    return twin["annotations"]


ADDED = object_meta.count_annotation_bytes(
    {key: value for key, value in build_annotations({}).items() if key != wellknown.SYNCED_KEYS}
)
ROOM = object_meta.MAX_ANNOTATIONS_BYTES - FOREIGN - ADDED


def fill_bytes(key, size):
    """Return one annotation that takes `size` bytes with its key."""
    return {key: "x" * (size - len(key))}


@pytest.mark.parametrize(
    ("key", "is_plain"), [("a", True), ("a/b", False), ("a.b", False), ("a.b/c", False)]
)
def test_a_plain_key_has_neither_a_prefix_nor_a_dot(key, is_plain):
    assert object_meta.is_plain_key(key) is is_plain


def test_the_record_of_the_keys_is_the_first_that_is_left_out():
    record = object_meta.count_annotation_bytes(
        {wellknown.SYNCED_KEYS: object_meta.encode_keys([], ["k"])}
    )
    assert wellknown.SYNCED_KEYS in build_annotations(fill_bytes("k", ROOM - record))
    over = build_annotations(fill_bytes("k", ROOM - record + 1))
    assert "k" in over
    assert wellknown.SYNCED_KEYS not in over


def test_an_annotation_is_left_out_from_the_first_byte_too_many():
    assert "k" in build_annotations(fill_bytes("k", ROOM))
    assert "k" not in build_annotations(fill_bytes("k", ROOM + 1))


def test_the_largest_annotations_are_left_out_first_and_then_by_name():
    half = ROOM // 2
    small_first = build_annotations({**fill_bytes("a", 10), **fill_bytes("b", ROOM)})
    assert ("a" in small_first, "b" in small_first) == (True, False)
    equal = build_annotations({**fill_bytes("b", half + 1), **fill_bytes("a", half + 1)})
    assert ("a" in equal, "b" in equal) == (False, True)


def test_a_referenced_annotation_stays_until_nothing_fits():
    most = object_meta.MAX_ANNOTATIONS_BYTES - LATE - ADDED
    assert "k" in build_annotations(fill_bytes("k", most), referenced=["k"])
    with pytest.raises(RejectedError, match=f"come to {most + 1 + ADDED} bytes"):
        build_annotations(fill_bytes("k", most + 1), referenced=["k"])


def test_a_recorded_size_stands_beside_the_measured_ones():
    annotations = {"a": "short", **fill_bytes("b", ROOM)}
    found = build_annotations(annotations, sizes={"a": 20})
    assert ("a" in found, "b" in found) == (True, False)
    assert "a" not in build_annotations({"a": "short", "b": "x"}, sizes={"a": ROOM + 1})


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
    (notice,) = object_meta.find_left_out(
        "Pod", metadata, {"annotations": {"kept": "1"}}, BASELINE_POLICY.metadata
    )
    assert (notice.rule, notice.path) == ("too-large", "metadata.annotations")
    assert words in notice.text
    whole = {"annotations": metadata["annotations"]}
    assert object_meta.find_left_out("Pod", metadata, whole, BASELINE_POLICY.metadata) == []
