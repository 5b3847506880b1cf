"""Tokens of ServiceAccounts, by the API that a kubelet uses."""

from __future__ import annotations

from kubeio import Object
from kubeio.api.client import Client
from tenancy.resources import SERVICE_ACCOUNTS


async def request_account_token(
    client: Client, namespace: str, account: str, *, bound_to: Object | None = None
) -> str:
    """Return a token of an account that is valid for an hour. `bound_to`: a pod."""
    spec: Object = {"expirationSeconds": 3600}
    if bound_to is not None:
        metadata = bound_to["metadata"]
        about = {"name": metadata["name"], "uid": metadata["uid"]}
        spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", **about}
    made = await client.create(
        SERVICE_ACCOUNTS, {"spec": spec}, namespace=namespace, name=account, subresource="token"
    )
    return str(made["status"]["token"])
