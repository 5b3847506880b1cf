"""`kubectl vc target leave`: removal of a SuperCluster, and of its account in the target.

Hazard: a target that a VirtualCluster names must not leave. Otherwise no component would manage the
tenant's pods in it. Only objects of a join are removed, found by their labels and deleted with
their UID.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import connect_super_cluster
from kubectl_vc.output import printers
from kubectl_vc.output.cli_errors import CliError, NotFoundError
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.target import drain, join, manifests
from kubectl_vc.target.drain import RemainingObjects
from kubectl_vc.target.manifests import MANAGED_BY, TargetObjects
from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.config import loading
from kubeio.http.rest import ClientOptions
from tenancy.resources import SECRETS, SUPER_CLUSTERS, Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveOptions:
    """The flags of `leave`."""

    name: str
    kubeconfig: str
    context: str
    namespace: str
    """Namespace of the components."""
    drains: bool = False
    """Whether the target is first withdrawn from all tenants."""
    drain_timeout_seconds: float = 0.0
    """Time limit in seconds for the withdrawal. 0 stands for no limit."""


async def run_leave(
    access: ConfigFlags,
    terminal: Terminal,
    options: LeaveOptions,
    *,
    ignore_not_found: bool,
    dry_run: bool,
) -> None:
    """Remove the SuperCluster, its Secret and the account."""
    manifests.check_target_name(options.name, home="It cannot leave.")
    done = "would be deleted" if dry_run else "deleted"
    async with connect_super_cluster(access) as connection:
        here = connection.super_client
        try:
            body = await here.get(SUPER_CLUSTERS, options.name)
        except errors.NotFound as problem:
            if ignore_not_found:
                return
            raise NotFoundError(
                f"SuperCluster {options.name} was not found. List all with `kubectl vc target"
                " list`."
            ) from problem
        if options.drains:
            await drain.run_drain(
                here, terminal, options.name, seconds=options.drain_timeout_seconds, dry_run=dry_run
            )
        if not (options.drains and dry_run):
            _check_not_in_use(options.name, await drain.fetch_remaining(here, options.name))
        plan = TargetObjects(await join.fetch_identity(here))
        await _delete_object(here, SUPER_CLUSTERS, body, dry_run=dry_run)
        terminal.print_result(f"{printers.format_full_name(SUPER_CLUSTERS, options.name)} {done}")
        secret = await _fetch_joined_secret(here, options)
        if secret is not None:
            await _delete_object(here, SECRETS, secret, dry_run=dry_run)
            terminal.print_result(f"secret/{secret['metadata']['name']} {done}")
        if options.kubeconfig or options.context:
            endpoint = await loading.load_user_kubeconfig(
                options.kubeconfig, options.context, context_flag=join.CONTEXT_FLAG
            )
            async with Client(endpoint, ClientOptions(user_agent=join.FIELD_MANAGER)) as there:
                with join.attribute_to_target():
                    found = await join.fetch_identity(there)
                other = await join.find_duplicate(here, options.name, found)
                if other:
                    terminal.print_warning(_describe_shared(other))
                    return
                with join.attribute_to_target():
                    await _delete_account(there, plan, terminal, dry_run=dry_run)
            return
        said = str((body.get("status") or {}).get("identity") or "")
        other = await join.find_duplicate(here, options.name, said) if said else ""
    if other:
        terminal.print_warning(_describe_shared(other))
        return
    terminal.print_warning(
        "The account in the target cluster still exists. Run there: kubectl delete"
        f" clusterrolebinding,clusterrole {plan.role_name} {plan.agent_role_name}"
        f" {plan.rules_role_name} {plan.namespace_role_name} --ignore-not-found && kubectl delete"
        f" validatingadmissionpolicybinding,validatingadmissionpolicy {plan.policy_name}"
        f" {plan.agent_policy_name} --ignore-not-found && kubectl delete namespace"
        f" {plan.namespace} --ignore-not-found"
    )


def _describe_shared(other: str) -> str:
    return (
        f"The account in the target cluster stays, because the SuperCluster {other} of the same"
        " cluster uses it."
    )


def _check_not_in_use(name: str, left: Sequence[RemainingObjects]) -> None:
    """Raise CliProblem while a VirtualCluster may have something in a target."""
    if left:
        raise CliError(
            f"{drain.format_remaining(left)} may run pods in {name}. Remove it from spec.targets"
            " of these VirtualClusters first, and wait until it is removed from their status."
            f" `kubectl vc target leave {name} --drain` does both."
        )


async def _fetch_joined_secret(home_client: Client, options: LeaveOptions) -> Object | None:
    """Return the Secret of a join. None without one, or for a Secret written by hand."""
    try:
        found = await home_client.get(
            SECRETS,
            manifests.build_secret_name(options.name),
            namespace=options.namespace,
            metadata_only=True,
        )
    except errors.NotFound:
        return None
    labels = found["metadata"].get("labels") or {}
    return found if MANAGED_BY.items() <= labels.items() else None


async def _delete_account(
    target_client: Client, plan: TargetObjects, terminal: Terminal, *, dry_run: bool
) -> None:
    """Delete the objects of a join in the target, the rights before the account."""
    made = [each for each in plan.build_objects() if not each[0].namespaced]
    for resource, body in reversed(made):
        name = body["metadata"]["name"]
        try:
            found = await target_client.get(resource, name, metadata_only=True)
        except errors.NotFound:
            continue
        if not plan.is_own_object(found["metadata"]):
            terminal.print_warning(
                f"{printers.format_full_name(resource, name)} was not created by `kubectl vc"
                " target join`, and stays."
            )
            continue
        await _delete_object(target_client, resource, found, dry_run=dry_run)
        done = "would be deleted" if dry_run else "deleted"
        terminal.print_result(
            f"{printers.format_full_name(resource, name)} {done} in the target cluster"
        )


async def _delete_object(
    client: Client, resource: Resource, found: Object, *, dry_run: bool
) -> None:
    if dry_run:
        return
    metadata = found["metadata"]
    with contextlib.suppress(errors.NotFound):
        await client.delete(
            resource,
            metadata["name"],
            namespace=metadata.get("namespace", ""),
            uid=metadata["uid"],
        )
