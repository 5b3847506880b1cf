"""DNS settings of a super pod: the tenant's DNS server, written out in dnsConfig.

Pure. Owns dnsPolicy, dnsConfig, the domain of the host name, and the choice of the DNS server for a
tenant's pods.

Hazard: while the tenant has a DNS server, dnsPolicy must be None, unless the node's own resolver is
allowed. With another policy the super kubelet would write its own cluster's DNS server.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from syncer.model.rejections import Problem, RejectedError
from syncer.model.tenant_view import DNS_OFFSET, DNS_SERVICE, TenantView

MAX_NAME_SERVERS = 3
MAX_SEARCHES = 32
MAX_HOST_NAME = 64


class Resolver(NamedTuple):
    """DNS server of a tenant's pods."""

    server: str
    """Address of the tenant's DNS service. Empty if the tenant has none."""
    domain: str
    """The tenant's cluster domain."""
    allows_node_dns: bool
    """Whether policy Default may use the node's own resolver. True if the tenant runs its own DNS,
    or if the policy allows it."""
    others: tuple[str, ...] = ()
    """Further addresses, if the server is not the tenant's own."""


def resolver_of(view: TenantView) -> Resolver:
    """Return the DNS server of a tenant's pods."""
    if view.away is not None:
        servers = view.away().resolvers
        return Resolver(
            server=servers[0] if servers else "",
            others=servers[1:],
            domain=view.spec.cluster_domain,
            allows_node_dns=view.policy.network.node_dns == "Allow",
        )
    service = view.stores["Service"].get(*DNS_SERVICE)
    server = str(view.slice[DNS_OFFSET]) if view.spec.dns == "managed" else ""
    if service is not None:
        server = (service.decode().get("spec") or {}).get("clusterIP") or server
    return Resolver(
        server="" if server == "None" else server,
        domain=view.spec.cluster_domain,
        allows_node_dns=view.spec.dns != "managed" or view.policy.network.node_dns == "Allow",
    )


def resolution(spec: Mapping[str, Any], namespace: str, resolver: Resolver) -> dict[str, Any]:
    """Return `dnsPolicy` and `dnsConfig` of the super pod."""
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    own = spec.get("dnsConfig") or {}
    if policy == "ClusterFirst" and spec.get("hostNetwork"):
        policy = "Default"  # as a kubelet interprets it
    if policy == "None":
        return {"dnsPolicy": "None", "dnsConfig": _copied(own)}
    if not resolver.server or (policy == "Default" and resolver.allows_node_dns):
        found: dict[str, Any] = {"dnsPolicy": "Default"}
        return {**found, "dnsConfig": _copied(own)} if own else found
    if policy == "Default":
        return {
            "dnsPolicy": "None",
            "dnsConfig": _merged(own, [resolver.server, *resolver.others], [], []),
        }
    searches = [f"{namespace}.svc.{resolver.domain}", f"svc.{resolver.domain}", resolver.domain]
    options = [{"name": "ndots", "value": "5"}]
    return {
        "dnsPolicy": "None",
        "dnsConfig": _merged(own, [resolver.server, *resolver.others], searches, options),
    }


def _merged(
    own: Mapping[str, Any],
    servers: Sequence[str],
    searches: Sequence[str],
    options: Sequence[Mapping[str, str]],
) -> dict[str, Any]:
    """Return the cluster's settings merged with the pod's, as a kubelet does: own options win."""
    copied = _copied(own)
    by_name = {option["name"]: dict(option) for option in [*options, *copied.get("options", [])]}
    merged = {
        "nameservers": _unique([*servers, *copied.get("nameservers", [])])[:MAX_NAME_SERVERS],
        "searches": _unique([*searches, *copied.get("searches", [])])[:MAX_SEARCHES],
        "options": list(by_name.values()),
    }
    return {key: value for key, value in merged.items() if value}


def _copied(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dnsConfig leaf by leaf. Raises RejectedError for an unknown field."""
    found: dict[str, Any] = {}
    for key, value in own.items():
        if key in ("nameservers", "searches") and _is_texts(value):
            found[key] = list(value)
        elif key == "options" and isinstance(value, list):
            found[key] = [_option(option) for option in value]
        elif value:
            text = "is not known to this version or malformed; leave it out"
            raise RejectedError(Problem("unknown-field", f"spec.dnsConfig.{key}", text))
    return found


def _option(option: Any) -> dict[str, str]:
    if isinstance(option, dict) and isinstance(option.get("name"), str):
        return {key: option[key] for key in ("name", "value") if key in option}
    text = "must have a name; correct the object"
    raise RejectedError(Problem("malformed", "spec.dnsConfig.options", text))


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _unique(items: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(items))


def host_name(spec: Mapping[str, Any], name: str, namespace: str, domain: str) -> dict[str, Any]:
    """Return `hostnameOverride` for a pod that requests its domain name as host name.

    The super kubelet would use the super namespace and domain. Raises RejectedError if the name is
    longer than the kernel's limit.
    """
    if spec.get("hostNetwork") or not spec.get("setHostnameAsFQDN") or not spec.get("subdomain"):
        return {}
    host = spec.get("hostname") or name
    whole = f"{host}.{spec['subdomain']}.{namespace}.svc.{domain}"
    if len(whole) > MAX_HOST_NAME:
        text = f"makes a host name of {len(whole)} characters; shorten it to {MAX_HOST_NAME}"
        raise RejectedError(Problem("host-name", "spec.setHostnameAsFQDN", text))
    return {"hostnameOverride": whole}
