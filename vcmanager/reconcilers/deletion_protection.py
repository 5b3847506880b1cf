"""Label of the namespace that holds protected VirtualClusters.

A policy of the chart refuses the DELETE of such a namespace. Otherwise the namespace of one team
would delete all its tenants at once.
"""

from kubeio import Object, errors
from tenancy import deletion, wellknown
from tenancy.resources import NAMESPACES, VIRTUAL_CLUSTERS
from vcmanager.runtime.context import ReconcileContext


async def reconcile_namespace_protection(
    means: ReconcileContext, body: Object, *, protects: bool
) -> None:
    """Add the label for a protected VirtualCluster, or remove it after the last one.

    `body` is the VirtualCluster of this reconcile. `protects` is whether it exists and is
    protected. A refusal by the super cluster becomes an Event, because the tenant can do without
    the label.
    """
    namespace = body["metadata"]["namespace"]
    try:
        found = await means.super_client.get(NAMESPACES, namespace, metadata_only=True)
    except errors.NotFound:
        return
    is_labelled = deletion.is_protected(found["metadata"].get("labels") or {})
    if protects == is_labelled:
        return
    if not protects:
        page = await means.super_client.list(
            VIRTUAL_CLUSTERS, namespace=namespace, metadata_only=True
        )
        if any(_is_protected(each) for each in page.get("items") or ()):
            return
    labels = {wellknown.DELETION_PROTECTION: deletion.PROTECTION_ENABLED if protects else None}
    try:
        await means.super_client.patch(
            NAMESPACES,
            namespace,
            {"metadata": {"uid": found["metadata"]["uid"], "labels": labels}},
            field_manager=wellknown.MANAGER,
        )
    except errors.Forbidden as problem:
        message = (
            f"The label {wellknown.DELETION_PROTECTION} of namespace {namespace} cannot be written:"
            f" {problem}. Set it yourself."
        )
        means.recorder.record(body, "NamespaceNotLabelled", message, kind="Warning")


def _is_protected(virtual_cluster: Object) -> bool:
    return deletion.is_protected(virtual_cluster["metadata"].get("labels") or {})
