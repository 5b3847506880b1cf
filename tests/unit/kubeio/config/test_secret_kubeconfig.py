"""Accepted Secrets of another cluster, and errors about the others."""

from __future__ import annotations

import base64

import pytest
import trustme
import yaml

from kubeio.config import secret_kubeconfig
from kubeio.config.secret_kubeconfig import LocalAddressError
from kubeio.errors import CredentialsError

SERVER = "https://10.0.0.5:6443"
PARTS = {"server": SERVER.encode(), "ca.crt": b"CA", "token": b"tok\n"}


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def kubeconfig(server: str = SERVER, cluster=None, user=None) -> bytes:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "c",
                "cluster": {"server": server, "certificate-authority-data": b64("CA")}
                | (cluster or {}),
            }
        ],
        "users": [
            {"name": "u", "user": {"token": "tok"} if user is None else user},
            {"name": "other", "user": {"token": "second"}},
        ],
        "contexts": [
            {"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "n"}},
            {"name": "y", "context": {"cluster": "c", "user": "other"}},
        ],
        "current-context": "x",
    }
    return yaml.safe_dump(document).encode()


def endpoint(data, **more):
    return secret_kubeconfig.parse_endpoint(data, name="SuperCluster c2", **more)


@pytest.mark.parametrize(
    "data",
    [
        {"config": kubeconfig()},
        {"kubeconfig": kubeconfig()},
        {"kubeconfig": kubeconfig(), "config": b"other"},
        PARTS,
        {**{k: v for k, v in PARTS.items() if k != "ca.crt"}, "ca": b"CA"},
    ],
    ids=["config", "kubeconfig", "both", "parts", "ca"],
)
def test_each_shape_is_taken(data):
    """A1-04."""
    found = endpoint(data)
    assert (found.server, found.ca, found.token) == (SERVER, b"CA", "tok")
    # Chains of kubeadm break the strict rules. Host and chain are verified anyway.
    assert not found.strict


def test_a_key_and_a_context_of_the_kubeconfig_may_be_named():
    assert endpoint({"mine": kubeconfig()}, key="mine").token == "tok"
    assert endpoint({"config": kubeconfig()}, context="y").token == "second"


def test_what_the_object_specifies_wins():
    """A0-05, A1-01."""
    local = kubeconfig("https://127.0.0.1:6443", {"tls-server-name": "old"})
    for data in ({"config": local}, {"config": kubeconfig("")}, {**PARTS, "server": b""}):
        found = endpoint(data, server="https://c2:6443", tls_server_name="kubernetes")
        assert (found.server, found.tls_server_name) == ("https://c2:6443", "kubernetes")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.8.9.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "localhost",
        "LOCALHOST.",
        "c2.localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "169.254.169.254",
        "[fe80::1]",
        "0.0.0.0",  # noqa: S104 - it is refused
        "[::]",
        "224.0.0.1",
    ],
)
def test_an_address_that_means_another_machine_to_each_reader_is_refused(host):
    with pytest.raises(LocalAddressError, match=r"spec\.server"):
        endpoint({"config": kubeconfig(f"https://{host}:6443")})
    with pytest.raises(LocalAddressError):
        endpoint(PARTS, server=f"https://{host}:6443")


@pytest.mark.parametrize(
    "host", ["10.0.0.5", "c2-control-plane", "localhost.example.org", "[fd00::2]"]
)
def test_other_addresses_are_taken(host):
    assert endpoint(PARTS, server=f"https://{host}:6443").server == f"https://{host}:6443"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "no key kubeconfig or config, nor token with ca.crt and server. It has none at all"),
        ({"kube": kubeconfig()}, "It has kube"),
        ({"token": b"t", "ca.crt": b"CA"}, "no key server"),
        ({"token": b"t", "server": SERVER.encode()}, "no key ca.crt"),
        ({**PARTS, "token": b"a b"}, "characters that no token has"),
        ({**PARTS, "token": b"a\r\nX-Evil: 1"}, "characters that no token has"),
        ({**PARTS, "token": "ä".encode()}, "token is not plain text"),
        ({**PARTS, "token": b"x" * 70_000}, "token has more than"),
        ({**PARTS, "ca.crt": b"x" * 70_000}, "ca.crt has more than"),
        ({**PARTS, "token": b""}, "neither a token nor a client certificate"),
        ({**PARTS, "server": b"http://10.0.0.5"}, "https"),
        ({**PARTS, "server": b"https://a:b@10.0.0.5"}, "not the URL of an API server"),
        ({**PARTS, "server": b"https://10.0.0.5/?x=1"}, "not the URL of an API server"),
        ({**PARTS, "server": b"https://10.0.0.5:99999"}, "not the URL of an API server"),
        ({**PARTS, "server": b"https://a..b"}, "not the URL of an API server"),
        ({**PARTS, "server": b"https://10.0.0.5/" + b"x" * 3000}, "not the URL"),
        ({"config": kubeconfig(user={"exec": {"command": "/bin/sh"}})}, "user has 'exec'"),
        ({"config": kubeconfig(user={"auth-provider": {}})}, "user has 'auth-provider'"),
        ({"config": kubeconfig(user={"tokenFile": "/etc/token"})}, "user has 'tokenFile'"),
        ({"config": kubeconfig(user={"client-key": "/etc/key"})}, "user has 'client-key'"),
        ({"config": kubeconfig(user={})}, "neither a token nor a client certificate"),
        ({"config": kubeconfig(user={"token": "a\nb"})}, "characters that no token has"),
        ({"config": kubeconfig(cluster={"certificate-authority": "/x"})}, "certificate-authority"),
        ({"config": kubeconfig(cluster={"insecure-skip-tls-verify": True})}, "insecure-skip"),
        ({"config": kubeconfig(cluster={"proxy-url": "http://evil"})}, "proxy-url"),
        ({"config": b"x" * 300_000}, "the limit is 262144"),
        ({"config": b"\xff"}, "not the YAML"),
    ],
)
def test_what_is_wrong_is_reported_and_no_value_is_quoted(data, words):
    with pytest.raises(CredentialsError, match=words) as raised:
        endpoint(data)
    assert "Evil" not in str(raised.value)


def test_a_named_key_has_no_stand_in():
    with pytest.raises(CredentialsError, match=r"no key mine. It has ca\.crt, server, token"):
        endpoint(PARTS, key="mine")


def test_a_context_that_the_kubeconfig_lacks_is_named():
    with pytest.raises(CredentialsError, match=r"no context 'gone'\. Use the name of an existing"):
        endpoint({"config": kubeconfig()}, context="gone")


def test_a_surrogate_in_a_url_is_a_sentence():
    escaped = kubeconfig().replace(SERVER.encode(), b'"https://\\uD800:1"')
    with pytest.raises(CredentialsError):
        endpoint({"config": escaped})


def test_authorities_are_certificates_and_not_more_than_can_be_read():
    pem = trustme.CA().cert_pem.bytes()
    assert secret_kubeconfig.check_authorities(pem + pem) == ""
    key = b"-----BEGIN PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----\n"
    for one in (key, pem + key):
        assert "private key" in secret_kubeconfig.check_authorities(one)
    cut = (pem + pem[:200], pem + pem.replace(b"M", b"N", 1))
    for nothing in (b"", b"  \n", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nx\n", *cut):
        assert "no certificates" in secret_kubeconfig.check_authorities(nothing)
    assert "more than" in secret_kubeconfig.check_authorities(pem * 200)
