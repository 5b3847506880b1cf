"""`kubectl vc upgrade`: change of a tenant's ClusterVersion.

Owns the checks before the write and the report. Hazard: the write names the resourceVersion that
the checks have read. Otherwise another change in between would be upgraded without a check.
"""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from clusterversions import catalog, version_skew
from kubectl_vc.client import lookup, waiting
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import SuperConnection, connect_super_cluster
from kubectl_vc.output import cli_errors, printers
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.upgrade import comparison, deprecated_apis
from kubectl_vc.upgrade.comparison import FlagChange, VersionDifference
from kubectl_vc.verbs.kubeconfig_readers import ADMIN_KUBECONFIG
from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.config import loading
from kubeio.http.rest import DEFAULT_DEADLINE_SECONDS, ClientOptions
from tenancy import specs
from tenancy.resources import CLUSTER_VERSIONS, SECRETS, VIRTUAL_CLUSTERS
from tenancy.specs import ClusterVersionSpec, InvalidSpecError


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeOptions:
    """Options of the command line."""

    cluster_version: str
    dry_run: bool
    wait: bool
    timeout_seconds: float


async def run_upgrade(
    access: ConfigFlags, terminal: Terminal, *, name: str, options: UpgradeOptions
) -> None:
    """Check, explain and make an upgrade. Raises CliError for a refused one."""
    async with connect_super_cluster(access) as connection:
        body = await lookup.fetch_virtual_cluster(connection, name)
        shown = printers.format_full_name(VIRTUAL_CLUSTERS, name)
        before_name = str((body.get("spec") or {}).get("clusterVersionName") or "")
        after_name = options.cluster_version
        if before_name == after_name:
            terminal.print_result(f"{shown} uses the ClusterVersion {after_name} already")
            return
        after = await _fetch_version(connection, after_name)
        try:
            before = await _fetch_version(connection, before_name)
        except CliError:
            before = None  # it was deleted by force, and the new one is the repair
        check_upgrade(body, after_name, before, after)
        difference = _compare(before, after)
        for line in describe_difference(before_name, after_name, difference):
            terminal.print_result(line)
        servers = comparison.count_api_servers(before) if before is not None else 1
        for line in await _describe_used_apis(access, connection, body, after, servers=servers):
            terminal.print_result(line)
        if options.dry_run:
            terminal.print_result(f"{shown} not changed (dry run)")
            return
        body = await _write(connection, body, after_name)
        if body["spec"].get("sleep") is not None:
            terminal.print_result(f"{shown} is asleep, and is upgraded when it wakes")
            return
        if options.wait:
            with terminal.create_progress() as progress:
                await waiting.wait_up_to_date(
                    connection.super_client,
                    body,
                    seconds=options.timeout_seconds,
                    progress=progress,
                )
    terminal.print_result(f"{shown} {'upgraded' if options.wait else 'is being upgraded'}")


def check_upgrade(
    body: Mapping[str, Any],
    after_name: str,
    before: ClusterVersionSpec | None,
    after: ClusterVersionSpec,
) -> None:
    """Raise CliError for an upgrade that vc-manager would refuse."""
    shown = f"ClusterVersion {after_name}"
    running = str((body.get("status") or {}).get("version") or "")
    problem = version_skew.find_skew_problem(running, after.kubernetes_version)
    if problem is not None:
        raise CliError(f"{shown}: {problem} Nothing was changed.")
    if before is None or not after.is_bundled:
        return  # vc-manager changes the members of the short form (docs/adr/0039)
    live, planned = comparison.count_etcd_members(before), comparison.count_etcd_members(after)
    if live != planned:
        raise CliError(
            f"{shown} asks for {planned} etcd members, but this tenant has {live}. The number"
            " cannot change, because that would split its etcd. Use a ClusterVersion with"
            f" {live}, or create a new VirtualCluster for {planned}. Nothing was changed."
        )


def describe_difference(
    before_name: str, after_name: str, difference: VersionDifference
) -> Iterator[str]:
    """Yield the lines about a change."""
    yield f"ClusterVersion: {before_name} -> {after_name}"
    yield f"Restarts, in this order: {', '.join(difference.restarts) or 'nothing'}"
    for image in difference.images:
        yield f"  {image.component}: {image.before} -> {image.after}"
    yield f"Changed flags:{'' if difference.flags else ' none'}"
    for flag in difference.flags:
        yield f"  {flag.component}: {_describe_flag(flag)}"
    if difference.fields:
        yield f"Other changed fields: {', '.join(difference.fields)}"


def _describe_flag(change: FlagChange) -> str:
    if change.before is None:
        return f"--{change.flag}={change.after} is added"
    if change.after is None:
        return f"--{change.flag}={change.before} is removed"
    return f"--{change.flag}: {change.before} -> {change.after}"


def _compare(before: ClusterVersionSpec | None, after: ClusterVersionSpec) -> VersionDifference:
    if before is None:
        return VersionDifference(restarts=comparison.ORDER)
    try:
        return comparison.compare_versions(before, after)
    except catalog.UnknownMinorError as problem:
        raise CliError(f"{problem}. Use the kubectl vc of your chart's version.") from problem


async def _describe_used_apis(
    access: ConfigFlags,
    connection: SuperConnection,
    body: Object,
    after: ClusterVersionSpec,
    *,
    servers: int,
) -> list[str]:
    """Return the lines about removed API versions. A failed read stops nothing."""
    if not after.kubernetes_version:
        return ["Removed API versions in use: not checked, because bundles name no version"]
    root = specs.parse_virtual_cluster(body).tenant.root
    try:
        secret = await connection.super_client.get(SECRETS, ADMIN_KUBECONFIG, namespace=root)
        content = base64.b64decode((secret.get("data") or {}).get(ADMIN_KUBECONFIG) or "")
        deadline = access.request_timeout_seconds or DEFAULT_DEADLINE_SECONDS
        client_options = ClientOptions(user_agent="kubectl-vc", deadline=deadline)
        endpoint = loading.load_tenant_kubeconfig(content)
        report = await deprecated_apis.fetch_usage(
            lambda: Client(endpoint, client_options), after.kubernetes_version, servers=servers
        )
    except errors.KubeError as problem:
        reason = cli_errors.describe_error(problem).removesuffix(".")
        return [f"Removed API versions in use: not checked. {reason}"]
    return deprecated_apis.describe_usage(report)


async def _fetch_version(connection: SuperConnection, name: str) -> ClusterVersionSpec:
    shown = cli_errors.describe_object(CLUSTER_VERSIONS, name)
    try:
        return specs.parse_cluster_version(
            await connection.super_client.get(CLUSTER_VERSIONS, name)
        )
    except errors.NotFound as problem:
        raise CliError(f"{shown} was not found. List all with `kubectl get cv`.") from problem
    except InvalidSpecError as problem:
        raise CliError(f"{problem}.") from problem


async def _write(connection: SuperConnection, body: Object, version: str) -> Object:
    metadata = body["metadata"]
    patch = {
        "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
        "spec": {"clusterVersionName": version},
    }
    try:
        return await connection.super_client.patch(
            VIRTUAL_CLUSTERS,
            metadata["name"],
            patch,
            namespace=metadata["namespace"],
            field_manager="kubectl-vc",
        )
    except errors.Conflict as problem:
        shown = cli_errors.describe_object(
            VIRTUAL_CLUSTERS, metadata["name"], metadata["namespace"]
        )
        raise CliError(
            f"{shown} was changed meanwhile, so nothing was written. Run the command again."
        ) from problem
