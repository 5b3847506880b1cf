"""`kubectl vc target join`: an account in the target, and its SuperCluster here.

Owns the order: the account first, the Secret second, the SuperCluster last. Each is written by
server-side apply, so that joining again repairs a partial join. Hazard: the token must be written
from the answer into the Secret only. Anyone who reads it elsewhere has the rights of the account.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import SuperConnection, connect_super_cluster
from kubectl_vc.output import cli_errors, durations, printers
from kubectl_vc.output.cli_errors import CliError, WaitTimeoutError
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.target import doctor, manifests
from kubectl_vc.target.manifests import SYNCER_ACCOUNT, TargetObjects
from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.api.yaml_writer import to_yaml
from kubeio.config import loading, secret_kubeconfig
from kubeio.config.endpoint import Endpoint
from kubeio.http.rest import ClientOptions
from tenancy import conditions, super_clusters, wellknown
from tenancy.resources import (
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SUPER_CLUSTERS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from tenancy.super_clusters import AccessMode, SuperClusterSpec

FIELD_MANAGER = "kubectl-vc"
KUBELETS_FIELD_MANAGER = f"{FIELD_MANAGER}-kubelets"
"""Field manager of the kubelets' authorities. It differs because a manager's apply removes the
fields that it no longer sends."""
CONTEXT_FLAG = "--target-context"
TOKEN_SECONDS = 7 * 24 * 3600
"""Lifetime in seconds of a token that vc-manager renews after half of it. A target stays usable
while vc-manager is away for half of it. A target may shorten it.
"""
NAMESPACE_DELETION_SECONDS = 60.0
"""Time limit in seconds for the removal of an earlier account's namespace."""
_POLL_SECONDS = 0.3
_SYSTEM_NAMESPACE = "kube-system"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinOptions:
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
    """Lifetime in seconds of a token that is not renewed. 0 stands for a token that vc-manager
    renews.
    """
    mode: AccessMode | None = None
    """None keeps the old value."""
    kubelet_authorities: bytes = b""
    """Empty keeps the old value."""


async def run_join(
    access: ConfigFlags,
    terminal: Terminal,
    options: JoinOptions,
    *,
    dry_run: bool,
    seconds: float,
    wait: bool,
) -> None:
    """Join a target, and wait until vc-manager finds it usable. Raises CliProblem."""
    manifests.check_target_name(options.name)
    endpoint = await loading.load_user_kubeconfig(
        options.kubeconfig, options.context, context_flag=CONTEXT_FLAG
    )
    shown = _build_component_endpoint(endpoint, options)
    async with (
        connect_super_cluster(access) as connection,
        Client(
            dataclasses.replace(endpoint, name=shown.server),
            ClientOptions(user_agent=FIELD_MANAGER),
        ) as there,
    ):
        home = await fetch_identity(connection.super_client)
        with attribute_to_target():
            found = await fetch_identity(there)
        if found == home:
            raise CliError(
                "the kubeconfig is of the home cluster, which is the SuperCluster home. Use a"
                " kubeconfig of the target cluster."
            )
        known = await _fetch_existing(connection, options)
        if known is None and (
            other := await find_duplicate(connection.super_client, options.name, found)
        ):
            raise CliError(
                f"the target cluster is already registered as SuperCluster {other}, and a cluster"
                f" has only one name. To renew its account, run `kubectl vc target join {other}`."
                f" To rename it, run `kubectl vc target leave {other}` first."
            )
        plan, options = (
            TargetObjects(home, _choose_mode(known, options)),
            _keep_existing_settings(known, options),
        )
        if dry_run:
            terminal.print_result(_format_plan(plan, options, shown))
            return
        await connection.super_client.apply(  # a refusal here leaves nothing in the target
            SUPER_CLUSTERS,
            _build_super_cluster(plan, options),
            field_manager=FIELD_MANAGER,
            dry_run=True,
        )
        with attribute_to_target():
            token, times = await _create_account(there, plan, options, terminal)
        content = manifests.build_kubeconfig(
            options.name,
            server=shown.server,
            ca=shown.ca,
            token=token,
            tls_server_name=shown.tls_server_name,
        )
        secret = manifests.build_secret(options.name, options.namespace, content, times)
        declared = await _apply_super_cluster(connection, plan, options, secret, terminal)
        if not options.resolvers:
            terminal.print_result(f"note: {doctor.describe_missing_resolver(options.name)}")
        if wait:
            await _wait_until_usable(connection.super_client, declared, terminal, seconds)


async def fetch_identity(client: Client) -> str:
    """Return the UID of a cluster's Namespace kube-system."""
    found = await client.get(NAMESPACES, _SYSTEM_NAMESPACE, metadata_only=True)
    return str(found["metadata"]["uid"])


async def find_duplicate(home_client: Client, name: str, found: str) -> str:
    """Return another SuperCluster than `name` that stands for the cluster with this identity.

    Empty without one. Both would share one account in the target.
    """
    listed = (await home_client.list(SUPER_CLUSTERS))["items"]
    others = {each["metadata"]["name"]: each.get("status") or {} for each in listed}
    others.pop(name, None)
    return min((other for other in others if others[other].get("identity") == found), default="")


@contextlib.contextmanager
def attribute_to_target() -> Iterator[None]:
    """Raise CliProblem that names the target as the source of an error."""
    try:
        yield
    except errors.KubeError as problem:
        said = (
            cli_errors.get_server_message(problem)
            if isinstance(problem, errors.ApiError)
            else cli_errors.describe_server_problem(problem)
        )
        remedy = next(
            (f". {what}" for kind, what in _ERROR_REMEDIES if isinstance(problem, kind)), ""
        )
        raise CliError(f"in the target cluster: {said}{remedy}") from problem


_ERROR_REMEDIES: Sequence[tuple[type[errors.KubeError], str]] = (
    (
        errors.Forbidden,
        "Use a user with rights to write namespaces and cluster roles in the target cluster.",
    ),
    (errors.Untrusted, "Check server and certificate-authority-data of its kubeconfig."),
)
"""Remedies by error. All other errors have a message that is enough by itself."""


def _build_component_endpoint(endpoint: Endpoint, options: JoinOptions) -> Endpoint:
    """Return the endpoint at which the components reach the target.

    Raises CliProblem if invalid.
    """
    server = options.server or endpoint.server
    name = options.tls_server_name or endpoint.tls_server_name
    shown = Endpoint(server=server, ca=endpoint.ca, tls_server_name=name)
    problem = secret_kubeconfig.check_not_local(urlsplit(server).hostname or "")
    if problem:
        raise CliError(
            f"the server {server} of the target cluster {problem}. Set its URL for the components"
            " with --server, for example https://10.0.0.5:6443, or on kind"
            " https://NAME-control-plane:6443."
        )
    secret_kubeconfig.check_server(shown)
    if not endpoint.ca:
        raise CliError(
            "the kubeconfig of the target cluster has no certificate authority. Put it into"
            " certificate-authority-data, because the components trust no other."
        )
    return shown


async def _fetch_existing(connection: SuperConnection, options: JoinOptions) -> Object | None:
    """Return the SuperCluster of an earlier join. Raises CliProblem for one with its own Secret."""
    try:
        found = await connection.super_client.get(SUPER_CLUSTERS, options.name)
    except errors.NotFound as problem:
        if not problem.details.get("name"):
            raise CliError(
                "this cluster has no CustomResourceDefinition of SuperCluster."
                f" {cli_errors.INSTALL_HINT}"
            ) from problem
        return None
    named = (((found.get("spec") or {}).get("secretRef")) or {}).get("name")
    if named != manifests.build_secret_name(options.name):
        raise CliError(
            f"SuperCluster {options.name} exists with its own Secret {named}. Choose another name,"
            f" or run `kubectl vc target leave {options.name}` first."
        )
    return found


def _choose_mode(known: Object | None, options: JoinOptions) -> AccessMode:
    """Return the mode from the flag, otherwise the existing one. Raises CliProblem."""
    spec = ((known or {}).get("spec")) or {}
    mode: AccessMode = options.mode or spec.get("mode") or SuperClusterSpec().mode
    if options.kubelet_authorities and mode != "agent":
        raise CliError(
            f"--kubelet-ca has no effect in mode {mode}, which does not use kubelets. Add --mode"
            " agent."
        )
    return mode


def _keep_existing_settings(known: Object | None, options: JoinOptions) -> JoinOptions:
    """Return the flags, with the existing values where a flag is missing.

    Apply removes every field that is no longer sent. Without its taint, a target with a renewed
    token would let pods in.
    """
    spec = ((known or {}).get("spec")) or {}
    return dataclasses.replace(
        options,
        labels=options.labels or spec.get("labels") or {},
        taints=options.taints or spec.get("taints") or (),
        resolvers=options.resolvers or doctor.get_resolvers(known or {}),
    )


def _format_plan(plan: TargetObjects, options: JoinOptions, shown: Endpoint) -> str:
    """Return the objects that would be written, as YAML, without a token."""
    there = [body for _, body in plan.build_objects()]
    content = manifests.build_kubeconfig(
        options.name,
        server=shown.server,
        ca=shown.ca,
        token="TOKEN",  # noqa: S106 - stands where the token will be
        tls_server_name=shown.tls_server_name,
    )
    secret = manifests.build_secret(options.name, options.namespace, content)
    secret["stringData"] = {manifests.KUBECONFIG_KEY: content.decode()}
    if options.kubelet_authorities:
        authorities = options.kubelet_authorities.decode()
        secret["stringData"][secret_kubeconfig.KUBELET_AUTHORITIES_KEY] = authorities
    del secret["data"]
    here = [secret, _build_super_cluster(plan, options)]
    parts = [("# In the target cluster:\n", there), ("# In the home cluster:\n", here)]
    return "".join(
        head + "".join(f"---\n{to_yaml(body)}" for body in bodies) for head, bodies in parts
    )


def _build_super_cluster(plan: TargetObjects, options: JoinOptions) -> Object:
    return manifests.build_super_cluster(
        options.name,
        mode=plan.mode,
        labels=options.labels,
        taints=options.taints,
        resolvers=options.resolvers,
    )


async def _create_account(
    target_client: Client, plan: TargetObjects, options: JoinOptions, terminal: Terminal
) -> tuple[str, Mapping[str, str]]:
    """Write the account and its rights.

    Returns the account's token, and the annotations by which vc-manager renews it.
    """
    await _wait_for_namespace_deletion(target_client, plan.namespace)
    has_policy, has_rules_role = True, True
    aggregated = plan.build_rules_objects()
    for resource, body in plan.build_objects():
        if not has_rules_role and (resource, body) in aggregated:
            continue  # its binding
        name = printers.format_full_name(resource, body["metadata"]["name"])
        try:
            await target_client.apply(resource, body, field_manager=FIELD_MANAGER)
        except errors.NotFound:
            if resource not in _POLICIES:
                raise
            has_policy = False
            continue
        except errors.Forbidden:
            if (resource, body) not in aggregated:
                raise
            has_rules_role = False
            continue
        terminal.print_result(f"{name} applied in the target cluster")
    if not has_policy:
        terminal.print_warning(
            "The target cluster has no ValidatingAdmissionPolicy, which needs Kubernetes 1.30."
            " So the accounts may write, and open streams, in all its namespaces."
        )
    if not has_rules_role:
        terminal.print_warning(
            f"The target cluster refuses the aggregated ClusterRole {plan.rules_role_name}, so"
            " no object of a SyncRule is synced there. To change that, join again as a user with"
            " the role cluster-admin."
        )
    await _delete_lasting_token(target_client, plan)
    answer = await target_client.create(
        SERVICE_ACCOUNTS,
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": int(options.token_seconds or TOKEN_SECONDS)},
        },
        namespace=plan.namespace,
        name=SYNCER_ACCOUNT,
        subresource="token",
    )
    status = answer["status"]
    if options.token_seconds:
        return str(status["token"]), {}
    return str(status["token"]), _build_times(str(status["expirationTimestamp"]))


_POLICIES = (VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS)


def _build_times(expires: str) -> dict[str, str]:
    """Return the annotations with the end of a token, and with the time of its renewal."""
    now, end = datetime.now(UTC), datetime.fromisoformat(expires)
    return {
        wellknown.EXPIRES: conditions.format_time(end),
        wellknown.TOKEN_RENEW: conditions.format_time(now + (end - now) / 2),
    }


async def _delete_lasting_token(target_client: Client, plan: TargetObjects) -> None:
    """Delete the token without an end that an earlier version created."""
    with contextlib.suppress(errors.NotFound):
        found = await target_client.get(
            SECRETS, manifests.TOKEN_SECRET, namespace=plan.namespace, metadata_only=True
        )
        if plan.is_own_object(found["metadata"]):
            await target_client.delete(
                SECRETS,
                manifests.TOKEN_SECRET,
                namespace=plan.namespace,
                uid=found["metadata"]["uid"],
            )


async def _wait_for_namespace_deletion(target_client: Client, namespace: str) -> None:
    """Wait until a terminating namespace, for example of an earlier leave, is removed."""
    try:
        async with asyncio.timeout(NAMESPACE_DELETION_SECONDS):
            while True:
                found = await target_client.get(NAMESPACES, namespace, metadata_only=True)
                if "deletionTimestamp" not in found["metadata"]:
                    return
                await asyncio.sleep(_POLL_SECONDS)
    except errors.NotFound:
        return
    except TimeoutError:
        raise CliError(
            f"in the target cluster, the namespace {namespace} is still being deleted after"
            f" {durations.format_elapsed(NAMESPACE_DELETION_SECONDS)}. Find out what blocks it,"
            " then join again."
        ) from None


async def _apply_super_cluster(
    connection: SuperConnection,
    plan: TargetObjects,
    options: JoinOptions,
    secret: Object,
    terminal: Terminal,
) -> Object:
    client = connection.super_client
    await client.apply(SECRETS, secret, field_manager=FIELD_MANAGER)
    if options.kubelet_authorities:
        more = manifests.build_kubelet_secret(
            options.name, options.namespace, options.kubelet_authorities
        )
        await client.apply(SECRETS, more, field_manager=KUBELETS_FIELD_MANAGER)
    terminal.print_result(
        f"secret/{secret['metadata']['name']} applied in namespace {options.namespace}"
    )
    declared = await client.apply(
        SUPER_CLUSTERS, _build_super_cluster(plan, options), field_manager=FIELD_MANAGER
    )
    terminal.print_result(f"{printers.format_full_name(SUPER_CLUSTERS, options.name)} applied")
    return declared


async def _wait_until_usable(
    client: Client, declared: Object, terminal: Terminal, seconds: float
) -> None:
    """Wait until vc-manager reports that the cluster is usable. Raises CliProblem."""
    name, found = declared["metadata"]["name"], declared
    limit = seconds or None
    with terminal.create_progress() as progress:
        try:
            async with asyncio.timeout(limit):
                while not _is_usable(found):
                    progress.set_waiting(f"SuperCluster {name}: {_describe_reason(found)}")
                    await asyncio.sleep(_POLL_SECONDS)
                    progress.tick()
                    found = await client.get(SUPER_CLUSTERS, name)
        except TimeoutError:
            terminal.print_result(doctor.build_table(doctor.list_check_results(found)))
            raise WaitTimeoutError(
                f"SuperCluster {name} is not ready after {durations.format_elapsed(seconds)}:"
                f" {_describe_reason(found)}"
            ) from None
        progress.finish_step(f"SuperCluster {name} is ready")


def _is_usable(body: Object) -> bool:
    status = body.get("status") or {}
    is_current = status.get("observedGeneration") == body["metadata"].get("generation")
    return is_current and conditions.is_true(status.get("conditions"), super_clusters.READY)


def _describe_reason(body: Object) -> str:
    found = conditions.find_condition(
        (body.get("status") or {}).get("conditions"), super_clusters.READY
    )
    return str((found or {}).get("message") or "vc-manager has not checked it yet")
