"""Accepted kubeconfigs, and errors about the others."""

from __future__ import annotations

import base64
import sys

import pytest
import yaml

from kubeio.config import loading
from kubeio.errors import CredentialsError


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _document(cluster=None, user=None, **others):
    base = {"server": "https://10.96.8.1:443", "certificate-authority-data": _b64("CA")}
    person = {"client-certificate-data": _b64("CERT"), "client-key-data": _b64("KEY")}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": base | (cluster or {})}],
        "users": [{"name": "u", "user": person | (user or {})}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    } | others


def _bytes(document) -> bytes:
    return yaml.safe_dump(document).encode()


def test_inline_values_are_taken():
    content = _bytes(_document({"tls-server-name": "apiserver-svc.root"}, {"token": "tok"}))
    found = loading.load_tenant_kubeconfig(content, name="tenant a")
    assert (found.server, found.name) == ("https://10.96.8.1:443", "tenant a")
    assert (found.ca, found.client_cert, found.client_key) == (b"CA", b"CERT", b"KEY")
    assert (found.token, found.tls_server_name) == ("tok", "apiserver-svc.root")
    assert found.strict is True
    assert found.token_file is None


@pytest.mark.parametrize(
    ("section", "field", "value"),
    [
        ("cluster", "certificate-authority", "/etc/passwd"),
        ("cluster", "insecure-skip-tls-verify", True),
        ("cluster", "proxy-url", "http://evil"),
        ("cluster", "disable-compression", True),
        ("user", "exec", {"command": "/bin/sh"}),
        ("user", "auth-provider", {"name": "oidc"}),
        ("user", "tokenFile", "/var/run/secrets/token"),
        ("user", "client-certificate", "/etc/cert"),
        ("user", "client-key", "/etc/key"),
        ("user", "username", "admin"),
        ("user", "password", "x"),
        ("user", "as", "system:admin"),
        ("user", "impersonate", "x"),
    ],
)
def test_whatever_asks_for_more_is_refused_by_name(section, field, value):
    document = _document(**{section: {field: value}})
    with pytest.raises(CredentialsError, match=f"s.0..{section} has '{field}'"):
        loading.load_tenant_kubeconfig(_bytes(document))


def test_saying_that_tls_is_verified_is_fine():
    loading.load_tenant_kubeconfig(_bytes(_document({"insecure-skip-tls-verify": False})))


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (_document({"certificate-authority-data": ""}), "no certificate-authority-data"),
        (_document({"certificate-authority-data": "%%"}), "not base64"),
        (_document({"server": ""}), "has no server"),
        (_document({"server": "http://10.0.0.1"}), "not an https URL"),
        (_document({"server": ["x"]}), "server is not a string"),
        (_document(user={"client-key-data": ""}), "without the other"),
        (_document(**{"current-context": "y"}), "no context 'y'"),
        (_document(**{"current-context": ""}), "no current-context"),
        (_document(clusters=None), "no cluster 'c'"),
        (_document(clusters="text"), "the kubeconfig: clusters is not a list"),
        (_document(users=[None, 3]), r"the kubeconfig: users\[0\] is not an object"),
        (_document(kind="Pod"), "not an object of kind Config"),
        ([], "not an object of kind Config"),
        (None, "it is empty"),
    ],
)
def test_what_is_wrong_is_reported(document, words):
    with pytest.raises(CredentialsError, match=words):
        loading.load_tenant_kubeconfig(_bytes(document))


# A person's own file.


async def test_files_beside_the_kubeconfig_are_read(tmp_path):
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(name.upper())
    document = _document()
    document["clusters"][0]["cluster"] = {
        "server": "https://super:6443/",
        "certificate-authority": "ca",
    }
    document["users"][0]["user"] = {"client-certificate": "cert", "client-key": "key"}
    (tmp_path / "config").write_bytes(_bytes(document))
    found = await loading.load_user_kubeconfig(str(tmp_path / "config"))
    assert (found.server, found.strict) == ("https://super:6443", False)
    assert (found.ca, found.client_cert, found.client_key) == (b"CA", b"CERT", b"KEY")


async def test_a_token_file_stays_a_file(tmp_path):
    document = _document()
    document["users"][0]["user"] = {"tokenFile": "tok"}
    (tmp_path / "config").write_bytes(_bytes(document))
    found = await loading.load_user_kubeconfig(str(tmp_path / "config"))
    assert found.token_file == tmp_path / "tok"


async def test_unverified_tls_is_refused_there_too(tmp_path):
    (tmp_path / "config").write_bytes(_bytes(_document({"insecure-skip-tls-verify": True})))
    with pytest.raises(CredentialsError, match="is not supported"):
        await loading.load_user_kubeconfig(str(tmp_path / "config"))


MISSHAPEN = [
    ({"clusters": "oops"}, "clusters is not a list"),
    ({"clusters": {"a": "b"}}, "clusters is not a list"),
    ({"clusters": [None]}, "clusters[0] is not an object"),
    ({"clusters": ["a"]}, "clusters[0] is not an object"),
    ({"clusters": [{"name": "c", "cluster": "sesame"}]}, "clusters[0].cluster is not an object"),
    ({"users": [{"name": "u"}, {"name": 5}]}, "users[1].name is not a string"),
    ({"contexts": [{"name": "x", "context": ["c"]}]}, "contexts[0].context is not an object"),
    ({"contexts": [{"name": "x", "context": {"cluster": 5}}]}, "contexts[0].context.cluster is no"),
    ({"current-context": ["x"]}, "current-context is not a string"),
    ({"cluster": {"server": 5}}, "clusters[0].cluster.server is not a string"),
    ({"cluster": {"certificate-authority-data": "sesame!"}}, "authority-data is not base64"),
    ({"cluster": {"server": "https://sesame:99999"}}, "the server is not the URL"),
    ({"cluster": {"server": "https://[::1"}}, "the server is not the URL"),
    ({"cluster": {"server": "http://me:sesame@10.0.0.5"}}, "the server is not an https URL"),
    ({"user": {"token": "a\nsesame"}}, "the token has characters that no token has"),
    ({"user": {"client-key-data": ""}}, "without the other"),
]


def _changed(change):
    return _bytes(_document(**change))


@pytest.mark.parametrize(("change", "words"), MISSHAPEN)
async def test_a_shape_that_is_wrong_is_reported_with_its_place(tmp_path, change, words):
    (tmp_path / "config").write_bytes(_changed(change))
    with pytest.raises(CredentialsError) as raised:
        await loading.load_user_kubeconfig(str(tmp_path / "config"))
    assert str(raised.value).startswith(f"{tmp_path}/config: ")
    assert words in str(raised.value)


@pytest.mark.parametrize(("change", "words"), MISSHAPEN)
def test_the_same_is_reported_of_a_secret_and_nothing_of_what_is_in_it(change, words):
    with pytest.raises(CredentialsError) as raised:
        loading.load_secret_kubeconfig(_changed(change))
    assert words in str(raised.value)
    assert "sesame" not in str(raised.value)


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"exec": "foo"}, "users[0].user.exec is not an object"),
        ({"auth-provider": ["oidc"]}, "users[0].user.auth-provider is not an object"),
        (
            {"exec": {"command": "true", "apiVersion": "v1", "env": 5}},
            "the login or its answer cannot be read",
        ),
        ({"exec": {"command": 5, "apiVersion": "v1"}}, "the login or its answer cannot be read"),
        ({"username": 5}, "users[0].user.username is not a string"),
        ({"client-certificate": 5}, "users[0].user.client-certificate is not a string"),
    ],
)
async def test_a_login_of_a_wrong_shape_is_reported_with_its_place(tmp_path, user, words):
    document = _document()
    document["users"][0]["user"] = user
    (tmp_path / "config").write_bytes(_bytes(document))
    with pytest.raises(CredentialsError) as raised:
        await loading.load_user_kubeconfig(str(tmp_path / "config"))
    assert str(raised.value).startswith(f"{tmp_path}/config: ")
    assert words in str(raised.value)


async def test_the_files_are_named(tmp_path, monkeypatch):
    """The error names the known contexts, and the flag that selects one."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(_bytes(_document(**{"current-context": ""})))
    two.write_bytes(_bytes(_document(clusters=[None])))
    monkeypatch.setenv("KUBECONFIG", f"{one}:{two}")
    with pytest.raises(CredentialsError, match=rf"^{two}: clusters\[0\] is not an object"):
        await loading.load_user_kubeconfig()
    other = _document(contexts=[{"name": "y"}, {"name": "x"}], **{"current-context": ""})
    two.write_bytes(_bytes(other))
    with pytest.raises(CredentialsError, match=f"^{one} and {two} has no current-context. Use"):
        await loading.load_user_kubeconfig()
    with pytest.raises(CredentialsError, match=r"context 'z'\. Use --context NAME, .*: y, x$"):
        await loading.load_user_kubeconfig("", "z")
    with pytest.raises(CredentialsError, match="Use --other NAME"):
        await loading.load_user_kubeconfig(str(one), "z", context_flag="--other")
    one.write_bytes(_bytes(_document(contexts=[])))
    with pytest.raises(CredentialsError, match="It has no contexts"):
        await loading.load_user_kubeconfig(str(one))


async def test_broken_yaml_is_reported_with_line_and_column(tmp_path):
    (tmp_path / "config").write_text("kind: Config\nusers: [sesame: {\n")
    with pytest.raises(CredentialsError, match=f"^{tmp_path}/config .*line 3, column 1$"):
        await loading.load_user_kubeconfig(str(tmp_path / "config"))
    (tmp_path / "config").write_text("a: &a x\nb: *a\n")
    with pytest.raises(CredentialsError, match=r"line 2, column 4$"):
        await loading.load_user_kubeconfig(str(tmp_path / "config"))


def test_the_contexts_of_a_secret_are_not_reported():
    content = _bytes(_document(contexts=[{"name": "sesame"}]))
    with pytest.raises(CredentialsError) as raised:
        loading.load_secret_kubeconfig(content, context="z")
    assert "has no context 'z'" in str(raised.value)
    assert "sesame" not in str(raised.value)


async def test_the_named_context_wins(tmp_path):
    document = _document()
    document["contexts"].append({"name": "y", "context": {"cluster": "c"}})
    (tmp_path / "config").write_bytes(_bytes(document))
    assert (await loading.load_user_kubeconfig(str(tmp_path / "config"), "y")).client_cert == b""
    with pytest.raises(CredentialsError, match="no context 'z'"):
        await loading.load_user_kubeconfig(str(tmp_path / "config"), "z")


def test_contexts_and_their_namespaces_can_be_asked_for(tmp_path):
    document = _document()
    document["contexts"].append({"name": "y", "context": {"cluster": "c", "namespace": "ns"}})
    (tmp_path / "config").write_bytes(_bytes(document))
    path = str(tmp_path / "config")
    assert loading.list_contexts(path) == ["x", "y"]
    assert loading.get_context_namespace(path, "y") == "ns"
    assert loading.get_context_namespace(path) == ""


async def test_the_environment_lists_files_and_the_first_to_name_something_wins(
    tmp_path, monkeypatch
):
    first = _document({"server": "https://first"}, **{"current-context": ""})
    (tmp_path / "one").write_bytes(_bytes(first))
    (tmp_path / "two").write_bytes(_bytes(_document({"server": "https://second"})))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/one:{tmp_path}/none:{tmp_path}/two")
    assert (await loading.load_user_kubeconfig()).server == "https://first"


async def test_no_kubeconfig_at_all_reports_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/none")
    with pytest.raises(CredentialsError, match="Use --kubeconfig FILE"):
        await loading.load_user_kubeconfig()


def _plugin(tmp_path, status: str):
    program = tmp_path / "login"
    api = "client.authentication.k8s.io/v1"
    program.write_text(
        f'#!/bin/sh\necho \'{{"apiVersion":"{api}","kind":"ExecCredential",{status}}}\'\n'
    )
    program.chmod(0o700)
    document = _document()
    document["users"][0]["user"] = {
        "exec": {"apiVersion": api, "command": str(program), "interactiveMode": "Never"}
    }
    (tmp_path / "config").write_bytes(_bytes(document))
    return str(tmp_path / "config")


async def test_a_login_plugin_gives_a_token(tmp_path):
    path = _plugin(tmp_path, '"status":{"token":"abc"}')
    assert (await loading.load_user_kubeconfig(path)).token == "abc"


async def test_a_login_plugin_gives_a_certificate(tmp_path):
    status = '"status":{"clientCertificateData":"CERT","clientKeyData":"KEY"}'
    found = await loading.load_user_kubeconfig(_plugin(tmp_path, status))
    assert (found.client_cert, found.client_key) == (b"CERT", b"KEY")


async def test_a_login_plugin_that_fails_is_a_sentence(tmp_path):
    path = _plugin(tmp_path, '"status":{}')
    with pytest.raises(CredentialsError, match="returned no credential"):
        await loading.load_user_kubeconfig(path)


async def test_a_login_plugin_that_is_not_there_is_a_sentence(tmp_path):
    path = _plugin(tmp_path, '"status":{}')
    (tmp_path / "login").unlink()
    with pytest.raises(CredentialsError, match=r"login plugin .* was not found\. Install"):
        await loading.load_user_kubeconfig(path)


async def test_a_password_is_a_basic_header(tmp_path):
    document = _document()
    document["users"][0]["user"] = {"username": "me", "password": "it"}
    (tmp_path / "config").write_bytes(_bytes(document))
    found = await loading.load_user_kubeconfig(str(tmp_path / "config"))
    assert found.authorization == "Basic bWU6aXQ="


async def test_without_the_library_a_plugin_is_a_sentence(tmp_path, monkeypatch):
    path = _plugin(tmp_path, '"status":{"token":"abc"}')
    monkeypatch.setitem(sys.modules, "kubernetes.aio.config", None)
    with pytest.raises(CredentialsError, match="package `kubernetes` for it"):
        await loading.load_user_kubeconfig(path)


# In a pod.


def _account(tmp_path, monkeypatch, host="10.96.0.1"):
    (tmp_path / "ca.crt").write_text("CA")
    (tmp_path / "token").write_text("tok")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")


def test_a_pod_finds_its_cluster(tmp_path, monkeypatch):
    _account(tmp_path, monkeypatch)
    found = loading.load_in_cluster(tmp_path)
    assert (found.server, found.ca) == ("https://10.96.0.1:443", b"CA")
    assert found.token_file == tmp_path / "token"
    assert found.strict is False


def test_an_ipv6_cluster_gets_brackets(tmp_path, monkeypatch):
    _account(tmp_path, monkeypatch, host="fd00::1")
    assert loading.load_in_cluster(tmp_path).server == "https://[fd00::1]:443"


async def test_outside_a_pod_the_flag_is_named(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(CredentialsError, match="Use --kubeconfig FILE"):
        await loading.load_super_endpoint()


async def test_the_flag_wins_over_the_pod(tmp_path, monkeypatch):
    _account(tmp_path, monkeypatch)
    (tmp_path / "config").write_bytes(_bytes(_document()))
    found = await loading.load_super_endpoint(str(tmp_path / "config"))
    assert found.server == "https://10.96.8.1:443"


def test_a_pod_without_an_account_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    with pytest.raises(CredentialsError, match="Mount a service account token"):
        loading.load_in_cluster(tmp_path)
