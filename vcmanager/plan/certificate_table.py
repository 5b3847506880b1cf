"""Table of a tenant's certificates for its admins, and the parser of a request to renew them. Pure.

Owns the ConfigMap. Must not know how certificates are signed. Hazard: the table must not have a
key or a certificate. Every user of a tenant may read its namespace kube-public.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kubeio import Object
from tenancy import wellknown
from vcmanager.pki import inventory
from vcmanager.runtime.certificate_expiry import CertificateValidity

_MAX_CLOCK_LEAD = timedelta(minutes=5)
"""Time by which the clock of a requester may be ahead. A later request is ignored."""
_KUBECONFIG_SUFFIX = "-kubeconfig"
_HIDDEN = frozenset({f"{inventory.MANAGER}{_KUBECONFIG_SUFFIX}"})
"""Certificates of the product itself. A tenant cannot do anything about them."""


def build_config_map(
    validities: Mapping[str, CertificateValidity], namespace: str = wellknown.CERTIFICATES_NAMESPACE
) -> Object:
    """Return the ConfigMap with the table, for the root namespace or the tenant."""
    rows = [
        {
            "name": name,
            "kind": _get_kind(name, validity),
            "issued": _format(validity.issued),
            "expires": _format(validity.expires),
            "renewal": _format(validity.renewal),
        }
        for name, validity in sorted(validities.items())
        if name not in _HIDDEN
    ]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": wellknown.CERTIFICATES, "namespace": namespace},
        "data": {wellknown.CERTIFICATES_KEY: json.dumps(rows, indent=1)},
    }


def parse_request(body: Mapping[str, Any], now: datetime) -> datetime | None:
    """Return the time of the request in an object's annotation, or None.

    A text that is no time counts as no request, and so does a time in the future. Otherwise a
    tenant's certificates would be renewed again and again until that time.
    """
    annotations = body["metadata"].get("annotations") or {}
    try:
        requested = datetime.fromisoformat(str(annotations.get(wellknown.RENEW_CERTIFICATES, "")))
    except ValueError:
        return None
    if requested.tzinfo is None or requested > now + _MAX_CLOCK_LEAD:
        return None
    return min(requested, now)


def _get_kind(name: str, validity: CertificateValidity) -> str:
    if validity.renewal is None:
        return "authority"
    return "kubeconfig" if name.endswith(_KUBECONFIG_SUFFIX) else "certificate"


def _format(time: datetime | None) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if time is not None else ""
