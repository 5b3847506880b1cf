"""Removed API versions that clients of a tenant still use.

Reads the API server's own metric `apiserver_requested_deprecated_apis`, and counts the objects of
such a resource (https://kubernetes.io/docs/reference/using-api/deprecation-guide/).

Hazard: the metric is of one API server, and starts empty with it. A version that is requested from
another replica, or once a month, may be missing. So each replica is read, and the result has the
number of those that were.
"""

import re
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from clusterversions import catalog
from kubeio import errors
from kubeio.api.client import Client
from tenancy.resources import Resource

_SAMPLE = re.compile(r"^apiserver_requested_deprecated_apis\{(?P<labels>[^}]*)\} (?P<value>\S+)$")
_LABEL = re.compile(r'(\w+)="([A-Za-z0-9._-]*)"')
_START = re.compile(r"^process_start_time_seconds (\S+)$", re.MULTILINE)
"""Start of the process. It identifies a replica behind the common address."""
_READS_PER_SERVER = 4
"""Number of connections for each replica. The Service chooses a replica for each connection."""
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


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Removed API versions in use, and how much of the tenant was read."""

    used: tuple[UsedApi, ...]
    servers_read: int
    servers: int


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


async def fetch_usage(
    connect: Callable[[], AbstractAsyncContextManager[Client]], wanted: str, *, servers: int
) -> UsageReport:
    """Return the removed API versions in use in a tenant.

    `connect` opens a further connection to the tenant's API. `servers` is the number of its
    replicas. Raises KubeError if none answers.
    """
    removed: set[DeprecatedApi] = set()
    starts: set[str] = set()
    for number in range(servers * _READS_PER_SERVER):
        try:
            async with connect() as tenant:
                answer = await tenant.raw("GET", "/metrics", accept="text/plain")
        except errors.KubeError:
            if number == 0:
                raise
            break  # the report has the number of replicas that were read
        text = answer.decode(errors="replace")
        removed.update(parse_removed(text, wanted))
        found = _START.search(text)
        starts.add(found[1] if found else "")
        if len(starts) >= servers:
            break
    async with connect() as tenant:
        listed = sorted(removed)
        counts = {each: await _count_objects(tenant, each) for each in listed[:_MAX_COUNTED]}
    used = tuple(UsedApi(each, counts.get(each)) for each in listed)
    return UsageReport(used, min(len(starts), servers), servers)


def describe_usage(report: UsageReport) -> list[str]:
    """Return the lines about a report."""
    read = f"{report.servers_read} of {report.servers} API servers"
    lines = [f"Removed API versions in use: none was requested since the start of {read}"]
    if report.used:
        lines = [
            f"Removed API versions in use, from {read}. Clients that request them will fail:",
            *format_used_apis(report.used),
        ]
    if report.servers_read < report.servers:
        lines.append("  The other API servers were not reached. Run the command again.")
    lines.append("  Objects of versions that no client has requested are not counted.")
    return lines


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
