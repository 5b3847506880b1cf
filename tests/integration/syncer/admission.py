"""Admission rules of a cluster for a test: what webhooks do, without a server of their own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from kubeio.api.client import Client
from tenancy.resources import Resource
from tests.support.names import fresh_name

GROUP = "admissionregistration.k8s.io"
MUTATING = "MutatingAdmissionPolicy"
VALIDATING = "ValidatingAdmissionPolicy"


def _resource(kind: str) -> Resource:
    plural = kind.lower().removesuffix("y") + ("ies" if kind.endswith("y") else "s")
    return Resource(GROUP, "v1", plural, kind, namespaced=False)


def _rule(resources: Sequence[str], operations: Sequence[str]) -> dict[str, Any]:
    return {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": list(operations),
        "resources": list(resources),
    }


@contextlib.asynccontextmanager
async def _policy(client: Client, kind: str, **spec: Any) -> AsyncIterator[None]:
    name = fresh_name("rule")
    bound = {"policyName": name}
    if kind == VALIDATING:
        bound["validationActions"] = ["Deny"]  # type: ignore[assignment]
    policy, binding = _resource(kind), _resource(f"{kind}Binding")
    head = {"apiVersion": f"{GROUP}/v1", "metadata": {"name": name}}
    await client.create(policy, {**head, "kind": kind, "spec": {"failurePolicy": "Fail", **spec}})
    await client.create(binding, {**head, "kind": f"{kind}Binding", "spec": bound})
    try:
        yield
    finally:
        await client.delete(binding, name)
        await client.delete(policy, name)


@contextlib.asynccontextmanager
async def mutated(
    client: Client,
    resource: str,
    label: str,
    *expressions: str,
    operations: Sequence[str] = ("CREATE",),
) -> AsyncIterator[None]:
    """Have objects with `label: "yes"` changed by CEL: `Object{...}` merges, `[...]` patches."""
    mutations = [
        {"patchType": "JSONPatch", "jsonPatch": {"expression": text}}
        if text.startswith("[")
        else {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}
        for text in expressions
    ]
    async with _policy(
        client,
        MUTATING,
        reinvocationPolicy="Never",
        matchConstraints={
            "resourceRules": [_rule([resource], operations)],
            "objectSelector": {"matchLabels": {label: "yes"}},
        },
        mutations=mutations,
    ):
        yield


@contextlib.asynccontextmanager
async def denied(client: Client, user: str, *resources: str) -> AsyncIterator[None]:
    """Have every write of a user refused."""
    async with _policy(
        client,
        VALIDATING,
        matchConstraints={
            "resourceRules": [
                _rule(resources or ["*/*"], ["CREATE", "UPDATE", "DELETE"]),
            ]
        },
        matchConditions=[{"name": "who", "expression": f"request.userInfo.username == '{user}'"}],
        validations=[{"expression": "false", "message": "nobody may write", "reason": "Forbidden"}],
    ):
        yield
