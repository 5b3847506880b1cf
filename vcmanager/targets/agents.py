"""Credential, Secret and Deployment of a target's agent.

The credential is created in the target, the Secret and the Deployment in the home cluster. Owns
what is stored of both, and the condition AgentReady. Must not know how the agent serves. Hazard:
the credential opens every pod of the target. It is a short-lived token from TokenRequest, renewed
here, of an account without any other right. It is stored in the agent's Secret only. It is removed
as soon as the SuperCluster no longer has a credential, or a different cluster answers.
"""

import base64
import binascii
import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog

from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.config import secret_kubeconfig
from kubeio.config.endpoint import Endpoint
from tenancy import wellknown
from tenancy.conditions import format_time
from tenancy.resources import DEPLOYMENTS, SECRETS, SERVICE_ACCOUNTS, Resource
from tenancy.super_clusters import AccessMode, build_accounts_namespace
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.object_metadata import compute_digest, is_up_to_date
from vcmanager.targets import probe, required_permissions
from vcmanager.targets.agent_objects import (
    AgentDeployment,
    AgentServers,
    build_deployment,
    build_object_name,
    build_secret,
)
from vcmanager.targets.clients import AgentTokenCheck
from vcmanager.targets.super_cluster_conditions import ConditionBody

AGENT_ACCOUNT = wellknown.AGENT
"""ServiceAccount in the target. `kubectl vc target join` creates it."""
TOKEN_SECONDS = 24 * 3600
"""Token lifetime in seconds. Logs must work through half a day without vc-manager (ADR 0022)."""
CHECK_SECONDS = 300.0
"""Seconds between checks of the token's rights. The next constant: while some are missing."""
UNHEALTHY_CHECK_SECONDS = 30.0
_TOKEN_PATTERN = re.compile(r"[A-Za-z0-9._~+/-]{1,16384}=*")
_REMEDY_TEXT = "Until then, logs, exec and port-forward of pods in the target fail."
_MODE_TEXTS: Mapping[AccessMode, str] = {
    "apiserver": "through its API server (mode apiserver)",
    "agent": "directly from its kubelets (mode agent)",
}

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentContext:
    """Current inputs of the agent of one target."""

    name: str
    uid: str
    """Both of the SuperCluster."""
    endpoint: Endpoint | None
    """None: the SuperCluster no longer has a credential, or a different cluster answers."""
    client: Client | None
    """None: the target is not reached now, or refuses the credential."""
    home: str
    """UID of the home cluster's kube-system."""
    mode: AccessMode = "apiserver"
    kubelet_authorities: bytes = b""
    """Authorities of kubelets from the SuperCluster's Secret. Empty: the API server's."""

    @property
    def servers(self) -> AgentServers | None:
        """Return the servers that the agent calls, or None without a usable credential."""
        if self.endpoint is None:
            return None
        kubelets = self.kubelet_authorities or self.endpoint.ca
        return AgentServers(self.endpoint, kubelets if self.mode == "agent" else b"")


@dataclass(frozen=True, slots=True, repr=False)
class AgentToken:
    """The agent's token."""

    text: str
    expires: datetime
    renewal: datetime


class TokenNotCreatedError(Exception):
    """No new token was made. Has the condition that reports it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.condition = ConditionBody("False", reason, message)


class _NameConflictError(Exception):
    """An object of another owner has the agent's name. The message has what to do."""


async def reconcile_agent(means: ReconcileContext, context: AgentContext) -> ConditionBody:
    """Apply the agent's objects. Return AgentReady. Raises Unavailable and Fenced."""
    pods = means.agent_pods
    if pods is None:
        text = (
            "vc-manager has no settings for agents of targets. Set the environment variable"
            " AGENT_PODS, as the chart does."
        )
        return ConditionBody("False", "NotConfigured", text)
    post = AgentDeployment(
        name=context.name, uid=context.uid, namespace=means.namespace, mode=context.mode
    )
    try:
        live = await _get_own_object(means, SECRETS, post)
        token, trouble = await _ensure_credential(means, post, context, live)
        wanted = build_deployment(post, pods, context.servers, has_credential=token is not None)
        found = await _get_own_object(means, DEPLOYMENTS, post)
        if not is_up_to_date(wanted, found):
            found = await means.super_client.apply(
                DEPLOYMENTS, wanted, field_manager=wellknown.MANAGER
            )
            _log.info("target.agent_applied", target=context.name)
    except _NameConflictError as problem:
        return ConditionBody("False", "NameTaken", str(problem))
    except errors.ApiError as problem:
        text = f"The agent could not be created in the home cluster: {problem}. {_REMEDY_TEXT}"
        return ConditionBody("False", "AgentCreateFailed", text)
    try:
        lack = await _find_missing_permissions(means, context, token)
    except errors.Unauthorized:
        return await _delete_refused_token(means, post, context)
    return trouble or lack or _read_deployment_state(means, post, found or {})


async def _delete_refused_token(
    means: ReconcileContext, agent: AgentDeployment, context: AgentContext
) -> ConditionBody:
    """Delete a token that the cluster refuses: the account was recreated, or revoked."""
    live = await _get_own_object(means, SECRETS, agent)
    if live is not None:
        await _delete_object(means, SECRETS, live)
        _log.info("target.agent_credential_updated", target=context.name)
    text = (
        "The target cluster no longer accepts the agent's token. vc-manager requests another one"
        " at its next check."
    )
    return ConditionBody("False", "NotAccepted", text)


def read_valid_token(
    live: Mapping[str, Any] | None, servers: AgentServers, now: datetime
) -> AgentToken | None:
    """Return the valid token in a Secret for these servers, or None. Pure."""
    if live is None:
        return None
    said = live["metadata"].get("annotations") or {}
    try:
        data = live.get("data") or {}
        text = base64.b64decode(data[servers.token_key], validate=True).decode("ascii")
        ends, renewal = (
            _parse_time(said[wellknown.EXPIRES]),
            _parse_time(said[wellknown.TOKEN_RENEW]),
        )
    except (KeyError, TypeError, ValueError, binascii.Error):
        return None
    return AgentToken(text, ends, renewal) if now < ends and _is_token(text) else None


def parse_token_response(
    answer: Mapping[str, Any], now: datetime, seconds: int = TOKEN_SECONDS
) -> AgentToken:
    """Return the token of a TokenRequest for so many seconds.

    Raises TokenNotCreatedError if it is invalid. Pure.
    """
    status = answer.get("status") or {}
    text, ends = status.get("token"), None
    with contextlib.suppress(ValueError):
        ends = _parse_time(str(status.get("expirationTimestamp")))
    if not isinstance(text, str) or not _is_token(text) or ends is None or ends <= now:
        what = "the target cluster answered a token request with another object"
        raise TokenNotCreatedError("TokenCreateFailed", f"{what}. {_REMEDY_TEXT}")
    left = min(ends - now, timedelta(seconds=seconds))
    return AgentToken(text, ends, now + left / 2)


async def _ensure_credential(
    means: ReconcileContext, agent: AgentDeployment, context: AgentContext, live: Object | None
) -> tuple[AgentToken | None, ConditionBody | None]:
    """Return the final token in the Secret, and its fault."""
    token, trouble = await _renew_credential(means, agent, context, live)
    if token is None and live is not None:
        await _delete_object(means, SECRETS, live)  # otherwise another server would receive it
        _log.info("target.agent_credential_updated", target=context.name)
    return token, trouble


async def _renew_credential(
    means: ReconcileContext, agent: AgentDeployment, context: AgentContext, live: Object | None
) -> tuple[AgentToken | None, ConditionBody | None]:
    servers = context.servers
    if servers is None:
        text = (
            "There is no credential for the target cluster. See the condition Reachable."
            f" {_REMEDY_TEXT}"
        )
        return None, ConditionBody("False", "NoCredential", text)
    unknown = _check_servers_trusted(servers)
    if unknown is not None:
        return None, unknown
    held = read_valid_token(live, servers, means.now())
    if context.client is None:
        return held, ConditionBody(
            "Unknown", "NotReached", "Not known while the target cluster cannot be reached."
        )
    if held is not None and means.now() < held.renewal:
        return held, None
    try:
        made = await _request_token(context.client, context, means.now())
    except TokenNotCreatedError as problem:
        return held, _build_not_renewed(problem.condition, held)
    await _write_objects(means, agent, servers, made)
    return made, None


def _check_servers_trusted(servers: AgentServers) -> ConditionBody | None:
    """Return a condition if no authority verifies the servers that get the token. Pure."""
    if not servers.api.ca.strip():
        text = (
            "The Secret has no CA, and the agent trusts no other. Put it into"
            f" certificate-authority-data. {_REMEDY_TEXT}"
        )
        return ConditionBody("False", "NoAuthority", text)
    if servers.kubelets and (what := secret_kubeconfig.check_authorities(servers.kubelets)):
        text = (
            f"The CA of the kubelets ({secret_kubeconfig.KUBELET_AUTHORITIES_KEY} in the Secret,"
            f" or else the CA of the API server) {what}. Correct it. {_REMEDY_TEXT}"
        )
        return ConditionBody("False", "NoKubeletAuthority", text)
    return None


def _build_not_renewed(said: ConditionBody, held: AgentToken | None) -> ConditionBody:
    if held is None:
        return said
    return said._replace(
        message=f"{said.message} The current token expires on {format_time(held.expires)}."
    )


async def _write_objects(
    means: ReconcileContext, agent: AgentDeployment, servers: AgentServers, made: AgentToken
) -> None:
    wanted = build_secret(agent, servers, made.text)
    wanted["metadata"]["annotations"] = {
        wellknown.EXPIRES: format_time(made.expires),
        wellknown.TOKEN_RENEW: format_time(made.renewal),
    }
    await means.super_client.apply(SECRETS, wanted, field_manager=wellknown.MANAGER)
    _log.info("target.agent_token_created", target=agent.name, expires=format_time(made.expires))


async def _request_token(client: Client, context: AgentContext, now: datetime) -> AgentToken:
    namespace = build_accounts_namespace(context.home)
    account = f"the ServiceAccount {namespace}/{AGENT_ACCOUNT} in the target cluster"
    join = f"Run `kubectl vc target join {context.name}` again"
    try:
        answer = await client.create(
            SERVICE_ACCOUNTS,
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": TOKEN_SECONDS},
            },
            namespace=namespace,
            name=AGENT_ACCOUNT,
            subresource="token",
        )
        return parse_token_response(answer, now)
    except errors.NotFound:
        text = f"{account} is missing, and the agent's token is for it. {join}. {_REMEDY_TEXT}"
        raise TokenNotCreatedError("NoAccount", text) from None
    except errors.Forbidden:
        text = (
            f"The account may not create tokens for {account} (serviceaccounts/token: create)."
            f" {join}, or grant it. {_REMEDY_TEXT}"
        )
        raise TokenNotCreatedError("MissingRights", text) from None
    except errors.Fenced:
        raise
    except (errors.KubeError, AttributeError, TypeError) as problem:
        text = f"the target cluster creates no token for {account}: {problem}"
        raise TokenNotCreatedError("TokenCreateFailed", text) from problem


async def _find_missing_permissions(
    means: ReconcileContext, context: AgentContext, token: AgentToken | None
) -> ConditionBody | None:
    """Return a condition if the agent's account lacks rights, or None."""
    servers = context.servers
    if token is None or servers is None:
        return None
    known: AgentTokenCheck | None = means.target_clients.agent_checks.get(context.name)
    now = means.now()
    head = compute_digest([token.text, servers.server_identity])
    if known is None or known.cache_key != head or known.until <= now:
        given = Endpoint(
            server=servers.api.server,
            name=servers.api.name,
            ca=servers.api.ca,
            tls_server_name=servers.api.tls_server_name,
            strict=servers.api.strict,
            token=token.text,
        )
        try:
            async with means.target_clients.open_client(given) as client:
                wanted = required_permissions.list_required_by_agent(context.mode)
                found = tuple(await probe.list_missing_permissions(client, wanted))
        except (errors.Fenced, errors.Unauthorized):
            raise
        except (errors.KubeError, AttributeError, TypeError, ValueError) as problem:
            text = (
                f"The target cluster does not accept the agent's token: {problem}. {_REMEDY_TEXT}"
            )
            return ConditionBody("False", "NotAccepted", text)
        seconds = UNHEALTHY_CHECK_SECONDS if found else CHECK_SECONDS
        known = AgentTokenCheck(head, now + timedelta(seconds=seconds), found)
        means.target_clients.agent_checks[context.name] = known
    if not known.missing_permissions:
        return None
    return ConditionBody(
        "False",
        "MissingRights",
        f"The agent's account lacks permissions for mode {context.mode}:"
        f" {required_permissions.format_missing(known.missing_permissions)} (in all namespaces)."
        f" Run `kubectl vc target join {context.name}` again, or grant them.",
    )


def _read_deployment_state(
    means: ReconcileContext, agent: AgentDeployment, live: Mapping[str, Any]
) -> ConditionBody:
    """Return AgentReady from the Deployment's status. Pure."""
    if ((live.get("status") or {}).get("readyReplicas") or 0) > 0:
        text = "The agent serves logs, exec, attach and port-forward of tenants' pods in the target"
        if not _is_rolled_out(live):
            return ConditionBody("True", "Serves", f"{text}. Its pods are being replaced.")
        return ConditionBody("True", "Serves", f"{text}, {_MODE_TEXTS[agent.mode]}.")
    return ConditionBody(
        "False",
        "NotRunning",
        f"No pod of the agent is ready. Check `kubectl --namespace {means.namespace} describe"
        f" deployment,pod --selector {wellknown.TARGET}={agent.name}`. {_REMEDY_TEXT}",
    )


def _is_rolled_out(live: Mapping[str, Any]) -> bool:
    """Return whether no pod of an earlier template is left. Pure."""
    metadata, status = live.get("metadata") or {}, live.get("status") or {}
    is_seen = status.get("observedGeneration", 0) >= metadata.get("generation", 0)
    return bool(is_seen and status.get("updatedReplicas", 0) >= status.get("replicas", 0))


async def delete_agent(means: ReconcileContext, name: str) -> None:
    """Delete the agent's objects of a deleted SuperCluster, orphaned ones included."""
    for resource in (DEPLOYMENTS, SECRETS):
        with contextlib.suppress(errors.NotFound):
            title = build_object_name(name)
            found = await means.super_client.get(resource, title, namespace=means.namespace)
            labels = found["metadata"].get("labels") or {}
            if labels.get(wellknown.COMPONENT) == wellknown.TARGET_AGENT:
                await _delete_object(means, resource, found)


async def _get_own_object(
    means: ReconcileContext, resource: Resource, agent: AgentDeployment
) -> Object | None:
    """Return this agent's object. Delete one of an earlier registration.

    Raises _InTheWayError.
    """
    try:
        found = await means.super_client.get(resource, agent.object_name, namespace=agent.namespace)
    except errors.NotFound:
        return None
    metadata = found["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get(wellknown.COMPONENT) != wellknown.TARGET_AGENT:
        raise _NameConflictError(
            f"{resource.kind} {agent.namespace}/{agent.object_name} belongs to another owner."
            " Delete or rename it."
        )
    if labels.get(wellknown.SUPER_CLUSTER) == agent.uid:
        return found
    await _delete_object(means, resource, found)
    raise _NameConflictError(
        f"{resource.kind} {agent.namespace}/{agent.object_name} of an earlier SuperCluster is"
        " being deleted"
    )


async def _delete_object(means: ReconcileContext, resource: Resource, found: Object) -> None:
    metadata = found["metadata"]
    try:
        await means.super_client.delete(
            resource, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
        )
    except errors.NotFound:
        return


def _is_token(text: str) -> bool:
    return _TOKEN_PATTERN.fullmatch(text) is not None


def _parse_time(text: str) -> datetime:
    """Return a time of the API. Raises ValueError, also for a time without a zone."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text!r} has no zone")
    return found
