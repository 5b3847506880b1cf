"""Configuration of the tenant's CoreDNS.

Pure. Hazard: the Corefile has no reliable quoting, so only checked names may be written into it.
"""

from collections.abc import Sequence

from tenancy import names
from tenancy.specs import InvalidSpecError
from vcmanager.plan.network import dns_forwarding
from vcmanager.plan.network.dns_forwarding import (
    MAX_DOMAIN_LENGTH,
    NO_FORWARDING,
    DnsForwarding,
    DnsServer,
    StubZone,
)

_NODE_RESOLVER = "/etc/resolv.conf"


def check_domain(domain: str) -> str:
    """Return a valid domain. Raises SpecProblemError."""
    if not dns_forwarding.is_domain(domain):
        raise InvalidSpecError(
            f"spec.clusterDomain {domain!r} is not a DNS name. Use lower-case letters, digits,"
            f" hyphens and dots, at most {MAX_DOMAIN_LENGTH} characters, for example"
            " cluster.local"
        )
    return domain


def build_corefile(*, root: str, domain: str, forwarding: DnsForwarding = NO_FORWARDING) -> str:
    """Return the Corefile of a tenant. Each stub zone has a server block of its own.

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
    forward . {_format_servers(forwarding.forwarders) or _NODE_RESOLVER}
    cache 30
    loadbalance
}}
{"".join(map(_build_stub_block, forwarding.stub_zones))}"""


def _build_stub_block(zone: StubZone) -> str:
    return f"""\
{check_domain(zone.domain)}:1053 {{
    errors
    forward . {_format_servers(zone.servers)}
    cache 30
    loadbalance
}}
"""


def _format_servers(servers: Sequence[DnsServer]) -> str:
    return " ".join(server.format() for server in servers)
