"""Secrets of `spec.kubeconfigSecrets`, beside the VirtualCluster.

Hazard: the namespace belongs to users. Only a Secret that names this VirtualCluster as its owner
may be changed or deleted. Hazard: readers of the namespace's Secrets become cluster-admin in the
tenant, and Argo CD deploys to each cluster that has a Secret. Therefore the administrator of the
namespace must have allowed such Secrets by a label.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

from kubeio import Object, errors
from tenancy import conditions, wellknown
from tenancy.access.specs import KubeconfigFormat
from tenancy.ownership import Tenant
from tenancy.resources import NAMESPACES, SECRETS
from tenancy.specs import VirtualClusterSpec
from vcmanager.plan.access import tool_secrets
from vcmanager.plan.access.tool_secrets import KubeconfigParts
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.object_metadata import is_subset
from vcmanager.runtime.status import ReconcileStatus

NOT_ENABLED, NAME_TAKEN, WRITTEN = "NamespaceNotEnabled", "NameTaken", "Written"
"""Reasons of the condition KubeconfigSecretsReady."""


def may_have_secrets(spec: VirtualClusterSpec, body: Object) -> bool:
    """Return whether Secrets are wanted, or may be left from an earlier spec."""
    known = (body.get("status") or {}).get("conditions")
    before = conditions.find_condition(known, wellknown.KUBECONFIG_SECRETS_READY)
    return bool(spec.kubeconfig_secrets) or before is not None


async def reconcile_secrets(
    means: ReconcileContext,
    tenant: Tenant,
    spec: VirtualClusterSpec,
    parts: KubeconfigParts,
    report: ReconcileStatus,
) -> None:
    """Write the wanted Secrets, delete own ones that are not wanted, and set the condition."""
    wanted = spec.kubeconfig_secrets
    is_enabled = bool(wanted) and await _is_enabled(means, tenant)
    taken: list[str] = []
    for form in tool_secrets.SUFFIXES:
        name = tool_secrets.build_name(tenant, form)
        found = await _fetch(means, tenant, name)
        if form not in wanted:
            await _delete_own(means, tenant, found)
        elif is_enabled and not await _write(means, tenant, form, parts, found):
            taken.append(name)
    if not wanted:
        return
    if not is_enabled:
        message = (
            f"spec.kubeconfigSecrets: namespace {tenant.namespace} does not allow kubeconfig"
            " Secrets. Its administrator allows them with the label"
            f" {wellknown.KUBECONFIG_SECRETS}={tool_secrets.ENABLED} on the namespace."
        )
        _fail(report, NOT_ENABLED, message)
    elif taken:
        message = (
            f"spec.kubeconfigSecrets: Secret {', '.join(taken)} in namespace {tenant.namespace}"
            " exists and does not belong to this VirtualCluster, so vc-manager does not change it."
            " Delete the Secret if it is not needed."
        )
        _fail(report, NAME_TAKEN, message)
    else:
        names = ", ".join(tool_secrets.build_name(tenant, form) for form in wanted)
        report.set_condition(
            wellknown.KUBECONFIG_SECRETS_READY, "True", WRITTEN, f"Written: Secret {names}."
        )


async def delete_secrets(means: ReconcileContext, tenant: Tenant, body: Object) -> None:
    """Delete the Secrets of a tenant that is being deleted, if it ever asked for them."""
    asked = (body.get("spec") or {}).get("kubeconfigSecrets")
    known = (body.get("status") or {}).get("conditions")
    if not asked and not conditions.find_condition(known, wellknown.KUBECONFIG_SECRETS_READY):
        return
    for form in tool_secrets.SUFFIXES:
        name = tool_secrets.build_name(tenant, form)
        await _delete_own(means, tenant, await _fetch(means, tenant, name))


async def _is_enabled(means: ReconcileContext, tenant: Tenant) -> bool:
    namespace = await means.super_client.get(NAMESPACES, tenant.namespace, metadata_only=True)
    labels: Mapping[str, Any] = namespace["metadata"].get("labels") or {}
    return labels.get(wellknown.KUBECONFIG_SECRETS) == tool_secrets.ENABLED


async def _fetch(means: ReconcileContext, tenant: Tenant, name: str) -> Object | None:
    try:
        return await means.super_client.get(SECRETS, name, namespace=tenant.namespace)
    except errors.NotFound:
        return None


async def _write(
    means: ReconcileContext,
    tenant: Tenant,
    form: KubeconfigFormat,
    parts: KubeconfigParts,
    found: Object | None,
) -> bool:
    """Create or update a Secret. Return False if the name belongs to another object."""
    desired = tool_secrets.build_secret(tenant, form, parts)
    if found is None:
        try:
            # Never applied: an apply would overwrite a Secret that has just appeared.
            await means.super_client.create(SECRETS, desired, field_manager=wellknown.MANAGER)
        except errors.AlreadyExists:
            return False
        return True
    if not tool_secrets.is_own(found, tenant):
        return False
    if not is_subset(desired, {**found, "apiVersion": "v1", "kind": "Secret"}):
        desired["metadata"]["uid"] = found["metadata"]["uid"]
        await means.super_client.apply(SECRETS, desired, field_manager=wellknown.MANAGER)
    return True


async def _delete_own(means: ReconcileContext, tenant: Tenant, found: Object | None) -> None:
    if found is None or not tool_secrets.is_own(found, tenant):
        return
    metadata = found["metadata"]
    with contextlib.suppress(errors.NotFound):
        await means.super_client.delete(
            SECRETS, metadata["name"], namespace=tenant.namespace, uid=metadata["uid"]
        )


def _fail(report: ReconcileStatus, reason: str, message: str) -> None:
    report.set_condition(
        wellknown.KUBECONFIG_SECRETS_READY, "False", reason, message, is_failure=True
    )
