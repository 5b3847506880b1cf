import pytest
import yaml

from kubeio.config import loading
from tests.support.vcmanager.factories import NOW, TENANT
from vcmanager.pki import authority, bundles
from vcmanager.pki.authority import KeyPair

PAIR = authority.make_authority("x", now=NOW)


def test_a_pair_survives_its_secret():
    secret = bundles.build_key_pair_secret("root-ca", TENANT.root, PAIR)
    assert secret["type"] == "kubernetes.io/tls"
    assert set(secret["data"]) == {"tls.crt", "tls.key"}
    assert bundles.read_key_pair(secret) == PAIR


def test_what_is_not_there_is_empty_and_no_secret_is_none():
    assert bundles.read_key_pair(None) is None
    assert bundles.read_key_pair({}) == KeyPair(b"", b"")
    assert bundles.read_key_pair({"data": {"tls.crt": "%%%"}}) == KeyPair(b"", b"")


def test_a_trust_secret_has_no_key():
    secret = bundles.build_trust_secret("root-ca-etcd", TENANT.root, PAIR.certificate)
    assert set(secret["data"]) == {"tls.crt"}


def test_a_kubeconfig_is_read_by_our_own_strict_reader():
    document = bundles.build_kubeconfig(
        PAIR,
        cluster="vc-1",
        user="admin",
        server="https://10.0.0.1:31000",
        server_name="apiserver-svc.root",
        authority=PAIR.certificate,
    )
    endpoint = loading.load_tenant_kubeconfig(document)
    assert endpoint.server == "https://10.0.0.1:31000"
    assert endpoint.tls_server_name == "apiserver-svc.root"
    assert (endpoint.ca, endpoint.client_cert, endpoint.client_key) == (
        PAIR.certificate,
        PAIR.certificate,
        PAIR.key,
    )
    assert bundles.read_kubeconfig_key_pair(document) == PAIR


def test_a_kubeconfig_without_a_server_name_has_no_such_field():
    document = bundles.build_kubeconfig(
        PAIR, cluster="c", user="u", server="https://10.0.0.1:443", authority=PAIR.certificate
    )
    cluster = yaml.safe_load(document)["clusters"][0]["cluster"]
    assert set(cluster) == {"server", "certificate-authority-data"}


@pytest.mark.parametrize("name", ["y", "N", "08", "1e5", "12e4", "0o7", "7e-3", "123", "1-2"])
def test_a_name_that_others_read_as_a_number_or_a_truth_is_quoted(name):
    """kubectl and the controllers refuse a kubeconfig in which a name is anything but a string."""
    document = bundles.build_kubeconfig(
        PAIR, cluster=name, user=name, server="https://10.0.0.1:443", authority=PAIR.certificate
    )
    lines = [line.strip("- ") for line in document.decode().splitlines()]
    for line in (f"name: '{name}'", f"cluster: '{name}'", f"user: '{name}'"):
        assert line in lines
    assert yaml.safe_load(document)["clusters"][0]["name"] == name
    assert bundles.read_kubeconfig_key_pair(document) == PAIR


def test_its_secret_has_one_key_and_reports_whose_it_is():
    secret = bundles.build_kubeconfig_secret("admin-kubeconfig", TENANT.root, "admin", b"x")
    assert set(secret["data"]) == {"admin-kubeconfig"}
    assert secret["metadata"]["labels"] == {"tenancy.x-k8s.io/credential": "admin"}


def test_what_is_no_kubeconfig_has_no_pair():
    for document in (b"", b"[", b"{}", b"users: []", b"users: [{user: {}}]", b"- 1", b"\xff"):
        assert bundles.read_kubeconfig_key_pair(document) is None
    line = b"  client-certificate-data: eA==\n"
    for document in (line, line * 2, line + b"  client-key-data: *x\n"):
        assert bundles.read_kubeconfig_key_pair(document) is None


def test_what_no_reader_of_yaml_ends_with_is_no_kubeconfig_either():
    """Deep nesting ends libyaml with the process. Aliases of aliases take for ever."""
    bomb = b"a0: &a0 {x: 1}\n" + b"".join(
        b"a%d: &a%d {<<: [%s]}\n" % (at + 1, at + 1, b", ".join([b"*a%d" % at] * 10))
        for at in range(12)
    )
    for document in (b"[" * 1_000_000, b"- " * 500_000, bomb):
        assert bundles.read_kubeconfig_key_pair(document) is None
