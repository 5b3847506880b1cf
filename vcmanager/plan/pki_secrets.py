"""Decision on each Secret of a tenant: keep, renew or create.

Pure, except that it generates keys. Owns the rule that authorities and ServiceAccount keys are
created once in a tenant's life. Hazard: a new authority disconnects every client, and a new
ServiceAccount key voids every token. A missing Secret is believed only for a tenant that was never
initialised.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tenancy import wellknown
from vcmanager.agents.authorities import CLIENT_SECRET as AGENT_AUTHORITY
from vcmanager.agents.authorities import AgentTrust
from vcmanager.pki import authority, bundles, checks, inventory
from vcmanager.pki.authority import Pair
from vcmanager.pki.inventory import AuthorityName, Facts
from vcmanager.plan import upstream_bundles
from vcmanager.runtime.blocked import Held
from vcmanager.runtime.certificate_expiry import Span

Manifest = dict[str, Any]
Secrets = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Address of the tenant's API, for a kubeconfig."""

    server: str
    server_name: str = ""
    """The name in the certificate, if the URL's host may not be in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """All required Secrets, and the time of the next check."""

    secrets: tuple[Manifest, ...]
    trust: Manifest
    serving: bytes
    """Certificate of the authority behind the tenant's servers."""
    renewed: tuple[tuple[str, checks.Fault], ...]
    """Renewed Secrets, each with its reason."""
    next_renewal: datetime
    spans: Mapping[str, Span]
    """Expiry and renewal by name of the Secret, authorities included."""


async def missing_roots(
    secrets: Secrets, facts: Facts, *, is_initialised: bool, now: datetime
) -> list[Manifest]:
    """Return the authorities and keys that must be created, before anything else is signed.

    Raises Held when a required one was deleted or is broken.
    """
    kept = [*inventory.AUTHORITIES.values(), inventory.SERVICE_ACCOUNT_KEYS]
    for name in kept:
        if name not in secrets and is_initialised:
            raise Held(
                "AuthorityLost",
                f"the Secret {name} in namespace {facts.root} is gone; nothing made anew could take"
                " its place, because clients and tokens depend on it: restore it from a backup",
                condition=wellknown.CERTIFICATES_READY,
                needs_person=True,
            )
    made = [
        bundles.secret_of(
            secret,
            facts.root,
            authority.make_authority(inventory.authority_common_name(name, facts.uid), now=now),
        )
        for name, secret in inventory.AUTHORITIES.items()
        if secret not in secrets
    ]
    if inventory.SERVICE_ACCOUNT_KEYS not in secrets:
        keys = await asyncio.to_thread(authority.make_service_account_keys)  # 0.1 s
        made.append(bundles.secret_of(inventory.SERVICE_ACCOUNT_KEYS, facts.root, keys))
    return made


def roots_of(secrets: Secrets, facts: Facts, agents: AgentTrust) -> dict[AuthorityName, Pair]:
    """Return all authorities. Raises Held when one cannot be used."""
    found: dict[AuthorityName, Pair] = {inventory.AGENT_CLIENT: agents.client}
    for name, secret in inventory.AUTHORITIES.items():
        pair = bundles.pair_of(secrets.get(secret))
        if pair is None:
            raise Held("CertificatesPending", f"waiting for the Secret {secret}")
        _refuse_broken(checks.fault_of_authority(pair), secret, facts.root)
        found[name] = pair
    keys = bundles.pair_of(secrets.get(inventory.SERVICE_ACCOUNT_KEYS))
    if keys is None:
        raise Held(
            "CertificatesPending", f"waiting for the Secret {inventory.SERVICE_ACCOUNT_KEYS}"
        )
    _refuse_broken(checks.fault_of_keys(keys), inventory.SERVICE_ACCOUNT_KEYS, facts.root)
    return found


def material(
    secrets: Secrets,
    facts: Facts,
    roots: Mapping[AuthorityName, Pair],
    agents: AgentTrust,
    *,
    internal: Address,
    external: Address | None,
    is_bundled: bool,
    lifetime: timedelta,
    now: datetime,
) -> Material:
    """Return every Secret but the roots. Usable Secrets are kept to the byte.

    Without an external address there is no kubeconfig for the tenant's admin yet.
    """
    made: list[Manifest] = []
    renewed: list[tuple[str, checks.Fault]] = []
    spans = {
        AGENT_AUTHORITY if name == inventory.AGENT_CLIENT else inventory.AUTHORITIES[name]: Span(
            checks.end_of(pair)
        )
        for name, pair in roots.items()
    }
    renewals: list[datetime] = []

    def leaf(name: str, pair: Pair | None, issuer: Pair, subject: authority.Subject) -> Pair:
        fault = checks.fault_of_leaf(pair, subject, issuer, lifetime=lifetime, now=now)
        if pair is None or fault is not None:
            pair = authority.make_leaf(issuer, subject, lifetime=lifetime, now=now)
            renewed.append((name, fault or "missing"))
        renewals.append(checks.renewal_of(pair))
        spans[name] = Span(checks.end_of(pair), renewals[-1])
        return pair

    for row in inventory.leaves(facts):
        kept = bundles.pair_of(secrets.get(row.secret))
        pair = leaf(row.secret, kept, roots[row.authority], row.subject)
        made.append(bundles.secret_of(row.secret, facts.root, pair))
    for login in inventory.logins(facts):
        address = external if login.external else internal
        if address is None:
            continue
        secret = secrets.get(login.secret)
        old = bundles.pair_of_kubeconfig(bundles.data_of(secret, login.secret)) if secret else None
        pair = leaf(login.secret, old, roots[inventory.CLIENT], login.subject)
        document = bundles.kubeconfig(
            pair,
            cluster=facts.name,
            user=login.subject.common_name,
            server=address.server,
            server_name=address.server_name,
            authority=roots[inventory.SERVING].certificate,
        )
        made.append(
            bundles.kubeconfig_secret_of(login.secret, facts.root, login.credential, document)
        )
    if is_bundled:
        made += _own_roots(facts.root, roots)
    return Material(
        secrets=tuple(made),
        trust=_trust(facts.root, roots, agents),
        serving=roots[inventory.SERVING].certificate,
        renewed=tuple(renewed),
        next_renewal=min(renewals),
        spans=spans,
    )


def _own_roots(root: str, roots: Mapping[AuthorityName, Pair]) -> list[Manifest]:
    """Return the Secrets behind the `root-ca` volumes of upstream's bundles, one per component."""
    etcd, client = roots[inventory.ETCD], roots[inventory.CLIENT]
    return [
        bundles.trust_secret_of(
            upstream_bundles.root_secret(upstream_bundles.ETCD), root, etcd.certificate
        ),
        bundles.trust_secret_of(
            upstream_bundles.root_secret(upstream_bundles.API_SERVER), root, client.certificate
        ),
        # The controller manager signs the tenant's requests, so it alone has the key.
        bundles.secret_of(
            upstream_bundles.root_secret(upstream_bundles.CONTROLLER_MANAGER), root, client
        ),
    ]


def _trust(root: str, roots: Mapping[AuthorityName, Pair], agents: AgentTrust) -> Manifest:
    certificates = {
        "serving.crt": roots[inventory.SERVING],
        "client.crt": roots[inventory.CLIENT],
        "etcd.crt": roots[inventory.ETCD],
        "front-proxy.crt": roots[inventory.FRONT_PROXY],
        "agents.crt": agents.serving,
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": inventory.TRUST, "namespace": root},
        "data": {key: pair.certificate.decode() for key, pair in certificates.items()},
    }


def _refuse_broken(fault: checks.Fault | None, secret: str, root: str) -> None:
    if fault is not None:
        raise Held(
            "AuthorityBroken",
            f"the Secret {secret} in namespace {root} cannot be used ({fault}); nothing made anew"
            " could take its place: restore it from a backup",
            condition=wellknown.CERTIFICATES_READY,
            needs_person=True,
        )
