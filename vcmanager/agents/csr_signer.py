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
from kubeio.controller.worker import Done, RequeueAfter, Result
from tenancy import wellknown
from tenancy.control_characters import escape_control_characters
from tenancy.resources import CERTIFICATE_SIGNING_REQUESTS, PODS
from vcmanager.agents import authorities
from vcmanager.pki import bundles, checks, requests
from vcmanager.pki.requests import InvalidCsrError
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.keys import ReconcileKey

POD_NAME_EXTRA = "authentication.kubernetes.io/pod-name"
POD_UID_EXTRA = "authentication.kubernetes.io/pod-uid"
_APP_LABEL = "app.kubernetes.io/name"
_AGENT_ACCOUNTS = (wellknown.AGENT, wellknown.TARGET_AGENT)
_MAX_LIFETIME = timedelta(hours=24)
"""Longest lifetime, as vnagent.server.serving_certificate. Another pod may get the address of a
deleted agent, and tenants' API servers would trust a stolen key for that address.
"""
_ALLOWED_USAGES = frozenset({"digital signature", "key encipherment", "server auth"})
_RETRY_SECONDS = 30.0
_ADDRESS_RETRY_SECONDS = 1.0
"""Delay in seconds until the next check of a pod without an address from its kubelet."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CsrDenial:
    """Why a request is denied."""

    message: str


@dataclass(frozen=True, slots=True)
class CsrPending:
    """A request cannot be judged yet."""


@dataclass(frozen=True, slots=True)
class CsrApproval:
    """Approved addresses and lifetime of a certificate."""

    addresses: tuple[str, ...]
    lifetime: timedelta


def get_requesting_pod(request: Mapping[str, Any], namespace: str) -> str | CsrDenial:
    """Return the pod that the requester's token is bound to."""
    spec = request["spec"]
    known = [f"system:serviceaccount:{namespace}:{each}" for each in _AGENT_ACCOUNTS]
    if spec.get("username") not in known:
        return CsrDenial(f"only {' and '.join(known)} may request this certificate")
    names = (spec.get("extra") or {}).get(POD_NAME_EXTRA) or []
    if len(names) != 1:
        return CsrDenial("the requester's token is not bound to a pod. Use a projected token")
    return str(names[0])


def decide_request(
    request: Mapping[str, Any], pod: Mapping[str, Any] | None
) -> CsrApproval | CsrDenial | CsrPending:
    """Judge the request of an agents' account. `pod` is the pod that its token names.

    An agent knows its address before its kubelet has reported it, and a denial is permanent.
    """
    spec = request["spec"]
    uids = (spec.get("extra") or {}).get(POD_UID_EXTRA) or []
    if pod is None or uids != [pod["metadata"]["uid"]]:
        return CsrDenial("the pod that the requester's token is bound to does not exist")
    account = str(spec.get("username")).rpartition(":")[2]
    trouble = _find_pod_problem(pod, account) or _find_usage_problem(set(spec.get("usages") or ()))
    if trouble:
        return CsrDenial(trouble)
    try:
        names = requests.read_names(bundles.decode_base64(spec.get("request", "")))
    except InvalidCsrError as problem:
        return CsrDenial(str(problem))
    status = pod.get("status") or {}
    own = {str(ip_address(each["ip"])) for each in status.get("podIPs") or ()}
    if not own:
        return CsrPending()
    if names.other_count or not names.addresses or not set(names.addresses) <= own:
        return CsrDenial("the certificate may have only the addresses of the agent pod")
    seconds = spec.get("expirationSeconds")
    lifetime = min(timedelta(seconds=seconds), _MAX_LIFETIME) if seconds else _MAX_LIFETIME
    return CsrApproval(names.addresses, lifetime)


def _find_pod_problem(pod: Mapping[str, Any], account: str) -> str:
    labels, status = pod["metadata"].get("labels") or {}, pod.get("status") or {}
    names = {account, labels.get(_APP_LABEL), pod["spec"].get("serviceAccountName")}
    if len(names) > 1 or account not in _AGENT_ACCOUNTS:
        return "the pod that the requester's token is bound to is not an agent"
    if "deletionTimestamp" in pod["metadata"] or status.get("phase") in wellknown.TERMINAL_PHASES:
        return "the agent pod is being deleted"
    return ""


def _find_usage_problem(usages: set[str]) -> str:
    if usages <= _ALLOWED_USAGES and "server auth" in usages:
        return ""
    return (
        "usages must contain server auth, and may contain only"
        f" {', '.join(sorted(_ALLOWED_USAGES))}"
    )


async def reconcile_csr(means: ReconcileContext, key: ReconcileKey) -> Result:
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
    verdict = await _evaluate_request(means, request)
    if isinstance(verdict, CsrPending):
        return RequeueAfter(_ADDRESS_RETRY_SECONDS)
    if isinstance(verdict, CsrDenial):
        # An approved request cannot be denied, whether approved here or by hand. It can only fail.
        kind = "Failed" if "Approved" in types else "Denied"
        await _write_condition(means, request, kind, "AgentPodMismatch", verdict.message)
        _log.warning("request.denied", problem=verdict.message)
        return Done()
    if "Approved" not in types:
        message = f"for the agent pod at {', '.join(verdict.addresses)}"
        request = await _write_condition(means, request, "Approved", "AgentPodMatch", message)
    return await _sign_request(means, request, verdict)


async def _evaluate_request(
    means: ReconcileContext, request: Object
) -> CsrApproval | CsrDenial | CsrPending:
    name = get_requesting_pod(request, means.namespace)
    if isinstance(name, CsrDenial):
        return name
    try:
        pod = await means.super_client.get(PODS, name, namespace=means.namespace)
    except errors.NotFound:
        return decide_request(request, None)
    return decide_request(request, pod)


async def _write_condition(
    means: ReconcileContext, request: Object, kind: str, reason: str, message: str
) -> Object:
    status = request.get("status") or {}
    text = escape_control_characters(message)
    condition = {"type": kind, "status": "True", "reason": reason, "message": text}
    conditions = [*(status.get("conditions") or ()), condition]
    return await means.super_client.replace(
        CERTIFICATE_SIGNING_REQUESTS,
        {**request, "status": {**status, "conditions": conditions}},
        subresource="status" if kind == "Failed" else "approval",
        field_manager=wellknown.MANAGER,
    )


async def _sign_request(means: ReconcileContext, request: Object, grant: CsrApproval) -> Result:
    try:
        trust = await authorities.load_authorities(
            means.super_client, means.namespace, now=means.now
        )
    except PhaseBlocked as held:
        _log.warning("request.waiting", problem=held.message)
        return RequeueAfter(_RETRY_SECONDS)
    if checks.has_ended(trust.serving.certificate, means.now()):
        problem = f"the CA in the Secret {means.namespace}/{authorities.SERVING_CA_NAME} has ended"
        _log.warning("request.waiting", problem=problem)
        return RequeueAfter(_RETRY_SECONDS)
    certificate = requests.sign_request(
        trust.serving,
        bundles.decode_base64(request["spec"]["request"]),
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
                "certificate": bundles.encode_base64(certificate),
            },
        },
        subresource="status",
        field_manager=wellknown.MANAGER,
    )
    _log.info("request.signed")
    return Done()
