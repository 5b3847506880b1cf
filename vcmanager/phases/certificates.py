"""Certificates, keys and kubeconfigs of a tenant, as Secrets in its root namespace.

Hazard: roots are created, never applied. An apply would overwrite a root that another manager, or
an administrator with a backup, has just written.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from kubeio import Object, errors
from tenancy import wellknown
from tenancy.resources import SECRETS
from vcmanager.agents import authorities
from vcmanager.phases import root_namespace
from vcmanager.pki import inventory
from vcmanager.plan import external_endpoint, pki_secrets
from vcmanager.plan.control_plane import ControlPlane, PlanInput
from vcmanager.plan.pki_secrets import ApiAddress, DesiredSecrets
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.object_metadata import add_metadata
from vcmanager.runtime.observed import ObservedObjects


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedCertificates:
    """The agents' authorities and all Secrets, authorities included."""

    agents: authorities.AgentAuthorities
    secrets: dict[str, Object]

    def list_immutable(self) -> list[Object]:
        """Return the Secrets that only a rotation writes again."""
        names = (*inventory.AUTHORITIES.values(), inventory.SERVICE_ACCOUNT_KEYS)
        return [self.secrets[name] for name in names if name in self.secrets]


async def create_authorities(
    means: ReconcileContext,
    wish: PlanInput,
    plan: ControlPlane,
    namespace: Object,
    snapshot: ObservedObjects,
) -> IssuedCertificates:
    """Create the Secrets that are created once in a tenant's life. Raises Held."""
    agents = await authorities.load_authorities(means.super_client, means.namespace, now=means.now)
    secrets = dict(snapshot.get_by_name("Secret"))
    annotations = namespace["metadata"].get("annotations") or {}
    missing = await pki_secrets.build_missing_authorities(
        secrets,
        plan.certificate_facts,
        is_initialised=annotations.get(wellknown.PKI_INITIALISED) == "true",
        now=means.now(),
    )
    for manifest in missing:
        try:
            secrets[manifest["metadata"]["name"]] = await means.super_client.create(
                SECRETS, add_metadata(manifest, wish.tenant, {}), field_manager=wellknown.MANAGER
            )
        except errors.AlreadyExists:
            raise PhaseBlocked(
                "CertificatesPending",
                f"the Secret {manifest['metadata']['name']} has just appeared",
                condition=wellknown.CERTIFICATES_READY,
                retry_after=0.1,
            ) from None
    await root_namespace.mark_pki_initialised(means, namespace)
    return IssuedCertificates(agents=agents, secrets=secrets)


def build_secrets(
    means: ReconcileContext,
    wish: PlanInput,
    plan: ControlPlane,
    roots: IssuedCertificates,
    *,
    external: ApiAddress | None,
    requested: datetime | None,
) -> DesiredSecrets:
    """Return all other required Secrets. Raises Held.

    Certificates that were issued before `requested` are renewed.
    """
    return pki_secrets.build_secrets(
        roots.secrets,
        plan.certificate_facts,
        pki_secrets.read_authorities(roots.secrets, plan.certificate_facts, roots.agents),
        roots.agents,
        internal=build_internal_address(plan),
        external=external,
        is_bundled=plan.is_bundled,
        lifetime=timedelta(days=wish.spec.pki_expire_days),
        now=means.now(),
        requested=requested,
    )


def build_internal_address(plan: ControlPlane) -> ApiAddress:
    """Return the API's address in the super cluster: the first of the service range."""
    return ApiAddress(server=external_endpoint.build_url(plan.certificate_facts.api_address, 443))
