"""Conditions of a SuperCluster, each with what to do.

Owns their texts. Pure. Hazard: a condition that is unknown now keeps its old value only where that
value cannot have changed. Permissions in a cluster that does not answer are unknown.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from kubeio import errors
from tenancy import conditions, super_clusters
from tenancy.conditions import Condition, ConditionStatus
from tenancy.super_clusters import ClusterRanges
from vcmanager.targets import required_permissions
from vcmanager.targets.probe import ProbeResult

MAX_MESSAGE_LENGTH = 4096
MAX_VERSION_LENGTH = 64
_MAX_MINOR_SKEW = 1
_MAX_SHOWN = 3
_MAX_TOKEN = 16 * 1024


class ConditionBody(NamedTuple):
    """Status, reason and message of a condition."""

    status: ConditionStatus
    reason: str
    message: str


@dataclass(slots=True)
class TargetConditions:
    """Conditions of a cluster, by type."""

    conditions: dict[str, ConditionBody] = field(default_factory=dict)

    def set_condition(self, kind: str, status: ConditionStatus, reason: str, message: str) -> None:
        """Set a condition. A condition that is already set stays."""
        self.conditions.setdefault(kind, ConditionBody(status, reason, message))

    def set_unreachable(self, reason: str, message: str) -> None:
        """Record that the cluster is not reached, so that its permissions are unknown."""
        self.set_condition(super_clusters.REACHABLE, "False", reason, message)
        unknown = "not known while the cluster is not reached"
        self.set_condition(super_clusters.AUTHORIZED, "Unknown", "NotReached", unknown)

    def carry_over(self, old: Sequence[Mapping[str, Any]]) -> None:
        """Repeat the old conditions that cannot change by themselves."""
        for kind in (super_clusters.VERSION_SUPPORTED, super_clusters.NETWORKS_OVERLAP):
            before = conditions.find_condition(old, kind)
            if before is not None:
                self.set_condition(kind, before["status"], before["reason"], before["message"])
            self.set_condition(
                kind, "Unknown", "NotReached", "not known, as the cluster was never reached"
            )

    def set_ready(self, *, reachable_network: bool) -> None:
        """Set Ready from the other conditions. An overlap matters only if pods reach each other."""
        wanted = (
            super_clusters.REACHABLE,
            super_clusters.AUTHORIZED,
            super_clusters.VERSION_SUPPORTED,
        )
        for kind in wanted:
            found = self.conditions[kind]
            if found.status != "True":
                self.set_condition(super_clusters.READY, "False", found.reason, found.message)
                return
        overlap = self.conditions[super_clusters.NETWORKS_OVERLAP]
        if reachable_network and overlap.status == "True":
            self.set_condition(super_clusters.READY, "False", overlap.reason, overlap.message)
        else:
            text = "the cluster answers, and all that is needed may be done there"
            self.set_condition(super_clusters.READY, "True", "Usable", text)

    def build_conditions(self, *, now: str, generation: int) -> list[Condition]:
        """Return the conditions in their order."""
        return [
            conditions.build_condition(
                kind,
                self.conditions[kind].status,
                self.conditions[kind].reason,
                self.conditions[kind].message[:MAX_MESSAGE_LENGTH],
                now=now,
                generation=generation,
            )
            for kind in super_clusters.CONDITIONS
            if kind in self.conditions
        ]


def build_unreachable_condition(problem: errors.KubeError) -> ConditionBody:
    """Return why a cluster is not reached."""
    said = str(problem)
    if isinstance(problem, errors.Untrusted):
        return ConditionBody(
            "False",
            "CertificateNotTrusted",
            f"{said}; the authority in the Secret must be the one that signed the API server, and"
            " the address must be in its certificate: correct certificate-authority-data (or"
            " ca.crt), or set spec.tlsServerName to a name that the certificate has",
        )
    if isinstance(problem, errors.Timeout):
        return ConditionBody(
            "False", "NoAnswer", f"{said}; see whether the API server is up and a firewall is open"
        )
    if isinstance(problem, errors.ApiError):
        return ConditionBody("False", "ServerFails", f"{said}; the API server cannot serve now")
    return ConditionBody(
        "False",
        "NotConnected",
        f"{said}; see whether the API server is up, and whether spec.server is an address that the"
        " components reach",
    )


def describe_refused_credential(token: str, now: datetime) -> str:
    """Return why the cluster refuses a credential, and what to do."""
    remedy = "; run `kubectl vc target join` again, or write a new credential into the Secret"
    until = read_token_expiry(token)
    if until is not None and until <= now:
        when = until.strftime("%Y-%m-%d %H:%M")
        return f"the token ended on {when} UTC{remedy}"
    return f"the cluster does not accept the credential: it was revoked, or is another's{remedy}"


def set_probe_conditions(
    conditions: TargetConditions,
    probe: ProbeResult,
    *,
    name: str,
    home_version: str,
    ranges: ClusterRanges,
    others: Mapping[str, ClusterRanges],
    until: datetime | None = None,
) -> None:
    """Set the conditions from the probe of a cluster that answers."""
    conditions.set_condition(
        super_clusters.REACHABLE, "True", "Answers", f"the API server answers, as {probe.version}"
    )
    if probe.missing_permissions:
        conditions.set_condition(
            super_clusters.AUTHORIZED,
            "False",
            "MissingRights",
            f"the account may not do all that is needed; it lacks"
            f" {required_permissions.format_missing(probe.missing_permissions)}"
            f" (in all namespaces). Run `kubectl vc target join {name}` again, or grant it",
        )
    else:
        ends = f"; its token ends on {until:%Y-%m-%d %H:%M} UTC" if until is not None else ""
        text = f"the account may do all that is needed{ends}"
        conditions.set_condition(super_clusters.AUTHORIZED, "True", "MayDoAll", text)
    conditions.set_condition(
        super_clusters.VERSION_SUPPORTED, *_build_version_condition(probe.version, home_version)
    )
    conditions.set_condition(
        super_clusters.NETWORKS_OVERLAP, *_build_overlap_condition(ranges, others)
    )


def read_token_expiry(token: str) -> datetime | None:
    """Return the expiry of a service account's token, or None if it has none.

    The signature is not verified, so the result is only shown in messages.
    """
    parts = token.split(".")
    if len(parts) != 3 or len(token) > _MAX_TOKEN:
        return None
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        claims = json.loads(base64.urlsafe_b64decode(padded))
        return datetime.fromtimestamp(int(claims["exp"]), UTC)
    except (
        binascii.Error,
        KeyError,
        OverflowError,
        OSError,
        RecursionError,
        TypeError,
        ValueError,
    ):
        return None


def parse_minor(version: str) -> tuple[int, int] | None:
    """Return `(1, 36)` of `v1.36.4+k3s1`, or None for an invalid version."""
    parts = version.removeprefix("v").split(".")
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() for part in parts[:2]):
        return None
    return (int(parts[0]), int(parts[1])) if max(map(len, parts[:2])) < 6 else None


def _build_version_condition(version: str, home_version: str) -> ConditionBody:
    minor, home = parse_minor(version), parse_minor(home_version)
    if minor is None or home is None:
        text = f"{version[:60]!r} is no version of Kubernetes; see `kubectl version` there"
        return ConditionBody("Unknown", "NotReadable", text)
    apart = abs(minor[1] - home[1])
    if minor[0] == home[0] and apart <= _MAX_MINOR_SKEW:
        return ConditionBody("True", "Supported", f"{version} beside {home_version} here")
    behind = minor < home
    upgrade = "the other cluster" if behind else "this cluster"
    return ConditionBody(
        "False",
        "TooOld" if behind else "TooNew",
        f"{version} is {apart} minors {'behind' if behind else 'ahead of'} {home_version} here, and"
        f" one is supported; upgrade {upgrade}",
    )


def _build_overlap_condition(
    ranges: ClusterRanges, others: Mapping[str, ClusterRanges]
) -> ConditionBody:
    found = super_clusters.find_overlaps(ranges, others)
    if found:
        more = f", and {len(found) - _MAX_SHOWN} more" if len(found) > _MAX_SHOWN else ""
        return ConditionBody(
            "True",
            "PodRangesOverlap",
            f"{'; '.join(found[:_MAX_SHOWN])}{more}: an address may mean two pods, so nothing"
            " must send"
            " traffic from one cluster to the other by it. Give one of them another range, or leave"
            " spec.network.reachable at false",
        )
    if not ranges.pods:
        return ConditionBody(
            "Unknown",
            "RangesUnknown",
            "the nodes do not say which addresses pods have; list them in spec.network.podCIDRs",
        )
    return ConditionBody("False", "NoOverlap", "no range of pods is another cluster's, too")
