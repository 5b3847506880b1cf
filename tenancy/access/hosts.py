"""Host names of tenants' APIs behind the API proxy, and the tenant that owns each of them.

Pure. vc-manager reports the decision in a condition, and the API proxy serves it. Both use this
module, so that they cannot disagree.

Hazard: a host name must have one owner. With two, a client of one tenant would send its
requests to the API server of the other.
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

ACCEPTED = "Accepted"
HOSTNAME_TAKEN: Final = "HostnameTaken"
HOSTNAME_RESERVED: Final = "HostnameReserved"
INVALID_HOSTNAME: Final = "InvalidHostname"
HostProblem = Literal["HostnameTaken", "HostnameReserved", "InvalidHostname"]
"""Reasons of the condition HostnameAccepted when it is False."""

MAX_HOST = 253
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NUMERIC = re.compile(r"([0-9]+|0x[0-9a-f]*)")


class InvalidBaseDomainError(ValueError):
    """A base domain is no DNS name."""


class _ClaimMetadata(msgspec.Struct, rename="camel"):
    namespace: str
    name: str
    uid: str
    creation_timestamp: str = ""


class _ClaimEndpoint(msgspec.Struct):
    hostname: str = ""


class _ClaimSpec(msgspec.Struct):
    endpoint: _ClaimEndpoint = msgspec.field(default_factory=_ClaimEndpoint)


class _ClaimStatus(msgspec.Struct, rename="camel"):
    api_server_address: str = ""


class _ClaimingCluster(msgspec.Struct):
    metadata: _ClaimMetadata
    spec: _ClaimSpec = msgspec.field(default_factory=_ClaimSpec)
    status: _ClaimStatus = msgspec.field(default_factory=_ClaimStatus)


_DECODER = msgspec.json.Decoder(_ClaimingCluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostClaim:
    """The host name that one VirtualCluster wants, and the address of its API server's Service."""

    namespace: str
    name: str
    uid: str
    created: str
    """RFC 3339, in seconds."""
    hostname: str = ""
    """`spec.endpoint.hostname`."""
    address: str = ""
    """`status.apiServerAddress`, which vc-manager writes. Empty: there is no Service yet."""


def parse_claim(body: bytes | object) -> HostClaim:
    """Return the claim of a VirtualCluster, as JSON or as decoded JSON.

    Raises msgspec.MsgspecError for an object of another shape.
    """
    found = (
        _DECODER.decode(body)
        if isinstance(body, bytes)
        else msgspec.convert(body, type=_ClaimingCluster)
    )
    return HostClaim(
        namespace=found.metadata.namespace,
        name=found.metadata.name,
        uid=found.metadata.uid,
        created=found.metadata.creation_timestamp,
        hostname=found.spec.endpoint.hostname,
        address=found.status.api_server_address,
    )


def parse_base_domain(text: str) -> str:
    """Return the base domain. Empty: no host names are generated. Raises InvalidBaseDomainError."""
    if text and not is_host(text):
        raise InvalidBaseDomainError(
            f"{text!r} is no lower-case DNS name. Use one such as clusters.example.com"
        )
    return text


def is_host(text: str) -> bool:
    """Return whether a text is a lower-case DNS name, and no IP address in any notation."""
    if len(text) > MAX_HOST or not _HOST.fullmatch(text):
        return False
    return not _NUMERIC.fullmatch(text.rpartition(".")[2])


def build_host(claim: HostClaim, base_domain: str) -> str:
    """Return the wanted host name: the one of the spec, or a generated one. Empty: none."""
    return claim.hostname or _generate_host(claim, base_domain)


def find_problem(
    claim: HostClaim, claims: Iterable[HostClaim], base_domain: str
) -> HostProblem | None:
    """Return why a tenant cannot have its host name. `claims` are those for the same name.

    A name has the tenant that was created first. A name under the base domain has only the tenant
    for which it is generated, also before that tenant exists.
    """
    problem = _find_own_problem(claim, base_domain)
    if problem is not None:
        return problem
    first = min((claim, *_filter_valid(claims, base_domain)), key=_rank)
    return None if first.uid == claim.uid else HOSTNAME_TAKEN


def find_owner(claims: Iterable[HostClaim], base_domain: str) -> HostClaim | None:
    """Return the tenant that has the host name of all these claims, or None."""
    return min(_filter_valid(claims, base_domain), key=_rank, default=None)


def build_address(address: str, port: int) -> str:
    """Return an address and a port as text. Empty without an IP address."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return ""
    return f"[{found}]:{port}" if found.version == 6 else f"{found}:{port}"


def parse_address(text: str) -> tuple[str, int] | None:
    """Return IP address and port, or None for any other text.

    The proxy's own loopback and link-local addresses, such as a metadata server, are refused.
    """
    host, _, port = text.rpartition(":")
    try:
        found = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
    if not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        return None
    is_unusable = (
        found.is_loopback or found.is_link_local or found.is_multicast or found.is_unspecified
    )
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return None if is_unusable or mapped is not None else (str(found), int(port))


def _generate_host(claim: HostClaim, base_domain: str) -> str:
    return f"{claim.name}.{claim.namespace}.{base_domain}" if base_domain else ""


def _find_own_problem(claim: HostClaim, base_domain: str) -> HostProblem | None:
    host = build_host(claim, base_domain)
    if not is_host(host):
        return INVALID_HOSTNAME
    is_below = bool(base_domain) and (host == base_domain or host.endswith(f".{base_domain}"))
    if is_below and host != _generate_host(claim, base_domain):
        return HOSTNAME_RESERVED
    return None


def _filter_valid(claims: Iterable[HostClaim], base_domain: str) -> list[HostClaim]:
    return [each for each in claims if _find_own_problem(each, base_domain) is None]


def _rank(claim: HostClaim) -> tuple[str, str]:
    """Return the rank: older first. The UID decides between two of the same second."""
    return (claim.created, claim.uid)
