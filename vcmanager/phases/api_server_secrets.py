"""Secrets of a control plane beside its certificates: encryption keys, pull secrets, audit webhook.

Hazard: a ClusterVersion names Secrets of the components' namespace, where the agents' authorities
are too. Only Secrets of the two types below may be copied, each to its own name.
"""

from typing import Any

from kubeio import Object, errors
from tenancy import wellknown
from tenancy.resources import NAMESPACES, SECRETS
from vcmanager.plan.control_plane import API_SERVER, PlanInput
from vcmanager.runtime import object_metadata
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.object_metadata import add_metadata
from vcmanager.runtime.observed import ObservedObjects
from vcmanager.short_form import audit, encryption, pod_settings

Manifest = dict[str, Any]

PULL_SECRET_TYPE = "kubernetes.io/dockerconfigjson"  # noqa: S105 - a type, not a credential
AUDIT_WEBHOOK_TYPE = f"{wellknown.DOMAIN}/audit-webhook"
_RETRY_SECONDS = 30.0
"""Retry interval in seconds for a missing Secret, because no watch reports it."""


async def fetch_secrets(
    means: ReconcileContext, wish: PlanInput, namespace: Object, snapshot: ObservedObjects
) -> list[Manifest]:
    """Return the desired Secrets. New encryption keys are created. Raises PhaseBlocked."""
    if wish.version.is_bundled:
        return []
    made = [
        await _fetch_copy(
            means,
            each.name,
            field="imagePullSecrets",
            secret_type=PULL_SECRET_TYPE,
            key=".dockerconfigjson",
            copy=(wish.tenant.root, f"{pod_settings.PULL_SECRET_PREFIX}{each.name}"),
        )
        for each in wish.version.image_pull_secrets
    ]
    webhook = wish.version.audit.webhook if wish.version.audit is not None else None
    if webhook is not None:
        made.append(
            await _fetch_copy(
                means,
                webhook.secret_name,
                field="audit.webhook.secretName",
                secret_type=AUDIT_WEBHOOK_TYPE,
                key=audit.WEBHOOK_KEY,
                copy=(wish.tenant.root, audit.WEBHOOK_SECRET),
            )
        )
    keys = await _ensure_encryption_keys(means, wish, namespace, snapshot)
    return made if keys is None else [*made, keys]


async def _fetch_copy(
    means: ReconcileContext,
    name: str,
    *,
    field: str,
    secret_type: str,
    key: str,
    copy: tuple[str, str],
) -> Manifest:
    """Return the copy of a Secret of the components' namespace. `copy` has namespace and name."""
    try:
        found = await means.super_client.get(SECRETS, name, namespace=means.namespace)
    except errors.NotFound:
        found = {}
    if found.get("type") != secret_type or key not in (found.get("data") or {}):
        raise PhaseBlocked(
            "SecretNotFound",
            f"{field}: Secret {name!r} of type {secret_type} with the key {key} does not exist in"
            f" namespace {means.namespace}. Create it there.",
            condition=wellknown.READY,
            needs_admin=True,
            retry_after=_RETRY_SECONDS,
        )
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": copy[1], "namespace": copy[0]},
        "type": secret_type,
        "data": {key: found["data"][key]},
    }


async def _ensure_encryption_keys(
    means: ReconcileContext, wish: PlanInput, namespace: Object, snapshot: ObservedObjects
) -> Manifest | None:
    annotations = namespace["metadata"].get("annotations") or {}
    existing = snapshot.get("Secret", encryption.SECRET)
    manifest = encryption.build_encryption_secret(
        existing,
        wish.version.encryption,
        wish.tenant.root,
        is_initialised=annotations.get(wellknown.ENCRYPTION_INITIALISED) == "true",
        may_switch=_may_switch(wish, snapshot),
    )
    if manifest is None:
        return None
    if existing is None:
        # Never applied: an apply would overwrite keys that an administrator has just restored.
        try:
            await means.super_client.create(
                SECRETS, add_metadata(manifest, wish.tenant, {}), field_manager=wellknown.MANAGER
            )
        except errors.AlreadyExists:
            raise PhaseBlocked(
                "CertificatesPending",
                f"The Secret {encryption.SECRET} has just appeared. vc-manager reads it again.",
                retry_after=0.1,
            ) from None
    await _mark_initialised(means, namespace)
    return manifest


def _may_switch(wish: PlanInput, snapshot: ObservedObjects) -> bool:
    """Return whether every API server reads the present keys, so that one may encrypt with them.

    A second API server without the key would fail to list Secrets during the rollout. Therefore
    several servers first get the keys, and encrypt with them after that rollout.
    """
    if wish.is_new or wish.version.replicas == 1:
        return True
    found = snapshot.get("StatefulSet", API_SERVER)
    provider = wish.version.encryption.provider if wish.version.encryption is not None else None
    keys = (snapshot.get("Secret", encryption.SECRET) or {}).get("data") or {}
    if found is None or (provider is not None and f"{provider}.key" not in keys):
        return found is None
    mounted = object_metadata.list_mounted_sources(found["spec"]["template"]["spec"])
    status, replicas = found.get("status") or {}, found["spec"].get("replicas", 1)
    return (
        ("Secret", encryption.SECRET) in mounted
        and status.get("observedGeneration") == found["metadata"].get("generation")
        and status.get("updatedReplicas") == status.get("readyReplicas") == replicas
    )


async def _mark_initialised(means: ReconcileContext, namespace: Object) -> None:
    """Record that encryption keys exist. From then on missing keys are lost, not new."""
    metadata = namespace["metadata"]
    if (metadata.get("annotations") or {}).get(wellknown.ENCRYPTION_INITIALISED) == "true":
        return
    patch = {
        "metadata": {
            "uid": metadata["uid"],
            "annotations": {wellknown.ENCRYPTION_INITIALISED: "true"},
        }
    }
    await means.super_client.patch(
        NAMESPACES, metadata["name"], patch, field_manager=f"{wellknown.MANAGER}-pki"
    )
