"""Loader of credentials into an `Endpoint`.

Owns three sources: the pod's mounted account, the bytes of a kubeconfig Secret (strict), and a
person's kubeconfig file (all that kubectl accepts, as far as TLS stays verified).

Hazard: the parser of a Secret must refuse every field that opens a file or starts a program. The
bytes of a Secret come from elsewhere and may be hostile.
"""

import base64
import dataclasses
import functools
import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kubeio.config import extensions, kubeconfig
from kubeio.config.endpoint import Endpoint
from kubeio.config.kubeconfig import Kubeconfig, KubeconfigSection
from kubeio.errors import CredentialsError

ACCOUNT_DIRECTORY = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_CLUSTER_FIELDS = frozenset(
    {"server", "certificate-authority-data", "tls-server-name", "extensions"}
)
_USER_FIELDS = frozenset({"client-certificate-data", "client-key-data", "token", "extensions"})
_CONTEXT_FLAG = "--context"
_MAX_FILE_BYTES = 4 * 1024 * 1024
"""Largest file of a kubeconfig or its certificates in bytes. A system's CA bundle has 250 KB."""
_PLUGINS = {"exec": "command", "auth-provider": "name"}
"""Each plugin with one of its fields."""
_MALFORMED_ERRORS = (AttributeError, LookupError, TypeError, ValueError)
"""Exceptions of the library for a login of a wrong shape."""


def load_in_cluster(directory: Path = ACCOUNT_DIRECTORY) -> Endpoint:
    """Return the API server of the cluster this pod runs in, with the mounted account."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise CredentialsError(
            "this is not a pod, because KUBERNETES_SERVICE_HOST is not set. Use --kubeconfig FILE"
        )
    authority, token_file = directory / "ca.crt", directory / "token"
    try:
        ca = authority.read_bytes()
        token_file.read_bytes()
    except OSError as problem:
        raise CredentialsError(
            f"the service account of this pod cannot be read from {directory}"
            f" ({problem.strerror}). Mount a service account token"
        ) from problem
    shown = f"[{host}]" if ":" in host else host
    return Endpoint(
        server=f"https://{shown}:{port}",
        name="super cluster",
        ca=ca,
        token_file=token_file,
        strict=False,
    )


def load_tenant_kubeconfig(content: bytes, *, name: str = "") -> Endpoint:
    """Return the endpoint of a tenant's kubeconfig, as `load_secret_kubeconfig` reads it."""
    return load_secret_kubeconfig(content, name=name)


def load_secret_kubeconfig(
    content: bytes,
    *,
    name: str = "",
    context: str = "",
    server: str = "",
    tls_server_name: str = "",
    strict: bool = True,
) -> Endpoint:
    """Return the endpoint of a kubeconfig from a Secret.

    Allowed are only inline authority, certificate, key, token, server and tls-server-name.
    Arguments can replace the last two. Raises CredentialsProblem with a sentence that names the
    field.
    """
    document = kubeconfig.parse_kubeconfig(content)
    cluster, user = _select_context(document, document.get_context(context), server=server)
    _refuse_other_fields(cluster, _CLUSTER_FIELDS)
    _refuse_other_fields(user, _USER_FIELDS)
    ca = cluster.get_inline_data("certificate-authority-data")
    if not ca:
        raise CredentialsError(
            "the kubeconfig has no certificate-authority-data, so the server cannot be verified."
            " Add it"
        )
    return Endpoint(
        server=server or cluster.get_text("server"),
        name=name,
        ca=ca,
        client_cert=user.get_inline_data("client-certificate-data"),
        client_key=user.get_inline_data("client-key-data"),
        token=user.get_text("token"),
        tls_server_name=tls_server_name or cluster.get_text("tls-server-name"),
        strict=strict,
    )


async def load_super_endpoint(path: str = "", context: str = "") -> Endpoint:
    """Return the super cluster: the named kubeconfig file, or the pod's own account."""
    return await load_user_kubeconfig(path, context) if path else load_in_cluster()


async def load_user_kubeconfig(
    path: str = "", context: str = "", *, context_flag: str = _CONTEXT_FLAG
) -> Endpoint:
    """Return the endpoint of a person's kubeconfig, found as by kubectl.

    An empty path means $KUBECONFIG, or ~/.kube/config without it. An empty context means the
    current one. `context_flag` is the flag that a message recommends for another context. Login
    plugins need the kubernetes library, which runs them.
    """
    document = _read_user_kubeconfig(path)
    cluster, user = _select_context(document, document.get_context(context, flag=context_flag))
    if cluster.fields.get("insecure-skip-tls-verify"):
        raise CredentialsError(
            f"{cluster.describe_field()} has insecure-skip-tls-verify, which is not supported. Put"
            " the CA into certificate-authority-data instead"
        )
    if any(user.fields.get(plugin) for plugin in _PLUGINS):
        user = dataclasses.replace(user, fields=await _log_in(user))
    elif user.fields.get("username"):
        pair = f"{user.get_text('username')}:{user.get_text('password')}".encode()
        basic = {"authorization": f"Basic {base64.b64encode(pair).decode()}"}
        user = dataclasses.replace(user, fields=basic)
    try:
        return Endpoint(
            server=cluster.get_text("server").rstrip("/"),
            name=cluster.get_text("server"),
            ca=_read_inline_or_file(cluster, "certificate-authority"),
            client_cert=_read_inline_or_file(user, "client-certificate"),
            client_key=_read_inline_or_file(user, "client-key"),
            token=user.get_text("token"),
            token_file=user.get_file("tokenFile"),  # wins over the token, as in kubectl
            authorization=user.get_text("authorization"),
            tls_server_name=cluster.get_text("tls-server-name"),
            strict=False,
            proxy=cluster.get_text("proxy-url"),
        )
    except CredentialsError as problem:
        files = " and ".join(dict.fromkeys((cluster.title, user.title)))
        raise CredentialsError(f"{files}: {problem}") from problem


def get_context_namespace(path: str = "", context: str = "") -> str:
    """Return the namespace of a context in a person's kubeconfig. Empty if it names none."""
    return (
        _read_user_kubeconfig(path).get_context(context, flag=_CONTEXT_FLAG).get_text("namespace")
    )


def get_current_context(path: str = "") -> str:
    """Return the name of the current context in a person's kubeconfig. Empty without one."""
    return _read_user_kubeconfig(path).current_context


def get_connection(path: str = "") -> Mapping[str, Any] | None:
    """Return what `kubectl vc connect` recorded in the current context. None without it."""
    document = _read_user_kubeconfig(path)
    context = document.lists["contexts"].get(document.current_context)
    return extensions.read_extension(context.fields) if context else None


def list_contexts(path: str = "") -> list[str]:
    """Return the names of the contexts in a person's kubeconfig."""
    return list(_read_user_kubeconfig(path).lists["contexts"])


def _select_context(
    document: Kubeconfig, context: KubeconfigSection, *, server: str = ""
) -> tuple[KubeconfigSection, KubeconfigSection]:
    """Return the cluster and the user of a context."""
    cluster = document.get_entry("clusters", context.get_text("cluster"))
    user = context.get_text("user")
    person = (
        document.get_entry("users", user) if user else KubeconfigSection(context.title, "users", {})
    )
    if not (server or cluster.get_text("server")):
        raise CredentialsError(f"{cluster.describe_field()} has no server. Add one")
    return cluster, person


def _refuse_other_fields(section: KubeconfigSection, allowed: frozenset[str]) -> None:
    for field in section.fields:
        if field == "insecure-skip-tls-verify" and section.fields[field] is False:
            continue
        if field not in allowed:
            raise CredentialsError(
                f"{section.describe_field()} has {field!r}, which is not allowed in a Secret. Only"
                f" {', '.join(sorted(allowed - {'extensions'}))} are allowed"
            )


def _read_inline_or_file(section: KubeconfigSection, field: str) -> bytes:
    inline, path = section.get_inline_data(f"{field}-data"), section.get_file(field)
    return inline or (_read(path) if path else b"")


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            content = stream.read(_MAX_FILE_BYTES + 1)
    except OSError as problem:
        raise CredentialsError(f"{path} cannot be read: {problem.strerror}") from problem
    if len(content) > _MAX_FILE_BYTES:  # a device such as /dev/zero has no end
        raise CredentialsError(f"{path} is larger than {_MAX_FILE_BYTES} bytes")
    return content


def expand_path(path: str) -> Path:
    """Return a path with the home directory for `~`. Raises CredentialsError without one."""
    try:
        return Path(path).expanduser()
    except RuntimeError as problem:
        raise CredentialsError(
            f"{path} cannot be found, because the home directory is not known. Write it without ~"
        ) from problem


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as problem:  # a too long name
        raise CredentialsError(f"{path} cannot be read: {problem.strerror}") from problem


def _list_user_files(path: str) -> list[Path]:
    if path:
        return [expand_path(path)]
    listed = os.environ.get("KUBECONFIG", "")
    files = [expand_path(part) for part in listed.split(os.pathsep) if part]
    if listed:
        present = [file for file in files if _exists(file)]
    else:
        present = [file for file in [expand_path("~/.kube/config")] if _exists(file)]
    if not present:
        named = f". KUBECONFIG names {listed}, which does not exist" if listed else ""
        raise CredentialsError(
            "there is no kubeconfig. Use --kubeconfig FILE, set KUBECONFIG, or create"
            f" ~/.kube/config{named}"
        )
    return present


def _read_user_kubeconfig(path: str) -> Kubeconfig:
    files = _list_user_files(path)
    return kubeconfig.merge_kubeconfigs(
        [_parse_user_file(_read(file), str(file)) for file in files]
    )


# One command reads the same file several times, and YAML takes some 10 ms for it.
_parse_user_file = functools.lru_cache(maxsize=8)(kubeconfig.parse_kubeconfig)


class _ConfigSection(dict[str, Any]):
    """A mapping with the method that the library's plugin runner needs."""

    safe_get = dict.get


async def _log_in(user: KubeconfigSection) -> dict[str, Any]:
    """Run a login plugin with the kubernetes library, and return the resulting user's fields."""
    login, provider = (user.get_section(*each) for each in _PLUGINS.items())
    try:
        from kubernetes.aio.config import ConfigException  # noqa: PLC0415 - heavy, seldom needed
        from kubernetes.aio.config.exec_provider import ExecProvider  # noqa: PLC0415 - see above
    except ImportError as problem:
        raise CredentialsError(
            "this kubeconfig uses a login plugin. Install the Python package `kubernetes` for it,"
            " or use a context with a certificate or a token"
        ) from problem
    try:
        if login.fields:
            given = await ExecProvider(_ConfigSection(login.fields)).run()  # type: ignore[no-untyped-call]
            return _parse_plugin_status(given if isinstance(given, dict) else {})
        return {"authorization": await _fetch_provider_header(provider.fields)}
    except FileNotFoundError as problem:
        raise CredentialsError(
            f"{user.describe_field()}: the login plugin {problem.filename!r} was not found. Install"
            " it, or use another context"
        ) from problem
    except (ConfigException, OSError) as problem:
        raise CredentialsError(
            f"{user.describe_field()}: the login of the kubeconfig failed: {problem}"
        ) from problem
    except _MALFORMED_ERRORS as problem:
        raise CredentialsError(
            f"{user.describe_field()}: the login or its answer cannot be read. Compare it with"
            " https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/"
        ) from problem


def _parse_plugin_status(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user's fields from a plugin's answer."""
    if status.get("token"):
        return {"token": status["token"]}
    cert, key = status.get("clientCertificateData"), status.get("clientKeyData")
    if cert and key:
        return {
            "client-certificate-data": base64.b64encode(cert.encode()).decode(),
            "client-key-data": base64.b64encode(key.encode()).decode(),
        }
    raise CredentialsError(
        "the login plugin of the kubeconfig returned no credential. Run `kubectl get --raw"
        " /version` with the same context to see the reason"
    )


async def _fetch_provider_header(provider: Mapping[str, Any]) -> str:
    """Return the Authorization header of an auth-provider (OIDC)."""
    from kubernetes.aio.config import load_kube_config_from_dict  # noqa: PLC0415 - see above

    # Only the user is passed. With an authority the library would leave files behind.
    document = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": "https://it.invalid"}}],
        "users": [{"name": "it", "user": {"auth-provider": dict(provider)}}],
    }
    found = SimpleNamespace(api_key={})
    await load_kube_config_from_dict(document, client_configuration=found)  # type: ignore[no-untyped-call]
    header = str(found.api_key.get("BearerToken") or "")
    if not header:
        raise CredentialsError(
            "the auth-provider of the kubeconfig returned no token. Log in with kubectl first"
        )
    return header
