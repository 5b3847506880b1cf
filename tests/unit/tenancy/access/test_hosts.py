"""Each host name has one owner, and no text but names and addresses reaches the proxy."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenancy.access import hosts
from tenancy.access.hosts import HostClaim

BASE = "clusters.example.com"


def claim(name="a", hostname="", *, created="2026-01-01T00:00:00Z", uid="", namespace="team"):
    return HostClaim(
        namespace=namespace, name=name, uid=uid or f"uid-{name}", created=created, hostname=hostname
    )


def test_the_host_name_is_the_one_of_the_spec_or_generated():
    assert hosts.build_host(claim(), BASE) == "a.team.clusters.example.com"
    assert hosts.build_host(claim(hostname="shop.example.com"), BASE) == "shop.example.com"
    assert hosts.build_host(claim(), "") == ""


def test_the_older_tenant_keeps_a_name():
    older = claim("z", "shop.example.com")
    newer = claim("a", "shop.example.com", created="2026-01-01T00:00:01Z")
    assert hosts.find_problem(newer, [older], BASE) == hosts.HOSTNAME_TAKEN
    assert hosts.find_problem(older, [newer], BASE) is None
    assert hosts.find_problem(newer, [], BASE) is None
    assert hosts.find_owner([newer, older], BASE) == older


@pytest.mark.parametrize(
    "hostname", [BASE, f"b.team.{BASE}", f"a.team.x.{BASE}", f"x.{BASE}", f"a.other.{BASE}"]
)
def test_a_name_under_the_base_domain_is_never_another_tenants(hostname):
    """The thief is older than its victim, which may not exist yet."""
    thief = claim(hostname=hostname)
    assert hosts.find_problem(thief, [], BASE) == hosts.HOSTNAME_RESERVED
    assert hosts.find_owner([thief], BASE) is None


def test_the_own_generated_name_may_be_spelled_out():
    assert hosts.find_problem(claim(hostname=f"a.team.{BASE}"), [], BASE) is None
    assert hosts.find_problem(claim(hostname=f"x{BASE}"), [], BASE) is None


@pytest.mark.parametrize(
    "text",
    ["", "a b", "a;b", "*.example.com", "A.example.com", "a..b", "-a", "10.0.0.1", "1.0x7f", "a."]
    + ["a\nb", "a/b", "ä.example.com", "a_b", "x" * 64, "a." * 126 + "ab"],
)
def test_other_texts_are_no_host_names(text):
    assert not hosts.is_host(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10.96.0.7:6443", ("10.96.0.7", 6443)),
        ("[fd00::7]:6443", ("fd00::7", 6443)),
        ("127.0.0.1:6443", None),
        ("[::1]:6443", None),
        ("[::ffff:127.0.0.1]:6443", None),
        ("169.254.169.254:80", None),
        ("0.0.0.0:6443", None),
        ("224.0.0.1:6443", None),
        ("10.96.0.7", None),
        ("10.96.0.7:0", None),
        ("10.96.0.7:65536", None),
        ("10.96.0.7:6443 x", None),
        ("etcd-client:2379", None),
        ("", None),
    ],
)
def test_only_an_address_and_a_port_are_parsed(text, found):
    assert hosts.parse_address(text) == found


def test_a_service_without_an_address_has_no_text():
    assert hosts.build_address("None", 6443) == ""
    assert hosts.build_address("10.96.0.7", 6443) == "10.96.0.7:6443"
    assert hosts.build_address("fd00::7", 6443) == "[fd00::7]:6443"


def test_a_claim_is_read_from_json_and_from_a_decoded_object():
    body = {
        "metadata": {"namespace": "n", "name": "a", "uid": "u", "creationTimestamp": "t"},
        "spec": {"endpoint": {"hostname": "h.example.com", "port": 1}, "clusterVersionName": "v"},
        "status": {"apiServerAddress": "10.0.0.1:6443"},
    }
    raw = b'{"metadata": {"namespace": "n", "name": "a", "uid": "u"}, "spec": {}}'
    assert hosts.parse_claim(body).address == "10.0.0.1:6443"
    assert hosts.parse_claim(body).hostname == "h.example.com"
    assert hosts.parse_claim(raw).hostname == ""


def test_a_base_domain_must_be_a_name():
    assert hosts.parse_base_domain("") == ""
    with pytest.raises(hosts.InvalidBaseDomainError, match="lower-case DNS name"):
        hosts.parse_base_domain("Example.com")


NAMES = st.sampled_from(["a", "b", "c"])
HOSTNAMES = st.sampled_from(["", "x.example.com", BASE, f"a.n.{BASE}", f"b.n.{BASE}", "Bad", "1.2"])


@given(
    st.lists(
        st.tuples(NAMES, HOSTNAMES, st.integers(0, 2)), max_size=6, unique_by=lambda each: each[0]
    ),
    st.sampled_from(["", BASE]),
)
def test_vc_manager_and_the_proxy_agree_on_one_owner(rows, base):
    """In each order of the claims, at most one tenant has no problem, and it is the owner."""
    claims = [claim(name, host, created=str(age), namespace="n") for name, host, age in rows]
    for wanted in {hosts.build_host(each, base) for each in claims}:
        same = [each for each in claims if hosts.build_host(each, base) == wanted]
        for order in itertools.islice(itertools.permutations(same), 6):
            owner = hosts.find_owner(order, base)
            accepted = [each for each in order if hosts.find_problem(each, order, base) is None]
            assert accepted == ([owner] if owner is not None else [])
