"""Certificates, keys and kubeconfigs of a tenant, as Secrets in its root namespace.

Hazard: roots are created, never applied. An apply would overwrite a root that another manager, or
an administrator with a backup, has just written.
"""

from dataclasses import dataclass
from datetime import timedelta

from kubeio import Object, errors
from tenancy import wellknown
from tenancy.resources import SECRETS
from vcmanager.agents import authorities
from vcmanager.phases import root_namespace
from vcmanager.pki import inventory
from vcmanager.plan import external_endpoint, pki_secrets
from vcmanager.plan.control_plane import ControlPlane, Wish
from vcmanager.plan.pki_secrets import Address, Material
from vcmanager.runtime.blocked import Held
from vcmanager.runtime.context import Means
from vcmanager.runtime.object_metadata import marked
from vcmanager.runtime.observed import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """The agents' authorities and all Secrets, authorities included."""

    agents: authorities.AgentTrust
    secrets: dict[str, Object]

    def made_once(self) -> list[Object]:
        """Return the Secrets that are never written again."""
        names = (*inventory.AUTHORITIES.values(), inventory.SERVICE_ACCOUNT_KEYS)
        return [self.secrets[name] for name in names if name in self.secrets]


async def create_roots(
    means: Means, wish: Wish, plan: ControlPlane, namespace: Object, snapshot: Snapshot
) -> Roots:
    """Create the Secrets that are created once in a tenant's life. Raises Held."""
    agents = await authorities.load(means.super_client, means.namespace, now=means.now)
    secrets = dict(snapshot.named("Secret"))
    annotations = namespace["metadata"].get("annotations") or {}
    missing = await pki_secrets.missing_roots(
        secrets,
        plan.facts,
        is_initialised=annotations.get(wellknown.PKI_INITIALISED) == "true",
        now=means.now(),
    )
    for manifest in missing:
        try:
            secrets[manifest["metadata"]["name"]] = await means.super_client.create(
                SECRETS, marked(manifest, wish.tenant, {}), field_manager=wellknown.MANAGER
            )
        except errors.AlreadyExists:
            raise Held(
                "CertificatesPending",
                f"the Secret {manifest['metadata']['name']} has just appeared",
                condition=wellknown.CERTIFICATES_READY,
                again_after=0.1,
            ) from None
    await root_namespace.mark_initialised(means, namespace)
    return Roots(agents=agents, secrets=secrets)


def material(
    means: Means, wish: Wish, plan: ControlPlane, roots: Roots, external: Address | None
) -> Material:
    """Return all other required Secrets. Raises Held."""
    return pki_secrets.material(
        roots.secrets,
        plan.facts,
        pki_secrets.roots_of(roots.secrets, plan.facts, roots.agents),
        roots.agents,
        internal=internal_of(plan),
        external=external,
        is_bundled=plan.is_bundled,
        lifetime=timedelta(days=wish.spec.pki_expire_days),
        now=means.now(),
    )


def internal_of(plan: ControlPlane) -> Address:
    """Return the API's address in the super cluster: the first of the service range."""
    return Address(server=external_endpoint.url_of(plan.facts.api_address, 443))
