import re

import pytest

from tenancy.specs import InvalidSpecError
from vcmanager.plan import coredns
from vcmanager.plan.network import dns_forwarding
from vcmanager.plan.network.dns_forwarding import DnsForwarding, StubZone


@pytest.mark.parametrize("domain", ["cluster.local", "a", "corp.example", "x-1.y"])
def test_domains_pass(domain):
    assert coredns.check_domain(domain) == domain


@pytest.mark.parametrize(
    "domain",
    ["", ".", "a.", ".a", "A.b", "a b", "a\nb", "a\n", "{x}", "a;b", "-a", "a-", "a..b", "a" * 191],
)
def test_what_is_no_domain_is_refused_before_it_reaches_a_file_without_quotes(domain):
    with pytest.raises(InvalidSpecError, match=r"spec\.clusterDomain"):
        coredns.check_domain(domain)
    with pytest.raises(InvalidSpecError):
        coredns.build_corefile(root="default-fd1b34-vc-1", domain=domain)


def test_a_root_that_is_no_label_is_refused():
    with pytest.raises(ValueError, match="is not a root namespace"):
        coredns.build_corefile(root="a}\nb", domain="cluster.local")


def test_the_super_form_of_a_name_is_rewritten_to_the_tenants():
    text = coredns.build_corefile(root="default-fd1b34-vc-1", domain="corp.example")
    line = re.search(r"name regex (\S+) (\S+)", text)
    pattern, target = line.groups()
    found = re.fullmatch(pattern, "web-0.web.default-fd1b34-vc-1-shop.svc.cluster.local.")
    assert found.groups() == ("web-0.web", "shop")
    assert target == "{1}.{2}.svc.corp.example"
    assert re.fullmatch(pattern, "web-0.web.default-000000-vc-2-shop.svc.cluster.local.") is None


def test_it_reads_the_tenant_and_listens_where_no_capability_is_needed():
    text = coredns.build_corefile(root="default-fd1b34-vc-1", domain="corp.example")
    assert ".:1053 {" in text
    assert "kubernetes corp.example in-addr.arpa ip6.arpa {" in text
    assert text.count("{\n") == text.count("}\n")


def server(text):
    found = dns_forwarding.parse_server(text)
    assert found is not None
    return found


def test_stub_zones_have_blocks_of_their_own_and_forwarders_replace_the_nodes_resolver():
    forwarding = DnsForwarding(
        (StubZone("corp.example.com", (server("192.0.2.53"), server("[2001:db8::1]:5353"))),),
        (server("198.51.100.1"),),
    )
    text = coredns.build_corefile(root="a-b", domain="cluster.local", forwarding=forwarding)
    assert (
        "corp.example.com:1053 {\n    errors\n    forward . 192.0.2.53:53 [2001:db8::1]:5353"
        in text
    )
    assert "    forward . 198.51.100.1:53\n" in text
    assert "/etc/resolv.conf" not in text
    assert text.count(" {\n") == text.count("}\n")
    assert text.count("kubernetes cluster.local") == 1


def test_without_a_config_the_file_is_as_before():
    plain = coredns.build_corefile(root="a-b", domain="cluster.local")
    assert "forward . /etc/resolv.conf" in plain
    assert plain.count(":1053 {") == 1


@pytest.mark.parametrize("domain", ["a {\n", "a}\nerrors", "", "a b", "a\n"])
def test_a_zone_that_was_not_checked_never_reaches_the_file(domain):
    forwarding = DnsForwarding((StubZone(domain, (server("192.0.2.1"),)),))
    with pytest.raises(InvalidSpecError):
        coredns.build_corefile(root="a-b", domain="cluster.local", forwarding=forwarding)
