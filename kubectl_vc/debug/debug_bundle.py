"""`kubectl vc debug collect`: an archive of objects, logs and checks without secrets.

Owns what is collected and the names in the archive. Must not read a Secret. Hazard: each object and
each text must pass through `redaction` on its way into the archive. `BundleWriter` is the only
writer for this reason.
"""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kubectl_vc.client import lookup
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import SuperConnection, connect_super_cluster
from kubectl_vc.client.permissive_reader import PermissiveReader
from kubectl_vc.debug import redaction
from kubectl_vc.installation import doctor
from kubectl_vc.output import files
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.verbs import version
from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.api.yaml_writer import to_yaml
from tenancy import specs
from tenancy.resources import (
    CLUSTER_VERSIONS,
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    INGRESS_CLASSES,
    LEASES,
    NETWORK_POLICIES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SERVICE_CIDRS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    SUPER_CLUSTERS,
    TENANT_POLICIES,
    VIRTUAL_CLUSTER_SNAPSHOTS,
    VIRTUAL_CLUSTERS,
    Resource,
)

_FOLDER = "vc-debug"
LOG_LINES = 2000
MAX_LOG_BYTES = 1 << 20
MAX_PODS = 50
"""Maximum number of pods of a namespace whose logs are collected."""

CLUSTER_KINDS: tuple[Resource, ...] = (
    *(CLUSTER_VERSIONS, TENANT_POLICIES, SUPER_CLUSTERS, NODES),
    *(STORAGE_CLASSES, INGRESS_CLASSES, SERVICE_CIDRS),
)
COMPONENT_KINDS: tuple[Resource, ...] = (
    *(DEPLOYMENTS, DAEMON_SETS, PODS, SERVICES, LEASES, CONFIG_MAPS, EVENTS, NETWORK_POLICIES),
)
ROOT_KINDS: tuple[Resource, ...] = (
    *(STATEFUL_SETS, DEPLOYMENTS, PODS, SERVICES, CONFIG_MAPS, EVENTS),
    *(PERSISTENT_VOLUME_CLAIMS, NETWORK_POLICIES),
)
"""Kinds of each part. Secret is in none of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleOptions:
    """The flags of `debug collect`."""

    output: Path
    force: bool
    manager_namespace: str


class BundleWriter:
    """Collects redacted files, and packs them into an archive."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    @property
    def count(self) -> int:
        """Return the number of files."""
        return len(self._files)

    def add_text(self, name: str, text: str) -> None:
        """Add a text without secrets."""
        self._files[name] = redaction.redact_text(text).encode()

    def add_objects(self, name: str, bodies: Sequence[Mapping[str, Any]]) -> None:
        """Add objects without secrets, as a YAML list."""
        self.add_text(name, to_yaml({"items": [redaction.redact_object(each) for each in bodies]}))

    def pack(self) -> bytes:
        """Return the archive. It is packed in a directory that only the user can read."""
        with tempfile.TemporaryDirectory(prefix="vc-debug-") as folder:
            for name, content in self._files.items():
                path = Path(folder) / _FOLDER / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                path.chmod(0o600)
            packed = shutil.make_archive(f"{folder}/bundle", "gztar", folder, _FOLDER)
            return Path(packed).read_bytes()


async def run_collect(
    access: ConfigFlags, terminal: Terminal, *, name: str, options: BundleOptions
) -> None:
    """Write a bundle about the installation, and about one tenant if `name` is not empty."""
    files.check_writable(options.output, force=options.force)
    writer = BundleWriter()
    async with connect_super_cluster(access) as connection:
        unread = await collect(connection, writer, name, options.manager_namespace)
    content = writer.pack()
    files.write_private(options.output, content, force=options.force)
    if unread:
        terminal.print_warning(f"Not collected: {'. '.join(unread)}.")
    terminal.print_result(
        f"{options.output} written, {writer.count} files. Secrets were left out. Read it before you"
        " send it to someone."
    )


async def collect(
    connection: SuperConnection, writer: BundleWriter, name: str, manager_namespace: str
) -> list[str]:
    """Fill a bundle. Returns what could not be read. Raises KubeError without an API server."""
    super_client = connection.super_client
    versions = f"{version.format_version()}\nsuper cluster {await super_client.version()}\n"
    writer.add_text("version.txt", versions)
    links = await doctor.check_links(connection, name, manager_namespace)
    writer.add_text("doctor.json", json.dumps([asdict(each) for each in links], indent=4))
    reader, failed = PermissiveReader(super_client), list[str]()
    if name:
        body = await lookup.fetch_virtual_cluster(connection, name)
        root = specs.parse_virtual_cluster(body).tenant.root
        writer.add_objects("virtualclusters.yaml", [body])
        await _add_kinds(reader, writer, "tenant", ROOT_KINDS, root)
        failed += await _add_logs(super_client, reader, writer, "tenant", root)
    else:
        found = await reader.list(VIRTUAL_CLUSTERS)
        writer.add_objects("virtualclusters.yaml", found)
        writer.add_objects("snapshots.yaml", await reader.list(VIRTUAL_CLUSTER_SNAPSHOTS))
    await _add_kinds(reader, writer, "cluster", CLUSTER_KINDS, "")
    await _add_kinds(reader, writer, "components", COMPONENT_KINDS, manager_namespace)
    failed += await _add_logs(super_client, reader, writer, "components", manager_namespace)
    unread = [*(f"{each} (no right)" for each in reader.unknown), *failed]
    writer.add_text("not-collected.txt", "".join(f"{each}\n" for each in unread))
    return unread


async def _add_kinds(
    reader: PermissiveReader,
    writer: BundleWriter,
    folder: str,
    kinds: Sequence[Resource],
    namespace: str,
) -> None:
    for resource in kinds:
        found = await reader.list(resource, namespace)
        if reader.is_known(resource, namespace):
            bodies = [{"kind": resource.kind, **each} for each in found]
            writer.add_objects(f"{folder}/{resource.plural}.yaml", bodies)


async def _add_logs(
    super_client: Client,
    reader: PermissiveReader,
    writer: BundleWriter,
    folder: str,
    namespace: str,
) -> list[str]:
    """Add the logs and metrics of all pods of a namespace of components. Returns failures."""
    failed = []
    for pod in (await reader.list(PODS, namespace))[:MAX_PODS]:
        name = pod["metadata"]["name"]
        for container in _list_containers(pod):
            place = f"{folder}/logs/{name}/{container}"
            try:
                writer.add_text(
                    f"{place}.log", await _fetch_log(super_client, pod, container, previous=False)
                )
            except errors.KubeError as problem:
                failed.append(f"log of {name}/{container}: {problem}")
                continue
            with contextlib.suppress(errors.KubeError):  # most containers have no earlier run
                text = await _fetch_log(super_client, pod, container, previous=True)
                writer.add_text(f"{place}.previous.log", text)
        port = _find_metrics_port(pod)
        if port:
            try:
                path = PODS.build_path(namespace, f"{name}:{port}", "proxy/metrics")
                metrics = await super_client.raw("GET", path, accept="*/*")
                writer.add_text(f"{folder}/metrics/{name}.txt", metrics.decode(errors="replace"))
            except errors.KubeError as problem:
                failed.append(f"metrics of {name}: {problem}")
    return failed


def _list_containers(pod: Object) -> list[str]:
    spec = pod.get("spec") or {}
    return [
        str(each["name"])
        for field in ("initContainers", "containers")
        for each in spec.get(field) or ()
    ]


def _find_metrics_port(pod: Object) -> int | None:
    """Return the port with plain metrics. Node agents have another one, which needs a token."""
    ports = {
        port.get("name"): int(port["containerPort"])
        for container in (pod.get("spec") or {}).get("containers") or ()
        for port in container.get("ports") or ()
    }
    return None if "metrics" in ports else ports.get("http")


async def _fetch_log(client: Client, pod: Object, container: str, *, previous: bool) -> str:
    metadata = pod["metadata"]
    path = PODS.build_path(metadata["namespace"], metadata["name"], "log")
    params = {
        "container": container,
        "tailLines": str(LOG_LINES),
        "limitBytes": str(MAX_LOG_BYTES),
        "timestamps": "true",
        **({"previous": "true"} if previous else {}),
    }
    return (await client.raw("GET", path, params=params, accept="*/*")).decode(errors="replace")
