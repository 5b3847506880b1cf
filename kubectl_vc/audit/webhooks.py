"""Connections of a tenant's API server, attempted by webhooks that the tenant declares. Pure.

A tenant's administrator makes the API server dial any address with the URL of a webhook. Each
webhook matches only a ConfigMap of the audit with its own label, which is never stored (dry run).
The API server's error message has the result of the connection.

Hazard: a webhook must match only objects in the audit's own namespace. Otherwise it would stop
writes of the tenant while the audit runs.
"""

from collections.abc import Sequence

from kubectl_vc.audit.addresses import Endpoint
from kubectl_vc.audit.prober import MARKS
from kubectl_vc.audit.probes import Answer
from kubeio import Object
from tenancy.resources import Resource

WEBHOOK_CONFIGURATIONS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
_LABEL = "vc-audit-probe"
_TIMEOUT_SECONDS = 4
_CALLED = "failed calling webhook"
_REFUSED = ("connection refused", "no route to host", "unreachable")
_TIMED_OUT = ("i/o timeout", "deadline exceeded", "Client.Timeout", "connection timed out")


def build_configuration(name: str, namespace: str, endpoints: Sequence[Endpoint]) -> Object:
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
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
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
    if _CALLED not in message:
        return Answer.MISSING
    if any(text in message for text in _REFUSED):
        return Answer.REFUSED
    if any(text in message for text in _TIMED_OUT):
        return Answer.TIMEOUT
    return Answer.OPEN
