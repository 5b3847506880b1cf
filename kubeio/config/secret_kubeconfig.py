"""Credentials for another cluster from a Secret, in any of the common shapes.

Owns the shapes, and the refusal of addresses that mean a different machine on each machine. Pure
except for exceptions.

Hazard: only the fields named here may be used, and no message may quote a value that could be a
key. The Secret may be hostile, so no file is opened and no program is started.
"""

import ipaddress
import socket
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from kubeio.config import loading
from kubeio.config.endpoint import NO_SERVER_MESSAGE, Endpoint
from kubeio.errors import CredentialsError
from tenancy import addresses
from tenancy.addresses import IPAddress

KUBECONFIG_KEYS = ("kubeconfig", "config")
"""Keys that may hold a kubeconfig."""
AUTHORITY_KEYS = ("ca.crt", "ca")
SERVER_KEY, TOKEN_KEY = "server", "token"
KUBELET_AUTHORITIES_KEY = "kubelet-ca.crt"
"""Key of the authorities of the cluster's kubelets, if they differ from the API server's."""
MAX_BYTES = 64 * 1024
"""Largest authority and token in bytes. Real ones have a few thousand."""
MAX_URL = 2048


class LocalAddressError(CredentialsError):
    """The server's address means a different machine on each machine that reads it."""


def parse_endpoint(
    data: Mapping[str, bytes],
    *,
    name: str,
    key: str = "",
    context: str = "",
    server: str = "",
    tls_server_name: str = "",
) -> Endpoint:
    """Return the endpoint that a Secret's data describe.

    The data hold a kubeconfig under `key`, `kubeconfig` or `config`, or else `server`, `ca.crt` and
    `token`. `server` and `tls_server_name` replace its values. Raises CredentialsProblem.
    """
    wanted = (key,) if key else KUBECONFIG_KEYS
    found = next((data[each] for each in wanted if each in data), None)
    if found is not None:
        made = loading.load_secret_kubeconfig(
            found,
            name=name,
            context=context,
            server=server,
            tls_server_name=tls_server_name,
            strict=False,
        )
    elif key or TOKEN_KEY not in data:
        keys = " or ".join(wanted)
        others = "" if key else f", nor {TOKEN_KEY} with {AUTHORITY_KEYS[0]} and {SERVER_KEY}"
        raise CredentialsError(
            f"the Secret has no key {keys}{others}. It has {_describe_keys(data)}"
        )
    else:
        made = _parse_separate_keys(data, name=name, server=server, tls_server_name=tls_server_name)
    check_server(made)
    if not (made.token or made.client_cert):
        raise CredentialsError(
            "the kubeconfig has neither a token nor a client certificate. Add one of them, because"
            " the target cluster cannot identify the components without it"
        )
    return made


def check_authorities(pem: bytes) -> str:
    """Return why bytes are no usable authorities, as half a sentence, or an empty string."""
    if len(pem) > MAX_BYTES:
        return f"has more than {MAX_BYTES} bytes"
    if b"PRIVATE KEY" in pem:
        return "has a private key, which only the CA itself may have"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:  # load all, because later users trust all of them or none
        context.load_verify_locations(cadata=pem.decode("ascii"))
    except (ssl.SSLError, ValueError):
        return "has no certificates in PEM, or one that cannot be read"
    return "" if context.cert_store_stats()["x509"] else "has no certificates in PEM"


def check_not_local(host: str) -> str:
    """Return why a host name or address cannot mean another machine, or an empty string."""
    address = _parse_address(host)
    if address is None:
        is_local = host.lower().rstrip(".").rpartition(".")[2] == "localhost"
        return "is the machine itself" if is_local else ""
    return addresses.check_remote_address(address)


def _parse_separate_keys(
    data: Mapping[str, bytes], *, name: str, server: str, tls_server_name: str
) -> Endpoint:
    given = server or _get_text(data, SERVER_KEY)
    if not given:
        raise CredentialsError(
            f"the Secret has no key {SERVER_KEY}. Add the URL of the API server, or set spec.server"
        )
    authority = next((data[each] for each in AUTHORITY_KEYS if each in data), b"")
    if not authority.strip():
        raise CredentialsError(
            f"the Secret has no key {AUTHORITY_KEYS[0]}, so the server cannot be verified. Add it"
        )
    if len(authority) > MAX_BYTES:
        raise CredentialsError(f"{AUTHORITY_KEYS[0]} has more than {MAX_BYTES} bytes")
    return Endpoint(
        server=given,
        name=name,
        ca=authority,
        token=_get_text(data, TOKEN_KEY),
        tls_server_name=tls_server_name,
        strict=False,
    )


def _get_text(data: Mapping[str, bytes], key: str) -> str:
    value = data.get(key, b"").strip()
    if len(value) > MAX_BYTES:
        raise CredentialsError(f"{key} has more than {MAX_BYTES} bytes")
    try:
        return value.decode("ascii")
    except UnicodeDecodeError as problem:
        raise CredentialsError(f"{key} is not plain text. Write it again") from problem


def check_server(made: Endpoint) -> None:
    """Raise CredentialsProblem unless the server can be another machine's API server."""
    server = made.server
    url = urlsplit(server)
    is_usable = len(server) <= MAX_URL and (url.port is None or url.port > 0)
    if not is_usable or url.username is not None or url.query or url.fragment:
        raise CredentialsError(NO_SERVER_MESSAGE)
    problem = check_not_local(url.hostname or "")
    if problem:
        raise LocalAddressError(
            f"the server {server} {problem}. Set spec.server to the address at which the"
            " components reach it, such as https://10.0.0.5:6443"
        )
    if url.scheme != "https":
        raise CredentialsError(f"the server {server} does not use https. Use TLS")


def _parse_address(host: str) -> IPAddress | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    try:  # 127.1 and 2130706433 are addresses for `connect`, too
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, UnicodeEncodeError):
        return None


def _describe_keys(data: Mapping[str, bytes]) -> str:
    shown = sorted(each for each in data)[:5]
    return ", ".join(shown) if shown else "none at all"
