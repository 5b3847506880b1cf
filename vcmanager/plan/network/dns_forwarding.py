"""DNS servers that a tenant's CoreDNS asks for names outside of the tenant, from `spec.dnsConfig`.

Pure. Owns the rules on domains and addresses. Must not know the form of the Corefile.

Hazard: CoreDNS connects from the super cluster. An address that is not checked would give tenants
an answer of any DNS server that the super cluster reaches. Hazard: a stub domain above or below the
cluster domain would hide the tenant's own Services.
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tenancy import addresses
from tenancy.addresses import IPAddress, IPNetwork
from tenancy.specs import DnsConfig

DEFAULT_PORT = 53
MAX_DOMAIN_LENGTH = 190
"""Longest domain: the rest of 253 characters after a pod's name of 63."""
_DOMAIN_PATTERN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_BRACKETED = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::([0-9]{1,5}))?")
_MAX_LABEL_LENGTH = 63
_ARPA = "arpa"
_MAX_SHOWN_CHARACTERS = 60


class DnsServer(NamedTuple):
    """A checked DNS server."""

    address: IPAddress
    port: int

    def format(self) -> str:
        """Return the server as CoreDNS and other programs read it."""
        host = f"[{self.address}]" if self.address.version == 6 else str(self.address)
        return f"{host}:{self.port}"


class StubZone(NamedTuple):
    """A checked domain and its servers."""

    domain: str
    servers: tuple[DnsServer, ...]


class DnsForwarding(NamedTuple):
    """Checked servers, and the reason for each part of the spec that is left out."""

    stub_zones: tuple[StubZone, ...] = ()
    forwarders: tuple[DnsServer, ...] = ()
    """Empty: the resolver of the node."""
    problems: tuple[str, ...] = ()


NO_FORWARDING = DnsForwarding()


class AddressRules(NamedTuple):
    """Networks that decide about the addresses of servers."""

    allowed: Sequence[IPNetwork] = ()
    """Networks of the policy. They take precedence over `forbidden`."""
    forbidden: Sequence[IPNetwork] = ()
    """Networks of the super cluster."""
    own: Sequence[IPNetwork] = ()
    """The tenant's own service range. A DNS server of the tenant may be there."""
    dns_address: str = ""
    """The address of the tenant's CoreDNS itself."""


def is_domain(text: str) -> bool:
    """Return whether a text is a lower-case DNS name."""
    return (
        len(text) <= MAX_DOMAIN_LENGTH
        and _DOMAIN_PATTERN.fullmatch(text) is not None
        and all(len(label) <= _MAX_LABEL_LENGTH for label in text.split("."))
    )


def decide_forwarding(
    config: DnsConfig, *, cluster_domain: str, rules: AddressRules
) -> DnsForwarding:
    """Return the servers of a spec that may be used. All others are left out, with a problem."""
    problems: list[str] = []
    zones: dict[str, tuple[DnsServer, ...]] = {}
    for index, stub in enumerate(config.stub_domains):
        path = f"spec.dnsConfig.stubDomains[{index}]"
        problem = _find_domain_problem(stub.domain, cluster_domain)
        if stub.domain in zones:
            problem = "is listed twice. Remove one of them"
        if problem:
            problems.append(f"{path}.domain {_shorten(stub.domain)} {problem}.")
            continue
        servers = tuple(_filter_servers(stub.servers, f"{path}.servers", rules, problems))
        if servers:
            zones[stub.domain] = servers
    path = "spec.dnsConfig.forwarders"
    forwarders = tuple(_filter_servers(config.forwarders, path, rules, problems))
    stub_zones = tuple(StubZone(domain, servers) for domain, servers in sorted(zones.items()))
    return DnsForwarding(stub_zones, forwarders, tuple(problems))


def _find_domain_problem(domain: str, cluster_domain: str) -> str:
    """Return why a domain cannot have servers of its own, as the rest of a sentence."""
    if not is_domain(domain):
        return (
            f"is not a DNS name. Use lower-case letters, digits, hyphens and dots, at most"
            f" {MAX_DOMAIN_LENGTH} characters"
        )
    if _is_within(domain, _ARPA):
        return "is a domain of addresses, which the cluster's DNS serves itself. Remove it"
    if _is_within(domain, cluster_domain) or _is_within(cluster_domain, domain):
        return f"would hide names of {cluster_domain}, the cluster domain. Use another domain"
    return ""


def _is_within(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


def _filter_servers(
    texts: Iterable[str], path: str, rules: AddressRules, problems: list[str]
) -> Iterator[DnsServer]:
    seen: set[DnsServer] = set()
    for index, text in enumerate(texts):
        server = parse_server(text)
        problem = (
            "is not an IP address, or an IP address with a port. Correct it"
            if server is None
            else _find_server_problem(server, rules)
        )
        if problem:
            problems.append(f"{path}[{index}] {_shorten(text)} {problem}.")
        elif server is not None and server not in seen:
            seen.add(server)
            yield server


def parse_server(text: str) -> DnsServer | None:
    """Return the server of a text. None if it is none."""
    host, port = text, ""
    bracketed = _BRACKETED.fullmatch(text)
    if bracketed is not None:
        host, port = bracketed[1], bracketed[2] or ""
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
        if not (port.isascii() and port.isdigit()):
            return None
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        return None
    return DnsServer(address, int(port) if port else DEFAULT_PORT)


def _find_server_problem(server: DnsServer, rules: AddressRules) -> str:
    """Return why a server is refused, as the rest of a sentence. Empty if it is not."""
    why = addresses.check_remote_address(server.address)
    if why:
        return f"{why}. Use another one"
    if server.port not in addresses.DNS_PORTS:
        ports = ", ".join(map(str, addresses.DNS_PORTS))
        return f"has a port that network policies close. Use one of {ports}"
    if str(server.address) == rules.dns_address:
        return "is the DNS server of this cluster itself. Use another one"
    closed = (
        "" if _is_within_networks(server, (*rules.allowed, *rules.own)) else _close(server, rules)
    )
    if not closed:
        return ""
    return (
        f"{closed}. Use another one, or ask your platform administrator to list it in"
        " network.dnsServers of the TenantPolicy"
    )


def _close(server: DnsServer, rules: AddressRules) -> str:
    """Return why an address is closed unless a policy opens it. Empty if it is open."""
    if _is_within_networks(server, rules.forbidden):
        return "belongs to the super cluster"
    translated = addresses.list_nat64_networks(rules.forbidden)
    if _is_within_networks(server, (*addresses.PRIVATE_NETWORKS, *translated)):
        return "is a private address"
    return ""


def _is_within_networks(server: DnsServer, networks: Iterable[IPNetwork]) -> bool:
    return any(server.address in network for network in networks)


def _shorten(text: str) -> str:
    return repr(text[:_MAX_SHOWN_CHARACTERS])
