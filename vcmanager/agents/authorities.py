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
from kubeio.controller.worker import Again, Verdict, Wait
from tenancy import wellknown
from tenancy.resources import CONFIG_MAPS, SECRETS, VIRTUAL_CLUSTERS
from vcmanager.pki import authority, bundles, checks
from vcmanager.pki.authority import Pair
from vcmanager.runtime.blocked import Held
from vcmanager.runtime.certificate_expiry import Span
from vcmanager.runtime.context import RESYNC_SECONDS, Means
from vcmanager.runtime.keys import AGENT_TRUST_LABELS, Key, of_listed
from vcmanager.runtime.object_metadata import is_part

CLIENT_SECRET = "vn-agent-client-ca"  # noqa: S105 - a name
SERVING_SECRET = "vn-agent-serving-ca"  # noqa: S105 - a name
CLIENT_KEY = "client-ca.crt"
SERVING_KEY = "serving-ca.crt"
_RETRY = 60.0


@dataclass(frozen=True, slots=True)
class AgentTrust:
    """Both authorities."""

    client: Pair
    serving: Pair


async def reconcile(means: Means, _key: Key) -> Verdict:
    """Create the authorities before the first tenant, because the agents wait for them.

    Changed published certificates are restored.
    """
    try:
        found = await load(means.super_client, means.namespace, now=means.now)
    except Held as held:
        raise Wait(held.message, _RETRY) from held
    pairs = {CLIENT_SECRET: found.client, SERVING_SECRET: found.serving}
    spans = {name: Span(checks.end_of(pair)) for name, pair in pairs.items()}
    means.expiries.note(wellknown.AGENT, spans)
    # Tenants' certificates for the agents, and their trust in agents, depend on the authorities.
    page = await means.super_client.list(VIRTUAL_CLUSTERS, metadata_only=True)
    for each in page.get("items") or ():
        means.wake(of_listed(each))
    return Again(RESYNC_SECONDS)


async def load(super_client: Client, namespace: str, *, now: Callable[[], datetime]) -> AgentTrust:
    """Return the authorities. They are created if there never were any.

    Raises Held when an existing authority was deleted or is broken.
    """
    published = await _get_config_map(super_client, namespace)
    found = AgentTrust(
        client=await _get_or_create(
            super_client, namespace, CLIENT_SECRET, now=now(), may_create=published is None
        ),
        serving=await _get_or_create(
            super_client, namespace, SERVING_SECRET, now=now(), may_create=published is None
        ),
    )
    await _publish(super_client, namespace, found, published)
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
) -> Pair:
    try:
        secret = await super_client.get(SECRETS, name, namespace=namespace)
    except errors.NotFound:
        if not may_create:
            raise Held(
                "AgentAuthorityLost",
                f"the Secret {namespace}/{name} is gone; restore it, or delete the ConfigMap"
                f" {wellknown.AGENT_CLIENT_TRUST} beside it to have new authorities made, which"
                " every agent and tenant then has to take up",
                condition=wellknown.CERTIFICATES_READY,
                needs_person=True,
            ) from None
        made = authority.make_authority(name, now=now)
        manifest = bundles.secret_of(name, namespace, made)
        manifest["metadata"]["labels"] = dict(AGENT_TRUST_LABELS)
        try:
            secret = await super_client.create(SECRETS, manifest, field_manager=wellknown.MANAGER)
        except errors.AlreadyExists:  # another key of this manager was faster
            secret = await super_client.get(SECRETS, name, namespace=namespace)
    pair = bundles.pair_of(secret)
    fault = checks.fault_of_authority(pair) if pair is not None else "missing"
    if pair is None or fault is not None:
        raise Held(
            "AgentAuthorityBroken",
            f"the Secret {namespace}/{name} holds no usable authority ({fault}); restore it",
            condition=wellknown.CERTIFICATES_READY,
            needs_person=True,
        )
    labels = {"metadata": {"labels": dict(AGENT_TRUST_LABELS)}}
    if not is_part(labels, secret):  # restored by hand without labels, so not watched
        await super_client.patch(
            SECRETS, name, labels, namespace=namespace, field_manager=wellknown.MANAGER
        )
    return pair


async def _publish(
    super_client: Client, namespace: str, found: AgentTrust, published: Object | None
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
    if not is_part(manifest, published):
        await super_client.apply(CONFIG_MAPS, manifest, field_manager=wellknown.MANAGER)
