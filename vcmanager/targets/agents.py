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
from tenancy.resources import DEPLOYMENTS, SECRETS, SERVICE_ACCOUNTS, Resource
from tenancy.super_clusters import Mode, accounts_namespace
from vcmanager.runtime.context import Means
from vcmanager.runtime.object_metadata import digest, is_current
from vcmanager.targets import probe, required_permissions
from vcmanager.targets.agent_objects import Post, Servers, deployment, secret, title_of
from vcmanager.targets.clients import AgentLook
from vcmanager.targets.super_cluster_conditions import Said

ACCOUNT = wellknown.AGENT
"""ServiceAccount in the target. `kubectl vc target join` creates it."""
TOKEN_SECONDS = 24 * 3600
"""Token lifetime in seconds. Logs must work through half a day without vc-manager (ADR 0022)."""
LOOK_SECONDS = 300.0
"""Seconds between checks of the token's rights. The next constant: while some are missing."""
UNWELL_LOOK_SECONDS = 30.0
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{1,16384}=*")
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_REMEDY = "until then calls for logs and streams of pods there are refused"
_WAYS: Mapping[Mode, str] = {
    "apiserver": "through its API server (mode apiserver)",
    "agent": "straight from its kubelets (mode agent)",
}

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
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
    mode: Mode = "apiserver"
    kubelet_authorities: bytes = b""
    """Authorities of kubelets from the SuperCluster's Secret. Empty: the API server's."""

    @property
    def servers(self) -> Servers | None:
        """Return the servers that the agent calls, or None without a usable credential."""
        if self.endpoint is None:
            return None
        kubelets = self.kubelet_authorities or self.endpoint.ca
        return Servers(self.endpoint, kubelets if self.mode == "agent" else b"")


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """The agent's token."""

    text: str
    ends: datetime
    renewal: datetime


class NotMadeError(Exception):
    """No new token was made. Has the condition that reports it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.said = Said("False", reason, message)


class _InTheWayError(Exception):
    """An object of another owner has the agent's name. The message has what to do."""


async def keep(means: Means, ground: Ground) -> Said:
    """Apply the agent's objects. Return AgentReady. Raises Unavailable and Fenced."""
    pods = means.agent_pods
    if pods is None:
        text = (
            "vc-manager was not told how agents of targets run; set AGENT_PODS, as the chart does"
        )
        return Said("False", "NotConfigured", text)
    post = Post(name=ground.name, uid=ground.uid, namespace=means.namespace, mode=ground.mode)
    try:
        live = await _own(means, SECRETS, post)
        token, trouble = await _credential(means, post, ground, live)
        wanted = deployment(post, pods, ground.servers, has_credential=token is not None)
        found = await _own(means, DEPLOYMENTS, post)
        if not is_current(wanted, found):
            found = await means.super_client.apply(
                DEPLOYMENTS, wanted, field_manager=wellknown.MANAGER
            )
            _log.info("target.agent_applied", target=ground.name)
    except _InTheWayError as problem:
        return Said("False", "NameTaken", str(problem))
    except errors.ApiError as problem:
        text = f"the agent could not be made in this cluster: {problem}; {_REMEDY}"
        return Said("False", "NotMade", text)
    try:
        lack = await _lacks(means, ground, token)
    except errors.Unauthorized:
        return await _refused(means, post, ground)
    return trouble or lack or _state(means, post, found or {})


async def _refused(means: Means, post: Post, ground: Ground) -> Said:
    """Delete a token that the cluster refuses: the account was recreated, or revoked."""
    live = await _own(means, SECRETS, post)
    if live is not None:
        await _delete(means, SECRETS, live)
        _log.info("target.agent_credential_taken", target=ground.name)
    text = (
        "the cluster does not know the agent's token any more; another one is made at the next look"
    )
    return Said("False", "NotAccepted", text)


def judge_token(live: Mapping[str, Any] | None, servers: Servers, now: datetime) -> Token | None:
    """Return the valid token in a Secret for these servers, or None. Pure."""
    if live is None:
        return None
    said = live["metadata"].get("annotations") or {}
    try:
        data = live.get("data") or {}
        text = base64.b64decode(data[servers.token_key], validate=True).decode("ascii")
        ends, renewal = _moment(said[wellknown.EXPIRES]), _moment(said[wellknown.TOKEN_RENEW])
    except (KeyError, TypeError, ValueError, binascii.Error):
        return None
    return Token(text, ends, renewal) if now < ends and _is_token(text) else None


def token_of(answer: Mapping[str, Any], now: datetime) -> Token:
    """Return the token of a TokenRequest. Raises NotMadeError if it is invalid. Pure."""
    status = answer.get("status") or {}
    text, ends = status.get("token"), None
    with contextlib.suppress(ValueError):
        ends = _moment(str(status.get("expirationTimestamp")))
    if not isinstance(text, str) or not _is_token(text) or ends is None or ends <= now:
        what = "the cluster answers a request for a token with something else"
        raise NotMadeError("TokenNotMade", f"{what}; {_REMEDY}")
    left = min(ends - now, timedelta(seconds=TOKEN_SECONDS))
    return Token(text, ends, now + left / 2)


async def _credential(
    means: Means, post: Post, ground: Ground, live: Object | None
) -> tuple[Token | None, Said | None]:
    """Return the final token in the Secret, and its fault."""
    token, trouble = await _renewed(means, post, ground, live)
    if token is None and live is not None:
        await _delete(means, SECRETS, live)  # otherwise another server would receive it
        _log.info("target.agent_credential_taken", target=ground.name)
    return token, trouble


async def _renewed(
    means: Means, post: Post, ground: Ground, live: Object | None
) -> tuple[Token | None, Said | None]:
    servers = ground.servers
    if servers is None:
        text = f"there is no credential for the cluster, see the condition Reachable; {_REMEDY}"
        return None, Said("False", "NoCredential", text)
    unknown = _unknown(servers)
    if unknown is not None:
        return None, unknown
    held = judge_token(live, servers, means.now())
    if ground.client is None:
        return held, Said("Unknown", "NotReached", "not known while the cluster is not reached")
    if held is not None and means.now() < held.renewal:
        return held, None
    try:
        made = await _mint(ground.client, ground, means.now())
    except NotMadeError as problem:
        return held, _not_renewed(problem.said, held)
    await _write(means, post, servers, made)
    return made, None


def _unknown(servers: Servers) -> Said | None:
    """Return a condition if no authority verifies the servers that get the token. Pure."""
    if not servers.api.ca.strip():
        text = (
            "the Secret names no authority, and the agent trusts nothing else; put it into"
            f" certificate-authority-data; {_REMEDY}"
        )
        return Said("False", "NoAuthority", text)
    if servers.kubelets and (what := secret_kubeconfig.authorities_problem(servers.kubelets)):
        text = (
            f"what vouches for kubelets ({secret_kubeconfig.KUBELET_AUTHORITIES} in the Secret, or"
            f" else the API server's authority) {what}; correct it; {_REMEDY}"
        )
        return Said("False", "NoKubeletAuthority", text)
    return None


def _not_renewed(said: Said, held: Token | None) -> Said:
    if held is None:
        return said
    return said._replace(message=f"{said.message} (what there is ends on {held.ends:{_TIME}})")


async def _write(means: Means, post: Post, servers: Servers, made: Token) -> None:
    wanted = secret(post, servers, made.text)
    wanted["metadata"]["annotations"] = {
        wellknown.EXPIRES: made.ends.strftime(_TIME),
        wellknown.TOKEN_RENEW: made.renewal.strftime(_TIME),
    }
    await means.super_client.apply(SECRETS, wanted, field_manager=wellknown.MANAGER)
    _log.info("target.agent_token_made", target=post.name, ends=f"{made.ends:{_TIME}}")


async def _mint(client: Client, ground: Ground, now: datetime) -> Token:
    namespace = accounts_namespace(ground.home)
    account = f"the ServiceAccount {namespace}/{ACCOUNT} there"
    join = f"run `kubectl vc target join {ground.name}` again"
    try:
        answer = await client.create(
            SERVICE_ACCOUNTS,
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": TOKEN_SECONDS},
            },
            namespace=namespace,
            name=ACCOUNT,
            subresource="token",
        )
        return token_of(answer, now)
    except errors.NotFound:
        text = f"{account} is missing, for which the agent's token is made; {join}; {_REMEDY}"
        raise NotMadeError("NoAccount", text) from None
    except errors.Forbidden:
        text = (
            f"the account may not make tokens for {account} (serviceaccounts/token: create);"
            f" {join}, or grant it; {_REMEDY}"
        )
        raise NotMadeError("MissingRights", text) from None
    except errors.Fenced:
        raise
    except (errors.KubeError, AttributeError, TypeError) as problem:
        text = f"the cluster makes no token for {account}: {problem}"
        raise NotMadeError("TokenNotMade", text) from problem


async def _lacks(means: Means, ground: Ground, token: Token | None) -> Said | None:
    """Return a condition if the agent's account lacks rights, or None."""
    servers = ground.servers
    if token is None or servers is None:
        return None
    known: AgentLook | None = means.targets.agents.get(ground.name)
    now = means.now()
    head = digest([token.text, servers.place])
    if known is None or known.head != head or known.until <= now:
        given = Endpoint(
            server=servers.api.server,
            name=servers.api.name,
            ca=servers.api.ca,
            tls_server_name=servers.api.tls_server_name,
            strict=servers.api.strict,
            token=token.text,
        )
        try:
            async with means.targets.opened(given) as client:
                wanted = required_permissions.needed_by_agent(ground.mode)
                found = tuple(await probe.lacking(client, wanted))
        except (errors.Fenced, errors.Unauthorized):
            raise
        except (errors.KubeError, AttributeError, TypeError, ValueError) as problem:
            text = f"the cluster does not take the agent's token: {problem}; {_REMEDY}"
            return Said("False", "NotAccepted", text)
        seconds = UNWELL_LOOK_SECONDS if found else LOOK_SECONDS
        known = AgentLook(head, now + timedelta(seconds=seconds), found)
        means.targets.agents[ground.name] = known
    if not known.lacking:
        return None
    return Said(
        "False",
        "MissingRights",
        f"the agent's account may not do all that mode {ground.mode} needs; it lacks"
        f" {required_permissions.sentence(known.lacking)} (in all namespaces). Run"
        f" `kubectl vc target join {ground.name}` again, or grant it",
    )


def _state(means: Means, post: Post, live: Mapping[str, Any]) -> Said:
    """Return AgentReady from the Deployment's status. Pure."""
    if ((live.get("status") or {}).get("readyReplicas") or 0) > 0:
        text = "the agent serves logs, exec, attach and port-forward of tenants' pods there"
        way = _WAYS[post.mode] if _is_rolled_out(live) else "and its pods are being made anew"
        return Said("True", "Serves", f"{text}, {way}")
    return Said(
        "False",
        "NotRunning",
        f"no pod of the agent is ready; see `kubectl --namespace {means.namespace} describe"
        f" deployment,pod --selector {wellknown.TARGET}={post.name}`; {_REMEDY}",
    )


def _is_rolled_out(live: Mapping[str, Any]) -> bool:
    """Return whether no pod of an earlier template is left. Pure."""
    metadata, status = live.get("metadata") or {}, live.get("status") or {}
    is_seen = status.get("observedGeneration", 0) >= metadata.get("generation", 0)
    return bool(is_seen and status.get("updatedReplicas", 0) >= status.get("replicas", 0))


async def forget(means: Means, name: str) -> None:
    """Delete the agent's objects of a deleted SuperCluster, orphaned ones included."""
    for resource in (DEPLOYMENTS, SECRETS):
        with contextlib.suppress(errors.NotFound):
            title = title_of(name)
            found = await means.super_client.get(resource, title, namespace=means.namespace)
            labels = found["metadata"].get("labels") or {}
            if labels.get(wellknown.COMPONENT) == wellknown.TARGET_AGENT:
                await _delete(means, resource, found)


async def _own(means: Means, resource: Resource, post: Post) -> Object | None:
    """Return this agent's object. Delete one of an earlier registration.

    Raises _InTheWayError.
    """
    try:
        found = await means.super_client.get(resource, post.title, namespace=post.namespace)
    except errors.NotFound:
        return None
    metadata = found["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get(wellknown.COMPONENT) != wellknown.TARGET_AGENT:
        raise _InTheWayError(
            f"{resource.kind} {post.namespace}/{post.title} is somebody else's; delete or rename it"
        )
    if labels.get(wellknown.SUPER_CLUSTER) == post.uid:
        return found
    await _delete(means, resource, found)
    raise _InTheWayError(
        f"{resource.kind} {post.namespace}/{post.title} of an earlier SuperCluster is being removed"
    )


async def _delete(means: Means, resource: Resource, found: Object) -> None:
    metadata = found["metadata"]
    try:
        await means.super_client.delete(
            resource, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
        )
    except errors.NotFound:
        return


def _is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def _moment(text: str) -> datetime:
    """Return a time of the API. Raises ValueError, also for a time without a zone."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text!r} has no zone")
    return found
