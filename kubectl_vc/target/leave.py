"""`kubectl vc target leave`: removal of a SuperCluster, and of its account in the target.

Hazard: a target that a VirtualCluster names must not leave. Otherwise no component would manage the
tenant's pods in it. Only objects of a join are removed, found by their labels and deleted with
their UID.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from kubectl_vc.client.config_flags import Access
from kubectl_vc.client.connection import connected
from kubectl_vc.output import printers
from kubectl_vc.output.cli_errors import CliProblem
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.target import drain, join, manifests
from kubectl_vc.target.drain import Left
from kubectl_vc.target.manifests import MANAGED_BY, There
from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.config import loading
from tenancy.resources import SECRETS, SUPER_CLUSTERS, Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The flags of `leave`."""

    name: str
    kubeconfig: str
    context: str
    namespace: str
    """Namespace of the components."""
    drains: bool = False
    """Whether the target is first withdrawn from all tenants."""
    seconds: float = 0.0
    """Time limit in seconds for the withdrawal. 0 stands for no limit."""


async def run(
    access: Access, terminal: Terminal, wish: Wish, *, ignore_not_found: bool, dry_run: bool
) -> None:
    """Remove the SuperCluster, its Secret and the account."""
    manifests.checked_name(wish.name, home="it cannot leave")
    done = "would be deleted" if dry_run else "deleted"
    async with connected(access) as connection:
        here = connection.super_client
        try:
            body = await here.get(SUPER_CLUSTERS, wish.name)
        except errors.NotFound as problem:
            if ignore_not_found:
                return
            raise CliProblem(
                f"there is no SuperCluster {wish.name}; see `kubectl vc target list`"
            ) from problem
        if wish.drains:
            await drain.run(here, terminal, wish.name, seconds=wish.seconds, dry_run=dry_run)
        if not (wish.drains and dry_run):
            _refuse_while_named(wish.name, await drain.fetch(here, wish.name))
        plan = There(await join.identity(here))
        await _delete(here, SUPER_CLUSTERS, body, dry_run=dry_run)
        terminal.say(f"{printers.full_name(SUPER_CLUSTERS, wish.name)} {done}")
        secret = await _secret(here, wish)
        if secret is not None:
            await _delete(here, SECRETS, secret, dry_run=dry_run)
            terminal.say(f"secret/{secret['metadata']['name']} {done}")
        if wish.kubeconfig or wish.context:
            endpoint = await loading.user_kubeconfig(
                wish.kubeconfig, wish.context, context_flag=join.CONTEXT_FLAG
            )
            async with Client(endpoint, user_agent=join.AGENT) as there:
                with join.in_target():
                    found = await join.identity(there)
                other = await join.namesake(here, wish.name, found)
                if other:
                    terminal.warn(_shared(other))
                    return
                with join.in_target():
                    await _clear(there, plan, terminal, dry_run=dry_run)
            return
        said = str((body.get("status") or {}).get("identity") or "")
        other = await join.namesake(here, wish.name, said) if said else ""
    if other:
        terminal.warn(_shared(other))
        return
    terminal.warn(
        "The account in the other cluster is still there. Run there: kubectl delete"
        f" clusterrolebinding,clusterrole {plan.role} {plan.agent_role} --ignore-not-found &&"
        f" kubectl delete namespace {plan.namespace} --ignore-not-found"
    )


def _shared(other: str) -> str:
    return (
        f"The account in the other cluster stays: that cluster is the SuperCluster {other}, too,"
        " which uses it."
    )


def _refuse_while_named(name: str, left: Sequence[Left]) -> None:
    """Raise CliProblem while a VirtualCluster may have something in a target."""
    if left:
        raise CliProblem(
            f"{drain.sentence(left)} may run pods in {name}; take it out of spec.targets of these"
            " VirtualClusters first and wait until it is gone from their status, or have both done"
            f" by `kubectl vc target leave {name} --drain`"
        )


async def _secret(here: Client, wish: Wish) -> Object | None:
    """Return the Secret of a join. None without one, or for a Secret written by hand."""
    try:
        found = await here.get(
            SECRETS, manifests.secret_name(wish.name), namespace=wish.namespace, metadata_only=True
        )
    except errors.NotFound:
        return None
    labels = found["metadata"].get("labels") or {}
    return found if MANAGED_BY.items() <= labels.items() else None


async def _clear(there: Client, plan: There, terminal: Terminal, *, dry_run: bool) -> None:
    """Delete the objects of a join in the target, the rights before the account."""
    made = [each for each in plan.objects(lasting=False) if not each[0].namespaced]
    for resource, body in reversed(made):
        name = body["metadata"]["name"]
        try:
            found = await there.get(resource, name, metadata_only=True)
        except errors.NotFound:
            continue
        if not plan.is_ours(found["metadata"]):
            terminal.warn(f"{printers.full_name(resource, name)} is somebody else's, and stays.")
            continue
        await _delete(there, resource, found, dry_run=dry_run)
        done = "would be deleted" if dry_run else "deleted"
        terminal.say(f"{printers.full_name(resource, name)} {done} in the other cluster")


async def _delete(client: Client, resource: Resource, found: Object, *, dry_run: bool) -> None:
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
