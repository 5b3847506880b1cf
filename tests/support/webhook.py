"""A mutating webhook of a cluster: a small HTTPS server, and the configuration that names it.

The test's function sees each object and returns the JSON patch, or takes its time first.
"""

from __future__ import annotations

import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import orjson
import trustme

from kubeio.api.client import Client
from tenancy.resources import Resource
from tests.support.faults import FaultyAnswer, FaultyRequest, misbehaving
from tests.support.names import fresh_name

CONFIGURATIONS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
Patch = list[dict[str, Any]]
MutateFunction = Callable[[str, dict[str, Any]], Awaitable[Patch]]
"""Given the operation and the object, returns the patch."""


@contextlib.asynccontextmanager
async def mutating(
    client: Client, mutate: MutateFunction, *, resource: str, namespaces: Sequence[str]
) -> AsyncIterator[None]:
    """Have the objects of a resource in some namespaces changed while the block runs."""

    async def review(request: FaultyRequest, answer: FaultyAnswer) -> None:
        asked = orjson.loads(request.body)["request"]
        patch = await mutate(asked["operation"], asked["object"])
        response: dict[str, Any] = {"uid": asked["uid"], "allowed": True}
        if patch:
            encoded = base64.b64encode(orjson.dumps(patch)).decode()
            response |= {"patchType": "JSONPatch", "patch": encoded}
        await answer.json(
            {
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "response": response,
            }
        )

    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    async with misbehaving(review, tls=tls) as server:
        name = fresh_name("webhook")
        hook = {
            "name": f"{name}.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 10,
            "clientConfig": {
                "url": f"{server.endpoint.server}/mutate",
                "caBundle": base64.b64encode(authority.cert_pem.bytes()).decode(),
            },
            "namespaceSelector": {
                "matchExpressions": [
                    {
                        "key": "kubernetes.io/metadata.name",
                        "operator": "In",
                        "values": list(namespaces),
                    }
                ]
            },
            "rules": [
                {
                    "apiGroups": ["*"],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": [resource],
                }
            ],
        }
        await client.create(CONFIGURATIONS, {"metadata": {"name": name}, "webhooks": [hook]})
        try:
            yield
        finally:
            await client.delete(CONFIGURATIONS, name)
