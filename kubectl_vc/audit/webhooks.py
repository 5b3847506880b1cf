"""Connections of a tenant's API server, attempted by objects that the tenant creates. Pure.

A tenant's administrator makes the API server dial any address with the URL of a webhook. Each
webhook matches only a ConfigMap of the audit with its own label, which is never stored (dry run).
The API server's error message has the result of the connection.

A server without TLS may accept the connection and wait for a line of HTTP. The webhook's call then
ends like one that was dropped. Therefore an address that did not answer is called a second time, by
plain HTTP through the proxy of a Node that the tenant created with this address.

Hazard: a webhook must match only objects in the audit's own namespace. Otherwise it would stop
writes of the tenant while the audit runs.
"""

from collections.abc import Sequence
from ipaddress import ip_address

from kubectl_vc.audit.addresses import TargetAddress
from kubectl_vc.audit.prober import MANAGER, MARKS
from kubectl_vc.audit.probes import Answer
from kubeio import Object
from tenancy import wellknown
from tenancy.resources import NODES, Resource

WEBHOOK_CONFIGURATIONS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
_LABEL = "vc-audit-probe"
_NOT_FOUND = 404
_OWN_STATUSES = (400, 401, 403)
"""Statuses of the API server's own refusals. A refusal by the target itself is then unknown."""
_TIMEOUT_SECONDS = 4
_CALLED = "failed calling webhook"
_PROXIED_ERROR = "error trying to reach service"
_REFUSED = (
    "connection refused",
    "no route to host",
    "unreachable",
    "cannot assign requested address",
    "address family not supported",
)
"""Errors before a connection. The last two are those of a machine without IPv6."""
_TIMED_OUT = ("i/o timeout", "deadline exceeded", "Client.Timeout", "connection timed out")


def build_configuration(name: str, namespace: str, endpoints: Sequence[TargetAddress]) -> Object:
    """Return the configuration with one webhook for each endpoint."""
    return {
        "apiVersion": WEBHOOK_CONFIGURATIONS.api_version,
        "kind": WEBHOOK_CONFIGURATIONS.kind,
        "metadata": {"name": name, "labels": MARKS},
        "webhooks": [
            {
                "name": f"probe-{number}.audit.tenancy.x-k8s.io",
                "clientConfig": {"url": f"https://{endpoint.address}/"},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["configmaps"],
                        "operations": ["CREATE"],
                        "scope": "Namespaced",
                    }
                ],
                "namespaceSelector": {"matchLabels": {wellknown.NAMESPACE_NAME: namespace}},
                "objectSelector": {"matchLabels": {_LABEL: str(number)}},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "timeoutSeconds": _TIMEOUT_SECONDS,
                "admissionReviewVersions": ["v1"],
            }
            for number, endpoint in enumerate(endpoints)
        ],
    }


def build_trigger(namespace: str, number: int) -> Object:
    """Return the ConfigMap whose creation makes the API server call webhook `number`."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"probe-{number}",
            "namespace": namespace,
            "labels": {**MARKS, _LABEL: str(number)},
        },
    }


def parse_answer(message: str) -> Answer:
    """Return the result of a connection from the API server's error message.

    Each error of TLS or HTTP comes from a server that accepted the connection.
    """
    return _parse_error(message) if _CALLED in message else Answer.MISSING


def build_proxied_node(name: str, host: str) -> Object:
    """Return a node with this address. A taint keeps the tenant's DaemonSets away from it."""
    taint = {"key": f"{MANAGER}.tenancy.x-k8s.io", "effect": "NoSchedule"}
    return {
        "apiVersion": "v1",
        "kind": NODES.kind,
        "metadata": {"name": name, "labels": MARKS},
        "spec": {"unschedulable": True, "taints": [taint]},
        "status": {"addresses": [{"type": "InternalIP", "address": host}]},
    }


def is_proxied(endpoint: TargetAddress) -> bool:
    """Return whether an API server proxies to an address. It refuses link-local addresses."""
    address = ip_address(endpoint.host)
    return not (address.is_link_local or address.is_loopback or address.is_multicast)


def build_proxy_path(node: str, port: int) -> str:
    """Return the path at which the API server proxies to a port of a node, by plain HTTP."""
    return NODES.build_path(name=f"http:{node}:{port}", subresource="proxy") + "/"


def parse_proxied_answer(status: int, message: str) -> Answer:
    """Return the result of a connection from the answer of the API server's proxy.

    Each answer comes from the server itself, except the proxy's own errors.
    """
    if _PROXIED_ERROR in message:
        return _parse_error(message)
    is_own = status in _OWN_STATUSES or (status == _NOT_FOUND and "nodes " in message)
    return Answer.MISSING if is_own else Answer.OPEN


def _parse_error(message: str) -> Answer:
    if any(text in message for text in _REFUSED):
        return Answer.REFUSED
    if any(text in message for text in _TIMED_OUT):
        return Answer.TIMEOUT
    return Answer.OPEN
