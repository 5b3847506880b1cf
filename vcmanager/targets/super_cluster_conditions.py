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

from clusterversions import catalog
from kubeio import errors
from tenancy import conditions, super_clusters, wellknown
from tenancy.conditions import Condition, ConditionStatus
from tenancy.super_clusters import ClusterRanges
from vcmanager.targets import required_permissions
from vcmanager.targets.probe import ProbeResult

MAX_MESSAGE_LENGTH = 4096
MAX_VERSION_LENGTH = 64
_MAX_MINOR_SKEW = 1
_MAX_SHOWN = 3
_MAX_TOKEN = 16 * 1024
_PERMANENT_REASONS = frozenset({"InvalidSpec", "SameCluster", super_clusters.IDENTITY_CHANGED})
"""Reasons of Ready that no later probe changes. A missing Secret may still be created."""


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
        unknown = "Not known while the target cluster cannot be reached."
        self.set_condition(super_clusters.AUTHORIZED, "Unknown", "NotReached", unknown)

    def carry_over(self, old: Sequence[Mapping[str, Any]]) -> None:
        """Repeat the old conditions that cannot change by themselves."""
        for kind in (super_clusters.VERSION_SUPPORTED, super_clusters.NETWORKS_OVERLAP):
            before = conditions.find_condition(old, kind)
            if before is not None:
                self.set_condition(kind, before["status"], before["reason"], before["message"])
            self.set_condition(
                kind,
                "Unknown",
                "NotReached",
                "Not known, because the target cluster was never reached.",
            )

    def set_ready(self, *, reachable_network: bool) -> None:
        """Set Ready from the other conditions, and Stalled if only a person can help.

        An overlap matters only if pods reach each other.
        """
        self._set_ready(reachable_network=reachable_network)
        ready = self.conditions[super_clusters.READY]
        if ready.reason in _PERMANENT_REASONS:
            self.set_condition(wellknown.STALLED, "True", ready.reason, ready.message)

    def _set_ready(self, *, reachable_network: bool) -> None:
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
            text = "The target cluster answers, and the account has all required permissions."
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
            f"{said}. The CA in the Secret must be the one that signed the API server's"
            " certificate, and the certificate must contain the address. Correct"
            " certificate-authority-data (or ca.crt), or set spec.tlsServerName to a name in the"
            " certificate.",
        )
    if isinstance(problem, errors.Timeout):
        return ConditionBody(
            "False",
            "NoAnswer",
            f"{said}. Check that the API server is up and that no firewall blocks it.",
        )
    if isinstance(problem, errors.ApiError):
        return ConditionBody(
            "False", "ServerFails", f"{said}. The API server cannot serve requests now."
        )
    return ConditionBody(
        "False",
        "NotConnected",
        f"{said}. Check that the API server is up, and that the components can reach the address"
        " in spec.server.",
    )


def describe_refused_credential(token: str, now: datetime) -> str:
    """Return why the cluster refuses a credential, and what to do."""
    remedy = ". Run `kubectl vc target join` again, or write a new credential into the Secret."
    until = read_token_expiry(token)
    if until is not None and until <= now:
        when = until.strftime("%Y-%m-%d %H:%M")
        return f"The token expired on {when} UTC{remedy}"
    return (
        "The target cluster does not accept the credential, which was revoked or belongs to"
        f" another cluster{remedy}"
    )


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
        super_clusters.REACHABLE,
        "True",
        "Answers",
        f"The API server answers with version {probe.version}.",
    )
    if probe.missing_permissions:
        conditions.set_condition(
            super_clusters.AUTHORIZED,
            "False",
            "MissingRights",
            "The account lacks permissions:"
            f" {required_permissions.format_missing(probe.missing_permissions)} (in all"
            f" namespaces). Run `kubectl vc target join {name}` again, or grant them.",
        )
    else:
        ends = f" Its token expires on {until:%Y-%m-%d %H:%M} UTC." if until is not None else ""
        text = f"The account has all required permissions.{ends}"
        conditions.set_condition(super_clusters.AUTHORIZED, "True", "Authorized", text)
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


def _build_version_condition(version: str, home_version: str) -> ConditionBody:
    minor, home = catalog.parse_minor(version), catalog.parse_minor(home_version)
    if minor is None or home is None:
        text = (
            f"{version[:60]!r} is not a Kubernetes version. Check `kubectl version` in the target"
            " cluster."
        )
        return ConditionBody("Unknown", "NotReadable", text)
    apart = abs(minor[1] - home[1])
    if minor[0] == home[0] and apart <= _MAX_MINOR_SKEW:
        return ConditionBody(
            "True", "Supported", f"{version}, and {home_version} in the home cluster"
        )
    behind = minor < home
    upgrade = "the target cluster" if behind else "the home cluster"
    return ConditionBody(
        "False",
        "TooOld" if behind else "TooNew",
        f"{version} is {apart} minors {'behind' if behind else 'ahead of'} {home_version} of the"
        f" home cluster (supported: 1). Upgrade {upgrade}.",
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
            f"{', '.join(found[:_MAX_SHOWN])}{more}. An address may belong to two pods, so no"
            " traffic may go from one cluster to the other by address. Change one of the ranges, or"
            " leave spec.network.reachable at false.",
        )
    if not ranges.pods:
        return ConditionBody(
            "Unknown",
            "RangesUnknown",
            "The nodes have no pod CIDRs. List them in spec.network.podCIDRs.",
        )
    return ConditionBody(
        "False", "NoOverlap", "No pod range overlaps the range of another cluster."
    )
