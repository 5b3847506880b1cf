"""`kubectl vc target join`: an account in the target, and its SuperCluster here.

Owns the order: the account first, the Secret second, the SuperCluster last. Each is written by
server-side apply, so that joining again repairs a partial join. Hazard: the token must be written
from the answer into the Secret only. Anyone who reads it elsewhere has the rights of the account.
"""

import asyncio
import base64
import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from kubectl_vc.client.config_flags import Access
from kubectl_vc.client.connection import Connection, connected
from kubectl_vc.output import cli_errors, durations, printers
from kubectl_vc.output.cli_errors import CliProblem
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.target import doctor, manifests
from kubectl_vc.target.manifests import ACCOUNT, TOKEN_SECRET, There
from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.api.yaml_writer import to_yaml
from kubeio.config import loading, secret_kubeconfig
from kubeio.config.endpoint import Endpoint
from tenancy import conditions, super_clusters
from tenancy.resources import NAMESPACES, SECRETS, SERVICE_ACCOUNTS, SUPER_CLUSTERS
from tenancy.super_clusters import Mode, SuperClusterSpec

AGENT = "kubectl-vc"
KUBELETS = f"{AGENT}-kubelets"
"""Field manager of the kubelets' authorities. It differs because a manager's apply removes the
fields that it no longer sends."""
CONTEXT_FLAG = "--target-context"
TOKEN_SECONDS = 30.0
"""Time limit in seconds for the target to write a token into its Secret."""
END_SECONDS = 60.0
"""Time limit in seconds for the removal of an earlier account's namespace."""
_LOOK_SECONDS = 0.3
_SYSTEM = "kube-system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The flags of `join`."""

    name: str
    kubeconfig: str
    context: str
    server: str
    tls_server_name: str
    namespace: str
    """Namespace of the components."""
    labels: Mapping[str, str]
    """Empty keeps the old value, as in the next two fields."""
    taints: Sequence[Mapping[str, str]]
    resolvers: Sequence[str]
    """IP addresses of the resolvers for tenants' pods in the target."""
    token_seconds: float
    """Lifetime of the token in seconds. 0 stands for a token that does not expire."""
    mode: Mode | None = None
    """None keeps the old value."""
    kubelet_authorities: bytes = b""
    """Empty keeps the old value."""


async def run(
    access: Access, terminal: Terminal, wish: Wish, *, dry_run: bool, seconds: float, wait: bool
) -> None:
    """Join a target, and wait until vc-manager finds it usable. Raises CliProblem."""
    manifests.checked_name(wish.name)
    endpoint = await loading.user_kubeconfig(
        wish.kubeconfig, wish.context, context_flag=CONTEXT_FLAG
    )
    shown = _as_seen_from_here(endpoint, wish)
    async with (
        connected(access) as connection,
        Client(dataclasses.replace(endpoint, name=shown.server), user_agent=AGENT) as there,
    ):
        home = await identity(connection.super_client)
        with in_target():
            found = await identity(there)
        if found == home:
            raise CliProblem(
                "that is the cluster of the components themselves, which is the SuperCluster"
                " home; give a kubeconfig of the other cluster"
            )
        known = await _known(connection, wish)
        if known is None and (other := await namesake(connection.super_client, wish.name, found)):
            raise CliProblem(
                f"that cluster is the SuperCluster {other} already, and a cluster has one name; to"
                f" renew its account run `kubectl vc target join {other}`, for another name have it"
                f" leave first (`kubectl vc target leave {other}`)"
            )
        plan, wish = There(home, _mode(known, wish)), _with_what_was(known, wish)
        if dry_run:
            terminal.say(_described(plan, wish, shown))
            return
        await connection.super_client.apply(  # a refusal here leaves nothing in the target
            SUPER_CLUSTERS, _super_cluster(plan, wish), field_manager=AGENT, dry_run=True
        )
        with in_target():
            token = await _make_account(there, plan, wish, terminal)
        content = manifests.kubeconfig(
            wish.name,
            server=shown.server,
            ca=shown.ca,
            token=token,
            tls_server_name=shown.tls_server_name,
        )
        declared = await _declare(connection, plan, wish, content, terminal)
        if not wish.resolvers:
            terminal.say(f"note: {doctor.no_resolver(wish.name)}")
        if wait:
            await _usable(connection.super_client, declared, terminal, seconds)


async def identity(client: Client) -> str:
    """Return the UID of a cluster's Namespace kube-system."""
    found = await client.get(NAMESPACES, _SYSTEM, metadata_only=True)
    return str(found["metadata"]["uid"])


async def namesake(here: Client, name: str, found: str) -> str:
    """Return another SuperCluster than `name` that stands for the cluster with this identity.

    Empty without one. Both would share one account in the target.
    """
    listed = (await here.list(SUPER_CLUSTERS))["items"]
    others = {each["metadata"]["name"]: each.get("status") or {} for each in listed}
    others.pop(name, None)
    return min((other for other in others if others[other].get("identity") == found), default="")


@contextlib.contextmanager
def in_target() -> Iterator[None]:
    """Raise CliProblem that names the target as the source of an error."""
    try:
        yield
    except errors.KubeError as problem:
        said = cli_errors.said(problem) if isinstance(problem, errors.ApiError) else str(problem)
        remedy = next((f"; {what}" for kind, what in _REMEDIES if isinstance(problem, kind)), "")
        raise CliProblem(f"in the other cluster: {said}{remedy}") from problem


_REMEDIES: Sequence[tuple[type[errors.KubeError], str]] = (
    (
        errors.Forbidden,
        "joining and leaving need somebody who may write namespaces and cluster roles there",
    ),
    (errors.Untrusted, "check server and certificate-authority-data of its kubeconfig"),
)
"""Remedies by error. All other errors have a message that is enough by itself."""


def _as_seen_from_here(endpoint: Endpoint, wish: Wish) -> Endpoint:
    """Return the endpoint at which the components reach the target.

    Raises CliProblem if invalid.
    """
    server = wish.server or endpoint.server
    name = wish.tls_server_name or endpoint.tls_server_name
    shown = Endpoint(server=server, ca=endpoint.ca, tls_server_name=name)
    problem = secret_kubeconfig.local_problem(urlsplit(server).hostname or "")
    if problem:
        raise CliProblem(
            f"the other cluster's server {server} {problem}; say where the components reach it with"
            " --server, for example https://10.0.0.5:6443, or on kind"
            " https://NAME-control-plane:6443"
        )
    secret_kubeconfig.check_server(shown)
    if not endpoint.ca:
        raise CliProblem(
            "the other cluster's kubeconfig names no certificate authority; put it into"
            " certificate-authority-data, as the components trust nothing else"
        )
    return shown


async def _known(connection: Connection, wish: Wish) -> Object | None:
    """Return the SuperCluster of an earlier join. Raises CliProblem for one with its own Secret."""
    try:
        found = await connection.super_client.get(SUPER_CLUSTERS, wish.name)
    except errors.NotFound as problem:
        if not problem.details.get("name"):
            raise CliProblem(
                f"this cluster has no SuperClusters; {cli_errors.INSTALL}"
            ) from problem
        return None
    named = (((found.get("spec") or {}).get("secretRef")) or {}).get("name")
    if named != manifests.secret_name(wish.name):
        raise CliProblem(
            f"there is a SuperCluster {wish.name} with a Secret of its own, {named}; choose another"
            f" name, or run `kubectl vc target leave {wish.name}` first"
        )
    return found


def _mode(known: Object | None, wish: Wish) -> Mode:
    """Return the mode from the flag, otherwise the existing one. Raises CliProblem."""
    spec = ((known or {}).get("spec")) or {}
    mode: Mode = wish.mode or spec.get("mode") or SuperClusterSpec().mode
    if wish.kubelet_authorities and mode != "agent":
        raise CliProblem(
            f"--kubelet-ca is of no use in mode {mode}, where no kubelet is asked; add --mode agent"
        )
    return mode


def _with_what_was(known: Object | None, wish: Wish) -> Wish:
    """Return the flags, with the existing values where a flag is missing.

    Apply removes every field that is no longer sent. Without its taint, a target with a renewed
    token would let pods in.
    """
    spec = ((known or {}).get("spec")) or {}
    return dataclasses.replace(
        wish,
        labels=wish.labels or spec.get("labels") or {},
        taints=wish.taints or spec.get("taints") or (),
        resolvers=wish.resolvers or doctor.resolvers(known or {}),
    )


def _described(plan: There, wish: Wish, shown: Endpoint) -> str:
    """Return the objects that would be written, as YAML, without a token."""
    there = [body for _, body in plan.objects(lasting=not wish.token_seconds)]
    content = manifests.kubeconfig(
        wish.name,
        server=shown.server,
        ca=shown.ca,
        token="TOKEN",  # noqa: S106 - stands where the token will be
        tls_server_name=shown.tls_server_name,
    )
    secret = manifests.secret(wish.name, wish.namespace, content)
    secret["stringData"] = {manifests.KEY: content.decode()}
    if wish.kubelet_authorities:
        authorities = wish.kubelet_authorities.decode()
        secret["stringData"][secret_kubeconfig.KUBELET_AUTHORITIES] = authorities
    del secret["data"]
    here = [secret, _super_cluster(plan, wish)]
    parts = [("# In the other cluster:\n", there), ("# In this cluster:\n", here)]
    return "".join(
        head + "".join(f"---\n{to_yaml(body)}" for body in bodies) for head, bodies in parts
    )


def _super_cluster(plan: There, wish: Wish) -> Object:
    return manifests.super_cluster(
        wish.name,
        mode=plan.mode,
        labels=wish.labels,
        taints=wish.taints,
        resolvers=wish.resolvers,
    )


async def _make_account(there: Client, plan: There, wish: Wish, terminal: Terminal) -> str:
    """Write the account and its rights. Returns the account's token."""
    await _wait_for_the_last_end(there, plan.namespace)
    for resource, body in plan.objects(lasting=not wish.token_seconds):
        await there.apply(resource, body, field_manager=AGENT)
        name = printers.full_name(resource, body["metadata"]["name"])
        terminal.say(f"{name} applied in the other cluster")
    if not wish.token_seconds:
        return await _lasting_token(there, plan.namespace)
    answer = await there.create(
        SERVICE_ACCOUNTS,
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": int(wish.token_seconds)},
        },
        namespace=plan.namespace,
        name=ACCOUNT,
        subresource="token",
    )
    return str(answer["status"]["token"])


async def _wait_for_the_last_end(there: Client, namespace: str) -> None:
    """Wait until a terminating namespace, for example of an earlier leave, is removed."""
    try:
        async with asyncio.timeout(END_SECONDS):
            while True:
                found = await there.get(NAMESPACES, namespace, metadata_only=True)
                if "deletionTimestamp" not in found["metadata"]:
                    return
                await asyncio.sleep(_LOOK_SECONDS)
    except errors.NotFound:
        return
    except TimeoutError:
        raise CliProblem(
            f"in the other cluster the namespace {namespace} is still being removed after"
            f" {durations.elapsed(END_SECONDS)}; see what holds it, and join again"
        ) from None


async def _lasting_token(there: Client, namespace: str) -> str:
    try:
        async with asyncio.timeout(TOKEN_SECONDS):
            while True:
                secret = await there.get(SECRETS, TOKEN_SECRET, namespace=namespace)
                token = (secret.get("data") or {}).get("token")
                if token:
                    return base64.b64decode(token).decode()
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        raise CliProblem(
            f"the other cluster wrote no token into the Secret {namespace}/{TOKEN_SECRET} within"
            f" {durations.elapsed(TOKEN_SECONDS)}; see whether its controller manager runs, or use"
            " --expires"
        ) from None


async def _declare(
    connection: Connection, plan: There, wish: Wish, content: bytes, terminal: Terminal
) -> Object:
    client = connection.super_client
    secret = manifests.secret(wish.name, wish.namespace, content)
    await client.apply(SECRETS, secret, field_manager=AGENT)
    if wish.kubelet_authorities:
        more = manifests.kubelet_secret(wish.name, wish.namespace, wish.kubelet_authorities)
        await client.apply(SECRETS, more, field_manager=KUBELETS)
    terminal.say(f"secret/{secret['metadata']['name']} applied in namespace {wish.namespace}")
    declared = await client.apply(SUPER_CLUSTERS, _super_cluster(plan, wish), field_manager=AGENT)
    terminal.say(f"{printers.full_name(SUPER_CLUSTERS, wish.name)} applied")
    return declared


async def _usable(client: Client, declared: Object, terminal: Terminal, seconds: float) -> None:
    """Wait until vc-manager reports that the cluster is usable. Raises CliProblem."""
    name, found = declared["metadata"]["name"], declared
    limit = seconds or None
    with terminal.progress() as progress:
        try:
            async with asyncio.timeout(limit):
                while not _is_usable(found):
                    progress.waiting(f"SuperCluster {name}: {_why(found)}")
                    await asyncio.sleep(_LOOK_SECONDS)
                    progress.tick()
                    found = await client.get(SUPER_CLUSTERS, name)
        except TimeoutError:
            terminal.say(doctor.table(doctor.findings(found)))
            raise CliProblem(
                f"SuperCluster {name} is not usable after {durations.elapsed(seconds)}:"
                f" {_why(found)}"
            ) from None
        progress.done(f"SuperCluster {name} is usable")


def _is_usable(body: Object) -> bool:
    status = body.get("status") or {}
    is_current = status.get("observedGeneration") == body["metadata"].get("generation")
    return is_current and conditions.is_true(status.get("conditions"), super_clusters.READY)


def _why(body: Object) -> str:
    found = conditions.find((body.get("status") or {}).get("conditions"), super_clusters.READY)
    return str((found or {}).get("message") or "vc-manager has not looked at it yet")
