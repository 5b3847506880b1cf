"""Configuration of the tenant's CoreDNS.

Pure. Hazard: the Corefile has no reliable quoting, so only checked names may be written into it.
"""

import re

from tenancy import names
from tenancy.specs import InvalidSpecError

_DOMAIN_PATTERN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_DOMAIN_LENGTH = 190
"""Longest domain: the rest of 253 characters after a pod's name of 63."""


def check_domain(domain: str) -> str:
    """Return a valid domain. Raises SpecProblemError."""
    if len(domain) > _MAX_DOMAIN_LENGTH or _DOMAIN_PATTERN.fullmatch(domain) is None:
        raise InvalidSpecError(
            f"spec.clusterDomain {domain!r} is not a DNS name. Use lower-case letters, digits,"
            f" hyphens and dots, at most {_MAX_DOMAIN_LENGTH} characters, for example"
            " cluster.local"
        )
    return domain


def build_corefile(*, root: str, domain: str) -> str:
    """Return the Corefile of a tenant.

    The kernel of a pod knows its super namespace. `hostname -f` in it prints a name that ends in
    `<root>-<namespace>.svc.<the super cluster's domain>`. The rewrite also answers for that name,
    and under that name, because a resolver would discard another answer. A namespace with a
    shortened super namespace cannot be derived from that name. It has the tenant's form only.
    """
    if not names.is_dns_label(root):
        raise ValueError(f"{root!r} is not a root namespace")
    return f"""\
.:1053 {{
    errors
    health :8080
    ready :8181
    rewrite stop {{
        name regex ^(.+)\\.{root}-([^.]+)\\.svc\\..+$ {{1}}.{{2}}.svc.{check_domain(domain)}
        answer auto
    }}
    kubernetes {domain} in-addr.arpa ip6.arpa {{
        kubeconfig /etc/coredns/kubeconfig/coredns-kubeconfig
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
    }}
    forward . /etc/resolv.conf
    cache 30
    loadbalance
}}
"""
