"""`kubectl vc connect`, `disconnect` and `exec`: a tenant's context for a shell or one command.

Owns the order: the route is verified before the user's kubeconfig is changed. Hazard: a command
must get a kubeconfig of its own. Otherwise it would change the context of every other shell.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from kubectl_vc.client import kubectl_process, lookup
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import SuperConnection, connect_super_cluster
from kubectl_vc.connect import (
    child_command,
    contexts,
    kubeconfig_file,
    route,
)
from kubectl_vc.connect.contexts import ConnectionRecord
from kubectl_vc.connect.route import TenantRoute
from kubectl_vc.output import cli_errors, files
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.verbs.kubeconfig import fetch_kubeconfig
from kubeio import Object
from kubeio.api.yaml_writer import to_yaml
from kubeio.config import loading
from kubeio.config.endpoint import Endpoint
from tenancy import specs
from tenancy.resources import VIRTUAL_CLUSTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions:
    """The flags of `connect`."""

    forward: str
    """auto, always or never."""
    local_port: int = 0
    command: tuple[str, ...] = ()


async def run_connect(
    access: ConfigFlags, terminal: Terminal, *, name: str, options: ConnectOptions
) -> None:
    """Add the tenant's context to the kubeconfig, or run a command in it.

    Raises SystemExit with the exit code of the command.
    """
    if options.command:
        await _run_command(access, name, options)
        return
    path = kubeconfig_file.choose_path(access.kubeconfig).absolute()
    async with connect_super_cluster(access) as connection:
        if not connection.context:
            raise CliError(
                "there is no kubeconfig with a context of the super cluster. In a pod, run"
                f" `kubectl vc connect {name} -- COMMAND`."
            )
        body = await lookup.fetch_virtual_cluster(connection, name)
        namespace = body["metadata"]["namespace"]
        context = contexts.build_context_name(namespace, name, connection.context)
        found = await _find_route(connection, access, body, path, options)
    current = loading.get_current_context(access.kubeconfig)

    def add(document: contexts.Document) -> contexts.Document:
        record = ConnectionRecord(
            previousContext=current if current != context else "",
            superContext=connection.context,
            namespace=namespace,
            name=name,
            forwarder=found.forwarder,
        )
        return contexts.add_connection(document, context, found.access, record)

    try:
        kubeconfig_file.change(path, add)
    finally:
        found.finish()
    shown = cli_errors.describe_object(VIRTUAL_CLUSTERS, name, namespace)
    way = " through a forwarder" if found.forwarder else ""
    terminal.print_result(f'Switched to context "{context}" of {shown}{way}.')
    terminal.print_warning("Use `kubectl vc disconnect` to return to the previous context.")


async def run_disconnect(access: ConfigFlags, terminal: Terminal, *, name: str) -> None:
    """Remove the context of a tenant, and restore the previous one. Needs no server.

    Without a name, it is the current context.
    """
    for path in kubeconfig_file.list_paths(access.kubeconfig):
        document = kubeconfig_file.read_document(path)
        context = (
            contexts.find_connection(document, access.namespace, name)
            if name
            else str(document.get("current-context") or "")
        )
        if context and contexts.read_record(document, context) is not None:
            break
        if context and not name:  # a later file does not decide about the current context
            raise CliError(_describe_unconnected(context))
    else:
        if name:
            raise CliError(
                f"there is no connection to a VirtualCluster {name}. List the contexts with"
                " `kubectl config get-contexts`."
            )
        raise CliError(_describe_unconnected(""))
    known = loading.list_contexts(access.kubeconfig)
    kubeconfig_file.change(
        path, lambda document: contexts.remove_connection(document, context, known)
    )
    terminal.print_result(f'Removed context "{context}".')
    current = loading.get_current_context(access.kubeconfig)
    if current:
        terminal.print_result(f'The current context is "{current}".')
    else:
        terminal.print_warning(
            "No context is current. Choose one with `kubectl config use-context`."
        )


async def _run_command(access: ConfigFlags, name: str, options: ConnectOptions) -> None:
    with tempfile.TemporaryDirectory(prefix="kubectl-vc-") as folder:  # with mode 0700
        path = Path(folder) / "config"
        async with connect_super_cluster(access) as connection:
            body = await lookup.fetch_virtual_cluster(connection, name)
            found = await _find_route(connection, access, body, path, options)
            record = ConnectionRecord(
                superContext=connection.context,
                namespace=body["metadata"]["namespace"],
                name=name,
                forwarder=found.forwarder,
            )
        context = contexts.build_context_name(record.namespace, name, "")
        document = contexts.add_connection({}, context, found.access, record)
        try:
            files.write_private(path, to_yaml(document).encode(), force=True)
        finally:
            found.finish()
        code = child_command.run_command(options.command, kubectl_process.build_environment(path))
    if code:
        raise SystemExit(code)


async def _find_route(
    connection: SuperConnection,
    access: ConfigFlags,
    body: Object,
    path: Path,
    options: ConnectOptions,
) -> TenantRoute:
    """Return a verified route to the tenant's API server. Raises CliError without one."""
    content = await fetch_kubeconfig(connection, body)
    tenant = specs.parse_virtual_cluster(body).tenant
    found = contexts.parse_tenant_access(content)
    endpoint = loading.load_tenant_kubeconfig(content)
    shown = cli_errors.describe_object(VIRTUAL_CLUSTERS, tenant.name, tenant.namespace)
    if options.forward != "always":
        problem = await route.is_tenant_server(endpoint, seconds=route.DIRECT_SECONDS)
        if not problem:
            return TenantRoute(access=found)
        if options.forward == "never":
            raise CliError(
                f"the API server of {shown} cannot be reached: {problem}. Use `kubectl vc connect"
                f" {tenant.name} -n {tenant.namespace}`, which forwards a port."
            )
    command = kubectl_process.build_command(access, connection.context)
    forwarded = await route.start_forwarder(command, tenant.root, path, found, options.local_port)
    changed = _build_endpoint(forwarded, content)
    problem = await route.is_tenant_server(changed, seconds=route.FORWARD_SECONDS)
    if problem:
        forwarded.finish()
        raise CliError(
            f"the API server of {shown} cannot be reached through the super cluster: {problem}."
            f" Check it with `kubectl vc get {tenant.name} -n {tenant.namespace}`."
        )
    return forwarded


def _build_endpoint(forwarded: TenantRoute, content: bytes) -> Endpoint:
    cluster = forwarded.access.cluster
    return loading.load_secret_kubeconfig(
        content, server=cluster["server"], tls_server_name=cluster["tls-server-name"]
    )


def _describe_unconnected(context: str) -> str:
    now = (
        f'the current context "{context}" was not added by `kubectl vc connect`'
        if context
        else ("no context is current")
    )
    return (
        f"{now}. Name the VirtualCluster, or list the contexts with `kubectl config get-contexts`."
    )
