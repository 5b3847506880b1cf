"""NetworkAttachmentDefinitions: a tenant's additional networks, limited to its share.

Pure. Owns the twin. Its configuration is built from the checked values: VLAN and addresses
are those of the tenant's share, and names are unique to the tenant. Must not know who attaches.

Hazard: an object without a configuration must be refused. Multus would read a file of the node with
the object's name.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from kubeio import Object
from syncer.model import object_meta
from syncer.model.field_rules import BuiltField, FieldRule, FieldWalk
from syncer.model.rejections import ForbiddenObjectError, RejectedError, RejectionProblem
from syncer.model.replace_update import build_replacement
from syncer.model.tenant_view import TenantView
from syncer.model.unstructured import as_mapping
from syncer.rules.network.attachments import cni_config, ipam, segments
from syncer.rules.network.attachments.cni_config import CniConfig
from syncer.rules.network.attachments.segments import Segment
from tenancy import names
from tenancy.resources import NETWORK_ATTACHMENTS

KIND = NETWORK_ATTACHMENTS.kind
DEFINITION_SPEC: Mapping[str, FieldRule] = {
    "config": BuiltField(
        "definitions",
        "is parsed. Plugins, devices, VLANs and addresses must be offered to your cluster, and"
        " the copy has your share of them",
    ),
}
_PATH = "spec.config"
_NAME_DIGITS = 20


def build_definition(tenant_definition: Mapping[str, Any], view: TenantView) -> Object:
    """Return the twin of a NetworkAttachmentDefinition. Raises RejectedError."""
    segments.check_offer(view, "spec")
    metadata = tenant_definition["metadata"]
    if metadata["name"] == names.PRIMARY_NETWORK:
        text = "is a name that is reserved. Choose another"
        raise RejectedError(RejectionProblem("reserved-name", "metadata.name", text))
    said = as_mapping(tenant_definition.get("spec"))
    walk = FieldWalk()
    walk.walk_fields(said, DEFINITION_SPEC, "spec")
    if walk.problems:
        raise RejectedError(*walk.problems)
    try:
        config, segment = read_attachment(said, view)
        text = build_config(config, segment, key=f"{metadata['namespace']}/{metadata['name']}")
    except RejectedError as refused:
        raise ForbiddenObjectError(*refused.problems) from refused
    return {
        "apiVersion": NETWORK_ATTACHMENTS.api_version,
        "kind": KIND,
        "metadata": object_meta.build_super_metadata(
            KIND,
            view.tenant,
            metadata,
            super_namespace=view.get_super_namespace(metadata["namespace"]),
            passing=view.policy.metadata,
        ),
        "spec": {"config": text},
    }


def read_attachment(spec: Mapping[str, Any], view: TenantView) -> tuple[CniConfig, Segment]:
    """Return the configuration of a tenant's definition and its segment. Raises RejectedError."""
    config = cni_config.parse_config(spec.get("config"))
    offered = view.policy.network.attachments
    if config.main["type"] not in offered.types:
        text = f"is not offered. Use one of {', '.join(offered.types)}"
        raise cni_config.refuse(cni_config.TYPE_RULE, f"{_PATH}.type", text)
    for plugin in config.chained:
        if plugin["type"] not in offered.chained:
            listed = ", ".join(offered.chained) or "none"
            text = f"{plugin['type']} is not offered. Plugins that may follow: {listed}. Remove it"
            raise cni_config.refuse(cni_config.TYPE_RULE, f"{_PATH}.plugins", text)
    return config, segments.find_segment(config, view, _PATH)


def build_config(config: CniConfig, segment: Segment, *, key: str) -> str:
    """Return the configuration for the super cluster as JSON. `key` distinguishes the tenant's."""
    plugin = config.plugin
    main: Object = {
        name: value for name, value in config.main.items() if name not in ("ipam", plugin.vlan_key)
    }
    if plugin.vlan_key and segment.vlan:
        main |= {plugin.vlan_key: segment.vlan, **plugin.tagged}
    elif plugin.needs_vlan:
        text = f"needs a VLAN. Add {plugin.vlan_key}"
        raise cni_config.refuse(segments.VLAN_RULE, f"{_PATH}.{plugin.vlan_key}", text)
    main["ipam"] = ipam.build_ipam(config.ipam, segment, f"{_PATH}.ipam")
    head: Object = {
        "cniVersion": config.version,
        "name": _build_network_name(segment, key),
        "plugins": [main, *({**each} for each in config.chained)],
    }
    if config.disable_check:
        head["disableCheck"] = True
    return orjson.dumps(head, option=orjson.OPT_SORT_KEYS).decode()


def _build_network_name(segment: Segment, key: str) -> str:
    """Return the name of the network for CNI plugins, which the runtime keeps results under."""
    digest = hashlib.sha256(f"{segment.network_name}/{key}".encode()).hexdigest()
    return f"vc-{digest[:_NAME_DIGITS]}"


def build_change(live: Mapping[str, Any], twin: Object) -> Object | None:
    """Return the definition to put in place of the live one, or None."""
    return build_replacement(live, twin, table={"config": _COMPARED}, field="spec")


_COMPARED = BuiltField("definitions", "is compared as a whole")
