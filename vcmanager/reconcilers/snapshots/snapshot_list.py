"""The snapshots of a namespace, as their reconcilers read them."""

import contextlib

from tenancy.resources import VIRTUAL_CLUSTER_SNAPSHOTS
from tenancy.snapshots import view
from tenancy.snapshots.view import Snapshot
from vcmanager.runtime.context import ReconcileContext


async def list_snapshots(
    means: ReconcileContext, namespace: str, label_selector: str = ""
) -> list[Snapshot]:
    """Return the snapshots that can be parsed. Raises KubeError."""
    page = await means.super_client.list(
        VIRTUAL_CLUSTER_SNAPSHOTS, namespace=namespace, label_selector=label_selector
    )
    found: list[Snapshot] = []
    for each in page.get("items") or ():
        with contextlib.suppress(view.InvalidSnapshotError):
            found.append(view.parse_snapshot(each))
    return found
