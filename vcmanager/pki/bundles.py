"""Conversion of certificates to Secrets and kubeconfigs, and back.

Owns data keys and document shapes. Must not know why a document is written. Hazard: the bodies
contain keys. Neither this module nor its callers may log them.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from kubeio.api.yaml_writer import to_yaml
from tenancy import wellknown
from vcmanager.pki.authority import Pair

Manifest = dict[str, Any]

CERTIFICATE = "tls.crt"
KEY = "tls.key"
_CREDENTIAL = re.compile(rb"^ +(client-certificate|client-key)-data: (\S+)$", re.MULTILINE)
"""The form written by this module.

Other writers of a Secret may use any YAML, which is slow to parse.
"""


def secret_of(name: str, namespace: str, pair: Pair) -> Manifest:
    """Return the Secret that keeps a certificate, or a public key, and its private key."""
    return _secret(
        name, namespace, "kubernetes.io/tls", {CERTIFICATE: pair.certificate, KEY: pair.key}
    )


def trust_secret_of(name: str, namespace: str, certificate: bytes) -> Manifest:
    """Return a Secret with an authority's certificate and without its key."""
    return _secret(name, namespace, "Opaque", {CERTIFICATE: certificate})


def pair_of(secret: Mapping[str, Any] | None) -> Pair | None:
    """Return the contents of a Secret, or None without a Secret. Missing values are empty."""
    if secret is None:
        return None
    return Pair(data_of(secret, CERTIFICATE), data_of(secret, KEY))


def data_of(secret: Mapping[str, Any], key: str) -> bytes:
    """Return one value of a Secret, empty when it is not there or no base64."""
    return decoded((secret.get("data") or {}).get(key) or "")


def decoded(text: str) -> bytes:
    """Return the decoded base64, empty when it is invalid."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def encoded(value: bytes) -> str:
    """Return bytes as base64."""
    return base64.b64encode(value).decode()


def kubeconfig_secret_of(name: str, namespace: str, credential: str, document: bytes) -> Manifest:
    """Return the Secret of a kubeconfig. Its only key is its own name."""
    made = _secret(name, namespace, "Opaque", {name: document})
    made["metadata"]["labels"] = {wellknown.CREDENTIAL: credential}
    return made


def kubeconfig(
    pair: Pair,
    *,
    cluster: str,
    user: str,
    server: str,
    authority: bytes,
    server_name: str = "",
) -> bytes:
    """Return a kubeconfig with everything inline. `server_name` is the name in the certificate."""
    target: dict[str, Any] = {
        "server": server,
        "certificate-authority-data": base64.b64encode(authority).decode(),
    }
    if server_name:
        target["tls-server-name"] = server_name
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": target}],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": base64.b64encode(pair.certificate).decode(),
                    "client-key-data": base64.b64encode(pair.key).decode(),
                },
            }
        ],
        "contexts": [{"name": "default", "context": {"cluster": cluster, "user": user}}],
        "current-context": "default",
    }
    return to_yaml(document).encode()


def pair_of_kubeconfig(document: bytes) -> Pair | None:
    """Return the user's certificate and key, or None when it is not a kubeconfig of this module."""
    found = _CREDENTIAL.findall(document)
    values = dict(found)
    if len(found) != len(values) or len(values) != 2:
        return None
    try:
        return Pair(
            base64.b64decode(values[b"client-certificate"], validate=True),
            base64.b64decode(values[b"client-key"], validate=True),
        )
    except (binascii.Error, ValueError):
        return None


def _secret(name: str, namespace: str, kind: str, data: Mapping[str, bytes]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": kind,
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }
