"""Status of a pod's networks, in the tenant's names.

Pure. Owns the fields of a status that the tenant sees, and the translation of the names. Must not
know who wrote the status.

Hazard: an entry must be built from the listed fields, and its name from the tenant's namespaces.
Otherwise the tenant reads names and devices of the super cluster.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from kubeio import Object
from syncer.model.unstructured import as_mapping
from syncer.rules.network.attachments.plugin_tables import is_address, is_flag, is_number, is_text
from tenancy import names

STATUS_ANNOTATIONS = ("k8s.v1.cni.cncf.io/network-status", "k8s.v1.cni.cncf.io/networks-status")
"""The annotation that Multus writes, and its older name."""
MAX_ENTRIES = 32
MAX_STATUS_CHARACTERS = 32 * 1024
_LINK_TEXT = 64


def build_status_patch(
    tenant_annotations: Mapping[str, str],
    super_annotations: Mapping[str, str],
    namespaces: Mapping[str, str],
) -> dict[str, str | None]:
    """Return the annotations to change on the tenant's pod. Empty if they are as they should be.

    `namespaces` are the tenant's namespaces by super namespace. A status that the twin does not
    have is the tenant's own, and stays.
    """
    changes: dict[str, str | None] = {}
    for key in STATUS_ANNOTATIONS:
        below = super_annotations.get(key)
        if below is None:
            continue
        wanted = translate_status(below, namespaces)
        if tenant_annotations.get(key) != wanted:
            changes[key] = wanted
    return changes


def translate_status(text: str, namespaces: Mapping[str, str]) -> str:
    """Return a status in the tenant's names. An entry with any other name is left out."""
    if len(text) > MAX_STATUS_CHARACTERS:
        return "[]"
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return "[]"
    entries = found if isinstance(found, list) else []
    shown = (_translate_entry(as_mapping(entry), namespaces) for entry in entries[:MAX_ENTRIES])
    kept = [entry for entry in shown if entry is not None]
    return orjson.dumps(kept, option=orjson.OPT_INDENT_2).decode()


def _translate_entry(entry: Mapping[str, Any], namespaces: Mapping[str, str]) -> Object | None:
    """Return one entry. None if its name is not the tenant's and it is no default network."""
    name = _translate_name(entry.get("name"), namespaces)
    is_default = entry.get("default") is True
    if not name and not is_default:
        return None
    shown: Object = {"name": name}
    for key, value in entry.items():
        if key in _FIELDS and _FIELDS[key](value):
            shown[key] = value
    resolvers = _select_addresses(as_mapping(entry.get("dns")).get("nameservers"))
    return {**shown, "dns": {"nameservers": resolvers} if resolvers else {}}


def _translate_name(name: Any, namespaces: Mapping[str, str]) -> str:
    """Return the tenant's name of a network. Empty if it is none of the tenant's."""
    namespace, slash, rest = name.partition("/") if isinstance(name, str) else ("", "", "")
    if not slash or namespace not in namespaces or not names.is_dns_subdomain(rest):
        return ""
    if rest == names.PRIMARY_NETWORK:
        return rest
    return f"{namespaces[namespace]}/{rest}"


def _select_addresses(value: Any) -> list[str]:
    return [each for each in value if is_address(each)] if isinstance(value, list) else []


def _is_short_text(value: Any) -> bool:
    return is_text(value) and len(value) <= _LINK_TEXT and all(32 < ord(one) < 127 for one in value)


def _is_addresses(value: Any) -> bool:
    return isinstance(value, list) and all(is_address(each) for each in value)


_FIELDS = {
    "default": is_flag,
    "gateway": _is_addresses,
    "interface": _is_short_text,
    "ips": _is_addresses,
    "mac": _is_short_text,
    "mtu": is_number,
}
"""Fields of an entry that the tenant sees. The others name devices of the node."""
