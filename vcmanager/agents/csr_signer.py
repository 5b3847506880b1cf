"""Signer of the serving certificates of agents.

Owns the judgement of such a request (pure) and its three writes. Signs no other certificates.
Hazard: every tenant's API server trusts the holder of such a certificate as the agent of a node.
The request must come from an account of agents with a token bound to a living pod of that account,
and ask for that pod's address alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from typing import Any

import structlog

from kubeio import Object, errors
from kubeio.controller.worker import Again, Done, Verdict
from tenancy import wellknown
from tenancy.resources import CERTIFICATE_SIGNING_REQUESTS, PODS
from vcmanager.agents import authorities
from vcmanager.pki import bundles, requests
from vcmanager.pki.requests import RequestProblemError
from vcmanager.runtime.blocked import Held
from vcmanager.runtime.context import Means
from vcmanager.runtime.keys import Key

POD_NAME = "authentication.kubernetes.io/pod-name"
POD_UID = "authentication.kubernetes.io/pod-uid"
_APP = "app.kubernetes.io/name"
_ACCOUNTS = (wellknown.AGENT, wellknown.TARGET_AGENT)
_LONGEST = timedelta(days=90)
_USAGES = frozenset({"digital signature", "key encipherment", "server auth"})
_RETRY = 30.0
_SOON = 1.0
"""Delay in seconds until the next check of a pod without an address from its kubelet."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is denied."""

    message: str


@dataclass(frozen=True, slots=True)
class Later:
    """A request cannot be judged yet."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Approved addresses and lifetime of a certificate."""

    addresses: tuple[str, ...]
    lifetime: timedelta


def pod_named(request: Mapping[str, Any], namespace: str) -> str | Refusal:
    """Return the pod that the requester's token is bound to."""
    spec = request["spec"]
    known = [f"system:serviceaccount:{namespace}:{each}" for each in _ACCOUNTS]
    if spec.get("username") not in known:
        return Refusal(f"only {' and '.join(known)} may ask for this certificate")
    names = (spec.get("extra") or {}).get(POD_NAME) or []
    if len(names) != 1:
        return Refusal("the requester's token is bound to no pod; use a projected token")
    return str(names[0])


def decide(request: Mapping[str, Any], pod: Mapping[str, Any] | None) -> Grant | Refusal | Later:
    """Judge the request of an agents' account. `pod` is the pod that its token names.

    An agent knows its address before its kubelet has reported it, and a denial is permanent.
    """
    spec = request["spec"]
    uids = (spec.get("extra") or {}).get(POD_UID) or []
    if pod is None or uids != [pod["metadata"]["uid"]]:
        return Refusal("the pod that the requester's token is bound to is gone")
    account = str(spec.get("username")).rpartition(":")[2]
    trouble = _trouble_of(pod, account) or _trouble_of_usages(set(spec.get("usages") or ()))
    if trouble:
        return Refusal(trouble)
    try:
        names = requests.names_of(bundles.decoded(spec.get("request", "")))
    except RequestProblemError as problem:
        return Refusal(str(problem))
    status = pod.get("status") or {}
    own = {str(ip_address(each["ip"])) for each in status.get("podIPs") or ()}
    if not own:
        return Later()
    if names.others or not names.addresses or not set(names.addresses) <= own:
        return Refusal("the certificate must be for the agent pod's own addresses and nothing else")
    seconds = spec.get("expirationSeconds")
    lifetime = min(timedelta(seconds=seconds), _LONGEST) if seconds else _LONGEST
    return Grant(names.addresses, lifetime)


def _trouble_of(pod: Mapping[str, Any], account: str) -> str:
    labels, status = pod["metadata"].get("labels") or {}, pod.get("status") or {}
    names = {account, labels.get(_APP), pod["spec"].get("serviceAccountName")}
    if len(names) > 1 or account not in _ACCOUNTS:
        return "the pod that the requester's token is bound to is no agent"
    if "deletionTimestamp" in pod["metadata"] or status.get("phase") in ("Succeeded", "Failed"):
        return "the agent pod is ending"
    return ""


def _trouble_of_usages(usages: set[str]) -> str:
    if usages <= _USAGES and "server auth" in usages:
        return ""
    return f"usages must be server auth, with {', '.join(sorted(_USAGES))} at most"


async def reconcile(means: Means, key: Key) -> Verdict:
    """Approve and sign one request, or deny it with a reason."""
    try:
        request = await means.super_client.get(CERTIFICATE_SIGNING_REQUESTS, key.name)
    except errors.NotFound:
        return Done()
    status = request.get("status") or {}
    types = {each["type"] for each in status.get("conditions") or ()}
    if request["spec"]["signerName"] != wellknown.AGENT_SERVING_SIGNER or (
        status.get("certificate") or types & {"Denied", "Failed"}
    ):
        return Done()
    verdict = await _judge(means, request)
    if isinstance(verdict, Later):
        return Again(_SOON)
    if isinstance(verdict, Refusal):
        # An approved request cannot be denied, whether approved here or by hand. It can only fail.
        kind = "Failed" if "Approved" in types else "Denied"
        await _settle(means, request, kind, "NotTheAgent", verdict.message)
        _log.warning("request.denied", problem=verdict.message)
        return Done()
    if "Approved" not in types:
        message = f"for the agent pod at {', '.join(verdict.addresses)}"
        request = await _settle(means, request, "Approved", "TheAgent", message)
    return await _sign(means, request, verdict)


async def _judge(means: Means, request: Object) -> Grant | Refusal | Later:
    name = pod_named(request, means.namespace)
    if isinstance(name, Refusal):
        return name
    try:
        pod = await means.super_client.get(PODS, name, namespace=means.namespace)
    except errors.NotFound:
        return decide(request, None)
    return decide(request, pod)


async def _settle(means: Means, request: Object, kind: str, reason: str, message: str) -> Object:
    status = request.get("status") or {}
    condition = {"type": kind, "status": "True", "reason": reason, "message": message}
    conditions = [*(status.get("conditions") or ()), condition]
    return await means.super_client.replace(
        CERTIFICATE_SIGNING_REQUESTS,
        {**request, "status": {**status, "conditions": conditions}},
        subresource="status" if kind == "Failed" else "approval",
        field_manager=wellknown.MANAGER,
    )


async def _sign(means: Means, request: Object, grant: Grant) -> Verdict:
    try:
        trust = await authorities.load(means.super_client, means.namespace, now=means.now)
    except Held as held:
        _log.warning("request.waits", problem=held.message)
        return Again(_RETRY)
    certificate = requests.sign(
        trust.serving,
        bundles.decoded(request["spec"]["request"]),
        common_name=wellknown.AGENT,
        addresses=grant.addresses,
        lifetime=grant.lifetime,
        now=means.now(),
    )
    await means.super_client.replace(
        CERTIFICATE_SIGNING_REQUESTS,
        {
            **request,
            "status": {
                **(request.get("status") or {}),
                "certificate": bundles.encoded(certificate),
            },
        },
        subresource="status",
        field_manager=wellknown.MANAGER,
    )
    _log.info("request.signed")
    return Done()
