"""Quota of a tenant over all of its namespaces: resource names, amounts and the default.

Pure. The names are those of a Kubernetes ResourceQuota, with three additions: `bytes/configmaps`,
`bytes/secrets` and `count/namespaces`. Must not know what an object uses
(`syncer.rules.quota.usage`).

Amounts are integers in thousandths, because sums of integers are exact.
"""

import math
import re
from collections.abc import Mapping
from typing import Annotated

import msgspec

from tenancy.quantities import parse_quantity

QuotaAmount = (
    Annotated[str, msgspec.Meta(min_length=1, max_length=64)] | Annotated[int, msgspec.Meta(ge=0)]
)
QuotaSpec = dict[str, QuotaAmount]

THOUSANDTHS = 1000
"""Number of units in one whole: 1 CPU is 1000, and 1 byte is 1000 as well."""
MAX_AMOUNT = (2**63 - 1) * THOUSANDTHS
"""Largest amount. Kubernetes stores no larger quantity."""

BYTES_PREFIX = "bytes/"
COUNT_PREFIX = "count/"
STORAGE_CLASS_SUFFIX = ".storageclass.storage.k8s.io/"
DEVICE_CLASS_SUFFIX = ".deviceclass.resource.k8s.io/devices"
"""End of the name for the devices of one DeviceClass, after the name of the class."""
NAMESPACE_COUNT = "count/namespaces"

COUNTED_PLURALS: Mapping[str, str] = {
    "ConfigMap": "configmaps",
    "EndpointSlice": "endpointslices.discovery.k8s.io",
    "Ingress": "ingresses.networking.k8s.io",
    "Namespace": "namespaces",
    "NetworkPolicy": "networkpolicies.networking.k8s.io",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Pod": "pods",
    "PodDisruptionBudget": "poddisruptionbudgets.policy",
    "ResourceClaim": "resourceclaims.resource.k8s.io",
    "Secret": "secrets",
    "Service": "services",
}
"""Names after `count/`, by kind."""

COMPUTE_RESOURCES = ("cpu", "memory", "ephemeral-storage")

_FIXED_NAMES: Mapping[str, str] = {
    **{f"{COUNT_PREFIX}{plural}": kind for kind, plural in COUNTED_PLURALS.items()},
    **{
        f"{prefix}{name}": "Pod"
        for prefix in ("", "requests.", "limits.")
        for name in COMPUTE_RESOURCES
    },
    "pods": "Pod",
    "services": "Service",
    "services.nodeports": "Service",
    "services.loadbalancers": "Service",
    "configmaps": "ConfigMap",
    f"{BYTES_PREFIX}configmaps": "ConfigMap",
    "secrets": "Secret",
    f"{BYTES_PREFIX}secrets": "Secret",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "requests.storage": "PersistentVolumeClaim",
}
"""Kind of the objects that use a resource, by its name."""
_NAME_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"[a-z0-9][-a-z0-9.]{0,252}\.storageclass\.storage\.k8s\.io/"
            r"(requests\.storage|persistentvolumeclaims)"
        ),
        "PersistentVolumeClaim",
    ),
    (
        # Longer class names have no resource name in Kubernetes, because it ends at 253 characters.
        re.compile(
            r"(?=[^/]{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
            r"\.deviceclass\.resource\.k8s\.io/devices"
        ),
        "ResourceClaim",
    ),
    (re.compile(r"(requests\.)?hugepages-[0-9]{1,19}[kKMGTPE]?i?"), "Pod"),
    (re.compile(r"requests\.[a-z0-9][-a-z0-9.]{0,252}/[A-Za-z0-9][-A-Za-z0-9_.]{0,62}"), "Pod"),
)

DEFAULT_QUOTA: QuotaSpec = {
    "bytes/configmaps": "256Mi",
    "bytes/secrets": "256Mi",
    "count/namespaces": "1k",
}
"""Quota of a policy without one. One pod may name 2,000 ConfigMaps of 1 MiB, which is as much as
the etcd of a super cluster stores by default. Each object counts at least 4 KiB, so that 65,536
objects of each kind fit. None of the names is one of Kubernetes, so no ResourceQuota is written."""

Hard = Mapping[str, int]
"""Limits in thousandths, by resource name."""


class InvalidQuotaError(ValueError):
    """A quota has an unknown name or an unreadable amount. The message has both."""


def get_kind(name: str) -> str:
    """Return the kind whose objects use a resource, or an empty string for an unknown name."""
    if name in _FIXED_NAMES:
        return _FIXED_NAMES[name]
    return next((kind for pattern, kind in _NAME_PATTERNS if pattern.fullmatch(name)), "")


def parse_amount(value: object) -> int:
    """Return a quantity in thousandths, rounded up. Anything else, and a negative one, is 0."""
    if isinstance(value, int) and not isinstance(value, bool):
        return max(0, min(value * THOUSANDTHS, MAX_AMOUNT))
    number = parse_quantity(str(value) if isinstance(value, float) else value)
    if number is None or number <= 0:
        return 0
    if number >= MAX_AMOUNT:
        return MAX_AMOUNT
    return min(math.ceil(number * THOUSANDTHS), MAX_AMOUNT)


def parse_hard(spec: Mapping[str, QuotaAmount]) -> Hard:
    """Return the limits of a quota. Raises InvalidQuotaError."""
    for name, value in spec.items():
        if not get_kind(name):
            raise InvalidQuotaError(
                f"quota names {name!r}, which is no resource of a quota. See docs/policy.md for"
                " the names"
            )
        number = None if isinstance(value, int) else parse_quantity(value)
        if not isinstance(value, int) and (number is None or number < 0):
            raise InvalidQuotaError(
                f"quota.{name} is {value!r}, which is no quantity of 0 or more. Write it as 10,"
                " 500m or 20Gi"
            )
    return {name: parse_amount(value) for name, value in spec.items()}


_BINARY = tuple((f"{letter}i", 2 ** (10 * (n + 1))) for n, letter in enumerate("KMGTPE"))


def format_amount(name: str, amount: int) -> str:
    """Return an amount for people: 1500m of CPU, 20Gi of bytes, 12 pods."""
    whole, rest = divmod(amount, THOUSANDTHS)
    if rest:
        return f"{amount}m"
    is_bytes = name.startswith(BYTES_PREFIX) or name.endswith(("memory", "storage"))
    if is_bytes:
        for suffix, size in reversed(_BINARY):
            if whole >= size and whole % size == 0:
                return f"{whole // size}{suffix}"
    return str(whole)
