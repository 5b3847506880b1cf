"""Removed API versions that clients of a tenant still use.

Reads the API server's own metric `apiserver_requested_deprecated_apis`, and counts the objects of
such a resource (https://kubernetes.io/docs/reference/using-api/deprecation-guide/). Hazard: the
metric starts empty with each start of the API server. A client that works once a month may be
missing.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from clusterversions import catalog
from kubeio import errors
from kubeio.api.client import Client
from tenancy.resources import Resource

_SAMPLE = re.compile(r"^apiserver_requested_deprecated_apis\{(?P<labels>[^}]*)\} (?P<value>\S+)$")
_LABEL = re.compile(r'(\w+)="([A-Za-z0-9._-]*)"')
_MAX_COUNTED = 50
"""Number of resources whose objects are counted, one request each."""


@dataclass(frozen=True, slots=True, order=True)
class DeprecatedApi:
    """A requested API version, and the minor that no longer has it."""

    group: str
    version: str
    resource: str
    removed_release: str

    def __str__(self) -> str:
        """Return `flowschemas.v1beta3.flowcontrol.apiserver.k8s.io`."""
        return ".".join(text for text in (self.resource, self.version, self.group) if text)


@dataclass(frozen=True, slots=True)
class UsedApi:
    """A removed API version in use."""

    api: DeprecatedApi
    objects: int | None
    """Number of stored objects of the resource. None: it cannot be read."""


def parse_removed(metrics: str, wanted: str) -> list[DeprecatedApi]:
    """Return the requested API versions that a version of Kubernetes no longer has.

    `metrics` is the text of the tenant's `/metrics`, and `wanted` is the new version.
    """
    target = catalog.parse_minor(wanted)
    found: set[DeprecatedApi] = set()
    for line in metrics.splitlines():
        sample = _SAMPLE.match(line)
        if sample is None or target is None or sample["value"] == "0":
            continue
        labels = dict(_LABEL.findall(sample["labels"]))
        removed = catalog.parse_minor(labels.get("removed_release", ""))
        if removed is not None and removed <= target:
            found.add(
                DeprecatedApi(
                    labels.get("group", ""),
                    labels.get("version", ""),
                    labels.get("resource", ""),
                    labels["removed_release"],
                )
            )
    return sorted(found)


async def fetch_used_apis(tenant: Client, wanted: str) -> list[UsedApi]:
    """Return the removed API versions in use in a tenant. Raises KubeError."""
    answer = await tenant.raw("GET", "/metrics", accept="text/plain")
    removed = parse_removed(answer.decode(errors="replace"), wanted)
    counts = {each: await _count_objects(tenant, each) for each in removed[:_MAX_COUNTED]}
    return [UsedApi(each, counts.get(each)) for each in removed]


def format_used_apis(found: Iterable[UsedApi]) -> list[str]:
    """Return one line for each."""
    return [
        f"  {each.api}: removed in {each.api.removed_release},"
        f" {'unknown number of' if each.objects is None else each.objects} stored objects"
        for each in found
    ]


async def _count_objects(tenant: Client, api: DeprecatedApi) -> int | None:
    resource = Resource(
        group=api.group, version=api.version, plural=api.resource, kind="", namespaced=False
    )
    try:
        page = await tenant.list(resource, limit=1, metadata_only=True)
    except errors.KubeError:
        return None
    return len(page.get("items") or ()) + int(
        (page.get("metadata") or {}).get("remainingItemCount") or 0
    )
