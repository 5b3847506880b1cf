"""Table of a tenant's certificates: name, authority, subject, names, usages.

Owns which certificates exist. Pure. Hazard: an authority decides which clients are trusted for one
purpose. With a second purpose, every holder of a certificate for the first would be trusted for
both.
"""

import ipaddress
from dataclasses import dataclass
from typing import Literal

from tenancy import wellknown
from vcmanager.pki.authority import CertificateSubject

AuthorityName = Literal["serving", "client", "etcd", "front-proxy", "agent-client", "agent-serving"]

SERVING: AuthorityName = "serving"
CLIENT: AuthorityName = "client"
ETCD: AuthorityName = "etcd"
FRONT_PROXY: AuthorityName = "front-proxy"
AGENT_CLIENT: AuthorityName = "agent-client"
AGENT_SERVING: AuthorityName = "agent-serving"

AUTHORITIES: dict[AuthorityName, str] = {
    SERVING: "root-ca",
    CLIENT: "client-authority",
    ETCD: "etcd-authority",
    FRONT_PROXY: "front-proxy-authority",
}
"""Each authority of a tenant and the Secret that keeps it. The agents' are the manager's own."""

AGENT_CLIENT_SECRETS = ("apiserver-kubelet-client", "metrics-server-agent-client")
"""Secrets of a tenant with certificates of the agents' client authority."""

ETCD_CLIENT_SERVICE = "etcd-client"
"""Service by which the API server reaches any ready member."""

SERVICE_ACCOUNT_KEYS = "serviceaccount-rsa"
TRUST = "trust"
"""ConfigMap with the certificates of all authorities, for control plane pods."""

ADMIN, SYNCER, MANAGER, DNS, METRICS, CONTROLLER_MANAGER = (
    "admin",
    wellknown.CREDENTIAL_SYNCER,
    "manager",
    "coredns",
    "metrics-server",
    "controller-manager",
)
METRICS_NAME = "metrics-server.kube-system.svc"
"""Name by which the tenant's API server dials the metrics-server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFacts:
    """Inputs of the certificates of one tenant."""

    root: str
    uid: str
    name: str
    domain: str
    api_address: str
    """First address of the tenant's service range."""
    service_address: str = ""
    """ClusterIP of apiserver-svc."""
    external_domains: tuple[str, ...] = ()
    """Further DNS names of the API. Empty ones are ignored."""
    dialed_host: str = ""
    """Host by which pods in other clusters dial the API, their only name of it. Empty: none do."""
    etcd_replicas: int = 1
    has_dns: bool = True
    has_metrics: bool = False
    has_scrapers: bool = False
    """Whether the super cluster's Prometheus reads the metrics of the control plane."""
    api_service: str = "apiserver-svc"
    etcd_service: str = "etcd"
    etcd_set: str = "etcd"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafCertificate:
    """One certificate: the Secret that keeps it, its authority, and its content."""

    secret: str
    authority: AuthorityName
    subject: CertificateSubject


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeconfigLogin:
    """One kubeconfig: its user, the Secret that keeps it, and the user's certificate."""

    credential: str
    subject: CertificateSubject
    external: bool = False
    """Whether it is for clients outside of the super cluster."""

    @property
    def secret(self) -> str:
        """Return the name of the Secret, and of its one key."""
        return f"{self.credential}-kubeconfig"


def list_leaves(facts: CertificateFacts) -> tuple[LeafCertificate, ...]:
    """Return the certificates that control plane pods mount."""
    both, server, client = frozenset({"server", "client"}), frozenset({"server"}), _CLIENT_USAGE
    return (
        LeafCertificate(
            secret="apiserver-ca",  # noqa: S106 - upstream's name
            authority=SERVING,
            subject=CertificateSubject(
                common_name="kube-apiserver",
                dns_names=_list_api_names(facts),
                addresses=_deduplicate(
                    "127.0.0.1",
                    facts.api_address,
                    facts.service_address,
                    facts.dialed_host if _is_address(facts.dialed_host) else "",
                ),
                usages=server,
            ),
        ),
        LeafCertificate(
            secret="etcd-ca",  # noqa: S106 - upstream's name
            authority=ETCD,
            subject=CertificateSubject(
                common_name="kube-etcd",
                dns_names=_list_etcd_names(facts),
                addresses=("127.0.0.1",),
                usages=both,
            ),
        ),
        LeafCertificate(
            secret="apiserver-etcd-client",  # noqa: S106
            authority=ETCD,
            subject=CertificateSubject(common_name="kube-apiserver-etcd-client", usages=client),
        ),
        LeafCertificate(
            secret="front-proxy-ca",  # noqa: S106 - upstream's name
            authority=FRONT_PROXY,
            subject=CertificateSubject(common_name="front-proxy-client", usages=client),
        ),
        LeafCertificate(
            secret="apiserver-kubelet-client",  # noqa: S106
            authority=AGENT_CLIENT,
            subject=CertificateSubject(
                common_name="kube-apiserver-kubelet-client",
                uris=(_build_agent_uri(facts),),
                usages=client,
            ),
        ),
        *(_list_metrics_leaves(facts) if facts.has_metrics else ()),
        *(_list_scraper_leaves() if facts.has_scrapers else ()),
    )


def _list_scraper_leaves() -> tuple[LeafCertificate, ...]:
    """Return the certificate with which Prometheus reads the metrics of the API server.

    Kubernetes binds the group to the ClusterRole `system:monitoring`.
    """
    return (
        LeafCertificate(
            secret="apiserver-scraper-client",  # noqa: S106
            authority=CLIENT,
            subject=_build_user("tenancy:scraper", "system:monitoring"),
        ),
    )


def _list_metrics_leaves(facts: CertificateFacts) -> tuple[LeafCertificate, ...]:
    """Return the certificates that identify the metrics-server to the API server and to agents."""
    return (
        LeafCertificate(
            secret="metrics-server-serving",  # noqa: S106
            authority=SERVING,
            subject=CertificateSubject(
                common_name=METRICS,
                dns_names=(METRICS_NAME, f"{METRICS_NAME}.{facts.domain}"),
                usages=frozenset({"server"}),
            ),
        ),
        LeafCertificate(
            secret="metrics-server-agent-client",  # noqa: S106
            authority=AGENT_CLIENT,
            subject=CertificateSubject(
                common_name=METRICS,
                uris=(_build_agent_uri(facts, "vc-figures"),),
                usages=_CLIENT_USAGE,
            ),
        ),
    )


def list_logins(facts: CertificateFacts) -> tuple[KubeconfigLogin, ...]:
    """Return the kubeconfigs of a tenant."""
    return (
        KubeconfigLogin(
            credential=ADMIN,
            subject=_build_user("admin", wellknown.ADMINS_GROUP),
            external=True,
        ),
        KubeconfigLogin(credential=SYNCER, subject=_build_user(wellknown.SYNCER_USER)),
        KubeconfigLogin(
            credential=MANAGER, subject=_build_user("tenancy:vc-manager", "system:masters")
        ),
        KubeconfigLogin(
            credential=CONTROLLER_MANAGER,
            subject=_build_user("system:kube-controller-manager"),
        ),
        *(
            (KubeconfigLogin(credential=DNS, subject=_build_user(wellknown.DNS_USER)),)
            if facts.has_dns
            else ()
        ),
        *(
            (KubeconfigLogin(credential=METRICS, subject=_build_user(wellknown.METRICS_USER)),)
            if facts.has_metrics
            else ()
        ),
    )


def build_authority_common_name(name: str, uid: str) -> str:
    """Return the subject of an authority, which differs between tenants."""
    return f"{name}-authority {uid}"


_CLIENT_USAGE = frozenset({"client"})


def _build_agent_uri(facts: CertificateFacts, scheme: str = "vc") -> str:
    """Return the tenant's identity at agents. With `vc-figures` agents serve only metrics."""
    return f"{scheme}://{facts.uid}/{facts.root}"


def _build_user(name: str, *groups: str) -> CertificateSubject:
    return CertificateSubject(common_name=name, organizations=groups, usages=_CLIENT_USAGE)


def _list_api_names(facts: CertificateFacts) -> tuple[str, ...]:
    service = facts.api_service
    return _deduplicate(
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        f"kubernetes.default.svc.{facts.domain}",
        "localhost",
        service,
        f"{service}.{facts.root}",
        f"{service}.{facts.root}.svc",
        facts.name,
        *facts.external_domains,
        "" if _is_address(facts.dialed_host) else facts.dialed_host,
    )


def _list_etcd_names(facts: CertificateFacts) -> tuple[str, ...]:
    members = [
        f"{facts.etcd_set}-{number}.{facts.etcd_service}" for number in range(facts.etcd_replicas)
    ]
    near = [*members, facts.etcd_service, ETCD_CLIENT_SERVICE]
    return _deduplicate("localhost", *near, *(f"{name}.{facts.root}" for name in near))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _deduplicate(*names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))
