"""`kubectl vc list`, and `get` without a name: the existing VirtualClusters.

Owns the columns. Must not know how to print a table.
"""

import asyncio
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kubectl_vc.client import kubectl_process, lookup
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import connect_super_cluster
from kubectl_vc.output import durations, printers
from kubectl_vc.output.cli_errors import CliError, get_server_message
from kubectl_vc.output.object_formats import DEFAULT_FORMAT, ObjectFormat
from kubectl_vc.output.printers import OutputFormat
from kubectl_vc.output.terminal import Terminal
from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import conditions, wellknown
from tenancy.resources import VIRTUAL_CLUSTERS

_WATCH_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """The flags of `list`."""

    name: str = ""
    """Name of the only VirtualCluster to show. Empty: all."""
    everywhere: bool = False
    selector: str = ""
    output: ObjectFormat = DEFAULT_FORMAT
    watch: bool = False


async def run_list(access: ConfigFlags, terminal: Terminal, options: ListOptions) -> None:
    """Print the VirtualClusters of one namespace, or of all. With `watch`, print each change.

    kubectl prints formats with a template. Raises CliError if it fails.
    """
    async with connect_super_cluster(access) as connection:
        namespace = "" if options.everywhere else connection.namespace
        if options.name:
            await lookup.fetch_virtual_cluster(connection, options.name)
        if options.output.template:
            words = [*kubectl_process.build_command(access, connection.context)]
            words += build_kubectl_words(namespace, options)
            _print_by_kubectl(terminal, words)
            return
        try:
            found = await connection.super_client.list(
                VIRTUAL_CLUSTERS,
                namespace=namespace,
                label_selector=options.selector,
                field_selector=f"metadata.name={options.name}" if options.name else "",
            )
        except errors.BadRequest as problem:
            if not options.selector:
                raise
            raise CliError(
                f'the label selector "{options.selector}" is invalid:'
                f" {get_server_message(problem)}. Write it like tier=gold,zone!=a."
            ) from problem
        _print_items(terminal, found.get("items") or [], namespace, options)
        if options.watch:
            await _follow(connection.super_client, terminal, found, namespace, options)


def _print_by_kubectl(terminal: Terminal, words: Sequence[str]) -> None:
    done = subprocess.run(words, check=False, stderr=subprocess.PIPE, text=True, errors="replace")
    if done.returncode < 0:
        raise SystemExit(128 - done.returncode)
    if done.returncode:
        raise CliError(describe_kubectl_failure(done.stderr))
    if done.stderr:
        terminal.print_warning(done.stderr.rstrip())


def describe_kubectl_failure(text: str) -> str:
    """Return the first line of kubectl's message, without its own prefixes. Pure.

    Further lines have the whole object, which may be long.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = lines[0] if lines else "kubectl failed without a message"
    for prefix in ("error: ", "Error: "):
        first = first.removeprefix(prefix)
    return f"kubectl cannot print it: {first}"


def build_kubectl_words(namespace: str, options: ListOptions) -> list[str]:
    """Return the words of kubectl after its connection flags. Pure."""
    words = ["get", f"{VIRTUAL_CLUSTERS.plural}.{VIRTUAL_CLUSTERS.group}"]
    words += [options.name] if options.name else []
    words.append(f"--namespace={namespace}" if namespace else "--all-namespaces")
    words += [f"--selector={options.selector}"] if options.selector else []
    words += ["--watch"] if options.watch else []
    return [*words, f"--output={options.output.template}"]


def _print_items(
    terminal: Terminal, found: Sequence[Object], namespace: str, options: ListOptions
) -> None:
    items = [_add_kind(item) for item in found]
    form, everywhere = options.output.form, options.everywhere
    if form in (OutputFormat.JSON, OutputFormat.YAML):
        for each in items if options.watch else [printers.build_list(items)]:
            terminal.print_result(printers.format_document(each, form))
    elif form is OutputFormat.NAME:
        terminal.print_result("".join(f"{_format_name(each)}\n" for each in items))
    elif items:
        terminal.print_result(
            build_table(items, now=datetime.now(UTC), everywhere=everywhere, form=form)
        )
    elif not options.watch:
        where = "" if everywhere else f" in {namespace} namespace"
        terminal.print_warning(f"No VirtualClusters found{where}.")


async def _follow(
    super_client: Client, terminal: Terminal, found: Object, namespace: str, options: ListOptions
) -> None:
    """Print each change after a list, until the command is interrupted."""
    version = str(found["metadata"]["resourceVersion"])
    field_selector = f"metadata.name={options.name}" if options.name else ""
    while True:
        try:
            async with super_client.watch(
                VIRTUAL_CLUSTERS,
                namespace=namespace,
                label_selector=options.selector,
                field_selector=field_selector,
                resource_version=version,
            ) as changes:
                async for change in changes:
                    body = change.decode()
                    version = str(body["metadata"]["resourceVersion"])
                    if change.type != "BOOKMARK":
                        _print_change(terminal, _add_kind(body), options)
        except (errors.Unavailable, errors.TooManyRequests):
            pass
        except errors.Gone:
            version = ""
        await asyncio.sleep(_WATCH_RETRY_SECONDS)


def _print_change(terminal: Terminal, body: Object, options: ListOptions) -> None:
    form = options.output.form
    if form in (OutputFormat.JSON, OutputFormat.YAML):
        separator = "---\n" if form is OutputFormat.YAML else ""
        terminal.print_result(separator + printers.format_document(body, form))
    elif form is OutputFormat.NAME:
        terminal.print_result(_format_name(body))
    else:
        heads = _list_heads(everywhere=options.everywhere, form=form)
        row = _build_row(body, datetime.now(UTC))
        terminal.print_result(printers.format_row(row[head] for head in heads))


def _add_kind(item: Object) -> Object:
    """Return an item of a list with its kind. Printed alone it would lack it."""
    return {"apiVersion": VIRTUAL_CLUSTERS.api_version, "kind": VIRTUAL_CLUSTERS.kind, **item}


def _format_name(item: Mapping[str, Any]) -> str:
    return printers.format_full_name(VIRTUAL_CLUSTERS, item["metadata"]["name"])


def build_table(
    items: Sequence[Mapping[str, Any]], *, now: datetime, everywhere: bool, form: OutputFormat
) -> str:
    """Return the table of VirtualClusters."""
    heads = _list_heads(everywhere=everywhere, form=form)
    rows = [_build_row(item, now) for item in items]
    return printers.format_table(heads, [[row[head] for head in heads] for row in rows])


def _list_heads(*, everywhere: bool, form: OutputFormat) -> list[str]:
    heads = ["name", "phase", "ready", "synced", "policy", "version", "endpoint"]
    if form is OutputFormat.WIDE:
        heads += ["cluster-version", "root-namespace", "message"]
    return [*(["namespace"] if everywhere else []), *heads, "age"]


def _build_row(item: Mapping[str, Any], now: datetime) -> dict[str, str]:
    metadata, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    ready = conditions.find_condition(status.get("conditions"), wellknown.READY) or {}
    synced = conditions.find_condition(status.get("conditions"), wellknown.SYNCED) or {}
    deleting = "deletionTimestamp" in metadata
    return {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "phase": "Terminating" if deleting else str(status.get("phase") or "Pending"),
        "ready": str(ready.get("status") or "Unknown"),
        "synced": str(synced.get("status") or "Unknown"),
        "policy": str((spec.get("policyRef") or {}).get("name") or wellknown.DEFAULT_POLICY_NAME),
        "version": str(status.get("version") or ""),
        "endpoint": str(status.get("endpoint") or ""),
        "cluster-version": str(spec.get("clusterVersionName") or ""),
        "root-namespace": str(status.get("clusterNamespace") or ""),
        "message": " ".join(str(ready.get("message") or "").split()),
        "age": durations.format_age(str(metadata.get("creationTimestamp") or ""), now),
    }
