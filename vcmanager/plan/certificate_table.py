"""Table of a tenant's certificates for its admins, and the parser of a request to renew them. Pure.

Owns the ConfigMap. Must not know how certificates are signed. Hazard: the table must not have a
key or a certificate. Every user of a tenant may read its namespace kube-public.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kubeio import Object
from tenancy import wellknown
from tenancy.conditions import format_time
from vcmanager.pki import inventory, rotated_secrets
from vcmanager.pki.rotation import RotatedName, Stage
from vcmanager.runtime.certificate_expiry import CertificateValidity


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationRow:
    """One rotation that is not complete."""

    authority: RotatedName
    stage: Stage
    until: datetime | None
    """When the stage ends. None until every program has the files of the stage."""
    held: str = ""
    """Why the old authority is not dropped although the stage would end."""


_EVENT_REFRESH = timedelta(minutes=40)
"""Interval between two writes of an Event, because API servers delete it an hour after the last."""
_KUBECONFIG_SUFFIX = "-kubeconfig"
_HIDDEN = frozenset({f"{inventory.MANAGER}{_KUBECONFIG_SUFFIX}"})
"""Certificates of the product itself. A tenant cannot do anything about them."""


def build_config_map(
    validities: Mapping[str, CertificateValidity],
    namespace: str = wellknown.CERTIFICATES_NAMESPACE,
    rotations: Iterable[RotationRow] = (),
) -> Object:
    """Return the ConfigMap with the table, for the root namespace or the tenant."""
    stages = [
        {
            "authority": row.authority,
            "stage": row.stage,
            "until": _format(row.until),
            **({"held": row.held} if row.held else {}),
        }
        for row in rotations
    ]
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
        "data": {
            wellknown.CERTIFICATES_KEY: json.dumps(rows, indent=1),
            **({wellknown.ROTATIONS_KEY: json.dumps(stages, indent=1)} if stages else {}),
        },
    }


def build_end_events(
    table: Object, ends: Iterable[datetime], *, lifetime: timedelta, now: datetime
) -> list[Object]:
    """Return an Event for each replaced admin kubeconfig that ends soon.

    `table` is the ConfigMap in the tenant, and `lifetime` the life of a kubeconfig. The names
    of the Events stay the same.
    """
    lead = _compute_lead(lifetime)
    metadata, stamp = table["metadata"], _format(now)
    return [
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{metadata['name']}.{int(end.timestamp()):x}",
                "namespace": metadata["namespace"],
            },
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata.get("uid", ""),
            },
            "type": "Warning",
            "reason": "KubeconfigEnds",
            "message": (
                f"An admin kubeconfig that was handed out earlier ends on {end:%Y-%m-%d}. Renew the"
                " file with `kubectl vc kubeconfig --renew FILE`, or fetch a new one."
            ),
            "source": {"component": wellknown.MANAGER},
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
        for end in ends
        if now < end <= now + lead
    ]


def compute_next_event(
    ends: Iterable[datetime], *, lifetime: timedelta, now: datetime
) -> datetime | None:
    """Return when Events must be written next, or None if no replaced kubeconfig is known."""
    begins = [end - _compute_lead(lifetime) for end in ends if end > now]
    return max(min(begins), now + _EVENT_REFRESH) if begins else None


def _compute_lead(lifetime: timedelta) -> timedelta:
    return min(wellknown.KUBECONFIG_END_WARNING, lifetime / 3)


def parse_request(body: Mapping[str, Any], now: datetime) -> datetime | None:
    """Return the time of the request in an object's annotation, or None.

    A text that is no time counts as no request, and so does a time in the future. Otherwise a
    tenant's certificates would be renewed again and again until that time.
    """
    requested = rotated_secrets.parse_time(body, wellknown.RENEW_CERTIFICATES, now)
    return min(requested, now) if requested is not None else None


def _get_kind(name: str, validity: CertificateValidity) -> str:
    if validity.renewal is None:
        return "authority"
    return "kubeconfig" if name.endswith(_KUBECONFIG_SUFFIX) else "certificate"


def _format(time: datetime | None) -> str:
    return format_time(time) if time is not None else ""
