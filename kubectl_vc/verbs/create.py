"""`kubectl vc create`: from a manifest or a name to a ready tenant with its kubeconfig.

Owns the order: every refusal comes before anything is created. Hazard: the API server must decide
each time. The state can change between the check and the creation.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubectl_vc.client import waiting
from kubectl_vc.client.config_flags import Access
from kubectl_vc.client.connection import Connection, connected
from kubectl_vc.output import cli_errors, files, printers
from kubectl_vc.output.cli_errors import CliProblem
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.verbs import create_manifests, kubeconfig
from kubeio import Object, errors
from tenancy.resources import CLUSTER_VERSIONS, VIRTUAL_CLUSTERS

_MANAGER = "kubectl-vc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The flags of `create` besides the object itself."""

    kubeconfig: Path | None
    force: bool
    wait: bool
    seconds: float


async def run(
    access: Access, terminal: Terminal, manifest: create_manifests.Manifest, wishes: Wishes
) -> None:
    """Create a VirtualCluster, wait until it is ready, and write its kubeconfig."""
    if wishes.kubeconfig is not None:
        files.refuse_unwritable(wishes.kubeconfig, force=wishes.force)
    async with connected(access) as connection:
        wanted = create_manifests.placed(
            manifest.virtual_cluster, connection.namespace, is_explicit=connection.is_explicit
        )
        makes_version = await _check(connection, manifest, wanted)
        if wishes.kubeconfig is not None and not await kubeconfig.may_fetch(connection):
            raise CliProblem(
                f"you may not get the Secret {kubeconfig.SECRET} in the namespace of a new tenant,"
                " so the kubeconfig could not be fetched; nothing was created: leave -o out, and"
                " ask an administrator of the super cluster for the file when the VirtualCluster"
                f" is ready, or for the ClusterRole {kubeconfig.ROLE} in the whole cluster, which"
                " reads the kubeconfigs of all tenants"
            )
        given = manifest.cluster_version if makes_version else None
        made = await _make_both(connection, given, wanted)
        for body in (given, wanted):
            if body is not None:
                terminal.say(_made(body))
        if wishes.wait:
            await _finish(connection, terminal, made, wishes)


async def _finish(connection: Connection, terminal: Terminal, made: Object, wishes: Wishes) -> None:
    metadata = made["metadata"]
    shown = cli_errors.described(VIRTUAL_CLUSTERS, metadata["name"], metadata["namespace"])
    with terminal.progress() as progress:
        ready = await waiting.ready(
            connection.super_client, made, seconds=wishes.seconds, progress=progress
        )
        if wishes.kubeconfig is not None:
            content = await kubeconfig.fetch(connection, ready)
            files.write_private(wishes.kubeconfig, content, force=wishes.force)
        progress.done(f"{shown} setup successfully")
    if wishes.kubeconfig is not None:
        terminal.say(f"use it with: kubectl --kubeconfig {wishes.kubeconfig} get namespaces")


async def _check(
    connection: Connection, manifest: create_manifests.Manifest, wanted: Mapping[str, Any]
) -> bool:
    """Raise CliProblem if the creation cannot work. Return whether a ClusterVersion is missing.

    If it is, the ClusterVersion of the manifest must be created.
    """
    name = wanted["spec"]["clusterVersionName"]
    there = await _version(connection, name)
    given = manifest.cluster_version
    if there is None and given is None:
        raise CliProblem(await _unknown_version(connection, name))
    if there is not None and given is not None and there.get("spec") != given["spec"]:
        raise CliProblem(
            f"{cli_errors.described(CLUSTER_VERSIONS, name)} exists already and is another one than"
            " in the file; other tenants may use it, so rename yours, or change it with kubectl"
            " apply -f"
        )
    makes_version = there is None
    if makes_version and given is not None:
        await _make(connection, given, dry_run=True)
    await _make(connection, wanted, dry_run=True)
    return makes_version


async def _version(connection: Connection, name: str) -> Object | None:
    try:
        return await connection.super_client.get(CLUSTER_VERSIONS, name)
    except errors.NotFound as problem:
        if not problem.details.get("name"):
            raise  # the CustomResourceDefinition is missing
        return None


async def _unknown_version(connection: Connection, name: str) -> str:
    found = await connection.super_client.list(CLUSTER_VERSIONS)
    known = sorted(item["metadata"]["name"] for item in found.get("items") or [])
    choice = (
        f"choose one of {', '.join(known)}" if known else "there is none yet, so apply one first"
    )
    return f"spec.clusterVersionName: there is no ClusterVersion {name}; {choice}"


async def _make_both(
    connection: Connection, version: Mapping[str, Any] | None, wanted: Mapping[str, Any]
) -> Object:
    """Create the ClusterVersion, if given, and the VirtualCluster. Without the latter, neither.

    After an unavailable API server the ClusterVersion stays, because the VirtualCluster may exist.
    """
    if version is None:
        return await _make(connection, wanted, dry_run=False)
    made = await _make(connection, version, dry_run=False)
    try:
        return await _make(connection, wanted, dry_run=False)
    except (CliProblem, errors.ApiError) as problem:
        # Without an answer, or after a failure of the server, the tenant may exist.
        if not isinstance(problem, errors.Unavailable):
            with contextlib.suppress(errors.KubeError):  # the first error is the one to report
                await connection.super_client.delete(
                    CLUSTER_VERSIONS, made["metadata"]["name"], uid=made["metadata"]["uid"]
                )
        raise


async def _make(connection: Connection, body: Mapping[str, Any], *, dry_run: bool) -> Object:
    is_version = body["kind"] == CLUSTER_VERSIONS.kind
    resource = CLUSTER_VERSIONS if is_version else VIRTUAL_CLUSTERS
    name, namespace = body["metadata"]["name"], body["metadata"].get("namespace", "")
    try:
        return await connection.super_client.create(
            resource,
            body,
            namespace="" if is_version else namespace,
            field_manager=_MANAGER,
            validation="Strict",
            dry_run=dry_run,
        )
    except errors.AlreadyExists as problem:
        hint = f", or get its kubeconfig with `kubectl vc kubeconfig {name} -n {namespace}`"
        raise CliProblem(
            f"{cli_errors.described(resource, name, namespace)} exists already; choose another name"
            + ("" if is_version else hint)
        ) from problem


def _made(body: Mapping[str, Any]) -> str:
    is_version = body["kind"] == CLUSTER_VERSIONS.kind
    resource = CLUSTER_VERSIONS if is_version else VIRTUAL_CLUSTERS
    return f"{printers.full_name(resource, body['metadata']['name'])} created"
