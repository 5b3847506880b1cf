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
from vcmanager.runtime.blocked import Held
from vcmanager.runtime.context import Means
from vcmanager.runtime.object_metadata import is_current
from vcmanager.runtime.observed import KINDS, Snapshot


async def apply(means: Means, manifests: Iterable[Mapping[str, Any]], snapshot: Snapshot) -> int:
    """Apply concurrently the manifests that differ from the snapshot. Return their number."""
    stale = [
        manifest
        for manifest in manifests
        if not is_current(manifest, snapshot.get(manifest["kind"], manifest["metadata"]["name"]))
    ]
    results = await asyncio.gather(
        *(_apply(means, dict(manifest)) for manifest in stale), return_exceptions=True
    )
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return len(stale)


async def create(means: Means, manifests: Iterable[Mapping[str, Any]]) -> None:
    """Create missing objects, and leave existing ones unchanged."""
    for manifest in manifests:
        with contextlib.suppress(errors.AlreadyExists), _explained(manifest):
            await means.super_client.create(
                KINDS[manifest["kind"]], dict(manifest), field_manager=wellknown.MANAGER
            )


async def prune(means: Means, wanted: Iterable[Mapping[str, Any]], snapshot: Snapshot) -> None:
    """Delete own objects that are no longer desired, such as DNS of a tenant with its own."""
    names = {(each["kind"], each["metadata"]["name"]) for each in wanted}
    for kind in _PRUNED:
        for name, found in snapshot.named(kind).items():
            metadata = found["metadata"]
            ours = wellknown.DIGEST in (metadata.get("annotations") or {})
            if ours and (kind, name) not in names and "deletionTimestamp" not in metadata:
                await means.super_client.delete(
                    KINDS[kind], name, namespace=metadata["namespace"], uid=metadata["uid"]
                )


_PRUNED = ("StatefulSet", "Deployment", "Service", "ConfigMap", "Secret")


async def _apply(means: Means, manifest: Object) -> None:
    with _explained(manifest):
        await means.super_client.apply(
            KINDS[manifest["kind"]], manifest, field_manager=wellknown.MANAGER
        )


@contextlib.contextmanager
def _explained(manifest: Mapping[str, Any]) -> Iterator[None]:
    try:
        yield
    except (errors.Invalid, errors.BadRequest) as problem:
        name = manifest["metadata"]["name"]
        raise Held(
            "InvalidTemplate",
            f"the super cluster refuses the {manifest['kind']} {name}: {problem}",
            needs_person=True,
            again_after=60.0,
        ) from problem
