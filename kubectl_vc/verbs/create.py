"""`kubectl vc create`: from a manifest or a name to a ready tenant with its kubeconfig.

Owns the order: every refusal comes before anything is created. Hazard: the API server must decide
each time. The state can change between the check and the creation.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubectl_vc.client import waiting
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import SuperConnection, connect_super_cluster
from kubectl_vc.output import cli_errors, files, printers
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.verbs import create_manifests, default_versions, kubeconfig, kubeconfig_readers
from kubeio import Object, errors
from tenancy.resources import CLUSTER_VERSIONS, VIRTUAL_CLUSTERS

_MANAGER = "kubectl-vc"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOptions:
    """The flags of `create` besides the object itself."""

    kubeconfig: Path | None
    force: bool
    wait: bool
    timeout_seconds: float
    dry_run: str = "none"
    """none, client or server."""


async def run_create(
    access: ConfigFlags,
    terminal: Terminal,
    manifest: create_manifests.CreateManifest,
    wishes: CreateOptions,
) -> None:
    """Create a VirtualCluster, wait until it is ready, and write its kubeconfig."""
    if wishes.kubeconfig is not None:
        files.check_writable(wishes.kubeconfig, force=wishes.force)
    async with connect_super_cluster(access) as connection:
        wanted = create_manifests.with_namespace(
            manifest.virtual_cluster, connection.namespace, is_explicit=connection.is_explicit
        )
        wanted = await _with_cluster_version(connection, terminal, wanted)
        if wishes.dry_run == "client":
            _print_created(terminal, (manifest.cluster_version, wanted), " (dry run)")
            return
        if wishes.kubeconfig is not None:
            wanted = await _with_reader(connection, wanted)
        makes_version = await _check_request(connection, manifest, wanted)
        given = manifest.cluster_version if makes_version else None
        if wishes.dry_run == "server":
            _print_created(terminal, (given, wanted), " (server dry run)")
            return
        made = await _create_both(connection, given, wanted)
        _print_created(terminal, (given, wanted))
        if wishes.wait:
            try:
                await _wait_and_write_kubeconfig(connection, terminal, made, wishes)
            except asyncio.CancelledError:  # Ctrl-C
                metadata = made["metadata"]
                terminal.print_warning(
                    f"Fetch the kubeconfig with `kubectl vc kubeconfig {metadata['name']}"
                    f" -n {metadata['namespace']} -o FILE` when the VirtualCluster is ready."
                )
                raise


async def _with_cluster_version(
    connection: SuperConnection, terminal: Terminal, wanted: Object
) -> Object:
    """Return the VirtualCluster with the default ClusterVersion if it names none."""
    spec = wanted["spec"]
    if spec.get("clusterVersionName"):
        return wanted
    found = await connection.super_client.list(CLUSTER_VERSIONS)
    name = default_versions.choose_cluster_version(found.get("items") or [])
    terminal.print_warning(f"ClusterVersion {name} is used, because none was named.")
    return {**wanted, "spec": {**spec, "clusterVersionName": name}}


def _print_created(
    terminal: Terminal, bodies: Iterable[Mapping[str, Any] | None], suffix: str = ""
) -> None:
    for body in bodies:
        if body is not None:
            terminal.print_result(f"{_describe_created(body)}{suffix}")


async def _with_reader(connection: SuperConnection, wanted: Object) -> Object:
    """Return the VirtualCluster with the user as a reader, unless the user may read all of them."""
    if await kubeconfig.may_fetch_kubeconfig(connection):
        return wanted
    user = await kubeconfig_readers.fetch_user_name(connection)
    if not user:
        raise CliError(
            "the API server does not report your user name, so the kubeconfig could not be"
            " fetched. Nothing was created. Leave -o out, and run `kubectl vc kubeconfig` when"
            " the VirtualCluster is ready."
        )
    spec = wanted["spec"]
    readers = kubeconfig_readers.with_reader(spec.get("kubeconfigReaders"), user)
    return {**wanted, "spec": {**spec, "kubeconfigReaders": readers}}


async def _wait_and_write_kubeconfig(
    connection: SuperConnection, terminal: Terminal, made: Object, wishes: CreateOptions
) -> None:
    metadata = made["metadata"]
    shown = cli_errors.describe_object(VIRTUAL_CLUSTERS, metadata["name"], metadata["namespace"])
    with terminal.create_progress() as progress:
        ready = await waiting.wait_ready(
            connection.super_client, made, seconds=wishes.timeout_seconds, progress=progress
        )
        if wishes.kubeconfig is not None:
            content = await kubeconfig.fetch_kubeconfig(connection, ready)
            files.write_private(wishes.kubeconfig, content, force=wishes.force)
        progress.finish_step(f"{shown} setup successfully")
    if wishes.kubeconfig is not None:
        terminal.print_result(
            f"use it with: kubectl --kubeconfig {wishes.kubeconfig} get namespaces"
        )


async def _check_request(
    connection: SuperConnection,
    manifest: create_manifests.CreateManifest,
    wanted: Mapping[str, Any],
) -> bool:
    """Raise CliProblem if the creation cannot work. Return whether a ClusterVersion is missing.

    If it is, the ClusterVersion of the manifest must be created.
    """
    name = wanted["spec"]["clusterVersionName"]
    there = await _fetch_cluster_version(connection, name)
    given = manifest.cluster_version
    if there is None and given is None:
        raise CliError(await _describe_unknown_version(connection, name))
    if there is not None and given is not None and there.get("spec") != given["spec"]:
        raise CliError(
            f"{cli_errors.describe_object(CLUSTER_VERSIONS, name)} exists already and differs from"
            " the one in the file. Other tenants may use it. Rename yours, or change it with"
            " kubectl apply -f."
        )
    makes_version = there is None
    if makes_version and given is not None:
        await _create_object(connection, given, dry_run=True)
    await _create_object(connection, wanted, dry_run=True)
    return makes_version


async def _fetch_cluster_version(connection: SuperConnection, name: str) -> Object | None:
    try:
        return await connection.super_client.get(CLUSTER_VERSIONS, name)
    except errors.NotFound as problem:
        if not problem.details.get("name"):
            raise  # the CustomResourceDefinition is missing
        return None


async def _describe_unknown_version(connection: SuperConnection, name: str) -> str:
    found = await connection.super_client.list(CLUSTER_VERSIONS)
    known = sorted(item["metadata"]["name"] for item in found.get("items") or [])
    choice = (
        f"Choose one of {', '.join(known)}." if known else "There is none yet. Apply one first."
    )
    return f"spec.clusterVersionName: ClusterVersion {name} was not found. {choice}"


async def _create_both(
    connection: SuperConnection, version: Mapping[str, Any] | None, wanted: Mapping[str, Any]
) -> Object:
    """Create the ClusterVersion, if given, and the VirtualCluster. Without the latter, neither.

    After an unavailable API server the ClusterVersion stays, because the VirtualCluster may exist.
    """
    if version is None:
        return await _create_object(connection, wanted, dry_run=False)
    made = await _create_object(connection, version, dry_run=False)
    try:
        return await _create_object(connection, wanted, dry_run=False)
    except (CliError, errors.ApiError) as problem:
        # Without an answer, or after a failure of the server, the tenant may exist.
        if not isinstance(problem, errors.Unavailable):
            with contextlib.suppress(errors.KubeError):  # the first error is the one to report
                await connection.super_client.delete(
                    CLUSTER_VERSIONS, made["metadata"]["name"], uid=made["metadata"]["uid"]
                )
        raise


async def _create_object(
    connection: SuperConnection, body: Mapping[str, Any], *, dry_run: bool
) -> Object:
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
        hint = f", or get its kubeconfig with `kubectl vc kubeconfig {name} -n {namespace}`."
        raise CliError(
            f"{cli_errors.get_server_message(problem)}"
            + ("" if is_version else f" in the namespace {namespace}")
            + ". Choose another name"
            + ("." if is_version else hint)
        ) from problem


def _describe_created(body: Mapping[str, Any]) -> str:
    is_version = body["kind"] == CLUSTER_VERSIONS.kind
    resource = CLUSTER_VERSIONS if is_version else VIRTUAL_CLUSTERS
    return f"{printers.format_full_name(resource, body['metadata']['name'])} created"
