"""Names: the golden vectors of the wire contract, and that no tenant can aim at another's name."""

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tenancy import names

UID = "d64ea0c0-91f8-46f5-8643-c0cab32ab0cd"
ROOT = "default-fd1b34-vc-sample-1"
DNS_LABEL = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
LONG_LABEL = st.from_regex(r"[a-z0-9][-a-z0-9]{40,61}[a-z0-9]", fullmatch=True)
UIDS = st.uuids().map(str)


@pytest.mark.parametrize(
    ("namespace", "name", "key"),
    [("ns", "name", "ns-fd1b34-name"), ("default", "vc-sample-1", ROOT)],
)
def test_key_follows_the_contract(namespace: str, name: str, key: str):
    assert names.build_root_namespace(namespace, name, UID) == key


@pytest.mark.parametrize(
    ("tenant_namespace", "expected"),
    [
        ("kube-system", f"{ROOT}-kube-system"),
        ("x" * 36, f"{ROOT}-" + "x" * 36),
        ("x" * 37, "default-fd1b34-vc-sample-1-xxxxxxxxxxxxxxxxxxx-fg65qcfn5dubggcc"),
        ("x" * 18 + "-" + "y" * 30, f"{ROOT}-{'x' * 18}-a3sthcsihxukfrv6"),
    ],
)
def test_super_namespace_follows_the_contract(tenant_namespace: str, expected: str):
    assert names.build_super_namespace(ROOT, UID, tenant_namespace) == expected


@pytest.mark.parametrize("name", ["", "Upper", "a.b", "-a", "a-", "a_b", "a" * 64])
def test_a_name_that_is_no_dns_label_is_refused_by_name(name: str):
    with pytest.raises(names.InvalidNameError, match="DNS label"):
        names.build_root_namespace("default", name, UID)


def test_what_a_name_may_be_is_reported_whole():
    with pytest.raises(names.InvalidNameError) as refused:
        names.build_root_namespace("default", "a_b", UID)
    assert str(refused.value) == (
        "the name 'a_b' of the VirtualCluster is not a DNS label. Use at most 63 lower-case"
        " letters, digits and hyphens, beginning and ending with a letter or digit"
    )


def test_the_longest_name_passes_and_fills_a_label():
    longest = names.build_root_namespace("a" * 20, "b" * 35, UID)
    assert len(longest) == names.MAX_LABEL


def test_an_over_long_name_reports_by_how_much():
    with pytest.raises(names.InvalidNameError, match="Shorten the name by 3"):
        names.build_root_namespace("a" * 20, "b" * 38, UID)


@given(namespace=DNS_LABEL, name=DNS_LABEL, uid=UIDS)
def test_a_key_is_a_namespace_name(namespace: str, name: str, uid: str):
    assume(len(namespace) + len(name) <= names.MAX_NAMESPACE_AND_NAME)
    assert names.is_dns_label(names.build_root_namespace(namespace, name, uid))


@given(namespace=DNS_LABEL, uid=UIDS)
def test_a_super_namespace_is_a_namespace_name(namespace: str, uid: str):
    assert names.is_dns_label(names.build_super_namespace(ROOT, uid, namespace))


@given(one=st.tuples(UIDS, LONG_LABEL), other=st.tuples(UIDS, LONG_LABEL))
@example(one=(UID, "x" * 42), other=("e" + UID[1:], "x" * 42))
def test_long_names_of_different_pairs_differ(one: tuple[str, str], other: tuple[str, str]):
    assume(one != other)
    assert names.build_super_namespace(ROOT, *one) != names.build_super_namespace(ROOT, *other)


@given(uid=UIDS, namespace=LONG_LABEL)
def test_the_digest_is_length_prefixed(uid: str, namespace: str):
    shifted = names.build_super_namespace(ROOT, uid + namespace[0], namespace[1:])
    assert names.build_super_namespace(ROOT, uid, namespace) != shifted


def test_a_token_secret_depends_on_every_part():
    base = ("uid", "audience", 7200, "pod")
    others = [
        ("uid2", "audience", 7200, "pod"),
        ("uid", "audience2", 7200, "pod"),
        ("uid", "audience", 3600, "pod"),
        ("uid", "audience", 7200, ""),
    ]
    assert len({names.build_token_secret_name(*parts) for parts in [base, *others]}) == 5
    assert names.build_token_secret_name(*base).startswith("vc-token-")
    assert len(names.build_token_secret_name(*base)) == len("vc-token-") + 16


def test_a_volumes_twin_is_named_by_its_tenant_and_its_name():
    """Twins of before have these names, and a bound volume cannot be renamed."""
    assert names.build_volume_name(UID, "data") == "vc-volume-uxkhsdzzt7xb2mb5"
    assert names.build_volume_name(UID, "data") != names.build_volume_name(UID[:-1], "data")
    assert names.build_volume_name(UID, "data") != names.build_volume_name(UID, "date")


def test_a_token_secret_of_before_is_found_again():
    assert names.build_token_secret_name("a-uid", "", 7200) == "vc-token-imkny4w5ipdstfag"
    assert names.build_token_secret_name("a", "v", 600, "p") == "vc-token-4t6vfiggfac647ov"


@pytest.mark.parametrize("text", ["", UID[:-1], f"{UID}0", UID.replace("-", "")])
def test_uid_has_the_form_that_api_servers_write(text: str):
    assert names.is_uid(UID)
    assert not names.is_uid(text)
