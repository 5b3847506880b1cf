"""Keys and fields of another tenant's snapshot: each row of the tables, and what is refused."""

from ipaddress import ip_network

import pytest

from vcmanager.snapshots import fork_rules, stored_objects
from vcmanager.snapshots.fork_rules import ForkRefusedError, RangeMap
from vcmanager.snapshots.stored_objects import WireField

RANGES = RangeMap(ip_network("10.96.8.0/22"), ip_network("10.96.16.0/22"))
Tree = dict[int, "bytes | Tree | list[bytes | Tree]"]


def message(tree: Tree) -> bytes:
    """Return a protobuf message. A dict is a message, a list a repeated field."""
    found = b""
    for number, content in tree.items():
        for each in content if isinstance(content, list) else [content]:
            data = message(each) if isinstance(each, dict) else each
            found += stored_objects.build_field(WireField(number, 2, data))
    return found


def stored(tree: Tree) -> bytes:
    """Return an object as the API server stores it."""
    return b"k8s\0" + message({1: {1: b"v1", 2: b"Kind"}, 2: tree, 4: b""})


@pytest.mark.parametrize(
    ("key", "is_dropped"),
    [
        *((f"/registry/{prefix}x", True) for prefix in fork_rules.DROPPED_PREFIXES),
        ("/registry/configmaps/web/kube-root-ca.crt", True),
        ("compact_rev_key", True),
        ("/registry/configmaps/web/settings", False),
        ("/registry/secrets/web/plain", False),
        ("/registry/services/endpoints/web/manual", False),
        ("/registry/services/specs/default/kubernetes", False),
        ("/registry/namespaces/pods", False),
        ("/registry/example.com/things/a", False),
    ],
)
def test_keys_of_the_old_tenant_are_left_out(key: str, is_dropped: bool):
    assert fork_rules.is_dropped(key) is is_dropped


@pytest.mark.parametrize(
    ("key", "before", "after"),
    [
        (
            "services/specs/web/a",
            {1: {1: b"a"}, 2: {3: b"10.96.8.7", 18: [b"10.96.8.7"], 4: b"ClusterIP"}, 3: b"old"},
            {1: {1: b"a"}, 2: {3: b"10.96.16.7", 18: [b"10.96.16.7"], 4: b"ClusterIP"}},
        ),
        (
            "services/specs/web/headless",
            {2: {3: b"None", 18: [b"None"]}},
            {2: {3: b"None", 18: [b"None"]}},
        ),
        (
            "persistentvolumeclaims/web/data",
            {
                1: {
                    1: b"data",
                    12: [
                        {1: b"pv.kubernetes.io/bind-completed", 2: b"yes"},
                        {1: b"tenancy.x-k8s.io/volume", 2: b"v"},
                        {1: b"own", 2: b"stays"},
                    ],
                },
                2: {1: b"ReadWriteOnce", 3: b"pv-1", 5: b"fast", 7: b"source", 8: b"source"},
                3: {1: b"Bound"},
            },
            {
                1: {1: b"data", 12: [{1: b"own", 2: b"stays"}]},
                2: {1: b"ReadWriteOnce", 5: b"fast"},
            },
        ),
        (
            "secrets/web/token",
            {2: [{1: b"token", 2: b"t"}], 3: b"kubernetes.io/service-account-token"},
            {3: b"kubernetes.io/service-account-token"},
        ),
        ("secrets/web/plain", {2: [{1: b"a", 2: b"b"}], 3: b"Opaque"}, None),
        ("resourceclaims/web/gpu", {2: b"spec", 3: b"allocation"}, {2: b"spec"}),
        ("configmaps/web/a", {2: [{1: b"a", 2: b"b"}]}, None),
    ],
)
def test_fields_of_the_old_tenant_are_changed(key: str, before: Tree, after: Tree | None):
    value = stored(before)
    expected = value if after is None else stored(after)
    assert fork_rules.convert_value(f"/registry/{key}", value, RANGES) == expected


def test_a_bootstrap_token_is_left_out():
    value = stored({3: b"bootstrap.kubernetes.io/token"})
    assert fork_rules.convert_value("/registry/secrets/kube-system/b", value, RANGES) is None


def test_other_encodings_stay_unless_they_have_to_change():
    value = b'{"kind":"Thing"}'
    key = "/registry/example.com/things/a"
    assert fork_rules.convert_value(key, value, RANGES) == value


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("secrets/web/a", b"k8s:enc:secretbox:v1:k:...", "EncryptedData"),
        ("configmaps/web/a", b"k8s:enc:aesgcm:v1:k:...", "EncryptedData"),
        ("services/specs/web/a", b"{}", "UnreadableObject"),
        ("services/specs/web/a", b"k8s\0\x12\xff", "UnreadableObject"),
        ("services/specs/web/a", stored({2: {3: b"10.96.99.1"}}), "ServiceRangeTooSmall"),
        ("services/specs/web/a", stored({2: {3: b"no"}}), "UnreadableObject"),
    ],
)
def test_what_cannot_be_changed_with_certainty_refuses_the_fork(key, value, reason):
    with pytest.raises(ForkRefusedError) as refused:
        fork_rules.convert_value(f"/registry/{key}", value, RANGES)
    assert refused.value.reason == reason


def test_the_old_range_is_that_of_its_objects():
    value = stored({2: {1: [b"10.96.8.0/22"]}})
    assert fork_rules.read_range([value]) == ip_network("10.96.8.0/22")
    assert fork_rules.read_range([]) is None
    service = stored({2: {3: b"10.96.8.1"}})
    assert fork_rules.infer_range(service, 22) == ip_network("10.96.8.0/22")
    with pytest.raises(ForkRefusedError):
        fork_rules.infer_range(stored({2: {4: b"x"}}), 22)
