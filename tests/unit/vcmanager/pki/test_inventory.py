from dataclasses import replace

from tenancy import wellknown
from tests.support.vcmanager.factories import FACTS, TENANT, UID
from vcmanager.pki import inventory

LEAVES = {leaf.secret: leaf for leaf in inventory.list_leaves(FACTS)}
LOGINS = {login.credential: login for login in inventory.list_logins(FACTS)}
ROOT = TENANT.root


def test_the_api_server_is_known_by_every_name_it_is_called():
    assert LEAVES["apiserver-ca"].subject.list_alternative_names() == {
        "DNS:kubernetes",
        "DNS:kubernetes.default",
        "DNS:kubernetes.default.svc",
        "DNS:kubernetes.default.svc.cluster.local",
        "DNS:localhost",
        "DNS:apiserver-svc",
        f"DNS:apiserver-svc.{ROOT}",
        f"DNS:apiserver-svc.{ROOT}.svc",
        "DNS:vc-1",
        "DNS:vc.example.org",
        "IP:127.0.0.1",
        "IP:10.96.4.1",
        "IP:10.111.2.3",
    }


def test_pods_in_other_clusters_verify_what_they_dial():
    usual = LEAVES["apiserver-ca"].subject.list_alternative_names()
    for host, name in (("192.0.2.8", "IP:192.0.2.8"), ("lb.example.com", "DNS:lb.example.com")):
        found = {
            leaf.secret: leaf for leaf in inventory.list_leaves(replace(FACTS, dialed_host=host))
        }
        assert found["apiserver-ca"].subject.list_alternative_names() == usual | {name}


def test_each_member_of_the_store_is_known_by_its_own_name():
    three = replace(FACTS, etcd_replicas=3)
    names = {leaf.secret: leaf for leaf in inventory.list_leaves(three)}[
        "etcd-ca"
    ].subject.dns_names
    for member in ("etcd-0.etcd", "etcd-1.etcd", "etcd-2.etcd", "etcd", "etcd-client"):
        assert member in names
        assert f"{member}.{ROOT}" in names
    assert "etcd-3.etcd" not in names


def test_each_purpose_has_an_authority_of_its_own():
    assert {name: leaf.authority for name, leaf in LEAVES.items()} == {
        "apiserver-ca": "serving",
        "etcd-ca": "etcd",
        "apiserver-etcd-client": "etcd",
        "front-proxy-ca": "front-proxy",
        "apiserver-kubelet-client": "agent-client",
    }
    assert len(set(inventory.AUTHORITIES.values())) == len(inventory.AUTHORITIES)
    assert inventory.AGENT_CLIENT not in inventory.AUTHORITIES


def test_a_scraper_has_a_certificate_only_if_one_is_named():
    assert "apiserver-scraper-client" not in LEAVES
    leaves = {
        each.secret: each for each in inventory.list_leaves(replace(FACTS, has_scrapers=True))
    }
    scraper = leaves["apiserver-scraper-client"]
    assert (scraper.authority, scraper.subject.usages) == ("client", {"client"})
    # Kubernetes binds this group to `system:monitoring`.
    assert scraper.subject.organizations == ("system:monitoring",)


def test_agents_learn_who_calls_from_the_uri_alone():
    subject = LEAVES["apiserver-kubelet-client"].subject
    assert subject.list_alternative_names() == {f"URI:vc://{UID}/{ROOT}"}
    assert subject.usages == {"client"}


def test_only_the_store_serves_and_calls():
    both = {name for name, leaf in LEAVES.items() if len(leaf.subject.usages) == 2}
    assert both == {"etcd-ca"}


def test_no_one_but_the_manager_is_a_master():
    masters = {
        name for name, login in LOGINS.items() if "system:masters" in login.subject.organizations
    }
    assert masters == {"manager"}
    assert LOGINS["admin"].subject.organizations == (wellknown.ADMINS_GROUP,)
    assert {name for name, login in LOGINS.items() if login.external} == {"admin"}


def test_names_of_secrets_are_upstreams():
    assert LOGINS["admin"].secret == "admin-kubeconfig"
    assert LOGINS["controller-manager"].secret == "controller-manager-kubeconfig"
    assert inventory.AUTHORITIES["serving"] == "root-ca"


def test_a_tenant_with_its_own_dns_gets_no_credential_for_ours():
    logins = inventory.list_logins(replace(FACTS, has_dns=False))
    assert "coredns" not in {login.credential for login in logins}


def test_a_metrics_server_has_certificates_of_its_own_where_there_is_one():
    facts = replace(FACTS, has_metrics=True)
    added = {
        leaf.secret: leaf for leaf in inventory.list_leaves(facts) if leaf.secret not in LEAVES
    }
    assert {name: leaf.authority for name, leaf in added.items()} == {
        "metrics-server-serving": "serving",
        "metrics-server-agent-client": "agent-client",
    }
    serving, agents = (
        added[f"metrics-server-{end}"].subject for end in ("serving", "agent-client")
    )
    assert serving.usages == {"server"}
    assert serving.list_alternative_names() == {
        "DNS:metrics-server.kube-system.svc",
        "DNS:metrics-server.kube-system.svc.cluster.local",
    }
    assert agents.list_alternative_names() == {f"URI:vc-figures://{UID}/{ROOT}"}
    assert agents.usages == {"client"}
    login = next(
        each for each in inventory.list_logins(facts) if each.credential == "metrics-server"
    )
    assert login.subject.common_name == wellknown.METRICS_USER
    assert login.subject.organizations == ()
    assert not login.external
    assert "metrics-server" not in LOGINS


def test_subjects_are_short_enough_for_a_certificate():
    for name in inventory.AUTHORITIES:
        assert len(inventory.build_authority_common_name(name, UID)) <= 64
    for row in (*LEAVES.values(), *LOGINS.values()):
        assert len(row.subject.common_name) <= 64
