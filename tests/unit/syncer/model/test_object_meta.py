"""Keys that are synced, marks of twins, and no super name in the tenant."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncer.model import builtin_policy, object_meta
from syncer.model.rejections import RejectedError
from tenancy import ownership, wellknown
from tenancy.ownership import Tenant
from tenancy.policies import MetadataSpec

TENANT = Tenant(name="vc", namespace="default", uid="vc-uid", root="default-abc123-vc")
KEYS = st.text("abcABC019./-_", max_size=40)
VALUES = st.text(max_size=20)
TABLES = st.dictionaries(KEYS, VALUES, max_size=8)


@pytest.mark.parametrize(
    "key",
    [
        "app",
        "pod-template-hash",
        "app.kubernetes.io/name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-name",
        "statefulset.kubernetes.io/pod-name",
        "batch.kubernetes.io/job-completion-index",
        "helm.sh/chart",
        "k8s-app",
        "controller-revision-hash",
    ],
)
def test_labels_that_pass(key):
    assert object_meta.is_label_synced(key)


def test_what_is_opaque_stays_above_whatever_else_lets_it_pass():
    passing = MetadataSpec(
        label_domains=("mesh.example",),
        annotations={"*": ("own.example/a",)},
        opaque_prefixes=("internal", "mesh.example/", "own.example/"),
    )
    for key in ("internal", "internal-cost", "internal.example.com/x", "mesh.example/x"):
        assert not object_meta.is_label_synced(key, passing)
        assert not object_meta.is_annotation_synced("Pod", key, passing)
    assert not object_meta.is_annotation_synced("Pod", "own.example/a", passing)
    assert object_meta.is_label_synced("app", passing)
    assert object_meta.is_annotation_synced("Pod", "note", passing)


@pytest.mark.parametrize(
    ("kind", "passes"), [("ConfigMap", False), ("Secret", False), ("Pod", True)]
)
def test_configuration_goes_down_without_labels_by_which_collectors_find_it(kind, passes):
    found = {"name": "x", "namespace": "web", "uid": "u", "labels": {"grafana_dashboard": "1"}}
    made = object_meta.build_super_metadata(kind, TENANT, found, super_namespace="below")
    assert ("grafana_dashboard" in made["labels"]) is passes
    before = object_meta.build_super_metadata("Pod", TENANT, found, super_namespace="below")
    before["annotations"][wellknown.SYNCED_KEYS] = '[["grafana_dashboard"],[]]'
    patch = object_meta.build_metadata_patch(kind, before, made)
    assert patch.get("labels", {}) == ({} if passes else {"grafana_dashboard": None})


@pytest.mark.parametrize("kind", ["Service", "Ingress"])
def test_what_is_opaque_holds_nothing_back(kind):
    passing = MetadataSpec(opaque_prefixes=("team", "own.example/"))
    opaque = {"team-owner": "a", "own.example/cost": "b"}
    assert object_meta.find_blocking_annotation(kind, opaque, passing) is None
    assert object_meta.filter_annotations(kind, {"annotations": opaque}, passing) == {}
    other = {**opaque, "cloud.example/internal": "true"}
    held = object_meta.find_blocking_annotation(kind, other, passing)
    assert held is not None
    assert "cloud.example/internal" in held.path


@pytest.mark.parametrize(
    "key",
    [
        "kubernetes.io/hostname",
        "k8s.io/x",
        "node.kubernetes.io/x",
        "pod-security.kubernetes.io/enforce",
        "App.Kubernetes.IO.k8s.io/x",
        "KUBERNETES.IO/x",
        "sidecar.istio.io/inject",
        "istio.io/rev",
        "azure.workload.identity/use",
        "aadpodidbinding",
        "tenancy.x-k8s.io/vcuid",
        "sub.tenancy.x-k8s.io/x",
        "Tenancy.X-K8s.io/vcuid",
        "example.com/team",
        "myk8s.io/x",
        "notkubernetes.io/x",
        "kubernetes.io.example.com/x",
        "sub.helm.sh/x",
        "helm.sh.example.com/x",
        "kueue.x-k8s.io/queue-name",
        "webhooks.kyverno.io/exclude",
        "admission.example.com/ignore",
        "argocd.argoproj.io/instance",
        "topology.kubernetes.io/zone",
        "io.kubernetes.pod.namespace",
        "io.cilium.k8s.policy.name",
        "control-plane",
    ],
)
def test_labels_that_stay_in_the_tenant(key):
    """SEC-52: webhooks, queues, meshes and network plugins act on such labels."""
    assert not object_meta.is_label_synced(key)


@pytest.mark.parametrize(
    ("kind", "key", "passes"),
    [
        ("Pod", "note", True),
        ("Pod", "io.katacontainers.config.hypervisor.kernel_params", False),
        ("Pod", "io.kubernetes.cri-o.Devices", False),
        ("Pod", "run.oci.handler", False),
        ("Pod", "cpu-quota.crio.io", False),
        ("Pod", "dev.gvisor.spec.mount.v.share", False),
        ("Ingress", "some.dotted.key", False),
        ("Pod", "kubectl.kubernetes.io/default-container", True),
        ("Pod", "kubectl.kubernetes.io/restartedAt", True),
        ("Pod", builtin_policy.LAST_APPLIED, False),
        ("Pod", "k8s.v1.cni.cncf.io/networks", False),
        ("Pod", "cluster-autoscaler.kubernetes.io/safe-to-evict", False),
        ("Pod", "container.apparmor.security.beta.kubernetes.io/main", False),
        ("ConfigMap", "kubectl.kubernetes.io/restartedAt", False),
        ("Service", "service.kubernetes.io/topology-mode", True),
        ("Service", "tenancy.x-k8s.io/uid", False),
    ],
)
def test_annotations_pass_by_exact_key_and_kind(kind, key, passes):
    """SEC-52: container runtimes act on dotted keys without a prefix."""
    assert object_meta.is_annotation_synced(kind, key) is passes


@pytest.mark.parametrize(
    "key", ["cloud.example/internal", "service.beta.kubernetes.io/aws-load-balancer-internal"]
)
def test_an_unknown_annotation_holds_a_service(key):
    metadata = {"name": "s", "namespace": "n", "uid": "u", "annotations": {key: "true"}}
    with pytest.raises(RejectedError) as raised:
        object_meta.build_super_metadata("Service", TENANT, metadata, super_namespace="below")
    assert key in str(raised.value)


@pytest.mark.parametrize(
    "key",
    ["plain", builtin_policy.LAST_APPLIED, "meta.helm.sh/release-name", "prometheus.io/scrape"],
)
def test_a_harmless_annotation_holds_nothing(key):
    assert object_meta.find_blocking_annotation("Service", {key: "x"}) is None


@given(labels=TABLES, annotations=TABLES, extra=st.dictionaries(KEYS, st.text(), max_size=3))
def test_the_stamp_cannot_be_forged(labels, annotations, extra):
    forged = {wellknown.VC_UID: "theirs", wellknown.UID: "theirs", wellknown.CONTROLLED: "false"}
    metadata = {
        "name": "x",
        "namespace": "web",
        "uid": "uid-1",
        "labels": {**labels, **forged},
        "annotations": {**annotations, **forged},
        "finalizers": ["theirs/hold"],
        "ownerReferences": [{"uid": "other", "controller": False, **extra}],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    }
    found = object_meta.build_super_metadata("Pod", TENANT, metadata, super_namespace="below")
    assert set(found) == {"name", "namespace", "labels", "annotations"}
    assert found["namespace"] == "below"
    assert found["labels"][wellknown.VC_UID] == TENANT.uid
    assert found["labels"][wellknown.CONTROLLED] == "true"
    assert found["annotations"][wellknown.UID] == "uid-1"
    assert found["annotations"][wellknown.VC_UID] == TENANT.uid
    ours = {k for k in found["labels"] if wellknown.is_reserved_key(k)}
    assert all(object_meta.is_label_synced(k) for k in set(found["labels"]) - ours)


def test_the_controller_is_recorded_in_few_bytes():
    owner = {"kind": "ReplicaSet", "uid": "u", "name": "n" * 5000, "controller": True}
    metadata = {"ownerReferences": [{"kind": "Other", "uid": "o"}, owner]}
    assert json.loads(object_meta.encode_owner(metadata)) == {"kind": "ReplicaSet", "uid": "u"}
    assert object_meta.encode_owner({"ownerReferences": [owner | {"kind": "K" * 600}]}) == ""
    assert object_meta.encode_owner({}) == ""


def test_a_metadata_patch_restores_ours_and_leaves_theirs():
    desired = {
        "labels": {"app": "web", wellknown.VC_UID: "vc-uid"},
        "annotations": {"note": "x", wellknown.STORE_REVISION: "9"},
    }
    live = {
        "labels": {"app": "old", "gone": "1", "topology.kubernetes.io/zone": "a"},
        "annotations": {"note": "x", "operator.example/seen": "1", wellknown.STORE_REVISION: "5"},
    }
    assert object_meta.build_metadata_patch("Pod", live, desired) == {
        "labels": {"app": "web", "gone": None, wellknown.VC_UID: "vc-uid"}
    }
    assert object_meta.build_metadata_patch("Pod", desired, desired) == {}


NAMES = st.sampled_from("abcd")
JSON = st.recursive(
    st.sampled_from([None, True, False, 0, 1, "", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(NAMES, JSON, max_size=3)


def merged(old, patch):
    """Merge as RFC 7386 says."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def without_nulls(value):
    """Return a value as an API server keeps it: nothing is null."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value if item is not None]
    return value


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_makes_the_old_the_new(old, new):
    old, new = without_nulls(old), without_nulls(new)
    patch = object_meta.build_merge_patch(old, new)
    assert merged(old, patch) == new
    assert (patch == {}) == (old == new)


def test_super_names_are_scrubbed_from_every_text():
    pairs = object_meta.build_name_pairs(TENANT, "default-abc123-vc-web", "web", ("below", "above"))
    told = {
        "message": "pod p_default-abc123-vc-web(below) in default-abc123-vc-o, default-abc123-vc",
        "list": ["default-abc123-vc-web/x", 3],
    }
    shown = object_meta.replace_names_in(told, pairs)
    assert shown == {"message": "pod p_web(above) in o, ", "list": ["web/x", 3]}


def test_the_key_of_a_mirror_is_the_same_for_ever():
    """Twins of before have it, and a pod's field references cannot be changed."""
    assert (
        object_meta.build_mirror_key("labels", "a.example/b")
        == "mirror.tenancy.x-k8s.io/3w5qdsjlu676ktza"
    )


@pytest.mark.parametrize(
    ("kind", "field", "key", "goes"),
    [
        ("Pod", "labels", "app.kubernetes.io/name", True),
        ("Pod", "labels", "topology.kubernetes.io/zone", False),
        ("Pod", "annotations", "kubectl.kubernetes.io/restartedAt", True),
        ("Service", "annotations", "kubectl.kubernetes.io/restartedAt", False),
        ("Pod", "annotations", "app.kubernetes.io/name", False),
        ("Pod", "annotations", "note", True),
    ],
)
def test_without_a_record_a_key_goes_that_could_have_come_from_the_tenant(kind, field, key, goes):
    patch = object_meta.build_metadata_patch(kind, {field: {key: "x"}}, {})
    assert patch == ({field: {key: None}} if goes else {})


@pytest.mark.parametrize(
    ("record", "field", "keys"),
    [
        (["a"], "labels", {"a"}),
        (["a"], "annotations", set()),
        (None, "labels", {"app.kubernetes.io/name"}),
        (None, "annotations", {"kubectl.kubernetes.io/restartedAt"}),
    ],
)
def test_keys_of_the_tenant_are_those_of_the_record(record, field, keys):
    annotations = {"kubectl.kubernetes.io/restartedAt": "x", "app.kubernetes.io/name": "x"}
    if record is not None:
        annotations[wellknown.SYNCED_KEYS] = json.dumps([record, []])
    metadata = {"labels": {"app.kubernetes.io/name": "x"}, "annotations": annotations}
    assert set(object_meta.list_tenant_keys("Pod", metadata, field)) == keys
    assert list(object_meta.list_tenant_keys("Pod", {}, field)) == []


def test_label_of_a_passing_domain_keeps_its_key():
    passing = MetadataSpec(label_domains=("own.example",))
    key = "own.example/team"
    assert object_meta.get_super_label_key(key, passing) == key
    assert object_meta.get_super_label_key(key, MetadataSpec()) != key


def test_a_twins_metadata_to_the_last_key():
    tenant_metadata = {
        "name": "x",
        "namespace": "web",
        "uid": "uid-1",
        "labels": {"app": "a", "own": "tenant", "kubernetes.io/hostname": "h"},
        "annotations": {"note": "n", "own": "tenant", "far.example/a": "b"},
        "ownerReferences": [{"kind": "ReplicaSet", "uid": "r", "controller": True}],
    }
    found = object_meta.build_super_metadata(
        "Pod",
        TENANT,
        tenant_metadata,
        super_namespace="below",
        super_name="other",
        extra_labels={"own": "extra", wellknown.VC_UID: "forged"},
        extra_annotations={"own": "extra", wellknown.UID: "forged"},
    )
    assert found == {
        "name": "other",
        "namespace": "below",
        "labels": {
            "app": "a",
            "own": "extra",
            "label.tenancy.x-k8s.io/hostname-solgvolo4hjql4bunsrkz45x4e": "h",
            **ownership.build_owner_labels(TENANT, "web"),
        },
        "annotations": {
            "note": "n",
            "own": "extra",
            wellknown.OWNER: '{"kind": "ReplicaSet", "uid": "r"}',
            wellknown.SYNCED_KEYS: '[["app","own"],["note","own"]]',
            wellknown.LABEL_KEYS: '["kubernetes.io/hostname"]',
            **ownership.build_owner_annotations(TENANT, "web", "uid-1"),
        },
    }


def test_a_twin_of_what_is_in_no_namespace_and_has_no_keys():
    found = object_meta.build_super_metadata(
        "PersistentVolume", TENANT, {"name": "v", "uid": "u"}, super_namespace=""
    )
    assert found == {
        "name": "v",
        "namespace": "",
        "labels": ownership.build_owner_labels(TENANT, ""),
        "annotations": {
            wellknown.SYNCED_KEYS: "[[],[]]",
            **ownership.build_owner_annotations(TENANT, "", "u"),
        },
    }


def test_listed_labels_of_configuration_go_down_in_whatever_case_their_domain_is():
    passing = MetadataSpec(label_domains=("mesh.example",))
    labels = {"Mesh.Example/x": "1", "app": "a", "other.example/x": "1"}
    metadata = {"name": "c", "namespace": "web", "uid": "u", "labels": labels}
    for kind in ("ConfigMap", "Secret"):
        found = object_meta.build_super_metadata(
            kind, TENANT, metadata, super_namespace="below", passing=passing
        )
        ours = ownership.build_owner_labels(TENANT, "web")
        assert found["labels"] == {"Mesh.Example/x": "1", **ours}


def test_what_holds_a_service_is_named_with_the_first_key():
    keys = ("z.example/a", "b.example/internal", "plain", "meta.helm.sh/release-name")
    metadata = {"name": "s", "namespace": "n", "uid": "u", "annotations": dict.fromkeys(keys, "")}
    with pytest.raises(RejectedError) as raised:
        object_meta.build_super_metadata("Service", TENANT, metadata, super_namespace="below")
    (problem,) = raised.value.problems
    assert (problem.rule, problem.path) == (
        "annotation",
        "metadata.annotations[b.example/internal]",
    )
    assert problem.text == (
        "must not be set here, because the object could change its meaning without it. Remove it,"
        " or ask your platform administrator to list it in spec.metadata.annotations.Service of the"
        " TenantPolicy"
    )
    found = object_meta.build_super_metadata(
        "Service", TENANT, metadata, super_namespace="below", is_exposed=False
    )
    assert "plain" in found["annotations"]
    assert not found["annotations"].keys() & {keys[0], keys[1], keys[3]}
    left_out = object_meta.find_left_out_annotations("Service", metadata["annotations"])
    assert left_out is not None
    assert (left_out.rule, left_out.path) == (
        "annotation",
        "metadata.annotations[b.example/internal, z.example/a]",
    )
    assert left_out.text == (
        "is left out in the super cluster. If it is needed there, ask your platform administrator"
        " to list it in spec.metadata.annotations.Service of the TenantPolicy"
    )
    blocked = object_meta.find_blocking_annotation("Ingress", metadata["annotations"])
    assert blocked is not None
    assert "spec.metadata.annotations.Ingress of the TenantPolicy" in blocked.text
    for kind in ("Pod", "ConfigMap"):
        assert object_meta.find_blocking_annotation(kind, dict.fromkeys(keys, "")) is None
    reserved = {f"{wellknown.DOMAIN}/x": "", "service.kubernetes.io/topology-mode": ""}
    assert object_meta.find_blocking_annotation("Service", reserved) is None
    assert object_meta.find_blocking_annotation("Ingress", reserved) is not None


def test_records_that_would_be_over_long_are_left_out():
    head = '{"kind": "", "uid": ""}'
    owner = {"controller": True, "kind": "K" * (512 - len(head))}
    assert len(object_meta.encode_owner({"ownerReferences": [owner]})) == 512
    owner["kind"] += "K"
    assert object_meta.encode_owner({"ownerReferences": [owner]}) == ""
    assert object_meta.encode_owner({"ownerReferences": [{"controller": True}]}) == head
    assert object_meta.encode_keys(["b", "a"], ["d", "c"]) == '[["a","b"],["c","d"]]'
    most = 32_768 - len('[[""],[]]')
    assert len(object_meta.encode_keys(["x" * most], [])) == 32_768
    assert object_meta.encode_keys(["x" * (most + 1)], []) == ""
    assert object_meta.encode_label_keys(["b", "a"]) == '["a","b"]'
    assert object_meta.encode_label_keys([]) == ""
    most = 32_768 - len('[""]')
    assert len(object_meta.encode_label_keys(["x" * most])) == 32_768
    assert object_meta.encode_label_keys(["x" * (most + 1)]) == ""


def test_the_recorded_revision_neither_makes_a_patch_nor_goes():
    keys = '[["gone","kept"],["gone"]]'
    live = {
        "labels": {wellknown.STORE_REVISION: "5", "kept": "1", "gone": "1", "theirs": "1"},
        "annotations": {
            wellknown.SYNCED_KEYS: keys,
            wellknown.STORE_REVISION: "5",
            "theirs": "1",
            "gone": "1",
            f"{wellknown.DOMAIN}/old": "1",
        },
    }
    desired = {
        "labels": {"kept": "2", "new": "1"},
        "annotations": {wellknown.SYNCED_KEYS: keys, wellknown.STORE_REVISION: "9"},
    }
    assert object_meta.build_metadata_patch("Pod", live, desired) == {
        "labels": {"kept": "2", "new": "1", "gone": None},
        "annotations": {"gone": None, f"{wellknown.DOMAIN}/old": None},
    }
    for nonsense in ("", "{}", "[1]", "[[1],2]", "[[],[],[]]"):
        broken = {**live, "annotations": {**live["annotations"], wellknown.SYNCED_KEYS: nonsense}}
        patch = object_meta.build_metadata_patch("Pod", broken, desired)
        assert patch["labels"]["theirs"] is None  # it may have been the tenant's


def test_a_merge_patch_goes_as_deep_as_what_differs():
    old = {"a": {"b": 1, "c": 2}, "d": [1], "e": 1, "same": {"x": 1}, "null": None}
    new = {"a": {"b": 1, "c": 3}, "d": [2], "f": {"g": 1}, "same": {"x": 1}, "null": None}
    assert object_meta.build_merge_patch(old, new) == {
        "a": {"c": 3},
        "d": [2],
        "e": None,
        "f": {"g": 1},
    }
    assert object_meta.build_merge_patch({"a": 1}, {"a": {"b": 1}}) == {"a": {"b": 1}}
    assert object_meta.build_merge_patch({}, {"a": None}) == {"a": None}


def test_each_form_of_a_super_name_is_replaced():
    assert object_meta.build_name_pairs(TENANT, "r-web", "web", ("a-b", "c-d")) == [
        ("r-web", "web"),
        ("default-abc123-vc-", ""),
        ("default-abc123-vc", ""),
        ("a-b", "c-d"),
        ("A-B", "C-D"),
        ("a_b", "c_d"),
        ("A_B", "C_D"),
        ("ab", "cd"),
        ("AB", "CD"),
    ]
    assert object_meta.replace_names("x", [("", "never")]) == "x"
    told = {"a": ["b", 1, None], "r-web": "r-web"}
    assert object_meta.replace_names_in(told, [("r-web", "web"), ("", "never")]) == {
        "a": ["b", 1, None],
        "r-web": "web",
    }
    assert object_meta.replace_names_in(told, [("absent", "x"), ("", "never")]) is told
