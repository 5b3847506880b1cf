"""Decision on each Secret of a tenant: keep, renew or create.

Pure, except that it generates keys. Owns the rule that authorities and ServiceAccount keys are
created once in a tenant's life. Hazard: a new authority disconnects every client, and a new
ServiceAccount key voids every token. A missing Secret is believed only for a tenant that was never
initialised.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tenancy import wellknown
from vcmanager.agents.authorities import AgentAuthorities
from vcmanager.pki import authority, bundles, checks, inventory, rotated_secrets
from vcmanager.pki.authority import KeyPair
from vcmanager.pki.inventory import AuthorityName, CertificateFacts
from vcmanager.plan import upstream_bundles
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.certificate_expiry import CertificateValidity

_MAX_REPLACED_ENDS = 5
"""Replaced kubeconfigs that are remembered. A tenant can request renewals often."""

Manifest = dict[str, Any]
ExistingSecrets = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAddress:
    """Address of the tenant's API, for a kubeconfig."""

    server: str
    server_name: str = ""
    """The name in the certificate, if the URL's host may not be in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredSecrets:
    """All required Secrets, and the time of the next check."""

    secrets: tuple[Manifest, ...]
    trust: Manifest
    serving: bytes
    """Trusted certificates of the authority behind the tenant's servers."""
    renewed_secrets: tuple[tuple[str, checks.CertificateFault], ...]
    """Renewed Secrets, each with its reason."""
    next_renewal: datetime
    replaced_ends: tuple[datetime, ...]
    """Ends of admin kubeconfigs that were replaced, and that users may still have as a file."""
    validities: Mapping[str, CertificateValidity]
    """Expiry and renewal by name of the Secret, authorities included."""
    ended_message: str = ""
    """Which authorities have ended, and what to do. Their certificates are kept as they are."""


async def build_missing_authorities(
    secrets: ExistingSecrets, facts: CertificateFacts, *, is_initialised: bool, now: datetime
) -> list[Manifest]:
    """Return the authorities and keys that must be created, before anything else is signed.

    Raises Held when a required one was deleted or is broken.
    """
    kept = [*inventory.AUTHORITIES.values(), inventory.SERVICE_ACCOUNT_KEYS]
    for name in kept:
        if name not in secrets and is_initialised:
            raise PhaseBlocked(
                "AuthorityLost",
                f"The Secret {name} in namespace {facts.root} was deleted. Restore it from a"
                " backup. vc-manager cannot recreate it, because clients and tokens depend on it.",
                condition=wellknown.CERTIFICATES_READY,
                needs_admin=True,
            )
    made = [
        bundles.build_key_pair_secret(
            secret,
            facts.root,
            authority.make_authority(
                inventory.build_authority_common_name(name, facts.uid), now=now
            ),
        )
        for name, secret in inventory.AUTHORITIES.items()
        if secret not in secrets
    ]
    if inventory.SERVICE_ACCOUNT_KEYS not in secrets:
        keys = await asyncio.to_thread(authority.make_service_account_keys)  # 0.1 s
        made.append(bundles.build_key_pair_secret(inventory.SERVICE_ACCOUNT_KEYS, facts.root, keys))
    return made


def read_authorities(
    secrets: ExistingSecrets, facts: CertificateFacts, agents: AgentAuthorities
) -> dict[AuthorityName, KeyPair]:
    """Return all authorities. Raises Held when one cannot be used."""
    found: dict[AuthorityName, KeyPair] = {
        inventory.AGENT_CLIENT: agents.client,
        inventory.AGENT_SERVING: agents.serving,
    }
    for name, secret in inventory.AUTHORITIES.items():
        pair = bundles.read_key_pair(secrets.get(secret))
        if pair is None:
            raise _build_pending(secret)
        _raise_for_fault(checks.find_authority_fault(pair), secret, facts.root)
        found[name] = pair
    keys = bundles.read_key_pair(secrets.get(inventory.SERVICE_ACCOUNT_KEYS))
    if keys is None:
        raise _build_pending(inventory.SERVICE_ACCOUNT_KEYS)
    _raise_for_fault(checks.find_keys_fault(keys), inventory.SERVICE_ACCOUNT_KEYS, facts.root)
    return found


def read_trust(secrets: ExistingSecrets, agents: AgentAuthorities) -> dict[AuthorityName, bytes]:
    """Return the trusted certificates of each authority. A rotation has two of one authority.

    `advance_rotations` has checked the Secrets.
    """
    found: dict[AuthorityName, bytes] = {
        name: rotated_secrets.read_rotation(name, secrets[secret])[1].build_trust()
        for name, secret in inventory.AUTHORITIES.items()
    }
    return {
        **found,
        inventory.AGENT_CLIENT: agents.client_trust,
        inventory.AGENT_SERVING: agents.serving.certificate,
    }


def build_secrets(
    secrets: ExistingSecrets,
    facts: CertificateFacts,
    roots: Mapping[AuthorityName, KeyPair],
    agents: AgentAuthorities,
    *,
    internal: ApiAddress,
    external: ApiAddress | None,
    is_bundled: bool,
    lifetime: timedelta,
    now: datetime,
    requested: datetime | None = None,
) -> DesiredSecrets:
    """Return every Secret but the roots. Usable Secrets are kept to the byte.

    Certificates that were issued before `requested` are renewed. Without an external address there
    is no kubeconfig for the tenant's admin yet.
    """
    trust = read_trust(secrets, agents)
    ended_message = describe_ended(roots, facts, now)
    made: list[Manifest] = []
    renewed: list[tuple[str, checks.CertificateFault]] = []
    spans = {
        wellknown.SHARED_AUTHORITIES.get(name) or inventory.AUTHORITIES[name]: CertificateValidity(
            checks.get_expiry(pair), issued=checks.get_issue_time(pair)
        )
        for name, pair in roots.items()
    }
    renewals: list[datetime] = []

    def build_leaf(
        name: str, pair: KeyPair | None, issuer: KeyPair, subject: authority.CertificateSubject
    ) -> KeyPair:
        fault = checks.find_leaf_fault(
            pair, subject, issuer, lifetime=lifetime, now=now, requested=requested, owner=facts.uid
        )
        is_issuer_ended = checks.has_ended(issuer.certificate, now)
        if is_issuer_ended and (pair is None or not checks.is_readable(pair.certificate)):
            raise build_ended_block(ended_message)
        if pair is None or (fault is not None and not is_issuer_ended):
            pair = authority.make_leaf(issuer, subject, lifetime=lifetime, now=now)
            renewed.append((name, fault or "missing"))
        issued, renewal = (
            checks.get_issue_time(pair),
            checks.compute_renewal(pair, facts.uid, issuer),
        )
        if not is_issuer_ended:
            renewal = min(renewal, checks.find_requested_renewal(issued, requested) or renewal)
            renewals.append(renewal)
        spans[name] = CertificateValidity(checks.get_expiry(pair), renewal, issued)
        return pair

    for row in inventory.list_leaves(facts):
        kept = bundles.read_key_pair(secrets.get(row.secret))
        pair = build_leaf(row.secret, kept, roots[row.authority], row.subject)
        made.append(bundles.build_key_pair_secret(row.secret, facts.root, pair))
    replaced_ends: tuple[datetime, ...] = ()
    for login in inventory.list_logins(facts):
        address = external if login.external else internal
        if address is None:
            continue
        secret = secrets.get(login.secret)
        old = (
            bundles.read_kubeconfig_key_pair(bundles.read_data(secret, login.secret))
            if secret
            else None
        )
        pair = build_leaf(login.secret, old, roots[inventory.CLIENT], login.subject)
        document = bundles.build_kubeconfig(
            pair,
            cluster=facts.name,
            user=login.subject.common_name,
            server=address.server,
            server_name=address.server_name,
            authority=trust[inventory.SERVING],
        )
        manifest = bundles.build_kubeconfig_secret(
            login.secret, facts.root, login.credential, document
        )
        if login.external:
            replaced_ends = _list_replaced_ends(secret, old, pair, now)
        if login.external and replaced_ends:
            text = ",".join(end.isoformat() for end in replaced_ends)
            manifest["metadata"]["annotations"] = {wellknown.REPLACED_KUBECONFIG_ENDS: text}
        made.append(manifest)
    if is_bundled:
        made += _build_component_roots(facts.root, roots, trust)
    return DesiredSecrets(
        secrets=tuple(made),
        trust=_build_trust(facts.root, trust),
        serving=trust[inventory.SERVING],
        renewed_secrets=tuple(renewed),
        next_renewal=min(renewals, default=now + lifetime),
        replaced_ends=replaced_ends,
        validities=spans,
        ended_message=ended_message,
    )


def describe_ended(
    roots: Mapping[AuthorityName, KeyPair], facts: CertificateFacts, now: datetime
) -> str:
    """Return which authorities have ended and how to replace them, empty if none has."""
    ended = {
        name: checks.get_expiry(pair)
        for name, pair in roots.items()
        if checks.has_ended(pair.certificate, now)
    }
    if not ended:
        return ""
    sentences = [
        f"The authority {name} ended on {end:%Y-%m-%d}, so its certificates are refused."
        for name, end in ended.items()
    ]
    own = [f"--authority {name}" for name in ended if name in inventory.AUTHORITIES]
    if own:
        sentences.append(f"Replace it with `kubectl vc certs rotate {facts.name} {' '.join(own)}`.")
    sentences += [
        f"Replace the authority {name}, which all tenants share, with `kubectl vc certs rotate"
        f" --authority {name}`."
        for name in ended
        if name in wellknown.SHARED_AUTHORITIES
    ]
    return " ".join(sentences)


def build_ended_block(message: str) -> PhaseBlocked:
    """Return the exception for an ended authority."""
    return PhaseBlocked(
        "AuthorityExpired", message, condition=wellknown.CERTIFICATES_READY, needs_admin=True
    )


def find_handed_out_end(secret: Mapping[str, Any] | None, now: datetime) -> datetime | None:
    """Return when the last admin kubeconfig ends that users may have, or None without one."""
    if secret is None:
        return None
    data = bundles.read_data(secret, secret["metadata"]["name"])
    pair = bundles.read_kubeconfig_key_pair(data)
    ends = list(_list_replaced_ends(secret, None, pair, now)) if pair is not None else []
    if pair is not None and checks.is_readable(pair.certificate):
        ends.append(checks.get_expiry(pair))
    return max(ends, default=None)


def _list_replaced_ends(
    secret: Mapping[str, Any] | None, old: KeyPair | None, new: KeyPair, now: datetime
) -> tuple[datetime, ...]:
    """Return the ends of replaced certificates that are still valid, the latest ones."""
    annotations = (secret["metadata"].get("annotations") or {}) if secret is not None else {}
    ends: set[datetime] = set()
    for text in annotations.get(wellknown.REPLACED_KUBECONFIG_ENDS, "").split(","):
        with contextlib.suppress(ValueError):
            ends.add(datetime.fromisoformat(text))
    if old is not None and old != new and checks.is_readable(old.certificate):
        ends.add(checks.get_expiry(old))
    known = sorted(end for end in ends if end.tzinfo is not None and end > now)
    return tuple(known[-_MAX_REPLACED_ENDS:])


def _build_component_roots(
    root: str, roots: Mapping[AuthorityName, KeyPair], trust: Mapping[AuthorityName, bytes]
) -> list[Manifest]:
    """Return the Secrets behind the `root-ca` volumes of upstream's bundles, one per component."""
    return [
        bundles.build_trust_secret(
            upstream_bundles.get_root_secret(upstream_bundles.ETCD), root, trust[inventory.ETCD]
        ),
        bundles.build_trust_secret(
            upstream_bundles.get_root_secret(upstream_bundles.API_SERVER),
            root,
            trust[inventory.CLIENT],
        ),
        # The controller manager signs the tenant's requests, so it alone has the key.
        bundles.build_key_pair_secret(
            upstream_bundles.get_root_secret(upstream_bundles.CONTROLLER_MANAGER),
            root,
            roots[inventory.CLIENT],
        ),
    ]


def _build_trust(root: str, trust: Mapping[AuthorityName, bytes]) -> Manifest:
    certificates = {
        "serving.crt": trust[inventory.SERVING],
        "client.crt": trust[inventory.CLIENT],
        "etcd.crt": trust[inventory.ETCD],
        "front-proxy.crt": trust[inventory.FRONT_PROXY],
        "agents.crt": trust[inventory.AGENT_SERVING],
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": inventory.TRUST, "namespace": root},
        "data": {key: certificate.decode() for key, certificate in certificates.items()},
    }


def _build_pending(secret: str) -> PhaseBlocked:
    """Return the exception for a Secret without content. No certificate is known to be invalid."""
    return PhaseBlocked(
        "CertificatesPending", f"waiting for the Secret {secret}", condition=wellknown.READY
    )


def _raise_for_fault(fault: checks.CertificateFault | None, secret: str, root: str) -> None:
    if fault is not None:
        raise PhaseBlocked(
            "AuthorityBroken",
            f"The Secret {secret} in namespace {root} cannot be used ({fault}). Restore it from a"
            " backup, because vc-manager cannot recreate it.",
            condition=wellknown.CERTIFICATES_READY,
            needs_admin=True,
        )
