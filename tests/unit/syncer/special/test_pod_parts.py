"""Service variables, resolvers, host names and tokens of a pod."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from syncer.model import object_meta
from syncer.model.rejections import RejectedError
from syncer.rules.pods import dns, environment, token_specs
from syncer.rules.pods.dns import Resolver
from syncer.rules.pods.token_specs import TokenSpec
from tenancy import names, ownership, wellknown
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
    found = environment.service_variables([MASTER, db], "web", links=True)
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
    found = environment.service_variables(services, "web", links=links)
    assert environment.service_variables(services[::-1], "web", links=links) == found
    assert {key.partition("_")[0] for key in found} == expected
    assert found["KUBERNETES_SERVICE_HOST"] == "10.0.0.1"


def test_an_ipv6_address_is_bracketed():
    found = environment.service_variables(
        [service("six", "fd00::1", {"port": 80})], "web", links=True
    )
    assert found["SIX_PORT"] == "tcp://[fd00::1]:80"
    assert found["SIX_PORT_80_TCP_ADDR"] == "fd00::1"


@pytest.mark.parametrize("policy", ["ClusterFirst", "ClusterFirstWithHostNet", None])
def test_names_are_resolved_by_the_tenants_server(policy):
    own = {"searches": ["corp", "cluster.local"], "options": [{"name": "ndots", "value": "2"}]}
    found = dns.resolution({"dnsPolicy": policy, "dnsConfig": own}, "web", RESOLVER)
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
    found = dns.resolution({"dnsPolicy": "None", "dnsConfig": own}, "web", RESOLVER)
    assert found == {"dnsPolicy": "None", "dnsConfig": own}


def test_the_nodes_resolver_is_only_for_tenants_with_dns_of_their_own():
    found = dns.resolution({"dnsPolicy": "Default"}, "web", RESOLVER)
    assert found == {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.96.8.10"]}}
    free = Resolver(server="10.96.8.10", domain="cluster.local", allows_node_dns=True)
    assert dns.resolution({"dnsPolicy": "Default"}, "web", free) == {"dnsPolicy": "Default"}
    none = Resolver(server="", domain="cluster.local", allows_node_dns=True)
    assert dns.resolution({"dnsPolicy": "ClusterFirst"}, "web", none) == {"dnsPolicy": "Default"}


def test_all_resolvers_of_another_super_cluster_are_asked_in_their_order():
    there = Resolver(
        server="10.98.0.10", domain="c.local", allows_node_dns=False, others=("10.98.0.11", "::7")
    )
    own = {"nameservers": ["10.98.0.11"]}
    for policy in ("Default", "ClusterFirst"):
        found = dns.resolution({"dnsPolicy": policy, "dnsConfig": own}, "web", there)
        assert found["dnsPolicy"] == "None"
        assert found["dnsConfig"]["nameservers"] == ["10.98.0.10", "10.98.0.11", "::7"]


@pytest.mark.parametrize(
    ("endpoint", "host", "port"),
    [
        ("https://vc.example.org:6443", "vc.example.org", 6443),
        ("https://vc.example.org", "vc.example.org", 443),
        ("https://[fd00::1]:8443", "fd00::1", 8443),
        ("", "kubernetes.invalid", 443),
        ("https://:6443", "kubernetes.invalid", 6443),
        ("https://vc.example.org:70000", "kubernetes.invalid", 443),
        ("https://[fd00", "kubernetes.invalid", 443),
    ],
)
def test_the_tenants_api_is_reached_from_elsewhere_by_its_url(endpoint, host, port):
    (found,) = environment.reached_at(MASTER, endpoint)
    assert found["metadata"] == MASTER["metadata"]
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    assert found["spec"] == {"clusterIP": host, "ports": ports}
    assert MASTER["spec"]["clusterIP"] == "10.0.0.1", "others have it as it is"


def test_a_whole_domain_name_as_host_name_is_the_tenants():
    spec = {"setHostnameAsFQDN": True, "subdomain": "db", "hostname": "db-0"}
    found = dns.host_name(spec, "db-0", "web", "cluster.local")
    assert found == {"hostnameOverride": "db-0.db.web.svc.cluster.local"}
    assert dns.host_name({**spec, "setHostnameAsFQDN": False}, "p", "web", "d") == {}
    with pytest.raises(RejectedError):
        dns.host_name(spec, "db-0", "n" * 50, "cluster.local")


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
    assert (
        token_specs.spec_of_secret({wellknown.TOKEN_SECONDS: "7200", wellknown.ACCOUNT: "a"})
        is None
    )
    assert token_specs.seconds_to_renewal({wellknown.TOKEN_RENEW: "never"}, NOW) == 0


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


def test_a_token_secret_is_one_that_an_api_server_takes():
    secret = token_specs.secret_of(
        BOUND, TENANT, "below", "t", expires=NOW + timedelta(seconds=900), now=NOW
    )
    metadata = secret.pop("metadata")
    assert secret == {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "data": {"token": "dA=="},
    }
    annotations = metadata.pop("annotations")
    assert metadata == {
        "name": BOUND.secret_name,
        "namespace": "below",
        "labels": ownership.labels(TENANT, "web"),
    }
    assert annotations[wellknown.EXPIRES] == "2026-01-01T00:15:00+00:00"
    assert annotations[wellknown.TOKEN_POD] == "p/p-uid"


def test_the_tenant_is_asked_in_the_words_of_its_api():
    request = SHARED.request()
    assert (request["apiVersion"], request["kind"]) == (
        "authentication.k8s.io/v1",
        "TokenRequest",
    )


def test_what_a_source_leaves_out_is_what_the_api_would_write():
    assert token_specs.wanted_of({}) == ("", 3600)
    assert token_specs.wanted_of({"audience": "v", "expirationSeconds": 7}) == ("v", 7)


@pytest.mark.parametrize(
    "missing", [wellknown.TOKEN_SECONDS, wellknown.ACCOUNT, wellknown.VC_UID, wellknown.UID]
)
def test_half_a_record_of_a_token_is_none(missing):
    secret = token_specs.secret_of(BOUND, TENANT, "below", "t", expires=NOW, now=NOW)
    annotations = secret["metadata"]["annotations"]
    assert token_specs.spec_of_secret({**annotations, wellknown.TOKEN_SECONDS: "soon"}) is None
    del annotations[missing]
    assert token_specs.spec_of_secret(annotations) is None


@pytest.mark.parametrize(("made_for", "others"), [("", ["r1"]), ("r1", ["", "r2"])])
def test_a_token_is_one_of_the_registration_that_it_was_made_for(made_for, others):
    tenant = replace(TENANT, registration=made_for)
    secret = token_specs.secret_of(BOUND, tenant, "below", "t", expires=NOW, now=NOW)
    annotations = secret["metadata"]["annotations"]
    assert token_specs.spec_of_secret(annotations, made_for) == BOUND
    for other in others:
        assert token_specs.spec_of_secret(annotations, other) is None


def test_a_token_without_an_audience_or_a_pod_is_the_shared_one():
    secret = token_specs.secret_of(SHARED, TENANT, "below", "t", expires=NOW, now=NOW)
    annotations = secret["metadata"]["annotations"]
    del annotations[wellknown.TOKEN_AUDIENCE]
    assert token_specs.spec_of_secret(annotations) == SHARED


# --- resolvers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["ndots", {}, {"name": 1}, {"value": "5"}, None])
def test_a_resolver_option_without_a_name_is_refused(option):
    own = {"options": [option]}
    with pytest.raises(RejectedError) as raised:
        dns.resolution({"dnsPolicy": "None", "dnsConfig": own}, "web", RESOLVER)
    (problem,) = raised.value.problems
    assert (problem.rule, problem.path) == ("malformed", "spec.dnsConfig.options")
    assert problem.text == "must have a name; correct the object"


@pytest.mark.parametrize("field", ["nameservers", "searches"])
@pytest.mark.parametrize("value", ["text", [1], [None], {"a": "b"}])
def test_a_resolver_list_of_anything_but_texts_is_refused(field, value):
    with pytest.raises(RejectedError) as raised:
        dns.resolution({"dnsPolicy": "None", "dnsConfig": {field: value}}, "web", RESOLVER)
    (problem,) = raised.value.problems
    assert (problem.rule, problem.path) == ("unknown-field", f"spec.dnsConfig.{field}")
    assert problem.text == "is not known to this version or malformed; leave it out"


# --- the downward API -----------------------------------------------------------------------------


def mirrors() -> environment.Mirrors:
    return environment.Mirrors(
        {
            "labels": {"app": "web", "mesh.istio.io/x": "on"},
            "annotations": {
                "note": "n",
                "strange.example/a[0]": "'quoted'",
                "kubectl.kubernetes.io/restartedAt": "now",
            },
        }
    )


@pytest.mark.parametrize(
    ("path", "becomes", "needed"),
    [
        ("metadata.name", "metadata.name", ""),
        ("metadata.labels['app']", "metadata.labels['app']", ""),
        ("metadata.labels['absent']", "metadata.labels['absent']", ""),
        (
            "metadata.labels['app.kubernetes.io/name']",
            "metadata.labels['app.kubernetes.io/name']",
            "",
        ),
        (
            "metadata.annotations['app.kubernetes.io/name']",
            ("annotations", "app.kubernetes.io/name"),
            "",
        ),
        ("metadata.annotations['note']", "metadata.annotations['note']", ""),
        (
            "metadata.annotations['kubectl.kubernetes.io/restartedAt']",
            "metadata.annotations['kubectl.kubernetes.io/restartedAt']",
            "",
        ),
        ("metadata.labels['mesh.istio.io/x']", ("labels", "mesh.istio.io/x"), "on"),
        ("metadata.labels['istio.io/absent']", ("labels", "istio.io/absent"), ""),
        (
            "metadata.annotations['strange.example/a[0]']",
            ("annotations", "strange.example/a[0]"),
            "'quoted'",
        ),
        ('metadata.annotations["x.example/a"]', ("annotations", "x.example/a"), ""),
        (
            "metadata.annotations['X.example/X']",
            ("annotations", "X.example/X"),
            "",
        ),
    ],
)
def test_a_field_that_stays_above_is_read_from_its_mirror(path, becomes, needed):
    found = mirrors()
    ref = found.field_ref({"fieldPath": path, "apiVersion": "v1"})
    if isinstance(becomes, str):
        assert (ref["fieldPath"], found.needed) == (becomes, {})
        return
    mirror = object_meta.mirror_key(*becomes)
    assert ref == {"fieldPath": f"metadata.annotations['{mirror}']", "apiVersion": "v1"}
    assert found.needed == {mirror: needed}


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("metadata.labels", environment.LABELS_TEXT),
        ("metadata.annotations", environment.ANNOTATIONS_TEXT),
    ],
)
def test_all_of_them_are_read_from_a_text(path, key):
    found = mirrors()
    assert found.field_ref({"fieldPath": path}) == {"fieldPath": f"metadata.annotations['{key}']"}
    assert list(found.needed) == [key]


def test_what_is_no_field_stays_as_it_is():
    found = mirrors()
    item = {"path": "cpu", "resourceFieldRef": {"resource": "limits.cpu"}}
    assert environment.downward_items([item], found) == [item]
    assert found.field_ref({}) == {"fieldPath": ""}
    assert found.needed == {}


@pytest.mark.parametrize(
    ("character", "written"),
    [
        ("\x7f", "\\x7f"),
        ("\x80", "\\u0080"),
        ("\u200b", "\\u200b"),
        ("\uffff", "\\uffff"),
        ("\U000e0001", "\\U000e0001"),
        ("\u00e9", "\u00e9"),
        ("\n", "\\n"),
        ('"', '\\"'),
    ],
)
def test_a_file_of_labels_is_written_as_go_quotes(character, written):
    assert environment.as_file({"k": character}) == f'k="{written}"'


def test_a_pods_own_resolver_settings_are_kept_beside_the_nodes_and_behind_ours():
    own = {"nameservers": ["192.0.2.1", "192.0.2.2", "192.0.2.3"], "searches": ["corp"]}
    free = RESOLVER._replace(allows_node_dns=True)
    assert dns.resolution({"dnsPolicy": "Default", "dnsConfig": own}, "web", free) == {
        "dnsPolicy": "Default",
        "dnsConfig": own,
    }
    found = dns.resolution({"dnsPolicy": "Default", "dnsConfig": own}, "web", RESOLVER)
    assert found["dnsConfig"] == {
        "nameservers": ["10.96.8.10", "192.0.2.1", "192.0.2.2"],
        "searches": ["corp"],
    }


def test_a_host_name_of_its_own_goes_before_the_pods_name():
    spec = {"setHostnameAsFQDN": True, "subdomain": "db"}
    named = dns.host_name({**spec, "hostname": "own"}, "p", "web", "c.local")
    assert named == {"hostnameOverride": "own.db.web.svc.c.local"}
    assert dns.host_name(spec, "p", "web", "c.local") == {
        "hostnameOverride": "p.db.web.svc.c.local"
    }


def test_the_tokens_of_a_pod_are_those_of_its_own_account_and_itself():
    sources = [
        {"serviceAccountToken": {"path": "t"}},
        {"serviceAccountToken": {"path": "v", "audience": "vault", "expirationSeconds": 900}},
    ]
    tenant_pod = {
        "metadata": {"name": "p", "namespace": "web", "uid": "p-uid"},
        "spec": {
            "serviceAccountName": "robot",
            "volumes": [{"name": "x", "projected": {"sources": sources}}],
        },
    }
    assert token_specs.specs_of(tenant_pod, "a-uid") == {("", 3600): SHARED, ("vault", 900): BOUND}
