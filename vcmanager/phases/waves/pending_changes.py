"""Changes of a running control plane that a reconcile would make.

A renewed certificate is no such change, although it recreates pods, because it must not wait for a
rollout. Hazard: a change that is not found here reaches all tenants at once.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubeio import Object
from tenancy import wellknown
from tenancy.ownership import Tenant
from vcmanager.phases import apply
from vcmanager.pki import reloaded_files
from vcmanager.runtime import object_metadata
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.observed import ObservedObjects

Manifest = dict[str, Any]


async def list_pending_changes(
    means: ReconcileContext,
    tenant: Tenant,
    snapshot: ObservedObjects,
    *,
    workloads: Iterable[Manifest],
    configuration: Iterable[Manifest],
) -> list[str]:
    """Return the running workloads that a reconcile would change, as `Kind name`.

    `configuration` has the desired Secrets and ConfigMaps that pods mount, without certificates.
    An object that does not exist is no change, because its creation interrupts no client. A pod
    template that may differ is compared by a dry run, so that defaults do not count.
    """
    outdated = {
        (each["kind"], each["metadata"]["name"])
        for each in configuration
        if _has_other_content(each, snapshot.get(each["kind"], each["metadata"]["name"]))
    }
    found: list[str] = []
    for desired in workloads:
        kind, name = desired["kind"], desired["metadata"]["name"]
        live = snapshot.get(kind, name)
        if live is None or "deletionTimestamp" in live["metadata"]:
            continue
        mounted = object_metadata.list_mounted_sources(live["spec"]["template"]["spec"])
        if outdated & mounted or await _would_change(means, tenant, desired, live):
            found.append(f"{kind} {name}")
    return found


async def _would_change(
    means: ReconcileContext, tenant: Tenant, desired: Manifest, live: Object
) -> bool:
    annotations = live["spec"]["template"].get("metadata", {}).get("annotations") or {}
    made = object_metadata.add_metadata(
        desired, tenant, {}, mounted=annotations.get(wellknown.SECRETS_DIGEST, "")
    )
    if object_metadata.is_up_to_date(made, live):
        return False
    result = await apply.dry_run_apply(means, made)
    return _strip_digest(result) != _strip_digest(live)


def _strip_digest(workload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod template without the digest of what the pod mounts."""
    template: dict[str, Any] = workload["spec"]["template"]
    metadata = template.get("metadata") or {}
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(wellknown.SECRETS_DIGEST, None)
    return {**template, "metadata": {**metadata, "annotations": annotations}}


def _has_other_content(desired: Manifest, live: Object | None) -> bool:
    if live is None:
        return False
    before, after = (
        reloaded_files.get_read_once_data(desired["kind"], each) or {} for each in (live, desired)
    )
    return bool(before != after) or (desired.get("binaryData") or {}) != (
        live.get("binaryData") or {}
    )
