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
from vcmanager.pki.authority import KeyPair

Manifest = dict[str, Any]

CERTIFICATE_KEY = "tls.crt"
PRIVATE_KEY_KEY = "tls.key"
_CREDENTIAL_PATTERN = re.compile(rb"^ +(client-certificate|client-key)-data: (\S+)$", re.MULTILINE)
"""The form written by this module.

Other writers of a Secret may use any YAML, which is slow to parse.
"""


def build_key_pair_secret(name: str, namespace: str, pair: KeyPair) -> Manifest:
    """Return the Secret that keeps a certificate, or a public key, and its private key."""
    return _build_secret(
        name,
        namespace,
        "kubernetes.io/tls",
        {CERTIFICATE_KEY: pair.certificate, PRIVATE_KEY_KEY: pair.key},
    )


def build_trust_secret(name: str, namespace: str, certificate: bytes) -> Manifest:
    """Return a Secret with an authority's certificate and without its key."""
    return _build_secret(name, namespace, "Opaque", {CERTIFICATE_KEY: certificate})


def read_key_pair(secret: Mapping[str, Any] | None) -> KeyPair | None:
    """Return the contents of a Secret, or None without a Secret. Missing values are empty."""
    if secret is None:
        return None
    return KeyPair(read_data(secret, CERTIFICATE_KEY), read_data(secret, PRIVATE_KEY_KEY))


def read_data(secret: Mapping[str, Any], key: str) -> bytes:
    """Return one value of a Secret, empty when it is not there or no base64."""
    return decode_base64((secret.get("data") or {}).get(key) or "")


def decode_base64(text: str) -> bytes:
    """Return the decoded base64, empty when it is invalid."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def encode_base64(value: bytes) -> str:
    """Return bytes as base64."""
    return base64.b64encode(value).decode()


def build_kubeconfig_secret(
    name: str, namespace: str, credential: str, document: bytes
) -> Manifest:
    """Return the Secret of a kubeconfig. Its only key is its own name."""
    made = _build_secret(name, namespace, "Opaque", {name: document})
    made["metadata"]["labels"] = {wellknown.CREDENTIAL: credential}
    return made


def build_kubeconfig(
    pair: KeyPair,
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


def read_kubeconfig_key_pair(document: bytes) -> KeyPair | None:
    """Return the user's certificate and key, or None when it is not a kubeconfig of this module."""
    found = _CREDENTIAL_PATTERN.findall(document)
    values = dict(found)
    if len(found) != len(values) or len(values) != 2:
        return None
    try:
        return KeyPair(
            base64.b64decode(values[b"client-certificate"], validate=True),
            base64.b64decode(values[b"client-key"], validate=True),
        )
    except (binascii.Error, ValueError):
        return None


def _build_secret(name: str, namespace: str, kind: str, data: Mapping[str, bytes]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": kind,
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }
