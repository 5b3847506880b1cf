"""Certificate authorities of the node agents, for their clients and for themselves.

Owns two Secrets and a ConfigMap in the manager's namespace. Hazard: the client authority keeps each
tenant out of another tenant's pods. Its key never leaves this namespace. It is never created again
while any object records that there was one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.controller.worker import NotReadyYet, RequeueAfter, Result
from tenancy import wellknown
from tenancy.resources import CONFIG_MAPS, SECRETS, VIRTUAL_CLUSTERS
from vcmanager.pki import authority, bundles, checks
from vcmanager.pki.authority import KeyPair
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.certificate_expiry import CertificateValidity
from vcmanager.runtime.context import RESYNC_SECONDS, ReconcileContext
from vcmanager.runtime.keys import AGENT_TRUST_LABELS, ReconcileKey, build_key_of_listed
from vcmanager.runtime.object_metadata import is_subset

CLIENT_CA_NAME = "vn-agent-client-ca"
SERVING_CA_NAME = "vn-agent-serving-ca"
CLIENT_KEY = "client-ca.crt"
SERVING_KEY = "serving-ca.crt"
_RETRY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class AgentAuthorities:
    """Both authorities."""

    client: KeyPair
    serving: KeyPair


async def reconcile_agent_trust(means: ReconcileContext, _key: ReconcileKey) -> Result:
    """Create the authorities before the first tenant, because the agents wait for them.

    Changed published certificates are restored.
    """
    try:
        found = await load_authorities(means.super_client, means.namespace, now=means.now)
    except PhaseBlocked as held:
        raise NotReadyYet(held.message, _RETRY_SECONDS) from held
    pairs = {CLIENT_CA_NAME: found.client, SERVING_CA_NAME: found.serving}
    spans = {name: CertificateValidity(checks.get_expiry(pair)) for name, pair in pairs.items()}
    means.expiries.set_validities(wellknown.AGENT, spans)
    # Tenants' certificates for the agents, and their trust in agents, depend on the authorities.
    page = await means.super_client.list(VIRTUAL_CLUSTERS, metadata_only=True)
    for each in page.get("items") or ():
        means.enqueue(build_key_of_listed(each))
    return RequeueAfter(RESYNC_SECONDS)


async def load_authorities(
    super_client: Client, namespace: str, *, now: Callable[[], datetime]
) -> AgentAuthorities:
    """Return the authorities. They are created if there never were any.

    Raises Held when an existing authority was deleted or is broken.
    """
    published = await _get_config_map(super_client, namespace)
    found = AgentAuthorities(
        client=await _get_or_create(
            super_client, namespace, CLIENT_CA_NAME, now=now(), may_create=published is None
        ),
        serving=await _get_or_create(
            super_client, namespace, SERVING_CA_NAME, now=now(), may_create=published is None
        ),
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
) -> KeyPair:
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
    pair = bundles.read_key_pair(secret)
    fault = checks.find_authority_fault(pair) if pair is not None else "missing"
    if pair is None or fault is not None:
        raise PhaseBlocked(
            "AgentAuthorityBroken",
            f"The Secret {namespace}/{name} has no usable CA ({fault}). Restore it.",
            condition=wellknown.CERTIFICATES_READY,
            needs_admin=True,
        )
    labels = {"metadata": {"labels": dict(AGENT_TRUST_LABELS)}}
    if not is_subset(labels, secret):  # restored by hand without labels, so not watched
        await super_client.patch(
            SECRETS, name, labels, namespace=namespace, field_manager=wellknown.MANAGER
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
            CLIENT_KEY: found.client.certificate.decode(),
            SERVING_KEY: found.serving.certificate.decode(),
        },
    }
    if not is_subset(manifest, published):
        await super_client.apply(CONFIG_MAPS, manifest, field_manager=wellknown.MANAGER)
