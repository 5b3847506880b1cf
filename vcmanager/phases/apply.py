"""Server-side apply of the objects of a root namespace that differ from the plan.

Hazard: the super cluster refuses a ClusterVersion's change of an immutable field. The refusal is
reported, and no object is deleted to get around it.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubeio import Object, errors
from tenancy import wellknown
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.object_metadata import is_up_to_date
from vcmanager.runtime.observed import OBSERVED_KINDS, ObservedObjects


async def apply_changed(
    means: ReconcileContext, manifests: Iterable[Mapping[str, Any]], snapshot: ObservedObjects
) -> int:
    """Apply concurrently the manifests that differ from the snapshot. Return their number."""
    stale = [
        manifest
        for manifest in manifests
        if not is_up_to_date(manifest, snapshot.get(manifest["kind"], manifest["metadata"]["name"]))
    ]
    results = await asyncio.gather(
        *(_apply_one(means, dict(manifest)) for manifest in stale), return_exceptions=True
    )
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return len(stale)


async def dry_run_apply(means: ReconcileContext, manifest: Mapping[str, Any]) -> Object:
    """Return the object as an apply would leave it. Nothing is written."""
    with _explain_errors(manifest):
        return await means.super_client.apply(
            OBSERVED_KINDS[manifest["kind"]],
            dict(manifest),
            field_manager=wellknown.MANAGER,
            dry_run=True,
        )


async def create_missing(means: ReconcileContext, manifests: Iterable[Mapping[str, Any]]) -> None:
    """Create missing objects, and leave existing ones unchanged."""
    for manifest in manifests:
        with contextlib.suppress(errors.AlreadyExists), _explain_errors(manifest):
            await means.super_client.create(
                OBSERVED_KINDS[manifest["kind"]], dict(manifest), field_manager=wellknown.MANAGER
            )


async def delete_unwanted(
    means: ReconcileContext, wanted: Iterable[Mapping[str, Any]], snapshot: ObservedObjects
) -> None:
    """Delete own objects that are no longer desired, such as DNS of a tenant with its own."""
    names = {(each["kind"], each["metadata"]["name"]) for each in wanted}
    for kind in _PRUNED_KINDS:
        for name, found in snapshot.get_by_name(kind).items():
            metadata = found["metadata"]
            ours = wellknown.LAST_WRITTEN_DIGEST in (metadata.get("annotations") or {})
            if ours and (kind, name) not in names and "deletionTimestamp" not in metadata:
                await means.super_client.delete(
                    OBSERVED_KINDS[kind], name, namespace=metadata["namespace"], uid=metadata["uid"]
                )


_PRUNED_KINDS = (
    *("StatefulSet", "Deployment", "Service", "ConfigMap", "Secret"),
    *("RoleBinding", "NetworkPolicy", "PodDisruptionBudget"),
)


async def _apply_one(means: ReconcileContext, manifest: Object) -> None:
    with _explain_errors(manifest):
        await means.super_client.apply(
            OBSERVED_KINDS[manifest["kind"]], manifest, field_manager=wellknown.MANAGER
        )


@contextlib.contextmanager
def _explain_errors(manifest: Mapping[str, Any]) -> Iterator[None]:
    try:
        yield
    except (errors.Invalid, errors.BadRequest) as problem:
        name = manifest["metadata"]["name"]
        raise PhaseBlocked(
            "InvalidTemplate",
            f"The super cluster rejected the {manifest['kind']} {name}: {str(problem).rstrip('.')}."
            " Correct the field in the ClusterVersion.",
            needs_admin=True,
            retry_after=60.0,
        ) from problem
