"""Certificate authorities of the node agents, for their clients and for themselves.

Owns two Secrets and a ConfigMap in the manager's namespace. Hazard: the client authority keeps each
tenant out of another tenant's pods. Its key never leaves this namespace. It is never created again
while any object records that there was one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.controller.worker import NotReadyYet, RequeueAfter, Result
from tenancy import wellknown
from tenancy.resources import CONFIG_MAPS, SECRETS, VIRTUAL_CLUSTERS
from vcmanager.pki import authority, bundles, checks, inventory, rotated_secrets, rotation
from vcmanager.pki.authority import KeyPair
from vcmanager.pki.inventory import AuthorityName
from vcmanager.pki.rotation import RotationState
from vcmanager.runtime import activity
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.certificate_expiry import CertificateValidity
from vcmanager.runtime.context import RESYNC_SECONDS, ReconcileContext
from vcmanager.runtime.keys import AGENT_TRUST_LABELS, ReconcileKey, build_key_of_listed
from vcmanager.runtime.object_metadata import is_subset

CLIENT_CA_NAME = wellknown.AGENT_CLIENT_AUTHORITY_SECRET
SERVING_CA_NAME = wellknown.AGENT_SERVING_AUTHORITY_SECRET
CLIENT_KEY = "client-ca.crt"
SERVING_KEY = wellknown.AGENT_SERVING_TRUST_KEY
AGENT_CERTIFICATES_OUTDATED = "AgentCertificatesOutdated"
"""Reason of the Event about a tenant that a rotation of the client authority did not wait for."""
_RETRY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class AgentAuthorities:
    """Both authorities."""

    client: KeyPair
    serving: KeyPair
    client_trust: bytes = b""
    """Certificates that agents trust. A rotation of the client authority has two."""
    client_secret: Object = field(default_factory=dict, repr=False)
    """The Secret of the client authority, with the stage of its rotation."""
    serving_secret: Object = field(default_factory=dict, repr=False)
    """The Secret of the serving authority, with the last request that was served."""


async def reconcile_agent_trust(means: ReconcileContext, _key: ReconcileKey) -> Result:
    """Create the authorities before the first tenant, because the agents wait for them.

    Changed published certificates are restored.
    """
    try:
        found = await load_authorities(means.super_client, means.namespace, now=means.now)
    except PhaseBlocked as held:
        raise NotReadyYet(held.message, _RETRY_SECONDS) from held
    pairs = {CLIENT_CA_NAME: found.client, SERVING_CA_NAME: found.serving}
    moved = await _advance_rotation(means, found.client_secret)
    if checks.has_ended(found.serving.certificate, means.now()):
        moved = min(moved, await _replace_serving(means, found.serving_secret))
    spans = {name: CertificateValidity(checks.get_expiry(pair)) for name, pair in pairs.items()}
    means.expiries.set_validities(wellknown.AGENT, spans)
    # Tenants' certificates for the agents, and their trust in agents, depend on the authorities.
    page = await means.super_client.list(VIRTUAL_CLUSTERS, metadata_only=True)
    for each in page.get("items") or ():
        means.enqueue(build_key_of_listed(each))
    return RequeueAfter(min(RESYNC_SECONDS, moved))


async def _advance_rotation(means: ReconcileContext, secret: Object) -> float:
    """Settle the stage of the client authority, or make the move that is due.

    Return the seconds until the next attempt. The Secret is watched, so a move queues the key.
    """
    state, keys = _read_rotation(inventory.AGENT_CLIENT, secret)
    now = means.now()
    request = rotated_secrets.parse_request(secret, inventory.AGENT_CLIENT, now)
    waits = rotation.WAITS[inventory.AGENT_CLIENT]
    is_ended = checks.has_ended(keys.current.certificate, now)
    move = rotation.choose_move(state, request, waits, now=now, is_ended=is_ended)
    if move is not None:
        made = authority.make_authority(CLIENT_CA_NAME, now=now)
        state, keys = rotation.apply_move(move, state, keys, made=made, start=request.start)
        patch = rotated_secrets.build_patch(inventory.AGENT_CLIENT, secret, state, keys)
    elif state.stage == rotation.STABLE:
        return RESYNC_SECONDS
    elif state.settled is None and await _is_settled(means, state, keys, now):
        state = rotation.settle(state, now)
        patch = rotated_secrets.build_state_patch(secret, state)
    else:
        due = rotation.compute_due(state, request, waits)
        return max(1.0, (due - now).total_seconds()) if due is not None else _RETRY_SECONDS
    return await _patch(means, CLIENT_CA_NAME, patch)


async def _replace_serving(means: ReconcileContext, secret: Object) -> float:
    """Replace the ended authority of the agents' serving certificates, if that was requested.

    There are no stages. Agents request a certificate every 12 h, and no earlier one is accepted
    anyway. Return the seconds until the next attempt.
    """
    state, keys = _read_rotation(inventory.AGENT_SERVING, secret)
    now = means.now()
    request = rotated_secrets.parse_request(secret, inventory.AGENT_SERVING, now)
    if not rotation.is_replacement_due(state, request):
        return RESYNC_SECONDS
    made = authority.make_authority(SERVING_CA_NAME, now=now)
    state, keys = rotation.apply_move("replace", state, keys, made=made, start=request.start)
    patch = rotated_secrets.build_patch(inventory.AGENT_SERVING, secret, state, keys)
    return await _patch(means, SERVING_CA_NAME, patch)


async def _patch(means: ReconcileContext, name: str, patch: Object) -> float:
    """Write the Secret of an authority. Return the seconds until the next attempt."""
    try:
        await means.super_client.patch(
            SECRETS, name, patch, namespace=means.namespace, field_manager=wellknown.MANAGER
        )
    except errors.Conflict:
        return 1.0
    return _RETRY_SECONDS


async def _is_settled(
    means: ReconcileContext, state: RotationState, keys: rotation.AuthorityKeys, now: datetime
) -> bool:
    """Return whether every running tenant has certificates of the new authority.

    An inactive tenant does not delay the others. It gets new certificates before its API server
    starts, or when its pause ends. An Event on its VirtualCluster records it. The trust of agents
    was published before. They read it again within the wait of the stage.
    """
    if state.stage == rotation.TRUST_BOTH:
        return True
    outdated: set[str] = set()
    for name in inventory.AGENT_CLIENT_SECRETS:
        page = await means.super_client.list(SECRETS, field_selector=f"metadata.name={name}")
        for each in page.get("items") or ():
            uid = (each["metadata"].get("labels") or {}).get(wellknown.VC_UID)
            certificate = bundles.read_data(each, bundles.CERTIFICATE_KEY)
            if uid and not checks.is_issued_by(certificate, keys.current):
                outdated.add(uid)
    if not outdated:
        return True
    page = await means.super_client.list(VIRTUAL_CLUSTERS)
    inactive = {
        each["metadata"]["uid"]: (each, reason)
        for each in page.get("items") or ()
        if (reason := activity.find_inactivity(each, now))
    }
    if not outdated <= inactive.keys():
        return False
    for uid in sorted(outdated):
        body, reason = inactive[uid]
        means.recorder.record(
            {"apiVersion": VIRTUAL_CLUSTERS.api_version, "kind": VIRTUAL_CLUSTERS.kind, **body},
            AGENT_CERTIFICATES_OUTDATED,
            f"{reason}, so its certificates for the node agents are of the old CA. The rotation of"
            " agent-client goes on. Logs, exec and metrics work again when vc-manager has issued"
            " new certificates.",
            kind="Warning",
        )
    return True


def _read_rotation(
    name: AuthorityName, secret: Object
) -> tuple[RotationState, rotation.AuthorityKeys]:
    try:
        return rotated_secrets.read_rotation(name, secret)
    except rotated_secrets.InvalidRotationError as problem:
        metadata = secret["metadata"]
        raise PhaseBlocked(
            "AgentAuthorityBroken",
            f"The Secret {metadata['namespace']}/{metadata['name']} has no usable rotation"
            f" ({problem}). Restore it.",
            condition=wellknown.CERTIFICATES_READY,
            needs_admin=True,
        ) from None


async def load_authorities(
    super_client: Client, namespace: str, *, now: Callable[[], datetime]
) -> AgentAuthorities:
    """Return the authorities. They are created if there never were any.

    Raises Held when an existing authority was deleted or is broken.
    """
    published = await _get_config_map(super_client, namespace)
    secret = await _get_or_create(
        super_client, namespace, CLIENT_CA_NAME, now=now(), may_create=published is None
    )
    serving = await _get_or_create(
        super_client, namespace, SERVING_CA_NAME, now=now(), may_create=published is None
    )
    _, keys = _read_rotation(inventory.AGENT_CLIENT, secret)
    found = AgentAuthorities(
        client=keys.current,
        serving=_read_pair(serving, SERVING_CA_NAME, namespace),
        client_trust=keys.build_trust(),
        client_secret=secret,
        serving_secret=serving,
    )
    await _publish_authorities(super_client, namespace, found, published)
    return found


async def _get_config_map(super_client: Client, namespace: str) -> Object | None:
    try:
        return await super_client.get(
            CONFIG_MAPS, wellknown.AGENT_CLIENT_TRUST, namespace=namespace
        )
    except errors.NotFound:
        return None


async def _get_or_create(
    super_client: Client, namespace: str, name: str, *, now: datetime, may_create: bool
) -> Object:
    """Return the Secret of a usable authority."""
    try:
        secret = await super_client.get(SECRETS, name, namespace=namespace)
    except errors.NotFound:
        if not may_create:
            raise PhaseBlocked(
                "AgentAuthorityLost",
                f"The Secret {namespace}/{name} was deleted. Restore it. Or delete the ConfigMap"
                f" {wellknown.AGENT_CLIENT_TRUST} in the same namespace, and vc-manager creates"
                " new CAs, which every agent and tenant must then load.",
                condition=wellknown.CERTIFICATES_READY,
                needs_admin=True,
            ) from None
        made = authority.make_authority(name, now=now)
        manifest = bundles.build_key_pair_secret(name, namespace, made)
        manifest["metadata"]["labels"] = dict(AGENT_TRUST_LABELS)
        try:
            secret = await super_client.create(SECRETS, manifest, field_manager=wellknown.MANAGER)
        except errors.AlreadyExists:  # another key of this manager was faster
            secret = await super_client.get(SECRETS, name, namespace=namespace)
    _read_pair(secret, name, namespace)
    labels = {"metadata": {"labels": dict(AGENT_TRUST_LABELS)}}
    if not is_subset(labels, secret):  # restored by hand without labels, so not watched
        await super_client.patch(
            SECRETS, name, labels, namespace=namespace, field_manager=wellknown.MANAGER
        )
    return secret


def _read_pair(secret: Object, name: str, namespace: str) -> KeyPair:
    pair = bundles.read_key_pair(secret)
    fault = checks.find_authority_fault(pair) if pair is not None else "missing"
    if pair is None or fault is not None:
        raise PhaseBlocked(
            "AgentAuthorityBroken",
            f"The Secret {namespace}/{name} has no usable CA ({fault}). Restore it.",
            condition=wellknown.CERTIFICATES_READY,
            needs_admin=True,
        )
    return pair


async def _publish_authorities(
    super_client: Client, namespace: str, found: AgentAuthorities, published: Object | None
) -> None:
    """Publish the authorities of agents' clients, and of agents for readers of their metrics.

    It is written last, because it records that the authorities exist.
    """
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": wellknown.AGENT_CLIENT_TRUST,
            "namespace": namespace,
            "labels": dict(AGENT_TRUST_LABELS),
        },
        "data": {
            CLIENT_KEY: found.client_trust.decode(),
            SERVING_KEY: found.serving.certificate.decode(),
        },
    }
    if not is_subset(manifest, published):
        await super_client.apply(CONFIG_MAPS, manifest, field_manager=wellknown.MANAGER)
