"""Context of a tenant in a user's kubeconfig: added, found and removed. Pure.

Owns the name of the context and the record that `disconnect` reads. Must not know files. Hazard:
only entries with the record may be removed. Entries of the user must stay as they are.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlsplit

import yaml

from kubeio.config.extensions import CONNECTION_EXTENSION, read_extension

Document = dict[str, Any]
_LISTS = {"clusters": "cluster", "users": "user", "contexts": "context"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionRecord:
    """Facts about a connection, stored in the extension of its context."""

    previousContext: str = ""  # noqa: N815 - a field of the file
    """Current context before `connect`."""
    superContext: str = ""  # noqa: N815
    """Context of the super cluster. Verbs use it while the tenant's context is the current one."""
    namespace: str = ""
    """Namespace of the VirtualCluster."""
    name: str = ""
    """Name of the VirtualCluster."""
    forwarder: str = ""
    """Identity of the forwarder. It runs while a context records it. Empty: no forwarder."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TenantAccess:
    """The cluster and the user of a tenant's kubeconfig."""

    cluster: Mapping[str, Any]
    user: Mapping[str, Any]

    @property
    def host(self) -> str:
        """Return the host of the server's URL."""
        return urlsplit(self.cluster["server"]).hostname or ""


def build_context_name(namespace: str, name: str, super_context: str) -> str:
    """Return the name of a tenant's context, `vc_NAMESPACE_NAME_SUPERCONTEXT`."""
    return "_".join(part for part in ("vc", namespace, name, super_context) if part)


def parse_tenant_access(kubeconfig: bytes) -> TenantAccess:
    """Return the cluster and the user of a kubeconfig that was checked before."""
    document = yaml.safe_load(kubeconfig)
    context = _find(document, "contexts", document.get("current-context") or "") or {}
    cluster = _find(document, "clusters", context.get("cluster") or "") or {}
    user = _find(document, "users", context.get("user") or "") or {}
    return TenantAccess(cluster=cluster, user=user)


def redirect(access: TenantAccess, port: int) -> TenantAccess:
    """Return the access through a port of loopback. The certificate must have the same name."""
    verified = access.cluster.get("tls-server-name") or access.host
    server = f"https://127.0.0.1:{port}"
    return TenantAccess(
        cluster={**access.cluster, "server": server, "tls-server-name": verified}, user=access.user
    )


def add_connection(
    document: Document, name: str, access: TenantAccess, record: ConnectionRecord
) -> Document:
    """Return a kubeconfig with the tenant's context, which is the current one.

    Entries of an earlier connection with this name are replaced, and its previous context is kept.
    """
    before = read_record(document, name)
    if before is not None and document.get("current-context") == name:
        record = replace_previous(record, before.previousContext)
    extension = {"name": CONNECTION_EXTENSION, "extension": _drop_empty(asdict(record))}
    entries = {
        "clusters": dict(access.cluster),
        "users": dict(access.user),
        "contexts": {"cluster": name, "user": name, "extensions": [extension]},
    }
    result = {"apiVersion": "v1", "kind": "Config", **document}
    for many, fields in entries.items():
        kept = [each for each in document.get(many) or () if each.get("name") != name]
        result[many] = [*kept, {"name": name, _LISTS[many]: fields}]
    return {**result, "current-context": name}


def remove_connection(document: Document, name: str, known: Collection[str]) -> Document:
    """Return a kubeconfig without a tenant's context.

    If it is the current one, the previous context is current again. It also is the previous context
    of connections that were made from this one. `known` has the contexts of all files.
    """
    record = read_record(document, name) or ConnectionRecord()
    result = dict(document)
    for many in _LISTS:
        result[many] = [each for each in document.get(many) or () if each.get("name") != name]
    previous = record.previousContext if record.previousContext in known else ""
    result["contexts"] = [_skip(each, name, previous) for each in result["contexts"]]
    if document.get("current-context") == name:
        result["current-context"] = previous
    return result


def replace_previous(record: ConnectionRecord, previous: str) -> ConnectionRecord:
    """Return a record with another previous context."""
    return ConnectionRecord(**{**asdict(record), "previousContext": previous})


def read_record(document: Mapping[str, Any], name: str) -> ConnectionRecord | None:
    """Return the record of a context. None if `connect` did not write the context."""
    fields = read_extension(_find(document, "contexts", name) or {})
    if fields is None:
        return None
    known = ConnectionRecord.__dataclass_fields__
    return ConnectionRecord(**{key: str(fields[key]) for key in known if fields.get(key)})


def find_connection(document: Mapping[str, Any], namespace: str, name: str) -> str:
    """Return the context of a VirtualCluster. Empty without one.

    An empty namespace stands for every namespace. The current context comes first.
    """
    current = document.get("current-context") or ""
    names = [str(each.get("name")) for each in document.get("contexts") or ()]
    for context in sorted(names, key=lambda each: each != current):
        record = read_record(document, context)
        if record and record.name == name and namespace in ("", record.namespace):
            return context
    return ""


def _find(document: Mapping[str, Any], many: str, name: str) -> dict[str, Any] | None:
    for each in document.get(many) or ():
        if each.get("name") == name:
            return each.get(_LISTS[many]) or {}
    return None


def _skip(entry: Mapping[str, Any], removed: str, previous: str) -> Mapping[str, Any]:
    """Return a context whose record names `previous` in place of the removed context."""
    fields = entry.get("context") or {}
    record = read_extension(fields)
    if record is None or record.get("previousContext") != removed:
        return entry
    changed = [
        {**each, "extension": {**each["extension"], "previousContext": previous}}
        if each.get("name") == CONNECTION_EXTENSION
        else each
        for each in fields["extensions"]
    ]
    return {**entry, "context": {**fields, "extensions": changed}}


def _drop_empty(fields: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in fields.items() if value}
