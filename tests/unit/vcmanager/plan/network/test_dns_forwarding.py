"""Which DNS servers and domains a tenant may name, and what any text becomes."""

from __future__ import annotations

import ipaddress
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenancy import addresses
from tenancy.specs import DnsConfig, StubDomain
from vcmanager.plan import coredns
from vcmanager.plan.network import dns_forwarding
from vcmanager.plan.network.dns_forwarding import AddressRules

RULES = AddressRules(
    allowed=addresses.parse_networks(["10.7.0.0/24", "10.96.0.53/32"]),
    forbidden=addresses.parse_networks(["10.96.0.0/16", "203.0.113.0/24", "10.244.0.0/16"]),
    own=addresses.parse_networks(["10.96.8.0/22"]),
    dns_address="10.96.8.10",
)


def decide(*forwarders: str, **stubs: str) -> dns_forwarding.DnsForwarding:
    config = DnsConfig(
        stub_domains=tuple(
            StubDomain(domain=domain.replace("_", "."), servers=tuple(servers.split()))
            for domain, servers in stubs.items()
        ),
        forwarders=forwarders,
    )
    return dns_forwarding.decide_forwarding(config, cluster_domain="cluster.local", rules=RULES)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("192.0.2.1", "192.0.2.1:53"),
        ("192.0.2.1:5353", "192.0.2.1:5353"),
        ("2001:4860::1", "[2001:4860::1]:53"),
        ("[2001:4860::1]", "[2001:4860::1]:53"),
        ("[2001:4860::1]:1053", "[2001:4860::1]:1053"),
        ("10.7.0.9", "10.7.0.9:53"),
        ("10.96.0.53", "10.96.0.53:53"),
        ("10.96.8.40", "10.96.8.40:53"),
    ],
)
def test_public_addresses_those_of_the_policy_and_of_the_tenant_pass(text, written):
    found = decide(text)
    assert [server.format() for server in found.forwarders] == [written]
    assert found.problems == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10.8.0.1", "private address"),
        ("192.168.1.1", "private address"),
        ("fd12::1", "private address"),
        ("10.96.0.10", "super cluster"),
        ("10.244.3.4", "super cluster"),
        ("203.0.113.9", "super cluster"),
        ("10.96.8.10", "itself"),
        ("169.254.169.254", "link-local"),
        ("168.63.129.16", "metadata"),
        ("100.100.100.200", "metadata"),
        ("::ffff:169.254.169.254", "link-local"),
        ("64:ff9b::a60:a", "private address"),
        ("127.0.0.1", "loopback"),
        ("::1", "loopback"),
        ("0.0.0.0", "single machine"),  # noqa: S104 - refused
        ("224.0.0.1", "single machine"),
        ("192.0.2.1:443", "network policies close"),
        ("dns.example.com", "not an IP address"),
        ("192.0.2.1:", "not an IP address"),
        ("fe80::1%eth0", "not an IP address"),
        ("tls://192.0.2.1", "not an IP address"),
        ("192.0.2.1 {", "not an IP address"),
        ("192.0.2.1\n}", "not an IP address"),
    ],
)
def test_all_other_addresses_are_left_out_with_their_field(text, why):
    found = decide("192.0.2.9", text)
    assert [server.format() for server in found.forwarders] == ["192.0.2.9:53"]
    (problem,) = found.problems
    assert problem.startswith("spec.dnsConfig.forwarders[1] ")
    assert why in problem


def test_no_policy_opens_metadata_addresses():
    wide = AddressRules(allowed=addresses.parse_networks(["0.0.0.0/0", "::/0"]))
    for text in ("169.254.169.254", "168.63.129.16", "127.0.0.1"):
        found = dns_forwarding.decide_forwarding(
            DnsConfig(forwarders=(text,)), cluster_domain="cluster.local", rules=wide
        )
        assert not found.forwarders


@pytest.mark.parametrize(
    ("domain", "why"),
    [
        ("cluster.local", "cluster domain"),
        ("local", "cluster domain"),
        ("svc.cluster.local", "cluster domain"),
        ("10.in-addr.arpa", "domain of addresses"),
        ("arpa", "domain of addresses"),
        ("Upper.example", "not a DNS name"),
        ("a" * 64 + ".example", "not a DNS name"),
        (".", "not a DNS name"),
        ("a {\n", "not a DNS name"),
    ],
)
def test_domains_that_would_hide_names_are_refused(domain, why):
    config = DnsConfig(stub_domains=(StubDomain(domain=domain, servers=("192.0.2.1",)),))
    found = dns_forwarding.decide_forwarding(config, cluster_domain="cluster.local", rules=RULES)
    assert found.stub_zones == ()
    assert "spec.dnsConfig.stubDomains[0].domain" in found.problems[0]
    assert why in found.problems[0]


def test_a_zone_keeps_the_servers_that_pass():
    found = decide(corp_example="192.0.2.1 10.8.0.1 192.0.2.1", other_example="10.8.0.1")
    assert [(zone.domain, len(zone.servers)) for zone in found.stub_zones] == [("corp.example", 1)]
    assert len(found.problems) == 2
    assert "spec.dnsConfig.stubDomains[0].servers[1]" in found.problems[0]


_LINES = re.compile(
    r"(\.|[a-z0-9.-]+):1053 \{|    [a-z]+( [^{}]*)?|    [a-z]+.* \{|        \S.*|    \}|\}|"
)
TEXTS = st.one_of(
    st.text(max_size=30),
    st.text("0123456789.:[]abcdef{}\n /", max_size=30),
    st.sampled_from(["192.0.2.1", "[2001:4860::1]:53", "corp.example"]),
)


@given(forwarders=st.lists(TEXTS, max_size=4), domains=st.lists(TEXTS, max_size=4))
def test_no_text_adds_a_directive_to_the_file(forwarders, domains):
    config = DnsConfig(
        stub_domains=tuple(StubDomain(domain=each, servers=("192.0.2.1",)) for each in domains),
        forwarders=tuple(forwarders),
    )
    found = dns_forwarding.decide_forwarding(config, cluster_domain="cluster.local", rules=RULES)
    text = coredns.build_corefile(root="a-b", domain="cluster.local", forwarding=found)
    blocks = [line for line in text.splitlines() if line.endswith(":1053 {")]
    assert len(blocks) == 1 + len(found.stub_zones)
    forwards = [line.split() for line in text.splitlines() if line.startswith("    forward")]
    assert len(forwards) == len(blocks)
    for words in forwards:
        assert words[:2] == ["forward", "."]
        for word in words[2:]:
            if word != "/etc/resolv.conf":
                host, _, port = word.rpartition(":")
                ipaddress.ip_address(host.strip("[]"))
                assert port in ("53", "1053", "5353")
    for line in text.splitlines():
        assert _LINES.fullmatch(line), line
