"""Expiry and renewal times of the certificates of all tenants, for metrics.

Owns the earliest expiry and the earliest renewal of each name, so that the number of series does
not grow with tenants. Must not decide anything. Hazard: recorded times stay until the next `note`
or `drop`. Otherwise the certificates of a tenant that cannot be reconciled would seem healthy.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from telemetry import metrics


@dataclass(frozen=True, slots=True)
class Span:
    """Times at which a certificate ends and is renewed. Authorities are never renewed."""

    ends: datetime
    renewed: datetime | None = None


class Expiries:
    """Certificates that this manager renews, by owner: a tenant's UID, or the agents."""

    def __init__(self) -> None:
        """Start without certificates."""
        self._spans: dict[str, Mapping[str, Span]] = {}

    def note(self, owner: str, spans: Mapping[str, Span]) -> None:
        """Replace the recorded certificates of an owner, by the names of their Secrets."""
        before = self._spans.get(owner, {})
        self._spans[owner] = dict(spans)
        self._show({*before, *spans})

    def drop(self, owner: str) -> None:
        """Delete the records of an owner that no longer exists."""
        self._show(self._spans.pop(owner, {}))

    def _show(self, names: Iterable[str]) -> None:
        for name in names:
            found = [spans[name] for spans in self._spans.values() if name in spans]
            if not found:
                metrics.forget_certificate(name)
                continue
            renewals = [span.renewed.timestamp() for span in found if span.renewed is not None]
            metrics.show_certificate(
                name,
                ends=min(span.ends.timestamp() for span in found),
                renewed=min(renewals, default=None),
            )
