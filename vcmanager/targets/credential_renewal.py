"""Renewal of the credential that `kubectl vc target join` created.

Owns the Secret's token and the annotations with its times. A Secret without them is not renewed,
because its administrator chose an end or wrote it. Hazard: the token must be written from the
answer into the Secret only, and only into the Secret from which its predecessor came.
"""

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import structlog

from kubeio import errors
from kubeio.api.client import Client
from kubeio.config import secret_kubeconfig
from tenancy import wellknown
from tenancy.conditions import format_time
from tenancy.resources import SECRETS, SERVICE_ACCOUNTS
from tenancy.super_clusters import build_accounts_namespace
from vcmanager.runtime.context import ReconcileContext
from vcmanager.targets import agents

TOKEN_SECONDS = 7 * 24 * 3600
"""Lifetime in seconds of a renewed token, the same as that of a join. A target may shorten it."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def is_renewal_due(secret: Mapping[str, Any], now: datetime) -> bool:
    """Return whether a Secret has the time of a renewal, and the time is over. Pure."""
    said = (secret["metadata"].get("annotations") or {}).get(wellknown.TOKEN_RENEW)
    if not said:
        return False
    try:
        due = datetime.fromisoformat(said)
    except ValueError:
        return False
    return due.tzinfo is not None and now >= due


def replace_token(data: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """Return the Secret's changed values with the new token. Empty if the old one is not found.

    The kubeconfig is not parsed: a token is unique in it, and so the rest stays as it is. Pure.
    """
    found = {}
    for key, value in data.items():
        if key == secret_kubeconfig.KUBELET_AUTHORITIES_KEY:
            continue
        content = base64.b64decode(value)
        if content.count(old.encode()) == 1:
            made = content.replace(old.encode(), new.encode())
            found[key] = base64.b64encode(made).decode()
    return found


async def renew_credential(
    means: ReconcileContext,
    client: Client,
    secret: Mapping[str, Any],
    *,
    token: str,
    home: str,
    target: str,
) -> None:
    """Replace the token of a SuperCluster's Secret if half of its lifetime is over.

    `token` is the one in the Secret, and `home` the identity of the home cluster. A failure is
    logged and repeated at the next reconcile. The condition Authorized has the end of the token.
    """
    if not token or not is_renewal_due(secret, means.now()):
        return
    try:
        answer = await client.create(
            SERVICE_ACCOUNTS,
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": TOKEN_SECONDS},
            },
            namespace=build_accounts_namespace(home),
            name=wellknown.SYNCER,
            subresource="token",
        )
        made = agents.parse_token_response(answer, means.now(), TOKEN_SECONDS)
        data = replace_token(secret.get("data") or {}, token, made.text)
        if not data:
            _log.warning("target.credential_not_renewed", target=target, problem="no token found")
            return
        metadata = secret["metadata"]
        times = {
            wellknown.EXPIRES: format_time(made.expires),
            wellknown.TOKEN_RENEW: format_time(made.renewal),
        }
        body = {
            "metadata": {
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
                "annotations": times,
            },
            "data": data,
        }
        await means.super_client.patch(
            SECRETS,
            metadata["name"],
            body,
            namespace=metadata["namespace"],
            field_manager=wellknown.MANAGER,
        )
    except errors.Fenced:
        raise
    except (errors.KubeError, agents.TokenNotCreatedError, AttributeError, TypeError) as problem:
        _log.warning("target.credential_not_renewed", target=target, problem=str(problem))
        return
    _log.info("target.credential_renewed", target=target, expires=times[wellknown.EXPIRES])
