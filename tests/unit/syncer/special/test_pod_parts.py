"""Service variables, resolvers, host names and tokens of a pod."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from syncer.rejections import RejectedError
from syncer.special import pod_dns, pod_env, token_specs
from syncer.special.pod_dns import Resolver
from syncer.special.token_specs import TokenSpec
from tenancy import marks, names
from tenancy.ownership import Tenant

TENANT = Tenant(name="vc", namespace="default", uid="vc-uid", root="default-abc123-vc")
RESOLVER = Resolver(server="10.96.8.10", domain="cluster.local", allows_node_dns=False)


def service(name: str, address: str, *ports: dict[str, object], namespace: str = "web"):
    """Return a Service."""
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": address, "ports": list(ports)},
    }


MASTER = service("kubernetes", "10.0.0.1", {"name": "https", "port": 443}, namespace="default")


def test_service_variables_are_those_of_a_kubelet():
    db = service(
        "my-db",
        "10.0.0.9",
        {"name": "sql", "port": 5432, "protocol": "TCP"},
        {"name": "dns-udp", "port": 53, "protocol": "UDP"},
    )
    found = pod_env.service_variables([MASTER, db], "web", links=True)
    assert {key: value for key, value in found.items() if key.startswith("MY_DB")} == {
        "MY_DB_SERVICE_HOST": "10.0.0.9",
        "MY_DB_SERVICE_PORT": "5432",
        "MY_DB_SERVICE_PORT_SQL": "5432",
        "MY_DB_SERVICE_PORT_DNS_UDP": "53",
        "MY_DB_PORT": "tcp://10.0.0.9:5432",
        "MY_DB_PORT_5432_TCP": "tcp://10.0.0.9:5432",
        "MY_DB_PORT_5432_TCP_PROTO": "tcp",
        "MY_DB_PORT_5432_TCP_PORT": "5432",
        "MY_DB_PORT_5432_TCP_ADDR": "10.0.0.9",
        "MY_DB_PORT_53_UDP": "udp://10.0.0.9:53",
        "MY_DB_PORT_53_UDP_PROTO": "udp",
        "MY_DB_PORT_53_UDP_PORT": "53",
        "MY_DB_PORT_53_UDP_ADDR": "10.0.0.9",
    }


@pytest.mark.parametrize(
    ("links", "expected"), [(True, {"DB", "KUBERNETES"}), (False, {"KUBERNETES"})]
)
def test_which_services_a_pod_sees(links, expected):
    services = [
        MASTER,
        service("db", "10.0.0.9", {"port": 1}),
        service("bare", "None", {"port": 1}),
        service("pending", "", {"port": 1}),
        service("kubernetes", "10.0.0.66", {"port": 1}),
        service("elsewhere", "10.0.0.8", {"port": 1}, namespace="other"),
    ]
    found = pod_env.service_variables(services, "web", links=links)
    assert {key.partition("_")[0] for key in found} == expected
    assert found["KUBERNETES_SERVICE_HOST"] == "10.0.0.1"


def test_an_ipv6_address_is_bracketed():
    found = pod_env.service_variables([service("six", "fd00::1", {"port": 80})], "web", links=True)
    assert found["SIX_PORT"] == "tcp://[fd00::1]:80"
    assert found["SIX_PORT_80_TCP_ADDR"] == "fd00::1"


@pytest.mark.parametrize("policy", ["ClusterFirst", "ClusterFirstWithHostNet", None])
def test_names_are_resolved_by_the_tenants_server(policy):
    own = {"searches": ["corp", "cluster.local"], "options": [{"name": "ndots", "value": "2"}]}
    found = pod_dns.resolution({"dnsPolicy": policy, "dnsConfig": own}, "web", RESOLVER)
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
    found = pod_dns.resolution({"dnsPolicy": "None", "dnsConfig": own}, "web", RESOLVER)
    assert found == {"dnsPolicy": "None", "dnsConfig": own}


def test_the_nodes_resolver_is_only_for_tenants_with_dns_of_their_own():
    found = pod_dns.resolution({"dnsPolicy": "Default"}, "web", RESOLVER)
    assert found == {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.96.8.10"]}}
    free = Resolver(server="10.96.8.10", domain="cluster.local", allows_node_dns=True)
    assert pod_dns.resolution({"dnsPolicy": "Default"}, "web", free) == {"dnsPolicy": "Default"}
    none = Resolver(server="", domain="cluster.local", allows_node_dns=True)
    assert pod_dns.resolution({"dnsPolicy": "ClusterFirst"}, "web", none) == {
        "dnsPolicy": "Default"
    }


def test_a_whole_domain_name_as_host_name_is_the_tenants():
    spec = {"setHostnameAsFQDN": True, "subdomain": "db", "hostname": "db-0"}
    found = pod_dns.host_name(spec, "db-0", "web", "cluster.local")
    assert found == {"hostnameOverride": "db-0.db.web.svc.cluster.local"}
    assert pod_dns.host_name({**spec, "setHostnameAsFQDN": False}, "p", "web", "d") == {}
    with pytest.raises(RejectedError):
        pod_dns.host_name(spec, "db-0", "n" * 50, "cluster.local")


NOW = datetime(2026, 1, 1, tzinfo=UTC)
SHARED = TokenSpec(namespace="web", account="robot", account_uid="a-uid")
BOUND = TokenSpec(
    namespace="web",
    account="robot",
    account_uid="a-uid",
    audience="vault",
    seconds=900,
    pod="p",
    pod_uid="p-uid",
)


@pytest.mark.parametrize("token", [SHARED, BOUND])
def test_a_token_secret_says_all_that_its_renewal_needs(token):
    expires = NOW + timedelta(seconds=token.seconds)
    secret = token_specs.secret_of(token, TENANT, "below", "the-token", expires=expires, now=NOW)
    annotations = secret["metadata"]["annotations"]
    assert token_specs.spec_of_secret(annotations) == token
    assert secret["metadata"]["name"] == token.secret_name
    assert secret["data"] == {"token": "dGhlLXRva2Vu"}
    assert "the-token" not in str(secret)
    assert token_specs.seconds_to_renewal(annotations, NOW) == token.seconds / 2


def test_what_is_no_token_secret_is_none():
    assert token_specs.spec_of_secret({}) is None
    assert token_specs.spec_of_secret({marks.TOKEN_SECONDS: "7200", marks.ACCOUNT: "a"}) is None
    assert token_specs.seconds_to_renewal({marks.TOKEN_RENEW: "never"}, NOW) == 0


@pytest.mark.parametrize(
    ("given", "wait"), [(600, 300), (7200, 3600), (31536000, 3600), (30, 60), (-5, 60)]
)
def test_a_token_is_renewed_at_half_the_life_that_the_tenant_gave_it(given, wait):
    expires = NOW + timedelta(seconds=given)
    secret = token_specs.secret_of(SHARED, TENANT, "below", "t", expires=expires, now=NOW)
    assert token_specs.seconds_to_renewal(secret["metadata"]["annotations"], NOW) == wait


def test_what_is_asked_of_the_tenant():
    assert SHARED.request()["spec"] == {"expirationSeconds": 7200}
    assert BOUND.request()["spec"] == {
        "expirationSeconds": 900,
        "audiences": ["vault"],
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p-uid"},
    }


def test_pods_of_an_account_share_one_token_and_audiences_are_bound():
    def pod(uid: str) -> dict[str, object]:
        sources = [
            {"serviceAccountToken": {"path": "t", "expirationSeconds": 3607}},
            {"serviceAccountToken": {"path": "v", "audience": "vault", "expirationSeconds": 10}},
        ]
        return {
            "metadata": {"name": uid, "namespace": "web", "uid": uid},
            "spec": {"volumes": [{"name": "x", "projected": {"sources": sources}}]},
        }

    one, two = (token_specs.specs_of(pod(uid), "a-uid") for uid in ("p1", "p2"))
    assert one["", 3607].secret_name == two["", 3607].secret_name
    assert one["vault", 10].secret_name != two["vault", 10].secret_name
    assert one["vault", 10].seconds == 600  # the least that the API gives
    assert one["", 3607].account == "default"
    assert one["", 3607].secret_name == names.token_secret("a-uid", "", 7200)
