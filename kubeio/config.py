"""Find credentials and turn them into an `Endpoint`.

Owns three sources: the pod's mounted account, the bytes of a kubeconfig Secret (strict), and a
person's kubeconfig file (whatever kubectl takes, as far as TLS stays verified). Hazard: the bytes
of a Secret come from elsewhere, so that parser never opens a file, never starts a program, and
refuses every field that would ask for it.
"""

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from kubeio.endpoint import Endpoint
from kubeio.errors import CredentialsProblem

ACCOUNT_DIRECTORY = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MAX_KUBECONFIG = 256 * 1024
"""Bytes; ours have 6 KiB, and a Secret may hold a megabyte of YAML aliases."""

_CLUSTER_FIELDS = frozenset(
    {"server", "certificate-authority-data", "tls-server-name", "extensions"}
)
_USER_FIELDS = frozenset({"client-certificate-data", "client-key-data", "token", "extensions"})
_PLUGINS = ("exec", "auth-provider")


def in_cluster(directory: Path = ACCOUNT_DIRECTORY) -> Endpoint:
    """Return the API server of the cluster this pod runs in, with the mounted account."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise CredentialsProblem(
            "this is no pod: KUBERNETES_SERVICE_HOST is not set; give --kubeconfig FILE"
        )
    authority, token_file = directory / "ca.crt", directory / "token"
    try:
        ca = authority.read_bytes()
        token_file.read_bytes()
    except OSError as problem:
        raise CredentialsProblem(
            f"the account of this pod cannot be read from {directory} ({problem.strerror}); mount"
            " a service account token"
        ) from problem
    shown = f"[{host}]" if ":" in host else host
    return Endpoint(
        server=f"https://{shown}:{port}",
        name="super cluster",
        ca=ca,
        token_file=token_file,
        strict=False,
    )


def tenant_kubeconfig(content: bytes, *, name: str = "") -> Endpoint:
    """Return the endpoint of a tenant's kubeconfig, as `secret_kubeconfig` reads it."""
    return secret_kubeconfig(content, name=name)


def secret_kubeconfig(
    content: bytes,
    *,
    name: str = "",
    context: str = "",
    server: str = "",
    tls_server_name: str = "",
    strict: bool = True,
) -> Endpoint:
    """Return the endpoint of a kubeconfig that came out of a Secret.

    Inline authority, certificate, key, token, server and tls-server-name are all it may have; the
    last two may be said here instead. Raises CredentialsProblem with a sentence that names the
    field.
    """
    document = _parse(content)
    cluster, user = _current(document, context or None, server=server)
    _refuse_others(cluster, _CLUSTER_FIELDS, "cluster")
    _refuse_others(user, _USER_FIELDS, "user")
    ca = _inline(cluster, "certificate-authority-data")
    if not ca:
        raise CredentialsProblem(
            "the kubeconfig has no certificate-authority-data; without it the server could be"
            " anybody"
        )
    return Endpoint(
        server=server or _text(cluster, "server"),
        name=name,
        ca=ca,
        client_cert=_inline(user, "client-certificate-data"),
        client_key=_inline(user, "client-key-data"),
        token=_text(user, "token"),
        tls_server_name=tls_server_name or _text(cluster, "tls-server-name"),
        strict=strict,
    )


async def super_endpoint(kubeconfig: str = "", context: str = "") -> Endpoint:
    """Return the super cluster: the named kubeconfig file, else the pod's own account."""
    return await user_kubeconfig(kubeconfig, context) if kubeconfig else in_cluster()


async def user_kubeconfig(path: str = "", context: str = "") -> Endpoint:
    """Return the endpoint of a person's kubeconfig, as kubectl would find it.

    An empty path means $KUBECONFIG, else ~/.kube/config; an empty context the current one. Login
    plugins are run by the kubernetes library, which must then be installed.
    """
    files = _user_files(path)
    document = _merge([(file, _parse(_read(file))) for file in files])
    cluster, user = _current(document, context or None)
    if cluster.get("insecure-skip-tls-verify"):
        raise CredentialsProblem(
            "the kubeconfig says insecure-skip-tls-verify, which this program does not do; put the"
            " authority into certificate-authority-data instead"
        )
    if any(user.get(plugin) for plugin in _PLUGINS):
        user = await _log_in(user)
    elif user.get("username"):
        pair = f"{_text(user, 'username')}:{_text(user, 'password')}".encode()
        user = {"authorization": f"Basic {base64.b64encode(pair).decode()}"}
    token_file = _text(user, "tokenFile")
    return Endpoint(
        server=_text(cluster, "server").rstrip("/"),
        name=_text(cluster, "server"),
        ca=_inline_or_file(cluster, "certificate-authority"),
        client_cert=_inline_or_file(user, "client-certificate"),
        client_key=_inline_or_file(user, "client-key"),
        token=_text(user, "token"),
        token_file=Path(token_file) if token_file else None,  # wins over the token, as in kubectl
        authorization=_text(user, "authorization"),
        tls_server_name=_text(cluster, "tls-server-name"),
        strict=False,
        proxy=_text(cluster, "proxy-url"),
    )


def context_namespace(path: str = "", context: str = "") -> str:
    """Return the namespace that a person's kubeconfig context names; empty when it names none."""
    document = _merge([(file, _parse(_read(file))) for file in _user_files(path)])
    wanted = context or document.get("current-context")
    chosen = _named(document, "contexts", "context", wanted)
    return _text(chosen, "namespace")


def contexts(path: str = "") -> list[str]:
    """Return the names of the contexts in a person's kubeconfig."""
    document = _merge([(file, _parse(_read(file))) for file in _user_files(path)])
    return [str(entry["name"]) for entry in document["contexts"]]


def _parse(content: bytes) -> Mapping[str, Any]:
    if len(content) > MAX_KUBECONFIG:
        raise CredentialsProblem(
            f"the kubeconfig has {len(content)} bytes; at most {MAX_KUBECONFIG} are read"
        )
    try:
        document = yaml.load(content, Loader=_Loader)  # noqa: S506 - a SafeLoader, see below
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as problem:
        # The parser's own message quotes the text around the fault, which may be a key.
        raise CredentialsProblem("the kubeconfig is not the YAML of one document") from problem
    if not isinstance(document, dict) or document.get("kind", "Config") != "Config":
        raise CredentialsProblem("the kubeconfig is not an object of kind Config")
    return document


class _Loader(yaml.SafeLoader):
    """Plain data only, and no aliases: a few nested ones spell gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not taken")
        return super().compose_node(parent, index)


def _current(
    document: Mapping[str, Any], context: str | None, *, server: str = ""
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    wanted = context or document.get("current-context")
    if not wanted:
        raise CredentialsProblem("the kubeconfig has no current-context; name a context")
    chosen = _named(document, "contexts", "context", wanted)
    cluster = _named(document, "clusters", "cluster", chosen.get("cluster"))
    user = _named(document, "users", "user", chosen["user"]) if chosen.get("user") else {}
    if not (server or cluster.get("server")):
        raise CredentialsProblem("the kubeconfig names no server for its cluster")
    return cluster, user


def _named(document: Mapping[str, Any], many: str, one: str, name: Any) -> dict[str, Any]:
    entries = document.get(many) or []
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("name") == name:
            value = entry.get(one) or {}
            if isinstance(value, dict):
                return value
    raise CredentialsProblem(f"the kubeconfig has no {one} {name!r} in {many}")


def _refuse_others(section: Mapping[str, Any], allowed: frozenset[str], where: str) -> None:
    for field in section:
        if field == "insecure-skip-tls-verify" and section[field] is False:
            continue
        if field not in allowed:
            raise CredentialsProblem(
                f"the kubeconfig's {where} has {field!r}, which is not taken from a Secret; only"
                f" {', '.join(sorted(allowed - {'extensions'}))} are"
            )


def _text(section: Mapping[str, Any], field: str) -> str:
    value = section.get(field) or ""
    if not isinstance(value, str):
        raise CredentialsProblem(f"the kubeconfig's {field} is no text")
    return value.strip()


def _inline(section: Mapping[str, Any], field: str) -> bytes:
    try:
        return base64.b64decode(_text(section, field), validate=True)
    except (binascii.Error, ValueError) as problem:
        raise CredentialsProblem(f"the kubeconfig's {field} is not base64") from problem


def _inline_or_file(section: Mapping[str, Any], field: str) -> bytes:
    inline = _inline(section, f"{field}-data")
    path = _text(section, field)
    return inline or (_read(Path(path)) if path else b"")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise CredentialsProblem(f"{path} cannot be read: {problem.strerror}") from problem


def _user_files(path: str) -> list[Path]:
    if path:
        return [Path(path).expanduser()]
    listed = os.environ.get("KUBECONFIG", "")
    files = [Path(part).expanduser() for part in listed.split(os.pathsep) if part]
    if listed:
        present = [file for file in files if file.exists()]
    else:
        present = [file for file in [Path("~/.kube/config").expanduser()] if file.exists()]
    if not present:
        named = f"; KUBECONFIG names {listed}, which is not there" if listed else ""
        raise CredentialsProblem(
            "there is no kubeconfig: give --kubeconfig FILE, set KUBECONFIG, or make"
            f" ~/.kube/config{named}"
        )
    return present


def _merge(documents: Sequence[tuple[Path, Mapping[str, Any]]]) -> dict[str, Any]:
    """Join files as kubectl does: the first to name something wins; paths become absolute."""
    merged: dict[str, Any] = {"apiVersion": "v1", "kind": "Config"}
    for many, one in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
        seen: dict[str, Any] = {}
        for file, document in documents:
            for entry in document.get(many) or []:
                section = _absolute(entry.get(one) or {}, file)
                seen.setdefault(entry.get("name", ""), section)
        merged[many] = [{"name": name, one: section} for name, section in seen.items()]
    found = (document.get("current-context") for _, document in documents)
    merged["current-context"] = next((context for context in found if context), "")
    return merged


def _absolute(section: Mapping[str, Any], file: Path) -> dict[str, Any]:
    paths = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
    resolved = {key: str(file.absolute().parent / section[key]) for key in paths if key in section}
    return {**section, **resolved}


class _Section(dict[str, Any]):
    """A mapping as the library's plugin runner wants it."""

    safe_get = dict.get


async def _log_in(user: Mapping[str, Any]) -> dict[str, Any]:
    """Let the kubernetes library run a login plugin and return the user it amounts to."""
    try:
        from kubernetes.aio.config import ConfigException  # noqa: PLC0415 - heavy, seldom needed
        from kubernetes.aio.config.exec_provider import ExecProvider  # noqa: PLC0415 - see above
    except ImportError as problem:
        raise CredentialsProblem(
            "this kubeconfig uses a login plugin, for which the Python package `kubernetes` must"
            " be installed; or use a context with a certificate or a token"
        ) from problem
    try:
        if user.get("exec"):
            given = await ExecProvider(_Section(user["exec"])).run()  # type: ignore[no-untyped-call]
            return _given(given if isinstance(given, dict) else {})
        return {"authorization": await _provider(user)}
    except (ConfigException, OSError) as problem:
        raise CredentialsProblem(f"the login of the kubeconfig failed: {problem}") from problem


def _given(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user that a plugin's answer means."""
    if status.get("token"):
        return {"token": status["token"]}
    cert, key = status.get("clientCertificateData"), status.get("clientKeyData")
    if cert and key:
        return {
            "client-certificate-data": base64.b64encode(cert.encode()).decode(),
            "client-key-data": base64.b64encode(key.encode()).decode(),
        }
    raise CredentialsProblem(
        "the login plugin of the kubeconfig gave no credential; run `kubectl get --raw /version`"
        " with the same context to see why"
    )


async def _provider(user: Mapping[str, Any]) -> str:
    """Return the Authorization header of an auth-provider (OIDC)."""
    from kubernetes.aio.config import load_kube_config_from_dict  # noqa: PLC0415 - see above

    # Only the user goes in: with an authority the library would leave files behind.
    document = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": "https://it.invalid"}}],
        "users": [{"name": "it", "user": {"auth-provider": user["auth-provider"]}}],
    }
    found = SimpleNamespace(api_key={})
    await load_kube_config_from_dict(document, client_configuration=found)  # type: ignore[no-untyped-call]
    header = str(found.api_key.get("BearerToken") or "")
    if not header:
        raise CredentialsProblem(
            "the auth-provider of the kubeconfig gave no token; log in with kubectl first"
        )
    return header
