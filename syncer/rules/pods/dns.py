"""DNS settings of a super pod: the tenant's DNS server, written out in dnsConfig.

Pure. Owns dnsPolicy, dnsConfig, the domain of the host name, the hosts file, and the choice of the
DNS server for a tenant's pods.

Hazard: while the tenant has a DNS server, dnsPolicy must be None, unless the node's own resolver is
allowed. With another policy the super kubelet would write its own cluster's DNS server.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from syncer.model.rejections import RejectedError, RejectionProblem
from syncer.model.tenant_view import DNS_OFFSET, DNS_SERVICE, TenantView

MAX_NAME_SERVERS = 3
MAX_SEARCHES = 32
MAX_HOST_NAME = 64
HOSTS_NAME = "vc-hosts"
"""Name of the init container that rewrites the hosts file, and of its volume."""
HOSTS_PATH = "/etc/hosts"
_HOSTS_FOLDER = "/vc-hosts"
_HOSTS_FILE = "hosts"
_COUNTED_RESOURCES = ("cpu", "memory")
_SECURITY_CONTEXT = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsGroup": 65534,
    "runAsNonRoot": True,
    "runAsUser": 65534,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""Security context of the init container. It is allowed at the level restricted."""


class DnsResolver(NamedTuple):
    """DNS server of a tenant's pods."""

    server: str
    """Address of the tenant's DNS service. Empty if the tenant has none."""
    domain: str
    """The tenant's cluster domain."""
    allows_node_dns: bool
    """Whether pods may use the node's own resolver. Only the TenantPolicy decides this."""
    additional_servers: tuple[str, ...] = ()
    """Further addresses, if the server is not the tenant's own."""


def resolver_of(view: TenantView) -> DnsResolver:
    """Return the DNS server of a tenant's pods."""
    servers = _list_servers(view)
    return DnsResolver(
        server=servers[0] if servers else "",
        additional_servers=servers[1:],
        domain=view.spec.cluster_domain,
        allows_node_dns=_allows_node_dns(view),
    )


def _list_servers(view: TenantView) -> tuple[str, ...]:
    if view.get_target_network is not None:
        return view.get_target_network().resolvers
    if view.spec.network is not None:  # the cluster's server is not reachable from it
        return view.spec.network.dns
    service = view.stores["Service"].get(*DNS_SERVICE)
    server = (service.decode().get("spec") or {}).get("clusterIP") if service is not None else ""
    if server not in ("", "None", None):
        return (server,)
    # Without a DNS service a pod would get the resolver of its node. If the policy refuses that,
    # the pod gets the address that a DNS service of the tenant is created with.
    is_expected = view.spec.dns == "managed" or not _allows_node_dns(view)
    return (str(view.service_range[DNS_OFFSET]),) if is_expected else ()


def _allows_node_dns(view: TenantView) -> bool:
    return view.policy.network.node_dns == "Allow"


def build_dns_config(
    spec: Mapping[str, Any], namespace: str, resolver: DnsResolver
) -> dict[str, Any]:
    """Return `dnsPolicy` and `dnsConfig` of the super pod.

    Raises RejectedError if only the resolver of the node is left and the policy refuses it.
    """
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    own = spec.get("dnsConfig") or {}
    if policy == "ClusterFirst" and spec.get("hostNetwork"):
        policy = "Default"  # as a kubelet interprets it
    if policy == "None":
        return {"dnsPolicy": "None", "dnsConfig": _copy_dns_config(own)}
    if not resolver.server and not resolver.allows_node_dns:
        text = (
            "would use the resolver of the node. Set dnsPolicy None with name servers of your own,"
            " or ask your platform administrator to set spec.network.nodeDns of the TenantPolicy"
        )
        raise RejectedError(RejectionProblem("node-dns", "spec.dnsPolicy", text))
    if not resolver.server or (policy == "Default" and resolver.allows_node_dns):
        found: dict[str, Any] = {"dnsPolicy": "Default"}
        return {**found, "dnsConfig": _copy_dns_config(own)} if own else found
    if policy == "Default":
        return {
            "dnsPolicy": "None",
            "dnsConfig": _merge_dns_config(
                own, [resolver.server, *resolver.additional_servers], [], []
            ),
        }
    searches = [f"{namespace}.svc.{resolver.domain}", f"svc.{resolver.domain}", resolver.domain]
    options = [{"name": "ndots", "value": "5"}]
    return {
        "dnsPolicy": "None",
        "dnsConfig": _merge_dns_config(
            own, [resolver.server, *resolver.additional_servers], searches, options
        ),
    }


def _merge_dns_config(
    own: Mapping[str, Any],
    servers: Sequence[str],
    searches: Sequence[str],
    options: Sequence[Mapping[str, str]],
) -> dict[str, Any]:
    """Return the cluster's settings merged with the pod's, as a kubelet does: own options win."""
    copied = _copy_dns_config(own)
    by_name = {option["name"]: dict(option) for option in [*options, *copied.get("options", [])]}
    merged = {
        "nameservers": _deduplicate([*servers, *copied.get("nameservers", [])])[:MAX_NAME_SERVERS],
        "searches": _deduplicate([*searches, *copied.get("searches", [])])[:MAX_SEARCHES],
        "options": list(by_name.values()),
    }
    return {key: value for key, value in merged.items() if value}


def _copy_dns_config(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dnsConfig leaf by leaf. Raises RejectedError for an unknown field."""
    found: dict[str, Any] = {}
    for key, value in own.items():
        if key in ("nameservers", "searches") and _is_list_of_strings(value):
            found[key] = list(value)
        elif key == "options" and isinstance(value, list):
            found[key] = [_copy_option(option) for option in value]
        elif value:
            text = "is malformed, or not known to this version. Leave it out"
            raise RejectedError(RejectionProblem("unknown-field", f"spec.dnsConfig.{key}", text))
    return found


def _copy_option(option: Any) -> dict[str, str]:
    if isinstance(option, dict) and isinstance(option.get("name"), str):
        return {key: option[key] for key in ("name", "value") if key in option}
    text = "must have a name. Correct the object"
    raise RejectedError(RejectionProblem("malformed", "spec.dnsConfig.options", text))


def _is_list_of_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _deduplicate(items: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(items))


def build_host_name(
    spec: Mapping[str, Any], name: str, namespace: str, domain: str
) -> dict[str, Any]:
    """Return `hostnameOverride` for a pod that requests its domain name as host name.

    The super kubelet would use the super namespace and domain. Raises RejectedError if the name is
    longer than the kernel's limit.
    """
    if spec.get("hostNetwork") or not spec.get("setHostnameAsFQDN") or not spec.get("subdomain"):
        return {}
    host = spec.get("hostname") or name
    whole = f"{host}.{spec['subdomain']}.{namespace}.svc.{domain}"
    if len(whole) > MAX_HOST_NAME:
        text = f"makes a host name of {len(whole)} characters. Shorten it to {MAX_HOST_NAME}"
        raise RejectedError(RejectionProblem("host-name", "spec.setHostnameAsFQDN", text))
    return {"hostnameOverride": whole}


def needs_hosts_file(spec: Mapping[str, Any]) -> bool:
    """Return whether a kubelet writes the super namespace into the hosts file of a pod."""
    is_override = spec.get("setHostnameAsFQDN") or spec.get("hostnameOverride")
    return bool(spec.get("subdomain")) and not (spec.get("hostNetwork") or is_override)


def write_hosts_file(
    spec: dict[str, Any], *, image: str, super_namespace: str, namespace: str, domain: str
) -> list[RejectionProblem]:
    """Add the init container that rewrites the hosts file, and its mounts, in place.

    The init container replaces the namespace and the domain in the kubelet's file, which has the
    addresses of the pod and its host aliases. A kubelet writes no file of its own into a container
    that mounts one at this path (`makeMounts` in pkg/kubelet/kubelet_pods.go). Returns a notice if
    the pod uses the reserved name.
    """
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    named = {each.get("name") for each in (*containers, *(spec.get("volumes") or ()))}
    if HOSTS_NAME in named:
        text = f"uses the name {HOSTS_NAME}, so that `hostname -f` prints another domain. Rename it"
        return [RejectionProblem("hosts-file", "spec", text)]
    mount = {"name": HOSTS_NAME, "mountPath": HOSTS_PATH, "subPath": _HOSTS_FILE}
    for container in containers:
        mounts = container.get("volumeMounts") or []
        if all(str(each.get("mountPath")).rstrip("/") != HOSTS_PATH for each in mounts):
            container["volumeMounts"] = [*mounts, mount]
    expression = rf"s/\.{super_namespace}\.svc\.[^[:space:]]*/.{namespace}.svc.{domain}/"
    command = f"sed '{expression}' {HOSTS_PATH} > {_HOSTS_FOLDER}/{_HOSTS_FILE}"
    writer: dict[str, Any] = {
        "name": HOSTS_NAME,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", command],
        "resources": _copy_resources(spec["containers"][0]),
        "securityContext": _SECURITY_CONTEXT,
        "volumeMounts": [{"name": HOSTS_NAME, "mountPath": _HOSTS_FOLDER}],
    }
    spec["initContainers"] = [writer, *(spec.get("initContainers") or ())]
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": HOSTS_NAME, "emptyDir": {}}]
    return []


def _copy_resources(container: Mapping[str, Any]) -> dict[str, Any]:
    """Return the CPU and memory of a container, for an init container.

    The quality of service class of the pod stays the same. Its requests do not grow, because the
    init container has ended when the other one starts.
    """
    found = container.get("resources") or {}
    copied = {
        field: {name: found[field][name] for name in _COUNTED_RESOURCES if name in found[field]}
        for field in ("limits", "requests")
        if found.get(field)
    }
    return {field: values for field, values in copied.items() if values}
