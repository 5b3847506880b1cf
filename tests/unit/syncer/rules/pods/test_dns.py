"""Resolvers and host names of a super pod."""

from __future__ import annotations

import pytest

from syncer.model.rejections import RejectedError
from syncer.rules.pods import dns
from syncer.rules.pods.dns import DnsResolver

RESOLVER = DnsResolver(server="10.96.8.10", domain="cluster.local", allows_node_dns=False)


@pytest.mark.parametrize("policy", ["ClusterFirst", "ClusterFirstWithHostNet", None])
def test_names_are_resolved_by_the_tenants_server(policy):
    own = {"searches": ["corp", "cluster.local"], "options": [{"name": "ndots", "value": "2"}]}
    found = dns.build_dns_config({"dnsPolicy": policy, "dnsConfig": own}, "web", RESOLVER)
    assert found == {
        "dnsPolicy": "None",
        "dnsConfig": {
            "nameservers": ["10.96.8.10"],
            "searches": ["web.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp"],
            "options": [{"name": "ndots", "value": "2"}],
        },
    }


def test_a_resolver_of_the_pods_own_stays():
    own = {"nameservers": ["192.0.2.53"], "options": [{"name": "edns0"}]}
    found = dns.build_dns_config({"dnsPolicy": "None", "dnsConfig": own}, "web", RESOLVER)
    assert found == {"dnsPolicy": "None", "dnsConfig": own}


def test_the_nodes_resolver_is_only_for_tenants_with_dns_of_their_own():
    found = dns.build_dns_config({"dnsPolicy": "Default"}, "web", RESOLVER)
    assert found == {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.96.8.10"]}}
    free = DnsResolver(server="10.96.8.10", domain="cluster.local", allows_node_dns=True)
    assert dns.build_dns_config({"dnsPolicy": "Default"}, "web", free) == {"dnsPolicy": "Default"}
    none = DnsResolver(server="", domain="cluster.local", allows_node_dns=True)
    assert dns.build_dns_config({"dnsPolicy": "ClusterFirst"}, "web", none) == {
        "dnsPolicy": "Default"
    }


def test_all_resolvers_of_another_super_cluster_are_asked_in_their_order():
    there = DnsResolver(
        server="10.98.0.10",
        domain="c.local",
        allows_node_dns=False,
        additional_servers=("10.98.0.11", "::7"),
    )
    own = {"nameservers": ["10.98.0.11"]}
    for policy in ("Default", "ClusterFirst"):
        found = dns.build_dns_config({"dnsPolicy": policy, "dnsConfig": own}, "web", there)
        assert found["dnsPolicy"] == "None"
        assert found["dnsConfig"]["nameservers"] == ["10.98.0.10", "10.98.0.11", "::7"]


def test_a_whole_domain_name_as_host_name_is_the_tenants():
    spec = {"setHostnameAsFQDN": True, "subdomain": "db", "hostname": "db-0"}
    found = dns.build_host_name(spec, "db-0", "web", "cluster.local")
    assert found == {"hostnameOverride": "db-0.db.web.svc.cluster.local"}
    assert dns.build_host_name({**spec, "setHostnameAsFQDN": False}, "p", "web", "d") == {}
    with pytest.raises(RejectedError):
        dns.build_host_name(spec, "db-0", "n" * 50, "cluster.local")


# --- resolvers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["ndots", {}, {"name": 1}, {"value": "5"}, None])
def test_a_resolver_option_without_a_name_is_refused(option):
    own = {"options": [option]}
    with pytest.raises(RejectedError) as raised:
        dns.build_dns_config({"dnsPolicy": "None", "dnsConfig": own}, "web", RESOLVER)
    (problem,) = raised.value.problems
    assert (problem.rule, problem.path) == ("malformed", "spec.dnsConfig.options")
    assert problem.text == "must have a name; correct the object"


@pytest.mark.parametrize("field", ["nameservers", "searches"])
@pytest.mark.parametrize("value", ["text", [1], [None], {"a": "b"}])
def test_a_resolver_list_of_anything_but_texts_is_refused(field, value):
    with pytest.raises(RejectedError) as raised:
        dns.build_dns_config({"dnsPolicy": "None", "dnsConfig": {field: value}}, "web", RESOLVER)
    (problem,) = raised.value.problems
    assert (problem.rule, problem.path) == ("unknown-field", f"spec.dnsConfig.{field}")
    assert problem.text == "is not known to this version or malformed; leave it out"


def test_a_pods_own_resolver_settings_are_kept_beside_the_nodes_and_behind_ours():
    own = {"nameservers": ["192.0.2.1", "192.0.2.2", "192.0.2.3"], "searches": ["corp"]}
    free = RESOLVER._replace(allows_node_dns=True)
    assert dns.build_dns_config({"dnsPolicy": "Default", "dnsConfig": own}, "web", free) == {
        "dnsPolicy": "Default",
        "dnsConfig": own,
    }
    found = dns.build_dns_config({"dnsPolicy": "Default", "dnsConfig": own}, "web", RESOLVER)
    assert found["dnsConfig"] == {
        "nameservers": ["10.96.8.10", "192.0.2.1", "192.0.2.2"],
        "searches": ["corp"],
    }


def test_a_host_name_of_its_own_goes_before_the_pods_name():
    spec = {"setHostnameAsFQDN": True, "subdomain": "db"}
    named = dns.build_host_name({**spec, "hostname": "own"}, "p", "web", "c.local")
    assert named == {"hostnameOverride": "own.db.web.svc.c.local"}
    assert dns.build_host_name(spec, "p", "web", "c.local") == {
        "hostnameOverride": "p.db.web.svc.c.local"
    }
