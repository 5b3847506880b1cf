"""Expiry and renewal times of the certificates of all tenants, for metrics.

Owns the earliest expiry and the earliest renewal of each name, so that the number of series does
not grow with tenants. Must not decide anything. Hazard: recorded times stay until the next
`set_validities` or `remove_owner`. Otherwise the certificates of a tenant that cannot be reconciled
would seem healthy.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from telemetry import metrics


@dataclass(frozen=True, slots=True)
class CertificateValidity:
    """Times at which a certificate ends and is renewed. Authorities are never renewed."""

    expires: datetime
    renewal: datetime | None = None
    issued: datetime | None = None


class CertificateExpiries:
    """Certificates that this manager renews, by owner: a tenant's UID, or the agents."""

    def __init__(self) -> None:
        """Start without certificates."""
        self._validities: dict[str, Mapping[str, CertificateValidity]] = {}

    def set_validities(self, owner: str, spans: Mapping[str, CertificateValidity]) -> None:
        """Replace the recorded certificates of an owner, by the names of their Secrets."""
        before = self._validities.get(owner, {})
        self._validities[owner] = dict(spans)
        self._update_metrics({*before, *spans})

    def remove_owner(self, owner: str) -> None:
        """Delete the records of an owner that no longer exists."""
        self._update_metrics(self._validities.pop(owner, {}))

    def _update_metrics(self, names: Iterable[str]) -> None:
        for name in names:
            found = [spans[name] for spans in self._validities.values() if name in spans]
            if not found:
                metrics.remove_certificate(name)
                continue
            renewals = [span.renewal.timestamp() for span in found if span.renewal is not None]
            metrics.set_certificate_times(
                name,
                ends=min(span.expires.timestamp() for span in found),
                renewed=min(renewals, default=None),
            )
