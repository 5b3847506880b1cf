"""Encryption of a tenant's Secrets in etcd: keys, and the configuration of the API server.

Pure, except that it generates keys. Hazard: keys must be kept as long as the tenant. Without a key
the API server can read none of the Secrets that were written with it.
"""

import base64
import json
import secrets
from collections.abc import Mapping
from typing import Any, get_args

from tenancy import wellknown
from tenancy.control_plane_specs import EncryptionProvider, EncryptionSpec
from vcmanager.pki import bundles
from vcmanager.runtime.blocked import PhaseBlocked

Manifest = dict[str, Any]

SECRET = wellknown.ENCRYPTION_SECRET
"""Secret of the root namespace with the keys and with the file that the API server reads."""
CONFIGURATION_KEY = "encryption.yaml"
_KEY_BYTES = 32
"""Length of a key in bytes, for AES-256 and for XSalsa20."""


def build_encryption_secret(
    existing: Mapping[str, Any] | None,
    spec: EncryptionSpec | None,
    root: str,
    *,
    is_initialised: bool,
    may_switch: bool,
) -> Manifest | None:
    """Return the Secret with all keys of the tenant, or None when it was never encrypted.

    `is_initialised`: the tenant had keys before. `may_switch`: every API server reads the keys
    already, so that a provider may become the one that writes. Raises PhaseBlocked when keys are
    lost.
    """
    if existing is None and is_initialised:
        raise _build_lost(root, "was deleted")
    if existing is None and spec is None:
        return None
    keys = _read_keys(existing, root)
    if spec is not None and spec.provider not in keys:
        keys[spec.provider] = secrets.token_bytes(_KEY_BYTES)
    wanted = spec.provider if spec is not None else "identity"
    current = _read_writer(existing)
    writer = wanted if may_switch or current == wanted else current
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": root},
        "type": "Opaque",
        "data": {
            **{f"{name}.key": bundles.encode_base64(key) for name, key in keys.items()},
            CONFIGURATION_KEY: bundles.encode_base64(_build_configuration(keys, writer).encode()),
        },
    }


def _read_keys(existing: Mapping[str, Any] | None, root: str) -> dict[EncryptionProvider, bytes]:
    keys: dict[EncryptionProvider, bytes] = {}
    for provider in get_args(EncryptionProvider):
        name = f"{provider}.key"
        if existing is None or name not in (existing.get("data") or {}):
            continue
        keys[provider] = bundles.read_data(existing, name)
        if len(keys[provider]) != _KEY_BYTES:
            raise _build_lost(root, f"has a broken value {name}")
    if existing is not None and not keys:
        raise _build_lost(root, "has no key")
    return keys


def _read_writer(existing: Mapping[str, Any] | None) -> str:
    """Return the provider that encrypts now, `identity` without any."""
    try:
        document = json.loads(bundles.read_data(existing or {}, CONFIGURATION_KEY))
        (first, *_) = document["resources"][0]["providers"]
        return str(next(iter(first)))
    except (ValueError, KeyError, IndexError, TypeError, StopIteration):
        return "identity"


def _build_configuration(keys: Mapping[EncryptionProvider, bytes], writer: str) -> str:
    """Return the configuration. The first provider encrypts, and every provider decrypts."""
    providers: dict[str, dict[str, Any]] = {
        name: {"keys": [{"name": "key1", "secret": base64.b64encode(key).decode()}]}
        for name, key in keys.items()
    }
    providers["identity"] = {}
    order = sorted(providers, key=lambda name: name != writer)
    return json.dumps(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "EncryptionConfiguration",
            "resources": [
                {
                    "resources": ["secrets"],
                    "providers": [{name: providers[name]} for name in order],
                }
            ],
        }
    )


def _build_lost(root: str, what: str) -> PhaseBlocked:
    return PhaseBlocked(
        "EncryptionKeysLost",
        f"The Secret {SECRET} in namespace {root} {what}. Restore it from a backup. vc-manager"
        " cannot recreate it, because the tenant's Secrets are encrypted with it.",
        condition=wellknown.READY,
        needs_admin=True,
    )
